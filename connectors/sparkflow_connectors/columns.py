"""Column: how one column of a table becomes a tensor, where the column's type alone does not say it all.

    features=["age", Column("price", default=0.0), Column("city", hash_buckets=1000), Column("tags", kind="sparse")]

| Arrow (Spark) type | tensor |
|---|---|
| bool | bool; the bits are unpacked: a copy |
| int8..int64, uint8..uint64, float16..float64 | the same dtype, sharing Arrow's memory |
| decimal | float64; a copy |
| date32; date64 | int32, days since 1970-01-01; int64, milliseconds; sharing Arrow's memory |
| timestamp | int64 since 1970-01-01 UTC, in the type's unit (Spark: microseconds), sharing Arrow's memory |
| time32; time64, duration | int32; int64, in the type's unit, sharing Arrow's memory |
| string | int64: an id by `vocabulary` or `hash_buckets`; string (its UTF-8) without either; a copy |
| binary (images) | string: the bytes as they are; a copy. cast=uint8: a list of bytes, sharing memory |
| dictionary (pandas' categories), views, extension types | as the plain type, see plain_types.py |
| list of any of these | dense: [*shape] a row, sharing memory where every row has so many; sparse, ragged: any number |
| fixed-size lists, also of each other | [sizes] a row, sharing memory |
| ML vector (Spark's VectorUDT) | float64 [n] a row; sparse: its indices and values |

A null is refused unless the column has a default. Whatever is refused names the column, the row and the rule.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

from sparkflow_runtime.wire.dtypes import DType, as_dtype
from sparkflow_runtime.wire.errors import InvalidArgumentError, NotFoundError

KINDS = DENSE, SPARSE, RAGGED = "dense", "sparse", "ragged"
_MOST_IDS = 1 << 63  # whose largest is int64's


@dataclass(frozen=True)
class Column:
    """One column, by its name in the table.

    default: what stands for a null, in the unit of the tensor (a string before it is looked up). A null list or
    vector gets it in each place (dense) or is empty (padded, sparse, ragged). None: a null is an error.
    cast: the dtype to cast numbers to; one that a whole number does not fit in is an error, floats are rounded.
    shape: of a row of a dense list or vector. Lists of another length are an error, unless `pad` (fills the end of
    shorter ones; a string of a column by vocabulary or hash is looked up) or truncate=True (drops the end of longer
    ones) says otherwise. Of lists of lists it has a size for each depth, and all have these sizes. Of a single value it
    may be [1], for a model that wants a column of a matrix.
    kind: "dense"; "sparse": the model gets a SparseTensor [rows, length] (of a vector: [rows, its size]); "ragged": it
    gets Ragged(values, row_splits).
    length: the most values that a row of a sparse or ragged column may have (truncate=True drops more): rows on their
    way to a training have this room. None: as many as there are, in transform alone.
    vocabulary: a file with a string a line, or the strings; a string's tensor is its position. Others get -1, or one of
    `num_oov_buckets` positions after the last, by the hash below.
    hash_buckets: a string's tensor is FarmHash's Fingerprint64 of its UTF-8, modulo this: what
    tf.strings.to_hash_bucket_fast gives. Whole numbers are hashed as their decimal digits, as tf.as_string writes them.
    """

    name: str = ""
    default: Any = None
    cast: Any = None
    shape: Sequence[int] | None = None
    pad: Any = None
    truncate: bool = False
    kind: str = DENSE
    length: int | None = None
    vocabulary: str | os.PathLike[str] | Sequence[str] | None = None
    num_oov_buckets: int = 0
    hash_buckets: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            self._refuse("its name must be a string, as the table has it")
        if not isinstance(self.truncate, bool):
            self._refuse(f"truncate must be True or False, got {self.truncate!r}")
        if self.kind not in KINDS:
            self._refuse(f"kind must be one of {', '.join(map(repr, KINDS))}, got {self.kind!r}")
        if self.shape is not None:
            shape = tuple(self.shape) if isinstance(self.shape, Iterable) else (self.shape,)
            if not all(_is_whole(n) and n > 0 for n in shape):
                self._refuse(f"shape must be sizes of at least 1, got {shape}")
            object.__setattr__(self, "shape", tuple(map(int, shape)))
        if self.length is not None and (self.kind == DENSE or not _is_whole(self.length) or self.length < 1):
            self._refuse(f"length must be a whole number of at least 1, of a sparse or ragged one, got {self.length!r}")
        if self.pad is not None and (self.shape is None or self.kind != DENSE):
            self._refuse("pad is for dense lists, with the shape that rows are padded to")
        if self.cast is not None:
            object.__setattr__(self, "cast", as_dtype(self.cast))
        self._check_ids()

    def _check_ids(self) -> None:
        for what, number in (("hash_buckets", self.hash_buckets), ("num_oov_buckets", self.num_oov_buckets)):
            if not _is_whole(number) or number < 0:
                self._refuse(f"{what} must be a whole number that is not negative, got {number!r}")
            if number > _MOST_IDS:
                self._refuse(f"{what} must be at most 2**63, as the tensor is int64, got {number}")
            object.__setattr__(self, what, int(number))
        if self.vocabulary is not None and self.hash_buckets:
            self._refuse("it has a vocabulary and hash_buckets; give one of them")
        if self.vocabulary is None and self.num_oov_buckets:
            self._refuse("num_oov_buckets is for what a vocabulary has not; give one, or hash_buckets alone")
        if self.cast is not None and self.is_by_id:
            self._refuse("cast is for numbers, and a vocabulary or hash_buckets gives int64; cast that in the model")
        if isinstance(self.vocabulary, os.PathLike):
            object.__setattr__(self, "vocabulary", os.fsdecode(self.vocabulary))
        elif self.vocabulary is not None and not isinstance(self.vocabulary, str):
            object.__setattr__(self, "vocabulary", self._strings(self.vocabulary))

    def _strings(self, given: Any) -> tuple[str, ...]:
        """Raises InvalidArgumentError on anything but strings (or their bytes)."""
        given = given.to_pylist() if hasattr(given, "to_pylist") else given  # of Arrow
        words = tuple(given) if isinstance(given, Iterable) and not isinstance(given, bytes) else (given,)
        if wrong := [kind for kind in set(map(type, words)) if not issubclass(kind, str | bytes)]:
            word = next(word for word in words if type(word) in wrong)
            self._refuse(
                f"its vocabulary has {word!r}, which is no string. Give a file or strings; whole numbers are looked up "
                "as their digits"
            )
        return words

    def _refuse(self, why: str) -> None:
        raise InvalidArgumentError(f"Column {self.name!r}: {why}")

    @property
    def is_by_id(self) -> bool:
        """Whether its tensor numbers its values, by a vocabulary or a hash."""
        return self.vocabulary is not None or self.hash_buckets > 0

    @property
    def words(self) -> tuple[str, ...]:
        """Of the vocabulary of one that is loaded."""
        return self.vocabulary if isinstance(self.vocabulary, tuple) else ()

    def loaded(self) -> Column:
        """With the strings of its vocabulary file, so that tasks need not see the file.

        Raises NotFoundError where it is missing, InvalidArgumentError where it is empty or on a string that is there
        twice.
        """
        if self.vocabulary is None:
            return self
        words = _lines(self.vocabulary) if isinstance(self.vocabulary, str) else self.words
        if isinstance(self.vocabulary, str) and not words and not self.num_oov_buckets:
            self._refuse(
                f"its vocabulary file {self.vocabulary!r} is empty: every string would be -1. Give another file, or "
                "num_oov_buckets"
            )
        if len(set(words)) != len(words):
            twice, _ = Counter(words).most_common(1)[0]
            self._refuse(f"its vocabulary has {twice!r} twice")
        if len(words) + self.num_oov_buckets > _MOST_IDS:
            self._refuse("its vocabulary and num_oov_buckets are more than 2**63 together, and the tensor is int64")
        return replace(self, vocabulary=words)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _lines(path: str) -> tuple[str, ...]:
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            text = file.read()
    except FileNotFoundError:
        raise NotFoundError(f"Vocabulary file {path!r} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"Vocabulary file {path!r} cannot be read: {error}") from None
    lines = text.removesuffix("\n").split("\n") if text else []
    return tuple(line.removesuffix("\r") for line in lines)  # as TensorFlow's tables read them


@dataclass(frozen=True)
class Asked:
    """A column as somebody asks for it. dtype: of the tensor, where it must be this one and nothing is cast."""

    column: Column
    dtype: DType | None = None


def asked(features: Sequence[str | Column] | Mapping[str, Any]) -> list[Asked]:
    """Names, Columns, or names with either a dtype or a Column.

    Raises InvalidArgumentError where they are something else, or a name is there twice.
    """
    if isinstance(features, str):
        raise InvalidArgumentError(f"features must be a list of column names, got the string {features!r}")
    if isinstance(features, Column) or not isinstance(features, Iterable):
        raise InvalidArgumentError(f"features must be a list of column names, got {features!r}")
    if isinstance(features, Mapping):
        found = [_of_item(name, what) for name, what in features.items()]
    else:
        found = [Asked(one if isinstance(one, Column) else Column(one)) for one in features]
    for name, count in Counter(one.column.name for one in found).items():
        if count > 1:
            raise InvalidArgumentError(f"Column {name!r} is named {count} times among the features")
    return found


def _of_item(name: str, what: Any) -> Asked:
    if isinstance(what, Column):
        return Asked(replace(what, name=name))
    return Asked(Column(name), None if what is None else as_dtype(what))
