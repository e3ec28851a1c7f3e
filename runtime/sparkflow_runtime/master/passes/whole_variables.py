"""What is computed of a whole variable of another task is computed there, where less travels so.

A penalty such as `tf.nn.l2_loss(table)` is a worker's node, as the whole model is: the table would travel there in
every step, and its gradient, which the penalty makes dense, would travel back. The loss, the products of its gradient
and the sum with the rows' gradients go to the variable's task instead; one number comes back, and the rows that the
batch named go there. The same holds for histograms of variables, sums of their absolute values, and norms of gradients.

Nodes that large tensors join are looked at together. Which of them move is a least cut: between what has to be with the
variable and what has to be with the reader, so that what crosses has the fewest bytes. Only what takes little time for
each of its bytes moves, and nothing that comes after an update of a variable that it reads: what would have been sent
before the update is computed before it. A view that moves is the variable's own memory: the update waits for all who
take it, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import NamedTuple

from sparkflow_runtime.kernels import registry
from sparkflow_runtime.master.passes.fuse import ELEMENTWISE
from sparkflow_runtime.master.passes.regions import Regions
from sparkflow_runtime.wire.devices import on_cpu, task_of
from sparkflow_runtime.wire.edges import CARRIED, data_inputs, edge, is_control, node_name, parse, topological
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from sparkflow_runtime.wire.sizes import item_bytes, output_bytes, static_shape

LEAST_BYTES = 1 << 16  # of a tensor that is large, and of what a move must spare
_OPEN = 1024  # what an open dimension counts as: the rows of a large batch
_PUSHES = frozenset(["AccumulatorApplyGradient", "ResourceAccumulatorApplyGradient"])
_VARIABLES = frozenset(["VariableV2", "Variable"])
_REDUCTIONS = "L2Loss Sum Mean Max Min Prod All Any EuclideanNorm Shape Size Rank HistogramSummary".split()  # noqa: SIM905
_LAID_OUT = (
    "Reshape ExpandDims Squeeze Fill BroadcastTo Tile Slice StridedSlice StridedSliceGrad ConcatV2 Pad Transpose"
)
_OTHERS = "Const Identity Cast IsNan IsInf IsFinite _Fused GatherV2 UnsortedSegmentSum".split()  # noqa: SIM905
_INTO = ("Switch", "RefSwitch", "Enter", "RefEnter")  # into branches and loops
_ITEM_BY_ITEM = ("Apply", "Assign")  # updates that may take their variable's own memory
_MOVABLE = ELEMENTWISE | {*_REDUCTIONS, *_LAID_OUT.split(), *_OTHERS}


def whole_variables(graph: GraphDef, feeds: Collection[str] = (), kept: Collection[str] = ()) -> GraphDef:
    """A placed graph, the same values and effects. kept: nodes that are fetched or run by name."""
    if not _may_gain(graph):
        return graph
    return _Mover(Regions(graph, feeds), {*kept, *map(node_name, feeds)}).moved()


def _may_gain(graph: GraphDef) -> bool:
    """A glance: whether what might move reads a large variable whole at another task."""
    variables = (n for n in graph.node if n.op in _VARIABLES)
    homes = {n.name: n.device for n in variables if max(output_bytes(n), default=0) >= LEAST_BYTES}
    if not homes:
        return False
    homes |= {n.name: n.device for n in graph.node if n.op == "Identity" and node_name(n.input[0]) in homes}
    for node in graph.node:
        if node.op in _MOVABLE:
            for e in node.input:
                home = homes.get(e)
                if home is not None and home != node.device and task_of(home) != task_of(node.device):
                    return True
    return False


class _Tensor(NamedTuple):
    """What travels when its producer and one who takes it are at different tasks."""

    source: str
    takers: set[str]  # of those that may move
    others: set[str]  # the tasks of the others
    size: int


class _Mover:
    def __init__(self, regions: Regions, taboo: set[str]):
        self._regions, self._nodes, self._taboo = regions, regions.nodes, taboo
        self._task = {name: task_of(node.device) for name, node in self._nodes.items()}
        self._contexts = regions.contexts()
        self._users: dict[str, dict[str, dict[str, None]]] = {}  # node -> its outputs -> the nodes that take each
        self._tasks: dict[str, Counter[str]] = {}  # output -> how many nodes of each task take it
        self._bytes: dict[str, int] = {}
        self._large: dict[str, bool] = {}

    def moved(self) -> GraphDef:
        self._memory = self._whose_memory()
        self._variables = self._read_elsewhere()
        movable = set(filter(self._may_move, self._nodes))
        self._writers, self._pushes = self._updates(movable)
        self._update_nodes = {u for of in (*self._writers.values(), *self._pushes.values()) for u in of}
        self._late = self._regions.levels(self._update_nodes.__contains__)
        movable = {name for name in movable if not self._late[name]}
        homes: dict[str, str] = {}
        before: dict[str, dict[str, None]] = defaultdict(dict)  # an update -> the nodes that it must wait for
        for together in self._components(movable):
            home = self._home(together)
            cut = self._cut(together, home) if home else []
            order = list(self._order(together, cut, home))
            if all(self._may_wait(update, node) for node, update in order):
                homes.update(dict.fromkeys(cut, home))
                for node, update in order:
                    before[update][node] = None
        if not homes:
            return self._regions.graph
        bits = {name: 1 << i for i, name in enumerate(dict.fromkeys(n for nodes in before.values() for n in nodes))}
        after = self._regions.after(bits)  # an update that comes of what it must wait for does so anyway
        waits = {update: [n for n in nodes if not after[update] & bits[n]] for update, nodes in before.items()}
        return self._rewritten(homes, waits)

    # ------------------------------------------------------------------ what is there

    def _whose_memory(self) -> dict[str, frozenset[str]]:
        """Node -> the variables, of any size, whose own memory it may give where it is at their task."""
        found = {name: frozenset([name]) for name, node in self._nodes.items() if node.op in _VARIABLES}
        for name in self._regions.order:
            node = self._nodes[name]
            if any(row is not None and row.aliases for row in registry.rows(node.op)):
                given = [node_name(e) for e in data_inputs(node) if not self._regions.is_fed(e)]
                if of := frozenset[str]().union(*(found.get(source, ()) for source in given)):
                    found[name] = of
        return found

    def _read_elsewhere(self) -> dict[str, str]:
        """Nodes that give the whole of a large variable -> that variable."""
        found = {n: n for n, node in self._nodes.items() if node.op in _VARIABLES and self._is_large(edge(n, 0))}
        for name in self._regions.order:
            node = self._nodes[name]
            if node.op == "Identity" and node_name(node.input[0]) in found and not self._regions.is_fed(node.input[0]):
                found[name] = found[node_name(node.input[0])]
        return found

    def _updates(self, movable: set[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Variable that any of these may read -> the nodes that change it; node -> the accumulators' ops that take it
        for a gradient, which another step will change the variable by."""
        sources = {node_name(e) for name in movable for e in data_inputs(self._nodes[name])}
        read = frozenset[str]().union(*(self._memory.get(source, ()) for source in sources))
        writers: dict[str, list[str]] = defaultdict(list)
        pushes: dict[str, list[str]] = defaultdict(list)
        for name, node in self._nodes.items():
            given = data_inputs(node)
            for i in registry.ref_positions(node.op) if registry.is_stateful(node.op) else ():
                for variable in self._memory.get(node_name(given[i]), frozenset()) & read if i < len(given) else ():
                    writers[variable].append(name)
            if node.op in _PUSHES:
                pushes[node_name(given[2])].append(name)
        return writers, pushes

    def _may_move(self, name: str) -> bool:
        node = self._nodes[name]
        if node.op not in _MOVABLE or name in self._taboo or self._contexts[name] or not on_cpu(node.device):
            return False
        if CARRIED in node.attr or (name in self._variables and self._at_home(name)):
            return False
        return any(map(self._is_large, (edge(name, 0), *data_inputs(node))))

    def _at_home(self, name: str) -> bool:
        return self._task[name] == self._task[self._variables[name]]

    def _is_large(self, e: str) -> bool:
        """Whether a data edge is known to carry many bytes."""
        if e not in self._large:
            shape = None if self._regions.is_fed(e) else static_shape(self._nodes, e)
            self._large[e] = shape is not None and None not in shape and self._size(e) >= LEAST_BYTES
        return self._large[e]

    def _size(self, e: str) -> int:
        name, port = parse(e)
        sizes = output_bytes(self._nodes[name], _OPEN)
        return sizes[port] if port < len(sizes) else item_bytes(self._nodes[name])

    def _crossing(self, e: str) -> int:
        """Bytes of an edge between tasks: of rows that are looked up, or summed by their ids, the distinct ones travel
        (distinct_rows.py), which are no more than the table has."""
        if e not in self._bytes:
            source, size = self._nodes[node_name(e)], self._size(e)
            if source.op == "GatherV2" and not self._regions.is_fed(source.input[0]):
                size = min(size, self._size(source.input[0]))
            sums = [self._nodes[taker] for taker in self._takers(source.name).get(e, ())]
            if all(n.op == "UnsortedSegmentSum" and edge(*parse(n.input[0])) == e for n in sums):
                size = min((size, *(self._size(n.name) for n in sums)))
            self._bytes[e] = size
        return self._bytes[e]

    def _takers(self, name: str) -> dict[str, dict[str, None]]:
        """Each output of a node that somebody takes: the nodes that do."""
        if name not in self._users:
            found: dict[str, dict[str, None]] = defaultdict(dict)
            for consumer, e in self._regions.consumers[name]:
                if not is_control(e):
                    found[edge(*parse(e))][consumer.name] = None
            self._users[name] = found
        return self._users[name]

    def _tasks_of(self, e: str) -> Counter[str]:
        if e not in self._tasks:
            self._tasks[e] = Counter(self._task[taker] for taker in self._takers(node_name(e)).get(e, ()))
        return self._tasks[e]

    def _components(self, movable: set[str]) -> Iterator[list[str]]:
        """Movable nodes of one task that large tensors join, directly or as two that take the same."""
        left, looked_at = set(movable), set[tuple[str, str]]()
        for first in self._regions.order:
            if first not in left:
                continue
            left.discard(first)
            task, found, todo = self._task[first], [], [first]
            while todo:
                found.append(todo.pop())
                for e in self._large_beside(found[-1]):
                    if (task, e) in looked_at:
                        continue
                    looked_at.add((task, e))
                    for other in (node_name(e), *self._takers(node_name(e)).get(e, ())):
                        if other in left and self._task[other] == task:
                            left.discard(other)
                            todo.append(other)
            yield found

    def _large_beside(self, name: str) -> Iterator[str]:
        """The large tensors that it takes and makes."""
        yield from (edge(*parse(e)) for e in data_inputs(self._nodes[name]) if self._is_large(e))
        yield from (e for e in self._takers(name) if self._is_large(e))

    def _home(self, together: list[str]) -> str:
        """The other task with the most bytes of large variables that these read, and of updates that they make; ""
        where there is none."""
        own, sizes = self._task[together[0]], defaultdict[str, int](int)
        for e in {edge(*parse(e)) for name in together for e in data_inputs(self._nodes[name])}:
            if not self._regions.is_fed(e) and node_name(e) in self._variables:
                sizes[self._task[self._variables[node_name(e)]]] += self._size(e)
        for name in together:
            for e, takers in self._takers(name).items():
                if self._is_large(e):
                    for task in {self._task[taker] for taker in takers if taker in self._update_nodes}:
                        sizes[task] += self._size(e)
        sizes.pop(own, None)
        return max(sizes, key=lambda task: (sizes[task], task), default="")

    # ------------------------------------------------------------------ what moves

    def _tensors(self, together: list[str]) -> Iterator[_Tensor]:
        """What these take and make, but for small constants, of which each task has its own, and what is fed."""
        taken: dict[str, set[str]] = {e: set() for name in together for e in self._takers(name)}
        for name in together:
            for e in data_inputs(self._nodes[name]):
                taken.setdefault(edge(*parse(e)), set()).add(name)
        own = self._task[together[0]]
        for e, takers in sorted(taken.items()):
            source = node_name(e)
            if not self._regions.is_fed(e) and (self._nodes[source].op != "Const" or self._is_large(e)):
                others = {task for task, count in self._tasks_of(e).items() if task != own or count > len(takers)}
                yield _Tensor(source, takers, others, self._crossing(e))

    def _cut(self, together: list[str], home: str) -> list[str]:
        """Those of them that are better off at `home`; none where that would spare little."""
        free, reader = set(together), self._task[together[0]]
        flow, now = _Flow(), 0
        for number, tensor in enumerate(self._tensors(together)):
            begins = self._task[tensor.source]
            source = tensor.source if tensor.source in free else begins
            others = {home if task == home else reader for task in tensor.others}
            if begins not in (home, reader) or (tensor.source not in free and others - {begins}):
                continue  # it travels whatever moves
            now += tensor.size if tensor.others - {begins} or (tensor.takers and begins != reader) else 0
            flow.add(source, tensor.takers | others, tensor.size, number)
        spared = now - flow.least(home, reader)
        return [name for name in flow.first(home) if name in free] if spared >= LEAST_BYTES else []

    def _order(self, together: list[str], cut: list[str], home: str) -> Iterator[tuple[str, str]]:
        """(a node that is to read a variable at its home, an update that must not come first)."""
        pushes = [push for name in together for push in self._pushes.get(name, ()) if self._task[push] == home]
        here = {*cut, *(name for name in self._memory if self._task[name] == home)}
        for name in cut:
            sources = [n for e in data_inputs(self._nodes[name]) if (n := node_name(e)) in here]
            read = {v for n in sources for v in self._memory.get(n, ()) if self._task[v] == home}
            updates = [w for v in sorted(read) for w in self._writers.get(v, ())]
            readers = [name, *self._lookers(name, {*cut}, home)] if updates + pushes and read else []
            for update in dict.fromkeys(updates + pushes):
                yield from ((n, update) for n in readers if n != update or not self._is_item_by_item(n))

    def _lookers(self, view: str, cut: set[str], home: str) -> Iterator[str]:
        """The nodes that do not move and take what is now a variable's memory at its home, or what shows it there."""
        seen, todo = {view}, [view]
        while todo:
            name = todo.pop()
            if any(self._task[v] == home for v in self._memory.get(name, ())):
                new = {taker for takers in self._takers(name).values() for taker in takers} - cut - seen
                yield from sorted(new)
                seen |= new
                todo.extend(n for n in sorted(new) if self._task[n] == home)

    def _is_item_by_item(self, name: str) -> bool:
        return name not in self._update_nodes or self._nodes[name].op.startswith(_ITEM_BY_ITEM)

    def _may_wait(self, update: str, node: str) -> bool:
        """Whether the node always runs and comes after no update, and a queue or the like that it waits for cannot be
        waiting for this one."""
        if self._late[node] or self._contexts[node] or self._nodes[node].op in _INTO:
            return False
        return not self._waits[node] or self._comes_after(update, node)

    @cached_property
    def _waits(self) -> dict[str, int]:
        return self._regions.levels(lambda name: registry.is_asynchronous(self._nodes[name].op))

    def _comes_after(self, late: str, early: str) -> bool:
        seen, todo = {early}, deque([early])
        while todo and late not in seen:
            new = {consumer.name for consumer, _ in self._regions.consumers[todo.popleft()]} - seen
            seen |= new
            todo.extend(new)
        return late in seen

    def _rewritten(self, homes: dict[str, str], before: dict[str, list[str]]) -> GraphDef:
        nodes = []
        for node in self._regions.graph.node:
            if node.name in homes or node.name in before:
                copy = NodeDef()
                copy.CopyFrom(node)
                if node.name in homes:
                    copy.device = f"{homes[node.name]}/device:CPU:0"
                    copy.attr.pop("_class", None)
                given = {node_name(e) for e in node.input}
                copy.input.extend(f"^{name}" for name in before.get(node.name, ()) if name not in given)
                node = copy
            nodes.append(node)
        return NodeList(topological(nodes, self._regions.feeds), self._regions.graph.versions)


class _Flow:
    """The least cut between two places of what travels: by the most that can flow from one to the other."""

    def __init__(self) -> None:
        self._room: dict[object, dict[object, float]] = defaultdict(dict)

    def add(self, source: str, takers: set[str], size: int, number: int) -> None:
        """A tensor: it costs its size once where the source and any taker are apart."""
        there, back = ("to", number), ("from", number)
        self._widen(source, there, size)
        self._widen(back, source, size)
        for taker in takers:
            self._widen(there, taker, float("inf"))
            self._widen(taker, back, float("inf"))

    def _widen(self, a: object, b: object, size: float) -> None:
        self._room[a][b] = self._room[a].get(b, 0) + size
        self._room[b].setdefault(a, 0)

    def least(self, begin: str, end: str) -> float:
        total = 0.0
        while (before := self._reached(begin)).get(end) is not None:
            path, at = [], end
            while at != begin:
                path.append((before[at], at))
                at = before[at]  # type: ignore[assignment]
            size = min(self._room[a][b] for a, b in path)
            for a, b in path:
                self._room[a][b] -= size
                self._room[b][a] += size
            total += size
        return total

    def first(self, begin: str) -> list[str]:
        """The nodes on the side of `begin`, as few as may be; after `least`."""
        return [at for at in self._reached(begin) if isinstance(at, str) and at != begin]

    def _reached(self, begin: str) -> dict[object, object]:
        """What there is room to flow to -> where from."""
        before: dict[object, object] = {begin: begin}
        left = deque([begin])
        while left:
            a = left.popleft()
            for b, room in self._room[a].items():
                if room > 0 and b not in before:
                    before[b] = a
                    left.append(b)  # type: ignore[arg-type]
        return before
