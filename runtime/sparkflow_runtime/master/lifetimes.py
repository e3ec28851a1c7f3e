"""What a step will hold in memory, node by node: its peak, and the tensors that make it up.

A plan runs the nodes of a part in the graph's order and drops a value after its last use, so the order and the sizes
say it all. Sizes are those of the last traced step where there was one, and follow from static shapes otherwise. What
outlives the step (variables, constants, feeds) is told apart from what the step makes. A loop counts as one pass
through its body; what stacks and TensorArrays keep from pass to pass is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkflow_runtime.kernels import registry
from sparkflow_runtime.master.cost_model import CostModel
from sparkflow_runtime.wire.devices import DeviceSpec
from sparkflow_runtime.wire.edges import data_inputs, edge, parse
from sparkflow_runtime.wire.errors import UnimplementedError
from sparkflow_runtime.wire.protos import GraphDef, NodeDef, StepStats
from sparkflow_runtime.wire.sizes import UNKNOWN_SIZE

ACTIVATION, FEED, CONSTANT, VARIABLE = "activations", "feeds", "constants", "variables"
_VARIABLES = ("VariableV2", "Variable")
_SHOWN = 10
_NUMBER_BYTES = 16


@dataclass
class Buffer:
    """Memory that one node allocates; several tensors may lie in it."""

    tensor: str
    num_bytes: int
    kind: str
    device: str
    fetched: bool = False


@dataclass
class Peak:
    """The moment at which the step's own tensors take the most of a device. live: tensor -> bytes, largest first;
    outside: kind -> bytes that outlive the step."""

    device: str
    num_bytes: int = 0
    at: str = ""
    live: list[tuple[str, int]] = field(default_factory=list)
    outside: dict[str, int] = field(default_factory=dict)

    def text(self) -> str:
        beside = ", ".join(f"{kind} {_mib(n)}" for kind, n in self.outside.items() if n)
        lines = [f"memory of {self.device or 'the device'}: a step's own tensors take at most {_mib(self.num_bytes)}"]
        lines[0] += f", in {self.at}" if self.at else ""
        lines[0] += f"; beside them: {beside}" if beside else ""
        lines += [f"    {_mib(n):>12}  {tensor}" for tensor, n in self.live[:_SHOWN]]
        rest = self.live[_SHOWN:]
        if rest:
            lines.append(f"    {_mib(sum(n for _, n in rest)):>12}  {len(rest)} more")
        return "\n".join(lines)


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / (1 << 20):,.1f} MiB"


@dataclass
class _Doing:
    """What a node does: the buffers it makes, those it reads (and with them what their memory is part of), and of those
    the ones that its output may take over."""

    makes: list[int] = field(default_factory=list)
    uses: list[int] = field(default_factory=list)
    takes: list[int] = field(default_factory=list)
    scratch: int = 0


class Lifetimes:
    """Of a placed graph whose nodes stand in an order in which they can run."""

    def __init__(
        self,
        graph: GraphDef,
        feeds: Iterable[str] = (),
        fetches: Iterable[str] = (),
        costs: CostModel | None = None,
        unknown: int = UNKNOWN_SIZE,
        feed_bytes: Mapping[str, int] | None = None,
    ):
        """feeds and fetches are 'name:port'. unknown: what an open dimension of a static shape counts as."""
        self._feed_bytes = {edge(*parse(f)): n for f, n in (feed_bytes or {}).items()}
        self.costs, self.unknown = costs or CostModel(), unknown
        self.buffers: list[Buffer] = []
        self.doings: dict[str, _Doing] = {}
        self._inputs: dict[str, list[str]] = {}
        self._of: dict[str, tuple[int, ...]] = {}  # edge -> the buffers that its memory may be in
        self._fed = {edge(*parse(f)) for f in feeds}
        self._fetched = {edge(*parse(f)) for f in fetches}
        for node in graph.node:
            self._see(node)
        for fetch in self._fetched:
            for at in self._of.get(fetch, ()):
                self.buffers[at].fetched = True

    # ------------------------------------------------------------------ whose memory is whose

    def _see(self, node: NodeDef) -> None:
        doing = self.doings[node.name] = _Doing(scratch=self.costs.scratch_bytes(node))
        row = find_row(node)
        inputs = self._inputs[node.name] = [edge(*parse(e)) for e in data_inputs(node)]
        for e in inputs:
            if e in self._fed and e not in self._of:
                self._of[e] = (self._new(e, self._feed_bytes.get(e, 0), FEED, node.device),)
            doing.uses += self._of.get(e, ())
        for port in range(max(1, self.costs.num_outputs(node))):
            e = edge(node.name, port)
            if e not in self._fed:
                self._of[e] = self._output(node, row, port, inputs, doing)

    def _output(self, node: NodeDef, row: Any, port: int, inputs: list[str], doing: _Doing) -> tuple[int, ...]:
        new = self.costs.new_bytes(node, port)
        if new == 0 and self.costs.output_bytes(node, port) <= _NUMBER_BYTES:
            new = None  # a single number is no view
        if row is not None and row.stateful and 0 in row.refs and not row.plain and inputs:
            return self._of.get(inputs[0], ())  # the variable itself
        if row is not None and row.aliases and node.op != "Const" and not new and (new == 0 or _is_view(node)):
            return tuple(dict.fromkeys(b for e in inputs for b in self._of.get(e, ())))
        size = self.costs.output_bytes(node, port, self.unknown)
        kind = VARIABLE if node.op in _VARIABLES else CONSTANT if node.op == "Const" else ACTIVATION
        at = self._new(edge(node.name, port), size, kind, node.device)
        if kind == ACTIVATION:
            doing.makes.append(at)
            if row is not None:  # AddN may have more positions than inputs
                doing.takes += [b for i in row.in_place if i < len(inputs) for b in self._of.get(inputs[i], ())]
        return (at,)

    def _new(self, e: str, size: int, kind: str, device: str) -> int:
        self.buffers.append(Buffer(e, size, kind, device))
        return len(self.buffers) - 1

    def belongs_to_step(self, tensor: str) -> bool:
        """Whether its memory is the step's own, and no variable's, constant's or feed's."""
        held = self._of.get(tensor, ())
        return bool(held) and all(self.buffers[at].kind == ACTIVATION for at in held)

    # ------------------------------------------------------------------ the walk

    def last_uses(self, order: Sequence[str]) -> list[int]:
        """Of every buffer: the position in `order` after which it is free."""
        last = [-1] * len(self.buffers)
        for position, name in enumerate(order):
            doing = self.doings[name]
            for at in (*doing.makes, *doing.uses):
                last[at] = position
        for at, buffer in enumerate(self.buffers):
            if buffer.fetched:
                last[at] = len(order)
        return last

    def walk(
        self, order: Sequence[str], visit: Callable[[int, int], None] | None = None, device: str | None = None
    ) -> tuple[int, int]:
        """(the most bytes that activations take, the position at which they do). visit(position, bytes): at each."""
        last, buffers = self.last_uses(order), self.buffers
        in_use = peak = at_peak = 0
        for position, name in enumerate(order):
            doing = self.doings[name]
            taken = self._taken(doing, last, position)
            for at in doing.makes:
                if device is None or buffers[at].device == device:
                    in_use += buffers[at].num_bytes
            if taken >= 0:
                in_use -= buffers[taken].num_bytes
            if in_use + doing.scratch > peak:
                peak, at_peak = in_use + doing.scratch, position
            if visit is not None:
                visit(position, in_use + doing.scratch)
            for at in {*doing.makes, *doing.uses}:
                mine = device is None or buffers[at].device == device
                if last[at] == position and at != taken and mine and buffers[at].kind == ACTIVATION:
                    in_use -= buffers[at].num_bytes
        return peak, at_peak

    def _taken(self, doing: _Doing, last: list[int], position: int) -> int:
        """The buffer that the node's output takes over, or -1."""
        sizes = {self.buffers[at].num_bytes for at in doing.makes}
        for at in doing.takes:
            one = self.buffers[at]
            if last[at] == position and one.kind == ACTIVATION and one.num_bytes in sizes and doing.uses.count(at) == 1:
                return at
        return -1

    def last_use_beside(self, order: Sequence[str]) -> dict[int, int]:
        """Buffer -> the last position at which it is used by another tensor than the one it was made for."""
        found: dict[int, int] = {}
        for position, name in enumerate(order):
            for e in self._inputs[name]:
                found.update((at, position) for at in self._of.get(e, ()) if self.buffers[at].tensor != e)
        return found

    def peak(self, order: Sequence[str], device: str | None = None) -> Peak:
        """The peak of one device (of all together) with the tensors that are live then."""
        num_bytes, position = self.walk(order, device=device)
        found = Peak(device or "", num_bytes, order[position] if order else "")
        last, made = self.last_uses(order), self.made_at(order)
        for at, buffer in enumerate(self.buffers):
            if device is not None and buffer.device != device:
                continue
            if buffer.kind != ACTIVATION:
                found.outside[buffer.kind] = found.outside.get(buffer.kind, 0) + buffer.num_bytes
            elif made.get(at, len(order)) <= position <= last[at] and buffer.num_bytes:
                found.live.append((buffer.tensor, buffer.num_bytes))
        if order and self.doings[order[position]].scratch:
            found.live.append((f"(scratch memory of {order[position]})", self.doings[order[position]].scratch))
        found.live.sort(key=lambda pair: (-pair[1], pair[0]))
        return found

    def made_at(self, order: Sequence[str]) -> dict[int, int]:
        return {at: position for position, name in enumerate(order) for at in self.doings[name].makes}


def find_row(node: NodeDef) -> registry.Kernel | None:
    try:
        return registry.find(node.op, DeviceSpec.from_string(node.device).device_type or "CPU")
    except UnimplementedError:
        return None  # _Send, _Recv


_COPIES = frozenset(  # memory of an input only in a special case, such as no axis to sum over
    ["_ToHost", "ConcatV2", "Pad", "PadV2", "AddN", "Cast", "Round", "Sum", "Mean", "Prod", "Max", "Min", "Any", "All"]
)


def _is_view(node: NodeDef) -> bool:
    return node.op not in _COPIES


def planned_peaks(
    graph: GraphDef,
    feeds: Iterable[str] = (),
    fetches: Iterable[str] = (),
    costs: CostModel | None = None,
    unknown: int = UNKNOWN_SIZE,
    feed_bytes: Mapping[str, int] | None = None,
) -> list[Peak]:
    """Of every device of a placed graph; the largest first."""
    found = Lifetimes(graph, feeds, fetches, costs, unknown, feed_bytes)
    order = [n.name for n in graph.node]
    peaks = [found.peak(order, device) for device in dict.fromkeys(n.device for n in graph.node)]
    return sorted(peaks, key=lambda p: -p.num_bytes)


def measured_peaks(stats: Iterable[StepStats]) -> dict[str, tuple[int, str]]:
    """Device -> (the most that a traced step's tensors took, the node that ran then)."""
    found: dict[str, tuple[int, str]] = {}
    for device in (d for task in stats for d in task.dev_stats):
        for span in device.node_stats:
            for used in span.memory:
                held = used.allocator_bytes_in_use + span.memory_stats.temp_memory_size
                found[device.device] = max(found.get(device.device, (0, "")), (held, span.node_name))
    return found


def compare_peaks(
    stats: Iterable[StepStats],
    parts: Iterable[GraphDef],
    feeds: Iterable[str],
    fetches: Iterable[str],
    costs: CostModel,
) -> str:
    """A traced step's peak of memory as measured beside what is planned for the next one, a paragraph a device."""
    measured = measured_peaks(stats)
    lines = []
    for peak in (p for part in parts for p in planned_peaks(part, feeds, fetches, costs)):
        held, at = measured.get(peak.device, (0, ""))
        lines.append(f"A traced step took {_mib(held)}{f' in {at}' if at else ''}; planned {peak.text()}")
    return "\n".join(lines)
