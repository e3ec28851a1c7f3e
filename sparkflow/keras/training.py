"""Trained: compile, fit, evaluate and predict of tf.keras' models, in the session of `backend.get_session()`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.framework.graph import get_default_graph
from sparkflow.keras import backend, optimizers
from sparkflow.keras.callback import CallbackList
from sparkflow.keras.compiled import Compiled
from sparkflow.keras.feeding import Arrays, Given, batch_of, comes_in_batches, holds_tensors
from sparkflow.keras.known import Known
from sparkflow.keras.metric import Metric
from sparkflow.keras.progress import shown


class Trained(Known):
    """What Model has beside being a layer. Names of arguments are Keras'; what only says how many processes or threads
    read ahead (workers, max_queue_size, use_multiprocessing) changes nothing here."""

    stop_training = False

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        metrics: Any = None,
        loss_weights: Any = None,
        sample_weight_mode: Any = None,
        weighted_metrics: Any = None,
        target_tensors: Any = None,
        distribute: Any = None,
        **kwargs: Any,
    ) -> None:
        """How the model is trained. loss: a name, a function (y_true, y_pred), an object, or one for each output, by
        place or by name; losses of layers and by add_loss are added. metrics: of each output, alike.

        A class whose outputs are not known yet is compiled once it sees data.
        """
        if kwargs or target_tensors is not None or distribute is not None:
            given = sorted([*kwargs, *(["target_tensors"] if target_tensors is not None else [])])
            raise ValueError(f"compile: {', '.join(given) or 'distribute'} cannot be given in a graph of sparkflow")
        self._compile_arguments = {
            "optimizer": optimizer, "loss": loss, "metrics": metrics, "loss_weights": loss_weights,
            "weighted_metrics": weighted_metrics,
        }  # fmt: skip
        self._compile_arguments["optimizer"] = self.optimizer = optimizers.get(optimizer)
        self.loss, self._compiled = loss, None
        if self._output_tensors() is not None:
            self._compiled = Compiled(self, self._compile_arguments)

    # ------------------------------------------------------------------ metrics

    @property
    def metrics(self) -> list[Metric]:
        return self._compiled.metrics() if self._compiled is not None else self._added_metrics()

    @property
    def metrics_names(self) -> list[str]:
        return self._compiled.metrics_names() if self._compiled is not None else ["loss"]

    def reset_metrics(self) -> None:
        """Every metric to zero, or as it says itself."""
        plain = []
        for metric in self.metrics:
            if type(metric).reset_states is Metric.reset_states and type(metric).reset_state is Metric.reset_state:
                plain += metric._zeroing()
            else:
                (metric.reset_states if type(metric).reset_states is not Metric.reset_states else metric.reset_state)()
        if plain:
            backend.get_session().run(plain)

    def _make_train_step(self) -> None:
        """The optimizer's variables are there then."""
        compiled = self._ready()
        compiled.step("train", [False] * len(compiled.fed))

    # ------------------------------------------------------------------ one batch

    def _ready(self, x: Any = None) -> Compiled:
        if self._compile_arguments is None:
            raise RuntimeError(
                f"You must compile model {self.name} before training/testing. Use `model.compile(optimizer, loss)`."
            )
        if x is not None:
            self._know_inputs(x)
        if self._compiled is None:
            raise RuntimeError(f"Model {self.name} does not know its inputs yet")
        return self._compiled

    def _take(self, kind: str, batch: Any) -> list[Any]:
        """One step; its results."""
        x, y, w = batch
        compiled = self._compiled
        assert compiled is not None
        with self._graph_here():
            step = compiled.step(kind, [v is not None for v in w])
            return step([*x, *y, *(v for v in w if v is not None)])

    def _graph_here(self) -> Any:
        tensors = self._input_tensors()
        return (tensors[0].graph if tensors else get_default_graph()).as_default()

    def train_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None, reset_metrics: bool = True
    ) -> Any:
        """One step of the optimizer. Returns the loss, with metrics a list of it and of them."""
        self._ready(x)
        out = self._take("train", batch_of(self, x, y, sample_weight, class_weight))
        if reset_metrics:
            self.reset_metrics()
        return _plain(out)

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, reset_metrics: bool = True) -> Any:
        self._ready(x)
        out = self._take("test", batch_of(self, x, y, sample_weight))
        if reset_metrics:
            self.reset_metrics()
        return _plain(out)

    def predict_on_batch(self, x: Any) -> Any:
        self._know_inputs(x)
        found = self._predicted(batch_of(self, x, targets=False))
        return found[0] if len(found) == 1 else found

    def _predicted(self, batch: Any) -> list[Any]:
        if self._compiled is None:
            self._predicts = getattr(self, "_predicts", None) or _Predicting(self)
            with self._graph_here():
                return self._predicts.step("predict", ())(batch[0])
        return self._take("predict", (batch[0], [], []))

    # ------------------------------------------------------------------ many batches

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: int = 1,
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: Any = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_freq: Any = 1,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Train on arrays, a generator or Sequence, a dataset, or tensors. Returns a History of each epoch's numbers.

        Arrays are shuffled by numpy's random numbers. Raises ValueError on data that does not fit the model.
        """
        epochs = kwargs.pop("nb_epoch", epochs)
        if kwargs:
            raise TypeError(f"Unrecognized keyword arguments: {sorted(kwargs)}")
        train = self._source(x, y, sample_weight, class_weight, batch_size, steps_per_epoch, shuffle)
        validation = None
        if validation_data is not None:
            validation = self._validation(validation_data, batch_size, validation_steps)
            validation.restarts = True
        elif validation_split and not 0.0 < validation_split < 1.0:
            raise ValueError(f"validation_split must be between 0 and 1, got {validation_split}")
        elif validation_split:
            if not isinstance(train, Arrays):
                raise ValueError("`validation_split` is only supported when the data are arrays")
            train, validation = _split(train, validation_split)
        return self._fit(train, validation, epochs, initial_epoch, verbose, callbacks, validation_freq)

    def _fit(
        self, train: Any, validation: Any, epochs: int, initial_epoch: int, verbose: int, given: Any, frequency: Any
    ) -> Any:
        params = {
            "batch_size": getattr(train, "batch_size", None), "epochs": epochs, "verbose": verbose,
            "steps": None if train.count else train.steps, "samples": train.count,
            "do_validation": validation is not None, "metrics": self._logged(validation is not None),
        }  # fmt: skip
        group = CallbackList(given, self, params, verbose)
        self.history = group.history
        self.stop_training = False
        group.on_train_begin()
        for epoch in range(initial_epoch, epochs):
            if self.stop_training:
                break
            self.reset_metrics()
            group.on_epoch_begin(epoch)
            logs = self._pass("train", train, group)
            if validation is not None and _is_due(epoch, frequency):
                tested = self._evaluated(validation, group)
                logs.update({f"val_{name}": value for name, value in tested.items()})
            group.on_epoch_end(epoch, logs)
        group.on_train_end()
        return group.history

    def _logged(self, validates: bool) -> list[str]:
        names = self.metrics_names
        return names + [f"val_{n}" for n in names] if validates else names

    def _pass(self, kind: str, source: Any, group: Any) -> dict[str, Any]:
        """Once through the data: the loss's mean over examples (over batches where they come one by one), and the
        metrics as they are after the last batch."""
        total, seen, out = 0.0, 0, []
        names = ["loss"]
        for index, (size, batch) in enumerate(source.epoch()):
            group.batch_begin(kind, index, {"batch": index, "size": size})
            out = self._take(kind, batch)
            if not index:
                names = self.metrics_names  # a class says them once it is called
            weight = size if source.count else 1
            total, seen = total + float(out[0]) * weight, seen + weight
            group.batch_end(kind, index, {"batch": index, "size": size, **dict(zip(names, map(_number, out)))})
            if kind == "train" and self.stop_training:
                break
        if not seen:
            raise ValueError("The data gave no batch" + (": it is used up" if not source.count else ""))
        return {"loss": total / seen, **dict(zip(names[1:], map(_number, out[1:])))}

    def _evaluated(self, source: Any, group: Any) -> dict[str, Any]:
        self.reset_metrics()
        group.on_test_begin()
        found = self._pass("test", source, group)
        group.on_test_end()
        return found

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: int = 1,
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
    ) -> Any:
        """The loss, with metrics a list of it and of them (metrics_names says which)."""
        source = self._source(x, y, sample_weight, None, batch_size, steps, False)
        params = {"batch_size": getattr(source, "batch_size", None), "steps": source.steps, "samples": source.count,
                  "verbose": verbose}  # fmt: skip
        found = self._evaluated(source, CallbackList(callbacks, self, params, 0))
        if verbose:
            print(" - ".join(f"{name}: {shown(value)}" for name, value in found.items()))
        values = [found[name] for name in self.metrics_names]
        return values[0] if len(values) == 1 else values

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: int = 0,
        steps: int | None = None,
        callbacks: Any = None,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
    ) -> Any:
        """The outputs of all examples, one array for each output."""
        if comes_in_batches(x):
            source: Any = Given(self, (x,) if holds_tensors(x) else x, steps, targets=False)
        else:
            self._know_inputs(x)
            source = Arrays(batch_of(self, x, targets=False), batch_size or 32, steps=steps)
        group = CallbackList(callbacks, self, {"steps": source.steps, "samples": source.count}, 0)
        parts: list[list[Any]] = []
        group.on_predict_begin()
        for index, (size, batch) in enumerate(source.epoch()):
            group.batch_begin("predict", index, {"batch": index, "size": size})
            parts.append(self._predicted(batch))
            group.batch_end("predict", index, {"batch": index, "size": size, "outputs": parts[-1]})
        group.on_predict_end()
        found = [np.concatenate(p) for p in zip(*parts)]
        return found[0] if len(found) == 1 else found

    # ------------------------------------------------------------------ where batches come from

    def _source(
        self, x: Any, y: Any, sample_weight: Any, class_weight: Any, batch_size: int | None, steps: int | None,
        shuffle: Any,
    ) -> Any:  # fmt: skip
        self._ready() if self._compiled is not None else self._ready_for(x)
        if comes_in_batches(x) or holds_tensors(y):
            if y is not None and not holds_tensors((x, y)):
                raise ValueError("`y` cannot be given beside a generator, Sequence or dataset: it gives (x, y) itself")
            if steps is None and holds_tensors((x, y)):
                raise ValueError("When using data tensors as input to a model, you should specify `steps_per_epoch`")
            data = (x, *((y,) if y is not None else ()), *((sample_weight,) if sample_weight is not None else ()))
            return Given(self, data if holds_tensors((x, y)) else x, steps, class_weight)
        parts = batch_of(self, x, y, sample_weight, class_weight)
        return Arrays(parts, batch_size or 32, shuffle, steps)

    def _ready_for(self, x: Any) -> None:
        if self._compile_arguments is None:
            self._ready()
        if not comes_in_batches(x):
            self._ready(x)

    def _validation(self, data: Any, batch_size: int | None, steps: int | None) -> Any:
        if comes_in_batches(data) and not holds_tensors(data):
            return self._source(data, None, None, None, batch_size, steps, False)
        if not isinstance(data, (tuple, list)) or len(data) not in (2, 3):
            raise ValueError(f"validation_data is (x, y) or (x, y, sample_weight), got {type(data).__name__}")
        weight = data[2] if len(data) == 3 else None
        return self._source(data[0], data[1], weight, None, batch_size, steps, True)

    # ------------------------------------------------------------------ older names

    def fit_generator(self, generator: Any, steps_per_epoch: int | None = None, epochs: int = 1, **kwargs: Any) -> Any:
        return self.fit(generator, steps_per_epoch=steps_per_epoch, epochs=epochs, **kwargs)

    def evaluate_generator(self, generator: Any, steps: int | None = None, verbose: int = 0, **kwargs: Any) -> Any:
        return self.evaluate(generator, steps=steps, verbose=verbose, **kwargs)

    def predict_generator(self, generator: Any, steps: int | None = None, **kwargs: Any) -> Any:
        return self.predict(generator, steps=steps, **kwargs)


class _Predicting(Compiled):
    """The steps of a model that nobody compiled."""

    def __init__(self, model: Any):
        self.model, self.outputs, self.steps, self.optimizer, self.trained = model, [], {}, None, []


def _number(value: Any) -> Any:
    return float(value) if np.ndim(value) == 0 else value


def _plain(out: list[Any]) -> Any:
    return out[0] if len(out) == 1 else list(out)


def _split(source: Arrays, share: float) -> tuple[Arrays, Arrays]:
    """The last examples for validation. They are shuffled too, as Keras does: its random numbers are the same then."""
    at = int(source.count * (1.0 - share))
    if at == 0 or at == source.count:
        raise ValueError(f"validation_split={share} leaves no examples to train or to validate of {source.count}")
    cut = lambda take: tuple([None if v is None else v[take] for v in part] for part in source.parts)  # noqa: E731
    first: Any = cut(slice(None, at))
    last: Any = cut(slice(at, None))
    return Arrays(first, source.batch_size, source.shuffle), Arrays(last, source.batch_size, True)


def _is_due(epoch: int, frequency: Any) -> bool:
    if isinstance(frequency, int):
        return (epoch + 1) % frequency == 0
    return epoch + 1 in frequency
