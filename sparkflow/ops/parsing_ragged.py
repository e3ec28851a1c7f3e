"""Ragged features: the values of one feature, in rows that other features tell of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.framework.scopes import control_dependencies
from sparkflow.ops.array import identity, reshape, shape, zeros
from sparkflow.ops.array_join import concat
from sparkflow.ops.array_odds import repeat
from sparkflow.ops.array_slice import gather
from sparkflow.ops.checks import assert_equal, assert_non_negative
from sparkflow.ops.math import cast, maximum, range
from sparkflow.ops.ragged import RaggedTensor, _count, _ends
from sparkflow.ops.segments import unsorted_segment_max
from sparkflow_runtime.wire.dtypes import as_dtype


class _RowSplits(NamedTuple):
    """Row i is of values [key[i], key[i + 1])."""

    key: str


class _RowLengths(NamedTuple):
    """Row i has key[i] values."""

    key: str


class _RowStarts(NamedTuple):
    """Row i begins at value key[i]; the last one ends with the values."""

    key: str


class _RowLimits(NamedTuple):
    """Row i ends before value key[i]."""

    key: str


class _ValueRowIds(NamedTuple):
    """Value i is of row key[i]."""

    key: str


class _UniformRowLength(NamedTuple):
    """Every row has so many values."""

    length: int


class _Fields(NamedTuple):
    dtype: Any
    value_key: str | None = None
    partitions: Sequence[Any] = ()
    row_splits_dtype: Any = "int32"
    validate: bool = False


class RaggedFeature(_Fields):
    """Any number of values, in rows: a RaggedTensor, of a single Example without partitions a Tensor [values].

    value_key: the feature with the values, by default that of this name. partitions: how they are cut into rows, the
    outermost first: RaggedFeature.RowSplits, RowLengths, RowStarts, RowLimits, ValueRowIds (of a feature's key, int64)
    or UniformRowLength (of a number; the innermost ones reshape). row_splits_dtype: int32 or int64. validate: where
    partitions do not fit the values, a step that uses row_splits fails with InvalidArgumentError.
    """

    RowSplits, RowLengths, RowStarts = _RowSplits, _RowLengths, _RowStarts
    RowLimits, ValueRowIds, UniformRowLength = _RowLimits, _ValueRowIds, _UniformRowLength
    __slots__ = ()

    def __new__(
        cls, dtype: Any, value_key: str | None = None, partitions: Sequence[Any] = (), row_splits_dtype: Any = "int32",
        validate: bool = False,
    ) -> RaggedFeature:  # fmt: skip
        kind = as_dtype(row_splits_dtype)
        if kind.name not in ("int32", "int64"):
            raise ValueError(f"row_splits_dtype must be tf.int32 or tf.int64, got {kind.name}")
        for one in partitions:
            if not isinstance(one, _BY_KEY | _UniformRowLength):
                raise TypeError(f"RaggedFeature: a partition is RaggedFeature.RowSplits ..., got {one!r}")
        return super().__new__(cls, dtype, value_key, tuple(partitions), kind, validate)

    def keys(self, name: str) -> list[tuple[str, Any]]:
        """The features that it needs, with their dtypes; name: its own key."""
        found = [(one.key, as_dtype("int64")) for one in self.partitions if not isinstance(one, _UniformRowLength)]
        return [(self.value_key or name, self.dtype), *found]


_BY_KEY = _RowSplits | _RowLengths | _RowStarts | _RowLimits | _ValueRowIds
Found = dict[str, tuple[Tensor, Tensor]]  # by key: values, and row_splits of the batch


def composed(feature: RaggedFeature, name: str, found: Found, single: bool) -> Any:
    """The feature of a batch, or of a single Example."""
    kind = as_dtype(feature.row_splits_dtype)
    values: Any
    values, splits = found[feature.value_key or name]
    if single:
        splits = cast(concat([[0], shape(values)[:1]], 0), kind)
    for partition in reversed(feature.partitions):
        if isinstance(partition, _UniformRowLength):
            values, splits = _uniform(values, splits, partition.length)
            continue
        given, its = found[partition.key]
        its = cast(concat([[0], shape(given)], 0), kind) if single else cast(its, kind)
        values, splits = _cut(values, splits, partition, cast(given, kind), its, feature.validate)
        if feature.validate:
            values = _valid(values, f"Feature {name!r}: its partition by {partition.key!r} does not fit its values")
    return values if single else RaggedTensor.from_row_splits(values, splits, validate=False)


def _uniform(values: Any, splits: Tensor, length: int) -> tuple[Any, Tensor]:
    """values: in as many as splits[-1] pieces, of which each `length` become one."""
    size = convert_to_tensor(length, splits.dtype)
    if not isinstance(values, RaggedTensor):
        return reshape(values, concat([[-1, length], shape(values)[1:]], 0)), splits // size
    rows = range(splits[-1] // size + 1) * size
    return RaggedTensor.from_row_splits(values, rows, validate=False), splits // size


def _valid(rows: RaggedTensor, message: str) -> RaggedTensor:
    """The same, in a step where its splits go up from 0 to the number of values."""
    splits = rows.row_splits
    checks = [
        assert_equal(splits[0], convert_to_tensor(0, splits.dtype), message=message),
        _ascend(splits, message),
        assert_equal(splits[-1], _count(rows.values, splits.dtype), message=message),
    ]
    with control_dependencies(checks):
        return RaggedTensor.from_row_splits(rows.values, identity(splits), validate=False)


def _ascend(numbers: Tensor, message: str) -> Any:
    return assert_non_negative(numbers[1:] - numbers[:-1], message=message)


def _cut(
    values: Any, splits: Tensor, partition: Any, given: Tensor, its: Tensor, validate: bool = False
) -> tuple[RaggedTensor, Tensor]:
    """(the values in rows, how many rows each Example has, as splits). splits: of the values by Example; given, its:
    what the partition says, by Example."""
    first, counts, kind = splits[:-1], its[1:] - its[:-1], splits.dtype
    match partition:
        case _RowLengths():
            return RaggedTensor.from_row_lengths(values, given, validate=False), its
        case _ValueRowIds():
            rows = maximum(unsorted_segment_max(given, _owners(counts), shape(counts)[0]) + 1, 0)
            owned = _ends(rows)
            ids = given + gather(owned[:-1], _owners(counts))
            if validate:  # the splits alone would not tell
                wrong = f"ValueRowIds of {partition.key!r} must begin at 0 and not decrease"
                with control_dependencies([assert_non_negative(given, message=wrong), _ascend(ids, wrong)]):
                    ids = identity(ids)
            return RaggedTensor.from_value_rowids(values, ids, owned[-1], validate=False), owned
        case _RowStarts():
            starts = concat([given + gather(first, _owners(counts)), splits[-1:]], 0)
            return RaggedTensor.from_row_splits(values, starts, validate=False), its
        case _RowSplits():  # the limits after the first of each Example, which is 0
            rows = maximum(counts - 1, 0)
            owned = _ends(rows)
            places = range(owned[-1]) + gather(its[:-1] - owned[:-1], _owners(rows)) + 1
            given, its = gather(given, places), owned
            counts = rows
    limits = given + gather(first, _owners(counts))
    return RaggedTensor.from_row_splits(values, concat([zeros([1], kind), limits], 0), validate=False), its


def _owners(counts: Tensor) -> Tensor:
    """For each of the things, the Example that it is of."""
    return repeat(range(shape(counts)[0]), counts)
