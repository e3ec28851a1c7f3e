"""A variable as a table with a row for each of its rows, and such tables as a checkpoint to start from.

rows = tf.spark.variable_table(model, "users")       # row: bigint, value: array<float>; or "out/model.ckpt-100"
tf.spark.write_variables("warm/model.ckpt", {"users": changed}, base=model)
tf.train.init_from_checkpoint("warm/model.ckpt", {"users": "users"})  # in the model function
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import ItemsView, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import sparkflow as tf
from sparkflow_connectors.arrow_numpy import is_valid
from sparkflow_connectors.column_types import is_list, is_text, is_vector, number_type
from sparkflow_connectors.decimals import doubles, for_integers
from sparkflow_connectors.model import Model, check_fingerprint, fingerprint
from sparkflow_connectors.plain_types import plain_column
from sparkflow_connectors.predictions import arrow_type, column
from sparkflow_connectors.record_vectors import listed
from sparkflow_connectors.schema import check_column
from sparkflow_runtime.wire.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
)

ROW, VALUE = "row", "value"
_BATCH_BYTES = 8 << 20


def prefix_of(checkpoint: Any) -> str:
    """Of a Model (its checkpoint), or the path as it is given. Raises InvalidArgumentError on anything else,
    FailedPreconditionError where another training has replaced the model's."""
    if isinstance(checkpoint, Model):
        if not checkpoint.checkpoint:
            raise InvalidArgumentError("The model has no variables: its graph holds all it knows")
        check_fingerprint(checkpoint)
        return checkpoint.checkpoint
    if not isinstance(checkpoint, str | os.PathLike):
        raise InvalidArgumentError(
            f"Expected a model, a checkpoint's prefix or a folder of checkpoints, got {type(checkpoint).__name__}"
        )
    return os.fspath(checkpoint)


def _newest(checkpoint: str) -> str:
    """The prefix itself, or that of a folder's newest checkpoint. Raises NotFoundError on a folder without one."""
    if os.path.isdir(checkpoint):
        newest = tf.train.latest_checkpoint(checkpoint)
        if newest is None:
            raise NotFoundError(f"{checkpoint} holds no checkpoint")
        checkpoint = newest
    return os.path.abspath(checkpoint)


def _mark(checkpoint: str) -> str:
    """What tells it from others of its name; nothing of one in the V1 format, or of none."""
    return fingerprint(checkpoint) if os.path.exists(f"{checkpoint}.index") else ""


class Rows:
    """A variable in a checkpoint (a Model, a prefix, or a folder: its newest). Raises NotFoundError where it is not
    there, InvalidArgumentError where it is one value, or said otherwise than by its name.

    mark: of the checkpoint that is meant, for a task that reads some of its rows. Where a training has written another
    since, they would be rows of two: FailedPreconditionError."""

    def __init__(self, checkpoint: Any, name: str, mark: str = ""):
        if not isinstance(name, str):
            raise InvalidArgumentError(f"Expected a variable's name, such as its .op.name, got {type(name).__name__}")
        self.checkpoint, self.name = _newest(prefix_of(checkpoint)), name.removesuffix(":0")
        self.mark = _mark(self.checkpoint)
        if mark and self.mark != mark:
            raise FailedPreconditionError(
                f"Checkpoint {self.checkpoint} is {'another one' if self.mark else 'gone'} since the table of {name!r} "
                "was made: a training goes on there. Make the table anew, or copy the checkpoint first"
            )
        self._reader = tf.train.NewCheckpointReader(self.checkpoint)
        shapes = self._reader.get_variable_to_shape_map()
        if self.name not in shapes:
            raise NotFoundError(f"Checkpoint {self.checkpoint} has no variable {name!r}; it has {', '.join(shapes)}")
        self.shape = tuple(shapes[self.name])
        if not self.shape:
            raise InvalidArgumentError(f"Variable {name!r} is one value, no table; tf.train.load_variable reads it")
        self.dtype = self._reader.get_variable_to_dtype_map()[self.name]
        self.schema = pa.schema([(ROW, pa.int64()), (VALUE, arrow_type(name, self.dtype, self.shape[1:], "Variable"))])

    @property
    def step(self) -> int:
        """Rows of a batch."""
        return max(1, _BATCH_BYTES // max(1, int(np.prod(self.shape[1:])) * self.dtype.size))

    def batches(self, first: int = 0, last: int | None = None) -> Iterator[pa.RecordBatch]:
        """Rows [first, last); no more than these are read."""
        last = self.shape[0] if last is None else last
        for at in range(first, last, self.step):
            end = min(last, at + self.step)
            values = self._reader.get_rows(self.name, at, end)
            arrays = [
                pa.array(np.arange(at, end)),
                column(self.name, values, self.schema.field(VALUE).type, "Variable"),
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def as_arrow(checkpoint: Any, name: str) -> pa.Table:
    """The variable as an Arrow table: row (int64), value (a number, or lists of them)."""
    rows = Rows(checkpoint, name)
    return pa.Table.from_batches(rows.batches(), rows.schema)


def tables_of(tables: Any) -> ItemsView[str, Any]:
    """(variable, its table). Raises InvalidArgumentError where they are no dict by name."""
    if not isinstance(tables, Mapping) or not all(isinstance(name, str) for name in tables):
        raise InvalidArgumentError(f"tables must be a dict of tables by a variable's name, got {reprlib.repr(tables)}")
    return tables.items()


def write(
    path: str | os.PathLike[str],
    tables: Mapping[str, pa.Table],
    base: Any = None,
    dtypes: Mapping[str, Any] | None = None,
) -> str:
    """A checkpoint of these variables, to start from by tf.train.init_from_checkpoint; `path`, its prefix.

    tables: variable -> table with `row` and `value`, in any order. base: a Model or a checkpoint that has the rows that
    a table lacks, and the dtypes; without it every row must be there. dtypes: variable -> its dtype, where that is not
    the table's: most tables have doubles, and most variables float32.

    Raises InvalidArgumentError on a row that is missing, there twice, null, or of another shape, on a value that the
    dtype has not, where path is a folder, and where it is that of base, whose other variables would be gone; nothing is
    written then.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidArgumentError(f"path must be a checkpoint's prefix, got {type(path).__name__}")
    if not isinstance(dtypes, Mapping | None):
        raise InvalidArgumentError(f"dtypes must be a dict of dtypes by a variable's name, got {dtypes!r}")
    path = os.path.abspath(path)
    if os.path.isdir(path):  # the checkpoint would lie beside it, and who reads `path` finds the folder
        raise InvalidArgumentError(f"{path} is a folder, and a checkpoint's path is a prefix, such as {path}/variables")
    base = None if base is None else _newest(prefix_of(base))
    if base is not None and os.path.realpath(base) == os.path.realpath(path):
        raise InvalidArgumentError(
            f"{path} is the checkpoint of `base`, whose other variables would be gone. Give another"
        )
    asked = {name.removesuffix(":0"): tf.as_dtype(dtype) for name, dtype in (dtypes or {}).items()}
    if unknown := sorted(asked.keys() - {name.removesuffix(":0") for name in tables}):
        raise InvalidArgumentError(f"dtypes: there is no table of variable {unknown[0]!r}")
    values: dict[str, np.ndarray] = {}
    for given, table in tables.items():
        name = given.removesuffix(":0")
        if name in values:
            raise InvalidArgumentError(f"Variable {name!r} has two tables: it is named with and without ':0'")
        values[name] = _assembled(name, table, base, asked.get(name))
    if not values:
        raise InvalidArgumentError("There is no variable to write")
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise PermissionDeniedError(f"{path} cannot be written: {error.strerror}") from None
    if not os.access(os.path.dirname(path), os.W_OK):
        raise PermissionDeniedError(f"{os.path.dirname(path)}: this process may not write here")
    with tf.Graph().as_default(), tf.Session() as session:
        made = {n: tf.Variable(tf.placeholder(v.dtype, v.shape), name=n, use_resource=False) for n, v in values.items()}
        for name, variable in made.items():
            variable.load(values[name], session)
        return str(tf.train.Saver(made).save(session, path, write_meta_graph=False, write_state=False))


def _assembled(name: str, table: pa.Table, base: str | None, asked: Any) -> np.ndarray:
    for wanted in (ROW, VALUE):
        check_column(table.schema, wanted, f"Variable {name!r}: column")
    if count := table.column(ROW).null_count:
        raise InvalidArgumentError(f"Variable {name!r}: column {ROW!r} has nulls, {count} of {table.num_rows}")
    rows = _numbers_of_rows(name, plain_column(table.column(ROW)))
    old = None if base is None else np.array(tf.train.load_variable(base, name))
    if old is not None and asked is not None and old.dtype != asked.np:
        raise InvalidArgumentError(f"Variable {name!r}: dtypes says {asked.name}, and {base} has {old.dtype}")
    if old is not None and not old.ndim:
        raise InvalidArgumentError(
            f"Variable {name!r} is one value in {base}, no table with rows. Leave it out; a model function can begin "
            "with another one by an initializer"
        )
    dtype = old.dtype if old is not None else None if asked is None else asked.np
    given = _values(name, plain_column(table.column(VALUE)), rows, dtype)
    if old is None:
        out, most = np.empty(given.shape, given.dtype if dtype is None else dtype), len(rows)
    else:
        out, most = old, len(old)
        if len(rows) and (given.shape[1:] != out.shape[1:] or rows.max() >= most):
            raise InvalidArgumentError(
                f"Variable {name!r}: the table has rows of shape {list(given.shape[1:])} up to row "
                f"{rows.max()} ({VALUE!r} is {table.column(VALUE).type}), and {base} has {list(out.shape)}"
            )
    _check_rows(name, rows, most, base is None)
    try:
        if len(rows):
            out[rows] = given if given.dtype == out.dtype else _cast(given, out.dtype, rows)
    except (TypeError, ValueError) as error:
        raise _misfit(name, out.dtype, error) from None
    return out


def _misfit(name: str, dtype: np.dtype, why: Exception) -> InvalidArgumentError:
    kind = tf.as_dtype(dtype).name
    return InvalidArgumentError(f"Variable {name!r}: column {VALUE!r} does not fit its dtype, {kind}: {why}")


def _cast(given: np.ndarray, dtype: np.dtype, rows: np.ndarray) -> np.ndarray:
    """Floats are rounded. Raises ValueError on a number that the dtype has not, TypeError on a text: that is no number,
    whatever it says, nor is a number a text."""
    if "O" in (given.dtype.kind, dtype.kind):
        raise TypeError("there are strings" if given.dtype.kind == "O" else "there are no strings")
    with np.errstate(over="ignore", invalid="ignore"):
        found = given.astype(dtype)
    if dtype.kind in "iub":
        wrong = found != given
    else:
        wrong = np.isinf(found) & np.isfinite(given)
    if wrong.any():
        at = int(np.argmax(wrong.any(axis=tuple(range(1, wrong.ndim)))))
        value = given[at][wrong[at]].ravel()[0]
        raise ValueError(f"row {rows[at]} has {value}")
    return found


def _check_rows(name: str, rows: np.ndarray, most: int, all_needed: bool) -> None:
    """rows: below `most`, unless all are needed, where one beyond means that another is missing."""
    if (rows < 0).any():
        raise InvalidArgumentError(f"Variable {name!r}: row {rows.min()} is negative")
    counts = np.bincount(rows[rows < most], minlength=max(1, most))
    if (counts > 1).any():
        raise InvalidArgumentError(f"Variable {name!r}: row {int(np.argmax(counts > 1))} is there twice")
    if all_needed and (counts == 0).any():
        raise InvalidArgumentError(
            f"Variable {name!r}: row {int(np.argmin(counts))} is missing. Give `base`, a checkpoint that has it"
        )


def _numbers_of_rows(name: str, column: pa.Array) -> np.ndarray:
    """Whole numbers, also where they are kept as others (pandas makes floats of integers)."""
    kind = column.type
    try:
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            raise InvalidArgumentError(f"Variable {name!r}: column {ROW!r} has type {kind}, expected whole numbers")
        return np.asarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(f"Variable {name!r}: column {ROW!r}: {error}") from None


def _values(name: str, array: pa.Array, rows: np.ndarray, dtype: np.dtype | None) -> np.ndarray:
    """[rows, ...]. rows: their numbers. dtype: of the variable, where it is known."""
    _check_no_null(name, array, rows)
    array = listed(array) if is_vector(array.type) else array
    shape: list[int] = []
    while is_list(array.type):
        flat, lengths = array.flatten(), array.value_lengths().to_numpy(zero_copy_only=False)
        if len(lengths) and lengths.min() != lengths.max():
            of, least, most = len(lengths) // len(rows), int(np.argmin(lengths)), int(np.argmax(lengths))
            raise InvalidArgumentError(
                f"Variable {name!r}: its rows have {lengths[least]} to {lengths[most]} values, such as rows "
                f"{rows[least // of]} and {rows[most // of]}"
            )
        shape.append(int(lengths[0]) if len(lengths) else 0)
        array = flat
        _check_no_null(name, array, rows)
    return np.asarray(_leaf(name, array, dtype).to_numpy(zero_copy_only=False)).reshape(len(rows), *shape)


def _check_no_null(name: str, array: pa.Array, rows: np.ndarray) -> None:
    """array: of as many values, or lists, for each row."""
    if array.null_count:
        at = int(np.argmin(is_valid(array))) // (len(array) // len(rows))
        raise InvalidArgumentError(f"Variable {name!r}: a value is null, in row {rows[at]}")


def _leaf(name: str, array: pa.Array, dtype: np.dtype | None) -> pa.Array:
    """Numbers, booleans or strings; decimals as doubles, or as the whole numbers that the variable has."""
    kind = array.type
    if pa.types.is_decimal(kind):
        if dtype is None or dtype.kind not in "iu":
            return doubles(array)
        try:
            return for_integers(array).cast(pa.from_numpy_dtype(dtype))
        except pa.ArrowInvalid as error:
            raise _misfit(name, dtype, error) from None
    if len(array) and not (number_type(kind) or pa.types.is_boolean(kind) or is_text(kind)):
        raise InvalidArgumentError(
            f"Variable {name!r}: column {VALUE!r} has values of type {kind}, expected numbers, booleans or strings"
        )
    return array
