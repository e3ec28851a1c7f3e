"""Distributions of classes: of two (Bernoulli's), and of many."""

from __future__ import annotations

from typing import Any

from sparkflow.distributions.base import NOT_REPARAMETERIZED, Distribution, parameter
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, array_join, checks, math, math_reduce, operators  # noqa: F401 - x + y on tensors
from sparkflow.ops.nn import log_softmax, softmax, softplus
from sparkflow.ops.nn_loss import sigmoid_cross_entropy_with_logits, sparse_softmax_cross_entropy_with_logits
from sparkflow.ops.random import random_uniform
from sparkflow.ops.random_more import multinomial
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.dtypes import DType


def logits_and_probs(logits: Any, probs: Any, classes: bool, validate_args: bool) -> tuple[Tensor, Tensor]:
    """Each of the other. classes: the last axis has one value for each class, instead of one for the second of two.

    Raises ValueError unless exactly one of them is given.
    """
    if (logits is None) == (probs is None):
        raise ValueError("Must pass probs or logits, but not both.")
    if probs is None:
        logits = parameter(logits, "logits")
        return logits, softmax(logits, name="probs") if classes else math.sigmoid(logits, name="probs")
    probs = parameter(probs, "probs")
    if validate_args:
        asked = [checks.assert_non_negative(probs, message="probs must be non-negative")]
        if classes:
            asked.append(checks.assert_near(math_reduce.reduce_sum(probs, -1), 1.0, message="probs does not sum to 1."))
        else:
            asked.append(checks.assert_less_equal(probs, 1.0, message="probs has components greater than 1."))
        with get_default_graph().control_dependencies(asked):
            probs = array.identity(probs)
    return math.log(probs) if classes else math.log(probs) - math.log1p(-probs), probs


class WithLogits:
    """What has `logits` and `probs`."""

    _logits: Tensor
    _probs: Tensor

    @property
    def logits(self) -> Tensor:
        return self._logits

    @property
    def probs(self) -> Tensor:
        return self._probs


class _OfClasses(WithLogits, Distribution):
    """One whose samples are no floats."""

    def _value_dtype(self) -> DType:
        return self._logits.dtype.base_dtype

    def _of_value(self, value: Any) -> Tensor:
        return convert_to_tensor(value, None, "value")


class Bernoulli(_OfClasses):
    """1 with probability probs, else 0."""

    def __init__(
        self, logits: Any = None, probs: Any = None, dtype: Any = dtypes.int32, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "Bernoulli",
    ):  # fmt: skip
        own = dict(locals())
        with get_default_graph().name_scope(name) as scope:
            self._logits, self._probs = logits_and_probs(logits, probs, False, validate_args)
        super().__init__(dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, own, name=scope[:-1])

    def _parts(self) -> list[Tensor]:
        return [self._logits]

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        shape = array_join.concat([array.reshape(n, [1]), self._whole_tensor()], 0)
        drawn = random_uniform(shape, dtype=self._probs.dtype.base_dtype, seed=seed)
        return math.cast(math.less(drawn, self._probs), self.dtype)

    def _log_prob(self, event: Tensor) -> Tensor:
        event = math.cast(event, self._logits.dtype.base_dtype)
        zero = array.zeros_like(event + self._logits)
        return -sigmoid_cross_entropy_with_logits(labels=event + zero, logits=self._logits + zero)

    def _entropy(self) -> Tensor:
        return -self._logits * (math.sigmoid(self._logits) - 1.0) + softplus(-self._logits)

    def _mean(self) -> Tensor:
        return array.identity(self._probs)

    def _variance(self) -> Tensor:
        return self._probs * (1.0 - self._probs)

    def _mode(self) -> Tensor:
        return math.cast(self._probs > 0.5, self.dtype)


class Categorical(_OfClasses):
    """One of k classes, with probabilities probs [..., k]."""

    def __init__(
        self, logits: Any = None, probs: Any = None, dtype: Any = dtypes.int32, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "Categorical",
    ):  # fmt: skip
        own = dict(locals())
        with get_default_graph().name_scope(name) as scope:
            self._logits, self._probs = logits_and_probs(logits, probs, True, validate_args)
        super().__init__(dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, own, name=scope[:-1])

    def _parts(self) -> list[Tensor]:
        return [self._logits[..., 0]]

    @property
    def event_size(self) -> Tensor:
        """k."""
        return array.shape(self._logits)[-1]

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        flat = array.reshape(self._logits, [-1, self.event_size])
        drawn = math.cast(array.transpose(multinomial(flat, n, seed)), self.dtype)
        return array.reshape(drawn, array_join.concat([array.reshape(n, [1]), self._whole_tensor()], 0))

    def _log_prob(self, k: Tensor) -> Tensor:
        labels = k if k.dtype.is_integer else math.cast(k, dtypes.int32)
        shape = array.shape(
            array.zeros_like(labels, dtype=dtypes.int32) + array.zeros_like(self._parts()[0], dtypes.int32)
        )
        labels = array.broadcast_to(labels, shape)
        logits = array.broadcast_to(self._logits, array_join.concat([shape, [self.event_size]], 0))
        return -sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)

    def _cdf(self, k: Tensor) -> Tensor:
        """The sum of the probabilities of the classes before k, as TensorFlow has it."""
        whole = array.expand_dims(array.zeros_like(k + math.cast(self._parts()[0], k.dtype)), -1)
        number = math.range(self.event_size)
        below = math.cast(math.less(math.cast(number, k.dtype), array.expand_dims(k, -1) + whole), self._probs.dtype)
        return math_reduce.reduce_sum(below * self._probs, -1)

    def _entropy(self) -> Tensor:
        return -math_reduce.reduce_sum(log_softmax(self._logits) * self._probs, -1)

    def _mode(self) -> Tensor:
        return math.cast(math_reduce.argmax(self._logits, -1), self.dtype)
