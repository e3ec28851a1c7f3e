"""The types of a Dask DataFrame's columns."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from dask.dataframe import DataFrame
from dask.dataframe.utils import UNKNOWN_CATEGORIES

from sparkflow_connectors.column_types import is_text
from sparkflow_connectors.rows import native, table_of
from sparkflow_runtime.wire.errors import InvalidArgumentError

_LOOK_AT_ROWS = 20
_OF_OBJECT = re.compile(r"\[\s*([-+.\d'\"\[\]]|nan|inf)|array\(|\{['\"\d}]")  # but not [CLS], {a}, (x)


def arrow_schema(ddf: Any, names: Sequence[str] | None = None) -> pa.Schema:
    """The types of its columns (of these names, or all). What `object` columns hold, lists or bytes or decimals, and
    categories that are not known, only rows tell: the first ones of the table are computed where there is such a
    column, and the first with a value, in whatever partition, where these have none."""
    check_frame(ddf)
    if names is None:
        _check_names(ddf.columns)
    sample = ddf._meta if names is None else native(ddf._meta, names)
    if not all(map(_is_told, sample.dtypes)):
        wanted = ddf if names is None else ddf[list(names)]
        untold = [name for name, dtype in zip(wanted.columns, sample.dtypes, strict=True) if not _is_told(dtype)]
        first = _first_rows(wanted)
        if not all(_that_tell(first[name], 1) for name in untold):  # no row there, or nothing but nulls
            telling = wanted.map_partitions(_telling_rows, untold, meta=wanted._meta, enforce_metadata=False)
            first = telling.compute()
        sample = first if len(first) else wanted._meta_nonempty
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


def _first_rows(ddf: Any) -> Any:
    """Of the first partition; that it may have fewer rows is no news. Raises InvalidArgumentError where it has not the
    columns that the frame says: what is not in it would be left out of all."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Insufficient elements for `head`")
        try:
            found = ddf.head(_LOOK_AT_ROWS, npartitions=1, compute=True)
        except KeyError as error:
            raise said_of_partition(error, ddf.columns) from None
    if gone := [name for name in ddf.columns if name not in found.columns]:
        raise said_of_partition(KeyError(gone[0]), gone)
    return found


def _telling_rows(part: Any, names: Sequence[str]) -> Any:
    """The first row, and of each of these columns the first ones that tell what it holds."""
    found = {0}.union(*(_that_tell(part[name], _LOOK_AT_ROWS) for name in names if name in part.columns))
    return part.iloc[sorted(found)] if len(part) else part


def _that_tell(column: Any, most: int) -> list[int]:
    """Which rows have a value, and no list of nothing."""
    if column.dtype.name != "object":
        return np.flatnonzero(column.notna())[:most].tolist()
    return list(islice((row for row, value in enumerate(column.to_numpy()) if _tells(value)), most))


def _tells(value: Any) -> bool:
    return any(map(_tells, value)) if isinstance(value, list | tuple | np.ndarray) else not pd.isna(value)


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


@contextmanager
def strings_told(ddf: Any) -> Iterator[None]:
    """An error about a column of strings says so where Dask has made them of lists."""
    try:
        yield
    except InvalidArgumentError as error:
        names = [name for name in ddf.columns if f"Column {name!r} has type " in error.message]
        if names and pd.api.types.is_string_dtype(ddf.dtypes[names[0]]):
            texts = _first_rows(ddf[names])[names[0]].dropna().tolist()
            if texts and _is_made(texts[0]):
                raise InvalidArgumentError(f"{error.message}. {_as_strings(texts[0])}") from None
        raise


def check_values(name: str, table: pa.Table, value: str, dtypes: Mapping[str, Any] | None) -> pa.Table:
    """The table of a variable; a string variable is asked for by `dtypes` where its texts look like lists. Raises
    InvalidArgumentError."""
    if value in table.schema.names and is_text(table.schema.field(value).type):
        text = next((text for text in islice(table[value], _LOOK_AT_ROWS) if text.is_valid), None)
        if text is not None and name not in (dtypes or {}) and _OF_OBJECT.match(text.as_py()):
            raise InvalidArgumentError(f"Variable {name!r}: column {value!r} has strings. {_as_strings(text.as_py())}")
    return table


def made_strings(part: pd.DataFrame) -> dict[str, str]:
    """By column: a text that looks like a list or an array of which Dask has made it."""
    texts = (name for name, dtype in part.dtypes.items() if pd.api.types.is_string_dtype(dtype))
    first = ((name, text) for name in texts for text in part[name].head(_LOOK_AT_ROWS).dropna().head(1))
    return {name: text for name, text in first if _is_made(text)}


def _is_made(text: Any) -> bool:
    """Whether it is a text of which Dask has made it; columns of objects are strings to pandas, too."""
    return isinstance(text, str) and _OF_OBJECT.match(text) is not None


def _as_strings(text: str) -> str:
    return (
        f"Dask has made strings of its objects, such as {text[:40]!r}: call "
        'dask.config.set({"dataframe.convert-string": False}) before the DataFrame is made'
    )
