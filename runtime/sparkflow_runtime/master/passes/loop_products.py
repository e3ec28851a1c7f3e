"""Products in a loop with a matrix that stays and is transposed, as a weight is in the gradient of a recurrent cell.

BLAS packs such a matrix anew in every iteration. Laid out in memory the other way round, once a loop, it is read as it
lies: 32 x 128 by the transpose of 192 x 128 takes 16 us instead of 29 (2 cores of an AMD EPYC, Zen 4). The value stays
the same, only its strides change, so MatMul keeps its attributes.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparkflow_runtime.master.passes.contexts import OUTSIDE, contexts, once_a_loop
from sparkflow_runtime.master.passes.view import Op, View, producer
from sparkflow_runtime.wire.attrs import encode
from sparkflow_runtime.wire.protos import NodeDef

_SIDES = ("transpose_a", "transpose_b")
_FEW = 8  # rows of the other matrix: a product with fewer is one with vectors, which BLAS does as quickly either way


def lay_out_once(view: View) -> None:
    """Before each MatMul of a loop, let the matrix that is the same in all iterations lie as the product reads it."""
    products = [op for op in view.ops.values() if op.op == "MatMul" and view.context(op.name) not in (None, OUTSIDE)]
    if not products:
        return
    same = once_a_loop(view.ops, dict(view.inside))
    new: dict[str, Op] = {}
    for op in products:
        stays = [producer(e) in same and e not in view.feeds for e in op.data]
        if all(stays) or op.name in view.feeds:
            continue
        for side, name in enumerate(_SIDES):
            if stays[side] and op.attr(name) and not _is_few(view, op, side):
                laid = _laid(op, op.data[side])
                new.setdefault(laid.name, laid)
                op.data[side] = laid.name
    if new:
        view.ops = dict(_before_users(view.ops, new))
        view.inside = contexts(view.ops)
        view.changes += len(new)


def _is_few(view: View, op: Op, side: int) -> bool:
    """Whether the result is known to have few rows (or columns) for the other matrix."""
    shape = view.shapes.of(op.name)
    size = shape[1 - side] if shape is not None and len(shape) == 2 else None
    return isinstance(size, int) and size < _FEW


def _laid(op: Op, e: str) -> Op:
    node = NodeDef(name=f"{e.replace(':', '/')}/columns_together", op="_ColumnsTogether", device=op.device, input=[e])
    node.attr["T"].CopyFrom(encode(op.attr("T")))
    return Op(node)


def _before_users(ops: dict[str, Op], new: dict[str, Op]) -> Iterator[tuple[str, Op]]:
    """All nodes, each new one before the first that takes its value."""
    left = dict(new)
    for name, op in ops.items():
        for e in op.data:
            if e in left:
                yield e, left.pop(e)
        yield name, op
