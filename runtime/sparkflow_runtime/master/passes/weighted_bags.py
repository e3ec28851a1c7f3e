"""Bags whose ids have weights, as embedding_lookup_sparse writes them, and their way back, each in one node.

    each = GatherV2(rows, places); spread = Reshape(weights, [-1, 1])
    SegmentSum(each * spread, ids), over SegmentSum(spread, ids) or
    the root of SegmentSum(spread ** 2, ids)                                  -> _WeightedSums
    the gradients' quotient, GatherV2(ids), product, UnsortedSegmentSum       -> _WeightedGradients

With them go the zeros of safe_embedding_lookup_sparse for rows that were empty (bags.py). A column has some 25 such
nodes, over a few hundred numbers. What of them others use stays beside the new ones.
"""

from __future__ import annotations

from typing import NamedTuple

from sparkflow_runtime.master.passes.bags import Finder
from sparkflow_runtime.master.passes.view import Op, View, producer
from sparkflow_runtime.wire.devices import on_cpu


def weigh_bags(view: View) -> None:
    """Replace what is found."""
    if not any(op.op == "SegmentSum" for op in view.ops.values()):
        return
    finder = _Finder(view)
    sums = [op for op in view.ops.values() if op.op == "SegmentSum" and on_cpu(op.device)]
    backs = [op for op in view.ops.values() if op.op == "UnsortedSegmentSum" and on_cpu(op.device)]
    made = [*map(finder.join_back, backs), *map(finder.join_sum, sums)]
    if any(made):
        view.changes += 1
        view.prune()


class _Product(NamedTuple):
    """GatherV2(rows, places) * Reshape(weights, [-1, 1]); of which edges."""

    rows: str
    places: str
    weights: str
    spread: str


class _Finder(Finder):
    def __init__(self, view: View):
        super().__init__(view)
        self.place: Op | None = None  # the op where all that is joined has to be

    # ------------------------------------------------------------------ sums

    def join_sum(self, total: Op) -> bool:
        self.place = total
        product = self._product(total.data[0])
        if product is None or not self._ends(total.data[0], total):
            return False
        ids = total.data[1]
        kind, head = self._divided(total, product.spread, ids)
        others = [user for user in self.users[total.name] if user is not head]
        if head is not total and not (self.is_own(total, head) and all(user.op == "Shape" for user in others)):
            return False
        given = [product.rows, product.places, ids, product.weights]
        select = self._select(head)
        hidden = None if select is None else select.data[0]
        _become(select or head, "_WeightedSums", kind, given, hidden)
        return True

    def _divided(self, total: Op, spread: str, ids: str) -> tuple[str, Op]:
        """(what the sum is divided by, the quotient), or ("Sum", the sum) where it is not, or that may not go."""
        for user in self.users[total.name]:
            if user.op == "DivNoNan" and user.data[0] == total.name and self.runs_always(user):
                kind = self._divisor(user.data[1], spread, ids)
                if kind and self._here(user):
                    return kind, user
        return "Sum", total

    def _divisor(self, e: str, spread: str, ids: str) -> str:
        """Mean or SqrtN, of weights by these ids; nothing for something else."""
        op, kind = self.view.ops.get(e), "Mean"
        if op is not None and op.op == "Sqrt" and self._plain(op):
            op, kind = self.view.ops.get(op.data[0]), "SqrtN"
        if op is None or op.op != "SegmentSum" or op.data[1] != ids or not self._plain(op):
            return ""
        if kind == "Mean":
            return kind if op.data[0] == spread else ""
        square = self.view.ops.get(op.data[0])
        if square is None or not self._plain(square):
            return ""
        squared = (square.op == "Square" and square.data == [spread]) or (
            square.op == "Mul" and square.data == [spread, spread]
        )
        return kind if squared else ""

    def _select(self, head: Op) -> Op | None:
        """What makes the empty rows of a sum zeros, where all else that uses it is the shape of these."""
        for select in self.users[head.name]:
            if select.op != "Select" or select.data[2] != head.name or not self.runs_always(select):
                continue
            empty, zeros, _ = select.data
            others = [user for user in self.users[head.name] if user is not select]
            shapes = all(u.op in ("ZerosLike", "Shape") and self.leads_to(u, zeros, select) for u in others)
            if shapes and self.is_empty_rows(empty) and self.is_zero(zeros) and self.is_own(head, select):
                return select
        return None

    # ------------------------------------------------------------------ the way back

    def join_back(self, back: Op) -> bool:
        if not self.runs_always(back):
            return False
        self.place = back
        x, places, size = back.data
        weighed = self._whole(x)
        product = weighed and self._operands(weighed)
        if not weighed or not product:
            return False
        for given, spread in (product, product[::-1]):
            weights, gather = self._weights(spread), self.view.ops.get(given)
            if weights is None or gather is None or not self._gathers(gather):
                continue
            ids = gather.data[1]
            kind, grad = self._undivided(gather.data[0], spread, ids)
            select = self.view.ops.get(grad)
            empty = None
            hides = select is not None and select.op == "Select" and self._plain(select)
            if select and hides and self.is_empty_rows(select.data[0]) and self.is_zero(select.data[1]):
                empty, grad = select.data[0], select.data[2]
            _become(back, "_WeightedGradients", kind, [grad, places, ids, weights, size], empty)
            return True
        return False

    def _undivided(self, e: str, spread: str, ids: str) -> tuple[str, str]:
        """(what a gradient has been divided by, the gradient itself)."""
        quotient = self._whole(e)
        if quotient is not None and quotient.op == "DivNoNan" and self._plain(quotient):
            kind = self._divisor(quotient.data[1], spread, ids)
            if kind:
                return kind, quotient.data[0]
        return "Sum", e

    def _whole(self, e: str) -> Op | None:
        """What gives the matrix of an edge, behind the sum to the shape that it had before a column was spread over
        it: Reshape(Sum(x, BroadcastGradientArgs), shape), of as many columns as x."""
        op = self.view.ops.get(e)
        if op is None or op.op != "Reshape" or not self._plain(op):
            return op
        total = self.view.ops.get(op.data[0])
        if total is None or total.op != "Sum" or not self._plain(total) or total.attr("keep_dims", False):
            return op
        axes = self.view.ops.get(producer(total.data[1]))
        matrix = self.view.ops.get(total.data[0])
        if axes is None or axes.op != "BroadcastGradientArgs" or total.data[1] != axes.name or matrix is None:
            return op
        before, behind = matrix.static_shape(0), op.static_shape(0)
        if before is None or behind is None or len(before) != 2 or before[1] is None or behind[1:] != before[1:]:
            return op
        return matrix

    # ------------------------------------------------------------------ parts

    def _product(self, e: str) -> _Product | None:
        product = self.view.ops.get(e)
        operands = product and self._operands(product)
        for rows, spread in (operands, operands[::-1]) if operands else ():
            weights, gather = self._weights(spread), self.view.ops.get(rows)
            if weights is not None and gather is not None and self._gathers(gather):
                return _Product(gather.data[0], gather.data[1], weights, spread)
        return None

    def _operands(self, product: Op) -> list[str] | None:
        return product.data if product.op == "Mul" and self._plain(product) else None

    def _weights(self, spread: str) -> str | None:
        """What Reshape(weights, [-1, 1]) has made a column of."""
        op = self.view.ops.get(spread)
        if op is None or op.op != "Reshape" or not self._plain(op):
            return None
        shape = self.view.constant(op.data[1])
        return op.data[0] if shape is not None and shape.tolist() == [-1, 1] else None

    def _gathers(self, op: Op) -> bool:
        """Whether it is rows[places]: GatherV2 of a matrix along its first axis, by a list."""
        if op.op != "GatherV2" or not self._plain(op) or op.attr("batch_dims", 0):
            return False
        axis, shape = self.view.constant(op.data[2]), op.static_shape(0)
        first = axis is not None and axis.size == 1 and int(axis.ravel()[0]) == 0
        return first and shape is not None and len(shape) == 2

    def _plain(self, op: Op) -> bool:
        """Whether it only computes, in the same place: outside control flow, waiting for nothing, not fed."""
        return op.name in self.view.free and not op.control and op.name not in self.view.feeds and self._here(op)

    def _here(self, op: Op) -> bool:
        return self.place is not None and self.view.same_place(op, self.place)

    def _ends(self, e: str, user: Op) -> bool:
        """Whether an edge goes to that one alone, and nobody asks for it."""
        return e not in self.kept and all(u is user for u in self.users[e])


def _become(op: Op, kind: str, divided: str, given: list[str], empty: str | None) -> None:
    op.set("kind", divided)
    op.set("hides", empty is not None)
    op.become(kind, [*given, *([] if empty is None else [empty])])
