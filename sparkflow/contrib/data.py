"""tf.contrib.data: where tf.data was before 1.4, and tf.data.experimental before 1.12."""

from __future__ import annotations

from typing import Any

from sparkflow.data import Dataset, FixedLengthRecordDataset, Iterator, TextLineDataset, TFRecordDataset
from sparkflow.data.experimental import *


def batch_and_drop_remainder(batch_size: int) -> Any:
    """For Dataset.apply: batches of this size alone."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(batch_size: int, padded_shapes: Any, padding_values: Any = None) -> Any:
    """For Dataset.apply: padded batches of this size alone."""
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)
