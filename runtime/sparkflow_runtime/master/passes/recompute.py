"""Recomputation: activations are computed again for the gradients instead of being kept for them.

A forward node whose value gradients need keeps it through most of the step. Here the gradients get a copy of the node,
`Recomputed/<name>`, that waits for the gradient which its first consumer waits for as well; the first value then dies
with its last forward use. Only the order of work changes, so the bits stay.

Which nodes: those that bear the attribute `_recompute_hint`, and, if the heuristic is asked for, connected regions of
cheap ops where that saves more than it keeps: the inputs of a region have to live until it is computed again. A long
chain of cheap ops is cut at every sqrt(n)-th of its n nodes, which keeps its value: sqrt(n) kept and sqrt(n) computed
again at a time. Nothing with an effect or with random numbers is ever computed twice, nor what reads a variable that
may have changed since. Source of the idea: Chen et al., Training Deep Nets with Sublinear Memory Cost (2016).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isqrt
from typing import NamedTuple

from sparkflow_runtime.master.passes.settings import Settings
from sparkflow_runtime.master.passes.symbols import words
from sparkflow_runtime.master.passes.view import Op, View, producer
from sparkflow_runtime.wire.protos import NodeDef
from sparkflow_runtime.wire.sizes import output_bytes

CHEAP = words(
    "Abs Add AddN AddV2 BiasAdd Cast Elu Exp Expm1 Fill FloorDiv FloorMod LeakyRelu Log Log1p Maximum Minimum Mul Neg "
    "RealDiv Reciprocal Relu Relu6 Reshape Rsqrt Selu Sigmoid Softplus Softsign Sqrt Square SquaredDifference Sub Tanh "
    "Tile Transpose"
)
HINT = "_recompute_hint"
PREFIX = "Recomputed/"
_LIGHT_BYTES = 4096  # a consumer with no more than that, like Shape, reads its input early


_DEEP = 9  # levels from which a region is cut


class Use(NamedTuple):
    """An edge from a value that may be computed again to a node of the gradients. trigger: a gradient that the node
    waits for as well."""

    source: str
    user: str
    trigger: str


def recompute(view: View, settings: Settings) -> None:
    """Give gradients copies of what they take from the forward part."""
    found = _Uses(view, settings)
    if found.uses:
        copies = _Copies(view, found)
        for use in found.uses:
            copies.serve(use)
        copies.put()


class _Uses:
    """Which nodes may be computed again, and for whom."""

    def __init__(self, view: View, settings: Settings):
        self.view = view
        self.position = {name: i for i, name in enumerate(view.ops)}
        self.backward = {name for name in view.ops if _inside(name, settings.recompute_for)}
        self.variables = _variables_of(view) if self.backward else {}
        hinted = settings.recompute_hints
        self.allowed = {o.name for o in view.ops.values() if hinted and HINT in o.proto.attr and self._may(o)}
        self.uses = self._found(self.allowed)
        if settings.recompute_cheap:
            self._add_cheap()

    def _may(self, op: Op) -> bool:
        """Whether computing it once more gives the same and does nothing else."""
        free = op.name in self.view.free and op.name not in self.backward and not op.control
        return free and op.pure and op.name not in self.view.feeds and bool(op.data)

    def _found(self, sources: Iterable[str]) -> list[Use]:
        """In the order of the users."""
        sources, found = set(sources), []
        for name in sorted(self.backward & self.view.free, key=self.position.__getitem__) if sources else ():
            op = self.view.ops[name]
            gradients = [p for p in self._producers(op) if p in self.backward and _bytes(self.view.ops[p])]
            if gradients:
                trigger = max(gradients, key=self.position.__getitem__)
                found += [Use(p, name, trigger) for p in dict.fromkeys(self._producers(op)) if p in sources]
        return found

    def _producers(self, op: Op) -> list[str]:
        return [producer(e) for e in op.data if e not in self.view.feeds and producer(e) in self.view.ops]

    # ------------------------------------------------------------------ cheap regions

    def _add_cheap(self) -> None:
        cheap = {o.name for o in self.view.ops.values() if o.op in CHEAP and self._may(o)}
        consumers = self.view.consumers()
        uses = self._found(cheap)
        chosen: set[str] = set()
        for region in self._regions(cheap, {u.source for u in uses}):
            mine = [u for u in uses if u.source in region]
            region -= self._checkpoints(region)
            if self._pays(region, mine, consumers):
                chosen |= region
        self.allowed |= chosen
        self.uses = self._found(self.allowed)

    def _regions(self, cheap: set[str], needed: set[str]) -> list[set[str]]:
        """Connected sets of the cheap nodes that the needed ones follow from."""
        of: dict[str, set[str]] = {}
        todo = list(needed)
        while todo:
            name = todo.pop()
            if name not in of:
                of[name] = {name}
                todo += [p for p in self._producers(self.view.ops[name]) if p in cheap]
        for name in list(of):
            for other in self._producers(self.view.ops[name]):
                if other in of and of[other] is not of[name]:
                    small, large = sorted((of[name], of[other]), key=len)
                    large |= small
                    of.update(dict.fromkeys(small, large))
        return list({id(region): region for region in of.values()}.values())

    def _checkpoints(self, region: set[str]) -> set[str]:
        """The nodes that keep their value in a region of many levels."""
        levels: dict[str, int] = {}
        for name in sorted(region, key=self.position.__getitem__):
            before = [levels[p] for p in self._producers(self.view.ops[name]) if p in levels]
            levels[name] = 1 + max(before, default=0)
        deepest = max(levels.values())
        step = isqrt(deepest)
        return {name for name, level in levels.items() if deepest >= _DEEP and level % step == 0}

    def _pays(self, region: set[str], uses: list[Use], consumers: dict[str, list[Op]]) -> bool:
        """Whether the values that need not be kept are more than those that have to be."""
        freed = {u.source for u in uses if u.source in region}
        if not freed:
            return False
        until = min(self.position[u.user] for u in uses if u.source in region)
        kept: set[str] = set()
        for name in region:
            kept.update(p for p in self._producers(self.view.ops[name]) if p not in region)
        held = [name for name in kept if self._last(consumers[name]) < until and not self.variables.get(name)]
        return sum(_bytes(self.view.ops[n]) for n in freed) > sum(_bytes(self.view.ops[n]) for n in held)

    def _last(self, users: list[Op]) -> int:
        return max((self.position[o.name] for o in users), default=-1)


class _Copies:
    """The copies made so far. Users come in their order, so the first trigger of a copy is the earliest, and nothing
    that it waits for can wait for the copy."""

    def __init__(self, view: View, found: _Uses):
        self._view, self._found = view, found
        self._writers = _writers(view, found.variables)  # of each variable
        self._made: dict[str, Op] = {}
        self._refused: set[str] = set()
        self._before: dict[str, list[Op]] = {}  # user -> the copies that stand before it

    def serve(self, use: Use) -> None:
        """Let the user take the copy, if there can be one."""
        if self._copy(use.source, use):
            user = self._view.ops[use.user]
            feeds = self._view.feeds
            user.data = [PREFIX + e if producer(e) == use.source and e not in feeds else e for e in user.data]
            self._view.changes += 1

    def _copy(self, name: str, use: Use) -> bool:
        """Make the copy and those it needs; False where the node reads a variable that may have changed since."""
        if name in self._made or name in self._refused:
            return name in self._made
        source = self._view.ops[name]
        after = self._changes_after(source, use)
        if after is None:
            self._refused.add(name)
            return False
        node = NodeDef()
        node.CopyFrom(source.written({}))
        node.name = PREFIX + name
        copy = Op(node)
        copy.data = [self._edge(e, use) for e in source.data]
        if not any(e.startswith(PREFIX) for e in copy.data):
            copy.control = [use.trigger]
        for writer in after:
            self._view.ops[writer].control.append(copy.name)
        self._made[name] = copy
        self._before.setdefault(use.user, []).append(copy)
        return True

    def _edge(self, e: str, use: Use) -> str:
        name = producer(e)
        again = e not in self._view.feeds and name in self._found.allowed and self._copy(name, use)
        return PREFIX + e if again else e

    def _changes_after(self, source: Op, use: Use) -> list[str] | None:
        """The nodes that may change what it reads of variables, all of which must wait for the copy; None where one
        stands before it."""
        read = frozenset[str]().union(*(self._found.variables.get(producer(e), ()) for e in source.data))
        writers = list(dict.fromkeys(w for variable in sorted(read) for w in self._writers.get(variable, ())))
        position = self._found.position
        return None if any(position[w] < position[use.user] for w in writers) else writers

    def put(self) -> None:
        """Each copy right before its first user; what only looks at shapes moves up to what it looks at."""
        order: dict[str, Op] = {}
        early = self._early()
        for name, op in self._view.ops.items():
            if name not in order:
                order.update((copy.name, copy) for copy in self._before.get(name, ()))
                order[name] = op
                order.update((o.name, o) for o in early.get(name, ()) if o.name not in order)
        self._view.ops = order
        self._view.free = self._view.free.union(copy.name for copy in self._made.values())
        self._view.changes += len(self._made)

    def _early(self) -> dict[str, list[Op]]:
        """Node computed again -> its light consumers among the gradients that wait for nothing else."""
        found: dict[str, list[Op]] = {}
        for name in self._found.backward & self._view.free:
            op = self._view.ops[name]
            looks = len(op.data) == 1 and not op.control and op.pure and _bytes(op) <= _LIGHT_BYTES
            if looks and producer(op.data[0]) in self._made:
                found.setdefault(producer(op.data[0]), []).append(op)
        return found


def _variables_of(view: View) -> dict[str, frozenset[str]]:
    """Node -> the variables whose memory its output may be, where there are any."""
    found: dict[str, frozenset[str]] = {}
    for op in view.ops.values():
        if op.op in ("VariableV2", "Variable"):
            found[op.name] = frozenset([op.attr("shared_name") or op.name])
        elif op.row is not None and (op.row.aliases or op.row.refs):
            read = frozenset[str]().union(*(found.get(producer(e), ()) for e in op.data))
            if read:
                found[op.name] = read
    return found


def _writers(view: View, variables: dict[str, frozenset[str]]) -> dict[str, list[str]]:
    """Variable -> the nodes that may change it."""
    found: dict[str, list[str]] = {}
    for op in view.ops.values() if variables else ():
        if op.row is not None and op.row.stateful and op.row.refs:
            for variable in frozenset[str]().union(*(variables.get(producer(e), ()) for e in op.data)):
                found.setdefault(variable, []).append(op.name)
    return found


def _bytes(op: Op) -> int:
    """Of memory of its own: what only looks at its input's in another shape has none."""
    views = op.op in ("Reshape", "Transpose", "Identity") or (op.row is None)
    return 0 if views else sum(output_bytes(op.proto))


def _inside(name: str, scope: str) -> bool:
    """Whether the node is in a name scope of that name, at any depth."""
    return name.startswith(scope) or f"/{scope}" in name
