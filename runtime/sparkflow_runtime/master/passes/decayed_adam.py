"""Adam of a sparse gradient, as TensorFlow writes it in ops, as one `_ApplyDecayedAdam`.

    m = beta1 m, then rows are added;  v = beta2 v, then rows are added;  var -= rate * m / (sqrt(v) + epsilon)

All rows decay and all rows move, so each of the ten ops goes over whole tables, and between them lie arrays of the size
of a table. The one that takes their place goes over the tables once. It runs where the subtraction ran.

Where the rows are grad * keep1 and grad * grad * keep2, as an optimizer has them, it takes the gradient itself
(`_SparseApplyDecayedAdam`): an update like that of other optimizers, which all tables may share (fuse_embeddings.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from sparkflow_runtime.master.passes.view import Op, View, in_order
from sparkflow_runtime.wire.devices import on_cpu

_VARIABLES = ("VariableV2", "Variable")
_SUMS, _READS = ("Add", "AddV2"), ("Identity",)


@dataclass
class _Moment:
    """A slot of the table, its decay, and what is added to it."""

    slot: str
    factor: str
    rows: str
    added: Op  # ScatterAdd
    members: list[Op]


def join_adam(view: View) -> None:
    """Replace what is found. Only the subtractions keep their names."""
    finder = _Finder(view)
    found = [one for op in view.ops.values() if op.op == "AssignSub" and on_cpu(op.device) and (one := finder.at(op))]
    for update, op, data, members in found:
        update.become(op, data)
        gone = {m.name for m in members}
        waits = dict.fromkeys(c for op in (update, *members) for c in op.control if c not in gone)
        update.control = list(waits)
        for name in gone:
            for waiter in finder.waiters[name]:
                waiter.control = [c for c in waiter.control if c != name]  # it waits for the update too
        view.drop(list(gone))
    if found:
        view.ops = in_order(view.ops)


class _Finder:
    def __init__(self, view: View):
        self.view, self.users, self.kept = view, view.consumers(), view.kept
        self.waiters: dict[str, list[Op]] = defaultdict(list)
        for op in view.ops.values():
            for name in op.control:
                self.waiters[name].append(op)

    def at(self, update: Op) -> tuple[Op, str, list[str], list[Op]] | None:
        """(the subtraction, the op it is to be, its inputs, the ops that go)."""
        if update.name not in self.view.free or len(update.data) != 2:
            return None
        quotient = self._own(update, update.data[1], ("RealDiv",))
        step = quotient and self._own(update, quotient.data[0], ("Mul",))
        bottom = quotient and self._own(update, quotient.data[1], _SUMS)
        if not quotient or not step or not bottom:
            return None
        for rate, m_edge in _both_ways(step):
            for root_edge, epsilon in _both_ways(bottom):
                root = self._own(update, root_edge, ("Sqrt",))
                m = self._moment(update, m_edge)
                v = self._moment(update, root.data[0]) if root and m else None
                if root and m and v and self._fit(update, m, v, rate, epsilon):
                    data = [update.data[0], m.slot, v.slot, rate, m.factor, v.factor, epsilon]
                    members, ids = [quotient, step, bottom, root, *m.members, *v.members], m.added.data[1]
                    scaled = self._scaled(update, m, v)
                    if scaled is None:
                        return update, "_ApplyDecayedAdam", [*data, ids, m.rows, v.rows], members
                    factors, grad, more = scaled
                    return update, "_SparseApplyDecayedAdam", [*data, *factors, grad, ids], [*members, *more]
        return None

    def _scaled(self, update: Op, m: _Moment, v: _Moment) -> tuple[list[str], str, list[Op]] | None:
        """([keep1, keep2], grad, the products) where grad * keep1 and grad * grad * keep2 are what is added."""
        one, two = self._own(m.added, m.rows, ("Mul",)), self._own(v.added, v.rows, ("Mul",))
        if one is None or two is None:
            return None
        for grad, keep1 in _both_ways(one):
            for square, keep2 in _both_ways(two):
                squared = self._own(two, square, ("Mul", "Square"))
                if squared is None or {*squared.data} != {grad} or not self._shape(keep1) == self._shape(keep2) == ():
                    continue
                if self._rows_of(update, grad):
                    return [keep1, keep2], grad, [one, two, squared]
        return None

    def _rows_of(self, update: Op, grad: str) -> bool:
        """Whether a gradient has a row for each id, of the table's: one number for all is added to all."""
        rows, table = self._shape(grad), self._shape(update.data[0])
        return isinstance(rows, tuple) and isinstance(table, tuple) and len(rows) == len(table)

    def _fit(self, update: Op, m: _Moment, v: _Moment, rate: str, epsilon: str) -> bool:
        tables = [self.view.ops.get(e) for e in (update.data[0], m.slot, v.slot)]
        if any(t is None or t.op not in _VARIABLES for t in tables) or m.slot == v.slot:
            return False
        shapes = [t.static_shape(0) for t in tables if t is not None]
        whole = bool(shapes[0]) and None not in (shapes[0] or ()) and shapes[0] == shapes[1] == shapes[2]
        one_type = len({t.attr("dtype") for t in tables if t is not None}) == 1
        scalars = all(self._shape(e) == () for e in (rate, epsilon, m.factor, v.factor))
        same_ids = m.added.data[1] == v.added.data[1]
        waiting = [w for added in (m.added, v.added) for w in self.waiters[added.name]]
        wait_longer = all(any(w is other for other in self.waiters[update.name]) for w in waiting)
        return whole and one_type and scalars and same_ids and wait_longer

    def _shape(self, e: str) -> object:
        name, _, port = e.partition(":")
        op = self.view.ops.get(name) or self.view.fed.get(name)
        return op.static_shape(int(port or 0)) if op is not None else None

    def _moment(self, update: Op, e: str) -> _Moment | None:
        added = self._own(update, e, ("ScatterAdd",), waited=True)
        if added is None:
            return None
        before = [op for name in added.control if (op := self.view.ops.get(name)) is not None]
        decays = [op for op in before if op.op == "Assign" and op.data[0] == added.data[0]]
        if len(decays) != 1 or self.users[decays[0].name]:
            return None
        (decay,) = decays
        if not self._may_go(update, decay) or [w.name for w in self.waiters[decay.name]] != [added.name]:
            return None
        product = self._own(decay, decay.data[1], ("Mul",))
        if product is None:
            return None
        for old, factor in _both_ways(product):
            read = self.view.ops.get(old)
            if old == added.data[0]:
                return _Moment(old, factor, added.data[2], added, [added, decay, product])
            if read is not None and read.op in _READS and read.data == [added.data[0]] and not read.control:
                return _Moment(added.data[0], factor, added.data[2], added, [added, decay, product])
        return None

    def _own(self, user: Op, e: str, ops: tuple[str, ...], waited: bool = False) -> Op | None:
        """The op of one of these kinds that makes an edge for one user alone."""
        op = self.view.ops.get(e)
        if op is None or op.op not in ops or len(self.users[op.name]) != 1:
            return None
        return op if self._may_go(user, op) and (waited or not self.waiters[op.name]) else None

    def _may_go(self, user: Op, op: Op) -> bool:
        free = op.name in self.view.free and op.name not in self.kept and op.name not in self.view.feeds
        return free and self.view.same_place(op, user)


def _both_ways(op: Op) -> Iterator[tuple[str, str]]:
    yield op.data[0], op.data[1]
    yield op.data[1], op.data[0]
