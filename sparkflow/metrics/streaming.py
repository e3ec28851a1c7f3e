"""What all metrics share: their variables, their weights, where their outputs are collected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.losses.weighted import broadcast_weights, check_weights
from sparkflow.ops import array, math, state
from sparkflow.ops.control_flow_cond import cond
from sparkflow.ops.variables import Variable
from sparkflow_runtime.wire.dtypes import DType, float32

Collections = Sequence[str] | None


def metric_variable(shape: Sequence[int], name: str, dtype: DType = float32) -> Any:
    """A local variable of zeros, in METRIC_VARIABLES too."""
    collections = [GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES]
    return Variable(lambda: array.zeros(list(shape), dtype), trainable=False, collections=collections, name=name)


def weights_for(weights: Any, values: Any) -> Any:
    """The weights as float32, of the shape of values; None when there are none. Raises ValueError where they do not
    fit."""
    if weights is None:
        return None
    weights = of_rank(math.cast(convert_to_tensor(weights), float32), values)
    check_weights(weights, values)
    return broadcast_weights(weights, values)


def of_rank(weights: Any, values: Any) -> Any:
    """The weights without their last axis, of size 1, where that makes them of the rank of values, or with one more."""
    w, v = weights.shape.ndims, values.shape.ndims
    if w is not None and v is not None:
        fewer, more = w == v + 1, 0 < w == v - 1
        return array.squeeze(weights, [-1]) if fewer else array.expand_dims(weights, -1) if more else weights
    if w == 0:
        return weights
    rank, wanted = array.rank(weights), array.rank(values)
    adds = math.logical_and(math.greater(rank, 0), math.equal(rank + 1, wanted))
    added = lambda: cond(adds, lambda: array.expand_dims(weights, -1), lambda: weights)  # noqa: E731
    if w is not None and weights.shape.dims[-1].value not in (1, None):
        return added()
    return cond(math.equal(rank, wanted + 1), lambda: array.squeeze(weights, [-1]), added)


def same_rank(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Both as tensors; a last size of 1 that only one of them has is squeezed away. Raises ValueError where
    they then differ."""
    labels, predictions = convert_to_tensor(labels), convert_to_tensor(predictions)
    a, b = labels.shape.ndims, predictions.shape.ndims
    if a is not None and b is not None and a == b + 1:
        labels = array.squeeze(labels, [-1])
    elif a is not None and b is not None and b == a + 1:
        predictions = array.squeeze(predictions, [-1])
    predictions.shape.assert_is_compatible_with(labels.shape)
    return labels, predictions


def add_to(variable: Any, amount: Any) -> Any:
    return state.assign_add(variable, amount)


def published(value: Any, update: Any, metrics_collections: Collections, updates_collections: Collections) -> Any:
    graph = get_default_graph()
    for name in metrics_collections or ():
        graph.add_to_collection(name, value)
    for name in updates_collections or ():
        graph.add_to_collection(name, update)
    return value, update
