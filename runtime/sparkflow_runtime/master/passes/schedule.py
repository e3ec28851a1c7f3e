"""The order of a step's nodes, for a lower peak of memory.

A plan runs nodes in the graph's order, so to move a node is to schedule it. First, what changes a variable runs as soon
as it can: the gradient it takes is free then, not at the end of the step. Second, while the peak falls: a large tensor
that is live at the peak is made later, when what made the peak is gone, together with all that waits for it.

Every edge holds, and beside them two orders that no edge shows: who reads and who writes a variable, and nodes with
other effects (queues, random numbers) among themselves. So the values keep their bits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sparkflow_runtime.master.cost_model import CostModel
from sparkflow_runtime.master.lifetimes import ACTIVATION, Lifetimes, find_row
from sparkflow_runtime.wire import control_flow
from sparkflow_runtime.wire.edges import is_control, node_name, parse
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from sparkflow_runtime.wire.sizes import UNKNOWN_SIZE, output_bytes

_BATCHES = (8, UNKNOWN_SIZE)  # what an open dimension may be; no move may raise the peak of either
_WORTH_BYTES = 16 << 20  # a lower peak is not worth a search
_MOVED_TENSORS = 8  # that are tried at a peak
_ROUNDS = 25
_LEAST_GAIN = 0.01
_LIGHT_BYTES = 4096
_HELD = frozenset(["NoOp", "Const", "VariableV2", "Variable"])  # without memory of the step's own
_MOST_VISITS = 300_000  # nodes walked through, of all tries together


def schedule(
    graph: GraphDef, feeds: Collection[str] = (), fetches: Collection[str] = (), costs: CostModel | None = None
) -> GraphDef:
    """The same nodes in another order. Graphs with control flow keep theirs: loops and branches are laid out later."""
    made = list(map(_made, graph.node))
    if sum(made) < _WORTH_BYTES or control_flow.has_control_flow(graph.node):
        return graph
    if costs is None and _at_most(graph, made, fetches) < _WORTH_BYTES:
        return graph
    constraints = _Constraints(graph, feeds)
    if not constraints.has_writers:
        return graph
    order = constraints.effects_first()
    order = _search(graph, order, constraints, feeds, fetches, costs)
    nodes = {n.name: n for n in graph.node}
    if order == list(nodes):
        return graph
    return NodeList([nodes[name] for name in order], graph.versions)


def _made(node: NodeDef) -> int:
    """Bytes of the outputs; 0 where their memory is a variable's, a constant's or an input's."""
    row = find_row(node)
    return 0 if node.op in _HELD or (row is not None and (row.aliases or row.refs)) else sum(output_bytes(node))


def _at_most(graph: GraphDef, made: Sequence[int], fetches: Iterable[str]) -> int:
    """No less than the peak in the graph's own order: what another node's output may lie in counts to the end. Told in
    a fifth of the time that the exact peak takes, which counts when a model's tables are initialized one by one."""
    kept = {parse(f)[0] for f in fetches}
    last: dict[str, int] = {}
    for at, node in enumerate(graph.node):
        sources = [node_name(e) for e in node.input]
        last.update(dict.fromkeys(sources, at))
        row = find_row(node)
        if row is None or row.aliases:
            kept.update(sources)
    size, free = 0, [0] * len(made)
    most = 0
    for at, (node, num_bytes) in enumerate(zip(graph.node, made)):
        size += num_bytes
        most = max(most, size)
        if num_bytes and node.name not in kept:
            free[last.get(node.name, at)] += num_bytes
        size -= free[at]
    return most


def _largest(node: NodeDef) -> int:
    return max(output_bytes(node), default=0)


class _Constraints:
    """What must stand before what."""

    def __init__(self, graph: GraphDef, feeds: Iterable[str]):
        self.names = [n.name for n in graph.node]
        self.after: dict[str, list[str]] = {name: [] for name in self.names}
        self.waits: dict[str, int] = dict.fromkeys(self.names, 0)
        self.has_writers = False  # of variables
        self.early: set[str] = set()  # writers, and what they may have to wait for and takes no memory
        self._fed = set(feeds)
        self._variables: dict[str, frozenset[str]] = {}  # node -> those whose memory its output may be
        self._readers: dict[str, list[str]] = {}  # variable -> who touched it since its last change
        self._changed: dict[str, str] = {}
        self._last_effect = ""
        for node in graph.node:
            self._see(node)

    def _see(self, node: NodeDef) -> None:
        row = find_row(node)
        sources = [e for e in node.input if is_control(e) or "{}:{}".format(*parse(e)) not in self._fed]
        for name in dict.fromkeys(map(node_name, sources)):
            self._edge(name, node.name)
        touched = frozenset[str]().union(*(self._variables.get(node_name(e), ()) for e in sources if not is_control(e)))
        if node.op in ("VariableV2", "Variable"):
            self._variables[node.name] = frozenset([node.attr["shared_name"].s.decode() or node.name])
        elif row is None or row.is_async or (row.stateful and not touched):
            if self._last_effect:
                self._edge(self._last_effect, node.name)
            self._last_effect = node.name
        elif row.aliases or row.refs:
            self._variables[node.name] = touched
        changes = row is not None and row.stateful and bool(row.refs) and bool(touched)
        for variable in touched:
            self._touch(node.name, variable, changes)
        self.has_writers |= changes
        takes_none = row is not None and not row.is_async and _largest(node) <= _LIGHT_BYTES
        if changes or takes_none or node.op in _HELD:
            self.early.add(node.name)

    def _touch(self, name: str, variable: str, changes: bool) -> None:
        if variable in self._changed:
            self._edge(self._changed[variable], name)
        if changes:
            for reader in self._readers.pop(variable, ()):
                self._edge(reader, name)
            self._changed[variable] = name
        else:
            self._readers.setdefault(variable, []).append(name)

    def _edge(self, before: str, after: str) -> None:
        if before in self.after and before != after:
            self.after[before].append(after)
            self.waits[after] += 1

    def effects_first(self) -> list[str]:
        """The given order, with what changes a variable as early as it may."""
        waits, done, order = dict(self.waits), set[str](), list[str]()
        for root in sorted(self.names, key=lambda name: name not in self.early or waits[name] > 0):
            stack = [root] if root not in done else []
            while stack:
                name = stack.pop()
                if name in done:
                    continue
                done.add(name)
                order.append(name)
                for later in self.after[name]:
                    waits[later] -= 1
                stack += [n for n in reversed(self.after[name]) if n in self.early and not waits[n] and n not in done]
        return order

    def postponed(self, order: Sequence[str], first: int, end: int) -> list[str]:
        """`order` with the node at `first`, and all up to `end` that must come after it, moved behind the rest."""
        moved = {order[first]}
        kept, late = list[str](), list[str]()
        for name in order[first : end + 1]:
            (late if name in moved else kept).append(name)
            if name in moved:
                moved.update(self.after[name])
        return [*order[:first], *kept, *late, *order[end + 1 :]]


def _search(
    graph: GraphDef,
    order: list[str],
    constraints: _Constraints,
    feeds: Collection[str],
    fetches: Collection[str],
    costs: CostModel | None,
) -> list[str]:
    differ = any(output_bytes(node, _BATCHES[0]) != output_bytes(node, _BATCHES[1]) for node in graph.node)
    views = [Lifetimes(graph, feeds, fetches, costs, unknown) for unknown in (_BATCHES if differ else _BATCHES[:1])]
    peaks, visits = [v.walk(order)[0] for v in views], 0
    for _ in range(_ROUNDS):
        if max(peaks) < _WORTH_BYTES:
            break
        better = None
        for view in views:
            for candidate in _candidates(view, order, constraints):
                found = [v.walk(candidate)[0] for v in views]
                visits += len(order) * len(views)
                if all(n <= p for n, p in zip(found, peaks)) and any(
                    n < p * (1 - _LEAST_GAIN) for n, p in zip(found, peaks)
                ):
                    better = candidate, found
                    break
                if visits > _MOST_VISITS:
                    return order
            if better is not None:
                break
        if better is None:
            break
        order, peaks = better
    return order


def _candidates(view: Lifetimes, order: list[str], constraints: _Constraints) -> Iterable[list[str]]:
    """Orders in which one of the largest tensors at the peak is made later: at the end, or where least is in use."""
    used: list[int] = []
    _, peak_at = view.walk(order, lambda position, in_use: used.append(in_use))
    last, made = view.last_uses(order), view.made_at(order)
    live = [b for b, at in made.items() if at <= peak_at <= last[b] and view.buffers[b].kind == ACTIVATION]
    live.sort(key=lambda b: -view.buffers[b].num_bytes)
    later = range(peak_at + 1, len(order))
    ends = dict.fromkeys([len(order) - 1, *([min(later, key=used.__getitem__)] if later else [])])
    for buffer in live[:_MOVED_TENSORS]:
        for end in ends:
            candidate = constraints.postponed(order, made[buffer], end)
            if candidate != order:
                yield candidate
