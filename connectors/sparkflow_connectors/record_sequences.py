"""Arrow batches to SequenceExample messages, a message at a time by protobuf's own classes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from sparkflow.errors import InvalidArgumentError
from sparkflow.train import SequenceExample
from sparkflow_connectors.record_types import depth_of, kind_of, value_type
from sparkflow_connectors.record_values import flat, mapped, plain
from sparkflow_runtime.records.framing import frame

_LISTS = ("", "bytes_list", "float_list", "int64_list")
_PLAIN = (pa.null(), pa.binary(), pa.float32(), pa.int64())


def encoded(batch: pa.RecordBatch) -> np.ndarray:
    """Lists of lists are feature lists, everything else is context."""
    columns = []
    for name, array in flat(batch):
        kind = int(kind_of(value_type(array.type)) or 0)
        rows = mapped(array, partial(plain, kind=kind, name=name)).to_pylist()
        columns.append((name, depth_of(array.type), _LISTS[kind], rows))
    out = []
    for i in range(batch.num_rows):
        message = SequenceExample()
        for name, depth, kind_name, rows in columns:
            if rows[i] is not None:
                _add(message, name, depth, kind_name, rows[i])
        out.append(frame(message.SerializeToString()))
    return np.frombuffer(b"".join(out), np.uint8)


def _add(message: Any, name: str, depth: int, kind: str, value: Any) -> None:
    try:
        if depth < 2:
            _extend(getattr(message.context.feature[name], kind), value if depth else [value])
            return
        features = message.feature_lists.feature_list[name].feature
        for inner in value:
            _extend(getattr(features.add(), kind), inner)
    except TypeError:
        raise InvalidArgumentError(f"column {name!r}: a null inside a list cannot be in a feature") from None


def _extend(target: Any, values: Any) -> None:
    target.SetInParent()  # an empty list has a type too
    target.value.extend(values)
