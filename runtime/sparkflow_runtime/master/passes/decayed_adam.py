"""Adam of a sparse gradient, as TensorFlow writes it in ops, as one `_ApplyDecayedAdam`.

    m = beta1 m, then rows are added;  v = beta2 v, then rows are added;  var -= rate * m / (sqrt(v) + epsilon)

All rows decay and all rows move, so each of the ten ops goes over whole tables, and between them lie arrays of the size
of a table. The one that takes their place goes over the tables once. It runs where the subtraction ran.

Where the rows are grad * keep1 and grad * grad * keep2, as an optimizer has them, it takes the gradient itself
(`_SparseApplyDecayedAdam`): an update like that of other optimizers, which all tables may share (fuse_embeddings.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkflow_runtime.master.passes.joined_updates import Finder, Found, both_ways
from sparkflow_runtime.master.passes.view import Op, View
from sparkflow_runtime.wire.devices import on_cpu

_READS = ("Identity",)


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
    finder = _Adam(view)
    finder.put(one for op in view.ops.values() if op.op == "AssignSub" and on_cpu(op.device) and (one := finder.at(op)))


class _Adam(Finder):
    def at(self, update: Op) -> Found | None:
        if update.name not in self.view.free or len(update.data) != 2:
            return None
        for move in self.moves(update, update.data[1]):
            m = self._moment(update, move.m)
            v = self._moment(update, move.v) if m else None
            if m and v and self._fit(update, m, v, move.rate, move.epsilon):
                data = [update.data[0], m.slot, v.slot, move.rate, m.factor, v.factor, move.epsilon]
                members, ids = [*move.members, *m.members, *v.members], m.added.data[1]
                scaled = self._scaled(update, m, v)
                if scaled is None:
                    return update, "_ApplyDecayedAdam", [*data, ids, m.rows, v.rows], members
                factors, grad, more = scaled
                return update, "_SparseApplyDecayedAdam", [*data, *factors, grad, ids], [*members, *more]
        return None

    def _scaled(self, update: Op, m: _Moment, v: _Moment) -> tuple[list[str], str, list[Op]] | None:
        """([keep1, keep2], grad, the products) where grad * keep1 and grad * grad * keep2 are what is added."""
        one, two = self.own(m.added, m.rows, ("Mul",)), self.own(v.added, v.rows, ("Mul",))
        if one is None or two is None:
            return None
        for grad, keep1 in both_ways(one):
            for square, keep2 in both_ways(two):
                squared = self.own(two, square, ("Mul", "Square"))
                if squared is None or {*squared.data} != {grad} or not self.shape(keep1) == self.shape(keep2) == ():
                    continue
                if self.rows_of(update, grad):
                    return [keep1, keep2], grad, [one, two, squared]
        return None

    def _fit(self, update: Op, m: _Moment, v: _Moment, rate: str, epsilon: str) -> bool:
        scalars = all(self.shape(e) == () for e in (rate, epsilon, m.factor, v.factor))
        same_ids, alike = m.added.data[1] == v.added.data[1], self.are_alike(update.data[0], m.slot, v.slot)
        return scalars and same_ids and alike and all(self.waits_longer(update, s.added) for s in (m, v))

    def _moment(self, update: Op, e: str) -> _Moment | None:
        added = self.own(update, e, ("ScatterAdd",), waited=True)
        if added is None:
            return None
        before = [op for name in added.control if (op := self.view.ops.get(name)) is not None]
        decays = [op for op in before if op.op == "Assign" and op.data[0] == added.data[0]]
        if len(decays) != 1 or self.users[decays[0].name]:
            return None
        (decay,) = decays
        if not self.may_go(update, decay) or [w.name for w in self.waiters[decay.name]] != [added.name]:
            return None
        product = self.own(decay, decay.data[1], ("Mul",))
        if product is None:
            return None
        for old, factor in both_ways(product):
            read = self.view.ops.get(old)
            if old == added.data[0]:
                return _Moment(old, factor, added.data[2], added, [added, decay, product])
            if read is not None and read.op in _READS and read.data == [added.data[0]] and not read.control:
                return _Moment(added.data[0], factor, added.data[2], added, [added, decay, product])
        return None
