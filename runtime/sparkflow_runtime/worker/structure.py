"""A segment with control flow as native Python: a guard becomes an `if`, a loop a `while`, nothing is dispatched.

Switch, Identity, Enter, Exit and their like make no code at all: whoever reads them reads the value behind them. A
Merge is a variable that each branch assigns. Nodes are put in an order in which those with one guard stand together.
`Irregular` is raised on what has no such form; the general executor (worker/frames.py) runs that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count

import numpy as np

from sparkflow_runtime.kernels.accumulate import accumulating, postponing, settled
from sparkflow_runtime.kernels.registry import Kernel
from sparkflow_runtime.wire import control_flow as cf
from sparkflow_runtime.wire.control_flow import ALWAYS, Guard, Path
from sparkflow_runtime.wire.edges import KEPT_READ, data_inputs, is_control, node_name, parse
from sparkflow_runtime.wire.protos import NodeDef
from sparkflow_runtime.worker.codegen import WORTH_ROOM, Segment, with_room
from sparkflow_runtime.worker.emit import Block, If, Line, Loop, write
from sparkflow_runtime.worker.values import HANDS_ON, Irregular, Parts, Value, Values

_serial = count()
_MAX_DEPTH = 18  # Python nests no more than 20 loops
_MAX_INDENTS = 96  # and has no more than 100 levels of indentation


@dataclass
class _Item:
    """One statement to place: `emit(known)` makes it, once all of `needs` stand before it."""

    guard: Guard
    needs: frozenset[str]
    emit: Callable[[Guard], Block]


def compile_structured(parts: Parts) -> Segment:
    """Raises Irregular."""
    return _Structure(parts).compile()


class _Structure(Values):
    def __init__(self, parts: Parts):
        super().__init__(parts)
        self.names |= {"stopped": _stopped, "settled": settled}
        self.memo: dict[str, frozenset[str]] = {}
        self.items: dict[Path, dict[str, _Item]] = {}
        self.updating: dict[Path, bool] = {}

    def compile(self) -> Segment:
        self.postponed = self._find_postponed()
        self.waiting = {made.name for made in self.postponed.values()}
        for node in self.parts.nodes:
            if node.name not in self.waiting:  # whose call is part of the sum's
                self._add(node)
        prelude = [Line(f"V[{slot}] = DEAD") for slot in self._add_stores()]
        for path in sorted({p for p in map(self._level, self.parts.nodes) if p}, key=len, reverse=True):
            self._add_loop(path)
        body = self._schedule(list(self.items.get((), {})), (), ALWAYS)
        if self.parts.stop is not None:
            prelude.append(Line(f"stop = V[{self.parts.stop}]"))
        loads = [Line(f"{name} = V[{slot}]", defines=(name,)) for slot, name in self.loaded.items()]
        text = write("def run(V):", [*prelude, *loads, *body])
        if text.deepest > _MAX_INDENTS:
            raise Irregular(f"branches and loops nested {text.deepest} deep")
        filename = f"<sparkflow structured segment {next(_serial)}>"
        exec(compile("\n".join(text.lines), filename, "exec"), self.names)  # our own text: generated names only
        calls = WORTH_ROOM if any(self.items) else len(text.nodes)  # where a path is not (), it is a loop's
        return Segment(with_room(self.names["run"], calls), filename, text.nodes)

    # ------------------------------------------------------------------ items

    def _add(self, node: NodeDef) -> None:
        if cf.is_never(self.live.guards[node.name]) or self._hands_on(node) or self._is_loop_variable(node):
            return
        if node.op in cf.MERGE:
            self._add_merge(node)
            return
        level = self._level(node)
        needs = frozenset[str]().union(*(self._seen(level, p) for p in self.loops.producers(node)))
        if level and self._is_lazy(node, level):
            self.lazy.add(node.name)
        self._put(level, node.name, _Item(self.live.guards[node.name], needs, lambda _: [self._call(node)]))

    def _is_lazy(self, node: NodeDef, path: Path) -> bool:
        row = self.parts.kernels[node.name]
        if row.stateful or node.op in HANDS_ON or node.name not in self.used_nodes:
            return False
        return not self._is_updating(path) and all(self._is_invariant(e, path) for e in data_inputs(node))

    def _is_updating(self, path: Path) -> bool:
        """Whether a variable may change in a loop: what was read of it outside is its own memory, as in TensorFlow."""
        found = self.updating.get(path)
        if found is None:
            rows = (self.parts.kernels.get(n.name) for n in self.loops.whole(path))
            found = any(row is not None and row.refs and row.gives_variables for row in rows)
            self.updating[path] = found
        return found

    def _put(self, level: Path, key: str, item: _Item) -> None:
        self.items.setdefault(level, {})[key] = item

    def _call(self, node: NodeDef) -> Line:
        row, name = self.parts.kernels[node.name], f"t{self.own[node.name]}"
        values = [self._read(e, i not in row.refs) for i, e in enumerate(data_inputs(node))]
        if node.name in self.postponed:
            values[1:] = map(self._read, data_inputs(self.postponed[node.name]))
        if node.name in self.parts.numbers:
            values = [self._number(v) for v in values]
        uses = frozenset[str]().union(*(v.uses for v in values))
        is_bare = node.op in HANDS_ON and KEPT_READ not in node.attr
        text = "{}" if is_bare else self._function(node, row, name, len(values))
        text = text.format(*(v.text for v in values))
        if node.name not in self.used_nodes:
            return Line(text, node.name, (), uses)
        test = f"if {name} is None: " if node.name in self.lazy else ""
        return Line(f"{test}{name} = {text}", node.name, (name,), uses)

    def _function(self, node: NodeDef, row: Kernel, name: str, num_inputs: int) -> str:
        """The call as a format of its inputs."""
        path, made = self.loops.owner[node.name], self.postponed.get(node.name)
        special = None
        if made is not None:
            special = postponing(row, made.op, self.parts.function(made, self.parts.kernels[made.name]))
        elif path and self._is_sum(node, path):
            special = accumulating(row)
        function = self.parts.function(node, special or row)
        if isinstance(function, str):
            return function
        self.names[f"k{name}"] = function
        return f"k{name}({', '.join(['{}'] * num_inputs)})"

    def _add_merge(self, node: NodeDef) -> None:
        """An assignment for each input, in the branch where it is live; of several that are, the first stays."""
        level, name = self.loops.owner[node.name], f"t{self.own[node.name]}"
        data = data_inputs(node)
        guards = [self.live.of(e) for e in data]
        before = frozenset[str]().union(
            *(self._seen(level, self.loops.nodes[e[1:]]) for e in node.input if is_control(e))
        )
        if (f"?{node.name}:0", True) in self.live.guards[node.name]:
            start = Line(f"{name} = {name}i = DEAD", node.name, (name, f"{name}i"))
            self._put(level, f"{node.name}#", _Item(ALWAYS, frozenset(), lambda _: [start]))
            before |= {f"{node.name}#"}
        later: frozenset[str] = frozenset()
        exclusive = all(_exclude(a, b) for i, a in enumerate(guards) for b in guards[:i])
        for i in reversed(range(len(data))):
            if cf.is_never(guards[i]):
                continue
            needs = before | later
            if not self.loops.is_fed(data[i]):
                needs |= self._seen(level, self.loops.nodes[parse(data[i])[0]])
            key = f"{node.name}#{i}"
            self._put(level, key, _Item(guards[i], needs, partial(self._assign, node, name, i, data[i])))
            later = later if exclusive else later | {key}

    def _assign(self, node: NodeDef, name: str, index: int, e: str, known: Guard) -> Block:
        value = self._read(e, not node.op.startswith("Ref"))
        if f"{node.name}:1" not in self.used:
            return [Line(f"{name} = {value.text}", node.name, (name,), value.uses)]
        self.names[f"i{index}"] = np.int32(index)
        return [Line(f"{name} = {value.text}; {name}i = i{index}", node.name, (name, f"{name}i"), value.uses)]

    def _add_stores(self) -> list[int]:
        """The slots that must say so where nothing is stored."""
        dead = []
        for name, ports in self.parts.stores.items():
            node = self.loops.nodes[name]
            for slot, port in ports:
                guard = self.live.of(f"{name}:{port}")
                if guard:
                    dead.append(slot)
                if not cf.is_never(guard):
                    emit = partial(self._store, f"{name}:{port}", slot)
                    self._put((), f"{name}:{port}>", _Item(guard, self._seen((), node), emit))
        return dead

    def _store(self, e: str, slot: int, known: Guard) -> Block:
        value = self._value(e)
        return [Line(f"V[{slot}] = {value.text}", parse(e)[0], uses=value.uses)]

    def _seen(self, level: Path, producer: NodeDef) -> frozenset[str]:
        """The items of a level that must stand before whoever reads `producer` there."""
        if producer.name not in self.own or cf.is_constant(producer):
            return frozenset()
        path = self._level(producer)
        if path != level:
            return frozenset({_key(path[: len(level) + 1])}) if path[: len(level)] == level else frozenset()
        if producer.name not in self.memo:
            self.memo[producer.name] = self._find_seen(level, producer)
        return self.memo[producer.name]

    def _find_seen(self, level: Path, producer: NodeDef) -> frozenset[str]:
        if cf.is_never(self.live.guards[producer.name]) or self._is_loop_variable(producer):
            return frozenset()
        if producer.op in cf.MERGE:
            keys = [f"{producer.name}#", *(f"{producer.name}#{i}" for i in range(len(data_inputs(producer))))]
            return frozenset(k for k in keys if k in self.items.get(level, {}))
        if not self._hands_on(producer) and producer.name not in self.waiting:
            return frozenset({producer.name})
        return frozenset[str]().union(*(self._seen(level, p) for p in self.loops.producers(producer)))

    # ------------------------------------------------------------------ loops

    def _add_loop(self, path: Path) -> None:
        if len(path) > _MAX_DEPTH:
            raise Irregular(f"loops nested deeper than {_MAX_DEPTH}")
        outer, key = path[:-1], _key(path)
        needs = frozenset[str]().union(
            *(self._seen(outer, p) for n in self.loops.whole(path) for p in self.loops.producers(n))
        )
        guard = self.live.guards[self.live.conditions[path].name]
        if not cf.is_never(guard):
            self._put(outer, key, _Item(guard, needs - {key}, lambda known: self._loop(path, known | guard)))

    def _loop(self, path: Path, known: Guard) -> Block:
        condition = self.live.conditions[path]
        again = (f"{condition.name}:0", True)
        items = self.items.get(path, {})
        zones: dict[bool | None, list[str]] = {None: [], True: [], False: []}
        for key, item in items.items():
            zones[True if again in item.guard else False if (again[0], False) in item.guard else None].append(key)
        self._check_zones(path, items, zones)
        variables = [n for n in self.loops.members[path] if self._is_loop_variable(n)]
        test = self._test((again[0], True))
        inside = known | {again}
        body = self._schedule(zones[None], path, known)
        body += [Line("if stop: stopped(stop)", condition.name)]
        body += [Line(f"if not {test.text}: break", condition.name, uses=test.uses)]
        body += self._schedule(zones[True], path, inside)
        body += self._carry(variables)
        after = self._schedule(zones[False], path, known | {(again[0], False)})
        lazy = [f"t{self.own[key]}" for key in items if key in self.lazy]
        unset = [Line(f"{' = '.join(lazy)} = None", defines=tuple(lazy))] if lazy else []
        return [*unset, *map(self._begin, variables), Loop(body), *self._settle(variables), *after]

    def _settle(self, variables: Sequence[NodeDef]) -> Block:
        """What is left to be done for the sums that these are."""
        sums = {f"t{self.own[name]}": name for name in self.postponed}
        block: Block = []
        for variable in variables:
            made = self._value(self._split(variable)[1]).text
            if made in sums:
                name = f"t{self.own[variable.name]}"
                block.append(Line(f"{name} = settled({name})", sums[made], (name,), frozenset({name})))
        return block

    def _check_zones(self, path: Path, items: dict[str, _Item], zones: dict[bool | None, list[str]]) -> None:
        """What is computed before the condition must not need what comes after it."""
        late = {*zones[True], *zones[False]}
        for key in zones[None]:
            if not late.isdisjoint(items[key].needs):
                raise Irregular(f"{key!r} of loop {'/'.join(path)!r} needs what follows the loop's condition")
        for key in zones[True]:
            if not {*zones[False]}.isdisjoint(items[key].needs):
                raise Irregular(f"{key!r} of loop {'/'.join(path)!r} needs what follows the loop")

    def _split(self, variable: NodeDef) -> tuple[str, str]:
        """The edges by which a loop variable begins and goes on."""
        first, second = variable.input
        if cf.is_back_edge(variable, self.loops.nodes[node_name(first)]):
            return second, first
        return first, second

    def _begin(self, variable: NodeDef) -> Line:
        name = f"t{self.own[variable.name]}"
        value = self._read(self._split(variable)[0], not variable.op.startswith("Ref"))
        if f"{variable.name}:1" not in self.used:
            return Line(f"{name} = {value.text}", variable.name, (name,), value.uses)
        self.names |= {"i0": np.int32(0), "i1": np.int32(1)}
        at = [cf.is_back_edge(variable, self.loops.nodes[node_name(e)]) for e in variable.input].index(False)
        return Line(f"{name} = {value.text}; {name}i = i{at}", variable.name, (name, f"{name}i"), value.uses)

    def _carry(self, variables: Sequence[NodeDef]) -> Block:
        targets, values = [], []
        for variable in variables:
            e = self._split(variable)[1]
            targets.append(f"t{self.own[variable.name]}")
            values.append(self._read(e, not variable.op.startswith("Ref")))
            if f"{variable.name}:1" in self.used:
                targets.append(f"{targets[-1]}i")
                values.append(Value(f"i{list(variable.input).index(e)}"))
        moved = [(t, v) for t, v in zip(targets, values, strict=True) if t != v.text]
        if not moved:
            return []
        uses = frozenset[str]().union(*(v.uses for _, v in moved))
        text = f"{', '.join(t for t, _ in moved)} = {', '.join(v.text for _, v in moved)}"
        return [Line(text, variables[0].name, tuple(t for t, _ in moved), uses)]

    # ------------------------------------------------------------------ order

    def _schedule(self, keys: Sequence[str], level: Path, known: Guard) -> Block:
        """Statements for these items: whatever may run now, then one branch with all that may join it, and so on."""
        items = self.items.get(level, {})
        queue = _Queue(_ordered(keys, items), items)
        block: Block = []
        branches: dict[str, list[str]] = {}  # predicate -> items that may run where it holds or does not
        while queue.ready or branches:
            while queue.ready:
                key = queue.pop()
                rest = items[key].guard - known
                if rest:
                    branches.setdefault(self._outermost(rest), []).append(key)
                else:
                    block += items[key].emit(known)
                    queue.done(key)
            if branches:
                predicate = next(iter(branches))
                block.append(self._branch(predicate, branches.pop(predicate), queue, level, known))
        return block

    def _outermost(self, guard: Guard) -> str:
        return cf.sorted_guard(guard, self.position)[0][0]

    def _branch(self, predicate: str, first: list[str], queue: _Queue, level: Path, known: Guard) -> If:
        """These items, and those that need nothing else before them and are guarded by the same predicate."""
        if len(known) >= _MAX_INDENTS:
            raise Irregular(f"branches nested deeper than {_MAX_INDENTS}")
        items = self.items[level]
        sides: dict[bool, list[str]] = {True: [], False: []}
        group, others = first, list[str]()
        while group:
            for key in group:
                sides[(predicate, True) in items[key].guard - known].append(key)
                queue.done(key)
            group = []
            while queue.ready:
                key = queue.pop()
                rest = items[key].guard - known
                (group if rest and self._outermost(rest) == predicate else others).append(key)
        queue.push(others)
        atom = (predicate, True)
        test = self._test(atom)
        then, other = (self._schedule(sides[s], level, known | {(predicate, s)}) for s in (True, False))
        return If(test.text if " " not in test.text else f"({test.text})", test.uses, then, other, node_name(first[0]))


class _Queue:
    """Items whose needs are done, the first of the given order first."""

    def __init__(self, order: Sequence[str], items: dict[str, _Item]):
        self._order, self._rank = order, {key: i for i, key in enumerate(order)}
        self._waits = {key: len(items[key].needs & self._rank.keys()) for key in order}
        self._after: dict[str, list[str]] = {}
        for key in order:
            for need in items[key].needs & self._rank.keys():
                self._after.setdefault(need, []).append(key)
        self.ready = [self._rank[key] for key in order if not self._waits[key]]  # sorted, so a heap

    def pop(self) -> str:
        return self._order[heappop(self.ready)]

    def push(self, keys: Iterable[str]) -> None:
        for key in keys:
            heappush(self.ready, self._rank[key])

    def done(self, key: str) -> None:
        for later in self._after.get(key, ()):
            self._waits[later] -= 1
            if not self._waits[later]:
                heappush(self.ready, self._rank[later])


def _ordered(keys: Sequence[str], items: dict[str, _Item]) -> Sequence[str]:
    """Items were added loops last: once more, producers first."""
    wanted = dict.fromkeys(keys)
    placed: dict[str, None] = {}
    stack = list(reversed(keys))
    while stack:
        key = stack[-1]
        waits = [k for k in items[key].needs if k in wanted and k not in placed] if key not in placed else []
        if waits:
            stack += waits
        else:
            placed[stack.pop()] = None
    return list(placed)


def _key(path: Path) -> str:
    return "/".join(path) + " "  # no node name holds a space


def _exclude(a: Guard, b: Guard) -> bool:
    return any((name, not sign) in b for name, sign in a)


def _stopped(stop: Iterable[BaseException]) -> None:
    for error in stop:
        raise error
