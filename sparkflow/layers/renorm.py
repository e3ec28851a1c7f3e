"""Batch renormalisation: what a training batch is normalised by follows its running statistics too.

Source: Ioffe 2017; the order of updates is that of tf_keras' BatchNormalization.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, math, nn, operators, state  # noqa: F401 - x + y on tensors
from sparkflow.ops.control_flow_cond import smart_cond

_KEYS = ("rmax", "rmin", "dmax")


def check_clipping(clipping: Any) -> dict[str, Any]:
    """Raises ValueError on another key than rmax, rmin and dmax."""
    found = dict(clipping or {})
    if set(found) - set(_KEYS):
        raise ValueError(
            f"Received invalid keys for `renorm_clipping` argument: {found}. Supported values: {list(_KEYS)}."
        )
    return found


class Renorm:
    """The variables moving_stddev, renorm_mean and renorm_stddev of a layer, and what they do."""

    def __init__(self, make: Callable[..., Any], initializers: list[Any], epsilon: float):
        """make(name, initializer) makes a variable; initializers: of the moving mean and variance."""
        mean, variance = initializers

        def deviation(*args: Any, **kwargs: Any) -> Tensor:
            return math.sqrt(convert_to_tensor(variance(*args, **kwargs)))

        self.moving_stddev = make("moving_stddev", deviation)
        self.mean, self.stddev = make("renorm_mean", mean), make("renorm_stddev", deviation)
        self._epsilon = epsilon

    def corrections(
        self, mean: Tensor, variance: Tensor, training: Any, clipping: dict[str, Any], momentum: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(r, d, and mean and variance of the batch once the running ones have followed it). x is normalised to
        (x - mean) / stddev * r + d."""
        graph = get_default_graph()
        stddev = math.sqrt(variance + self._epsilon)
        running = math.maximum(self.stddev.value(), self._epsilon**0.5)
        r, d = stddev / running, (mean - self.mean) / running
        with graph.control_dependencies([r, d]):  # which use the running ones as they were
            now, deviation = array.identity(mean), array.identity(stddev)
        low, high, most = (clipping.get(key) for key in ("rmin", "rmax", "dmax"))
        r = r if low is None else math.maximum(r, low)
        r = r if high is None else math.minimum(r, high)
        d = d if most is None else math.minimum(math.maximum(d, -most), most)
        r = smart_cond(training, lambda: r, lambda: array.ones_like(r))
        d = smart_cond(training, lambda: d, lambda: array.zeros_like(d))
        followed = [
            self._follows(var, value, training, momentum) for var, value in ((self.mean, now), (self.stddev, deviation))
        ]
        r, d = array.stop_gradient(r), array.stop_gradient(d)
        with graph.control_dependencies(followed):  # so that the updates alone make the running ones follow
            return r, d, array.identity(now), array.identity(variance)

    def _follows(self, var: Any, value: Tensor, training: Any, momentum: float) -> Any:
        return smart_cond(training, lambda: follow(var, value, momentum), lambda: array.identity(var.value()))

    def new_variance(self, variance: Any, batch: Tensor, momentum: float) -> Tensor:
        """The update of the moving variance, by way of the moving deviation."""
        followed = follow(self.moving_stddev, math.sqrt(batch + self._epsilon), momentum)
        with get_default_graph().name_scope("AssignNewValue"), get_default_graph().colocate_with(variance.op):
            return state.assign(variance, nn.relu(followed * followed - self._epsilon))


def follow(var: Any, value: Tensor, momentum: float) -> Tensor:
    """var -= (var - value) * (1 - momentum)."""
    with get_default_graph().name_scope("AssignMovingAvg") as scope, get_default_graph().colocate_with(var.op):
        rate = math.cast(convert_to_tensor(1.0 - momentum), var.dtype.base_dtype)
        return state.assign_sub(var, (var - math.cast(value, var.dtype.base_dtype)) * rate, name=scope)
