"""Shapes with names for the sizes that are not known, so that two unknown sizes can be known to be equal.

`_output_shapes` says [?, 256] of a layer and [?, 256] of its gradient, and not that both have the batch's rows. Here
the shape of a tensor is a tuple of ints and symbols; elementwise ops hand symbols on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from sparkflow_runtime.master.passes.view import Op, View

Symbols = tuple[int | str, ...]


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
        if op.op == "MatMul":
            return self._matmul(op)
        if op.op in _SHAPE_AT:
            return self._asked_for(op.data[_SHAPE_AT[op.op]])
        return None

    def _matmul(self, op: Op) -> Symbols | None:
        a, b = self.of(op.data[0]), self.of(op.data[1])
        if a is None or b is None or len(a) != 2 or len(b) != 2:
            return None
        return a[1 if op.attr("transpose_a") else 0], b[0 if op.attr("transpose_b") else 1]

    def _asked_for(self, edge: str) -> Symbols | None:
        """The shape that a shape tensor holds, where it is the Shape of a tensor."""
        shape = self._made_of.ops.get(edge)
        return self.of(shape.data[0]) if shape is not None and shape.op == "Shape" else None


def _broadcast(a: Symbols | None, b: Symbols | None, name: str) -> Symbols | None:
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    return tuple(_joined(x, y, f"{name}:0/{i}") for i, (x, y) in enumerate(zip(a, b)))


def _joined(x: int | str, y: int | str, fresh: str) -> int | str:
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
