"""One op in the place of the many that an optimizer writes for a table: what the passes that find them share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sparkflow_runtime.master.passes.view import Op, View, in_order

_VARIABLES = ("VariableV2", "Variable")
SUMS = ("Add", "AddV2")
Found = tuple[Op, str, list[str], list[Op]]  # the op that stays, what it is to be, its inputs, the ops that go


class Move(NamedTuple):
    """rate * m / (sqrt(v) + epsilon): its edges, the product, the root, and all of its ops."""

    rate: str
    m: str
    v: str
    epsilon: str
    step: Op
    root: Op
    members: list[Op]


class Finder:
    """What they ask of a graph, and how they change it."""

    def __init__(self, view: View):
        self.view, self.users, self.kept = view, view.consumers(), view.kept
        self.waiters: dict[str, list[Op]] = defaultdict(list)
        for op in view.ops.values():
            for name in op.control:
                self.waiters[name].append(op)

    def put(self, found: Iterable[Found]) -> None:
        """Only the ops that stay keep their names: who waited for another of them waits for the whole."""
        changed = list(found)
        for update, op, data, members in changed:
            update.become(op, data)
            gone = {m.name for m in members}
            waits = dict.fromkeys(c for op in (update, *members) for c in op.control if c not in gone)
            update.control = list(waits)
            for name in gone:
                for waiter in self.waiters[name]:
                    waiter.control = [c for c in waiter.control if c != name]  # it waits for the update too
            self.view.drop(list(gone))
        if changed:
            self.view.ops = in_order(self.view.ops)

    def shape(self, e: str) -> object:
        name, _, port = e.partition(":")
        op = self.view.ops.get(name) or self.view.fed.get(name)
        return op.static_shape(int(port or 0)) if op is not None else None

    def own(self, user: Op, e: str, ops: tuple[str, ...], waited: bool = False) -> Op | None:
        """The op of one of these kinds that makes an edge for one user alone."""
        op = self.view.ops.get(e)
        if op is None or op.op not in ops or len(self.users[op.name]) != 1:
            return None
        return op if self.may_go(user, op) and (waited or not self.waiters[op.name]) else None

    def may_go(self, user: Op, op: Op) -> bool:
        free = op.name in self.view.free and op.name not in self.kept and op.name not in self.view.feeds
        return free and self.view.same_place(op, user)

    def moves(self, update: Op, moved: str) -> Iterator[Move]:
        """What an edge of an update is, if it is that, in each way that it can be read."""
        quotient = self.own(update, moved, ("RealDiv",))
        step = quotient and self.own(update, quotient.data[0], ("Mul",))
        bottom = quotient and self.own(update, quotient.data[1], SUMS)
        if quotient and step and bottom:
            for rate, m in both_ways(step):
                for root_edge, epsilon in both_ways(bottom):
                    if root := self.own(update, root_edge, ("Sqrt",)):
                        yield Move(rate, m, root.data[0], epsilon, step, root, [quotient, step, bottom, root])

    def waits_longer(self, update: Op, op: Op) -> bool:
        """Whether all that waits for an op waits for the update too."""
        return all(any(w is other for other in self.waiters[update.name]) for w in self.waiters[op.name])

    def are_alike(self, *variables: str) -> bool:
        """Whether they are different variables of one type and known shape."""
        tables = [op for e in variables if (op := self.view.ops.get(e)) is not None and op.op in _VARIABLES]
        shapes = [t.static_shape(0) for t in tables]
        if len({*variables}) < len(variables) or len(tables) < len(variables) or not shapes[0] or None in shapes[0]:
            return False
        return all(shape == shapes[0] for shape in shapes) and len({t.attr("dtype") for t in tables}) == 1

    def rows_of(self, update: Op, grad: str) -> bool:
        """Whether a gradient has a row for each id, of the table's width: one number for all, or for all of a row, is
        added to all."""
        rows, table = self.shape(grad), self.shape(update.data[0])
        if not isinstance(rows, tuple) or not isinstance(table, tuple):
            return False
        return rows[:1] not in ((), (1,)) and rows[1:] == table[1:]


def both_ways(op: Op) -> Iterator[tuple[str, str]]:
    yield op.data[0], op.data[1]
    yield op.data[1], op.data[0]
