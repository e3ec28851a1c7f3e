"""Which tensors a column gives: from its Arrow type and its Column, before any row is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from sparkflow_connectors.columns import DENSE, RAGGED, SPARSE, Column
from sparkflow_connectors.plain_types import plain_type
from sparkflow_connectors.uncached import Uncached
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError

NUMBERS = {
    getattr(pa, n)(): dtypes.ALL[n]
    for n in (
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    )
}  # fmt: skip
_VECTOR = ("type", "size", "indices", "values")
INDICES, LENGTH = "/indices", "/length"


class Tensor(NamedTuple):
    """What a column gives a row. shape: of a row; None: as many as the longest row has."""

    dtype: DType
    shape: tuple[int | None, ...]


@dataclass(frozen=True)
class Source(Uncached):
    """A column of a table, of this type, as its Column has it. Raises InvalidArgumentError where the two do not fit.

    dtype: of the values. tensors: by name; a sparse or ragged column is `name`, padded to the longest row,
    `name/length` and, of sparse vectors, `name/indices`.
    """

    column: Column
    arrow: pa.DataType

    def __post_init__(self) -> None:
        _ = self.tensors, self.dtype
        self._check_fill("default", self.column.default)
        self._check_fill("pad", self.column.pad)

    @property
    def name(self) -> str:
        return self.column.name

    @cached_property
    def plain(self) -> pa.DataType:
        """The type in its plain form, see plain_types.py."""
        return plain_type(self.arrow)

    @cached_property
    def is_number(self) -> bool:
        """Whether a row is one number, as the tensor has it."""
        column = self.column
        return number_type(self.arrow) is not None and column.cast is None and not column.is_by_id and not column.shape

    @cached_property
    def is_vector(self) -> bool:
        return is_vector(self.plain)

    @cached_property
    def is_many(self) -> bool:
        """Whether a row has any number of values."""
        return self.is_vector or self.as_bytes or is_list(self.plain)

    @cached_property
    def as_bytes(self) -> bool:
        """Whether it is bytes that count as numbers."""
        return self.column.cast == dtypes.uint8 and is_binary(self.plain)

    @cached_property
    def leaf(self) -> pa.DataType:
        """The type of the values."""
        found = pa.float64() if self.is_vector else self.plain
        if self.as_bytes:
            return pa.uint8()
        while is_list(found):
            found = found.value_type
        return found

    @cached_property
    def dtype(self) -> DType:
        column = self.column
        if column.is_by_id:
            if not (is_text(self.leaf) or pa.types.is_integer(self.leaf)):
                raise self._refusal("a vocabulary or hash_buckets is for strings and whole numbers")
            return dtypes.int64
        found = _dtype_of(self.leaf)
        if found is None:
            fields = self.leaf if pa.types.is_struct(self.leaf) and self.leaf.num_fields else None
            what = f"make columns of its fields that you need, such as of {fields.field(0).name!r}" if fields else None
            raise self._refusal(
                f"which has no dtype; {what or 'convert it first (for example to a number, a string or a list)'}"
            )
        if column.cast is not None and (found is dtypes.string or not _is_number(column.cast)):
            raise self._refusal(f"which cannot be cast to {column.cast.name}; numbers can, to numbers")
        return found if column.cast is None else column.cast

    def _check_fill(self, what: str, value: Any) -> None:
        """What stands for a null, or at the end of a list: strings of a column that is looked up are, too."""
        dtype = self.dtype
        if value is None or (self.column.is_by_id and (what == "default" or isinstance(value, str))):
            return
        try:
            pa.scalar(value, pa.binary() if dtype is dtypes.string else pa.from_numpy_dtype(dtype.np))
            if dtype.is_integer and value != int(value):
                raise ValueError("it is no whole number")
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError, ValueError) as error:
            raise InvalidArgumentError(
                f"Column {self.name!r}: its {what} {value!r} is no {dtype.name}: {error}"
            ) from None

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        name, kind, dtype = self.name, self.column.kind, self.dtype
        if kind == DENSE:
            return {name: Tensor(dtype, self.shape)}
        if not self.is_many:
            raise self._refusal(f"which is no list: it cannot be {kind}")
        if kind == RAGGED and self.is_vector:
            raise self._refusal("which can be dense or sparse")
        if self._of_lists:
            raise self._refusal(f"lists of lists, which cannot be {kind}; flatten them")
        if self.is_vector:
            _ = self.shape  # its size must be known
        if self.column.shape is not None and not self.is_vector:
            raise self._refusal(f"and it is {kind}: say how many values a row may have by `length`, not `shape`")
        width = (self.column.length,)
        found = {name: Tensor(dtype, width), name + LENGTH: Tensor(dtypes.int32, ())}
        if self.is_vector:
            found[name + INDICES] = Tensor(dtypes.int32, width)
        return found

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Of a row, where it is dense; of a sparse vector, its size."""
        given = self.column.shape
        fixed = _fixed_sizes(self.arrow) or _fixed_sizes(self.plain)
        if fixed:
            if given is not None and math.prod(given) != math.prod(fixed):
                raise self._refusal(f"which has {math.prod(fixed)} values a row, and its shape is {list(given)}")
            return fixed if given is None else tuple(given)
        if not self.is_many:
            if given and math.prod(given) != 1:
                raise self._refusal(f"which is one value a row, and its shape is {list(given)}")
            return tuple(given or ())
        depth = len(self.inner_sizes(())) + 1
        if given is None:
            what = f"Column(..., shape=[{', '.join('nmkl'[:depth])}])"
            also = "" if self.is_vector or self._of_lists else ', or kind="sparse" or "ragged"'
            raise self._refusal(f"of any length: say how long it is, by {what}{also}")
        if self._of_lists:
            self._check_nested(tuple(given), depth)
        return tuple(given)

    @property
    def _of_lists(self) -> bool:
        return is_list(self.plain) and is_list(self.plain.value_type)

    def _check_nested(self, shape: tuple[int, ...], depth: int) -> None:
        if len(shape) != depth or self.inner_sizes(shape[1:]) != shape[1:]:
            raise self._refusal(f"lists of lists {depth} deep, and its shape is {list(shape)}")
        if self.column.pad is not None or self.column.truncate:
            raise self._refusal("lists of lists, which are neither padded nor truncated; flatten them")

    def inner_sizes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """How many values each list inside a row's has: as its type says, else as `shape` does."""
        found, kind = list[int](), self.plain.value_type if is_list(self.plain) else self.plain
        while is_list(kind):
            fixed = pa.types.is_fixed_size_list(kind)
            found.append(kind.list_size if fixed else shape[len(found)] if len(found) < len(shape) else 0)
            kind = kind.value_type
        return tuple(found)

    @cached_property
    def unit(self) -> str:
        """What its numbers count, such as ms; empty where the type does not say."""
        return _unit_of(self.leaf).partition(" ")[0]

    def _refusal(self, why: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"Column {self.name!r} has type {show(self.arrow)}, {why}")

    def spoken(self) -> str:
        """In a line: what the tensor is made from."""
        column, notes = self.column, list[str]()
        if column.vocabulary is not None:
            words = len(column.words)
            notes.append(f"vocabulary of {words}" + (f" and {n} more" if (n := column.num_oov_buckets) else ""))
        if column.hash_buckets:
            notes.append(f"Fingerprint64 modulo {column.hash_buckets}")
        if self.dtype is dtypes.string:
            also = ", or cast=uint8 and a shape" if is_binary(self.plain) else ""
            notes.append(f"a training needs a vocabulary or hash_buckets{also}")
        unit = _unit_of(self.leaf)
        notes += [unit] if unit else []
        if column.kind != DENSE:
            notes.append(column.kind)
        if column.pad is not None:
            notes.append(f"padded with {column.pad!r}")
        if column.truncate:
            notes.append("truncated")
        notes.append("null is refused" if column.default is None else f"null is {column.default!r}")
        return ", ".join(notes)


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def number_type(kind: pa.DataType) -> DType | None:
    """Of a plain number. (Extension types that are made in Python have no hash.)"""
    return None if isinstance(kind, pa.BaseExtensionType) else NUMBERS.get(kind)


def is_text(kind: pa.DataType) -> bool:
    """Strings and bytes."""
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
    )


def is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def is_vector(kind: pa.DataType) -> bool:
    """Whether it is how Spark's ML vectors come over Arrow."""
    return bool(pa.types.is_struct(kind)) and tuple(field.name for field in kind) == _VECTOR


def show(kind: pa.DataType) -> str:
    if isinstance(kind, pa.OpaqueType):
        return str(kind.type_name)
    return "ML vector" if is_vector(kind) else str(kind)


def _is_number(dtype: DType) -> bool:
    return dtype.is_integer or dtype.name in ("float16", "float32", "float64")


def _dtype_of(leaf: pa.DataType) -> DType | None:
    types = pa.types
    if (number := number_type(leaf)) is not None:
        return number
    if types.is_boolean(leaf):
        return dtypes.bool_
    if types.is_decimal(leaf):
        return dtypes.float64
    if types.is_date32(leaf) or types.is_time32(leaf):
        return dtypes.int32
    if types.is_date64(leaf) or types.is_time64(leaf) or types.is_timestamp(leaf) or types.is_duration(leaf):
        return dtypes.int64
    return dtypes.string if is_text(leaf) else None


def _unit_of(leaf: pa.DataType) -> str:
    if pa.types.is_date32(leaf):
        return "days since 1970-01-01"
    if pa.types.is_date64(leaf):
        return "ms since 1970-01-01"
    if pa.types.is_timestamp(leaf):
        return f"{leaf.unit} since 1970-01-01" + (" UTC" if leaf.tz else "")
    if pa.types.is_time(leaf) or pa.types.is_duration(leaf):
        return str(leaf.unit)
    return ""


def _fixed_sizes(kind: pa.DataType) -> tuple[int, ...]:
    if isinstance(kind, pa.FixedShapeTensorType):
        return tuple(kind.shape)
    sizes = []
    while pa.types.is_fixed_size_list(kind):
        sizes.append(kind.list_size)
        kind = kind.value_type
    return () if is_list(kind) else tuple(sizes)


__all__ = ["DENSE", "RAGGED", "SPARSE", "Source", "Tensor", "is_list", "is_text", "is_vector", "number_type"]
