"""What a reverse walk goes through: the ops of one level, a loop inside it being one node.

A level is a graph outside of loops, or the body of one. Which of its tensors lead to an x is worked out before any
gradient is built, so that no node is added for what nobody asks.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any

from sparkflow.framework.contexts import (
    is_loop_constant_enter,
    is_loop_exit,
    is_loop_merge,
    is_loop_switch,
    while_context,
)
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.ops.control_flow_while import LoopVariable, WhileContext
from sparkflow_runtime.wire import dtypes

Node = Operation | WhileContext
_AT_THE_BORDER = frozenset({"Switch", "RefSwitch", "Merge", "RefMerge", "Enter", "RefEnter"})


def trainable(tensor: Tensor) -> bool:
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex or tensor.dtype is dtypes.variant)


def node_of(tensor: Tensor) -> Node:
    """The op that makes the tensor, or the loop that it comes out of."""
    op = tensor.op
    loop = op._control_flow_context if is_loop_exit(op) else None
    return op if loop is None else loop


def captures(loop: WhileContext) -> list[Tensor]:
    """The Enters of what the loop takes from outside as it is."""
    return [t for t in loop.external_values.values() if is_loop_constant_enter(t.op)]


def _taken(loop: WhileContext) -> list[Tensor]:
    return [t.op.inputs[0] for t in (*loop.loop_enters, *captures(loop))]


class Level:
    """The nodes that the roots need, each after those it needs, and whether each leads to one of the targets.

    loop: the loop whose body this is, None outside. stops: nodes whose inputs count as constants. bodies: those of all
    loops met so far, also at other levels.
    """

    def __init__(
        self,
        roots: Iterable[Tensor],
        targets: set[Tensor],
        stops: Container[Node],
        loop: WhileContext | None = None,
        bodies: dict[WhileContext, Body] | None = None,
    ):
        self.targets, self.stops, self.loop = targets, stops, loop
        self.bodies: dict[WhileContext, Body] = {} if bodies is None else bodies
        self.order = self._ancestors_first([node_of(t) for t in roots])
        self.live: dict[Node, bool] = {}
        for node in self.order:
            self.live[node] = self._is_live(node)

    def leads(self, tensor: Tensor) -> bool:
        """Whether a gradient at this tensor becomes one at a target."""
        if tensor in self.targets:
            return True
        node = node_of(tensor)
        if not self.live.get(node, False):
            return False
        return not isinstance(node, WhileContext) or self.bodies[node].leads_out(tensor)

    def _is_live(self, node: Node) -> bool:
        if isinstance(node, WhileContext):
            if not node.back_prop or node in self.stops:
                return False
            self.bodies[node] = body = Body(node, self)
            return bool(body.variables) or any(body.level.live.values())
        if node in self.stops or self.is_leaf(node):
            return False
        if self.loop is not None and node in self.loop.recalled:
            value = self.loop.recalled[node]
            pusher = self.bodies.get(while_context(value.op))
            return pusher is not None and trainable(value) and pusher.level.leads(value)
        return any(self.leads(t) for t in node.inputs)

    def is_leaf(self, op: Operation) -> bool:
        """Where a body begins: its variables and what it takes from outside. Nothing goes on into the iteration
        before."""
        if op.type not in _AT_THE_BORDER or op._control_flow_context is None:
            return False  # in a loop that was imported the walk goes on, to be refused at its Exit
        if is_loop_constant_enter(op):
            return op._control_flow_context is self.loop and self.loop is not None
        return is_loop_switch(op) or is_loop_merge(op)

    def _inputs(self, node: Node) -> list[Tensor]:
        if isinstance(node, WhileContext):
            return _taken(node)
        return [] if self.is_leaf(node) else node.inputs

    def _needed(self, node: Node) -> list[Node]:
        needed = [node_of(t) for t in self._inputs(node)]
        return [*needed, *node.follows] if isinstance(node, WhileContext) else needed

    def _ancestors_first(self, roots: Iterable[Node]) -> list[Node]:
        """Depth first, without recursion: graphs are deep."""
        order: list[Node] = []
        seen: set[Node] = set()
        for root in roots:
            stack: list[tuple[Node, bool]] = [(root, False)]
            while stack:
                node, inputs_done = stack.pop()
                if inputs_done:
                    order.append(node)
                elif node not in seen:
                    seen.add(node)
                    stack.append((node, True))
                    stack += [(n, False) for n in self._needed(node) if n not in seen]
        return order

    def reached_from(self, roots: Iterable[Node]) -> Iterator[Operation]:
        """The leaves at which gradients that go through these nodes arrive."""
        todo, seen = [*roots], set()
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, Operation) and self.is_leaf(node):
                yield node
            todo += [node_of(t) for t in self._inputs(node) if trainable(t)]


class Body:
    """The body of a loop as a level, and which of its variables and captures lead to an x."""

    def __init__(self, loop: WhileContext, outer: Level):
        self.loop = loop
        self.captures = [t for t in captures(loop) if trainable(t) and outer.leads(t.op.inputs[0])]
        candidates = [v for v in loop.variables if trainable(v.merge)]
        self.variables = [v for v in candidates if outer.leads(v.enter.op.inputs[0])]
        while True:  # what leads there in one iteration makes more lead there in the one before
            self.level = self._level(outer)
            more = [v for v in candidates if v not in self.variables and self.level.leads(result_of(v))]
            if not more:
                break
            self.variables += more
        self._exits = {v.exit for v in self.variables}

    def leads_out(self, tensor: Tensor) -> bool:
        return tensor in self._exits

    def _level(self, outer: Level) -> Level:
        targets = {t for v in self.variables for t in (v.go, v.merge)} | set(self.captures)
        ends = [*map(result_of, self.loop.variables), *self.loop.pushed]
        return Level(ends, targets, outer.stops, self.loop, outer.bodies)

    def reached(self, known: Iterable[LoopVariable], inside: Iterable[Node] = ()) -> list[LoopVariable]:
        """The variables at which gradients arrive when they leave through these, or begin at nodes inside."""
        found, todo = set(known), [*(node_of(result_of(v)) for v in known), *inside]
        owner: dict[Any, LoopVariable] = {t.op: v for v in self.variables for t in (v.go, v.merge)}
        while todo:
            ops = self.level.reached_from([todo.pop()])
            more = {owner[op] for op in ops if op in owner} - found
            found |= more
            todo += [node_of(result_of(v)) for v in more]
        return [v for v in self.variables if v in found]


def result_of(variable: LoopVariable) -> Tensor:
    """What the body returned for it."""
    return variable.next.op.inputs[0]
