"""Estimator: a model function, trained, evaluated and asked in one process, with its checkpoints in model_dir."""

from __future__ import annotations

import copy
import inspect
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from sparkflow import metrics, summary, train
from sparkflow.data.iterator import iterates
from sparkflow.estimator import export, replicas
from sparkflow.estimator.exporting import write_export
from sparkflow.estimator.run_config import RunConfig
from sparkflow.estimator.spec import EstimatorSpec, ModeKeys
from sparkflow.estimator.warm_start import settings_of
from sparkflow.framework.conversions import make_tensor_proto
from sparkflow.framework.graph import Graph, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.random_seed import set_random_seed
from sparkflow.ops import control_flow
from sparkflow_runtime.wire.errors import OutOfRangeError
from sparkflow_runtime.wire.protos import ConfigProto

_log = logging.getLogger("sparkflow")


def _check_positive(**counts: int | None) -> None:
    for name, count in counts.items():
        if count is not None and count <= 0:
            raise ValueError(f"Must specify {name} > 0, given: {count}")


class Estimator:
    """model_fn(features, labels, mode, params, config) -> EstimatorSpec; the last four are passed where it names them.

    model_dir: where checkpoints and summaries are, of the config or a temporary folder by default. params: copies of
    them are handed to model_fn; {} by default. warm_start_from: a checkpoint, a folder with one, or an exported model,
    whose variables are the first values of the trainable ones; or WarmStartSettings, which say more.
    """

    def __init__(
        self, model_fn: Callable[..., EstimatorSpec], model_dir: str | None = None, config: RunConfig | None = None,
        params: Any = None, warm_start_from: Any = None,
    ):  # fmt: skip
        self._config, self._params = _with_folder(config, model_dir), copy.deepcopy(params or {})
        self._warm_start_settings = settings_of(warm_start_from)
        self._target = ""  # of the sessions that train; train_and_evaluate sets it in a cluster
        self._model_dir = str(self._config.model_dir)
        self._arguments = set(inspect.signature(model_fn).parameters)
        self._function = model_fn
        if "features" not in self._arguments:
            raise ValueError(f"model_fn ({model_fn}) must include features argument.")
        if params is not None and "params" not in self._arguments:
            raise ValueError(
                f"model_fn ({model_fn}) does not include params argument, but params ({params}) is passed."
            )

    model_dir = property(lambda self: self._model_dir)
    config = property(lambda self: self._config)
    params = property(lambda self: copy.deepcopy(self._params))

    @property
    def model_fn(self) -> Callable[..., EstimatorSpec]:
        """The model function, as (features, labels, mode, config)."""
        return lambda features, labels, mode, config=None: self._call(features, labels, mode)

    # ------------------------------------------------------------------ what it does

    def train(
        self, input_fn: Callable[..., Any], hooks: Sequence[Any] | None = None, steps: int | None = None,
        max_steps: int | None = None, saving_listeners: Any = None,
    ) -> Estimator:  # fmt: skip
        """So many steps more, up to max_steps in all, or until the input ends; from the last checkpoint, and to a new
        one. Raises ValueError where both are given, or one that is not above 0."""
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        _check_positive(steps=steps, max_steps=max_steps)
        if max_steps is not None and self._step() >= max_steps:
            _log.info("Skipping training since max_steps has already saved.")
            return self
        loss, self._target = None, self._target or replicas.target_of(self._config)
        with self._graph(), replicas.scope(self._config, self._target), self._devices():
            step = train.get_or_create_global_step()
            features, labels = self._inputs(input_fn, ModeKeys.TRAIN)
            spec = self._call(features, labels, ModeKeys.TRAIN)
            self._warm_start()
            stop = [train.StopAtStepHook(steps, max_steps)] if (steps, max_steps) != (None, None) else []
            every = [train.NanTensorHook(spec.loss), *stop, *(hooks or ()), *spec.training_hooks]
            if self._config.log_step_count_steps:
                shown = {"loss": spec.loss, "step": step}
                every.append(train.LoggingTensorHook(shown, every_n_iter=self._config.log_step_count_steps))
            if not any(made.op.name == "loss" for made in get_default_graph().get_collection(GraphKeys.SUMMARIES)):
                summary.scalar("loss", spec.loss)
            with self._training_session(spec, every, list(saving_listeners or ())) as session:
                while not session.should_stop():
                    _, loss = session.run([spec.train_op, spec.loss])
        if loss is not None:
            _log.info("Loss for final step: %s.", loss)
        return self

    def _devices(self) -> Any:
        """In a cluster: variables on the parameter servers, all else on this task."""
        config = self._config
        setter: Any = config.device_fn
        own = f"/job:{config.task_type}/task:{config.task_id}"
        if setter is None and replicas.number(config) > 1:
            setter = own
        if setter is None and self._target:
            setter = train.replica_device_setter(worker_device=own, cluster=config.cluster_spec)
        return get_default_graph().device(setter)

    def _training_session(self, spec: EstimatorSpec, hooks: list[Any], listeners: list[Any]) -> Any:
        """As the config has it: how often it saves, and how much it keeps."""
        config, scaffold = self._config, spec.scaffold or train.Scaffold()
        if scaffold.saver is None and not get_default_graph().get_collection(GraphKeys.SAVERS):
            keep = (config.keep_checkpoint_max, config.keep_checkpoint_every_n_hours)
            get_default_graph().add_to_collection(GraphKeys.SAVERS, train.Saver(None, False, True, *keep))
        chief = list(spec.training_chief_hooks)
        every, steps = config.save_checkpoints_secs, config.save_checkpoints_steps
        saving = [hook for hook in (*hooks, *chief) if isinstance(hook, train.CheckpointSaverHook)]
        if (every or steps) and not saving:
            saving = [train.CheckpointSaverHook(self._model_dir, every, steps, scaffold=scaffold)]
            chief += saving
        if listeners and not saving:
            raise ValueError(
                "There should be a CheckpointSaverHook to use saving_listeners. Please set one of the "
                "RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs."
            )
        for hook in saving[:1]:
            hook._listeners.extend(listeners)
        if replicas.number(config) > 1:
            return replicas.session(self, scaffold, hooks, chief)
        return train.MonitoredTrainingSession(
            self._target, config.is_chief or not self._target, self._model_dir, scaffold, hooks, chief,
            save_checkpoint_secs=None, save_checkpoint_steps=None, save_summaries_steps=config.save_summary_steps,
            config=self._session_config(), log_step_count_steps=config.log_step_count_steps,
        )  # fmt: skip

    def _session_config(self) -> ConfigProto:
        """The config's, or by default one in which a GPU that is not there is no error, as in TensorFlow."""
        return self._config.session_config or ConfigProto(allow_soft_placement=True)

    def evaluate(
        self, input_fn: Callable[..., Any], steps: int | None = None, hooks: Sequence[Any] | None = None,
        checkpoint_path: str | None = None, name: str | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """The metrics of eval_metric_ops, and "loss" and "global_step", over so many batches, or all; written as
        summaries too. Where nothing has been trained yet, of the model as it is initialized. Raises ValueError where
        steps is not above 0, or a metric is called "loss"."""
        _check_positive(steps=steps)
        path = self._checkpoint_if_any(checkpoint_path, "evaluate")
        with self._graph():
            step = train.get_or_create_global_step()
            features, labels = self._inputs(input_fn, ModeKeys.EVAL)
            spec = self._call(features, labels, ModeKeys.EVAL)
            ops = dict(spec.eval_metric_ops or {})
            if "loss" in ops:
                raise ValueError('Metric with name "loss" is not allowed: Estimator defines one of that name itself.')
            ops["loss"] = metrics.mean(spec.loss)
            updates = control_flow.group(*(update for _, update in ops.values()))
            values = {key: value for key, (value, _) in ops.items()}
            with self._restored(path, spec, [*(hooks or ()), *spec.evaluation_hooks]) as session:
                done = 0
                try:
                    while steps is None or done < steps:
                        session.run(updates)
                        done += 1
                except OutOfRangeError:
                    pass
                found = session.raw_session().run({**values, "global_step": step})
        numbers = (f"{key} = {value}" for key, value in sorted(found.items()) if not isinstance(value, bytes))
        _log.info("Saving dict for global step %d: %s", found["global_step"], ", ".join(numbers))
        self._write(found, name)
        return found

    def predict(
        self, input_fn: Callable[..., Any], predict_keys: Any = None, hooks: Sequence[Any] | None = None,
        checkpoint_path: str | None = None, yield_single_examples: bool = True,
    ) -> Iterator[Any]:  # fmt: skip
        """The predictions of one example after the other (of one batch, unless yield_single_examples). Where nothing
        has been trained yet, of the model as it is initialized."""
        path = self._checkpoint_if_any(checkpoint_path, "predict")
        with self._graph() as graph:
            train.get_or_create_global_step()
            features, _ = self._inputs(input_fn, ModeKeys.PREDICT)
            ends = bool(graph.get_collection(GraphKeys.QUEUE_RUNNERS)) or iterates(graph)
            spec = self._call(features, None, ModeKeys.PREDICT)
            wanted = _chosen(spec.predictions, predict_keys)
        with graph.as_default():
            session = self._restored(path, spec, [*(hooks or ()), *spec.prediction_hooks])
        with session:
            while True:
                try:
                    found = session.run(wanted)
                except OutOfRangeError:
                    return
                yield from _examples(found) if yield_single_examples else [found]
                if not ends:
                    return  # constants have no end: one batch

    def export_saved_model(
        self, export_dir_base: str, serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None, as_text: bool = False, checkpoint_path: str | None = None,
        experimental_mode: str = ModeKeys.PREDICT,
    ) -> bytes:  # fmt: skip
        """Write a SavedModel of the newest checkpoint into a new folder of export_dir_base, named by the time; its
        path.

        serving_input_receiver_fn: makes what the model is asked with (tf.estimator.export). assets_extra: files to
        copy, by where they go in assets.extra. The signatures are those of EstimatorSpec.export_outputs. Who loads it
        runs the local_init_op of the model's Scaffold, or the usual one.
        """
        return self._export(
            export_dir_base, serving_input_receiver_fn, assets_extra, as_text, checkpoint_path, experimental_mode, True
        )

    def _export(
        self, base: str, receive: Callable[[], Any], extra: Mapping[str, str] | None, as_text: bool,
        checkpoint_path: str | None, mode: str, strip: bool,
    ) -> bytes:  # fmt: skip
        path = self._checkpoint(checkpoint_path)
        with self._graph():
            train.get_or_create_global_step()
            receiver = receive()
            features, _ = export.checked_receiver(receiver)
            spec = self._call(features, None, mode)
            signatures = export.signatures(receiver, export.outputs_of(spec))
            with self._restored(path, spec, []) as session:
                session.graph._unsafe_unfinalize()
                start = spec.scaffold.local_init_op if spec.scaffold is not None else None
                return write_export(base, session.raw_session(), signatures, extra or {}, as_text, strip, start)

    def export_savedmodel(
        self, export_dir_base: str, serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None, as_text: bool = False, checkpoint_path: str | None = None,
        strip_default_attrs: bool = False,
    ) -> bytes:  # fmt: skip
        """export_saved_model, by its older name. strip_default_attrs: without the attributes that have their op's
        default, as it writes always."""
        return self._export(
            export_dir_base, serving_input_receiver_fn, assets_extra, as_text, checkpoint_path, ModeKeys.PREDICT,
            strip_default_attrs,
        )  # fmt: skip

    # ------------------------------------------------------------------ what it holds

    def eval_dir(self, name: str | None = None) -> str:
        """Where evaluations of that name write their summaries."""
        return os.path.join(self._model_dir, "eval" if not name else f"eval_{name}")

    def latest_checkpoint(self) -> str | None:
        return train.latest_checkpoint(self._model_dir)

    def get_variable_names(self) -> list[str]:
        """Of the newest checkpoint."""
        return [name for name, _ in train.list_variables(self._checkpoint(None))]

    def get_variable_value(self, name: str) -> np.ndarray:
        """From the newest checkpoint."""
        return train.load_variable(self._checkpoint(None), name)

    # ------------------------------------------------------------------ inside

    def _graph(self) -> Any:
        return _seeded(self._config.tf_random_seed)

    def _step(self) -> int:
        path = self.latest_checkpoint()
        return 0 if path is None else int(train.load_variable(path, "global_step"))

    def _checkpoint(self, path: str | None) -> str:
        found = path or self.latest_checkpoint()
        if found is None:
            raise ValueError(f"Could not find trained model in model_dir: {self._model_dir}.")
        return found

    def _checkpoint_if_any(self, path: str | None, to: str) -> str | None:
        """None where nothing has been trained: init_from_checkpoint, say, may fill such a model."""
        found = path or self.latest_checkpoint()
        if found is None:
            what = "Could not find trained model in model_dir: %s, running initialization to %s."
            _log.info(what, self._model_dir, to)
        return found

    def _inputs(self, input_fn: Callable[..., Any], mode: str) -> tuple[Any, Any]:
        known = set(inspect.signature(input_fn).parameters)
        given = {"mode": mode, "params": self._params_of(mode), "config": self._config}
        given["input_context"] = replicas.input_context(self._config, mode)
        found = input_fn(**{k: v for k, v in given.items() if k in known})
        if hasattr(found, "make_one_shot_iterator"):
            iterator = found.make_initializable_iterator()
            get_default_graph().add_to_collection(GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
            found = iterator.get_next()
        if not isinstance(found, (tuple, list)):
            return found, None
        if mode == ModeKeys.PREDICT:
            return found[0], None
        if len(found) != 2:
            raise ValueError(f"input_fn should return (features, labels) as a len 2 tuple, got {len(found)} elements")
        return found[0], found[1]

    def _call(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        given = {"labels": labels, "mode": mode, "params": self._params_of(mode), "config": self._config}
        if "labels" not in self._arguments and labels is not None:
            raise ValueError("model_fn does not take labels, but input_fn returns labels.")
        spec = self._function(features=features, **{k: v for k, v in given.items() if k in self._arguments})
        return self._called_as(mode, spec)

    def _params_of(self, mode: str) -> Any:
        """What input and model functions are given in that mode; they may change it."""
        return self.params

    def _called_as(self, mode: str, spec: Any) -> EstimatorSpec:
        """What the model function returned in that mode, checked."""
        if not isinstance(spec, EstimatorSpec):
            raise ValueError(f"model_fn should return an EstimatorSpec, got {type(spec).__name__}")
        return spec

    def _warm_start(self) -> None:
        if self._warm_start_settings is not None and not self.latest_checkpoint():
            train.warm_start(*self._warm_start_settings)

    def _restored(self, path: str | None, spec: EstimatorSpec, hooks: Sequence[Any]) -> Any:
        return train.SingularMonitoredSession(
            list(hooks), spec.scaffold, config=self._session_config(), checkpoint_filename_with_path=path
        )

    def _write(self, found: dict[str, Any], name: str | None) -> None:
        with summary.FileWriter(self.eval_dir(name)) as writer:
            proto = summary.Summary()
            for key, value in found.items():
                if key != "global_step":
                    proto.value.extend(_summaries(key, value))
            writer.add_summary(proto, found["global_step"])


def _with_folder(config: Any, model_dir: str | None) -> RunConfig:
    """The config, which says where the model is: there, or in a temporary folder."""
    made = RunConfig(**config) if isinstance(config, Mapping) else config or RunConfig()
    if not isinstance(made, RunConfig):
        raise ValueError(f"config must be an instance of `RunConfig`, but provided {config}.")
    if model_dir and made.model_dir and model_dir != made.model_dir:
        raise ValueError(
            "`model_dir` are set both in constructor and `RunConfig`, but with different values. In constructor: "
            f"'{model_dir}', in `RunConfig`: '{made.model_dir}'."
        )
    return made.replace(model_dir=str(model_dir or made.model_dir or tempfile.mkdtemp()))


def _summaries(key: str, value: Any) -> list[Any]:
    """What an evaluation's events say of a metric: a number, the summaries that a string holds, or an array."""
    if isinstance(value, bytes):
        try:
            found = list(summary.Summary.FromString(value).value)
        except DecodeError:
            _log.warning("Metric %s is no Summary, so events do not show it", key)
            return []
        for i, one in enumerate(found):
            one.tag = f"{key}/{i}"
        return found
    if np.ndim(value) == 0:
        return [summary.Summary.Value(tag=key, simple_value=float(value))]
    made = summary.Summary.Value(tag=key, node_name=key)
    made.tensor.CopyFrom(make_tensor_proto(value))
    return [made]


def _seeded(seed: int | None) -> Any:
    graph = Graph()
    if seed is not None:
        with graph.as_default():
            set_random_seed(seed)
    return graph.as_default()


def _chosen(predictions: Any, keys: Any) -> Any:
    if not keys:
        return predictions
    names = [keys] if isinstance(keys, str) else list(keys)
    if not isinstance(predictions, dict) or not set(names) <= set(predictions):
        raise ValueError(f"Expected to run at least one output from {predictions!r}, provided {names}.")
    return {k: predictions[k] for k in names}


def _examples(found: Any) -> Iterator[Any]:
    if not isinstance(found, dict):
        yield from found
        return
    lengths = {len(v) for v in found.values()}
    if len(lengths) != 1:
        raise ValueError(f"Batch length of predictions should be same; got {sorted(lengths)}")
    for i in range(lengths.pop()):
        yield {k: v[i] for k, v in found.items()}
