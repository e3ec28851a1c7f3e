"""tf.contrib.layers.batch_norm: tf.layers' by other names, with weights of examples and a mean without bias."""

from __future__ import annotations

from typing import Any

from sparkflow import layers as core
from sparkflow.contrib.arg_scopes import add_arg_scope
from sparkflow.contrib.layers.layers import _finished, _scope
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import array, math, nn_norm
from sparkflow.ops.control_flow_cond import smart_cond
from sparkflow.train.moving_averages import assign_moving_average


class _BatchNorm(core.BatchNormalization):
    """weights: [batch], of each example in the moments, or None. debias: whether moving_mean begins with the first
    means, not with zeros."""

    def __init__(self, weights: Any, debias: bool, **settings: Any):
        super().__init__(**settings)
        self._weights, self._debias = weights, debias

    def call(self, inputs: Any, training: Any = False, **kwargs: Any) -> Tensor:
        self._training = training
        return super().call(inputs, training, **kwargs)

    def _moments(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        if self._weights is None:
            return super()._moments(inputs)
        weights = array.reshape(self._weights, [-1, *[1] * (len(inputs._shape) - 1)])  # type: ignore[arg-type]
        return nn_norm.weighted_moments(math.cast(inputs, self._kind), self._others, weights)

    def _follow_one(self, moving: Any, new: Tensor, rate: Any) -> None:
        if not self._debias or moving is not self.moving_mean:
            super()._follow_one(moving, new, rate)
            return
        follow = lambda: assign_moving_average(moving, new, self.momentum)  # noqa: E731
        self.add_update(smart_cond(self._training, follow, moving.value))


@add_arg_scope
def batch_norm(
    inputs: Any, decay: float = 0.999, center: bool = True, scale: bool = False, epsilon: float = 0.001,
    activation_fn: Any = None, param_initializers: Any = None, param_regularizers: Any = None,
    updates_collections: Any = GraphKeys.UPDATE_OPS, is_training: Any = True, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
    batch_weights: Any = None, fused: bool | None = None, data_format: str = "NHWC",
    zero_debias_moving_mean: bool = False, scope: Any = None, renorm: bool = False, renorm_clipping: Any = None,
    renorm_decay: float = 0.99, adjustment: Any = None,
) -> Tensor:  # fmt: skip
    """tf.layers.batch_normalization under other names: decay is its momentum, and gamma is left out by default.

    updates_collections None: the moving statistics are updated before the output is there. batch_weights: [batch], of
    each example in the batch's moments. zero_debias_moving_mean: moving_mean does not start out near 0; it has
    biased and local_step beside it, in <scope>/<scope>/moving_mean. Unless fused is False, inputs [batch, channels] are
    normalized by the fused op as images are, whose variance for the moving one is divided by n - 1.

    Raises ValueError on an unknown data_format, an unknown rank or number of channels, and on renorm together with
    batch_weights or zero_debias_moving_mean.
    """
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError(f"data_format has to be either NCHW or NHWC., got {data_format!r}")
    if renorm and (batch_weights is not None or zero_debias_moving_mean):
        raise ValueError("renorm is not supported with batch_weights or zero_debias_moving_mean")
    x = convert_to_tensor(inputs)
    channel = 1 if data_format == "NCHW" else -1
    _check(x, channel, batch_weights)
    one_op = fused is not False and batch_weights is None and not renorm and adjustment is None
    first, penalty = param_initializers or {}, param_regularizers or {}
    with _scope(scope, "BatchNorm", reuse, variables_collections) as opened:
        layer = _BatchNorm(
            batch_weights, zero_debias_moving_mean,
            axis=channel, momentum=decay, epsilon=epsilon, center=center, scale=scale,
            beta_initializer=first.get("beta"), gamma_initializer=first.get("gamma"),
            moving_mean_initializer=first.get("moving_mean"),
            moving_variance_initializer=first.get("moving_variance"), beta_regularizer=penalty.get("beta"),
            gamma_regularizer=penalty.get("gamma"), renorm=renorm, renorm_clipping=renorm_clipping,
            renorm_momentum=renorm_decay, adjustment=adjustment, fused=fused if one_op else False,
            trainable=trainable, name=opened.name, _scope=opened, _reuse=reuse,
        )  # fmt: skip
        out = _flat(layer, x, channel, is_training) if one_op and len(x._shape) == 2 else layer(x, training=is_training)  # type: ignore[arg-type]
        out = _updated(out, layer.updates, updates_collections)
        return _finished(out, None, None, activation_fn, outputs_collections, opened.name)


def _check(x: Tensor, channel: int, batch_weights: Any) -> None:
    if x._shape is None:
        raise ValueError(f"Inputs {x.name} has undefined rank.")
    if x._shape[channel] is None:
        raise ValueError(f"Inputs {x.name} has undefined channels dimension {x.shape}.")
    if batch_weights is not None:
        x.shape[:1].assert_is_compatible_with(convert_to_tensor(batch_weights).shape)


def _flat(layer: Any, x: Tensor, channel: int, is_training: Any) -> Tensor:
    """Rows as images of one pixel."""
    channels = x._shape[channel]  # type: ignore[index]
    image = array.reshape(x, [-1, channels, 1, 1] if channel == 1 else [-1, 1, 1, channels])
    out = array.reshape(layer(image, training=is_training), array.shape(x))
    out.set_shape(x._shape)
    return out


def _updated(out: Tensor, updates: list[Any], collections: Any) -> Tensor:
    """`out`, after the updates where they join no collection, else as it is."""
    graph = get_default_graph()
    if collections == GraphKeys.UPDATE_OPS:
        return out
    kept = graph.get_collection_ref(GraphKeys.UPDATE_OPS)
    kept[:] = [u for u in kept if u not in updates]
    if collections is not None:
        for update in updates:
            graph.add_to_collections(collections, update)
        return out
    with graph.control_dependencies(updates):
        return array.identity(out)
