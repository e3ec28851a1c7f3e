"""Swapping: a tensor that long waits for its next use waits in a file and not in memory.

Between two uses of a tensor, `_SwapOut` begins to write it where it is made, its memory is free after the first of the
two, `_SwapAhead` begins to read it back a little before the second, and `_SwapIn` has it there. From a GPU's memory the
way leads to the host's, as in TensorFlow: by a `_ToHost`, and back by a `_ToDevice`. What is swapped: the inputs that
the attribute `_swap_to_host` of a node numbers, and, while a step is planned to take more memory than the host has, the
largest tensors there that are live at the peak and have no use near it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from sparkflow_runtime.master.cost_model import CostModel
from sparkflow_runtime.master.lifetimes import ACTIVATION, Lifetimes
from sparkflow_runtime.master.passes.settings import Settings
from sparkflow_runtime.wire import control_flow
from sparkflow_runtime.wire.attrs import decode, encode
from sparkflow_runtime.wire.devices import on_cpu, task_of
from sparkflow_runtime.wire.dtypes import as_dtype
from sparkflow_runtime.wire.edges import data_inputs, edge, is_control, parse
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from sparkflow_runtime.wire.sizes import SHAPES, item_bytes, output_bytes

HINT = "_swap_to_host"
_AHEAD = 2  # kernels of some size that run while a tensor is read back
_SIZE_BYTES = 1 << 16
_LEAST_BYTES = 1 << 20  # a smaller tensor is not worth a file
_LEAST_GAP = 8  # nodes between the two uses
_ROUNDS = 25
_PREFIX = "Swapped/"

_log = logging.getLogger(__name__)


@dataclass
class _Away:
    """A tensor that is away after the node at `since`, until the nodes `users`, the first of which is at `until`."""

    tensor: str
    since: int
    until: int
    users: list[str] = field(default_factory=list)


def swap(
    graph: GraphDef,
    feeds: Collection[str],
    fetches: Collection[str],
    settings: Settings,
    costs: CostModel | None = None,
) -> GraphDef:
    """The graph with its swaps. One with control flow stays as it is: a loop's tensors have no one time to be away."""
    hints = [n.name for n in graph.node if HINT in n.attr] if settings.swap_hints else []
    if control_flow.has_control_flow(graph.node):
        if hints:
            _log.warning("%s of %s is not followed: the graph has loops or branches", HINT, ", ".join(hints))
        return graph
    if hints:
        graph = _Uses(graph, feeds, fetches).swapped(_hinted)
    return _below(graph, feeds, fetches, settings, costs) if settings.swapping else graph


def _below(
    graph: GraphDef, feeds: Collection[str], fetches: Collection[str], settings: Settings, costs: CostModel | None
) -> GraphDef:
    """Swap until the plan fits into the limit, or nothing more can help."""
    limit_bytes, unknown = settings.memory_limit_bytes, settings.open_size
    made = (output_bytes(n, unknown) for n in graph.node if on_cpu(n.device))
    if not limit_bytes or sum(map(sum, made)) <= limit_bytes:  # every tensor at once
        return graph
    for _ in range(_ROUNDS):
        uses = _Uses(graph, feeds, fetches)
        view = Lifetimes(graph, feeds, fetches, costs, unknown)
        for buffer in view.buffers:
            buffer.num_bytes *= on_cpu(buffer.device)  # a GPU's memory is not what the limit is of
        peak, at = view.walk(uses.order)
        outside = sum(b.num_bytes for b in view.buffers if b.kind != ACTIVATION)
        if peak + outside <= limit_bytes:
            break
        chosen = list(_chosen(uses, view, at, peak + outside - limit_bytes))
        if not chosen:
            _log.warning(
                "A step is planned to take %d bytes of %d, in %s; nothing more can be swapped",
                peak + outside, limit_bytes, uses.order[at],
            )  # fmt: skip
            break
        graph = uses.swapped(lambda _, chosen=chosen: chosen)  # type: ignore[misc]
    return graph


def _chosen(uses: _Uses, view: Lifetimes, at: int, wanted_bytes: int) -> Iterator[_Away]:
    """Tensors that can be away while the node at `at` runs, largest first, until they make up for what is wanted."""
    last, made, beside = view.last_uses(uses.order), view.made_at(uses.order), view.last_use_beside(uses.order)
    live = [b for b, made_at in made.items() if made_at < at <= last[b] and not view.buffers[b].fetched]
    for b in sorted(live, key=lambda b: -view.buffers[b].num_bytes):
        one = view.buffers[b]
        away = uses.gap_around(one.tensor, at) if one.num_bytes >= _LEAST_BYTES else None
        if away is None or beside.get(b, -1) > away.since or wanted_bytes <= 0:
            continue
        wanted_bytes -= one.num_bytes
        yield away


def _hinted(uses: _Uses) -> Iterator[_Away]:
    for node in uses.nodes.values():
        if HINT in node.attr:
            numbers, inputs = decode(node.attr[HINT]), data_inputs(node)
            for i in numbers if isinstance(numbers, list) else [numbers]:
                if not 0 <= i < len(inputs):
                    raise InvalidArgumentError(
                        node, None, f"{HINT} of node {node.name!r}: it has {len(inputs)} inputs, so none numbered {i}"
                    )
                away = uses.gap_before(edge(*parse(inputs[i])), node.name)
                if away is not None:
                    yield away


class _Uses:
    """Who uses which tensor, in the order of a graph."""

    def __init__(self, graph: GraphDef, feeds: Collection[str], fetches: Collection[str]):
        self.graph = graph
        self.nodes = {n.name: n for n in graph.node}
        self.order = list(self.nodes)
        self.position = {name: i for i, name in enumerate(self.order)}
        self._given = graph, feeds, fetches
        self._outside = {edge(*parse(f)) for f in (*feeds, *fetches)}
        self._users: dict[str, list[str]] = {}
        for node in graph.node:
            for e in dict.fromkeys(edge(*parse(e)) for e in data_inputs(node)):
                self._users.setdefault(e, []).append(node.name)

    @cached_property
    def memory(self) -> Lifetimes:
        return Lifetimes(*self._given)

    def _may(self, tensor: str) -> bool:
        node = self.nodes.get(parse(tensor)[0])
        return node is not None and tensor not in self._outside and not node.op.startswith("_Swap")

    def gap_around(self, tensor: str, at: int) -> _Away | None:
        """Between the last use before a position and the first after it, if it is long."""
        if not self._may(tensor):
            return None
        places = [self.position[parse(tensor)[0]], *(self.position[u] for u in self._users.get(tensor, ()))]
        since, until = max(p for p in places if p <= at), min((p for p in places if p > at), default=-1)
        if since == at or until < 0 or until - since < _LEAST_GAP:
            return None
        return _Away(tensor, since, until, [u for u in self._users[tensor] if self.position[u] >= until])

    def gap_before(self, tensor: str, user: str) -> _Away | None:
        """Until a node uses it, and whoever comes later; None where there is nothing between, or it does not belong to
        the step."""
        if not self._may(tensor) or not self.memory.belongs_to_step(tensor):
            return None
        until = self.position[user]
        earlier = [self.position[u] for u in self._users[tensor] if self.position[u] < until]
        since = max(earlier, default=self.position[parse(tensor)[0]])
        if until - since <= 1:
            return None
        return _Away(tensor, since, until, [u for u in self._users[tensor] if self.position[u] >= until])

    # ------------------------------------------------------------------ the nodes put in

    def swapped(self, choose: Callable[[_Uses], Iterable[_Away]]) -> GraphDef:
        """The graph in which what `choose(self)` yields is away for a time."""
        before: dict[int, list[NodeDef]] = {}  # position -> nodes put in before the node there
        instead: dict[tuple[str, str], str] = {}  # (user, tensor) -> what it takes
        outs: dict[str, NodeDef] = {}
        for number, away in enumerate(choose(self)):
            producer = self.nodes[parse(away.tensor)[0]]
            if away.tensor not in outs:
                outs[away.tensor] = _out(away.tensor, producer)
                before.setdefault(self.position[producer.name] + 1, []).append(outs[away.tensor])
            begin = self._begin(away)
            ahead, *more = _back(f"{away.tensor}/{number}", producer, outs[away.tensor], self.order[begin - 1])
            _describe(ahead, producer, parse(away.tensor)[1])
            before.setdefault(begin, []).append(ahead)
            before.setdefault(away.until, []).extend(more)
            instead.update(((user, away.tensor), [ahead, *more][-1].name) for user in away.users)
        graph = GraphDef(versions=self.graph.versions)
        for i, name in enumerate(self.order):
            graph.node.extend(before.get(i, ()))
            graph.node.append(self._served(self.nodes[name], instead))
        return graph

    def _begin(self, away: _Away) -> int:
        """The position at which to begin to read: some kernels of size ahead of the use, but after it went away."""
        begin, left = away.until, _AHEAD
        while begin > away.since + 1 and left:
            begin -= 1
            left -= max(output_bytes(self.nodes[self.order[begin]]), default=0) >= _SIZE_BYTES
        return begin

    def _served(self, node: NodeDef, instead: dict[tuple[str, str], str]) -> NodeDef:
        inputs = [e if is_control(e) else instead.get((node.name, edge(*parse(e))), e) for e in node.input]
        if inputs == list(node.input):
            return node
        new = NodeDef()
        new.CopyFrom(node)
        new.input[:] = inputs
        new.attr.pop(HINT, None)
        return new


def _out(tensor: str, producer: NodeDef) -> NodeDef:
    if on_cpu(producer.device):
        return _node("_SwapOut", f"{tensor}/out", producer, [tensor])
    made = _node("_ToHost", f"{tensor}/out", producer, [tensor])
    made.device = f"{task_of(producer.device)}/device:CPU:0"
    _describe(made, producer, parse(tensor)[1])
    return made


def _back(stem: str, producer: NodeDef, out: NodeDef, after: str) -> list[NodeDef]:
    """What begins to bring it back, once the node `after` has run, and what has it there, where that is another."""
    begun = [out.name, f"^{after}"]
    if not on_cpu(producer.device):
        return [_node("_ToDevice", f"{stem}/in", producer, begun)]
    ahead = _node("_SwapAhead", f"{stem}/ahead", producer, begun)
    return [ahead, _node("_SwapIn", f"{stem}/in", producer, [ahead.name])]


def _node(op: str, name: str, producer: NodeDef, inputs: list[str]) -> NodeDef:
    node = NodeDef(op=op, name=_PREFIX + name.replace(":", "_"), device=producer.device, input=inputs)
    node.attr["_class"].CopyFrom(encode([f"loc:@{producer.name}".encode()]))
    return node


def _describe(node: NodeDef, producer: NodeDef, port: int) -> None:
    """The tensor that will lie in memory from here on, so that a plan of memory counts it."""
    if SHAPES in producer.attr and port < len(producer.attr[SHAPES].list.shape):
        node.attr[SHAPES].list.shape.add().CopyFrom(producer.attr[SHAPES].list.shape[port])
        kind = {1: "bool", 2: "float16", 4: "float32", 8: "float64", 16: "complex128"}[item_bytes(producer)]
        node.attr["T"].CopyFrom(encode(as_dtype(kind)))
