"""Arithmetic that can be left out or made cheaper.

A rule looks at one node and gives the edge that may take its place, or changes the node and gives None. Rules give the
same bits unless they say `inexact`; those run only where RewriterConfig asks for AGGRESSIVE.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.master.passes.contexts import OUTSIDE, Context
from sparkflow_runtime.master.passes.dependencies import may_be_variables
from sparkflow_runtime.master.passes.fold import constant_op
from sparkflow_runtime.master.passes.shape_rules import factors, product
from sparkflow_runtime.master.passes.symbols import BROADCAST
from sparkflow_runtime.master.passes.view import Op, View, producer
from sparkflow_runtime.wire.dtypes import DType


class Scene:
    """What a rule may look at besides its node."""

    def __init__(self, view: View):
        self.view, self.shapes, self.variables = view, view.shapes, may_be_variables(view)
        self.inside: Context = OUTSIDE  # of which conds and loops the node is
        self.new: dict[str, Op] = {}  # constants that rules made

    def op(self, edge: str) -> Op | None:
        """The node whose first output an edge is, unless that is fed or runs at other times than this one."""
        op = self.view.ops.get(edge)
        return op if op is not None and edge not in self.view.feeds and self.beside(edge) else None

    def beside(self, edge: str) -> bool:
        """Whether an edge comes from inside of the same conds and loops. What comes into or out of one stays as it is:
        plans know loops by their shape."""
        return self.view.context(producer(edge)) == self.inside

    def stays(self, edge: str) -> bool:
        """Whether an edge has the same value for a node that takes it later than its user did."""
        return producer(edge) not in self.variables

    def constant(self, edge: str) -> Any:
        return self.view.constant(edge, self.inside)

    def everywhere(self, edge: str, value: float, op: Op, other: str) -> bool:
        """Whether an edge is `value` in every element and the op's result has the shape of `other`. The sign of zero
        counts."""
        found = self.constant(edge)
        if found is None or found.dtype.kind not in "iufb" or found.size == 0:
            return False
        if found.item(0) != value:
            return False
        same = bool((found == value).all()) and not (value == 0 and np.signbit(found).any() != np.signbit(value))
        return same and self.keeps_shape(op, other)

    def keeps_shape(self, op: Op, edge: str) -> bool:
        ours, theirs = self.shapes.of(op.name), self.shapes.of(edge)
        return ours is not None and ours == theirs


Rule = Callable[[Op, Scene], "str | None"]
_RULES: dict[str, list[tuple[Rule, bool]]] = {}


def rule(*ops: str, inexact: bool = False) -> Callable[[Rule], Rule]:
    def register(fn: Rule) -> Rule:
        for op in ops:
            _RULES.setdefault(op, []).append((fn, inexact))
        return fn

    return register


def arithmetic(view: View, aggressive: bool = False) -> None:
    """Apply the rules once to every node, producers first."""
    scene, edges = Scene(view), dict[str, str]()
    for op in view.ops.values():
        if edges:
            op.data = [edges.get(e, e) for e in op.data]
        inside = view.context(op.name)
        if op.op not in _RULES or inside is None or op.name in view.feeds or op.control:
            continue
        scene.inside = inside
        instead = _instead(op, scene, aggressive)
        if instead is not None and scene.stays(instead) and (not inside or scene.beside(instead)):
            edges[op.name] = edges.get(instead, instead)
    if scene.new:
        view.ops = {**scene.new, **view.ops}
        view.free = view.free.union(scene.new)
    view.redirect(edges)
    view.prune()


def _instead(op: Op, scene: Scene, aggressive: bool) -> str | None:
    for fn, inexact in _RULES[op.op]:
        if aggressive or not inexact:
            found = fn(op, scene)
            if found is not None:
                return found
    return None


# ---------------------------------------------------------------------- neutral elements


@rule("Mul", "RealDiv", "Div")
def _times_one(op: Op, scene: Scene) -> str | None:
    a, b = op.data
    if scene.everywhere(b, 1, op, a):
        return a
    return b if op.op == "Mul" and scene.everywhere(a, 1, op, b) else None


@rule("FloorDiv", "TruncateDiv")
def _integer_by_one(op: Op, scene: Scene) -> str | None:
    whole = op.attr("T").is_integer and scene.everywhere(op.data[1], 1, op, op.data[0])
    return op.data[0] if whole else None


@rule("Sub")
def _minus_zero(op: Op, scene: Scene) -> str | None:
    return op.data[0] if scene.everywhere(op.data[1], 0.0, op, op.data[0]) else None


@rule("Add", "AddV2")
def _plus_zero(op: Op, scene: Scene) -> str | None:
    """x + -0.0 is x; x + 0.0 is too, but where x is -0.0."""
    for zero, other in (op.data[::-1], op.data):
        value = scene.constant(zero)
        if value is not None and value.dtype.kind in "iuf":
            neutral = 0.0 if value.dtype.kind in "iu" else -0.0
            if scene.everywhere(zero, neutral, op, other):
                return other
    return None


@rule("Add", "AddV2", inexact=True)
def _plus_positive_zero(op: Op, scene: Scene) -> str | None:
    for zero, other in (op.data[::-1], op.data):
        if scene.everywhere(zero, 0.0, op, other):
            return other
    return None


@rule("AddN", "ConcatV2")
def _only_one(op: Op, scene: Scene) -> str | None:
    return op.data[0] if len(op.data) == (2 if op.op == "ConcatV2" else 1) else None


@rule("Maximum", "Minimum", "LogicalAnd", "LogicalOr")
def _with_itself(op: Op, scene: Scene) -> str | None:
    return op.data[0] if op.data[0] == op.data[1] else None


# ---------------------------------------------------------------------- one op after another


@rule("Neg", "LogicalNot", "Conj")
def _undone(op: Op, scene: Scene) -> str | None:
    inner = scene.op(op.data[0])
    return inner.data[0] if inner is not None and inner.op == op.op and not inner.control else None


@rule("Abs", "Relu", "Relu6", "Floor", "Ceil", "Rint", "Sign", "Round")
def _done_already(op: Op, scene: Scene) -> str | None:
    inner = scene.op(op.data[0])
    return op.data[0] if inner is not None and inner.op == op.op else None


@rule("Add", "AddV2", "Sub")
def _of_negative(op: Op, scene: Scene) -> None:
    """x + (-y) is x - y, and x - (-y) is x + y, in every bit."""
    inner = scene.op(op.data[1])
    if inner is not None and inner.op == "Neg" and not inner.control and scene.stays(inner.data[0]):
        op.become("AddV2" if op.op == "Sub" else "Sub", [op.data[0], inner.data[0]])


@rule("Reshape")
def _reshaped_twice(op: Op, scene: Scene) -> str | None:
    inner = scene.op(op.data[0])
    if inner is not None and inner.op in ("Reshape", "ExpandDims", "Squeeze") and _succeeds(inner, scene):
        op.data = [inner.data[0], op.data[1]]
    shape = scene.op(op.data[1])
    if shape is not None and shape.op == "Shape" and _same(scene, shape.data[0], op.data[0]):
        return op.data[0]
    return op.data[0] if scene.keeps_shape(op, op.data[0]) or _asks_for_its_shape(op, scene) else None


def _succeeds(inner: Op, scene: Scene) -> bool:
    """Whether a change of shape finds the sizes that it names: the error of one that does not has to stay. A shape that
    is computed from other shapes is taken to fit, as look-ups and gradients make such."""
    if inner.control:
        return False
    given, made = scene.shapes.of(inner.data[0]), scene.shapes.of(inner.name)
    if given is not None and made is not None and product(given) == product(made):
        return True
    wanted = scene.constant(inner.data[1]) if inner.op == "Reshape" else None
    if wanted is None:
        return inner.op == "Reshape"
    if (wanted == -1).sum() != 1:
        return False
    rest = math.prod(wanted[wanted != -1].tolist())
    return rest > 0 and product(given or ())[0] % rest == 0


def _asks_for_its_shape(op: Op, scene: Scene) -> bool:
    """Whether the wanted shape is a constant that says what is known of the tensor's own: [-1, 16] of [?, 16]."""
    dims, wanted = scene.shapes.of(op.data[0]), scene.constant(op.data[1])
    if dims is None or wanted is None or len(dims) != len(wanted):
        return False
    open_axes = [i for i, want in enumerate(wanted.tolist()) if want == -1]
    rest = [(d, want) for d, want in zip(dims, wanted.tolist()) if want != -1]
    return len(open_axes) <= 1 and all(d == want and want > 0 for d, want in rest)


@rule("StridedSliceGrad")
def _gradient_of_new_axes(op: Op, scene: Scene) -> None:
    """Where a slice takes all there is and only adds axes, its gradient has another shape and no other elements."""
    sizes, _, _, strides, dy = op.data
    steps = scene.constant(strides)
    if steps is None:
        return
    whole = op.attr("ellipsis_mask", 0) | (op.attr("begin_mask", 0) & op.attr("end_mask", 0))
    added = op.attr("new_axis_mask", 0) & ~op.attr("ellipsis_mask", 0)
    for i, step in enumerate(steps.tolist()):
        if added >> i & 1:
            continue
        if op.attr("shrink_axis_mask", 0) >> i & 1 or not whole >> i & 1 or step != 1:
            return
    op.become("Reshape", [dy, sizes])
    op.set("Tshape", op.attr("Index"))


@rule("BroadcastTo")
def _broadcast_already(op: Op, scene: Scene) -> str | None:
    return op.data[0] if scene.keeps_shape(op, op.data[0]) else None


_SPREAD = {"BroadcastTo": 0, "Fill": 1, "Reshape": 0}  # the input that holds the numbers


@rule(*BROADCAST)
def _spread_by_itself(op: Op, scene: Scene) -> None:
    """What is combined with a tensor of the result's shape need not be brought to that shape first: so the gradients of
    sums and means are spread."""
    for side in (0, 1):
        while (source := _spread_from(op.data[side], scene)) and scene.keeps_shape(op, op.data[1 - side]):
            op.data[side] = source


def _spread_from(edge: str, scene: Scene) -> str | None:
    """What an edge is spread from, if that may be taken instead."""
    found = scene.view.ops.get(edge)
    if found is None or found.op not in _SPREAD or scene.op(edge) is None or found.control:
        return None
    of = found.data[_SPREAD[found.op]]
    scalar = found.op != "Reshape" or scene.shapes.of(of) == ()
    return of if scalar and scene.beside(of) and scene.stays(of) else None


def _same(scene: Scene, a: str, b: str) -> bool:
    shape = scene.shapes.of(a)
    return shape is not None and shape == scene.shapes.of(b)


@rule("Cast")
def _cast(op: Op, scene: Scene) -> str | None:
    """A cast to the type it has, or there and back by a type that holds every value."""
    source, target = op.attr("SrcT"), op.attr("DstT")
    if source is target:
        return op.data[0]
    inner = scene.op(op.data[0])
    if inner is None or inner.op != "Cast" or inner.control or inner.attr("SrcT") is not target:
        return None
    return inner.data[0] if _holds(source, target) else None


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is one of `wide`; numpy calls 64-bit integers to float64 safe, which loses."""
    a, b = narrow.np, wide.np
    if a.kind not in "biuf" or b.kind not in "biuf" or (a.kind in "iu" and a.itemsize == 8 and b.kind == "f"):
        return False
    return np.can_cast(a, b, "safe")


# ---------------------------------------------------------------------- nothing to do along no axis


@rule("Sum", "Mean", "Max", "Min", "Prod", "All", "Any", "ReverseV2")
def _over_no_axis(op: Op, scene: Scene) -> str | None:
    axes = scene.constant(op.data[1])
    return op.data[0] if axes is not None and axes.size == 0 else None


@rule("Tile")
def _tiled_once(op: Op, scene: Scene) -> str | None:
    times = scene.constant(op.data[1])
    return op.data[0] if times is not None and bool((times == 1).all()) else None


@rule("Pad", "PadV2", "MirrorPad")
def _padded_by_nothing(op: Op, scene: Scene) -> str | None:
    widths = scene.constant(op.data[1])
    return op.data[0] if widths is not None and not widths.any() else None


# ---------------------------------------------------------------------- cheaper


@rule("RealDiv")
def _mean_of_so_many(op: Op, scene: Scene) -> None:
    """The gradient of a mean is divided by Size(x) // max(Size(y), 1): a number where x has the unknown sizes of y. So
    has what is divided, which is empty where one of them is 0."""
    steps, edge = list[Op](), op.data[1]
    for kind in ("Cast", "FloorDiv"):
        inner = scene.op(edge)
        if inner is None or inner.op != kind or inner.control:
            return
        steps.append(inner)
        edge = inner.data[0]
    most = scene.op(steps[1].data[1])
    at_least_one = most is not None and most.op == "Maximum" and scene.constant(most.data[1])
    if most is None or at_least_one is None or at_least_one is False or at_least_one.tolist() != 1:
        return
    sizes = [scene.shapes.content(e) for e in (edge, most.data[0])]
    shape = scene.shapes.of(op.data[0])
    if scene.inside or shape is None or any(not isinstance(n, (int, str)) for n in sizes):
        return
    (number, names), (each, same) = (factors(n) for n in sizes if isinstance(n, (int, str)))
    if names != same or not each or number % each or not set(names) <= set(product(shape)[1]):
        return
    name = f"{op.name}/count"
    if name not in scene.view.ops:
        scene.new[name] = constant_op(name, np.array(number // each, steps[0].attr("DstT").np), op)
        op.data = [op.data[0], name]


@rule("RealDiv")
def _divided_by_power_of_two(op: Op, scene: Scene) -> None:
    """x / 2**k is x * 2**-k in every bit, when 2**-k is a normal number."""
    value = scene.constant(op.data[1])
    if value is not None and value.dtype.kind == "f" and value.dtype.itemsize >= 4 and value.shape == ():
        mantissa, exponent = np.frexp(value)
        if abs(mantissa) == 0.5 and abs(int(exponent)) < 100:
            _multiply_instead(op, scene, value)


@rule("RealDiv", inexact=True)
def _divided_by_constant(op: Op, scene: Scene) -> None:
    value = scene.constant(op.data[1])
    if (
        value is not None
        and op.op == "RealDiv"
        and value.dtype.kind == "f"
        and value.all()
        and np.isfinite(value).all()
    ):
        _multiply_instead(op, scene, value)


def _multiply_instead(op: Op, scene: Scene, value: Any) -> None:
    name = f"{op.name}/reciprocal"
    if name in scene.view.ops or scene.inside:
        return
    scene.new[name] = constant_op(name, np.asarray(value.dtype.type(1) / value), op)
    op.become("Mul", [op.data[0], name])


@rule("Pow", inexact=True)
def _squared(op: Op, scene: Scene) -> None:
    if scene.everywhere(op.data[1], 2, op, op.data[0]):
        op.become("Square", [op.data[0]])


@rule("Pow")
def _squared_by_the_kernel(op: Op, scene: Scene) -> None:
    """The kernel of Pow gives the bits of a product for one exponent and these types."""
    exponent = scene.constant(op.data[1])
    if exponent is not None and exponent.shape == () and exponent.dtype in (np.float32, np.float64):
        _squared(op, scene)
