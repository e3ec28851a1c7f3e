"""Rows of an SQL database as elements."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import numpy as np

from sparkflow.data.dataset import Dataset
from sparkflow.data.elements import Fed, Given, Spec, text_of
from sparkflow.framework import nest
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnimplementedError


class SqlDataset(Dataset):
    """The rows that a query gives, a tensor for each column. driver_name: "sqlite"; data_source_name: its file.

    output_types: a tuple of the columns' types. Raises InvalidArgumentError, when it runs, where the query fails, has
    another number of columns, or a value does not fit its type.
    """

    def __init__(self, driver_name: Any, data_source_name: Any, query: Any, output_types: Any):
        kinds = tuple(dtypes.as_dtype(t) for t in nest.flatten(output_types))
        given = Given(driver_name, data_source_name, query)

        def rows(fed: Fed) -> Iterator[list[Any]]:
            driver, source, text = map(text_of, given.values(fed))
            if driver != "sqlite":
                raise UnimplementedError(f"SqlDataset: the driver {driver!r} is not here; sqlite is")
            return _rows(source, text, kinds)

        super().__init__(Spec(output_types, kinds, ((),) * len(kinds)), rows, given.tensors)


def _rows(source: str, query: str, kinds: tuple[dtypes.DType, ...]) -> Iterator[list[Any]]:
    try:
        connection = sqlite3.connect(f"file:{source}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise InvalidArgumentError(f"SqlDataset: cannot open {source!r}: {error}") from error
    try:
        yield from _found(connection, query, kinds)
    except sqlite3.Error as error:
        raise InvalidArgumentError(f"SqlDataset: the query {query!r} of {source!r} fails: {error}") from error
    finally:
        connection.close()


def _found(connection: Any, query: str, kinds: tuple[dtypes.DType, ...]) -> Iterator[list[Any]]:
    for row in connection.execute(query):
        if len(row) != len(kinds):
            raise InvalidArgumentError(
                f"SqlDataset: the query gives {len(row)} columns, and output_types has {len(kinds)} types"
            )
        yield [_value(value, kind) for value, kind in zip(row, kinds)]


def _value(value: Any, kind: dtypes.DType) -> Any:
    """A column's value; NULL is zero, or an empty text, as in TensorFlow."""
    if kind is dtypes.string:
        return b"" if value is None else value if isinstance(value, bytes) else str(value).encode()
    if value is None:
        return np.zeros((), kind.np)[()]
    try:
        return kind.np.type(bool(value) if kind is dtypes.bool_ else value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"SqlDataset: the value {value!r} is no {kind.name}: {error}") from error
