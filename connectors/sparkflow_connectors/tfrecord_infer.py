"""A schema out of records: what kind each feature has, and whether it is ever several values."""

from __future__ import annotations

import pyarrow as pa
from google.protobuf.message import DecodeError

from sparkflow_connectors.record_types import EXAMPLE
from sparkflow_connectors.record_values import Where
from sparkflow_runtime.records.files import Block
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.example_proto import Example, SequenceExample

_TYPES = {"int64_list": pa.int64(), "float_list": pa.float32(), "bytes_list": pa.string()}
_UNKNOWN = ""


class Inference:
    """Fed with blocks of records, gives a schema: columns by name. Bytes are strings where every value is UTF-8, else
    binary. A feature with one value everywhere (or none) is a scalar, any other a list."""

    def __init__(self, record_type: str = EXAMPLE, skip_damaged: bool = False):
        """skip_damaged: pass over records that are no such messages."""
        self._message = Example if record_type == EXAMPLE else SequenceExample
        self._skip_damaged = skip_damaged
        self._kinds: dict[str, str] = {}
        self._depths: dict[str, int] = {}
        self._binary: set[str] = set()
        self._places: dict[str, str] = {}

    def add(self, block: Block, path: str, most: int | None = None) -> None:
        """`most` of the records. Raises DataLossError, and InvalidArgumentError on a feature of two kinds, or one that
        SequenceExamples have both in their context and among their lists."""
        where = Where(block, path)
        for i, record in enumerate(block.records()[:most]):
            try:
                message = self._message.FromString(record)
            except DecodeError:
                if self._skip_damaged:
                    continue
                raise where.is_none(i, self._message.__name__) from None
            at = where.record(i)
            context = message.features if self._message is Example else message.context
            for name, feature in context.feature.items():
                self._stands(name, "context", at)
                self._saw(name, feature, 0, at)
            if self._message is SequenceExample:
                for name, features in message.feature_lists.feature_list.items():
                    self._stands(name, "feature lists", at)
                    self._depths[name] = 2
                    for feature in features.feature:
                        self._saw(name, feature, 2, at)

    def _stands(self, name: str, place: str, at: str) -> None:
        """One column cannot have both."""
        if self._places.setdefault(name, place) != place:
            raise InvalidArgumentError(
                f"{at}: feature {name!r} is both in the context and among the feature lists, which makes two columns "
                "of one name; give a schema, in which a list of lists takes the feature list, another type the context"
            )

    def _saw(self, name: str, feature: object, depth: int, at: str) -> None:
        kind = feature.WhichOneof("kind") or _UNKNOWN  # type: ignore[attr-defined]
        known = self._kinds.get(name) or kind
        if kind and known != kind:
            raise InvalidArgumentError(
                f"{at}: feature {name!r} is a {kind}, in an earlier record it was a {known}; give a schema"
            )
        self._kinds[name] = known
        values = getattr(feature, kind).value if kind else ()
        self._depths[name] = max(self._depths.get(name, 0), depth, int(len(values) > 1))
        if kind == "bytes_list" and name not in self._binary and not all(_is_text(v) for v in values):
            self._binary.add(name)

    def schema(self) -> pa.Schema:
        """Features that never had a kind are left out: nothing is known of them."""
        return pa.schema([pa.field(n, self._type(n)) for n, kind in sorted(self._kinds.items()) if kind])

    def _type(self, name: str) -> pa.DataType:
        dtype = pa.binary() if name in self._binary else _TYPES[self._kinds[name]]
        for _ in range(self._depths[name]):
            dtype = pa.list_(dtype)
        return dtype


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
