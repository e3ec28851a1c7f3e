"""The gradient of a tensor that is taken slice by slice as one node.

x[:, 0], x[:, 1] ... have gradients of the size of x each, zero but for a slice (StridedSliceGrad), and an AddN of them
all: of the 132 vectors x[:, i, j] of a field-aware factorization machine, 132 times x is filled with zeros, and read
again. `_AddSlices` adds each slice where it belongs. The order stays that of the inputs, so the bits do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.master.passes.view import Op, View

_SWAPPED = "_swap_to_host"  # says which inputs of this node, so it stays one
_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def slice_gradients(view: View) -> None:
    if sum(op.op == "StridedSliceGrad" for op in view.ops.values()) < 2:
        return
    users, seen, gone = view.consumers(), view.kept | view.gates, list[str]()
    for op in view.ops.values():
        if op.op != "AddN" or op.name in view.fed_nodes or _SWAPPED in op.proto.attr:
            continue
        parts = [view.ops.get(e) for e in op.data]
        own = [p if p is not None and users[p.name] == [op] and _is_slice(p, op, view) else None for p in parts]
        own = [p if p is not None and p.name not in seen else None for p in own]
        slices = [p for p in own if p is not None]
        if len(slices) < 2 or not all(_same(p.data[0], slices[0].data[0], view) for p in slices):
            continue
        gone += [p.name for p in slices]
        _become_sum(op, own, slices[0].data[0], view)
    view.drop(gone)


def _is_slice(part: Op, op: Op, view: View) -> bool:
    """Whether a slice's place is known, and it may be put there when the sum is made."""
    if part.op != "StridedSliceGrad" or part.name in view.fed_nodes or _SWAPPED in part.proto.attr:
        return False
    inside = view.context(op.name)
    if inside is None or view.context(part.name) != inside or not view.same_place(part, op):
        return False
    return all(view.constant(e, inside) is not None for e in part.data[1:4])


def _same(a: str, b: str, view: View) -> bool:
    """Whether two edges say one shape."""
    x, y = view.constant(a), view.constant(b)
    return a == b or (x is not None and y is not None and np.array_equal(x, y))


def _become_sum(op: Op, parts: list[Op | None], shape: str, view: View) -> None:
    """parts: of each input, its slice; None of one that is as large as the sum."""
    about: dict[str, list[Any]] = {name: [] for name in ("ranks", "begins", "ends", "strides", "masks")}
    for part in parts:
        places = [] if part is None else [view.ops[e].value.tolist() for e in part.data[1:4]]
        about["ranks"].append(len(places[0]) if places else -1)
        for name, place in zip(("begins", "ends", "strides"), places):
            about[name] += place
        about["masks"] += [0 if part is None else int(part.attr(name, 0)) for name in _MASKS]
    about["_fused_from"] = [op.name if part is None else part.name for part in parts]
    op.control = [*dict.fromkeys([*op.control, *(name for p in parts if p is not None for name in p.control)])]
    op.become("_AddSlices", [shape, *(e if p is None else p.data[4] for e, p in zip(op.data, parts))])
    for name, value in about.items():
        op.set(name, value)
