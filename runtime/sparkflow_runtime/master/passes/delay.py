"""Variables that travel when they are needed, not all at the beginning of a step.

What a task reads of variables that lie elsewhere is sent as soon as the step begins, since nothing stands before it:
a worker that needs the layers of a large model one after the other holds all of them from the start. Here a variable
of some size waits for a control edge from the reader: it leaves when the one before its predecessor has been used, so
that one is on its way while another is worked with. (The whitepaper delays the start of Recv nodes for the same end;
here the sender decides, so the edge leads to it. Source: Abadi et al. 2015, section 5.2.)

Nothing is delayed unless the reader's peak falls by it, nor where the step changes the variable before that is sure to
have been read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sparkflow_runtime.master.lifetimes import find_row
from sparkflow_runtime.wire import control_flow
from sparkflow_runtime.wire.devices import task_of
from sparkflow_runtime.wire.edges import CARRIED, edge, is_control, node_name, parse, topological
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from sparkflow_runtime.wire.sizes import SHAPES, output_bytes

_LARGE_BYTES = 4 << 20  # what takes longer to send than the word that it may be sent
_WORTH_BYTES = 16 << 20
_WORTH = 0.9  # of the peak as it was
_VARIABLES = frozenset(["VariableV2", "Variable"])
_HANDS_ON = frozenset(["Identity", "Snapshot"])
_PREFIX = "Delayed/"


@dataclass
class _Transfer:
    """One tensor on its way to one task."""

    tensor: str
    num_bytes: int
    users: list[NodeDef] = field(default_factory=list)  # in the graph's order
    trigger: str = ""


def delay(graph: GraphDef, feeds: Collection[str] = ()) -> GraphDef:
    """A placed graph whose transfers wait where that pays. One with control flow stays as it is."""
    if len({task_of(n.device) for n in graph.node}) < 2 or control_flow.has_control_flow(graph.node):
        return graph
    return _Delays(graph, feeds).delayed()


class _Delays:
    def __init__(self, graph: GraphDef, feeds: Collection[str]):
        self.graph, self.fed = graph, set(feeds)
        self.nodes = {n.name: n for n in graph.node}
        self.position = {n.name: i for i, n in enumerate(graph.node)}

    def delayed(self) -> GraphDef:
        waiting = [t for found in self._transfers().values() for t in self._worth_it(found)]
        return self._rewritten(waiting) if waiting else self.graph

    # ------------------------------------------------------------------ what may wait

    def _transfers(self) -> dict[str, list[_Transfer]]:
        """Task -> the large variables that it reads from others."""
        found: dict[str, dict[str, _Transfer]] = {}
        for node in self.graph.node:
            task = task_of(node.device)
            for e in node.input:
                if is_control(e) or self._is_fed(e):
                    continue
                name, port = parse(e)
                producer = self.nodes[name]
                if task_of(producer.device) == task or not self._is_held(name):
                    continue
                num_bytes = (*output_bytes(producer, 1), *[0] * (port + 1))[port]
                if num_bytes >= _LARGE_BYTES:
                    tensor = edge(name, port)
                    found.setdefault(task, {}).setdefault(tensor, _Transfer(tensor, num_bytes)).users.append(node)
        return {task: list(of.values()) for task, of in found.items()}

    def _is_fed(self, e: str) -> bool:
        return "{}:{}".format(*parse(e)) in self.fed

    def _is_held(self, name: str) -> bool:
        """Whether a tensor is a variable's own memory, which stays where it is in any case."""
        return self._variable(name) is not None

    def _variable(self, name: str) -> str | None:
        node = self.nodes[name]
        while node.op in _HANDS_ON and not any(map(is_control, node.input)) and not self._is_fed(node.input[0]):
            node = self.nodes[node_name(node.input[0])]
        return node.name if node.op in _VARIABLES and f"{node.name}:0" not in self.fed else None

    def _is_safe(self, transfer: _Transfer) -> bool:
        """Whether all that changes the variable in this step comes after one of its users."""
        variable = self._variable(parse(transfer.tensor)[0])
        behind = self._behind([n.name for n in transfer.users])
        aliases = {variable}
        for node in self.graph.node:
            if not any(node_name(e) in aliases for e in node.input if not is_control(e)):
                continue
            row = find_row(node)
            if row is not None and row.stateful and row.refs:
                if node.name not in behind:
                    return False
                aliases.add(node.name)
            elif node.op in _HANDS_ON:
                aliases.add(node.name)
        return True

    def _behind(self, names: Sequence[str]) -> set[str]:
        """All that depends on one of them."""
        found = set(names)
        for node in self.graph.node:
            if any(node_name(e) in found for e in node.input):
                found.add(node.name)
        return found

    # ------------------------------------------------------------------ whether it pays

    def _worth_it(self, found: list[_Transfer]) -> list[_Transfer]:
        """Those that are to wait, with their triggers; none where that does not lower the peak."""
        found.sort(key=lambda t: self.position[t.users[0].name])
        uses = list(dict.fromkeys(t.users[0].name for t in found))  # first uses, in order
        waiting = []
        for transfer in found:
            at = uses.index(transfer.users[0].name)
            if at >= 2 and self._is_safe(transfer):
                transfer.trigger = uses[at - 2]
                waiting.append(transfer)
        before, after = self._peak(found, False), self._peak(found, True)
        return waiting if after <= min(_WORTH * before, before - _WORTH_BYTES) else []

    def _peak(self, found: Sequence[_Transfer], delayed: bool) -> int:
        """The most bytes of these transfers that the reader holds at once."""
        changes: list[tuple[int, int]] = []
        for t in found:
            start = self.position[t.trigger] if delayed and t.trigger else -1
            changes += [(start, t.num_bytes), (max(self.position[n.name] for n in t.users) + 1, -t.num_bytes)]
        held = peak = 0
        for _, num_bytes in sorted(changes):
            held += num_bytes
            peak = max(peak, held)
        return peak

    # ------------------------------------------------------------------ the graph

    def _rewritten(self, waiting: Sequence[_Transfer]) -> NodeList:
        made, instead = list[NodeDef](), dict[tuple[str, str], str]()
        for transfer in waiting:
            node = self._late(transfer)
            made.append(node)
            for user in transfer.users:
                instead[user.name, transfer.tensor] = node.name
        nodes = [self._with_inputs(n, instead) for n in self.graph.node]
        return NodeList(topological([*nodes, *made], self.fed), self.graph.versions)

    def _late(self, transfer: _Transfer) -> NodeDef:
        name, port = parse(transfer.tensor)
        producer = self.nodes[name]
        reader = task_of(transfer.users[0].device).strip("/").replace("/", "_").replace(":", "_")
        node = NodeDef(name=f"{_PREFIX}{name}_{port}/{reader}", op="Identity", device=producer.device)
        node.input.extend([transfer.tensor, f"^{transfer.trigger}"])
        node.attr["T"].type = producer.attr["dtype" if producer.op in _VARIABLES else "T"].type
        node.attr[SHAPES].list.shape.add().CopyFrom(producer.attr[SHAPES].list.shape[port])
        if CARRIED in producer.attr:
            node.attr[CARRIED].CopyFrom(producer.attr[CARRIED])
        return node

    def _with_inputs(self, node: NodeDef, instead: dict[tuple[str, str], str]) -> NodeDef:
        inputs = [e if is_control(e) else instead.get((node.name, edge(*parse(e))), e) for e in node.input]
        if inputs == list(node.input):
            return node
        copy = NodeDef()
        copy.CopyFrom(node)
        copy.input[:] = inputs
        return copy
