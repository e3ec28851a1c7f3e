"""tf.contrib.graph_editor: of it, the walks along a graph's edges (also tensorflow.python.ops.op_selector), copies of
parts of a graph, and edges that are laid elsewhere, before a session has run it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sparkflow.framework import nest
from sparkflow.framework.graph import Graph, Operation, Tensor
from sparkflow.framework.importer import import_graph_def
from sparkflow_runtime.wire.edges import is_control
from sparkflow_runtime.wire.protos import GraphDef

__all__ = [
    "SubGraphView",
    "add_control_inputs",
    "copy",
    "copy_with_input_replacements",
    "filter_ops",
    "filter_ops_from_regex",
    "filter_ts",
    "filter_ts_from_regex",
    "get_backward_walk_ops",
    "get_forward_walk_ops",
    "get_walks_intersection_ops",
    "graph_replace",
    "reroute_ts",
    "select_ops",
    "sgv",
]


def get_backward_walk_ops(
    seed_ops: Any,
    inclusive: bool = True,
    within_ops: Iterable[Operation] | None = None,
    within_ops_fn: Callable[[Operation], bool] | None = None,
    stop_at_ts: Iterable[Tensor] = (),
    control_inputs: bool = False,
) -> list[Operation]:
    """What the seeds are computed from, the nearest first: the seeds themselves where `inclusive`, then wave by wave
    the ops that make their inputs.

    seed_ops: ops or tensors, one or several. within_ops, within_ops_fn: which ops alone the walk may touch. stop_at_ts:
    tensors whose op it does not go to. control_inputs: whether it goes to what an op waits for, too. Raises TypeError
    on another seed.
    """
    stopped = set(stop_at_ts)

    def before(op: Operation) -> list[Operation]:
        data = [t.op for t in op.inputs if t not in stopped]
        return [*data, *op.control_inputs] if control_inputs else data

    seeds = [seed.op if isinstance(seed, Tensor) else seed for seed in _listed(seed_ops)]
    return _walk(seeds, before, inclusive, within_ops, within_ops_fn)


def get_forward_walk_ops(
    seed_ops: Any,
    inclusive: bool = True,
    within_ops: Iterable[Operation] | None = None,
    within_ops_fn: Callable[[Operation], bool] | None = None,
    stop_at_ts: Iterable[Tensor] = (),
    control_outputs: bool = False,
) -> list[Operation]:
    """What is computed from the seeds, the nearest first; of a tensor, what takes it. The rest is as in
    get_backward_walk_ops."""
    listed, stopped = _listed(seed_ops), set(stop_at_ts)
    takers: dict[Any, list[Operation]] = defaultdict(list)
    for op in listed[0].graph.get_operations() if listed else ():
        for t in op.inputs:
            takers[t].append(op)
        for other in op.control_inputs if control_outputs else ():
            takers[other].append(op)

    def behind(op: Operation) -> list[Operation]:
        data = [taker for t in op.outputs if t not in stopped for taker in takers[t]]
        return [*data, *takers[op]]

    seeds = [op for seed in listed for op in (takers[seed] if isinstance(seed, Tensor) else [seed])]
    return _walk(seeds, behind, inclusive, within_ops, within_ops_fn)


def _listed(seeds: Any) -> list[Any]:
    listed = [seeds] if isinstance(seeds, (Operation, Tensor)) or not isinstance(seeds, Iterable) else list(seeds)
    for seed in listed:
        if not isinstance(seed, (Operation, Tensor)):
            raise TypeError(f"seed_ops must be operations or tensors of a graph, got {seed!r}")
    return listed


def _walk(
    seeds: list[Operation],
    beside: Callable[[Operation], list[Operation]],
    inclusive: bool,
    within_ops: Iterable[Operation] | None,
    within_ops_fn: Callable[[Operation], bool] | None,
) -> list[Operation]:
    within = None if within_ops is None else set(within_ops)

    def may(op: Operation) -> bool:
        return (within is None or op in within) and (within_ops_fn is None or within_ops_fn(op))

    found = dict.fromkeys(op for op in seeds if may(op))
    wave = [*found]
    while wave:
        reached = dict.fromkeys(next_op for op in wave for next_op in beside(op))
        wave = [op for op in reached if op not in found and may(op)]
        found.update(dict.fromkeys(wave))
    left_out = set() if inclusive else set(seeds)
    return [op for op in found if op not in left_out]


def get_walks_intersection_ops(
    forward_seed_ops: Any, backward_seed_ops: Any, forward_inclusive: bool = True, backward_inclusive: bool = True
) -> list[Operation]:
    """What is computed from the first and what the others are computed from: the ops between them."""
    back = set(get_backward_walk_ops(backward_seed_ops, backward_inclusive))
    return [op for op in get_forward_walk_ops(forward_seed_ops, forward_inclusive) if op in back]


# ---------------------------------------------------------------------- choosing


def filter_ops(ops: Any, positive_filter: Callable[[Operation], bool] | bool) -> list[Operation]:
    """Those of ops, or of a graph, that the filter says true of; all where it is True."""
    return [op for op in _ops(ops) if positive_filter is True or positive_filter(op)]  # type: ignore[operator]


def filter_ops_from_regex(ops: Any, regex: str) -> list[Operation]:
    search = re.compile(regex).search
    return filter_ops(ops, lambda op: bool(search(op.name)))


def filter_ts(ops: Any, positive_filter: Callable[[Tensor], bool] | bool) -> list[Tensor]:
    """The inputs and then the outputs of ops, each once, that the filter says true of; all where it is True."""
    listed = _ops(ops)
    found = dict.fromkeys([*(t for op in listed for t in op.inputs), *(t for op in listed for t in op.outputs)])
    return [t for t in found if positive_filter is True or positive_filter(t)]  # type: ignore[operator]


def filter_ts_from_regex(ops: Any, regex: str) -> list[Tensor]:
    search = re.compile(regex).search
    return filter_ts(ops, lambda t: bool(search(t.name)))


def select_ops(*args: Any, graph: Graph | None = None, positive_filter: Any = None) -> list[Operation]:
    """The ops among args, and those of the graph whose names the regular expressions among them find.

    Raises ValueError on a regular expression without a graph.
    """
    found: dict[Operation, None] = {}
    for arg in args:
        if isinstance(arg, (str, re.Pattern)):
            if graph is None:
                raise ValueError("Use the keyword argument 'graph' to use regex.")
            found.update(dict.fromkeys(filter_ops_from_regex(graph, arg)))  # type: ignore[arg-type]
        else:
            found.update(dict.fromkeys(_ops(arg)))
    return [op for op in found if positive_filter is None or positive_filter(op)]


def _ops(ops: Any) -> list[Operation]:
    if isinstance(ops, SubGraphView):
        return ops.ops
    listed = ops.get_operations() if isinstance(ops, Graph) else _listed(ops)
    return [*dict.fromkeys(op.op if isinstance(op, Tensor) else op for op in listed)]


# ---------------------------------------------------------------------- copies


class SubGraphView:
    """Some ops of a graph: `inputs` are the tensors that they take from others, `outputs` those that others take."""

    def __init__(self, ops: Iterable[Operation]):
        self.ops = [*dict.fromkeys(ops)]
        own = set(self.ops)
        self.inputs = [*dict.fromkeys(t for op in self.ops for t in op.inputs if t.op not in own)]
        everywhere = self.ops[0].graph.get_operations() if self.ops else []
        taken = {t for op in everywhere if op not in own for t in op.inputs}
        self.outputs = [t for op in self.ops for t in op.outputs if t in taken]

    graph = property(lambda self: self.ops[0].graph if self.ops else None)


def sgv(*args: Any, graph: Graph | None = None) -> SubGraphView:
    """A SubGraphView of the ops that select_ops finds."""
    return SubGraphView(select_ops(*args, graph=graph))


@dataclass(frozen=True)
class TransformerInfo:
    """What became of what: ops and tensors of the part, and their copies."""

    _transformed_ops: dict[Operation, Operation]
    _transformed_ts: dict[Tensor, Tensor]

    def transformed(self, original_top: Any, missing_fn: Callable[[Any], Any] | None = None) -> Any:
        """The copy of an op or a tensor; of another, None, or what missing_fn makes of it."""
        one: Mapping[Any, Any] = self._transformed_ts if isinstance(original_top, Tensor) else self._transformed_ops
        found = one.get(original_top)
        return missing_fn(original_top) if found is None and missing_fn is not None else found


def copy_with_input_replacements(
    sgv: Any, replacement_ts: Mapping[Tensor, Tensor], dst_scope: str = ""
) -> tuple[SubGraphView, TransformerInfo]:
    """(a copy of those ops in their graph, what became of what): it takes what they take, or what replaces that. A loop
    that one of them is in is copied whole.

    Raises ValueError where there are none.
    """
    view = SubGraphView(_with_loops(_ops(sgv)))
    if not view.ops:
        raise ValueError("copy_with_input_replacements: there are no ops to copy")
    names, graph_def = {op.name for op in view.ops}, GraphDef()
    for op in view.ops:
        node = graph_def.node.add()
        node.CopyFrom(op.node_def)
        node.input[:] = [edge for edge in node.input if not is_control(edge) or edge[1:] in names]
    given = {t.name: replacement_ts.get(t, t) for t in view.inputs}
    with view.graph.as_default():
        found = import_graph_def(graph_def, given, [op.name for op in view.ops], name=dst_scope)
    ops: dict[Operation, Operation] = dict(zip(view.ops, found or ()))
    for op, made in ops.items():
        made._add_control_inputs(other for other in op.control_inputs if other not in ops)
        for old, new in zip(op.outputs, made.outputs):
            new.set_shape(old.shape)
    tensors = {old: new for op, made in ops.items() for old, new in zip(op.outputs, made.outputs)}
    return SubGraphView(ops.values()), TransformerInfo(ops, tensors)


def _with_loops(ops: list[Operation]) -> list[Operation]:
    loops = {_loop(op) for op in ops} - {None}
    if not loops:
        return ops
    every = ops[0].graph.get_operations()
    inside = {op for op in every if _loop(op) in loops}
    of_loops = [op for op in every if op in inside or (op.type in ("Exit", "RefExit") and op.inputs[0].op in inside)]
    return [*dict.fromkeys([*ops, *of_loops])]


def _loop(op: Operation) -> Any:
    """The outermost loop that it is in."""
    found, context = None, op._get_control_flow_context()
    while context is not None:
        found = context if context.GetWhileContext() is context else found
        context = context.outer_context
    return found


def copy(sgv: Any, dst_scope: str = "") -> tuple[SubGraphView, TransformerInfo]:
    """copy_with_input_replacements, with no replacement."""
    return copy_with_input_replacements(sgv, {}, dst_scope)


def graph_replace(target_ts: Any, replacement_ts: Mapping[Tensor, Tensor], dst_scope: str = "") -> Any:
    """The targets, a nest of tensors, as they were if those tensors were the others, by a copy of what is between.

    Raises ValueError where no target is computed from a replaced tensor.
    """
    targets = nest.flatten(target_ts)
    ops = get_walks_intersection_ops([*replacement_ts], targets) if replacement_ts else []
    if not ops:
        raise ValueError("Targets and replacements are not connected!")
    _, info = copy_with_input_replacements(ops, replacement_ts, dst_scope)
    return nest.map_structure(lambda t: info.transformed(t, lambda original: original), target_ts)


# ---------------------------------------------------------------------- edges


def reroute_ts(ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None) -> int:
    """What takes a tensor of ts1 takes that of ts0 at its place from now on; how many inputs changed.

    can_modify, cannot_modify: the ops that alone, or that not, are changed.
    """
    instead = dict(zip(_listed(ts1), _listed(ts0), strict=True))
    kept = set() if cannot_modify is None else set(_ops(cannot_modify))
    changed = 0
    if instead:
        every = next(iter(instead)).graph.get_operations() if can_modify is None else _ops(can_modify)
        for op in every:
            for i, t in enumerate(op.inputs):
                if t in instead and op not in kept:
                    op._update_input(i, instead[t])
                    changed += 1
    return changed


def add_control_inputs(op: Operation, cops: Any) -> None:
    """The op waits for these ones from now on. Raises ValueError where it waits for one already."""
    others = _ops(cops)
    twice = [other.name for other in others if other in op.control_inputs]
    if twice:
        raise ValueError(f"{op.name} is already a control_input of {', '.join(twice)}")
    op._add_control_inputs(others)
