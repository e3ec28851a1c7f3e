"""Look-ups of bags of ids as feature columns write them (safe_embedding_lookup_sparse), each in three nodes.

    Where(matrix != ignored), GatherNd                                         -> _Entries
    known = ids >= 0; SparseFillEmptyRows; Unique; the column of rows          -> _BagIds
    SparseSegment{Sum,Mean,SqrtN}, and zeros for the rows that were empty      -> _BagSums
    zeros for those, and SparseSegment{Sum,Mean,SqrtN}Grad                     -> _BagGradients

A model has such a look-up, or several, for every column, each over a few hundred numbers: what its nodes cost is being
called. What is fetched, fed, waited for or used by others stays as it is. What checked the ids before, as those of
an identity column are, `_BagIds` waits for.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.master.passes.view import Op, View, in_order, producer
from sparkflow_runtime.wire.attrs import encode
from sparkflow_runtime.wire.devices import on_cpu
from sparkflow_runtime.wire.edges import edge
from sparkflow_runtime.wire.protos import NodeDef

_PLACES, _EMPTY, _ROWS = 1, 2, 3  # outputs of _BagIds after the ids; the third is that of SparseFillEmptyRows
_KINDS = {f"SparseSegment{kind}": kind for kind in ("Sum", "Mean", "SqrtN")}
_FILLS = ("SparseFillEmptyRows", "_BagIds")


def join_bags(view: View) -> None:
    """Replace what is found."""
    if not any(op.op == "SparseFillEmptyRows" for op in view.ops.values()):
        return
    finder = Finder(view)
    for op in list(view.ops.values()):
        if op.op == "SparseFillEmptyRows" and on_cpu(op.device):
            finder.join_ids(op)
        elif op.op == "GatherNd" and on_cpu(op.device):
            finder.join_entries(op)
    finder.finish()
    finder = Finder(view)
    for op in view.ops.values():
        if op.op == "Select":
            finder.join_sums(op)
        elif op.op.endswith("Grad") and op.op[:-4] in _KINDS:
            finder.join_gradients(op)
    view.changes += 1
    view.prune()


class _Kept(NamedTuple):
    """What SparseFillEmptyRows is given: indices, ids, and the nodes that took the negative ones out."""

    indices: str
    ids: str
    members: list[Op]


class Finder:
    """What is where in a view, and who uses it."""

    def __init__(self, view: View):
        self.view, self.kept = view, view.kept | view.gates
        self.edges: dict[str, str] = {}
        self.gone: list[str] = []
        self.users: dict[str, list[Op]] = defaultdict(list)  # of each edge
        for op in view.ops.values():
            for e in op.data:
                self.users[e].append(op)

    # ------------------------------------------------------------------ ids

    def join_entries(self, gather: Op) -> None:
        where = self.view.ops.get(gather.data[1])
        if where is None or where.op != "Where" or not self.is_own(gather, where) or not self.is_own(where, where):
            return
        told = self._producer(where.data[0], "NotEqual", where)
        if told is None or told.data[0] != gather.data[0]:
            return
        ignored = self.view.constant(told.data[1])
        if ignored is None or np.ndim(ignored):  # of a rank of its own it could give the places another one
            return
        made = NodeDef(name=where.name, op="_Entries", device=where.device)
        made.input.extend(told.data)
        made.attr["T"].CopyFrom(encode(told.attr("T")))
        if where.labels:
            made.attr["_class"].CopyFrom(where.proto.attr["_class"])
        self.view.ops[where.name] = Op(made)
        self.edges[gather.name] = edge(where.name, 1)
        self.gone += [gather.name, told.name]
        self.view.moved.update(dict.fromkeys((gather.name, told.name), where.name))

    def join_ids(self, fill: Op) -> None:
        unique = self._only(edge(fill.name, 1), "Unique", fill)
        column = self._only(fill.name, "StridedSlice", fill)
        if unique is None or column is None or self.users[edge(fill.name, 3)] or not self.is_own(fill, fill):
            return
        if not self._first_column(column) or unique.attr("out_idx") is None:
            return
        cast = self._only(column.name, "Cast", fill)
        row_type = cast.attr("DstT") if cast else column.attr("T")
        given, bag = self._known(fill), fill.name
        self.view.ops[bag] = self._bag(fill, given, unique.attr("out_idx"), row_type)
        self.edges[unique.name], self.edges[edge(unique.name, 1)] = bag, edge(bag, _PLACES)
        self.edges[(cast or column).name] = edge(bag, _ROWS)
        gone = [m.name for m in (unique, column, *([cast] if cast else []), *given.members)]
        self.gone += gone
        self.view.moved.update((name, bag) for name in gone)

    def _bag(self, fill: Op, given: _Kept, out_idx: Any, row_type: Any) -> Op:
        made = NodeDef(name=fill.name, op="_BagIds", device=fill.device)
        waited = dict.fromkeys(c for member in given.members for c in member.control)
        made.input.extend([given.indices, given.ids, *fill.data[2:], *(f"^{c}" for c in waited)])
        attrs = {"only_known": bool(given.members), "out_idx": out_idx, "row_type": row_type}
        for name, value in attrs.items():
            made.attr[name].CopyFrom(encode(value))
        if fill.labels:
            made.attr["_class"].CopyFrom(fill.proto.attr["_class"])
        return Op(made)

    def finish(self) -> None:
        """Take out what _BagIds stand for."""
        self.view.redirect(self.edges)
        self.view.drop(dict.fromkeys(self.gone))
        self.view.ops = in_order(self.view.ops)

    def _first_column(self, column: Op) -> bool:
        """Whether a StridedSlice is x[:, 0]."""
        masks = [column.attr(f"{m}_mask", 0) for m in ("ellipsis", "new_axis", "shrink_axis")]
        begin, end, strides = (self.view.constant(e) for e in column.data[1:])
        if masks != [0, 0, 2] or begin is None or end is None or strides is None or len(begin) != 2:
            return False
        whole = column.attr("begin_mask", 0) & 1 and column.attr("end_mask", 0) & 1
        return bool(whole) and int(begin[1]) == 0 and strides.tolist() == [1, 1]

    def _known(self, fill: Op) -> _Kept:
        """Its indices and ids as they were before the negative ids were taken out, where nothing else uses the rest."""
        as_it_is = _Kept(fill.data[0], fill.data[1], [])
        indices, ids = (self._producer(e, "GatherV2", fill, waits=True) for e in fill.data[:2])
        if indices is None or ids is None:
            return as_it_is
        axes = [self.view.constant(g.data[2]) for g in (indices, ids)]
        if any(a is None or int(a.ravel()[0]) or a.size != 1 for a in axes) or indices.data[1] != ids.data[1]:
            return as_it_is
        flat = self._producer(ids.data[1], "Reshape", indices, ids)
        where = flat and self._producer(flat.data[0], "Where", flat)
        known = where and self._producer(where.data[0], "GreaterEqual", where, waits=True)
        if not flat or not where or not known or known.data[0] != ids.data[0]:
            return as_it_is
        least, shape = self.view.constant(known.data[1]), self.view.constant(flat.data[1])
        if least is None or least.size != 1 or int(least.ravel()[0]) or shape is None or shape.tolist() != [-1]:
            return as_it_is
        return _Kept(indices.data[0], ids.data[0], [indices, ids, flat, where, known])

    # ------------------------------------------------------------------ sums and gradients

    def join_sums(self, select: Op) -> None:
        empty, zeros, total = select.data
        sums = self.view.ops.get(total)
        if sums is None or sums.op not in _KINDS or not self.is_empty_rows(empty) or not self.is_own(sums, select):
            return
        others = [user for user in self.users[total] if user is not select]
        only_zeros = all(u.op in ("ZerosLike", "Shape") and self.leads_to(u, zeros, select) for u in others)
        if not only_zeros or not self.is_zero(zeros) or not self.runs_always(select):
            return
        select.set("kind", _KINDS[sums.op])
        select.become("_BagSums", [*sums.data, empty])

    def join_gradients(self, grad: Op) -> None:
        select = self.view.ops.get(grad.data[0])
        if select is None or select.op != "Select" or not self.is_own(select, grad) or not self.runs_always(grad):
            return
        empty, zeros, rows = select.data
        if self.is_empty_rows(empty) and self.is_zero(zeros):
            grad.set("kind", _KINDS[grad.op[:-4]])
            grad.become("_BagGradients", [rows, *grad.data[1:], empty])

    def is_empty_rows(self, e: str) -> bool:
        op = self.view.ops.get(producer(e))
        return op is not None and op.op in _FILLS and e == edge(op.name, _EMPTY) and e not in self.view.feeds

    def leads_to(self, op: Op, zeros: str, select: Op) -> bool:
        """Whether all that an op is used for is `zeros`, which only that select takes."""
        users = self.users[op.name]
        ends_here = op.name == zeros and all(u is select for u in users)
        fills = op.op == "Shape" and all(u.op == "Fill" and u.name == zeros for u in users)
        own = op.name not in self.kept and op.name not in self.view.feeds
        return own and (ends_here or fills) and all(u is select for u in self.users[zeros])

    def is_zero(self, e: str) -> bool:
        op = self.view.ops.get(e)
        if op is None or e in self.view.feeds:
            return False
        value = self.view.constant(op.data[1] if op.op == "Fill" else e)
        return op.op == "ZerosLike" or (value is not None and value.dtype.kind == "f" and not value.any())

    # ------------------------------------------------------------------ who may go

    def is_own(self, op: Op, beside: Op, waits: bool = False) -> bool:
        """waits: even if it waits for others, which then somebody else has to do."""
        return (
            op.name in self.view.free
            and (waits or not op.control)
            and op.name not in self.kept
            and op.name not in self.view.feeds
            and self.view.same_place(op, beside)
        )

    def runs_always(self, op: Op) -> bool:
        return op.name in self.view.free and not op.control

    def _only(self, e: str, kind: str, beside: Op) -> Op | None:
        """The one op that takes an edge, where it is of that kind and may go."""
        users = self.users[e]
        if len(users) != 1 or users[0].op != kind or users[0].data[0] != e or e in self.view.feeds:
            return None
        return users[0] if self.is_own(users[0], beside) else None

    def _producer(self, e: str, kind: str, *users: Op, waits: bool = False) -> Op | None:
        """The op of that kind that makes an edge for these alone, where it may go."""
        op = self.view.ops.get(e)
        if op is None or op.op != kind or not self.is_own(op, users[0], waits) or e in self.view.feeds:
            return None
        return op if all(any(u is user for user in users) for u in self.users[e]) else None
