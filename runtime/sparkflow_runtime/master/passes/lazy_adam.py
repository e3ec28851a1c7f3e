"""Adam of the rows of a gradient alone, as `LazyAdamOptimizer` writes it in ops, as one `_SparseApplyLazyAdam`.

    m' = beta1 m[ids] + keep1 grad;  v' = beta2 v[ids] + keep2 grad grad;  var[ids] -= rate * m' / (sqrt(v') + epsilon)

with m' and v' written back where they came from, and read again from there by some who write it down. No id is there
twice, as after an optimizer's Unique. The one op takes the place of the subtraction.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkflow_runtime.master.passes.joined_updates import SUMS, Finder, Found, both_ways
from sparkflow_runtime.master.passes.view import Op, View
from sparkflow_runtime.wire.devices import on_cpu


@dataclass
class _Moment:
    """A slot of the table, how much of it is kept, how much of the gradient (or its square) is added, and that."""

    slot: str
    factor: str
    keep: str
    grad: str
    written: Op  # ScatterUpdate
    members: list[Op]


def join_lazy_adam(view: View) -> None:
    """Replace what is found. Only the subtractions keep their names."""
    finder = _LazyAdam(view)
    updates = [op for op in view.ops.values() if op.op == "ScatterSub" and on_cpu(op.device)]
    finder.put(found for op in updates if (found := finder.at(op)))


class _LazyAdam(Finder):
    def at(self, update: Op) -> Found | None:
        if update.name not in self.view.free or not self._are_distinct(update.data[1]):
            return None
        table, ids, moved = update.data
        for move in self.moves(update, moved):
            m = self._moment(update, move.step, move.m, ids, squared=False)
            v = self._moment(update, move.root, move.v, ids, squared=True) if m else None
            if m and v and m.grad == v.grad and self._fit(update, m, v, move.rate, move.epsilon):
                factors = [move.rate, m.factor, v.factor, move.epsilon, m.keep, v.keep]
                data, members = [table, m.slot, v.slot, *factors, m.grad, ids], [*move.members, *m.members, *v.members]
                return update, "_SparseApplyLazyAdam", data, members
        return None

    def _are_distinct(self, ids: str) -> bool:
        made = self.view.ops.get(ids)  # an edge of output 0 is the op's name
        return made is not None and made.op == "Unique"

    def _fit(self, update: Op, m: _Moment, v: _Moment, rate: str, epsilon: str) -> bool:
        scalars = all(self.shape(e) == () for e in (rate, epsilon, m.factor, v.factor, m.keep, v.keep))
        alike = self.are_alike(update.data[0], m.slot, v.slot) and self.rows_of(update, m.grad)
        return scalars and alike and all(self.waits_longer(update, s.written) for s in (m, v))

    def _moment(self, update: Op, user: Op, e: str, ids: str, squared: bool) -> _Moment | None:
        """What is at an edge of `user`, and what goes with it."""
        again = self._rows(user, e, ids)
        if again is not None:  # written, and read from there
            written = self.own(again, again.data[0], ("ScatterUpdate",), waited=True)
            total = written and self.own(written, written.data[2], SUMS)
            return self._of(written, total, [again], ids, squared) if written and total else None
        total = self.view.ops.get(e)
        if total is None or total.op not in SUMS or not self.may_go(update, total) or self.waiters[total.name]:
            return None
        others = [op for op in self.users[total.name] if op is not user]
        if len(self.users[total.name]) != 2 or len(others) != 1 or others[0].op != "ScatterUpdate":
            return None
        (written,) = others
        unread = not self.users[written.name] and written.data[2] == total.name and self.may_go(update, written)
        ready = {*written.control} <= {*update.control}  # what else it waits for may come after the subtraction
        return self._of(written, total, [], ids, squared) if unread and ready else None

    def _of(self, written: Op, total: Op, more: list[Op], ids: str, squared: bool) -> _Moment | None:
        """total: what is written."""
        if written.data[1] != ids:
            return None
        for kept_edge, added_edge in both_ways(total):
            kept, added = self.own(total, kept_edge, ("Mul",)), self.own(total, added_edge, ("Mul",))
            if kept is None or added is None:
                continue
            for old, factor in both_ways(kept):
                rows = self._rows(kept, old, ids)
                if rows is None or self._variable(rows.data[0]) != written.data[0]:
                    continue
                members = [*more, written, total, kept, added, rows]
                for one, keep in both_ways(added):
                    if not squared and self.shape(keep) == ():
                        return _Moment(written.data[0], factor, keep, one, written, members)
                    square = self.own(added, one, ("Mul", "Square")) if squared else None
                    if square is not None and len({*square.data}) == 1:
                        return _Moment(written.data[0], factor, keep, square.data[0], written, [*members, square])
        return None

    def _rows(self, user: Op, e: str, ids: str) -> Op | None:
        """A look-up of these rows that nobody else has."""
        rows = self.own(user, e, ("GatherV2",))
        if rows is None or rows.data[1] != ids or rows.attr("batch_dims", 0):
            return None
        axis = self.view.constant(rows.data[2])
        return rows if axis is not None and axis.size == 1 and not int(axis.ravel()[0]) else None

    def _variable(self, e: str) -> str:
        """Of what reads it."""
        read = self.view.ops.get(e)
        plain = read is not None and read.op == "Identity" and not read.control and e not in self.view.feeds
        return read.data[0] if plain and read is not None else e
