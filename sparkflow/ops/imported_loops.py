"""The contexts of nodes that import_graph_def adds, found by what the nodes are: no GraphDef tells them.

An Enter leads into the loop of its frame, an Exit out of it; in a loop, a Switch leads into a side of its predicate
and a Merge out of it. So a loop that comes in this way has gradients, and may itself stand in a loop or a branch.
Outside of loops the sides of a cond need no context.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.contexts import (
    chain,
    is_loop_constant_enter,
    is_loop_enter,
    is_loop_exit,
    is_loop_merge,
    is_loop_switch,
    is_switch,
    output_context,
)
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.importer import finds_contexts
from sparkflow.ops.control_flow_context import BranchMark
from sparkflow.ops.control_flow_nodes import exit
from sparkflow.ops.control_flow_while import NO_GRADIENT, LoopVariable, WhileContext
from sparkflow_runtime.wire.protos import NodeDef

_OF_THE_LOOP = ("NextIteration", "RefNextIteration", "Exit", "RefExit", "LoopCond")
_ENTERS = ("Enter", "RefEnter")
_MERGES = ("Merge", "RefMerge")


class ImportedLoop(WhileContext):
    """A loop whose nodes come one by one; `completed` when all are there."""

    def __init__(self, enter: Operation, outer: Any):
        frame = enter.attrs["frame_name"]
        super().__init__(
            parallel_iterations=enter.attrs["parallel_iterations"],
            back_prop=not enter.attrs.get(NO_GRADIENT, False),
            name=frame,
        )
        self.name, self._outer_context = frame, outer  # more Enters are of the same frame
        self.merges: list[Operation] = []

    def lies_in(self, outer: Any) -> None:
        """One of its Enters takes a value of that context: it is no shallower."""
        if _depth(outer) > _depth(self._outer_context):
            self._outer_context = outer

    def meets(self, op: Operation) -> None:
        """Note what of a loop the op is."""
        if op.type == "LoopCond":
            self._pivot = op.outputs[0]
        elif is_loop_merge(op):
            self.merges.append(op)
            self._pivot_for_pred = op.outputs[0] if self._pivot_for_pred is None else self._pivot_for_pred
        elif self._pivot_for_body is None and op.type == "Identity":
            [taken] = op.inputs
            if is_loop_switch(taken.op) and taken.value_index == 1:
                self._pivot_for_body = op.outputs[0]

    def completed(self, consumers: dict[Tensor, list[Operation]], enters: Sequence[Operation]) -> bool:
        """Whether it is a loop as while_loop makes them; then its variables and what it takes in are known."""
        found = [self._variable(merge, consumers) for merge in self.merges]
        if self._pivot is None or None in found:
            return False
        self.variables = [variable for variable in found if variable is not None]
        for enter in enters:
            first = self._external_values.setdefault(enter.inputs[0], enter.outputs[0])
            for consumer in consumers.get(enter.outputs[0], ()) if first.op is not enter else ():
                for index, tensor in enumerate(consumer.inputs):
                    if tensor is enter.outputs[0]:
                        consumer._update_input(index, first)  # a value comes in once, or its gradients would be parted
        return True

    def _variable(self, merge: Operation, consumers: dict[Tensor, list[Operation]]) -> LoopVariable | None:
        entered = [t for t in merge.inputs if is_loop_enter(t.op)]
        following = [t for t in merge.inputs if t.op.type in _OF_THE_LOOP[:2]]
        switches = [op for op in consumers.get(merge.outputs[0], ()) if is_loop_switch(op)]
        if not (len(entered) == len(following) == len(switches) == 1):
            return None
        stop, go = switches[0].outputs
        exits = [op.outputs[0] for op in consumers.get(stop, ()) if is_loop_exit(op)]
        return LoopVariable(entered[0], merge.outputs[0], stop, go, following[0], (exits or [self._exit(stop)])[0])

    def _exit(self, stop: Tensor) -> Tensor:
        """One that was cut away because nobody asked for it; a gradient does."""
        self.Enter()
        try:
            return exit(stop)
        finally:
            self.Exit()


@finds_contexts
class Contexts:
    """Of one import: which context each node is made in."""

    def __init__(self, nodes: Sequence[NodeDef]) -> None:
        self.has_loops = any(node.op in _ENTERS for node in nodes)
        self.graph = get_default_graph()
        self.base = self.graph._get_control_flow_context()
        self.loops: dict[str, ImportedLoop] = {}
        self.enters: dict[ImportedLoop, list[Operation]] = {}
        self.marks: dict[tuple[Tensor, int, Any], BranchMark] = {}
        self.first = self.graph.version

    def enter(self, node: NodeDef, inputs: Sequence[Tensor], controls: Sequence[Operation]) -> Any:
        """Nodes are now made in the context that a node with these inputs belongs to. Returns the one before."""
        outer = self.graph._get_control_flow_context()
        if self.has_loops:
            self.graph._set_control_flow_context(self._context(node, inputs, controls))
        return outer

    def _context(self, node: NodeDef, inputs: Sequence[Tensor], controls: Sequence[Operation]) -> Any:
        if node.op in _MERGES and not is_loop_enter(inputs[0].op):
            side = self._alive(inputs[0])
            return side.outer_context if isinstance(side, BranchMark) else side
        found = [*map(self._alive, inputs), *map(output_context, controls), self.base]
        deepest = max(found, key=_depth)
        return deepest.GetWhileContext() if node.op in _OF_THE_LOOP and deepest is not None else deepest

    def _alive(self, value: Tensor) -> Any:
        """Where it has a value."""
        context = output_context(value.op)
        if not _leads_into_a_side(value.op) or not self._is_ours(context):
            return context
        taken, pred = value.op.inputs
        key = _source(pred), value.value_index, context
        if key not in self.marks:
            self.marks[key] = mark = BranchMark(pred, value.value_index)
            mark._outer_context = context
        elif _source(taken) is not key[0]:  # cond switches the predicate itself by one tensor, all else by another
            self.marks[key]._pred = pred
        return self.marks[key]

    def _is_ours(self, context: Any) -> bool:
        return any(isinstance(c, ImportedLoop) and self.loops.get(c.name) is c for c in chain(context))

    def made(self, op: Operation) -> None:
        """A node of the GraphDef is made, in the context that `enter` said."""
        if not self.has_loops:
            return
        context = op._control_flow_context
        if is_loop_enter(op):
            frame = op.attrs["frame_name"]
            if frame not in self.loops:
                self.loops[frame] = ImportedLoop(op, context)
            loop = self.loops[frame]
            loop.lies_in(context)
            op._set_control_flow_context(loop)
            self.graph.prevent_fetching(op)
            if is_loop_constant_enter(op):
                self.enters.setdefault(loop, []).append(op)
        elif isinstance(context, ImportedLoop):
            context.meets(op)

    def complete(self) -> None:
        """All nodes are made and all loops are closed. A loop not of while_loop's kind stays without a gradient."""
        if not self.loops:
            return
        ours = self.graph.operations_since(self.first)
        consumers: dict[Tensor, list[Operation]] = {}
        for op in ours:
            for tensor in op.inputs:
                consumers.setdefault(tensor, []).append(op)
        for op in ours:
            self._says_its_side(op, consumers)
        whole = [loop for loop in self.loops.values() if loop.completed(consumers, self.enters.get(loop, ()))]
        for loop in whole:
            self.graph.add_to_collection(GraphKeys.WHILE_CONTEXT, loop)
        for op in ours if len(whole) < len(self.loops) else ():
            if any(isinstance(c, ImportedLoop) and c not in whole for c in chain(op._control_flow_context)):
                op._set_control_flow_context(None)

    def _says_its_side(self, op: Operation, consumers: dict[Tensor, list[Operation]]) -> None:
        """The Switch by which one side takes a value in is of that side."""
        if _leads_into_a_side(op) and self._is_ours(op._control_flow_context):
            sides = [self._alive(value) for value in op.outputs if value in consumers]
            if len(sides) == 1:
                op._set_control_flow_context(sides[0])


def _source(pred: Tensor) -> Tensor:
    """What it hands on: two tensors with one source say the same within an iteration."""
    while pred.op.type == "Identity" or is_loop_constant_enter(pred.op) or _leads_into_a_side(pred.op):
        pred = pred.op.inputs[0]
    return pred


def _leads_into_a_side(op: Operation) -> bool:
    return is_switch(op) and not is_loop_switch(op)


def _depth(context: Any) -> int:
    return sum(1 for _ in chain(context))
