"""Shapes with names (symbols.py) through loops: from one iteration to the next, and from a loop to its gradient's.

A loop's variable is taken to keep the shape that it comes in with; where an iteration is found to hand on another size,
that size has a name for itself, and all is worked out once more. What one loop pushes on a stack or writes into a
TensorArray has, where another takes it out, the shape that it was put in with, if all of it has the same and the sizes
are the step's: a name made in a loop means another size in every iteration.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from sparkflow_runtime.master.passes.contexts import ENTER, EXIT, LOOP, MERGE, SWITCH
from sparkflow_runtime.master.passes.shape_rules import Symbols, every, factors, rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sparkflow_runtime.master.passes.symbols import Shapes
    from sparkflow_runtime.master.passes.view import Op, View

_ROUNDS = 12  # after which nothing is taken for granted
HANDS_ON = ENTER | SWITCH | {"Identity"}
_TAKES = {"StackPopV2", "StackCloseV2"} | {  # of what holds tensors for a step: what puts none in
    f"TensorArray{what}V3" for what in ("Read", "Gather", "Concat", "Size", "Close", "Grad")
}
_PUTS = {"StackPushV2": 1, "TensorArrayWriteV3": 2, "TensorArrayScatterV3": 2}  # the input that is put in


def loop_merges(view: View) -> list[Op]:
    """Where the variables of loops come in: of a value from outside and one from the iteration before."""
    return [op for op in view.ops.values() if op.op in MERGE and _closes(op, view.ops)]


def _closes(op: Op, ops: Mapping[str, Op]) -> bool:
    kinds = [ops[name].op if (name := e.partition(":")[0]) in ops else "" for e in op.data]
    return len(kinds) == 2 and kinds[0] in ENTER and kinds[1] in LOOP


class Carried:
    """What is known of a view's loops. `changing` grows until `settled`: the axes of each loop's variable that an
    iteration may change; None for all."""

    def __init__(self, view: View):
        self.merges = {op.name: op for op in loop_merges(view)}
        self.changing: dict[str, set[int] | None] = {name: set() for name in self.merges}
        self._rounds = 0
        self._puts = _puts(view.ops)

    def settled(self, shapes: Shapes) -> bool:
        """Whether each iteration hands on what it was given, as far as `shapes` was told that it does."""
        self._rounds += 1
        if self._rounds == _ROUNDS:
            self.changing = dict.fromkeys(self.merges)
            return False
        before = dict(self.changing)
        for name, op in self.merges.items():
            if (axes := self.changing[name]) is not None:
                given, found = shapes.of(name), shapes.of(op.data[1])
                alike = given is not None and found is not None and len(given) == len(found)
                new = {i for i, (a, b) in enumerate(zip(given or (), found or ())) if a != b}
                self.changing[name] = axes | new if alike else None
        return self._rounds > _ROUNDS or before == self.changing

    def variable(self, op: Op, shapes: Shapes) -> Symbols | None:
        """The shape of a loop's variable in every iteration."""
        given, changing = shapes.of(op.data[0]), self.changing[op.name]
        if given is None or changing is None:
            return None
        return tuple(f"{op.name}:0/{i}" if i in changing else d for i, d in enumerate(given))

    def put(self, edge: str, ops: Mapping[str, Op]) -> list[tuple[Op, str]] | None:
        """Who puts something into the stack or TensorArray of a handle, and what; None where that is not known."""
        held = holder(edge, ops)
        if held is None or self._puts is None:
            return None
        return [(op, op.data[_PUTS[op.op]]) for op in self._puts.get(held, ())]


def holder(edge: str, ops: Mapping[str, Op]) -> str | None:
    """A name for the stack or TensorArray that a handle is of; one for the gradients of a TensorArray."""
    op = ops.get(edge.partition(":")[0])
    while op is not None and op.op in HANDS_ON:
        op = ops.get(op.data[0].partition(":")[0])
    if op is None or op.op not in ("StackV2", "TensorArrayV3", "TensorArrayGradV3"):
        return None
    if op.op != "TensorArrayGradV3":
        return op.name
    of = holder(op.data[0], ops)
    return None if of is None else f"{of} {op.attr('source')}"


def _puts(ops: Mapping[str, Op]) -> dict[str, list[Op]] | None:
    """By stack and TensorArray, what puts into it; None where one may be put into in ways that are not known here."""
    found: dict[str, list[Op]] = defaultdict(list)
    for op in ops.values():
        if op.op.startswith(("Stack", "TensorArray")) and op.op not in ("StackV2", "TensorArrayV3"):
            held = holder(op.data[0], ops)
            if held is None or (op.op not in _PUTS and op.op not in _TAKES):
                return None
            if op.op in _PUTS:
                found[held].append(op)
    return found


def of_the_step(sizes: Symbols, view: View) -> bool:
    """Whether sizes are made outside of all loops, and so are the same wherever they are named."""
    for name in (name for size in sizes for name in factors(size)[1]):
        maker = name.rpartition(":")[0]
        inside = view.context(maker) if maker in view.ops else frozenset()
        if inside is None or any(part.startswith("frame ") for part in inside):
            return False
    return True


def _element(shapes: Shapes, edge: str) -> Symbols | None:
    """The shape of all that a stack or TensorArray is given."""
    found = None
    for op, value in shapes.carried.put(edge, shapes.view.ops) or ():
        shape = shapes.of(value)
        if shape is not None and op.op == "TensorArrayScatterV3":
            shape = shape[1:] if shape else None
        if shape is None or not of_the_step(shape, shapes.view) or found not in (None, shape):
            return None
        found = shape
    return found


def _array_element(shapes: Shapes, edge: str) -> Symbols | None:
    """Of gradients only what the elements themselves have: where none was written zeros of their shape are read."""
    found, ops = _element(shapes, edge), shapes.view.ops
    if found is None:
        return None
    op = ops[edge.partition(":")[0]]
    while op.op in HANDS_ON:
        op = ops[op.data[0].partition(":")[0]]
    return found if op.op == "TensorArrayV3" or found == _array_element(shapes, op.data[0]) else None


def popped(shapes: Shapes, op: Op) -> Symbols | int | str | None:
    """What a vector of sizes holds that is popped: what the only push has pushed."""
    put = shapes.carried.put(op.data[0], shapes.view.ops) or []
    held = shapes.content(put[0][1]) if len(put) == 1 else None
    sizes = held if isinstance(held, tuple) else () if held is None else (held,)
    return held if of_the_step(sizes, shapes.view) else None


@rule(*ENTER, "NextIteration", "RefNextIteration")
def _as_it_comes(shapes: Shapes, op: Op) -> Symbols | None:
    return shapes.of(op.data[0])


@every(*SWITCH)
def _either_side(shapes: Shapes, op: Op, port: int) -> Symbols | None:
    return shapes.of(op.data[0])


@every(*MERGE)
def _merged(shapes: Shapes, op: Op, port: int) -> Symbols | None:
    """Of a cond's sides what both have."""
    if port:
        return ()
    if op.name in shapes.carried.merges:
        return shapes.carried.variable(op, shapes)
    sides = [shapes.of(e) for e in op.data]
    first = sides[0]
    if first is None or any(side is None or len(side) != len(first) for side in sides):
        return None
    alike = [len({side[i] for side in sides if side}) == 1 for i in range(len(first))]
    return tuple(d if same else f"{op.name}:0/{i}" for i, (d, same) in enumerate(zip(first, alike)))


@rule(*EXIT)
def _left(shapes: Shapes, op: Op) -> Symbols | None:
    """The last iteration's, whose sizes are called otherwise where iterations change them."""
    ops, carried = shapes.view.ops, shapes.carried
    switch = ops.get(op.data[0].partition(":")[0])
    merge = switch.data[0].partition(":")[0] if switch is not None and switch.op in SWITCH else ""
    found = shapes.of(merge) if merge in carried.merges else None
    if found is None:
        return None
    return tuple(f"{op.name}:0/{i}" if isinstance(d, str) and _made_by(merge, d) else d for i, d in enumerate(found))


def _made_by(maker: str, size: str) -> bool:
    return any(name.rpartition(":")[0] == maker for name in factors(size)[1])


@rule("StackPopV2")
def _popped(shapes: Shapes, op: Op) -> Symbols | None:
    return _element(shapes, op.data[0])


@rule("TensorArrayReadV3")
def _read(shapes: Shapes, op: Op) -> Symbols | None:
    return _array_element(shapes, op.data[0])


@rule("TensorArrayGatherV3")
def _gathered(shapes: Shapes, op: Op) -> Symbols | None:
    element, indices = _array_element(shapes, op.data[0]), shapes.of(op.data[1])
    return None if element is None or indices is None else (*indices, *element)
