"""Batch normalisation as a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import constant
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.shapes import TensorShape
from sparkflow.layers import renorm as renorm_module
from sparkflow.layers.base import Layer, in_own_scopes
from sparkflow.ops import (
    array,
    array_join,
    init_ops,
    math,
    math_reduce,
    nn,
    nn_norm,
    operators,  # noqa: F401 - x + y on tensors
    state,
)
from sparkflow.ops.control_flow_cond import cond, smart_cond, smart_constant_value
from sparkflow.ops.variable_scope import get_variable_scope, variable_scope
from sparkflow.train.strategy import get_strategy
from sparkflow_runtime.wire import dtypes


class BatchNormalization(Layer):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta along every axis but `axis`. Source: Ioffe and Szegedy 2015.

    axis: one, or several, whose variables have the rank of the inputs. fused: by one op, where the inputs have rank 4
    and axis is 1 or 3; otherwise it says nothing.

    Makes <name>/gamma, <name>/beta, and <name>/moving_mean, <name>/moving_variance, which are not trained. While
    training the batch's own statistics are used and the moving ones follow them: their updates lie in the collection
    UPDATE_OPS and must be run with the training op. Otherwise the moving ones are used. renorm: batch renormalisation
    (`renorm`), with the variables moving_stddev, renorm_mean and renorm_stddev.

    virtual_batch_size: so many examples (which must divide the batch) are normalized by their own statistics, of which
    the moving ones follow the mean; the variables have the rank of the inputs and one more. adjustment: a function of
    the shape of the inputs that gives (scale, bias), applied before gamma and beta while training, as noise in them.
    """

    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = None,
        gamma_initializer: Any = None,
        moving_mean_initializer: Any = None,
        moving_variance_initializer: Any = None,
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        renorm: bool = False,
        renorm_clipping: Any = None,
        renorm_momentum: float = 0.99,
        fused: bool | None = None,
        trainable: bool = True,
        virtual_batch_size: int | None = None,
        adjustment: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ):
        super().__init__(trainable, name, **kwargs)
        self.momentum, self.epsilon = momentum, epsilon
        self.axis: list[int] = list(axis) if isinstance(axis, (list, tuple)) else [axis]  # type: ignore[list-item]
        for what, wanted in (
            ("renorm", renorm),
            ("virtual_batch_size", virtual_batch_size),
            ("adjustment", adjustment),
        ):
            if wanted and fused:
                raise ValueError(f"Passing both `fused=True` and `{what}={wanted!r}` is not supported")
        if virtual_batch_size is not None:
            if virtual_batch_size <= 0:
                raise ValueError(f"virtual_batch_size must be a positive integer, got {virtual_batch_size!r}")
            if 0 in self.axis or adjustment is not None:
                raise ValueError("virtual_batch_size goes neither with adjustment nor with the batch's axis 0")
        if renorm and (virtual_batch_size or adjustment):
            raise ValueError("renorm with virtual_batch_size or adjustment is not supported; leave one of them out")
        self.virtual_batch_size, self.adjustment = virtual_batch_size, adjustment
        self.center, self.scale = center, scale
        self.fused = False if renorm or virtual_batch_size or adjustment else fused
        self.renorm, self.renorm_momentum = renorm, renorm_momentum
        self.renorm_clipping = renorm_module.check_clipping(renorm_clipping if renorm else None)
        ones, zeros = init_ops.ones_initializer(), init_ops.zeros_initializer()
        self._of_gamma = {
            "initializer": gamma_initializer or ones,
            "regularizer": gamma_regularizer,
            "constraint": gamma_constraint,
        }
        self._of_beta = {
            "initializer": beta_initializer or zeros,
            "regularizer": beta_regularizer,
            "constraint": beta_constraint,
        }
        self._of_moving = [moving_mean_initializer or zeros, moving_variance_initializer or ones]
        self.gamma = self.beta = None

    @in_own_scopes
    def build(self, input_shape: TensorShape) -> None:
        dims, axes = input_shape.dims_, self.axis
        if dims is None or any(not -len(dims) <= a < len(dims) or dims[a] is None for a in axes):
            raise ValueError(
                f"batch_normalization: axis {self.axis} of the inputs must have a known size, got shape "
                f"{shapes.show(dims)}"
            )
        self.axis = [a % len(dims) for a in axes]
        self._others = [a for a in range(len(dims)) if a not in self.axis]
        whole = len(axes) > 1 or self.virtual_batch_size is not None
        size = [dims[a] if a in self.axis else 1 for a in range(len(dims))] if whole else [dims[self.axis[0]]]
        if self.virtual_batch_size is not None:  # [virtual batch, which of them, ...]: each by itself
            size.insert(1, 1)
            self.axis, self._others = [a + 1 for a in self.axis], [0, *(a + 1 for a in self._others[1:])]
        self.fused = self.fused is not False and len(dims) == 4 and self.axis in ([1], [3])
        half = self._dtype in (dtypes.float16, dtypes.bfloat16)  # of which statistics are kept in float32
        kind = self._kind = dtypes.float32 if half else self._dtype
        self.gamma = self.add_weight("gamma", size, kind, **self._of_gamma) if self.scale else None
        self.beta = self.add_weight("beta", size, kind, **self._of_beta) if self.center else None
        with variable_scope(get_variable_scope(), auxiliary_name_scope=False) as scope:
            scope.set_partitioner(None)  # their updates take them whole
            self.moving_mean, self.moving_variance = (
                self.add_weight(name, size, kind, initializer=first, trainable=False)
                for name, first in zip(("moving_mean", "moving_variance"), self._of_moving)
            )
            if self.renorm:
                make = lambda name, first: self.add_weight(name, size, kind, initializer=first, trainable=False)  # noqa: E731
                self._renorm = renorm_module.Renorm(make, self._of_moving, self.epsilon)
                self.moving_stddev = self._renorm.moving_stddev
                self.renorm_mean, self.renorm_stddev = self._renorm.mean, self._renorm.stddev

    def call(self, inputs: Any, training: Any = False, **kwargs: Any) -> Tensor:
        """training: a Python bool, or a bool scalar tensor that decides at each step. None: False, as in Dropout."""
        training = False if training is None else training
        if self.virtual_batch_size is None:
            return self._called(inputs, training)
        sizes = array.shape(inputs)
        cut = array.reshape(inputs, array_join.concat([[self.virtual_batch_size, -1], sizes[1:]], 0))
        cut.set_shape([self.virtual_batch_size, None, *inputs._shape[1:]])
        out = array.reshape(self._called(cut, training), sizes)
        out.set_shape(inputs._shape)
        return out

    def _called(self, inputs: Any, training: Any) -> Tensor:
        known = smart_constant_value(training)
        if self.renorm and known is not False:
            return self._renormalized(inputs, training)
        compute = self._fused if self.fused else self._plain
        if known is None:
            out, mean, variance = cond(training, lambda: compute(inputs, True), lambda: compute(inputs, False))
            rate = cond(training, lambda: constant(1.0 - self.momentum), lambda: constant(0.0))
        else:
            (out, mean, variance), rate = compute(inputs, known), 1.0 - self.momentum
        if known is not False:
            self._follow(mean, variance, rate)
        return out

    def _renormalized(self, inputs: Tensor, training: Any) -> Tensor:
        found = self._moments(inputs)
        moving = (self.moving_mean, self.moving_variance)
        mean, variance = (
            smart_cond(training, lambda new=new: new, lambda old=old: old.value())  # type: ignore[misc]
            for new, old in zip(found, moving)
        )
        r, d, new_mean, new_variance = self._renorm.corrections(
            mean, variance, training, self.renorm_clipping, self.renorm_momentum
        )
        scale, offset = (r, d) if self.gamma is None else (r * self.gamma, d * self.gamma)
        offset = offset if self.beta is None else offset + self.beta
        of_mean = lambda: renorm_module.follow(self.moving_mean, new_mean, self.momentum)  # noqa: E731
        of_variance = lambda: self._renorm.new_variance(self.moving_variance, new_variance, self.momentum)  # noqa: E731
        for update, var in zip((of_mean, of_variance), moving):
            self.add_update(smart_cond(training, update, var.value))
        return self._normalized(inputs, mean, variance, scale, offset)

    def _plain(self, inputs: Tensor, training: bool) -> tuple[Tensor, Any, Any]:
        """(y, the statistics used)."""
        mean, variance = self.moving_mean, self.moving_variance
        if training:
            mean, variance = self._moments(inputs)
        noise = self.adjustment(array.shape(inputs)) if training and self.adjustment is not None else None
        out = self._normalized(inputs, mean, variance, noise=noise)
        if training and self.virtual_batch_size is not None:
            mean, variance = (math_reduce.reduce_mean(v, 1, keepdims=True) for v in (mean, variance))
        return out, mean, variance

    def _moments(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        keep = len(self.axis) > 1 or self.virtual_batch_size is not None
        return nn.moments(math.cast(inputs, self._kind), self._others, keepdims=keep)

    def _fused(self, inputs: Tensor, training: bool) -> tuple[Tensor, Any, Any]:
        """The same by one op, whose variance for the moving one is divided by n - 1."""
        ones, zeros = (make([inputs._shape[self.axis[0]]], self._kind) for make in (array.ones, array.zeros))  # type: ignore[index]
        given = {} if training else {"mean": self.moving_mean, "variance": self.moving_variance}
        return nn_norm.fused_batch_norm(
            inputs,
            ones if self.gamma is None else self.gamma,
            zeros if self.beta is None else self.beta,
            epsilon=self.epsilon,
            is_training=training,
            data_format="NCHW" if self.axis == [1] else "NHWC",
            **given,
        )

    def _follow(self, mean: Tensor, variance: Tensor, rate: Any) -> None:
        if not isinstance(rate, Tensor):  # in each step, so all workers of a strategy do
            mean, variance = get_strategy().statistics([mean, variance])
        for moving, new in ((self.moving_mean, mean), (self.moving_variance, variance)):
            self._follow_one(moving, new, rate)

    def _follow_one(self, moving: Any, new: Tensor, rate: Any) -> None:
        """moving -= (moving - new) * rate."""
        graph = get_default_graph()
        with graph.name_scope("AssignMovingAvg") as scope, graph.colocate_with(moving.op):
            step = (moving - new) * math.cast(rate, moving.dtype.base_dtype)
            self.add_update(state.assign_sub(moving, step, name=scope))

    def _normalized(
        self, x: Tensor, mean: Any, variance: Any, scale: Any = None, offset: Any = None, noise: Any = None
    ) -> Tensor:
        """noise: (scale, bias), applied before gamma and beta."""
        rank = len(x._shape)  # type: ignore[arg-type]
        gamma, beta = (self.gamma, self.beta) if scale is None else (scale, offset)
        if len(self.axis) == 1 and self.axis != [rank - 1] and self.virtual_batch_size is None:
            order = [-1 if a in self.axis else 1 for a in range(rank)]
            mean, variance, beta, gamma = (
                None if v is None else array.reshape(v, order) for v in (mean, variance, beta, gamma)
            )
        if noise is not None:
            by, shift = noise if gamma is None else (noise[0] * gamma, noise[1] * gamma)
            gamma, beta = by, shift if beta is None else shift + beta
        mean, variance, beta, gamma = (
            None if v is None else math.cast(v, x.dtype) for v in (mean, variance, beta, gamma)
        )
        return nn.batch_normalization(x, mean, variance, beta, gamma, self.epsilon)


def batch_normalization(
    inputs: Any,
    axis: int | Sequence[int] = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = None,
    gamma_initializer: Any = None,
    moving_mean_initializer: Any = None,
    moving_variance_initializer: Any = None,
    beta_regularizer: Any = None,
    gamma_regularizer: Any = None,
    beta_constraint: Any = None,
    gamma_constraint: Any = None,
    training: Any = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
    renorm: bool = False,
    renorm_clipping: Any = None,
    renorm_momentum: float = 0.99,
    fused: bool | None = None,
    virtual_batch_size: int | None = None,
    adjustment: Any = None,
) -> Tensor:
    """BatchNormalization as a function; training as in its call."""
    settings = {k: v for k, v in locals().items() if k not in ("inputs", "training", "reuse")}
    return BatchNormalization(**settings, _scope=name, _reuse=reuse)(inputs, training=training)
