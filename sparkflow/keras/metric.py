"""Metric, the base of tf.keras.metrics: variables, how a batch changes them, and a number made of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.program_order import ProgramOrder, ordered
from sparkflow.keras import backend
from sparkflow.keras.engine import Layer
from sparkflow.keras.losses import aligned
from sparkflow.losses.weighted import broadcast_weights
from sparkflow.metrics.streaming import of_rank
from sparkflow.ops import (
    array,
    control_flow,
    linalg_parts,
    math,
    math_reduce,
    operators,  # noqa: F401 - x + y on tensors
)
from sparkflow.ops.array_made import confusion_matrix


class Metric(Layer):
    """A subclass makes variables by add_weight in __init__, changes them in update_state(...), and says result().

    Called, it does both and gives the result after the update. What update_state does to variables happens in the order
    of its statements; in a session of your own, run what it gives. A model runs it with every batch.
    """

    stateful = _measures = True

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__new__(cls, *args, **kwargs)
        made.update_state = partial(_updated, made)
        return made

    def __init__(self, name: str | None = None, dtype: Any = None, **kwargs: Any):
        super().__init__(name=name, dtype=dtype or backend.floatx(), **kwargs)
        self.built = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        graph = get_default_graph()
        order = ProgramOrder()
        with graph.name_scope(self.name), ordered(graph, order):
            type(self).update_state(self, *args, **kwargs)
            value = convert_to_tensor(self.result())
        changes = list(order.must_run)
        if changes:
            self.add_update(control_flow.group(*changes))
        with graph.control_dependencies(changes):
            out = array.identity(value)
        out._metric = self
        return out

    def add_weight(  # type: ignore[override]
        self,
        name: str,
        shape: Any = (),
        aggregation: Any = None,
        synchronization: Any = None,
        initializer: Any = None,
        dtype: Any = None,
    ) -> Any:
        """A variable that no collection has: zeros where no initializer is named."""
        kind = dtype or self._dtype
        return super().add_weight(name, shape, kind, initializer or "zeros", trainable=False, collections=[])

    def update_state(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what a batch changes: define update_state")

    def result(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say its number: define result")

    def reset_states(self) -> None:
        """Every variable to zero."""
        ops = self._zeroing()
        if ops:
            backend.get_session().run(ops)

    def _zeroing(self) -> list[Any]:
        """The ops that set its variables to zero, made once."""
        known = self.__dict__.setdefault("_zeroing_ops", {})
        for v in self.variables:
            if id(v) not in known:
                with v.op.graph.as_default(), v.op.graph.control_dependencies(None):
                    known[id(v)] = v.assign(array.zeros(v.shape, v.dtype.base_dtype)).op
        return list(known.values())

    def reset_state(self) -> None:
        self.reset_states()

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name, "dtype": self.dtype}


def _updated(metric: Metric, *args: Any, **kwargs: Any) -> Any:
    """The op that does what update_state says."""
    graph = get_default_graph()
    if graph._order is not None:
        return type(metric).update_state(metric, *args, **kwargs)
    order = ProgramOrder()
    with graph.name_scope(metric.name), ordered(graph, order):
        type(metric).update_state(metric, *args, **kwargs)
    op = control_flow.group(*order.must_run)
    metric.add_update(op)
    return op


def unordered_here() -> Any:
    """Where a metric's variables are made while it is called."""
    graph = get_default_graph()
    return ordered(graph, None) if graph._order is not None else nullcontext()


def weighted(values: Tensor, sample_weight: Any) -> tuple[Tensor, Tensor]:
    """values times weights, and the weights in their shape; where there are fewer axes of weights, means of values over
    the further ones."""
    weights = of_rank(math.cast(convert_to_tensor(sample_weight), values.dtype), values)
    few, many = weights.shape.ndims, values.shape.ndims
    if few is not None and many is not None and 0 < few < many:
        values = math_reduce.reduce_mean(values, list(range(few, many)))
    weights = broadcast_weights(weights, values)
    return values * weights, weights


class Mean(Metric):
    """The mean of all values, weighted by sample_weight."""

    def __init__(self, name: str | None = "mean", dtype: Any = None):
        super().__init__(name, dtype)
        self.total = self.add_weight("total")
        self.count = self.add_weight("count")

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:
        values = math.cast(convert_to_tensor(values), self._dtype)
        if sample_weight is None:
            count = math.cast(array.size(values), self._dtype)
        else:
            values, weights = weighted(values, sample_weight)
            count = math_reduce.reduce_sum(weights)
        self.total.assign_add(math_reduce.reduce_sum(values))
        self.count.assign_add(count)

    def result(self) -> Tensor:
        return math.div_no_nan(self.total, self.count)


class Sum(Metric):
    """The sum of all values, weighted by sample_weight."""

    def __init__(self, name: str | None = "sum", dtype: Any = None):
        super().__init__(name, dtype)
        self.total = self.add_weight("total")

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:
        values = math.cast(convert_to_tensor(values), self._dtype)
        if sample_weight is not None:
            values, _ = weighted(values, sample_weight)
        self.total.assign_add(math_reduce.reduce_sum(values))

    def result(self) -> Tensor:
        return array.identity(self.total)


class MeanTensor(Metric):
    """The mean of all tensors of one shape, element by element."""

    def __init__(self, name: str | None = "mean_tensor", dtype: Any = None):
        super().__init__(name, dtype)
        self._size: list[int] | None = None

    def _made_for(self, values: Tensor) -> None:
        if self._size is None:
            self._size = [int(d or 0) for d in values.shape.as_list()]
            with unordered_here():
                self.total = self.add_weight("total", self._size)
                self.count = self.add_weight("count", self._size)
        elif self._size != values.shape.as_list():
            raise ValueError(f"MeanTensor values must always have the same shape, {self._size}, got {values.shape}")

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:
        values = math.cast(convert_to_tensor(values), self._dtype)
        self._made_for(values)
        count = array.ones_like(values)
        if sample_weight is not None:
            values, count = weighted(values, sample_weight)
        self.total.assign_add(values)
        self.count.assign_add(count)

    def result(self) -> Tensor:
        if self._size is None:
            raise ValueError("MeanTensor does not have any result yet: call it or update_state(value) first")
        return math.div_no_nan(self.total, self.count)


class MeanMetricWrapper(Mean):
    """The mean of what a function (y_true, y_pred, **kwargs) gives."""

    def __init__(self, fn: Callable[..., Any], name: str | None = None, dtype: Any = None, **kwargs: Any):
        super().__init__(name or fn.__name__, dtype)
        self._fn, self._further = fn, kwargs

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:  # type: ignore[override]
        y_pred = math.cast(convert_to_tensor(y_pred), self._dtype)
        y_true = math.cast(convert_to_tensor(y_true), self._dtype)
        y_true, y_pred = aligned(y_true, y_pred)
        super().update_state(self._fn(y_true, y_pred, **self._further), sample_weight)

    def get_config(self) -> dict[str, Any]:
        own = {} if type(self) is not MeanMetricWrapper else {"fn": self._fn}
        return {**super().get_config(), **own, **self._further}


class MeanRelativeError(Mean):
    """The mean of |y_true - y_pred| / normalizer."""

    def __init__(self, normalizer: Any, name: str | None = None, dtype: Any = None):
        super().__init__(name, dtype)
        self.normalizer = normalizer

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:  # type: ignore[override]
        t, p = (math.cast(convert_to_tensor(x), self._dtype) for x in (y_true, y_pred))
        t, p = aligned(t, p)
        scale = math.cast(convert_to_tensor(self.normalizer), self._dtype)
        super().update_state(math.div_no_nan(math.abs(t - p), scale), sample_weight)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "normalizer": self.normalizer}


class RootMeanSquaredError(Mean):
    """The root of the mean of (y_pred - y_true) ** 2."""

    def __init__(self, name: str | None = "root_mean_squared_error", dtype: Any = None):
        super().__init__(name, dtype)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:  # type: ignore[override]
        t, p = (math.cast(convert_to_tensor(x), self._dtype) for x in (y_true, y_pred))
        t, p = aligned(t, p)
        super().update_state(math.squared_difference(p, t), sample_weight)

    def result(self) -> Tensor:
        return math.sqrt(math.div_no_nan(self.total, self.count))


class MeanIoU(Metric):
    """The mean over classes of intersection over union, of classes' numbers."""

    def __init__(self, num_classes: int, name: str | None = None, dtype: Any = None):
        super().__init__(name, dtype)
        self.num_classes = num_classes
        self.total_cm = self.add_weight("total_confusion_matrix", (num_classes, num_classes), dtype="float64")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        t, p = (array.reshape(math.cast(convert_to_tensor(x), "int64"), [-1]) for x in (y_true, y_pred))
        weights = None
        if sample_weight is not None:
            weights = array.reshape(math.cast(convert_to_tensor(sample_weight), "float64"), [-1])
        self.total_cm.assign_add(confusion_matrix(t, p, self.num_classes, dtype="float64", weights=weights))

    def result(self) -> Tensor:
        cm = math.cast(self.total_cm, self._dtype)
        right = linalg_parts.diag_part(cm)
        both = math_reduce.reduce_sum(cm, 0) + math_reduce.reduce_sum(cm, 1) - right
        there = math.cast(math.not_equal(both, 0), self._dtype)
        return math.div_no_nan(math_reduce.reduce_sum(math.div_no_nan(right, both)), math_reduce.reduce_sum(there))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_classes": self.num_classes}
