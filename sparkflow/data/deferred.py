"""Datasets whose elements are worked out late: slices of arrays, and what functions of many elements at once make.

Shuffling, repeating and taking change the order and number of elements and not what they are; so they are done to what
the elements are made of, and a batch is made at once: rows of an array are taken by their numbers, a function that
has a form for many elements (`vectorized.py`) is called once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from sparkflow.data.elements import Fed, Function
from sparkflow.data.lasting import Lasting, lose
from sparkflow.framework import shapes
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError, OpError

Row = list[Any]
Columns = list[Any]


class Step(NamedTuple):
    """From what an element is made of to its leaves, and from a list of such to stacked leaves. padded: to leaves that
    are filled up as Padding says, or None where they have to be made one by one."""

    one: Callable[[Any], Row]
    many: Callable[[Sequence[Any]], Columns]
    padded: Callable[[Sequence[Any], Padding], Columns | None] = lambda rows, padding: None


class Padding(NamedTuple):
    """Of each leaf its size, where that is known, and what it is filled up with."""

    dims: Sequence[shapes.Dims]
    fill: Sequence[Any]
    kinds: Sequence[dtypes.DType]


Bind = Callable[[Fed], Step]


def slices(arrays: Callable[[Fed], list[Any]]) -> Bind:
    """From numbers of rows."""

    def bind(fed: Fed) -> Step:
        found = arrays(fed)
        return Step(lambda i: [a[i] for a in found], lambda rows: _taken(found, rows))

    return bind


def _taken(arrays: Sequence[Any], rows: Sequence[int]) -> Columns:
    where = np.asarray(rows, np.intp)
    return [a.take(where, 0) for a in arrays]


def whole(fed: Fed) -> Step:
    """Of rows that are elements already."""
    return Step(lambda row: row, stacked_rows)


def whole_with(sparse: Sequence[int]) -> Bind:
    """The same where SparseTensors, whose parts begin at these leaves, are among them."""
    if not sparse:
        return whole
    parts = {at + i for at in sparse for i in range(3)}

    def many(rows: Sequence[Row]) -> Columns:
        columns = list(zip(*rows, strict=True))
        plain = iter(stacked_rows([[x for i, x in enumerate(row) if i not in parts] for row in rows]))
        found: Columns = []
        for i in range(len(columns)):
            if i in sparse:
                found += _joined(*columns[i : i + 3])
            elif i not in parts:
                found.append(next(plain))
        return found

    return lambda fed: Step(lambda row: row, many)


def _joined(indices: Sequence[Any], values: Sequence[Any], sizes: Sequence[Any]) -> list[Any]:
    """The parts of one SparseTensor with an axis more. Raises InvalidArgumentError where they have other axes."""
    if len({len(s) for s in sizes}) > 1:
        shown = next(list(s) for s in sizes if len(s) != len(sizes[0]))
        raise InvalidArgumentError(
            f"Cannot batch SparseTensors of different ranks: shapes {list(sizes[0])} and {shown}"
        )
    rows = np.repeat(np.arange(len(values)), [len(v) for v in values])
    largest = np.max(sizes, 0) if len(sizes[0]) else np.empty(0, np.int64)
    places = np.concatenate(indices)
    return [
        np.concatenate([rows[:, None], places], 1),
        np.concatenate(values),
        np.concatenate([[len(values)], largest]).astype(np.int64),
    ]


def with_one_axis_more(
    dims: Sequence[shapes.Dims], stacked: Sequence[shapes.Dims], sparse: Sequence[int]
) -> tuple[shapes.Dims, ...]:
    """The static shapes of a batch's leaves. dims: of an element's; stacked: of those that are no SparseTensor's."""
    found = list(stacked)
    for at in sparse:
        size = dims[at + 2]
        rank = None if size is None or size[0] is None else size[0] + 1
        found[at : at + 3] = [(None, rank), (None,), (rank,)]
    return tuple(found)


def mapped(first: Bind, function: Function) -> Bind:
    """`first`, then the function. Where it refuses many at once, they are made one by one, with an error for the one
    that is wrong."""

    def bind(fed: Fed) -> Step:
        before = first(fed)
        call = cache(lambda: function.bound(fed))  # either is made when it is first needed
        of_many = cache(lambda: function.bound_to_many(fed))
        stacked = whole_with(function.spec.sparse)(fed).many

        def one(row: Any) -> Row:
            return call()(before.one(row))

        def many(rows: Sequence[Any]) -> Columns:
            try:
                found = of_many()(before.many(rows))
                return _of_one_size(found, function.ragged, len(rows)) if function.ragged else found
            except (OpError, ValueError, TypeError):
                return stacked([one(row) for row in rows])

        def in_padding(rows: Sequence[Any], padding: Padding) -> Columns | None:
            try:
                return _filled_up(of_many()(before.many(rows)), function.ragged, len(rows), padding)
            except (OpError, ValueError, TypeError):
                return None

        return Step(one, many, in_padding) if function.ragged else Step(one, many)

    return bind


def _of_one_size(columns: Columns, ragged: dict[int, int], rows: int) -> Columns:
    """Raises ValueError where vectors differ in size."""
    found = columns[: len(columns) - len(ragged)]
    for i, at in ragged.items():
        counts = np.bincount(columns[at][:, 0], minlength=rows)
        if counts.min() != counts.max():
            raise ValueError
        found[i] = columns[i].reshape(rows, -1) if len(columns[i]) else np.empty((rows, 0), columns[i].dtype)
    return found


def _filled_up(columns: Columns, ragged: dict[int, int], rows: int, padding: Padding) -> Columns:
    found = []
    for i, (column, size, fill, kind) in enumerate(zip(columns, *padding)):
        if i not in ragged:
            found.append(padded(tuple(column), size, fill, kind))
            continue
        places = columns[ragged[i]]
        largest = int(places[:, 1].max(initial=-1)) + 1
        wanted = largest if size is None or size[0] is None else size[0]
        check_padding([largest], [wanted])
        out = np.full((rows, wanted), fill, kind.np)
        out[places[:, 0], places[:, 1]] = column
        found.append(out)
    return found


def stacked_rows(rows: Iterable[Row]) -> Columns:
    """Raises InvalidArgumentError where they differ in shape."""
    group = list(rows)
    try:
        return [_stacked(column) for column in zip(*group, strict=True)]
    except ValueError:
        shown = [np.shape(x) for x in group[0]], [np.shape(x) for x in group[-1]]
        raise InvalidArgumentError(f"Cannot batch tensors with different shapes: {shown}. Use padded_batch") from None


def _stacked(column: Sequence[Any]) -> Any:
    first = column[0]
    if isinstance(first, bytes):
        out = np.empty(len(column), object)
        out[:] = column
        return out
    if not np.ndim(first):
        plain = getattr(first, "dtype", np.dtype(object)).kind != "O"
        return np.array(column, first.dtype) if plain else np.stack(column)
    if any(x.shape != first.shape for x in column):
        raise ValueError
    return np.concatenate(column).reshape(len(column), *first.shape)


# ---------------------------------------------------------------------- batches


def one_by_one(step: Step, source: Iterable[Any]) -> Lasting:
    """What the step makes of each."""

    def rows() -> Iterator[Row]:
        for row in source:
            try:
                made = step.one(row)
            except Exception:
                lose(source)
                raise
            yield made

    return Lasting(rows)


def batches(
    source: Iterable[Any], size: int, drop: bool, many: Callable[[list[Any]], Columns], one: Callable[[Any], Any] | None
) -> Lasting:
    """What `many` makes of so many rows at a time; drop: not of fewer.

    After an error the next batch begins behind the row that failed, in the source or where `one` makes something of
    it; without `one` the whole batch is gone.
    """
    again: Iterator[Any] = iter(())  # rows that stood behind one that failed
    owed = 0  # rows of a batch that failed which the source still has

    def failed(group: list[Any]) -> None:
        nonlocal again
        for i, row in enumerate(group if one is not None else ()):
            try:
                one(row)  # type: ignore[misc]
            except Exception:
                lose(source)
                again = chain(group[i + 1 :], again)
                return

    def rows() -> Iterator[Columns]:
        nonlocal owed
        while owed:
            owed -= 1
            with suppress(Exception):
                next(iter(source), None)
        waiting = chain(again, source)
        while True:
            group: list[Any] = []
            try:
                group += islice(waiting, size)
            except Exception:
                owed = size - len(group) - 1 if one is None else 0
                raise
            if not group:
                return
            if drop and len(group) < size:
                continue
            try:
                made = many(group)
            except Exception:
                failed(group)
                raise
            yield made

    return Lasting(rows)


def padded_columns(step: Step, rows: Sequence[Any], padding: Padding) -> Columns:
    """At once where that can be, and one by one."""
    found = step.padded(rows, padding)
    if found is not None:
        return found
    columns = zip(*(step.one(row) for row in rows))
    return [padded(c, d, v, t) for c, d, v, t in zip(columns, *padding)]


def padded(column: tuple[Any, ...], dims: shapes.Dims, value: Any, dtype: dtypes.DType) -> Any:
    arrays = [np.asarray(x, object if dtype is dtypes.string else None) for x in column]
    largest = np.max([a.shape for a in arrays], axis=0).tolist() if arrays[0].ndim else []
    sizes = [m if d is None else d for m, d in zip(largest, dims or [None] * len(largest))]
    check_padding(largest, sizes)
    out = np.full((len(arrays), *sizes), value, dtype.np)
    for i, a in enumerate(arrays):
        region: tuple[Any, ...] = (i, *(slice(n) for n in a.shape))
        out[region] = a[()]
    return out


def check_padding(largest: list[int], sizes: list[int]) -> None:
    if any(m > s for m, s in zip(largest, sizes)):
        raise DataLossError(f"Attempted to pad to a smaller size than the input element: {largest} > {sizes}")
