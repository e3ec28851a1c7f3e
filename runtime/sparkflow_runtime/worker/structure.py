"""A segment with control flow as native Python: a guard becomes an `if`, a loop a `while`, nothing is dispatched.

Switch, Identity, Enter, Exit and their like make no code at all: whoever reads them reads the value behind them. A
Merge is a variable that each branch assigns. Nodes are put in an order in which those with one guard stand together.
`Irregular` is raised on what has no such form; the general executor (worker/frames.py) runs that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.control_flow import truth
from sparkflow_runtime.kernels.registry import Kernel
from sparkflow_runtime.wire import control_flow as cf
from sparkflow_runtime.wire.control_flow import ALWAYS, DEAD, Atom, Guard, Liveness, Path
from sparkflow_runtime.wire.edges import data_inputs, is_control, node_name, parse
from sparkflow_runtime.wire.protos import NodeDef
from sparkflow_runtime.worker.codegen import Segment, read
from sparkflow_runtime.worker.emit import Block, If, Line, Loop, write

_serial = count()
_HANDS_ON = {"Identity", "StopGradient", "PreventGradient", "Switch", "Enter", "Exit", "NextIteration", cf.LOOP_COND}
_HANDS_ON |= {"RefIdentity", "RefSwitch", "RefEnter", "RefExit", "RefNextIteration"}
_DOES_NOTHING = {"NoOp", cf.TRIGGER}
_MAX_DEPTH = 18  # Python nests no more than 20 loops


class Irregular(Exception):
    """Why this control flow has no native form."""


@dataclass
class Parts:
    """What the plan's compiler knows of the segment. A tensor that another unit makes, or a feed, is in a slot."""

    live: Liveness
    nodes: Sequence[NodeDef]  # of this segment, producers first
    kernels: dict[str, Kernel]
    function: Callable[[NodeDef], Callable[..., Any]]
    where: Callable[[str], tuple[int | None, Any]]  # of a tensor from elsewhere: (slot or None, constant)
    constants: dict[str, Any]  # Const node -> value, with control inputs or without
    stores: dict[str, list[tuple[int, int]]]  # node -> (slot, port) that outlive the segment
    stop: int | None  # the slot whose list is not empty once the step is cancelled


@dataclass
class _Item:
    """One statement to place: `emit(known)` makes it, once all of `needs` stand before it."""

    guard: Guard
    needs: frozenset[str]
    emit: Callable[[Guard], Block]


@dataclass(frozen=True)
class _Value:
    text: str
    uses: frozenset[str] = frozenset()


def compile_structured(parts: Parts) -> Segment:
    """Raises Irregular."""
    return _Structure(parts).compile()


class _Structure:
    def __init__(self, parts: Parts):
        self.parts, self.live, self.loops = parts, parts.live, parts.live.loops
        self.own = {n.name: i for i, n in enumerate(parts.nodes)}
        self.position = {n.name: i for i, n in enumerate(self.loops.order)}
        self.names: dict[str, Any] = {"read": read, "truth": truth, "DEAD": DEAD, "stopped": _stopped}
        self.loaded: dict[int, str] = {}  # slot -> local name
        self.memo: dict[str, frozenset[str]] = {}
        self.used = self._used_tensors()
        self.used_nodes = {parse(t)[0] for t in self.used}
        self.items: dict[Path, dict[str, _Item]] = {}

    def compile(self) -> Segment:
        for node in self.parts.nodes:
            self._add(node)
        prelude = [Line(f"V[{slot}] = DEAD") for slot in self._add_stores()]
        for path in sorted({p for p in map(self._level, self.parts.nodes) if p}, key=len, reverse=True):
            self._add_loop(path)
        body = self._schedule(list(self.items.get((), {})), (), ALWAYS)
        if self.parts.stop is not None:
            prelude.append(Line(f"stop = V[{self.parts.stop}]"))
        loads = [Line(f"{name} = V[{slot}]", defines=(name,)) for slot, name in self.loaded.items()]
        text = write("def run(V):", [*prelude, *loads, *body])
        filename = f"<sparkflow structured segment {next(_serial)}>"
        exec(compile("\n".join(text.lines), filename, "exec"), self.names)  # our own text: generated names only
        return Segment(self.names["run"], filename, text.nodes)

    # ------------------------------------------------------------------ what a node is

    def _used_tensors(self) -> set[str]:
        used = {"{}:{}".format(*parse(e)) for n in self.parts.nodes for e in data_inputs(n)}
        return used | {f"{name}:{port}" for name, ports in self.parts.stores.items() for _, port in ports}

    def _is_own(self, e: str) -> bool:
        return node_name(e) in self.own and not self.loops.is_fed(e)

    def _hands_on(self, node: NodeDef) -> bool:
        """A node that makes no code. One that reads a variable does, as the value is that of this moment."""
        if node.op in _DOES_NOTHING or node.name in self.parts.constants:
            return True
        return node.op in _HANDS_ON and (node.op.startswith("Ref") or not self._is_reference(node.input[0]))

    def _is_reference(self, e: str) -> bool:
        """Whether the edge may carry a variable itself."""
        if self.loops.is_fed(e):
            return False
        node = self.loops.nodes[parse(e)[0]]
        if node.op in _HANDS_ON or node.op in cf.MERGE:
            return node.op.startswith("Ref")
        row = self.parts.kernels.get(node.name)
        return row is not None and row.stateful and not row.plain

    def _is_loop_variable(self, node: NodeDef) -> bool:
        return node.op in cf.MERGE and any(
            cf.is_back_edge(node, self.loops.nodes[node_name(e)]) for e in node.input if not self.loops.is_fed(e)
        )

    def _level(self, node: NodeDef) -> Path:
        """The frame in which a node's code stands: what an Enter or Exit reads of a variable, it reads outside."""
        path = self.loops.owner[node.name]
        return path[:-1] if node.op in cf.ENTER | cf.EXIT and not self._hands_on(node) else path

    # ------------------------------------------------------------------ values

    def _value(self, e: str) -> _Value:
        while True:
            if not self._is_own(e):
                return self._from_elsewhere(e)
            node = self.loops.nodes[parse(e)[0]]
            if node.name in self.parts.constants:
                return self._constant(node.name, self.parts.constants[node.name])
            if not self._hands_on(node):
                break
            e = node.input[0]
        name, port = f"t{self.own[node.name]}", parse(e)[1]
        if node.op in cf.MERGE:
            name += "i" if port else ""
            return _Value(name, frozenset({name}))
        row = self.parts.kernels[node.name]
        return _Value(f"{name}[{port}]" if row.multi else name, frozenset({name}))

    def _from_elsewhere(self, e: str) -> _Value:
        slot, constant = self.parts.where(e)
        if slot is None:
            return self._constant(parse(e)[0], constant)
        name = self.loaded.setdefault(slot, f"v{slot}")
        return _Value(name, frozenset({name}))

    def _constant(self, node: str, value: Any) -> _Value:
        name = f"c{self.position[node]}"
        self.names[name] = value
        return _Value(name)

    def _read(self, e: str, deref: bool = True) -> _Value:
        value = self._value(e)
        return _Value(f"read({value.text})", value.uses) if deref and self._is_reference(e) else value

    def _test(self, atom: Atom, *, check: bool = True) -> _Value:
        """The predicate as an expression that is true when the atom's positive form holds."""
        if atom[0].startswith("?"):
            value = self._value(atom[0][1:])
            return _Value(f"{value.text} is not DEAD", value.uses)
        value = self._read(atom[0])
        return _Value(f"truth({value.text})" if check else value.text, value.uses)

    # ------------------------------------------------------------------ items

    def _add(self, node: NodeDef) -> None:
        if cf.is_never(self.live.guards[node.name]) or self._hands_on(node) or self._is_loop_variable(node):
            return
        if node.op in cf.MERGE:
            self._add_merge(node)
            return
        level = self._level(node)
        needs = frozenset[str]().union(*(self._seen(level, p) for p in self.loops.producers(node)))
        self._put(level, node.name, _Item(self.live.guards[node.name], needs, lambda _: [self._call(node)]))

    def _put(self, level: Path, key: str, item: _Item) -> None:
        self.items.setdefault(level, {})[key] = item

    def _call(self, node: NodeDef) -> Line:
        row, name = self.parts.kernels[node.name], f"t{self.own[node.name]}"
        if node.op in _HANDS_ON:
            values, text = [self._read(node.input[0])], "{}"
        else:
            values = [self._read(e, i not in row.refs) for i, e in enumerate(data_inputs(node))]
            function = self.parts.function(node)
            text = function if isinstance(function, str) else f"k{name}({', '.join(['{}'] * len(values))})"
            self.names[f"k{name}"] = function
        text = text.format(*(v.text for v in values))
        keep = node.name in self.used_nodes
        uses = frozenset[str]().union(*(v.uses for v in values))
        return Line(f"{name} = {text}" if keep else text, node.name, (name,) if keep else (), uses)

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
        if not self._hands_on(producer):
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
        return [*map(self._begin, variables), Loop(body), *after]

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
                values.append(_Value(f"i{list(variable.input).index(e)}"))
        moved = [(t, v) for t, v in zip(targets, values, strict=True) if t != v.text]
        if not moved:
            return []
        uses = frozenset[str]().union(*(v.uses for _, v in moved))
        text = f"{', '.join(t for t, _ in moved)} = {', '.join(v.text for _, v in moved)}"
        return [Line(text, variables[0].name, tuple(t for t, _ in moved), uses)]

    # ------------------------------------------------------------------ order

    def _schedule(self, keys: Sequence[str], level: Path, known: Guard) -> Block:
        """Statements for these items (producers first): whatever may run now, then one branch, and so on."""
        items, left = self.items.get(level, {}), dict.fromkeys(_ordered(keys, self.items.get(level, {})))
        block: Block = []
        while left:
            for key in list(left):
                if items[key].guard <= known and left.keys().isdisjoint(items[key].needs):
                    block += items[key].emit(known)
                    del left[key]
            if left:
                block.append(self._branch(left, items, level, known))
        return block

    def _branch(self, left: dict[str, None], items: dict[str, _Item], level: Path, known: Guard) -> If:
        """Takes from `left` all that the first item's outermost predicate guards, and that need not wait."""
        first = next(key for key in left if left.keys().isdisjoint(items[key].needs))
        atom = cf.sorted_guard(items[first].guard - known, self.position)[0]
        sides: dict[bool, list[str]] = {True: [], False: []}
        for key in list(left):
            rest = items[key].guard - known
            if {(atom[0], True), (atom[0], False)}.isdisjoint(rest):
                continue
            if left.keys().isdisjoint(items[key].needs - {*sides[True], *sides[False]}):
                sides[(atom[0], True) in rest].append(key)
        for key in (*sides[True], *sides[False]):
            del left[key]
        test = self._test(atom)
        then, other = (self._schedule(sides[s], level, known | {(atom[0], s)}) for s in (True, False))
        return If(test.text if " " not in test.text else f"({test.text})", test.uses, then, other, node_name(first))


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
