"""Shapes with names for the sizes that are not known, so that two unknown sizes can be known to be equal.

`_output_shapes` says [?, 256] of a layer and [?, 256] of its gradient, and not that both have the batch's rows. Here
the shape of a tensor is a tuple of ints and symbols; elementwise ops hand symbols on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from weakref import ref

from sparkflow_runtime.master.passes.contexts import CONTROL_FLOW, ENTER, SWITCH
from sparkflow_runtime.master.passes.loop_shapes import Carried, of_the_step, popped
from sparkflow_runtime.master.passes.shape_rules import EVERY, FIRST, Symbols, broadcast, filled, product, times

if TYPE_CHECKING:
    from sparkflow_runtime.master.passes.view import Op, View

_DEEPEST = 100
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
_LIKE_FIRST = words(
    "MaxPoolGrad MaxPool3DGrad FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 FusedBatchNormGrad "
    "FusedBatchNormGradV2 FusedBatchNormGradV3 Cumsum Cumprod ReverseV2 ReverseSequence Bucketize "
    "StringToHashBucketFast StringToHashBucketStrong AsString StringToNumber StringStrip StringLower StringUpper"
)
_SAME_BATCH = words("Conv2D Conv3D DepthwiseConv2dNative MaxPool MaxPool3D AvgPool AvgPool3D MaxPoolV2")
_SHAPE_AT = {  # the input that says which shape comes out
    **dict.fromkeys(words("Reshape BroadcastTo"), 1),
    **dict.fromkeys(words("Conv2DBackpropInput DepthwiseConv2dNativeBackpropInput Conv3DBackpropInputV2"), 0),
    **dict.fromkeys(words("AvgPoolGrad AvgPool3DGrad"), 0),
    **dict.fromkeys(words("Fill StridedSliceGrad RandomUniform RandomStandardNormal TruncatedNormal"), 0),
}


class Shapes:
    """The symbolic shape of every edge of a view. Worked out once, in order of the nodes: no pass changes the shape of
    an edge; of nodes that come later only what they say themselves is known. In a loop a symbol that is made there
    stands for a size of one iteration (loop_shapes.py)."""

    def __init__(self, view: View):
        self._view = ref(view)  # which holds them: without a ring all its nodes go as soon as it does
        self._known: dict[str, Symbols | None] = {}
        self._contents: dict[str, Symbols | int | str | None] = {}
        self._depth = 0
        self.carried = Carried(view)
        self._work_out(view)
        while not self.carried.settled(self):
            self._known.clear()
            self._contents.clear()
            self._work_out(view)

    def _work_out(self, view: View) -> None:
        for op in view.ops.values():
            if self._may_be_derived(op, view) and op.name not in view.feeds:
                self._known[op.name] = self._worked_out(op, 0)

    def _may_be_derived(self, op: Op, view: View) -> bool:
        return view.context(op.name) is not None or op.op in CONTROL_FLOW

    def of(self, edge: str) -> Symbols | None:
        """None where not even the rank is known."""
        if edge not in self._known:
            view, (name, _, port) = self.view, edge.partition(":")
            op = view.ops.get(name) or view.fed.get(name)
            self._known[edge] = None if op is None else self.said(op, int(port or 0))  # a loop's edges lead back to it
            several = op is not None and port and op.op in EVERY and edge not in view.feeds
            if op is not None and several and self._may_be_derived(op, view):
                self._known[edge] = self._worked_out(op, int(port))
        return self._known[edge]

    @property
    def view(self) -> View:
        view = self._view()
        assert view is not None, "whoever asks has the view"
        return view

    def said(self, op: Op, port: int = 0) -> Symbols | None:
        """What the node itself says of an output, with names of its own for the sizes that it leaves open."""
        dims = op.static_shape(port)
        if dims is None or None not in dims:
            return dims  # type: ignore[return-value]
        return tuple(f"{op.name}:{port}/{i}" if d is None else d for i, d in enumerate(dims))

    def _worked_out(self, op: Op, port: int) -> Symbols | None:
        static = self.said(op, port)
        if static is not None and not any([isinstance(d, str) for d in static]):
            return static
        derived = EVERY[op.op](self, op, port) if op.op in EVERY else self._derived(op)
        if derived is None or static is None or len(derived) != len(static):
            return derived or static
        return tuple(s if isinstance(s, int) else d for s, d in zip(static, derived))

    def _derived(self, op: Op) -> Symbols | None:
        if (op.op in SAME_AS_FIRST or op.op in _LIKE_FIRST) and op.data:
            return self.of(op.data[0])
        if op.op in _SAME_BATCH:
            x, y = self.of(op.data[0]), self.said(op)
            return None if x is None or y is None else (x[0], *y[1:])
        if op.op in BROADCAST:
            return broadcast(self.of(op.data[0]), self.of(op.data[1]), op.name)
        if op.op == "Select":
            return self.of(op.data[1])
        if (found := FIRST.get(op.op)) is not None:
            return found(self, op)
        if op.op in _SHAPE_AT:
            wanted = self.content(op.data[_SHAPE_AT[op.op]])
            if not isinstance(wanted, tuple) or -1 not in wanted:
                return wanted if isinstance(wanted, tuple) else None
            return filled(wanted, self.of(op.data[0])) if op.op == "Reshape" else None
        return None

    def steadiest(self, sizes: Sequence[int | str]) -> int | str:
        """Of names for the same size a number; or one that is no iteration's own; or the last one, which in a cell is
        that of the state."""
        if len(set(sizes)) == 1:
            return sizes[0]
        steady = [d for d in sizes if of_the_step((d,), self.view)]
        return next((d for d in steady if isinstance(d, int)), (steady or sizes)[-1])

    # ------------------------------------------------------------------ what shape tensors hold

    def content(self, edge: str) -> Symbols | int | str | None:
        """Of a vector or scalar of sizes that is made of constants and of shapes: what it holds, as far as symbols say
        it; -1 is what the constants have for it."""
        if edge not in self._contents:
            name, _, port = edge.partition(":")
            op = self.view.ops.get(name) if edge not in self.view.feeds else None
            made = _CONTENTS.get(op.op) if op is not None and not port else None
            self._contents[edge] = None  # meanwhile: a loop's edges lead back
            self._depth += 1  # a longer chain than sizes are made by is not followed: Python would end it
            if op is not None and op.op in SWITCH and self._depth < _DEEPEST:
                self._contents[edge] = self.content(op.data[0])
            elif op is not None and op.op == "Unpack":
                self._contents[edge] = self._element(op, int(port or 0))
            elif op is not None and made is not None and self._depth < _DEEPEST:
                self._contents[edge] = made(self, op)
            self._depth -= 1
        return self._contents[edge]

    def _constant(self, op: Op) -> Symbols | int | None:
        value = op.value
        if value is None or value.dtype.kind != "i" or value.ndim > 1 or value.size > _LONGEST:
            return None
        return tuple(value.tolist()) if value.ndim else int(value)

    def _element(self, op: Op, port: int) -> int | str | None:
        held = self.content(op.data[0])
        return held[port] if isinstance(held, tuple) and port < len(held) else None

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

    def _stitched(self, op: Op) -> Symbols | None:
        """DynamicStitch of sizes, as a gradient puts 1 in the place of the axes that were summed over."""
        held, half = [self.content(e) for e in op.data], len(op.data) // 2
        found = dict[int | str, int | str]()
        for places, sizes in zip(held[:half], held[half:]):
            if not isinstance(places, tuple) or not isinstance(sizes, tuple) or len(places) != len(sizes):
                return None
            found.update(zip(places, sizes))
        return tuple(found[i] for i in range(len(found))) if found.keys() == set(range(len(found))) else None

    def _product(self, op: Op) -> int | str | None:
        held, axes = (self.content(e) for e in op.data)
        if not isinstance(held, tuple) or axes not in (0, (0,)) or op.attr("keep_dims", False):
            return None
        return _times(held)

    def _size(self, op: Op) -> int | str | None:
        held = self.of(op.data[0])
        return None if held is None else _times(held)

    def _multiplied(self, op: Op) -> int | str | None:
        """Mul of two scalars."""
        a, b = (self.content(e) for e in op.data)
        return _times((a, b)) if isinstance(a, (int, str)) and isinstance(b, (int, str)) else None

    def _entered(self, op: Op) -> Symbols | int | str | None:
        return self.content(op.data[0])

    def _as_it_is(self, op: Op) -> Symbols | int | str | None:
        exact = op.op == "Identity" or op.attr("DstT").np.name in ("int32", "int64")
        return self.content(op.data[0]) if exact else None

    def _as_vector(self, op: Op) -> Symbols | None:
        """ExpandDims or Reshape of a scalar; a Reshape of a vector to one."""
        held, wanted = (self.content(e) for e in op.data)
        if isinstance(held, tuple):
            return held if op.op == "Reshape" and wanted == (-1,) else None
        fits = wanted in (0, -1) if op.op == "ExpandDims" else wanted in ((1,), (-1,))
        return (held,) if held is not None and fits else None


def _times(sizes: Symbols) -> int | str | None:
    number, names = product(sizes)
    return None if number < 0 or (names and not number) else times(number, names)


_CONTENTS: dict[str, Callable[[Shapes, Op], Symbols | int | str | None]] = {
    "Const": Shapes._constant,
    "Shape": Shapes._shape,
    "Size": Shapes._size,
    "StackPopV2": popped,
    **dict.fromkeys(ENTER, Shapes._entered),
    "GatherV2": Shapes._some,
    "StridedSlice": Shapes._part,
    "Pack": Shapes._packed,
    "ConcatV2": Shapes._joined,
    "DynamicStitch": Shapes._stitched,
    "Prod": Shapes._product,
    "Mul": Shapes._multiplied,
    **dict.fromkeys(("Identity", "Cast"), Shapes._as_it_is),
    **dict.fromkeys(("ExpandDims", "Reshape"), Shapes._as_vector),
}
