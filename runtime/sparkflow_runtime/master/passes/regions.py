"""What a pass must know before it makes one node of several: when they run, whether they run, and who waits for them.

Nodes may become one when none of them leads to another (`level` is equal), all run or none does (`context` is equal),
and every queue or accumulator that waits for one of them waits for all (`awaited` is equal): then nothing that one of
them must wait for can itself be waiting for another of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sparkflow_runtime.kernels import registry
from sparkflow_runtime.wire.edges import both_spellings, data_inputs, is_control, node_name, parse
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

Context = frozenset[tuple[str, int]]  # (predicate or frame, branch) of the conditions that a node is under
_SWITCHES = ("Switch", "RefSwitch")
_MERGES = ("Merge", "RefMerge")
_ENTERS = ("Enter", "RefEnter")
_LOOP_ENDS = ("Exit", "RefExit")
_CLOSING = ("NextIteration", "RefNextIteration")
_FRAME = -1


@dataclass
class Regions:
    """Of a placed graph in which `feeds` ('name:port') are cut."""

    graph: GraphDef
    feeds: Collection[str] = ()
    nodes: dict[str, NodeDef] = field(init=False)
    order: list[str] = field(init=False)  # producers first
    consumers: dict[str, list[tuple[NodeDef, str]]] = field(init=False)  # node -> (consumer, edge)
    sources: dict[str, list[str]] = field(init=False)  # node -> those before it, one for each edge; a loop is one piece
    _ops: dict[str, str] = field(init=False)
    _fed: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self._fed = both_spellings(self.feeds)
        self.nodes = {n.name: n for n in self.graph.node}
        self._ops = {name: node.op for name, node in self.nodes.items()}
        self.consumers = {name: [] for name in self.nodes}
        self._after: dict[str, list[str]] = {name: [] for name in self.nodes}  # the same by their names
        self.sources = {}
        closing = {name for name, op in self._ops.items() if op in _CLOSING}
        for name, node in self.nodes.items():
            before = self.sources[name] = []
            for e in self._given(node):
                source = node_name(e)
                if source not in closing:
                    before.append(source)
                    self.consumers[source].append((node, e))
                    self._after[source].append(name)
        self._keep_loops_whole()
        self.order = self._order()

    def edges(self, node: NodeDef) -> list[str]:
        """The inputs of a node that other nodes give, control edges too, without those that close a loop."""
        return [e for e in self._given(node) if self._ops[node_name(e)] not in _CLOSING]

    def is_fed(self, e: str) -> bool:
        return e in self._fed

    def _given(self, node: NodeDef) -> list[str]:
        """The inputs of a node that are not fed."""
        return [e for e in node.input if e not in self._fed]

    def without_idle(self, nodes: Sequence[NodeDef], kept: Collection[str]) -> list[NodeDef]:
        """The nodes that a pass makes of these, without those that somebody took a value of and nobody does now."""
        left = {n.name: n for n in nodes}
        uses = dict.fromkeys(left, 0)
        for node in nodes:
            for e in self._given(node):
                uses[node_name(e)] += 1
        idle = [name for name, count in uses.items() if not count and self.consumers.get(name, True)]
        while idle:
            node = left[idle.pop()]
            if registry.is_stateful(node.op) or node.name in kept:
                continue
            del left[node.name]
            for name in map(node_name, self._given(node)):
                uses[name] -= 1
                if not uses[name]:
                    idle.append(name)
        return list(left.values())

    def _keep_loops_whole(self) -> None:
        """What enters a loop is before all that comes of it, also where the way leads by one iteration to the next."""
        entering: dict[str, list[str]] = defaultdict(list)
        for name, op in self._ops.items():
            if op in _ENTERS:
                entering[self.nodes[name].attr["frame_name"].s.decode()].append(name)
        for together in entering.values():
            begins = [m for e in together for m in self._after[e] if self._ops[m] in _MERGES]
            for merge in dict.fromkeys(begins):
                more = [e for e in together if e not in self.sources[merge]]
                self.sources[merge] += more
                for e in more:
                    self._after[e].append(merge)

    def _order(self) -> list[str]:
        waits = {name: len(before) for name, before in self.sources.items()}
        ready, order = [name for name, count in reversed(waits.items()) if not count], []
        while ready:
            order.append(ready.pop())
            for consumer in self._after[order[-1]]:
                waits[consumer] -= 1
                if not waits[consumer]:
                    ready.append(consumer)
        return order

    def contexts(self) -> dict[str, Context]:
        """Under which conditions each node runs: branches of Switch nodes, and the frames of loops."""
        found: dict[str, Context] = dict.fromkeys(self.order, frozenset())
        if not any(op in _SWITCHES or op in _ENTERS for op in self._ops.values()):
            return found
        for name in self.order:
            node, under = self.nodes[name], set[tuple[str, int]]()
            for e in self.edges(node):
                source = self.nodes[node_name(e)]
                under |= found[source.name]
                if source.op in _SWITCHES and not is_control(e):
                    under.add((source.input[1], parse(e)[1]))
            if node.op in _MERGES:
                under -= {(p, b) for p, b in under if b != _FRAME and (p, 1 - b) in under}
            elif node.op in _ENTERS:
                under.add((node.attr["frame_name"].s.decode(), _FRAME))
            elif node.op in _LOOP_ENDS:  # what a loop leaves by is no condition: it leaves once
                under -= self._innermost(under) | {
                    (switch.input[1], parse(e)[1])
                    for e in data_inputs(node)
                    if (switch := self.nodes[node_name(e)]).op in _SWITCHES
                }
            found[name] = frozenset(under)
        return found

    @staticmethod
    def _innermost(under: set[tuple[str, int]]) -> set[tuple[str, int]]:
        """The frame whose name is the longest: an inner loop's frame is named under the outer one's."""
        frames = [c for c in under if c[1] == _FRAME]
        return {max(frames, key=lambda c: len(c[0]))} if frames else set()

    def levels(self, counts: Callable[[str], bool]) -> dict[str, int]:
        """The most nodes that `counts` holds for on a path to each node, the node itself with them."""
        found: dict[str, int] = {}
        for name in self.order:
            before = max([found[source] for source in self.sources[name]], default=0)
            found[name] = before + counts(name)
        return found

    def after(self, bits: Mapping[str, int]) -> dict[str, int]:
        """Which of these nodes each comes after, whatever happens: a merge takes what comes first, so it waits for
        none."""
        found: dict[str, int] = {}
        for name in self.order:
            before = 0
            for source in () if self._ops[name] in _MERGES else self.sources[name]:
                before |= found[source] | bits.get(source, 0)
            found[name] = before
        return found

    def awaited(self) -> dict[str, int]:
        """As a bit set: the operations that may wait and that come after each node."""
        bits = {n: 1 << i for i, n in enumerate(n for n in self.order if registry.is_asynchronous(self._ops[n]))}
        found: dict[str, int] = {}
        if not bits:
            return dict.fromkeys(self.order, 0)
        for name in reversed(self.order):
            after = 0
            for consumer in self._after[name]:
                after |= found.get(consumer, 0) | bits.get(consumer, 0)
            found[name] = after
        return found
