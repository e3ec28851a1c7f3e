"""Gradients of what only moves cells: they move back."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import gradient
from sparkflow.ops import array_blocks, math

for _op, _back in (("SpaceToBatchND", "BatchToSpaceND"), ("BatchToSpaceND", "SpaceToBatchND")):

    @gradient(_op)
    def _nd(op: Operation, dy: Tensor, back: str = _back) -> tuple[Any, Any, Any]:
        return lambda: apply_op(back, [dy, op.inputs[1], op.inputs[2]]), None, None


for _op, _back in (("SpaceToBatch", "BatchToSpace"), ("BatchToSpace", "SpaceToBatch")):

    @gradient(_op)
    def _square(op: Operation, dy: Tensor, back: str = _back) -> tuple[Any, Any]:
        return lambda: apply_op(back, [dy, op.inputs[1]], {"block_size": op.attr("block_size")}), None


for _op, _back in (("SpaceToDepth", "DepthToSpace"), ("DepthToSpace", "SpaceToDepth")):

    @gradient(_op)
    def _depth(op: Operation, dy: Tensor, back: str = _back) -> Tensor:
        return apply_op(back, [dy], {name: op.attr(name) for name in ("block_size", "data_format")})


@gradient("Roll")
def _roll(op: Operation, dy: Tensor) -> tuple[Any, Any, Any]:
    _, shift, axis = op.inputs
    return lambda: array_blocks.roll(dy, math.negative(shift), axis), None, None
