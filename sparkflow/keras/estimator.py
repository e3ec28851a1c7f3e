"""tf.keras.estimator: a compiled model as an Estimator, which trains it in a cluster too."""

from __future__ import annotations

from typing import Any

from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.export import PredictOutput
from sparkflow.estimator.spec import EstimatorSpec, ModeKeys
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.keras import backend, configs, optimizers
from sparkflow.keras.compiled import Compiled, _loss_of
from sparkflow.keras.known import placeholders
from sparkflow.keras.optimizer import TFOptimizer
from sparkflow.keras.saving import load_model
from sparkflow.ops import array, control_flow, math_reduce, operators  # noqa: F401 - x + y on tensors
from sparkflow.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
from sparkflow.train.scaffold import Scaffold
from sparkflow.train.training_util import get_or_create_global_step


def model_to_estimator(
    keras_model: Any = None,
    keras_model_path: str | None = None,
    custom_objects: dict[str, Any] | None = None,
    model_dir: str | None = None,
    config: Any = None,
    checkpoint_format: str | None = None,
) -> Estimator:
    """keras_model: compiled; or keras_model_path, where one was saved. Its weights as they are now are those that
    training begins with. Features come by the names of its inputs, labels by those of its outputs, where
    there are several.

    Raises ValueError where neither or both are given, or the model is not compiled.
    """
    if (keras_model is None) == (keras_model_path is None):
        raise ValueError("Give either `keras_model` or `keras_model_path`")
    model = keras_model if keras_model is not None else load_model(keras_model_path, custom_objects)
    if model._compile_arguments is None:
        raise ValueError(f"Model {model.name} has not been compiled yet: call `model.compile()` first")
    yours = {type(la).__name__: type(la) for la in model._everything() if not _is_ours(la)}
    with model.weights[0].op.graph.as_default():
        values = model.get_weights()
    made_of = configs.plain(model), {**yours, **(custom_objects or {})}
    return Estimator(_Function(*made_of, dict(model._compile_arguments), values), model_dir, config)


def _is_ours(layer: Any) -> bool:
    return type(layer).__module__.startswith("sparkflow.")


class _Function:
    """The model_fn: it makes the model anew in the graph that it is called for."""

    def __init__(self, config: dict[str, Any], kinds: dict[str, Any], compiled: dict[str, Any], values: list[Any]):
        optimizer = compiled.pop("optimizer")
        self._config, self._kinds, self._compiled, self._values = config, kinds, compiled, values
        self._of_train = optimizer.optimizer if isinstance(optimizer, TFOptimizer) else None
        self._optimizer = None if self._of_train is not None else optimizers.serialize(optimizer)

    def __call__(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        training = mode == ModeKeys.TRAIN
        backend.set_learning_phase(int(training))
        model = configs.model_of(self._config, self._kinds)
        names = model.input_names
        given = [features[n] for n in names] if isinstance(features, dict) else [features]
        given = [_of_rank(convert_to_tensor(x), t) for x, t in zip(given, model.inputs)]
        first = {id(v) for v in (*model.updates, *model.losses)}
        out = model(given if len(given) > 1 else given[0], training=training)
        outs = list(out) if isinstance(out, (list, tuple)) else [out]
        predictions = dict(zip(model.output_names, outs))
        if mode == ModeKeys.PREDICT:
            serving = {DEFAULT_SERVING_SIGNATURE_DEF_KEY: PredictOutput(predictions)}
            return EstimatorSpec(mode, predictions=predictions, export_outputs=serving)
        compiled = Compiled(model, {**self._compiled, "optimizer": None})
        wanted = [labels[o.name] for o in compiled.fed] if isinstance(labels, dict) else [labels]
        pairs = [(o, outs[compiled.outputs.index(o)], convert_to_tensor(t)) for o, t in zip(compiled.fed, wanted)]
        pairs = [(o, y, _of_rank(t, y)) for o, y, t in pairs]
        loss: Any = None
        for o, y, t in pairs:
            if o.loss is not None:
                part = _loss_of(o, t, y, None) * o.weight
                loss = part if loss is None else loss + part
        for extra in (x for x in model.losses if id(x) not in first or not _needs_feeds(x)):
            loss = loss + math_reduce.reduce_mean(extra)
        measured = {}
        for o, y, t in pairs:
            for name, metric, _ in o.measures:
                value = metric(t, y)
                for v in metric.variables:
                    get_default_graph().add_to_collection(GraphKeys.LOCAL_VARIABLES, v)
                measured[name] = (array.identity(metric.result()), value)
        train_op = self._trained(model, loss, first) if training else None
        scaffold = Scaffold(init_fn=lambda _, session: self._begin(model, session)) if training else None
        return EstimatorSpec(
            mode, predictions=predictions, loss=loss, train_op=train_op, eval_metric_ops=measured, scaffold=scaffold
        )

    def _trained(self, model: Any, loss: Any, first: set[int]) -> Any:
        params = model.trainable_weights
        updates = [u for u in model.updates if id(u) not in first]
        if self._of_train is not None:
            with get_default_graph().control_dependencies(updates):
                return self._of_train.minimize(loss, get_or_create_global_step(), params)
        optimizer = optimizers.deserialize(self._optimizer, self._kinds)  # type: ignore[arg-type]
        optimizer.iterations = get_or_create_global_step()
        return control_flow.group(*optimizer.get_updates(loss, params), *updates)

    def _begin(self, model: Any, session: Any) -> None:
        for variable, value in zip(model.weights, self._values):
            variable.load(value, session)


def _of_rank(x: Any, like: Any) -> Any:
    """[n] as [n, 1] where the model has two axes."""
    return array.expand_dims(x, -1) if x.shape.ndims == 1 and like.shape.ndims == 2 else x


def _needs_feeds(x: Any) -> bool:
    return bool(placeholders(x))
