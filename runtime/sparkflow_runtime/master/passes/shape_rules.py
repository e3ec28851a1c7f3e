"""What ops that move, cut, join or reduce axes make of shapes whose unknown sizes have names (symbols.py).

A rule gives None where it cannot tell; what the node itself says of its shape goes before. `FIRST` is for an op's first
output, `EVERY` for all outputs of one that has several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkflow_runtime.master.passes.symbols import Shapes
    from sparkflow_runtime.master.passes.view import Op

Symbols = tuple[int | str, ...]
Rule = Callable[["Shapes", "Op"], Symbols | None]
EveryRule = Callable[["Shapes", "Op", int], Symbols | None]
FIRST: dict[str, Rule] = {}
EVERY: dict[str, EveryRule] = {}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    def register(fn: Rule) -> Rule:
        FIRST.update(dict.fromkeys(ops, fn))
        return fn

    return register


def every(*ops: str) -> Callable[[EveryRule], EveryRule]:
    def register(fn: EveryRule) -> EveryRule:
        EVERY.update(dict.fromkeys(ops, fn))
        return fn

    return register


# ---------------------------------------------------------------------- sizes


def factors(size: int | str) -> tuple[int, list[str]]:
    """A size as a number and the names that it is a product of."""
    if isinstance(size, int):
        return size, []
    first, *rest = size.split("*")
    return (int(first), rest) if first.isdigit() else (1, [first, *rest])


def product(sizes: Sequence[int | str]) -> tuple[int, list[str]]:
    """How many elements a shape has: a number, and the sorted names to multiply it by."""
    parts = [factors(d) for d in sizes]
    return math.prod(n for n, _ in parts), sorted(name for _, names in parts for name in names)


def times(number: int, names: Sequence[str]) -> int | str:
    """The size that is such a product."""
    if not names or number == 0:
        return number
    return "*".join([*([str(number)] if number != 1 else []), *sorted(names)])


def filled(wanted: Symbols, given: Symbols | None) -> Symbols | None:
    """What a Reshape of `given` to `wanted` gives, in which one size is -1."""
    if given is None or wanted.count(-1) != 1 or 0 in wanted:
        return None
    known, names = product(given)
    rest, taken = product([d for d in wanted if d != -1])
    for name in taken:
        if name not in names:
            return None
        names.remove(name)
    return None if known % rest else tuple(times(known // rest, names) if d == -1 else d for d in wanted)


def broadcast(a: Symbols | None, b: Symbols | None, name: str) -> Symbols | None:
    """The shape that two have together; `name` is the node's, for sizes that become known only then."""
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    return tuple(_wider(x, y, f"{name}:0/{i}") for i, (x, y) in enumerate(zip(a, b)))


def _wider(x: int | str, y: int | str, fresh: str) -> int | str:
    """The size two sizes broadcast to: a size above 1 wins over an unknown one, which must be 1 or the same."""
    if x == y or y == 1:
        return x
    if x == 1 or isinstance(y, int):
        return y
    return x if isinstance(x, int) else fresh


def repeated_axes(a: Symbols | None, b: Symbols | None) -> tuple[list[int], list[int]] | None:
    """What BroadcastGradientArgs gives for two shapes; None where that depends on an unknown size."""
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    wide_a, wide_b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    over_a, over_b = [], []
    for i, (x, y) in enumerate(zip(wide_a, wide_b)):
        if i < rank - len(a):  # an axis that a does not have
            over_a.append(i)
        elif i < rank - len(b):
            over_b.append(i)
        elif x == y:
            continue  # the same size, whatever it is
        elif not isinstance(x, int) or not isinstance(y, int):
            return None
        elif x == 1:
            over_a.append(i)
        elif y == 1:
            over_b.append(i)
    return over_a, over_b


# ---------------------------------------------------------------------- products


@rule("MatMul")
def _matmul(shapes: Shapes, op: Op) -> Symbols | None:
    a, b = shapes.of(op.data[0]), shapes.of(op.data[1])
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return None
    return a[1 if op.attr("transpose_a") else 0], b[0 if op.attr("transpose_b") else 1]


@rule("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul(shapes: Shapes, op: Op) -> Symbols | None:
    a, b = shapes.of(op.data[0]), shapes.of(op.data[1])
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return None
    lead = broadcast(a[:-2], b[:-2], op.name)
    return None if lead is None else (*lead, a[-1 if op.attr("adj_x") else -2], b[-2 if op.attr("adj_y") else -1])


# ---------------------------------------------------------------------- axes put in and left out


def _at(axis: object, rank: int) -> int | None:
    """An axis counted from the front; None where it is not known or not there."""
    return axis % rank if isinstance(axis, int) and -rank <= axis < rank else None


def _without(given: Symbols | None, axes: object, keep: bool = False) -> Symbols | None:
    """Without those axes, or with 1 in their place."""
    axes = (axes,) if isinstance(axes, int) else axes
    if given is None or not isinstance(axes, tuple):
        return None
    gone = [_at(axis, len(given)) for axis in axes]
    if None in gone:
        return None
    return tuple(1 if i in gone else d for i, d in enumerate(given) if keep or i not in gone)


def _with(given: Symbols | None, axis: object, size: int) -> Symbols | None:
    at = None if given is None else _at(axis, len(given) + 1)
    return None if given is None or at is None else (*given[:at], size, *given[at:])


@rule("ExpandDims")
def _with_an_axis(shapes: Shapes, op: Op) -> Symbols | None:
    return _with(shapes.of(op.data[0]), shapes.content(op.data[1]), 1)


@rule("Squeeze")
def _without_axes(shapes: Shapes, op: Op) -> Symbols | None:
    axes = tuple(op.attr("squeeze_dims", []))
    return _without(shapes.of(op.data[0]), axes) if axes else None


@rule("Sum", "Mean", "Prod", "Max", "Min", "All", "Any", "EuclideanNorm")
def _reduced(shapes: Shapes, op: Op) -> Symbols | None:
    return _without(shapes.of(op.data[0]), shapes.content(op.data[1]), bool(op.attr("keep_dims", False)))


@rule("ArgMax", "ArgMin")
def _position(shapes: Shapes, op: Op) -> Symbols | None:
    return _without(shapes.of(op.data[0]), shapes.content(op.data[1]))


@rule("Pack")
def _packed(shapes: Shapes, op: Op) -> Symbols | None:
    return _with(shapes.of(op.data[0]), op.attr("axis", 0), len(op.data))


@every("Unpack")
def _unpacked(shapes: Shapes, op: Op, port: int) -> Symbols | None:
    return _without(shapes.of(op.data[0]), op.attr("axis", 0))


@rule("Transpose")
def _transposed(shapes: Shapes, op: Op) -> Symbols | None:
    given, order = shapes.of(op.data[0]), shapes.content(op.data[1])
    if given is None or not isinstance(order, tuple) or sorted(map(str, order)) != sorted(map(str, range(len(given)))):
        return None
    return tuple(given[i] for i in order if isinstance(i, int))


# ---------------------------------------------------------------------- rows, columns, parts


@rule("GatherV2")
def _looked_up(shapes: Shapes, op: Op) -> Symbols | None:
    given, ids = shapes.of(op.data[0]), shapes.of(op.data[1])
    at = None if given is None or len(op.data) < 3 else _at(shapes.content(op.data[2]), len(given))
    if given is None or ids is None or at is None or op.attr("batch_dims", 0):
        return None
    return (*given[:at], *ids, *given[at + 1 :])


@rule("ResourceGather")
def _looked_up_in_a_variable(shapes: Shapes, op: Op) -> Symbols | None:
    """The variable's handle does not say its shape; the node says that of a row."""
    ids, said = shapes.of(op.data[1]), op.static_shape(0)
    if ids is None or said is None or len(said) < len(ids) or None in said[len(ids) :] or op.attr("batch_dims", 0):
        return None
    return (*ids, *(d for d in said[len(ids) :] if d is not None))


@rule("ConcatV2")
def _side_by_side(shapes: Shapes, op: Op) -> Symbols | None:
    """The axes that all have alike, or the kernel raises. Along the other one, so many times what all have there, or
    what the node says."""
    *parts, axis = op.data
    given, said = [shapes.of(part) for part in parts], shapes.said(op)
    first = given[0]
    at = None if first is None else _at(shapes.content(axis), len(first))
    if first is None or said is None or len(first) != len(said) or at is None:
        return None
    number, names = factors(first[at])
    alike = all(other is not None and other[at : at + 1] == first[at : at + 1] for other in given)
    length = times(len(given) * number, names) if alike else said[at]
    ranks = {len(other) for other in given if other is not None}
    if ranks != {len(first)}:
        return None
    sizes = [shapes.steadiest([other[i] for other in given if other is not None]) for i in range(len(first))]
    return tuple(length if i == at else d for i, d in enumerate(sizes))


@every("Split")
def _split(shapes: Shapes, op: Op, port: int) -> Symbols | None:
    given, count = shapes.of(op.data[1]), op.attr("num_split", 0)
    at = None if given is None else _at(shapes.content(op.data[0]), len(given))
    if given is None or at is None or not count:
        return None
    number, names = factors(given[at])
    part = f"{op.name}:0/{at}" if number % count else times(number // count, names)
    return tuple(part if i == at else d for i, d in enumerate(given))


@every("SplitV")
def _split_by_sizes(shapes: Shapes, op: Op, port: int) -> Symbols | None:
    given, said = shapes.of(op.data[0]), shapes.said(op, port)
    at = None if given is None else _at(shapes.content(op.data[2]), len(given))
    if given is None or said is None or len(given) != len(said) or at is None:
        return None
    return tuple(said[i] if i == at else d for i, d in enumerate(given))


@rule("Tile")
def _tiled(shapes: Shapes, op: Op) -> Symbols | None:
    given, counts = shapes.of(op.data[0]), shapes.content(op.data[1])
    if given is None or not isinstance(counts, tuple) or len(counts) != len(given):
        return None
    sizes = [product([d, n]) for d, n in zip(given, counts)]
    return tuple(times(number, names) for number, names in sizes)


@rule("Slice")
def _part(shapes: Shapes, op: Op) -> Symbols | None:
    given, (begin, sizes) = shapes.of(op.data[0]), (shapes.content(e) for e in op.data[1:3])
    if not isinstance(sizes, tuple) or -1 not in sizes:
        return sizes if isinstance(sizes, tuple) else None
    if given is None or not isinstance(begin, tuple) or not len(given) == len(begin) == len(sizes):
        return None
    found = tuple(d if n == -1 and b == 0 else n for d, b, n in zip(given, begin, sizes))
    return None if -1 in found else found


@rule("StridedSlice")
def _strided(shapes: Shapes, op: Op) -> Symbols | None:
    given, bounds = shapes.of(op.data[0]), [shapes.content(e) for e in op.data[1:4]]
    if given is None or not all(isinstance(b, tuple) for b in bounds):
        return None
    begin, end, strides = (b if isinstance(b, tuple) else () for b in bounds)
    masks = {m: int(op.attr(f"{m}_mask", 0)) for m in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    has = lambda mask, i: bool(masks[mask] >> i & 1)  # noqa: E731
    taken = [i for i in range(len(begin)) if not has("ellipsis", i) and not has("new_axis", i)]
    axis, found = 0, list[int | str]()
    for i, step in enumerate(strides):
        if has("ellipsis", i):
            rest = max(0, len(given) - len(taken))
            found += given[axis : axis + rest]
            axis += rest
        elif has("new_axis", i):
            found.append(1)
        elif axis == len(given):
            return None
        else:
            if not has("shrink_axis", i):
                bound = (None if has("begin", i) else begin[i], None if has("end", i) else end[i], step)
                found.append(_length(given[axis], *bound, f"{op.name}:0/{len(found)}"))
            axis += 1
    return (*found, *given[axis:])


def _length(size: int | str, begin: int | str | None, end: int | str | None, step: int | str, fresh: str) -> int | str:
    """Of what a slice takes of an axis; None for a bound that is left open."""
    if (begin is end is None and step == -1) or (begin in (None, 0) and end in (None, size) and step == 1):
        return size
    if isinstance(size, int) and isinstance(step, int) and step and not any(isinstance(b, str) for b in (begin, end)):
        return len(range(*slice(begin, end, step).indices(size)))
    return fresh


@rule("Pad", "PadV2", "MirrorPad")
def _padded(shapes: Shapes, op: Op) -> Symbols | None:
    """An axis that gets nothing stays as long as it is; of a known one and a constant the node says it."""
    given, widths, said = shapes.of(op.data[0]), shapes.view.ops.get(op.data[1]), shapes.said(op)
    if given is None or said is None or widths is None or widths.op != "Const" or op.data[1] in shapes.view.feeds:
        return None
    if widths.value.shape != (len(given), 2) or len(said) != len(given):
        return None
    return tuple(new if ends.any() else d for d, new, ends in zip(given, said, widths.value))


@rule("OneHot")
def _one_hot(shapes: Shapes, op: Op) -> Symbols | None:
    given, depth, axis = shapes.of(op.data[0]), shapes.content(op.data[1]), op.attr("axis", -1)
    if given is None or not isinstance(depth, int):
        return None
    at = _at(axis, len(given) + 1)
    return None if at is None else (*given[:at], depth, *given[at:])


@rule("Range")
def _range(shapes: Shapes, op: Op) -> Symbols | None:
    """The places of an axis: from 0 to its size."""
    start, limit, step = (shapes.content(e) for e in op.data)
    return (limit,) if start == 0 and step == 1 and isinstance(limit, str) else None


# ---------------------------------------------------------------------- others


@rule("SelectV2")
def _select(shapes: Shapes, op: Op) -> Symbols | None:
    first = broadcast(shapes.of(op.data[0]), shapes.of(op.data[1]), op.name)
    return broadcast(first, shapes.of(op.data[2]), op.name)


@every("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_cross_entropy(shapes: Shapes, op: Op, port: int) -> Symbols | None:
    """The labels are as many as the logits have rows, or the kernel raises."""
    logits = shapes.of(op.data[0])
    return logits if port or logits is None else logits[:1]


@every("SoftmaxCrossEntropyWithLogits")
def _cross_entropy(shapes: Shapes, op: Op, port: int) -> Symbols | None:
    logits, labels = shapes.of(op.data[0]), shapes.of(op.data[1])
    if logits is None or logits != labels:
        return None
    return logits if port else logits[:1]


@every("QueueDequeueManyV2", "QueueDequeueUpToV2")
def _dequeued(shapes: Shapes, op: Op, port: int) -> Symbols | None:
    """Of all components as many elements."""
    said = shapes.said(op, port)
    return None if not said or isinstance(said[0], int) else (f"{op.name}:0/0", *said[1:])
