"""Contexts: what happens to ops made inside a cond branch, and what all contexts share.

While a context is entered, each op made in the graph is given to its `AddOp`, which replaces inputs from outside by
what stands for them inside (a Switch in a branch, an Enter in a loop). A context is named as TensorFlow names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sparkflow.framework import nest
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.contexts import chain, is_loop_exit, is_loop_switch, is_switch, output_context
from sparkflow.framework.graph import Graph, Operation, Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import array
from sparkflow.ops.control_flow import with_dependencies
from sparkflow.ops.control_flow_nodes import switch_ref_or_tensor


class ControlFlowContext:
    """A cond branch or a while loop, inside another one or not."""

    def __init__(self) -> None:
        self._graph: Graph = get_default_graph()
        self._outer_context: Any = self._graph._get_control_flow_context()
        self._context_stack: list[Any] = []
        self._external_values: dict[Tensor, Tensor] = {}

    name: str
    outer_context = property(lambda self: self._outer_context)
    external_values = property(lambda self: self._external_values)

    def Enter(self) -> None:
        """From here on ops become part of this context, until Exit."""
        self._context_stack.append(self._graph._get_control_flow_context())
        self._graph._set_control_flow_context(self)

    def Exit(self) -> None:
        self._graph._set_control_flow_context(self._context_stack.pop())

    def GetWhileContext(self) -> Any:
        """The innermost loop that this is in or is; None outside of loops."""
        raise NotImplementedError(f"{type(self).__name__} does not say which loop it is in")

    def GetControlPivot(self) -> Tensor | None:
        """A tensor that is alive when ops of this context shall run."""
        raise NotImplementedError(f"{type(self).__name__} has no pivot")

    def AddValue(self, val: Tensor) -> Tensor:
        """What stands for `val` inside this context: itself where it was made here."""
        if self._holds(val):
            return val
        found = self._external_values.get(val)
        if found is None:
            found = self._external_values[val] = self._captured(val)
        return found

    def _holds(self, val: Tensor) -> bool:
        return self in chain(output_context(val.op))

    def _captured(self, val: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not say how a value comes in")

    def _outside(self, val: Tensor) -> Tensor:
        return val if self._outer_context is None else self._outer_context.AddValue(val)

    def AddOp(self, op: Operation) -> None:
        """Take a new op in: inputs from outside are replaced, control inputs from outside a loop are left out."""
        op.inputs[:] = [self.AddValue(tensor) for tensor in op.inputs]
        self._add_controls(op)
        if self._outer_context is not None or not is_loop_exit(op):
            self._graph.prevent_fetching(op)

    def _add_controls(self, op: Operation) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not say what its ops wait for")

    def _drop_external_controls(self, op: Operation) -> list[Operation]:
        """Take away the control inputs that do not belong to op's innermost loop; returns them."""
        loop = self.GetWhileContext()
        if loop is None:
            return []
        external = [c for c in op.control_inputs if _loop_of(c) is not loop]
        op._remove_control_inputs(external)
        return external


def is_capture(op: Operation) -> bool:
    """Whether op is the Switch by which its branch takes a value in."""
    context = op._control_flow_context
    return isinstance(context, CondContext) and len(op.inputs) == 2 and op.inputs[1] is context.pred


Condition = tuple[Tensor, int]  # a predicate, and the side of it (0: false, 1: true) on which something is alive


def context_condition(context: Any) -> Condition | None:
    return (context.pred, context.branch) if isinstance(context, CondContext) else None


def condition_of(value: Tensor) -> Condition | None:
    """The innermost condition outside of which a value, in a loop, is dead; None where it never is."""
    op = value.op
    if op.type == "StackPopV2":
        value, op = op.inputs[0], op.inputs[0].op
    if is_switch(op) and not is_loop_switch(op):
        return op.inputs[1], value.value_index
    return context_condition(output_context(op))


def _loop_of(op: Operation) -> Any:
    context = output_context(op)
    return None if context is None else context.GetWhileContext()


@contextmanager
def inside(context: Any) -> Iterator[None]:
    """Make ops of that context (None: of none), without the control dependencies and colocations of the moment."""
    graph = get_default_graph()
    with graph.control_dependencies(None), graph.colocate_with(None):
        if context is None:
            yield
            return
        context.Enter()
        try:
            yield
        finally:
            context.Exit()


class CondContext(ControlFlowContext):
    """One branch of a cond. branch: 1 for the one taken where pred is true, 0 for the other."""

    def __init__(self, pred: Tensor, pivot: Tensor, branch: int, name: str = "cond_text"):
        super().__init__()
        self._pred, self._pivot, self._branch = pred, pivot, branch
        self.name = self._graph.unique_name(name)
        self._external_values.update({pred: pred, pivot: pivot})

    pred: Tensor = property(lambda self: self._pred)  # type: ignore[assignment]
    pivot: Tensor = property(lambda self: self._pivot)  # type: ignore[assignment]
    branch: int = property(lambda self: self._branch)  # type: ignore[assignment]

    def GetWhileContext(self) -> Any:
        return None if self._outer_context is None else self._outer_context.GetWhileContext()

    def GetControlPivot(self) -> Tensor:
        return self._pivot

    def _captured(self, val: Tensor) -> Tensor:
        value = self._outside(val)
        with inside(self._outer_context):
            result = switch_ref_or_tensor(value, self._pred)[self._branch]
        result.op._set_control_flow_context(self)
        self._graph.prevent_fetching(result.op)
        return result

    def _add_controls(self, op: Operation) -> None:
        self._drop_external_controls(op)
        if not op.inputs and not any(self in chain(output_context(c)) for c in op.control_inputs):
            op.add_control_input(self._pivot.op)

    # ------------------------------------------------------------------ the branch

    def BuildCondBranch(self, fn: Callable[[], Any]) -> tuple[Any, list[Any]]:
        """(what fn returned, its leaves as tensors of this branch, an op as the pivot that waits for it).

        Summaries made in the branch run with it: its results wait for them.
        """
        before = self._graph.get_collection(GraphKeys.SUMMARIES)
        original = fn()
        made = [s for s in self._graph.get_collection(GraphKeys.SUMMARIES) if s not in before]
        if original is None:
            return None, []
        leaves = nest.flatten(original, expand_composites=True)
        if not made:
            return original, [self._result(leaf) for leaf in leaves]
        with self._graph.control_dependencies(made):
            return original, [array.identity(self._result(leaf)) for leaf in leaves]

    def _result(self, leaf: Any) -> Tensor:
        if isinstance(leaf, Operation):
            return with_dependencies([leaf], self._pivot)
        tensor = convert_to_tensor(leaf, as_ref=isinstance(leaf, Tensor))
        return self.AddValue(tensor)

    def ExitResult(self, result: Sequence[Tensor]) -> None:
        """Kept for TensorFlow's interface: where a value is visible follows from the op that makes it."""


class BranchMark(CondContext):
    """Says of ops in a gradient that they are alive on one side of a predicate only; they become so by their inputs,
    so nothing is captured."""

    def __init__(self, pred: Tensor, branch: int):
        ControlFlowContext.__init__(self)
        self._pred, self._pivot, self._branch = pred, pred, branch

    def GetControlPivot(self) -> Any:
        return None if self._outer_context is None else self._outer_context.GetControlPivot()

    def AddValue(self, val: Tensor) -> Tensor:
        return val if self._holds(val) else self._outside(val)

    def AddOp(self, op: Operation) -> None:
        if self._outer_context is not None:
            self._outer_context.AddOp(op)
