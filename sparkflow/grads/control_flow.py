"""Gradients of branches and of checks. Loops are differentiated as a whole: control_flow_while."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.grads.registry import gradient, not_differentiable
from sparkflow.ops import array, array_join, math
from sparkflow.ops.control_flow import check_numerics
from sparkflow.ops.control_flow_context import condition_of, is_capture
from sparkflow.ops.control_flow_nodes import merge, switch_ref_or_tensor

gradient("CheckNumerics")(
    lambda op, dy: check_numerics(dy, f"NaN or Inf values detected in the gradient of {op.name}. {op.attr('message')}")
)
gradient("Print")(lambda op, dy, *_: (dy, *[None] * (len(op.inputs) - 1)))
not_differentiable("NoOp", "Assert", "ControlTrigger", "LoopCond")

# ---------------------------------------------------------------------- branches


@gradient("Merge", "RefMerge", sparse=True, partial=True)
def _merge(op: Operation, dy: Any, _: None) -> Sequence[Any]:
    """dy goes to the input that was alive."""
    pred = _pred_of(op)
    if pred is not None:
        return switch_ref_or_tensor(dy, pred, "cond_grad")
    taken = op.outputs[1]
    return [switch_ref_or_tensor(dy, math.equal(taken, i), "cond_grad")[1] for i in range(len(op.inputs))]


def _pred_of(op: Operation) -> Tensor | None:
    """The predicate of the cond that this Merge ends, its inputs being (false, true); None for another Merge."""
    if len(op.inputs) != 2:
        return None
    no, yes = map(condition_of, op.inputs)
    if no is None or yes is None or no[0] is not yes[0] or (no[1], yes[1]) != (0, 1):
        return None
    return no[0]


@gradient("Switch", "RefSwitch", sparse=True, partial=True)
def _switch(op: Operation, no: Any, yes: Any) -> tuple[Any, None]:
    """dx is the gradient of the output that was alive: zeros where nobody used that one."""

    def grad() -> Any:
        pred, dys = op.inputs[1], [no, yes]
        for i, dy in enumerate(dys):
            if dy is None:
                dys[i] = _nothing(op, dys[1 - i], pred, i)
            elif isinstance(dy, IndexedSlices) or not is_capture(op):
                dys[i] = switch_ref_or_tensor(dy, pred)[i]  # indices may be constants, alive on both sides
        if not all(isinstance(dy, IndexedSlices) for dy in dys):
            dys = [math.add_n([dy]) if isinstance(dy, IndexedSlices) else dy for dy in dys]
        return merge(dys, name="cond_grad")[0]

    return grad, None


def _nothing(op: Operation, other: Any, pred: Tensor, side: int) -> Any:
    """Zeros that are alive on that side: no rows where the other side has rows."""
    if not isinstance(other, IndexedSlices):
        return switch_ref_or_tensor(array.zeros_like(op.inputs[0]), pred)[side]
    none = no_rows(other, op.inputs[0])
    return switch_ref_or_tensor(none, pred)[side]


def no_rows(like: IndexedSlices, table: Tensor) -> IndexedSlices:
    """A gradient of `table` that touches no row, with the types of `like`."""
    dims, dtype = table._shape, like.values.dtype.base_dtype
    sizes = array.shape(table)
    known = dims is not None and None not in dims[1:]
    row = [0, *dims[1:]] if known and dims is not None else array_join.concat([[0], sizes[1:]], 0)
    shape = None if like.dense_shape is None else math.cast(sizes, like.dense_shape.dtype)
    return IndexedSlices(array.zeros(row, dtype), array.zeros([0], like.indices.dtype), shape)


# ---------------------------------------------------------------------- loops that are being built

gradient("Enter", "RefEnter", "RefIdentity", sparse=True)(lambda op, dy: dy)
not_differentiable("StackV2", "StackCloseV2")


@gradient("Exit", "RefExit", "NextIteration", "RefNextIteration")
def _alone(op: Operation, dy: Tensor) -> Any:
    raise LookupError(
        f"No gradient defined for {op.name!r} (op type: {op.type}): it is part of a loop that came in with a GraphDef "
        "and is not as while_loop makes them: each variable an Enter, a Merge, one Switch and a NextIteration. Build "
        "the gradient before exporting it"
    )
