"""What a MetaGraph says of a graph's loops and branches: of it TensorFlow makes contexts, and gradients by those."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sparkflow.framework.contexts import chain, is_switch
from sparkflow.framework.graph import Graph, Operation, Tensor
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops.control_flow_context import BranchMark, CondContext
from sparkflow.ops.control_flow_while import WhileContext
from sparkflow.train.control_flow_proto import MESSAGES


def context_defs(graph: Graph) -> dict[str, list[Any]]:
    """Collection -> the messages of its contexts: those in no other one, the others inside these.

    A loop that is not as while_loop makes it is left out with all that is in it, as are loops that gradients made.
    """
    inside: dict[Any, list[Operation]] = {}
    nested: dict[Any, list[Any]] = {}
    roots = {loop: GraphKeys.WHILE_CONTEXT for loop in graph.get_collection(GraphKeys.WHILE_CONTEXT)}
    for op in graph.get_operations():
        if op._control_flow_context is not None:
            for context in chain(op._control_flow_context):
                if context in inside:
                    break
                inside[context] = []
                nested.setdefault(context.outer_context, []).append(context)
            inside[op._control_flow_context].append(op)
    writing = _Writing(inside, nested)
    found: dict[str, list[Any]] = {GraphKeys.WHILE_CONTEXT: [], GraphKeys.COND_CONTEXT: []}
    for context in nested.get(None, ()):
        if context in roots or type(context) is CondContext:
            found[roots.get(context, GraphKeys.COND_CONTEXT)] += writing.of(context)
    return found


class _Writing:
    """inside: the nodes of each context; nested: the contexts in each."""

    def __init__(self, inside: dict[Any, list[Operation]], nested: dict[Any, list[Any]]):
        self.inside, self.nested = inside, nested

    def of(self, context: Any) -> list[Any]:
        """Its message, or none."""
        made = None
        if isinstance(context, WhileContext):
            made = self._loop(context)
        elif isinstance(context, CondContext):
            made = self._branch(context)
        if made is None:
            return []
        made.context_name = context.name if hasattr(context, "name") else context.pred.op.name
        self._values(made.values_def, context)
        for inner in self.nested.get(context, ()):
            for message in self.of(inner):
                field = "while_ctxt" if isinstance(inner, WhileContext) else "cond_ctxt"
                getattr(made.nested_contexts.add(), field).CopyFrom(message)
        return [made]

    def _loop(self, loop: WhileContext) -> Any:
        pivots = loop._pivot, loop._pivot_for_pred, loop._pivot_for_body
        if not loop.variables or any(p is None for p in pivots):
            return None
        made = MESSAGES["WhileContextDef"](
            parallel_iterations=loop.parallel_iterations, back_prop=loop.back_prop, swap_memory=loop.swap_memory,
            loop_exit_names=_names(loop.loop_exits), loop_enter_names=_names(loop.loop_enters),
        )  # fmt: skip
        made.pivot_name, made.pivot_for_pred_name, made.pivot_for_body_name = _names(
            [p for p in pivots if p is not None]
        )
        if isinstance(loop.maximum_iterations, Tensor):
            made.maximum_iterations_name = loop.maximum_iterations.name
        return made

    def _branch(self, branch: CondContext) -> Any:
        pred, pivot = _names([branch.pred, _pivot(branch, self.inside)])
        return MESSAGES["CondContextDef"](pred_name=pred, pivot_name=pivot, branch=branch.branch)

    def _values(self, made: Any, context: Any) -> None:
        """What is in the context: its own values, and what stands there for each from outside."""
        outside = dict(context.external_values)
        if not isinstance(context, WhileContext):
            outside.update({t: t for t in (context.pred, _pivot(context, self.inside))})
        for op in self.inside[context]:
            made.values.extend(_names(op.outputs) or [op.name])
        for inner in self.nested.get(context, ()):
            made.values.extend(_names(inner.loop_exits) if isinstance(inner, WhileContext) else ())
        for value, within in outside.items():
            made.values.append(value.name)
            made.external_values.add(key=value.name, value=within.name)


def _names(tensors: list[Tensor]) -> list[str]:
    return [tensor.name for tensor in tensors]


def _pivot(branch: CondContext, inside: dict[Any, list[Operation]]) -> Tensor:
    """What is alive on that side alone. Of a branch that was imported it is the side of the Switch of its predicate."""
    if not isinstance(branch, BranchMark):
        return branch.pivot
    return next(_sides(branch, inside), branch.pred)


def _sides(branch: CondContext, inside: dict[Any, list[Operation]]) -> Iterator[Tensor]:
    for op in inside.get(branch.outer_context, ()):
        if is_switch(op) and op.inputs[1] is branch.pred:
            yield op.outputs[branch.branch]
