"""One optimizer step over several variables: shapes checked, rows found, then one call of the rule's loop.

`UPDATES` says of each op which rule it is and where its inputs stand. The loops take float32 and float64 in host
memory, and float16 and bfloat16 as float32 (half_rows.py); anything else goes variable by variable through the rule in
numpy or cupy, with the same result.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import pairwise
from operator import is_, methodcaller
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.kernels import decay_loops, half_rows, registry, row_loops, rules, update_loops
from sparkflow_runtime.kernels.compiled import Compiled
from sparkflow_runtime.kernels.crew import crew, table_of
from sparkflow_runtime.kernels.host import check_indices
from sparkflow_runtime.kernels.memory import memory, position, positions, rows_ready, stride
from sparkflow_runtime.kernels.parallel import scratch, share
from sparkflow_runtime.kernels.row_loops import unsigned
from sparkflow_runtime.kernels.sorting import unique_parts
from sparkflow_runtime.kernels.sum_loops import sum_rows
from sparkflow_runtime.kernels.update_blocks import Blocks, pieces
from sparkflow_runtime.kernels.update_loops import update_rows

Array = Any


class Update(NamedTuple):
    """rule: its name in rules and update_loops; num_refs: var and slots come first; then positions of other inputs.
    decays: whether rows that no index names change too, as decayed_adam has it."""

    rule: str
    num_refs: int
    grad_at: int
    indices_at: int = -1  # of a dense update
    flag: str = ""
    flag_default: bool = False
    decays: bool = False


_NESTEROV, _SLOTS = ("use_nesterov",), ("update_slots", True)
_DENSE, _ROWS = ("dense", True), ("dense", False)  # no attribute of an op: the dense ops and those of rows differ
UPDATES = {
    "ApplyGradientDescent": Update("gradient_descent", 1, 2),
    "ApplyMomentum": Update("momentum", 2, 3, -1, *_NESTEROV),
    "ApplyAdagrad": Update("adagrad", 2, 3, -1, *_SLOTS),
    "ApplyAdam": Update("adam", 3, 9, -1, *_NESTEROV),
    "ApplyFtrl": Update("ftrl", 3, 3, -1, *_DENSE),
    "ApplyFtrlV2": Update("ftrl", 3, 3, -1, *_DENSE),
    "ApplyRMSProp": Update("rms_prop", 3, 7),
    "ApplyCenteredRMSProp": Update("centered_rms_prop", 4, 8),
    "ApplyAdadelta": Update("adadelta", 3, 6),
    "ApplyProximalGradientDescent": Update("proximal_gradient_descent", 1, 4),
    "ApplyProximalAdagrad": Update("proximal_adagrad", 2, 5),
    "ApplyAdagradDA": Update("adagrad_da", 3, 3),
    "SparseApplyMomentum": Update("momentum", 2, 3, 4, *_NESTEROV),
    "SparseApplyAdagrad": Update("adagrad", 2, 3, 4, *_SLOTS),
    "SparseApplyFtrl": Update("ftrl", 3, 3, 4, *_ROWS),
    "SparseApplyFtrlV2": Update("ftrl", 3, 3, 4, *_ROWS),
    "SparseApplyRMSProp": Update("rms_prop", 3, 7, 8),
    "SparseApplyCenteredRMSProp": Update("centered_rms_prop", 4, 8, 9),
    "SparseApplyAdadelta": Update("adadelta", 3, 6, 7),
    "SparseApplyProximalGradientDescent": Update("proximal_gradient_descent", 1, 4, 5),
    "SparseApplyProximalAdagrad": Update("proximal_adagrad", 2, 5, 6),
    "SparseApplyAdagradDA": Update("adagrad_da", 3, 3, 4),
    "_SparseApplyDecayedAdam": Update("decayed_adam", 3, 9, 10, decays=True),
    "_SparseApplyLazyAdam": Update("decayed_adam", 3, 9, 10),
    "_SparseApplyGradientDescent": Update("gradient_descent", 1, 2, 3),
}
_MADE = {"DecayedAdam": "Adam", "LazyAdam": "LazyAdam", "GradientDescent": "ScatterSub"}  # of ops that nobody wrote


def said(op: str) -> str:
    """An op as errors name it."""
    return _MADE.get(op.removeprefix("_SparseApply"), op)


def prepare(op: str) -> None:
    """Have the loops of this op compiled in the background."""
    getattr(update_loops, UPDATES[op].rule).prepare()
    if UPDATES[op].indices_at >= 0:
        decays = (decay_loops.decay, decay_loops.copy_rows) if UPDATES[op].decays else ()
        for loop in (row_loops.first_outside, row_loops.sum_by_id, *decays):
            loop.prepare()


class Places:
    """Positions of arrays that mostly stay the same: found again only for those that changed since the last call.

    The arrays are held weakly: an assignment may reuse a variable's memory only while nobody else holds it.
    """

    def __init__(self) -> None:
        self._known: tuple[list[weakref.ref[Any]], Array] = [], np.empty(0, np.uint64)

    def __call__(self, arrays: Sequence[Array]) -> Array:
        """As uint64; not to be changed."""
        seen, at = self._known  # both at once: other threads may be here too
        if not same(seen, arrays):
            at = positions(arrays)
            self._known = [weakref.ref(a) for a in arrays], at
        return at


class Held:
    """What follows from the arrays of some variables and their slots for as long as these are the same arrays, which
    are held weakly as well."""

    def __init__(self, arrays: Sequence[Array], kinds: int, taken: bool):
        """arrays: of the variables, then of each slot: so many kinds. taken: whether a loop takes them, for which
        `columns` says where they begin, a row for each kind."""
        tables = arrays[: len(arrays) // kinds]
        self._seen, self.taken, self.dtype = [weakref.ref(a) for a in arrays], taken, tables[0].dtype
        self.sizes = unsigned([t.shape[0] for t in tables])
        self.widths = unsigned([math.prod(t.shape[1:]) for t in tables])
        self.columns: Array = positions(arrays).reshape(kinds, len(tables)) if taken else None

    def same(self, arrays: Sequence[Array]) -> bool:
        return same(self._seen, arrays)


def same(seen: Sequence[weakref.ref[Any]], arrays: Sequence[Array]) -> bool:
    return len(seen) == len(arrays) and all(map(is_, map(_CALL, seen), arrays))


_CALL = methodcaller("__call__")


class Updater:
    """The rule of one op with its attributes, for any number of variables at once."""

    def __init__(self, xp: Any, op: str, attrs: dict[str, Any]):
        self.update, self._xp = UPDATES[op], xp
        self._attrs = {self.update.flag: self.update.flag_default, **attrs}
        self._rule: rules.Rule = getattr(rules, self.update.rule)
        self._loop: Compiled = getattr(update_loops, self.update.rule)
        self._flag = [float(attrs.get(self.update.flag, self.update.flag_default))] if self.update.flag else []
        self._places, self._blocks, self._lock = Places(), Blocks(self._loop), Lock()
        prepare(op)

    def dense(self, held: list[Array], grad: Array, scalars: Sequence[Array]) -> None:
        """var and its slots change by a gradient of their shape."""
        if self._xp is not np:
            on_gpu = import_module("sparkflow_runtime.kernels.rules_gpu")
            if on_gpu.apply_rule(self._xp, self.update.rule, self._attrs, held, grad, scalars):
                return
        if not self._compiles([held], scalars) or not held[0].size:
            halves = self._xp is np and half_rows.all_of([held])
            for arrays, part in pieces(self._xp, held, grad):
                if halves:
                    half_rows.dense(self.dense, arrays, part, scalars)
                else:
                    self._rule(self._xp, self._attrs, arrays, part, *scalars)
            return
        grad = np.ascontiguousarray(grad)
        factors = self._factors(scalars, grad.dtype)
        with self._lock:
            self._blocks.run(self._refs([held]), grad, factors)

    def dense_tables(self, tables: Sequence[list[Array]], grads: Sequence[Array], scalars: Sequence[Array]) -> None:
        """As `dense`, of several variables in one call of the loop."""
        if not self._compiles(tables, scalars) or not all(g.flags.carray for g in grads):
            for held, grad in zip(tables, grads):
                self.dense(held, grad, scalars)
            return
        dtype = tables[0][0].dtype
        batch = unsigned([[grad.size, 0, 1, position(grad), 0] for grad in grads])
        with self._lock:
            self._loop(memory(dtype), self._refs(tables), batch, np.zeros(1, np.uint64), self._factors(scalars, dtype))

    def by_parts(self, held: list[Array], scalars: Sequence[Array]) -> Callable[[int, Array], None] | None:
        """A function (first item, the gradient of the items from there on) that changes them, for any thread; None
        where the loop does not take these arrays."""
        if not self._compiles([held], scalars):
            return None
        dtype, at = held[0].dtype, [position(array) for array in held]
        factors, row = self._factors(scalars, dtype), np.zeros(1, np.uint64)

        def change(first: int, grad: Array) -> None:
            batch = unsigned([[grad.size, 0, 1, position(grad), 0]])
            self._loop(memory(dtype), unsigned([[p + first for p in at]]), batch, row, factors)

        return change

    def sparse(
        self,
        tables: Sequence[list[Array]],
        grads: Sequence[Array],
        indices: Sequence[Array],
        scalars: Sequence[Array],
        how: str,
        names: Sequence[str],
    ) -> None:
        """The rows that indices name change by the rows of the gradients; shapes have been checked.

        tables: [var, *slots] of each. how: "summed": rows of one index are added up first; "distinct": no index
        repeats; "": rows come one after the other. Raises InvalidArgumentError before anything changes when an index is
        out of range; `names` are for that.
        """
        if not self._compiles(tables, scalars):
            if self._xp is np and half_rows.all_of(tables):
                _check(tables, indices, names)
                half_rows.sparse(self.sparse, tables, grads, indices, scalars, how, names, self.update.decays)
            else:
                self._one_by_one(tables, grads, indices, scalars, how, names)
            return
        grads = [g if rows_ready(g) else np.array(g, order="C") for g in grads]  # of a sum it is one number, repeated
        ids, starts = flat_ids(indices)
        sizes = unsigned([held[0].shape[0] for held in tables])
        if row_loops.first_outside(ids, starts[:-1], starts[1:], sizes) >= 0:
            _check(tables, indices, names)
        widths = unsigned([math.prod(held[0].shape[1:]) for held in tables])
        at, steps = positions(grads), unsigned([stride(g) for g in grads])
        rows = _Rows(tables[0][0].dtype, sizes, widths, ids, starts, at, steps)
        if how == "summed":
            self._summed(self._refs(tables), rows, scalars)
        elif how == "distinct":
            self._distinct(self._refs(tables), rows, scalars)
        else:
            self._in_turn(self._refs(tables), rows, scalars)

    def _compiles(self, tables: Sequence[list[Array]], scalars: Sequence[Array]) -> bool:
        plain = self._xp is np and self.takes_factors(scalars)
        return plain and self.takes([a for held in tables for a in held])

    def takes(self, arrays: Sequence[Array]) -> bool:
        """Whether the loop takes variables and slots of these types and layouts."""
        dtype = arrays[0].dtype
        plain = self._xp is np and dtype.char in "fd"
        return plain and all(a.dtype is dtype and a.flags.carray for a in arrays)

    def takes_factors(self, scalars: Sequence[Array]) -> bool:
        ftrl = self.update.rule == "ftrl"
        return not (ftrl and (scalars[-1] != -0.5 or self._attrs.get("multiply_linear_by_lr")))

    def _refs(self, tables: Sequence[list[Array]]) -> Array:
        return self._places([a for held in tables for a in held]).reshape(len(tables), -1)

    def _factors(self, scalars: Sequence[Array], dtype: Any) -> Array:
        return np.array([*map(float, scalars), *self._flag], dtype)

    def _summed(self, refs: Array, rows: _Rows, scalars: Sequence[Array]) -> None:
        """Rows of one index are summed; then none repeats. As many tables at a time as the cache holds, and large
        updates by several threads."""
        counts = rows.starts[1:] - rows.starts[:-1]
        ends = (counts * rows.widths).cumsum()
        distinct, most = np.empty_like(rows.ids), int(counts.max())
        if ends[-1] <= _FEW:
            self._sum_tables(refs, rows, distinct, most, scalars)
            return
        groups = list(_chunks([0, *ends.tolist()]))

        def work(mine: Sequence[tuple[int, int]]) -> None:
            for a, b in mine:
                self._sum_tables(refs[a:b], rows.of(a, b), distinct, most, scalars)

        share(work, groups) if ends[-1] >= _SHARED and not self.update.decays else work(groups)

    def _sum_tables(self, refs: Array, rows: _Rows, distinct: Array, most: int, scalars: Sequence[Array]) -> None:
        """distinct: room for the ids of all tables; most: no table has more."""
        dtype, widths, starts, ends = rows.dtype, rows.widths, rows.starts[:-1], rows.starts[1:]
        held = scratch("sums of rows", (int(((ends - starts) * widths).sum()),), dtype)
        sums, counts = np.empty(len(refs) + 1, np.uint64), np.empty_like(starts)
        sums[0] = position(held)
        heads = scratch("heads", (max(16, 4 * most),), np.uint64)
        given = widths, rows.ids, starts, ends, rows.at, rows.steps
        row_loops.sum_by_id(memory(dtype), *given, sums, distinct, counts, heads)
        self.change(dtype, refs, distinct, _parts(widths, starts, counts, sums[:-1]), scalars, rows.sizes)

    def _distinct(self, refs: Array, rows: _Rows, scalars: Sequence[Array]) -> None:
        """No index repeats, and the gradients mostly are one array's after the other's."""
        starts, ends = rows.starts[:-1], rows.starts[1:]
        reach = rows.at + (ends - starts) * rows.widths
        if np.array_equal(rows.steps, rows.widths) and np.array_equal(rows.at[1:], reach[:-1]):
            parts = _parts(rows.widths, starts, ends - starts, rows.at)
            self.change(rows.dtype, refs, rows.ids, parts, scalars, rows.sizes)
        else:
            self._in_turn(refs, rows, scalars)

    def _in_turn(self, refs: Array, rows: _Rows, scalars: Sequence[Array]) -> None:
        batch = np.stack([rows.widths, rows.starts[:-1], np.diff(rows.starts), rows.at, rows.steps], 1)
        factors = self._factors(scalars, rows.dtype)
        if self.update.decays:
            decay_loops.decay_others(rows.dtype, refs, batch, rows.ids, factors, rows.sizes)
        self._loop(memory(rows.dtype), refs, batch, rows.ids, factors)

    def change(
        self, dtype: Any, refs: Array, ids: Array, parts: Array, scalars: Any, sizes: Array, threads: int = 1
    ) -> None:
        """By gradients that lie one table's after the other's. parts: as distinct_loops.lay_out has them, the rows by
        their positions. sizes: how many rows each table has. threads: that may be at it where there is much to do; each
        has tables of its own."""
        space, factors = memory(dtype), self._factors(scalars, dtype)
        batch, refs = np.ascontiguousarray(parts[:5].T), np.ascontiguousarray(refs)
        if self.update.decays:
            decay_loops.decay_others(dtype, refs, batch, ids, factors, sizes, threads > 1)
        items, arguments = parts[0] * parts[2], (space, refs, batch, ids, factors)
        shared = threads > 1 and len(items) > 1 and items.sum() >= HANDED_OVER
        address = self._loop.entry(arguments) if shared else 0
        if not address or not crew.ready(threads):
            self._loop(*arguments)
            return
        groups = [(refs[a:b], batch[a:b]) for a, b in even_ranges(items)]
        crew.run(table_of([(address, (id(space), id(r), id(b), id(ids), id(factors))) for r, b in groups]))

    def _one_by_one(self, tables: Any, grads: Any, indices: Any, scalars: Any, how: str, names: Sequence[str]) -> None:
        _check(tables, indices, names)
        linear = self._xp is not np and self.update.rule == "gradient_descent"  # or a round for each time of one id
        for held, grad, rows in zip(tables, grads, indices):
            if how == "summed" or (linear and not how):
                rows, positions, _ = unique_parts(self._xp, rows)
                grad = sum_rows(self._xp, grad, positions, rows.size)
            if self.update.decays:
                decay_loops.decay_others_of(self._xp, held, rows, scalars)
            if rows.size:
                update_rows(self._xp, self._rule, self._attrs, held, grad, rows, scalars)


class _Rows(NamedTuple):
    """The gradients' rows of all tables, as row_loops takes them."""

    dtype: Any
    sizes: Array  # of the tables
    widths: Array
    ids: Array
    starts: Array  # one more than tables
    at: Array
    steps: Array

    def of(self, a: int, b: int) -> _Rows:
        """Those of tables a to b."""
        own = self.starts[a : b + 1], self.at[a:b], self.steps[a:b]
        return _Rows(self.dtype, self.sizes[a:b], self.widths[a:b], self.ids, *own)


for _op in UPDATES:
    registry.prepares(partial(prepare, _op), _op)

_FEW = 1 << 13  # items of all rows
_SHARED = 1 << 19  # items of an update that several threads do
HANDED_OVER, _GROUPS = 1 << 16, 8  # items of rows from which the crew is asked, and groups of tables that it is given
_CHUNK = 1 << 18  # items that are summed at once: fewer spend more on calls than the cache gives


def _chunks(ends: list[int]) -> Iterator[tuple[int, int]]:
    """Ranges of tables; ends[t] is where table t begins, and each range but of one table has at most _CHUNK items."""
    begin = 0
    for t in range(1, len(ends)):
        last = t == len(ends) - 1
        if last or ends[t + 1] - ends[begin] > _CHUNK:
            if ends[t] > ends[begin]:
                yield begin, t
            begin = t


def even_ranges(items: Array) -> list[tuple[int, int]]:
    """Ranges of tables that have about as many items each, for the threads of the crew."""
    ends = items.cumsum()
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, _GROUPS) // _GROUPS) + 1
    bounds = [0, *dict.fromkeys(cuts[cuts < len(items)].tolist()), len(items)]
    return list(pairwise(bounds))


def _check(tables: Sequence[list[Array]], indices: Sequence[Array], names: Sequence[str]) -> None:
    for held, rows, name in zip(tables, indices, names):
        check_indices(rows, len(held[0]), name)


def _parts(widths: Array, starts: Array, counts: Array, at: Array) -> Array:
    """A column for each table, as distinct_loops.lay_out makes them."""
    return np.stack([widths, starts, counts, at, widths, starts + counts])


def flat_ids(indices: Sequence[Array]) -> tuple[Array, Array]:
    """(ids, starts), unsigned: the ids one after the other, and where those of each begin, the end too. A negative id
    becomes a huge one."""
    if len(indices) == 1:
        alone = np.ascontiguousarray(indices[0], np.int64).reshape(-1)
        return alone.view(np.uint64), np.array([0, alone.size], np.uint64)
    starts = np.zeros(len(indices) + 1, np.int64)
    np.cumsum([i.size for i in indices], out=starts[1:])
    ids = np.empty(int(starts[-1]), np.int64)
    np.concatenate([i.reshape(-1) for i in indices], out=ids, casting="same_kind")
    return ids.view(np.uint64), starts.view(np.uint64)
