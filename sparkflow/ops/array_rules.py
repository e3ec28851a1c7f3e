"""Static shapes of what array.py builds: tensors in another shape, turned, repeated and padded."""

from __future__ import annotations

from sparkflow.framework import shapes
from sparkflow.framework.constant_value import constant_value, constant_value_as_shape
from sparkflow.framework.graph import Operation
from sparkflow.framework.shapes import Dims
from sparkflow.ops import rules
from sparkflow_runtime.wire.errors import InvalidArgumentError


def reshape(op: Operation) -> list[Dims]:
    rules.require_rank(op, "shape", op.inputs[1], 1)
    old, new = op.inputs[0]._shape, constant_value_as_shape(op.inputs[1])
    if old is None or new is None or (None in old and 0 not in old):
        return [_with_carried(old, new)]
    if 0 in new and 0 in old:  # sizes of 0 on both sides do not count
        return [new]
    count = 0 if 0 in old else shapes.product(old)  # no elements, whatever the open sizes are
    known = shapes.product(d for d in new if d is not None)
    open_ = [i for i, d in enumerate(new) if d is None]
    fits = count == known if not open_ else known != 0 or count == 0
    if fits and open_ and known:
        fits = count % known == 0
    if not fits:
        raise InvalidArgumentError(
            f"Cannot reshape a tensor with {count} elements, of shape {shapes.show(old)}, to shape {shapes.show(new)} "
            f"({known} elements{' times a whole number' if open_ else ''})"
        )
    if len(open_) == 1 and known:
        new = (*new[: open_[0]], count // known, *new[open_[0] + 1 :])
    return [new]


def _with_carried(old: Dims, new: Dims) -> Dims:
    """new, checked as far as can be: with one unknown size in old, the others must divide the count of new."""
    if old is None or new is None or old.count(None) != 1 or new.count(None) != 0:
        return new
    known, count = shapes.product(d for d in old if d is not None), shapes.product(new)
    if known and count % known:
        raise InvalidArgumentError(
            f"Reshape: {shapes.show(old)} does not fit the {count} elements of {shapes.show(new)}"
        )
    return new


def expand(op: Operation) -> list[Dims]:
    dims = op.inputs[0]._shape
    if dims is None:
        return [None]
    axis = rules.constant_axis(op, op.inputs[1], len(dims) + 1)
    return [(None,) * (len(dims) + 1) if axis is None else (*dims[:axis], 1, *dims[axis:])]


def squeeze(op: Operation) -> list[Dims]:
    dims, axes = op.inputs[0]._shape, op.attrs["squeeze_dims"]
    if dims is None:
        return [None]
    if not axes:
        return [None if None in dims else tuple(d for d in dims if d != 1)]
    gone = {rules.axis_in(op, a, len(dims)) for a in axes}
    for a in gone:
        if dims[a] not in (1, None):
            raise InvalidArgumentError(f"Squeeze: axis {a} of {shapes.show(dims)} has size {dims[a]}, not 1")
    return [tuple(d for i, d in enumerate(dims) if i not in gone)]


def transpose(op: Operation) -> list[Dims]:
    dims, perm = op.inputs[0]._shape, constant_value(op.inputs[1])
    if perm is None:
        return [None if dims is None else (None,) * len(dims)]
    axes = [int(p) for p in perm.ravel()]
    if dims is None:
        return [(None,) * len(axes)]
    if sorted(a + len(dims) if a < 0 else a for a in axes) != list(range(len(dims))):
        raise InvalidArgumentError(f"Transpose: perm {axes} is no permutation of the axes of {shapes.show(dims)}")
    return [tuple(dims[a] for a in axes)]


def tile(op: Operation) -> list[Dims]:
    dims, times = op.inputs[0]._shape, constant_value_as_shape(op.inputs[1])
    if dims is None or times is None:
        return [None if dims is times else (None,) * len(dims or times or ())]
    if len(dims) != len(times):
        raise InvalidArgumentError(
            f"Tile: multiples {shapes.show(times)} must have an entry an axis of {shapes.show(dims)}"
        )
    return [tuple(0 if 0 in (d, t) else None if d is None or t is None else d * t for d, t in zip(dims, times))]


def pad(op: Operation) -> list[Dims]:
    rows = rules.require_rank(op, "paddings", op.inputs[1], 2)
    dims, paddings = op.inputs[0]._shape, constant_value(op.inputs[1])
    if dims is None:
        return [None if rows is None or rows[0] is None else (None,) * rows[0]]
    if not shapes.compatible(rows, (len(dims), 2)):
        raise InvalidArgumentError(
            f"{op.type}: paddings must have shape ({len(dims)}, 2) for {shapes.show(dims)}, got {shapes.show(rows)}"
        )
    if paddings is None:
        return [(None,) * len(dims)]
    if (paddings < 0).any():
        raise InvalidArgumentError(f"{op.type}: Paddings must be non-negative, got {paddings.tolist()}")
    return [tuple(None if d is None else d + int(a) + int(b) for d, (a, b) in zip(dims, paddings))]


def unpad(op: Operation) -> list[Dims]:
    dims, paddings = op.inputs[0]._shape, constant_value(op.inputs[1])
    if dims is None or paddings is None:
        return [None if dims is None else (None,) * len(dims)]
    return [tuple(None if d is None else d - int(a) - int(b) for d, (a, b) in zip(dims, paddings))]


def broadcast_to(op: Operation) -> list[Dims]:
    """A size that is not known yet is the input's own, unless that is 1."""
    old, new = op.inputs[0]._shape, constant_value_as_shape(op.inputs[1])
    shapes.broadcast(old, new, "BroadcastTo")
    if old is None or new is None or len(old) > len(new):
        return [new]
    padded = (1,) * (len(new) - len(old)) + old
    return [tuple(mine if theirs is None and mine != 1 else theirs for mine, theirs in zip(padded, new))]
