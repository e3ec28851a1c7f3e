"""Products of a matrix that rows are spread over (spread_rows.py), and their gradients, without the matrix.

A batch names most rows of an embedding several times. The first layer above it multiplies each of them as often; here
each distinct row is multiplied once, and what the batch's rows get of it is added up (spread_native.py). The gradient
of the weights and the sums of the rows' gradients come from the sums of the product's gradient over the places of each
distinct row, once for both. Of 26 tables of 16 columns, whose ids are half distinct, that is 0.6 of what BLAS takes for
the three products, and the matrix and its gradient are not written (master/passes/spread_products.py finds them).

Sums are rounded otherwise than BLAS rounds them. Their errors are as small, but for an id that fills a batch, whose
rows are added up one by one: of 8,192 of them the gradient's is 2e-6 of it instead of 4e-7. Who computes them is
settled as `Settled` says, and by the ids of a batch: where too little is saved, the matrix is made, and multiplied as
ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.kernels import machine_code
from sparkflow_runtime.kernels.conv_direct_layout import lanes
from sparkflow_runtime.kernels.crew import crew, table_of
from sparkflow_runtime.kernels.fused import Body, Ending
from sparkflow_runtime.kernels.memory import address
from sparkflow_runtime.kernels.parallel import crew_for, product, scratch_at
from sparkflow_runtime.kernels.registry import Node, bound, find
from sparkflow_runtime.kernels.settled import Settled
from sparkflow_runtime.kernels.spread_layout import (
    COUNT,
    GRADIENT,
    LANES,
    LINE,
    PLACES,
    ROWS,
    SUMS,
    TURNED,
    WEIGHTS,
    WIDTH,
    WORDS,
)
from sparkflow_runtime.kernels.spread_rows import GIVEN, begins_of, check_others, sources_of, spread_concat
from sparkflow_runtime.kernels.updates import even_ranges

Array = Any
# What the way costs besides, as numbers that could be multiplied by a column: so many for each row of a batch and each
# table (adding up what the rows get, and the gradient over places), and some for the calls: of 814 shapes that were
# timed, 6e5 suited those that train best, and 1e6 those that predict.
_AROUND, _WORTH = 2.4, 8e5
_FORWARD, _BACKWARD, _PACK = range(3)  # of the functions
_SLICES = 8  # of vectors of columns, for the crew
_NOTHING = np.empty((0, 0), np.float32)
_MODULE = "sparkflow_runtime.kernels.spread_native"
products = Settled("Spread products", f"{__name__}:products", _MODULE, lanes, forward=10, backward=9, pack=5)


def _shared(which: int, calls: Sequence[tuple[int, ...]]) -> None:
    """Calls of a function of `products`, by the crew where there are several: `crew_for` has been asked."""
    if len(calls) == 1:
        products.functions[which](*calls[0])
    else:
        code = machine_code.address(products.functions[which])
        crew.run(table_of([(code, call) for call in calls]))


def _rooms(parts: int, bytes_: int) -> Iterator[int]:
    """Addresses of memory for the parts of a call, in whole lines."""
    size = -(-bytes_ // LINE) * LINE
    first = -(-scratch_at("spread products", parts * size + LINE) // LINE) * LINE
    return iter(range(first, first + parts * size, size))


def _in_one_piece(array: Array) -> bool:
    return array.flags.c_contiguous and array.flags.aligned


def _whole(w: Array, columns: int) -> Array:
    """w with so many columns, the new ones of zeros."""
    if w.shape[1] == columns and _in_one_piece(w):
        return w
    made = np.zeros((len(w), columns), w.dtype)
    made[:, : w.shape[1]] = w
    return made


class _Batch(NamedTuple):
    """What of a step's rows the machine code is told."""

    tables: Array  # spread_layout.py
    height: int
    begins: Array  # of each table's columns of the matrix
    beside: list[tuple[int, Array]]  # (first column, other columns)
    held: list[Array]  # what `tables` has the addresses of

    @property
    def most(self) -> int:
        return int(self.tables[:, COUNT].max())

    @property
    def numbers(self) -> Array:
        """Of the distinct rows of each table."""
        return self.tables[:, COUNT] * self.tables[:, WIDTH]


class _Rows:
    """The first inputs of these nodes, those of a `_SpreadConcat`."""

    def __init__(self, node: Node):
        self._node, self.sources, self._order = node, list(sources_of(node)), node.attrs["order"]
        self._widths = np.array(node.attrs["widths"])[node.attrs["members"]]
        self._columns = node.attr("layer_columns", 0)  # that each of several layers above these rows has, on average
        self.others = GIVEN * len(self.sources)
        self.count = self.others + len(self._order) - len(self._widths)
        self._seen: tuple[list[int], list[int], int] | None = None
        products.prepare()

    def given(self, inputs: Sequence[Array]) -> list[Sequence[Array]]:
        """Those of each source."""
        return [inputs[at : at + GIVEN] for at in range(0, self.others, GIVEN)]

    def batch(self, inputs: Sequence[Array], w: Array) -> _Batch | None:
        """None where the matrix has to be made."""
        given, others = self.given(inputs), inputs[self.others : self.count]
        height = self.sources[0].height(given[0])
        check_others(self._node, others, height)
        if not products.functions or w.ndim != 2 or any(a.dtype != np.float32 for a in (w, *others)):
            return None
        widths, known = [o.shape[1] for o in others], self._seen
        if known is None or known[0] != widths:
            known = self._seen = widths, *begins_of([*self._widths.tolist(), *widths], self._order)
        _, begins, wide = known
        if w.shape[0] != wide or not w.size or not height:
            return None
        if not self._pays(height, [counts for _, counts, *_ in given], self._columns or w.shape[1]):
            return None
        tables, held = np.zeros((len(self._widths), WORDS), np.int64), []
        tables[:, WIDTH] = self._widths
        for source, (flat, counts, places, sizes) in zip(self.sources, given):
            first, start, _ = source.located(height, flat, counts, sizes)
            if flat.dtype != np.float32 or places.dtype != np.int64 or places.size != sizes.sum():
                return None
            if not _in_one_piece(flat) or not _in_one_piece(places):
                return None
            held += [flat, places]
            tables[source.which, ROWS] = first * 4 + address(flat)
            tables[source.which, PLACES] = start.view(np.int64) * 8 + address(places)
            tables[source.which, COUNT] = counts[source.mine]
        return _Batch(tables, height, np.array(begins[: len(tables)]), list(zip(begins[len(tables) :], others)), held)

    def _pays(self, height: int, counts: Sequence[Array], columns: int) -> bool:
        """counts: of the distinct rows, of each source."""
        distinct = sum(int(self._widths[s.which] @ mine[s.mine]) for s, mine in zip(self.sources, counts))
        saved = height * (int(self._widths.sum()) - _AROUND * len(self._widths)) - distinct
        return saved * columns >= _WORTH

    def members(self, begins: list[int], sums: Sequence[_Sum]) -> list[list[int]] | None:
        """Of each sum its tables' numbers, found by their columns. None where one of them is not a table of that source
        with that width and these ids, or is in two sums."""
        table = {begin: k for k, begin in enumerate(begins)}
        found = [[table.get(column, -1) for column in one.columns] for one in sums]
        each = [k for mine in found for k in mine]
        if -1 in each or len({*each}) < len(each):
            return None
        for one, mine in zip(sums, found):
            source = self.sources[one.source]
            of = dict(zip(source.which.tolist(), source.mine.tolist()))
            if [of.get(k) for k in mine] != one.of.tolist() or (self._widths[mine] != one.widths).any():
                return None
        return found


def _multiply(batch: _Batch, w: Array) -> Array:
    """The matrix of a batch times w."""
    columns, vector = w.shape[1], 4 * LANES
    step = -(-4 * columns // vector) * vector
    wide = _whole(w, step // 4)
    begun = [product(o, w[at : at + o.shape[1]]) for at, o in batch.beside]
    z = _whole(sum(begun[1:], begun[0]), step // 4) if begun else np.empty((batch.height, step // 4), np.float32)
    batch.tables[:, WEIGHTS] = batch.begins * step + address(wide)
    vectors, most = step // vector, batch.most
    mates = crew_for(int(batch.numbers.sum()) * columns)
    ends = [i * vectors // _SLICES for i in range(_SLICES + 1)] if mates else [0, vectors]
    slices = [(a, b) for a, b in pairwise(ends) if b > a]
    about = address(batch.tables), len(batch.tables), batch.height, step
    rooms = _rooms(len(slices), (batch.height + 2 * most) * vector)
    _shared(_FORWARD, [(*about, a, b, address(z), int(bool(begun)), room, most) for (a, b), room in zip(slices, rooms)])
    return z if z.shape[1] == columns else np.ascontiguousarray(z[:, :columns])


def _gradients(batch: _Batch, dz: Array, w: Array) -> Array:
    """The gradient of w; and the sums of the gradients of rows, to where the tables say."""
    columns, pair = w.shape[1], 8 * LANES
    step = -(-4 * columns // pair) * pair
    wide, whole, vectors = _whole(w, step // 4), _whole(dz, step // 4), step // pair
    dw, packed = np.empty_like(wide), np.empty(whole.size, np.float32)
    for at, other in batch.beside:
        dw[at : at + other.shape[1], :columns] = product(other.T, dz)
    products.functions[_PACK](address(whole), step, batch.height, vectors, address(packed))
    batch.tables[:, WEIGHTS] = batch.begins * step + address(wide)
    batch.tables[:, GRADIENT] = batch.begins * step + address(dw)
    most, widest = batch.most, -(-int(batch.tables[:, WIDTH].max()) // TURNED) * TURNED
    mates = crew_for(2 * int(batch.numbers.sum()) * columns)
    ranges = even_ranges(batch.numbers) if mates else [(0, len(batch.tables))]
    rooms = _rooms(len(ranges), 2 * LINE + pair + most * pair + step * widest + 4 * most * widest)
    about = batch.height, address(packed), step
    _shared(
        _BACKWARD, [(address(batch.tables), a, b, *about, room, most, widest) for (a, b), room in zip(ranges, rooms)]
    )
    return dw if step == 4 * columns else np.ascontiguousarray(dw[:, :columns])


@bound("_SpreadMatMul", multi=True, stateful=False, devices=("CPU",))
def _spread_matmul(node: Node) -> Callable[..., Sequence[Array]]:
    """Inputs: those of a `_SpreadConcat`, then what is left of those of a product (`product`: MatMul or _FusedMatMul)
    of which it is the first; the matrix where `is_made` says so. Outputs: the product's, and the matrix where that was
    multiplied."""
    rows, spread, is_made = _Rows(node), spread_concat(node), node.attr("is_made", False)
    inside = {name.removeprefix("product"): value for name, value in node.attrs.items()}
    alone = replace(node, op=node.attrs["product"], attrs=inside)
    whole = find(alone.op, "CPU").factory(alone)
    body = Body(alone) if alone.op == "_FusedMatMul" else None
    weights, bias = (body.sources[0][1][1] - 1, body.bias - 1) if body else (0, -1)
    ending = Ending(body.activation, node.xp) if body else None

    def run(*inputs: Array) -> Sequence[Array]:
        rest = inputs[rows.count : len(inputs) - is_made]
        w = rest[weights]
        fits = w.ndim == 2 and (ending is None or ending.fits(rest[bias], w.shape[1], np.float32))
        batch = rows.batch(inputs, w) if fits else None
        if batch is not None:
            z = _multiply(batch, w)
            if ending is not None:
                ending(z, rest[bias])
            return [z, _NOTHING]
        x = inputs[-1] if is_made else spread(*inputs[: rows.count])[0]
        return [whole(x, *rest), x]

    return run


class _Sum(NamedTuple):
    """A `_SumToDistinct` whose rows are columns of the matrix's gradient."""

    source: int
    columns: list[int]
    of: Array
    widths: Array
    whole: Callable[..., Array]


def _sums(node: Node) -> Iterator[_Sum]:
    attrs, end = node.attrs, 0
    for source, count in zip(attrs.get("sum_sources", ()), attrs.get("sum_tables", ())):
        begin, end = end, end + count
        of, columns, widths = (list(attrs[f"sum_{k}"][begin:end]) for k in ("of", "columns", "widths"))
        about = {"N": 1, "of": of, "columns": columns, "widths": widths}
        whole = find("_SumToDistinct", "CPU").factory(replace(node, op="_SumToDistinct", attrs=about))
        yield _Sum(source, columns, np.array(of), np.array(widths), whole)


@bound("_SpreadMatMulGrad", multi=True, stateful=False, devices=("CPU",))
def _spread_matmul_grad(node: Node) -> Callable[..., Sequence[Array]]:
    """Inputs: those of a `_SpreadConcat`, the matrix as `_SpreadMatMul` gives it, the gradient of the product, and the
    weights. Outputs: the gradient of the weights, and of each of `sum_sources` (numbers of tasks) the sums of the
    gradients of its rows, as `_SumToDistinct` gives them; then some columns of the gradient of the matrix, slice_widths
    from slice_columns on. sum_tables: how many tables each sum has; sum_of, sum_columns, sum_widths: of all those, as
    `_SumToDistinct` has them."""
    rows, sums = _Rows(node), list(_sums(node))
    parts = [slice(a, a + n) for a, n in zip(node.attr("slice_columns", ()), node.attr("slice_widths", ()))]
    known: tuple[list[int], list[list[int]] | None] | None = None

    def members(begins: list[int]) -> list[list[int]] | None:
        """Which of the matrix's tables each sum's are; None where they are not these."""
        nonlocal known
        found = known
        if found is None or found[0] != begins:
            found = known = begins, rows.members(begins, sums)
        return found[1]

    spread = spread_concat(node)
    turned_a, turned_b = (
        find("MatMul", "CPU").factory(replace(node, op="MatMul", attrs={side: True}))
        for side in ("transpose_a", "transpose_b")
    )

    def by_matrix(x: Array, dz: Array, w: Array, given: list[Sequence[Array]]) -> Sequence[Array]:
        dx: Any = turned_b(dz, w) if sums or parts else None
        by_id = [one.whole(dx, *given[one.source][1:]) for one in sums]
        return [turned_a(x, dz), *by_id, *(np.ascontiguousarray(dx[:, part]) for part in parts)]

    def run(*inputs: Array) -> Sequence[Array]:
        x, dz, w = inputs[rows.count :]
        given = rows.given(inputs)
        batch = None if x.size else rows.batch(inputs, w)
        if batch is not None and (dz.shape != (batch.height, w.shape[1]) or dz.dtype != np.float32):
            batch = None
        which = members(batch.begins.tolist()) if batch is not None else None
        if batch is None or which is None:
            x = x if x.size else spread(*inputs[: rows.count])[0]
            return by_matrix(x, dz, w, given)
        found = []
        for one, mine in zip(sums, which):
            items = given[one.source][1][one.of] * one.widths
            ends = items.cumsum()
            found.append(np.empty(int(ends[-1]), np.float32))
            batch.tables[mine, SUMS] = (ends - items) * 4 + address(found[-1])
        return [_gradients(batch, dz, w), *found, *(product(dz, w[part].T) for part in parts)]

    return run
