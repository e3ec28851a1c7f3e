"""What all distributions share: shapes, samples of any shape, and what follows from the density.

A distribution is a batch of independent ones. Samples have shape sample_shape + batch_shape + event_shape.
"""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.shapes import Dims, TensorShape
from sparkflow.ops import array, array_join, checks, math, math_reduce
from sparkflow.ops.broadcasting import broadcast_dynamic_shape
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.dtypes import DType


class ReparameterizationType:
    """Whether samples are a differentiable function of the parameters."""

    def __init__(self, rep_type: str):
        self._rep_type = rep_type

    def __repr__(self) -> str:
        return f"<Reparameterization Type: {self._rep_type}>"


FULLY_REPARAMETERIZED = ReparameterizationType("FULLY_REPARAMETERIZED")
NOT_REPARAMETERIZED = ReparameterizationType("NOT_REPARAMETERIZED")


def parameter(value: Any, name: str, *, positive: bool = False, like: Any = None) -> Tensor:
    """A parameter as a tensor of floats; positive: checked when it runs. like: its type must be this one's.

    Raises TypeError or ValueError where it is of another type.
    """
    tensor = convert_to_tensor(value, None if like is None else like.dtype.base_dtype, name)
    if not tensor.dtype.is_floating:
        raise TypeError(f"{name} must be of a float type, got {tensor.dtype.name}")
    if positive:
        with get_default_graph().control_dependencies([checks.assert_positive(tensor)]):
            return array.identity(tensor, name=name)
    return tensor


class Distribution:
    """The base of all distributions.

    A class of its own says `_sample_n(n, seed)` (values [n, *batch, *event]), `_log_prob(value)` or `_prob(value)`, and
    what it knows of `_cdf`, `_entropy`, `_mean`, `_variance`, `_mode`, `_quantile`; asked for anything else it raises
    NotImplementedError with its name.
    """

    def __init__(
        self, dtype: Any, reparameterization_type: ReparameterizationType, validate_args: bool, allow_nan_stats: bool,
        parameters: dict[str, Any] | None = None, graph_parents: Any = None, name: str | None = None,
    ):  # fmt: skip
        self._dtype: DType = dtypes.as_dtype(dtype)
        self._type, self._validate, self._allow_nan = reparameterization_type, validate_args, allow_nan_stats
        self._name = name or type(self).__name__
        own = {} if parameters is None else dict(parameters)
        self._parameters = {k: v for k, v in own.items() if k not in ("self", "__class__")}
        self._parents = list(graph_parents or ())

    # ------------------------------------------------------------ what it is

    @property
    def name(self) -> str:
        return self._name

    @property
    def dtype(self) -> DType:
        """Of samples."""
        return self._dtype

    @property
    def parameters(self) -> dict[str, Any]:
        """What the class was called with."""
        return dict(self._parameters)

    @property
    def reparameterization_type(self) -> ReparameterizationType:
        return self._type

    @property
    def allow_nan_stats(self) -> bool:
        return self._allow_nan

    @property
    def validate_args(self) -> bool:
        return self._validate

    def copy(self, **override_parameters_kwargs: Any) -> Any:
        """The same distribution with some arguments replaced."""
        return type(self)(**{**self.parameters, **override_parameters_kwargs})

    # ------------------------------------------------------------ shapes

    def _parts(self) -> list[Tensor]:
        """Parameters whose broadcast shape is the batch's, and the event's behind it."""
        raise NotImplementedError(f"the shape of {type(self).__name__} is not known: its class has no _parts()")

    _event_rank = 0

    def _whole(self) -> Dims:
        dims: Dims = ()
        for part in self._parts():
            dims = shapes.broadcast(dims, part._shape, type(self).__name__)
        return dims

    def _whole_tensor(self) -> Tensor:
        known = self._whole()
        if shapes.fully_known(known):
            return convert_to_tensor(list(known or ()), dtypes.int32)
        first, *others = (array.shape(part) for part in self._parts())
        for other in others:
            first = broadcast_dynamic_shape(first, other)
        return first

    @property
    def batch_shape(self) -> TensorShape:
        dims = self._whole()
        return TensorShape(None if dims is None else dims[: len(dims) - self._event_rank])

    @property
    def event_shape(self) -> TensorShape:
        dims = self._whole()
        if not self._event_rank:
            return TensorShape(())
        return TensorShape((None,) * self._event_rank if dims is None else dims[len(dims) - self._event_rank :])

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        """int32 vector."""
        with self._scope(name):
            whole = self._whole_tensor()
            return whole[: -self._event_rank] if self._event_rank else whole

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Tensor:
        """int32 vector."""
        with self._scope(name):
            if not self._event_rank:
                return convert_to_tensor([], dtypes.int32)
            return self._whole_tensor()[-self._event_rank :]

    def is_scalar_event(self, name: str = "is_scalar_event") -> Tensor:
        return convert_to_tensor(self._event_rank == 0, dtypes.bool_, name)

    def is_scalar_batch(self, name: str = "is_scalar_batch") -> Tensor:
        with self._scope(name):
            return math.equal(array.size(self.batch_shape_tensor()), 0)

    def _scope(self, name: str | None) -> Any:
        return get_default_graph().name_scope(f"{self._name.rstrip('/')}/{name}")

    # ------------------------------------------------------------ samples

    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample") -> Tensor:
        """Values [*sample_shape, *batch_shape, *event_shape]."""
        with self._scope(name):
            shape = convert_to_tensor(sample_shape, dtypes.int32, "sample_shape")
            outer = array.reshape(shape, [-1])
            known = constant_value(shape)
            drawn = self._call("sample_n", math_reduce.reduce_prod(outer), seed)
            out = array.reshape(drawn, array_join.concat([outer, array.shape(drawn)[1:]], 0))
            own = self._whole()
            out.set_shape(None if known is None or own is None else (*known.ravel().tolist(), *own))
            return out

    # ------------------------------------------------------------ densities and statistics

    def _has(self, name: str) -> bool:
        return hasattr(self, name)

    def _call(self, name: str, *args: Any, scope: str | None = None) -> Tensor:
        own = getattr(self, f"_{name}", None)
        if own is None:
            raise NotImplementedError(f"{name} is not implemented: {type(self).__name__}")
        with self._scope(scope or name):
            return own(*args)

    def _of_value(self, value: Any) -> Tensor:
        return convert_to_tensor(value, self._value_dtype(), "value")

    def _value_dtype(self) -> DType:
        return self._dtype

    def log_prob(self, value: Any, name: str = "log_prob") -> Tensor:
        """The logarithm of the density (or of the probability) at value, [*sample_shape, *batch_shape]."""
        if not self._has("_log_prob") and self._has("_prob"):
            return math.log(self.prob(value, name))
        return self._call("log_prob", self._of_value(value), scope=name)

    def prob(self, value: Any, name: str = "prob") -> Tensor:
        """The density (or the probability) at value."""
        if not self._has("_prob") and self._has("_log_prob"):
            return math.exp(self.log_prob(value, name))
        return self._call("prob", self._of_value(value), scope=name)

    def cdf(self, value: Any, name: str = "cdf") -> Tensor:
        """The probability of at most value."""
        return self._call("cdf", self._of_value(value), scope=name)

    def log_cdf(self, value: Any, name: str = "log_cdf") -> Tensor:
        if not self._has("_log_cdf"):
            return math.log(self.cdf(value, name))
        return self._call("log_cdf", self._of_value(value), scope=name)

    def survival_function(self, value: Any, name: str = "survival_function") -> Tensor:
        """The probability of more than value."""
        if not self._has("_survival_function"):
            return math.subtract(convert_to_tensor(1, self._value_dtype()), self.cdf(value, name))
        return self._call("survival_function", self._of_value(value), scope=name)

    def log_survival_function(self, value: Any, name: str = "log_survival_function") -> Tensor:
        if not self._has("_log_survival_function"):
            return math.log(self.survival_function(value, name))
        return self._call("log_survival_function", self._of_value(value), scope=name)

    def quantile(self, value: Any, name: str = "quantile") -> Tensor:
        """x with cdf(x) = value."""
        return self._call("quantile", self._of_value(value), scope=name)

    def entropy(self, name: str = "entropy") -> Tensor:
        return self._call("entropy", scope=name)

    def mean(self, name: str = "mean") -> Tensor:
        return self._call("mean", scope=name)

    def mode(self, name: str = "mode") -> Tensor:
        return self._call("mode", scope=name)

    def variance(self, name: str = "variance") -> Tensor:
        if not self._has("_variance") and self._has("_stddev"):
            return math.square(self.stddev(name))
        return self._call("variance", scope=name)

    def stddev(self, name: str = "stddev") -> Tensor:
        if not self._has("_stddev") and self._has("_variance"):
            return math.sqrt(self.variance(name))
        return self._call("stddev", scope=name)

    def covariance(self, name: str = "covariance") -> Tensor:
        """Between the parts of an event, [*batch_shape, k, k]."""
        return self._call("covariance", scope=name)

    def kl_divergence(self, other: Distribution, name: str = "kl_divergence") -> Tensor:
        """The Kullback-Leibler divergence from other; see tf.distributions.kl_divergence."""
        from sparkflow.distributions.divergence import kl_divergence

        with self._scope(name):
            return kl_divergence(self, other)

    def cross_entropy(self, other: Distribution, name: str = "cross_entropy") -> Tensor:
        """entropy() + kl_divergence(other)."""
        return math.add(self.kl_divergence(other, name), self.entropy(name))

    def __repr__(self) -> str:
        return (
            f"<tf.distributions.{type(self).__name__} {self._name!r} batch_shape={self.batch_shape} "
            f"event_shape={self.event_shape} dtype={self._dtype.name}>"
        )


def spread(distribution: Distribution, value: Tensor) -> Tensor:
    """value for each of the batch."""
    return array.broadcast_to(value, distribution._whole_tensor())


def defined(distribution: Distribution, condition: Tensor, value: Tensor, what: str) -> Tensor:
    """value where the statistic is defined, else nan; an error when it runs, where nan is not allowed."""
    from sparkflow.ops.array_select import where

    if distribution.allow_nan_stats:
        nan = array.fill(array.shape(value), convert_to_tensor(float("nan"), value.dtype.base_dtype))
        return where(array.broadcast_to(condition, array.shape(value)), value, nan)
    with get_default_graph().control_dependencies([checks.assert_equal(condition, True, message=what)]):
        return array.identity(value)
