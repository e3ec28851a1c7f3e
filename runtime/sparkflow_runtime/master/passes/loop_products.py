"""Products in a loop with a matrix that stays and is transposed, as a weight is in the gradient of a recurrent cell;
and those of a cell that is written out step by step, which have one matrix in common.

BLAS packs such a matrix anew in every iteration. Laid out in memory the other way round, once a loop, it is read as it
lies: 32 x 128 by the transpose of 192 x 128 takes 16 us instead of 29 (2 cores of an AMD EPYC, Zen 4). The value stays
the same, only its strides change, so MatMul keeps its attributes. Where but some columns of the product are used, as
those of the state where the input beside it needs no gradient, only their part of the matrix is laid out, if the BLAS
in force gives them the same bits (OpenBLAS's kernels without AVX-512 do not). Written out, 20 products of 64 x 128 by
the transpose of 96 x 128 take 15 us instead of 22 each, of 64 columns alone 10.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import numpy as np

from sparkflow_runtime.master.passes.contexts import OUTSIDE, contexts, once_a_loop
from sparkflow_runtime.master.passes.dependencies import may_be_variables
from sparkflow_runtime.master.passes.view import Op, View, producer
from sparkflow_runtime.wire.attrs import encode
from sparkflow_runtime.wire.devices import on_cpu
from sparkflow_runtime.wire.protos import NodeDef

_SIDES = ("transpose_a", "transpose_b")
_FEW = 8  # rows of the other matrix: a product with fewer is one with vectors, which BLAS does as quickly either way
_STEPS = 6  # products outside of loops from which laying out their matrix pays: it takes as long as one of them
_LARGE = 1 << 18  # items of a matrix: a large one is not worth a second one beside it in memory


def lay_out_once(view: View) -> None:
    """Before each MatMul of a loop, let the matrix that is the same in all iterations lie as the product reads it; and
    before those of no loop that have one in common."""
    products = [op for op in view.ops.values() if op.op == "MatMul" and on_cpu(op.device)]
    products = [op for op in products if view.context(op.name) is not None]
    common = _in_common(view, products)
    looped = any(view.context(op.name) != OUTSIDE for op in products)
    if not looped and not common:
        return
    same = once_a_loop(view.ops, dict(view.inside)) if looped else frozenset[str]()
    users = view.consumers()
    new: dict[str, Op] = {}
    instead: dict[str, str] = {}  # whom to wait for: of products that are gone, or read no variable any more
    aliases = may_be_variables(view) if common else set[str]()
    for op in products:
        if view.context(op.name) == OUTSIDE:
            stays = [(e, side) in common for side, e in enumerate(op.data)]
        else:
            stays = [producer(e) in same and e not in view.feeds for e in op.data]
        if all(stays) or op.name in view.feeds:
            continue
        for side, name in enumerate(_SIDES):
            if stays[side] and op.attr(name) and not _is_few(view, op, side):
                cut = _only_use(view, op, users[op.name]) if side == 1 and keeps_bits_of_columns() else None
                laid = _laid(op, op.data[side], *(cut[1:] if cut else (0, -1)))
                new.setdefault(laid.name, laid)
                if cut is None:
                    op.data[side] = laid.name
                else:
                    cut[0].become("MatMul", [op.data[0], laid.name])
                    for attr in _SIDES:
                        cut[0].set(attr, op.attr(attr))
                    instead[op.name] = cut[0].name
                if view.context(op.name) == OUTSIDE and producer(op.data[1 - side]) not in aliases:
                    instead[op.name] = laid.name
    if instead:
        for op in view.ops.values():
            if op.control:
                op.control = list(dict.fromkeys(instead.get(c, c) for c in op.control))
    if new:
        view.ops = dict(_before_users(view.ops, new))
        view.inside = contexts(view.ops)
        view.free = view.free.union(name for name in new if view.inside[name] == OUTSIDE)
        view.changes += len(new)
        view.prune()


def _in_common(view: View, products: list[Op]) -> set[tuple[str, int]]:
    """(edge, side) of the matrices that many products outside of loops take transposed, all on one device."""
    found: dict[tuple[str, int], list[Op]] = defaultdict(list)
    for op in products:
        if op.name in view.free and op.name not in view.feeds:
            for side, e in enumerate(op.data):
                if op.attr(_SIDES[side]) and e not in view.feeds:
                    found[e, side].append(op)
    return {key for key, ops in found.items() if _worth_a_copy(view, key[0], ops)}


def _worth_a_copy(view: View, e: str, ops: list[Op]) -> bool:
    """Whether there are many, and it is certain that the matrix is not large."""
    shape = view.shapes.of(e) if len(ops) >= _STEPS else None
    if shape is None or not all(isinstance(n, int) for n in shape) or math.prod(map(int, shape)) > _LARGE:
        return False
    return all(view.same_place(ops[0], op) for op in ops)


def _is_few(view: View, op: Op, side: int) -> bool:
    """Whether the result is known to have few rows (or columns) for the other matrix."""
    shape = view.shapes.of(op.name)
    size = shape[1 - side] if shape is not None and len(shape) == 2 else None
    return isinstance(size, int) and size < _FEW


@cache
def keeps_bits_of_columns() -> bool:
    """Whether BLAS gives a column of a product the same bits whichever columns are beside it: it may compute those at
    the edge of a tile in another order."""
    rng = np.random.default_rng(0)
    for rows, inner, columns in ((32, 128, 192), (64, 130, 96), (33, 448, 120)):
        a, b = (rng.standard_normal((n, inner)).astype(np.float32) for n in (rows, columns))
        whole = a @ b.T
        if any(not np.array_equal(whole[:, n:], a @ np.asfortranarray(b[n:]).T) for n in (1, 8, 30)):
            return False
    return True


def _only_use(view: View, op: Op, users: list[Op]) -> tuple[Op, int, int] | None:
    """(the Slice, first column, columns) where nothing else takes the product, and that some of its columns only."""
    if len(users) != 1 or users[0].op != "Slice" or users[0].control or op.name in view.kept:
        return None
    cut = users[0]
    inside = view.context(cut.name)
    if cut.name in view.feeds or cut.data[0] != op.name or inside is None or inside != view.context(op.name):
        return None
    begin, size = (view.constant(e, inside) for e in cut.data[1:])
    if begin is None or size is None or begin.tolist()[:1] != [0] or size.tolist()[:1] != [-1] or len(size) != 2:
        return None
    shape = view.shapes.of(op.name)
    first, count = int(begin[1]), int(size[1])
    columns = shape[1] if shape is not None and len(shape) == 2 else None
    return (cut, first, count) if isinstance(columns, int) and 0 <= first <= first + count <= columns else None


def _laid(op: Op, e: str, first: int, rows: int) -> Op:
    name = f"{e.replace(':', '/')}/columns_together" + (f"_{first}_{rows}" if rows >= 0 else "")
    node = NodeDef(name=name, op="_ColumnsTogether", device=op.device, input=[e])
    for attr, value in (("T", op.attr("T")), ("first", first), ("rows", rows)):
        node.attr[attr].CopyFrom(encode(value))
    return Op(node)


def _before_users(ops: dict[str, Op], new: dict[str, Op]) -> Iterator[tuple[str, Op]]:
    """All nodes, each new one before the first that takes its value."""
    left = dict(new)
    for name, op in ops.items():
        for e in op.data:
            if e in left:
                yield e, left.pop(e)
        yield name, op
