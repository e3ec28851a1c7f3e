"""Arrow batches to SequenceExample messages: lists of lists are feature lists, everything else is context.

The features of a list are written first, as messages of their own; to protobuf a list of them is a list of strings.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkflow_connectors.arrow_numpy import is_valid, numpy_of
from sparkflow_connectors.record_types import depth_of
from sparkflow_connectors.record_values import feature, flat
from sparkflow_runtime.records.example_encode import (
    EXAMPLE_TAG,
    MESSAGES,
    SEQUENCES_TAG,
    Feature,
    encode,
    feature_messages,
)
from sparkflow_runtime.records.framing import framed
from sparkflow_runtime.records.spans import gathered
from sparkflow_runtime.wire.errors import InvalidArgumentError


def encoded(batch: pa.RecordBatch) -> np.ndarray:
    """The rows as they stand in a TFRecord file, uint8. Raises InvalidArgumentError on a null inside a list."""
    columns = list(flat(batch))
    context = _part([feature(n, a) for n, a in columns if depth_of(a.type) < 2], len(batch), EXAMPLE_TAG)
    lists = _part([_list(n, a) for n, a in columns if depth_of(a.type) == 2], len(batch), SEQUENCES_TAG)
    bounds = np.stack([context[1], lists[1] + len(context[0])], 1)  # a message is a part of each
    data, offsets = gathered(np.concatenate([context[0], lists[0]]), bounds[:-1].ravel(), bounds[1:].ravel())
    return framed(data, offsets[::2])


def _part(features: list[Feature], messages: int, tag: int) -> tuple[np.ndarray, np.ndarray]:
    """As `encode`; nothing of no columns."""
    if not features:
        return np.empty(0, np.uint8), np.zeros(messages + 1, np.int64)
    return encode(features, messages, tag=tag)


def _list(name: str, array: pa.Array) -> Feature:
    features = array.flatten()
    if features.null_count or features.flatten().null_count:
        raise InvalidArgumentError(f"column {name!r}: a null inside a list cannot be in a feature")
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(numpy_of(pc.list_value_length(array), 0), out=offsets[1:])
    data, ends = feature_messages(feature(name, features), len(features))
    present = None if not array.null_count else is_valid(array)
    return Feature(name.encode(), MESSAGES, data, offsets, present, ends)
