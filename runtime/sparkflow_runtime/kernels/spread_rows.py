"""Rows that travelled once (distinct_rows.py), spread over the columns of one matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import row_loops
from sparkflow_runtime.kernels.memory import copying, position
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.row_loops import unsigned
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import NodeDef

Array = Any
GIVEN = 4  # inputs that each source has


@bound("_SpreadConcat", multi=True, stateful=False, devices=("CPU",))
def spread_concat(node: Node) -> Callable[..., Sequence[Array]]:
    """A `_FusedGatherConcat` (embedding.py) of rows that travelled together. Inputs, for each task they came from: the
    rows as `_GatherDistinct` gives them, counts, places and sizes as `_DistinctIds` does; then other columns.

    tables: how many tables each task sent rows of; of, widths: of all those tables; members: the N of them that are
    wanted. order: of each piece of the result, which member it is, or N + which other. alone: nobody wants the members'
    columns by themselves.
    """
    sources, order, alone = list(sources_of(node)), node.attrs["order"], node.attrs["alone"]
    widths = np.array(node.attrs["widths"])[node.attrs["members"]].tolist()
    row_loops.gather_rows.prepare()
    seen: tuple[list[int], list[int], int, list[Array]] | None = None

    def laid_out(beside: list[int]) -> tuple[list[int], list[int], int, list[Array]]:
        """beside: the widths of the other columns. They, where each part begins, how wide all is, and where each
        source's members begin."""
        begins, wide = begins_of([*widths, *beside], order)
        at = np.array(begins[: len(widths)])
        return beside, begins, wide, [at[source.which] for source in sources]

    def run(*inputs: Array) -> Sequence[Array]:
        nonlocal seen
        others = inputs[GIVEN * len(sources) :]
        given = [inputs[GIVEN * k : GIVEN * (k + 1)] for k in range(len(sources))]
        height = sources[0].height(given[0])
        check_others(node, others, height)
        beside, known = [o.shape[1] for o in others], seen
        if known is None or known[0] != beside:
            known = seen = laid_out(beside)
        _, begins, width, places = known
        out = np.empty((height, width), given[0][0].dtype)
        for source, at, arrays in zip(sources, places, given):
            source.put(out, at, *arrays)
        for begin, other in zip(begins[len(widths) :], others):
            out[:, begin : begin + other.shape[1]] = other
        columns = () if alone else zip(begins, widths)
        return [out, *(out[:, a : a + w] for a, w in columns)]

    return run


def begins_of(widths: Sequence[int], order: Sequence[int]) -> tuple[list[int], int]:
    """Where each part begins, of parts of these widths that lie in this order; and how wide all is."""
    ends = list(accumulate((widths[k] for k in order), initial=0))
    begins = dict(zip(order, ends))
    return [begins[k] for k in range(len(widths))], ends[-1]


def sources_of(node: Node) -> Iterator[Source]:
    of, widths, members = (np.array(node.attrs[k]) for k in ("of", "widths", "members"))
    end = 0
    for count in node.attrs["tables"]:
        begin, end = end, end + count
        which = np.flatnonzero((begin <= members) & (members < end))
        yield Source(node, of[begin:end], widths[begin:end], members[which] - begin, which)


def check_others(node: Node, others: Sequence[Array], height: int) -> None:
    if any(o.ndim != 2 or len(o) != height for o in others):
        raise _sizes_differ(node, f"{height} rows and {[o.shape for o in others]}")


def _sizes_differ(node: Node, found: str) -> InvalidArgumentError:
    """It names the concat that the user wrote."""
    name = node.attrs.get("concat") or node.attrs.get("_fused_from", [node.name])[-1]
    text = f"ConcatV2 {name!r}: sizes must agree but for axis 1, got {found}"
    return InvalidArgumentError(NodeDef(name=name, op="ConcatV2", device=node.device), None, text)


class Source:
    """One task's rows. of, widths: of its tables; members: those that are wanted; which: their numbers among all that
    are."""

    def __init__(self, node: Node, of: Array, widths: Array, members: Array, which: Array):
        self._node, self._of, self._widths, self._members, self.which = node, of, widths, members, which
        self.mine, self._wide = of[members], unsigned(widths[members])
        self._all = members.tolist() == [*range(len(of))]
        self._bounds: tuple[bytes, int, Array, Array] | None = None

    def height(self, given: Sequence[Array]) -> int:
        return int(given[3][self.mine[0]])

    def located(self, height: int, flat: Array, counts: Array, sizes: Array) -> tuple[Array, Array, Array]:
        """Of each member: its first item in `flat`, and where its places begin and end."""
        items = counts[self._of] * self._widths
        ends = items.cumsum()
        begins, last = self._bounds_of(sizes, height)
        if flat.shape != (ends[-1],):
            name = f"{self._node.op} {self._node.name!r}"
            raise InvalidArgumentError(f"{name}: rows of shape {flat.shape}, expected {ends[-1]} items")
        return ends - items if self._all else (ends - items)[self._members], begins, last

    def put(self, out: Array, at: Array, flat: Array, counts: Array, places: Array, sizes: Array) -> None:
        """The rows of each member to the columns of `out` from at[its number here] on."""
        tables, begins, last = self.located(len(out), flat, counts, sizes)
        if flat.dtype != out.dtype or flat.dtype.itemsize not in (4, 8) or flat.dtype.kind not in "fiu":
            self._put_one_by_one(out, flat, places, zip(at.tolist(), tables.tolist(), last.tolist()))
            return
        tables += position(flat)
        where = tables.view(np.uint64), self._wide, places.view(np.uint64), begins, last
        steps = np.full(len(last), out.shape[1], np.uint64)
        row_loops.gather_rows(copying(out.dtype), *where, (at + position(out)).view(np.uint64), steps)

    def _bounds_of(self, sizes: Array, height: int) -> tuple[Array, Array]:
        """Where each member's places begin and end. They are mostly those of the step before."""
        key, known = sizes.tobytes(), self._bounds
        if known is None or known[:2] != (key, height):
            mine = sizes[self.mine]
            if (mine != height).any():
                raise _sizes_differ(self._node, f"{mine.tolist()} rows")
            last = sizes.cumsum()[self.mine]
            known = self._bounds = key, height, unsigned(last - height), unsigned(last)
        return known[2:]

    def _put_one_by_one(self, out: Array, flat: Array, places: Array, where: Iterator[tuple[int, int, int]]) -> None:
        for (begin, table, end), width in zip(where, self._wide.tolist()):
            chosen = places[end - len(out) : end]
            rows = flat[table:][: (chosen.max(initial=-1) + 1) * width].reshape(-1, width)
            out[:, begin : begin + width] = rows[chosen]
