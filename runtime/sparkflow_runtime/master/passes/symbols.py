"""Shapes with names for the sizes that are not known, so that two unknown sizes can be known to be equal.

`_output_shapes` says [?, 256] of a layer and [?, 256] of its gradient, and not that both have the batch's rows. Here
the shape of a tensor is a tuple of ints and symbols; elementwise ops hand symbols on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from sparkflow_runtime.master.passes.view import Op, View

Symbols = tuple[int | str, ...]
_LONGEST = 16  # a vector with more numbers is no shape


def words(text: str) -> frozenset[str]:
    """A set of names, written one after the other."""
    return frozenset(text.split())


SAME_AS_FIRST = words(
    "Identity StopGradient PreventGradient Neg Abs Sign Square Floor Ceil Rint Round Sqrt Rsqrt Exp Expm1 Log "
    "Log1p Tanh Sigmoid Sin Cos IsNan IsInf IsFinite LogicalNot Reciprocal Erf Cast Relu Relu6 Elu Selu Softplus "
    "Softsign LeakyRelu ReluGrad Relu6Grad EluGrad SeluGrad SoftplusGrad SoftsignGrad LeakyReluGrad SigmoidGrad "
    "TanhGrad SqrtGrad RsqrtGrad ReciprocalGrad ZerosLike OnesLike Softmax LogSoftmax BiasAdd ClipByValue "
    "CheckNumerics AddN"
)
BROADCAST = words(
    "Add AddV2 Sub Mul RealDiv Div DivNoNan FloorDiv TruncateDiv FloorMod Maximum Minimum Pow SquaredDifference "
    "Equal NotEqual Less LessEqual Greater GreaterEqual LogicalAnd LogicalOr"
)
_LIKE_FIRST = words("MaxPoolGrad MaxPool3DGrad FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3") | words(
    "FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3"
)
_SAME_BATCH = words("Conv2D Conv3D DepthwiseConv2dNative MaxPool MaxPool3D AvgPool AvgPool3D MaxPoolV2")
_SHAPE_AT = {  # the input that says which shape comes out
    **dict.fromkeys(words("Reshape BroadcastTo"), 1),
    **dict.fromkeys(words("Conv2DBackpropInput DepthwiseConv2dNativeBackpropInput Conv3DBackpropInputV2"), 0),
    **dict.fromkeys(words("AvgPoolGrad AvgPool3DGrad"), 0),
    "Fill": 0,
    "Slice": 2,
    "StridedSliceGrad": 0,
}


class Shapes:
    """The symbolic shape of every edge of a view. Worked out once, in order of the nodes: no pass changes the shape of
    an edge; of nodes that come later only what they say themselves is known. In a loop a symbol stands for a size of
    one iteration: none is handed on by control flow itself."""

    def __init__(self, view: View):
        self._view = ref(view)  # which holds them: without a ring all its nodes go as soon as it does
        self._known: dict[str, Symbols | None] = {}
        self._contents: dict[str, Symbols | int | str | None] = {}
        for op in view.ops.values():
            if view.context(op.name) is not None and op.name not in view.feeds:
                self._known[op.name] = self._first_port(op)

    def of(self, edge: str) -> Symbols | None:
        """None where not even the rank is known."""
        if edge not in self._known:
            name, _, port = edge.partition(":")
            op = self._made_of.ops.get(name) or self._made_of.fed.get(name)
            self._known[edge] = None if op is None else self._static(op, int(port or 0))
        return self._known[edge]

    @property
    def _made_of(self) -> View:
        view = self._view()
        assert view is not None, "whoever asks has the view"
        return view

    def _static(self, op: Op, port: int) -> Symbols | None:
        dims = op.static_shape(port)
        if dims is None or None not in dims:
            return dims  # type: ignore[return-value]
        return tuple(f"{op.name}:{port}/{i}" if d is None else d for i, d in enumerate(dims))

    def _first_port(self, op: Op) -> Symbols | None:
        static = self._static(op, 0)
        if static is not None and not any([isinstance(d, str) for d in static]):
            return static
        derived = self._derived(op)
        if derived is None or static is None or len(derived) != len(static):
            return derived or static
        return tuple(s if isinstance(s, int) else d for s, d in zip(static, derived))

    def _derived(self, op: Op) -> Symbols | None:
        if (op.op in SAME_AS_FIRST or op.op in _LIKE_FIRST) and op.data:
            return self.of(op.data[0])
        if op.op in _SAME_BATCH:
            x, y = self.of(op.data[0]), self._static(op, 0)
            return None if x is None or y is None else (x[0], *y[1:])
        if op.op in BROADCAST:
            return _broadcast(self.of(op.data[0]), self.of(op.data[1]), op.name)
        if op.op == "Select":
            return self.of(op.data[1])
        if (found := _MOVED.get(op.op)) is not None:
            return found(self, op)
        if op.op in _SHAPE_AT:
            wanted = self.content(op.data[_SHAPE_AT[op.op]])
            if not isinstance(wanted, tuple) or -1 not in wanted:
                return wanted if isinstance(wanted, tuple) else None
            return _filled(wanted, self.of(op.data[0])) if op.op == "Reshape" else None
        return None

    def _matmul(self, op: Op) -> Symbols | None:
        a, b = self.of(op.data[0]), self.of(op.data[1])
        if a is None or b is None or len(a) != 2 or len(b) != 2:
            return None
        return a[1 if op.attr("transpose_a") else 0], b[0 if op.attr("transpose_b") else 1]

    def _with_an_axis(self, op: Op) -> Symbols | None:
        given, axis = self.of(op.data[0]), self.content(op.data[1])
        if given is None or not isinstance(axis, int) or not -len(given) - 1 <= axis <= len(given):
            return None
        at = axis if axis >= 0 else axis + len(given) + 1
        return (*given[:at], 1, *given[at:])

    def _without_axes(self, op: Op) -> Symbols | None:
        given, axes = self.of(op.data[0]), list(op.attr("squeeze_dims", []))
        if given is None or not axes or any(not -len(given) <= a < len(given) for a in axes):
            return None
        return tuple(d for i, d in enumerate(given) if i not in axes and i - len(given) not in axes)

    def _looked_up(self, op: Op) -> Symbols | None:
        table, ids = self.of(op.data[0]), self.of(op.data[1])
        axis = self.content(op.data[2]) if len(op.data) == 3 else None
        if table is None or ids is None or axis != 0 or op.attr("batch_dims", 0):
            return None
        return (*ids, *table[1:])

    def _side_by_side(self, op: Op) -> Symbols | None:
        """The axes that all have alike; along the other one, what the node says."""
        *parts, axis = op.data
        first, said, at = self.of(parts[0]), self._static(op, 0), self.content(axis)
        if first is None or said is None or len(first) != len(said) or not isinstance(at, int):
            return None
        return tuple(said[i] if i == at % len(first) else d for i, d in enumerate(first))

    def _transposed(self, op: Op) -> Symbols | None:
        given, order = self.of(op.data[0]), self.content(op.data[1])
        if (
            given is None
            or not isinstance(order, tuple)
            or len(order) != len(given)
            or {*order} != {*range(len(given))}
        ):
            return None
        return tuple(given[i] for i in order if isinstance(i, int))

    # ------------------------------------------------------------------ what shape tensors hold

    def content(self, edge: str) -> Symbols | int | str | None:
        """Of a vector or scalar of sizes that is made of constants and of shapes: what it holds, as far as symbols say
        it; -1 is what the constants have for it."""
        if edge not in self._contents:
            op = self._made_of.ops.get(edge)
            made = _CONTENTS.get(op.op) if op is not None and edge not in self._made_of.feeds else None
            self._contents[edge] = None  # meanwhile: a loop's edges lead back
            self._contents[edge] = None if made is None or op is None else made(self, op)
        return self._contents[edge]

    def _constant(self, op: Op) -> Symbols | int | None:
        value = op.value
        if value is None or value.dtype.kind != "i" or value.ndim > 1 or value.size > _LONGEST:
            return None
        return tuple(value.tolist()) if value.ndim else int(value)

    def _shape(self, op: Op) -> Symbols | None:
        return self.of(op.data[0])

    def _some(self, op: Op) -> Symbols | int | str | None:
        """GatherV2 of sizes by constants."""
        held, at, axis = (self.content(e) for e in op.data)
        indices = at if isinstance(at, tuple) else (at,)
        if not isinstance(held, tuple) or axis != 0 or op.attr("batch_dims", 0):
            return None
        chosen = tuple(held[i] for i in indices if isinstance(i, int) and 0 <= i < len(held))
        if len(chosen) < len(indices):
            return None
        return chosen if isinstance(at, tuple) else chosen[0]

    def _part(self, op: Op) -> Symbols | int | str | None:
        """StridedSlice of sizes: x[a:b] or x[i]."""
        held, *bounds = (self.content(e) for e in op.data)
        if not isinstance(held, tuple) or any(not isinstance(b, tuple) or len(b) != 1 for b in bounds):
            return None
        begin, end, step = (b[0] for b in bounds)  # type: ignore[index]
        masks = [int(op.attr(f"{m}_mask", 0)) for m in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")]
        if not isinstance(begin, int) or not isinstance(end, int) or step != 1 or masks[2] or masks[3]:
            return None
        if masks[4]:
            return held[begin] if -len(held) <= begin < len(held) else None
        return held[None if masks[0] else begin : None if masks[1] else end]

    def _packed(self, op: Op) -> Symbols | None:
        parts = [self.content(e) for e in op.data]
        if any(p is None or isinstance(p, tuple) for p in parts):
            return None
        return tuple(p for p in parts if isinstance(p, (int, str)))

    def _joined(self, op: Op) -> Symbols | None:
        *parts, axis = (self.content(e) for e in op.data)
        if axis != 0 or not all(isinstance(p, tuple) for p in parts):
            return None
        return tuple(d for p in parts if isinstance(p, tuple) for d in p)

    def _product(self, op: Op) -> int | str | None:
        held, axes = (self.content(e) for e in op.data)
        if not isinstance(held, tuple) or axes not in (0, (0,)) or op.attr("keep_dims", False):
            return None
        known = math.prod(d for d in held if isinstance(d, int))
        names = sorted(d for d in held if isinstance(d, str))
        if not names or not known or min((d for d in held if isinstance(d, int)), default=0) < 0:
            return known if not names else None
        return "*".join(([str(known)] if known != 1 else []) + names)


_MOVED: dict[str, Callable[[Shapes, Op], Symbols | None]] = {
    "MatMul": Shapes._matmul,
    "ExpandDims": Shapes._with_an_axis,
    "Squeeze": Shapes._without_axes,
    "GatherV2": Shapes._looked_up,
    "ConcatV2": Shapes._side_by_side,
    "Transpose": Shapes._transposed,
}
_CONTENTS: dict[str, Callable[[Shapes, Op], Symbols | int | str | None]] = {
    "Const": Shapes._constant,
    "Shape": Shapes._shape,
    "GatherV2": Shapes._some,
    "StridedSlice": Shapes._part,
    "Pack": Shapes._packed,
    "ConcatV2": Shapes._joined,
    "Prod": Shapes._product,
}


def _filled(wanted: Symbols, given: Symbols | None) -> Symbols | None:
    """What a Reshape of `given` to `wanted` gives, in which one size is -1."""
    if given is None or wanted.count(-1) != 1 or 0 in wanted:
        return None
    rest, names = 1, [d for d in given if isinstance(d, str)]
    for d in wanted:
        if isinstance(d, str):
            if d not in names:
                return None
            names.remove(d)
        elif d != -1:
            rest *= d
    known = math.prod(d for d in given if isinstance(d, int))
    if len(names) > 1 or (names and known != rest) or known % rest:
        return None
    return tuple((names[0] if names else known // rest) if d == -1 else d for d in wanted)


def _broadcast(a: Symbols | None, b: Symbols | None, name: str) -> Symbols | None:
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
