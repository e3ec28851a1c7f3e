"""Gradients of scattering into copies of tensors; into variables there is none."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import gradient, not_differentiable
from sparkflow.ops import array, math
from sparkflow.ops.array_slice import gather_nd, scatter_nd


@gradient("TensorScatterUpdate")
def _update(op: Operation, dy: Tensor) -> tuple[Any, Any, Any]:
    """What was overwritten gets nothing."""
    _, indices, updates = op.inputs
    nothing = array.zeros_like(updates)
    return lambda: apply_op("TensorScatterUpdate", [dy, indices, nothing]), None, lambda: gather_nd(dy, indices)


gradient("TensorScatterAdd")(lambda op, dy: (dy, None, lambda: gather_nd(dy, op.inputs[1])))
gradient("TensorScatterSub")(lambda op, dy: (dy, None, lambda: math.negative(gather_nd(dy, op.inputs[1]))))


@gradient("TensorScatterMax", "TensorScatterMin")
def _extreme(op: Operation, dy: Tensor) -> tuple[Any, Any, Any]:
    """Whoever has the extreme gets dy, in equal parts where several have it."""
    x, indices, updates = op.inputs
    y = op.outputs[0]
    dtype = dy.dtype.base_dtype
    of_x = math.cast(math.equal(x, y), dtype)
    of_updates = math.cast(math.equal(updates, gather_nd(y, indices)), dtype)
    holders = math.add(of_x, scatter_nd(indices, of_updates, array.shape(x, out_type=indices.dtype)))
    share = math.divide(dy, holders)
    return (
        lambda: math.multiply(share, of_x),
        None,
        lambda: math.multiply(gather_nd(share, indices), of_updates),
    )


not_differentiable("ScatterNdUpdate", "ScatterNdAdd", "ScatterNdSub", "ScatterNdMax", "ScatterNdMin")
