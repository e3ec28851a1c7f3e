"""CSV files as batches of named columns."""

from __future__ import annotations

import csv
import glob
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from sparkflow.data.dataset import Dataset, Row
from sparkflow.data.elements import Spec
from sparkflow.data.sources import opened
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

_KINDS = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.string)


def make_csv_dataset(
    file_pattern: Any, batch_size: int, column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | None = None, label_name: str | None = None,
    select_columns: Sequence[Any] | None = None, field_delim: str = ",", use_quote_delim: bool = True,
    na_value: str = "", header: bool = True, num_epochs: int | None = None, shuffle: bool = True,
    shuffle_buffer_size: int = 10000, shuffle_seed: int | None = None, prefetch_buffer_size: Any = None,
    num_parallel_reads: Any = None, sloppy: bool = False, num_rows_for_inference: int | None = 100,
    compression_type: Any = None,
) -> Dataset:  # fmt: skip
    """Batches {column: [batch] values} of CSV files, or pairs of that and the column label_name.

    column_defaults: a default, or a type where a field must be there, for each selected column in the files' order,
    whatever that of select_columns; without them the types are those of the first num_rows_for_inference rows (None:
    all). Raises ValueError on names that are not there.
    """
    patterns = [file_pattern] if isinstance(file_pattern, str) else list(file_pattern)
    files = sorted({path for pattern in patterns for path in glob.glob(pattern)})
    if not files:
        raise InvalidArgumentError(f"make_csv_dataset: no files matched {file_pattern}")
    form = _Form(field_delim, use_quote_delim, compression_type or "")
    names = list(column_names) if column_names is not None else _first_line(files[0], form)
    chosen = _chosen(names, select_columns)
    if column_defaults is not None and len(column_defaults) != len(chosen):
        raise ValueError(
            f"make_csv_dataset: column_defaults must be as many as the selected columns, {len(chosen)}, got "
            f"{len(column_defaults)}"
        )
    picked = [names[i] for i in chosen]
    if label_name is not None and label_name not in picked:
        raise ValueError(f"`label_name` {label_name!r} must be one of the columns {picked}.")

    def lines() -> Iterator[list[str]]:
        for path in files:
            for line in filter(None, islice(form.records(path), int(header), None)):
                if len(line) != len(names):
                    raise InvalidArgumentError(f"{path}: expected {len(names)} fields, got {len(line)}: {line}")
                yield [line[i] for i in chosen]

    if column_defaults is None:
        kinds = [_inferred(lines(), i, na_value, num_rows_for_inference) for i in range(len(chosen))]
        parsers = [(kind, "" if kind is dtypes.string else 0) for kind in kinds]
    else:
        parsers = [_default(d) for d in column_defaults]
    order = sorted(range(len(picked)), key=lambda i: picked[i])
    spec = Spec({picked[i]: 0 for i in order}, tuple(parsers[i][0] for i in order), tuple(() for _ in order))

    def rows(_: Any) -> Iterator[Row]:
        for line in lines():
            yield [_value(line[i], picked[i], na_value, *parsers[i]) for i in order]

    dataset = Dataset(spec, rows)
    dataset = dataset.shuffle(shuffle_buffer_size, shuffle_seed) if shuffle else dataset
    batches = dataset.repeat(num_epochs).batch(batch_size, drop_remainder=num_epochs is None)
    if label_name is None:
        return batches
    return batches.map(lambda found: ({k: v for k, v in found.items() if k != label_name}, found[label_name]))


class _Form(NamedTuple):
    """How files are written."""

    delimiter: str
    quotes: bool
    compression: str

    def records(self, path: str) -> Iterator[list[str]]:
        """Bytes that are no UTF-8 come as surrogates. Raises InvalidArgumentError on what is no CSV, by file and line,
        and as `opened` does."""
        with opened(path, self.compression) as file:
            text = io.TextIOWrapper(file, "utf-8", "surrogateescape", newline="")
            how: dict[str, Any] = {} if self.quotes else {"quoting": csv.QUOTE_NONE}
            reader = csv.reader(text, delimiter=self.delimiter, **how)
            try:
                yield from reader
            except csv.Error as error:
                raise InvalidArgumentError(f"{path}: line {reader.line_num}: {error}") from None


def _chosen(names: Sequence[str], select_columns: Sequence[Any] | None) -> list[int]:
    """The numbers of the selected columns, ascending. Raises ValueError on what no column has, and on repetitions."""
    if not select_columns:
        return list(range(len(names)))
    found = []
    for column in select_columns:
        at = names.index(column) if isinstance(column, str) and column in names else column
        if isinstance(at, str) or not 0 <= at < len(names):
            raise ValueError(f"make_csv_dataset: select_columns has {column!r}, the columns are {list(names)}")
        found.append(int(at))
    if len(set(found)) != len(found):
        raise ValueError(f"make_csv_dataset: select_columns must not repeat a column, got {list(select_columns)}")
    return sorted(found)


def _first_line(path: str, form: _Form) -> list[str]:
    names = next(form.records(path), [])
    if len(set(names)) != len(names):
        raise ValueError(f"{path}: cannot have duplicate column names: {names}")
    return names


def _fits(kind: dtypes.DType, text: str) -> bool:
    """As TensorFlow infers it, to which NaN and infinity are words."""
    try:
        return bool(_parsed(kind, text) < np.inf)
    except (ValueError, OverflowError):
        return False


def _parsed(kind: dtypes.DType, text: Any) -> Any:
    if isinstance(text, str) and "_" in text:  # which Python has in numbers
        raise ValueError(text)
    with np.errstate(over="ignore"):
        return kind.np.type(text)


def _inferred(lines: Iterator[list[str]], column: int, na_value: str, most: int | None) -> Any:
    """The first type that all fields have."""
    texts = [line[column] for _, line in zip(range(most) if most is not None else iter(int, 1), lines)]
    given = [text for text in texts if text not in ("", na_value)]
    return next((kind for kind in _KINDS[:-1] if given and all(_fits(kind, t) for t in given)), dtypes.string)


def _default(given: Any) -> tuple[dtypes.DType, Any]:
    """(type, default or None where the field must be there)."""
    if isinstance(given, dtypes.DType):
        return given, None
    value = given[0] if isinstance(given, (list, tuple)) and given else given
    array = np.asarray(value)
    kind = dtypes.string if array.dtype.kind in "SU" else dtypes.as_dtype(array.dtype)
    kind = {dtypes.float64: dtypes.float32, dtypes.int64: dtypes.int32}.get(kind, kind) if np.isscalar(value) else kind
    return kind, value


def _value(text: str, name: str, na_value: str, kind: dtypes.DType, default: Any) -> Any:
    if text in ("", na_value):
        if default is None:
            raise InvalidArgumentError(f"Field {name!r} is required but missing in a record")
        text = default
    if kind is dtypes.string:
        return text.encode(errors="surrogateescape") if isinstance(text, str) else text
    try:
        return _parsed(kind, text)
    except (ValueError, OverflowError):
        raise InvalidArgumentError(f"Field {name!r} is not a valid {kind.name}: {text!r}") from None
