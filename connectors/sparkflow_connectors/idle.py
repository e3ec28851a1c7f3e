"""A worker without rows in a step that the others still make: it sends gradients of zero.

Nothing is added to the graph for it. A step can be fed at any tensor: at the gradients, on their way to the others,
with zeros, and at the rows with a batch that nobody sees. What computes gradients from rows is cut off by that and is
not run; what else the step does (taking the next token, updating a moving average) it does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import sparkflow as tf
from sparkflow.experimental import any_rows
from sparkflow_connectors.layout import Block
from sparkflow_runtime.wire.errors import UnimplementedError

_REDUCES = ("CollectiveReduce", "CollectiveReduceV2", "CollectiveGather", "CollectiveGatherV2")
_SUM_OF = "_all_reduce/"  # the name scope of a DistributedOptimizer's collectives


def idle_feed(graph: Any, rows: list[Any], filler: Block) -> dict[Any, np.ndarray]:
    """What to feed in such a step. rows: the tensors that the queue gives.

    Raises UnimplementedError where a gradient's size is not known before it is computed.
    """
    feed: dict[Any, np.ndarray] = dict(zip(rows, filler, strict=True))
    for op in graph.get_operations():
        if op.type.endswith("AccumulatorApplyGradient"):
            feed.update(_of_accumulator(op))
        elif op.type in _REDUCES and _SUM_OF in op.name:
            feed[op.inputs[0]] = _zeros(op.inputs[0])
    return feed


def _of_accumulator(op: Any) -> dict[Any, np.ndarray]:
    if op.type != "SparseAccumulatorApplyGradient":
        return {op.inputs[2]: _zeros(op.inputs[2])}
    indices, values, shape = list(op.inputs)[2:5]
    for tensor in (indices, values):
        # No rows, where a batch has as many as ever: rows of zeros would count, since an accumulator divides each row's
        # sum by how many have sent that row.
        any_rows(tensor)
    none = np.zeros([0, *_known(values, values.shape.as_list()[1:])], values.dtype.base_dtype.np)
    fed = {indices: np.zeros(0, np.int64), values: none}
    if shape.op.type != "Const":
        dense = tf.get_static_value(shape)
        fed[shape] = np.zeros(0, np.int64) if dense is None else dense
    return fed


def _zeros(tensor: Any) -> np.ndarray:
    """Of the tensor's shape; no rows where their number is open, as it is for rows of embeddings."""
    known = tensor.shape.as_list()
    return np.zeros([0 if i == 0 and n is None else n for i, n in enumerate(_known(tensor, known, 1))],
                    tensor.dtype.base_dtype.np)  # fmt: skip


def _known(tensor: Any, sizes: Any, start: int = 0) -> list[Any]:
    if sizes is None or None in sizes[start:]:
        raise UnimplementedError(
            f"uneven='join', or a worker without rows: gradient {tensor.name!r} has shape {tensor.shape}, and a worker "
            "without rows must know its size. Give it a static shape, or use uneven='pad' and no empty partition"
        )
    return list(sizes)
