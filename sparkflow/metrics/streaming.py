"""What all metrics share: their variables, their weights, where their outputs are collected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.losses.weighted import check_weights
from sparkflow.ops import array, math, state
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
    weights = math.cast(convert_to_tensor(weights), float32)
    known = weights.shape.ndims is not None and values.shape.ndims is not None
    if known and weights.shape.ndims == values.shape.ndims + 1:
        weights = array.squeeze(weights, [-1])
    check_weights(weights, values)
    return weights * array.ones_like(values, dtype=float32)


def same_rank(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Both as tensors; a last size of 1 that only one of them has is squeezed away."""
    labels, predictions = convert_to_tensor(labels), convert_to_tensor(predictions)
    a, b = labels.shape.ndims, predictions.shape.ndims
    if a is not None and b is not None and a == b + 1:
        labels = array.squeeze(labels, [-1])
    elif a is not None and b is not None and b == a + 1:
        predictions = array.squeeze(predictions, [-1])
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
