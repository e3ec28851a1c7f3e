"""Control loops: what lets the nodes of one loop stand on several tasks.

The task that computes a loop's condition tells it to the others in every iteration. Each task gets a loop variable of
its own in that loop, whose Merge and body *tick* there: what the task receives in an iteration waits for a tick, and
what is not of an iteration that happens is neither sent nor waited for. What a loop takes from outside once is taken
once by each task, instead of crossing in every iteration.
Source: Abadi et al., "TensorFlow: a system for large-scale machine learning", 2016, section 3.4.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sparkflow_runtime.wire import control_flow as cf
from sparkflow_runtime.wire.attrs import encode
from sparkflow_runtime.wire.control_flow import Guard, Liveness, Loops, Path
from sparkflow_runtime.wire.devices import task_of
from sparkflow_runtime.wire.dtypes import bool_
from sparkflow_runtime.wire.edges import is_control, node_name, parse
from sparkflow_runtime.wire.errors import UnimplementedError
from sparkflow_runtime.wire.protos import NodeDef
from sparkflow_runtime.wire.tensor_proto import make_ndarray


class Tick(NamedTuple):
    """A task's nodes that run in each iteration: `head` in all, `body` in those whose body runs."""

    head: str
    body: str


class Spread(NamedTuple):
    """loops, live: of the nodes with control loops. ticks: (task, loop) -> its Tick there."""

    loops: Loops
    live: Liveness
    ticks: dict[tuple[str, Path], Tick]


def spread(nodes: Sequence[NodeDef], fed: Collection[str]) -> Spread:
    """Control loops for the loops of a placed graph that are on several tasks.

    Raises UnimplementedError on such a loop that is not of while_loop's shape.
    """
    loops = cf.find_loops(nodes, fed)
    live = cf.find_guards(loops)
    shared = {path: tasks for path in loops.members if path and len(tasks := _tasks(loops, path)) > 1}
    if not shared:
        return Spread(loops, live, {})
    if live.irregular is not None and (joined := _join_predicates(loops)) is not None:
        loops = cf.find_loops(joined, fed)
        live = cf.find_guards(loops)
    _check_shape(loops, live, shared)
    adding = _Adding(loops, live, shared)
    new = adding.run()
    loops = cf.find_loops(new, fed)
    return Spread(loops, cf.find_guards(loops), adding.ticks)


def head_guard(live: Liveness, path: Path) -> Guard:
    """When a loop's iterations begin at all."""
    return live.guards[live.conditions[path].name]


def body_guard(live: Liveness, path: Path) -> Guard:
    """When an iteration's body runs."""
    return head_guard(live, path) | {(f"{live.conditions[path].name}:0", True)}


def _tasks(loops: Loops, path: Path) -> list[str]:
    return sorted({task_of(n.device) for n in loops.whole(path)})


def _join_predicates(loops: Loops) -> list[NodeDef] | None:
    """The nodes, where switches on constants that are equal look at one of them: copies of a predicate that was folded
    on several tasks would pass for conditions of their own. None where no two are equal."""
    first: dict[bool, str] = {}
    same = {n.name: first.setdefault(value, n.name) for n in loops.order if (value := _bool(loops, n)) is not None}
    if len(first) == len(same):
        return None
    joined = []
    for node in loops.order:
        wanted = [same.get(parse(e)[0], e) if not is_control(e) else e for e in node.input]
        if wanted != list(node.input):
            copy = NodeDef()
            copy.CopyFrom(node)
            copy.input[:] = wanted
            node = copy
        joined.append(node)
    return joined


def _bool(loops: Loops, node: NodeDef) -> bool | None:
    """The value of a constant outside of loops that is one bool."""
    if node.op != "Const" or node.input or loops.owner[node.name] or loops.is_fed(node.name):
        return None
    proto = node.attr["value"].tensor
    if proto.dtype != bool_.as_datatype_enum or proto.tensor_shape.dim:
        return None
    return bool(make_ndarray(proto))


def _check_shape(loops: Loops, live: Liveness, shared: Mapping[Path, Sequence[str]]) -> None:
    if live.irregular is None:
        return
    path = next(iter(shared))
    first = {task_of(n.device): n for n in reversed(loops.whole(path))}
    places = ", ".join(f"{n.name!r} ({n.op}) on {task}" for task, n in sorted(first.items()))
    raise UnimplementedError(
        next(iter(first.values())),
        None,
        f"Loop {path[0]!r} has nodes on {len(first)} tasks: {places}; and {live.irregular}. Only loops as while_loop "
        "makes them run on several tasks: give its body one device scope",
    )


class _Adding:
    """`nodes` is the graph as it becomes: copies where a node changes."""

    def __init__(self, loops: Loops, live: Liveness, shared: Mapping[Path, Sequence[str]]):
        self.loops, self.live, self.shared = loops, live, shared
        self.nodes = {n.name: n for n in loops.order}
        self.copied: set[str] = set()
        self.owner = dict(loops.owner)
        self.ticks: dict[tuple[str, Path], Tick] = {}

    def run(self) -> list[NodeDef]:
        for path in sorted(self.shared, key=len):
            for task in self.shared[path]:
                self._add_loop(path, task)
        for path in sorted(self.shared, key=len, reverse=True):
            self._take_constants(path)
        return list(self.nodes.values())

    # ------------------------------------------------------------------ control loops

    def _add_loop(self, path: Path, task: str) -> None:
        """A bool that the task hands on from iteration to iteration, while the loop's condition says so."""
        condition = self.live.conditions[path]
        like = next(n for n in self.loops.members[path] if n.op in cf.ENTER)
        stem = f"{like.name}/_control_of_{label(task)}"
        attrs = {"frame_name": path[-1], "is_constant": False, "T": bool_}
        attrs["parallel_iterations"] = like.attr["parallel_iterations"].i or 10
        self._add(path, task, "Enter", f"{stem}/enter", [self._start(path, task, stem)], attrs)
        self._add(path, task, "Merge", f"{stem}/merge", [f"{stem}/enter", f"{stem}/next"], {"T": bool_, "N": 2})
        again = condition.name
        if task_of(condition.device) != task:
            again = self._add(path, task, cf.LOOP_COND, f"{stem}/again", [condition.name], {})
            self._follow(path, task, condition.name, again)
        self._add(path, task, "Switch", f"{stem}/switch", [f"{stem}/merge", again], {"T": bool_})
        self._add(path, task, "Identity", f"{stem}/body", [f"{stem}/switch:1"], {"T": bool_})
        self._add(path, task, "NextIteration", f"{stem}/next", [f"{stem}/body"], {"T": bool_})
        tick = self.ticks[task, path] = Tick(f"{stem}/merge", f"{stem}/body")
        self._time_constants(path, task, tick)

    def _start(self, path: Path, task: str, stem: str) -> str:
        """A value that is alive where the loop begins."""
        outer, guard = path[:-1], self.live.guards[self.live.conditions[path].name]
        value = {"dtype": bool_, "value": np.array(False)}
        ticks = self.ticks.get((task, outer))
        if ticks is None:
            at: dict[Guard, list[str]] = {cf.ALWAYS: []}
        else:
            at = {head_guard(self.live, outer): [f"^{ticks.head}"], body_guard(self.live, outer): [f"^{ticks.body}"]}
        if guard in at:
            return self._add(outer, task, "Const", f"{stem}/start", at[guard], value)
        entered = next(n for n in self.loops.members[path] if n.op in cf.ENTER and not cf.is_invariant(n))
        source, home = entered.input[0], task_of(entered.device)
        began = self._add(outer, home, "Identity", f"{stem}/begins", [source], {"T": entered.attr["T"]})
        return self._add(outer, home, "Const", f"{stem}/start", [f"^{began}"], value)

    def _follow(self, path: Path, task: str, condition: str, again: str) -> None:
        """Have the task's nodes look at its own copy of the condition."""
        for node in self.loops.members[path]:
            if task_of(node.device) == task and any(node_name(e) == condition for e in node.input):
                copy = self._changed(node.name)
                copy.input[:] = [e.replace(condition, again) if node_name(e) == condition else e for e in node.input]

    def _time_constants(self, path: Path, task: str, tick: Tick) -> None:
        """A constant of the body waits for its own task's tick: for it alone no message is needed."""
        for node in self.loops.members[path]:
            if node.op == "Const" and node.input and task_of(node.device) == task:
                others = [e for e in node.input if task_of(self.nodes[node_name(e)].device) != task]
                if others and self.live.guards[node.name] == body_guard(self.live, path):
                    copy = self._changed(node.name)
                    copy.input[:] = [*(e for e in node.input if e not in others), f"^{tick.body}"]

    # ------------------------------------------------------------------ what is the same in all iterations

    def _take_constants(self, path: Path) -> None:
        """What another task reads of a constant Enter, it takes in through an Enter of its own."""
        entered = {n.name for n in self.nodes.values() if self.owner[n.name] == path and n.op == "Enter"}
        entered = {name for name in entered if cf.is_invariant(self.nodes[name])}
        for name in [n for n in self.nodes if self._reads_in(n) == path]:
            task = task_of(self.nodes[name].device)
            for e in list(self.nodes[name].input):
                if not is_control(e) and parse(e)[0] in entered:
                    source = self.nodes[parse(e)[0]]
                    if task_of(source.device) != task:
                        copy = self._changed(name)
                        copy.input[list(copy.input).index(e)] = self._enter_at(task, source)
        used = {node_name(e) for n in self.nodes.values() for e in n.input}
        for name in entered - used:
            del self.nodes[name]

    def _reads_in(self, name: str) -> Path:
        path = self.owner[name]
        return path[:-1] if self.nodes[name].op in cf.ENTER else path

    def _enter_at(self, task: str, source: NodeDef) -> str:
        name = f"{source.name}/_at_{label(task)}"
        if name not in self.nodes:
            copy = NodeDef()
            copy.CopyFrom(source)
            copy.name, copy.device = name, f"{task}/device:CPU:0"
            self.nodes[name], self.owner[name] = copy, self.owner[source.name]
            self.copied.add(name)
        return name

    # ------------------------------------------------------------------ nodes

    def _add(self, path: Path, task: str, op: str, name: str, inputs: Sequence[str], attrs: dict[str, object]) -> str:
        node = NodeDef(name=name, op=op, device=f"{task}/device:CPU:0", input=inputs)
        for key, value in attrs.items():
            node.attr[key].CopyFrom(encode(value) if not hasattr(value, "CopyFrom") else value)
        self.nodes[name], self.owner[name] = node, path
        self.copied.add(name)
        return name

    def _changed(self, name: str) -> NodeDef:
        if name not in self.copied:
            copy = NodeDef()
            copy.CopyFrom(self.nodes[name])
            self.nodes[name] = copy
            self.copied.add(name)
        return self.nodes[name]


def label(task: str) -> str:
    """A task in names of nodes: job_worker_replica_0_task_1 without the colons."""
    return task.strip("/").replace("/", "_").replace(":", "")
