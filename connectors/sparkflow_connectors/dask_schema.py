"""The types of a Dask DataFrame's columns."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from dask.dataframe import DataFrame
from dask.dataframe.utils import UNKNOWN_CATEGORIES

from sparkflow_connectors.rows import native, table_of
from sparkflow_runtime.wire.errors import InvalidArgumentError

_LOOK_AT_ROWS = 20


def arrow_schema(ddf: Any, names: Sequence[str] | None = None) -> pa.Schema:
    """The types of its columns (of these names, or all). What `object` columns hold, lists or bytes or decimals, and
    categories that are not known, only rows tell: the first ones of the table are computed where there is such a
    column."""
    check_frame(ddf)
    if names is None:
        _check_names(ddf.columns)
    sample = ddf._meta if names is None else native(ddf._meta, names)
    if not all(map(_is_told, sample.dtypes)):
        wanted = ddf if names is None else ddf[list(names)]
        sample = wanted._meta_nonempty
        first = _first_rows(wanted, 1)
        if not first.notna().any().all():  # a partition without a row, or without a value in some column
            first = _first_rows(wanted, -1)
        sample = first if len(first) else sample
    found = table_of(sample).schema
    return pa.schema([_with_room(field, sample[field.name]) for field in found])


def check_frame(ddf: Any) -> None:
    """Raises InvalidArgumentError on anything but a Dask DataFrame."""
    if not isinstance(ddf, DataFrame):  # nor one of Dask's arrays, bags, delayed objects and series
        raise InvalidArgumentError(
            f"Expected a Dask DataFrame, got {type(ddf).__module__}.{type(ddf).__name__}. Pandas DataFrames become one "
            "by dask.dataframe.from_pandas, or are for tf.local"
        )


def _is_told(dtype: Any) -> bool:
    """Whether the frame itself says what the values are."""
    if dtype.name == "category":
        return UNKNOWN_CATEGORIES not in dtype.categories
    return bool(dtype.name != "object")


def _check_names(names: Any) -> None:
    """Raises InvalidArgumentError unless each column is called by a string of its own."""
    for name in names:
        if not isinstance(name, str):
            raise InvalidArgumentError(
                f"Column {name!r} has a name that is no string ({type(name).__name__}): rename it"
            )
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidArgumentError(f"Column {name!r} is there {count} times: give the columns different names")


def _with_room(field: pa.Field, column: Any) -> pa.Field:
    """Of decimals that are objects, a few rows tell how many digits follow the point, but not how many there are."""
    if column.dtype.name == "object" and pa.types.is_decimal(field.type):
        return field.with_type(pa.decimal128(38, field.type.scale))
    return field


def _first_rows(ddf: Any, partitions: int) -> Any:
    """Of the first partitions (-1: of all); that there may be fewer rows is no news. Raises InvalidArgumentError where
    these have not the columns that the frame says: what is not in them would be left out of all."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Insufficient elements for `head`")
        try:
            found = ddf.head(_LOOK_AT_ROWS, npartitions=partitions, compute=True)
        except KeyError as error:
            raise said_of_partition(error, ddf.columns) from None
    if gone := [name for name in ddf.columns if name not in found.columns]:
        raise said_of_partition(KeyError(gone[0]), gone)
    return found


def said_of_partition(error: BaseException, columns: Iterable[str]) -> BaseException:
    """The error of a partition, said in our words where a column is what it lacks."""
    gone = [name for name in columns if isinstance(error, KeyError) and repr(name) in str(error)]
    if not gone:
        return error
    found = InvalidArgumentError(
        f"Column {gone[0]!r} is missing in a partition of the table ({error}): it has other columns than the table. "
        "Make all partitions alike"
    )
    found.__cause__ = error
    return found
