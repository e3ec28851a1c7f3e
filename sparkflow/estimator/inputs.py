"""tf.estimator.inputs: arrays and data frames as input functions, through queues that shuffle and batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sparkflow import train
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.ops import array_slice

InputFunction = Callable[[], Any]


def numpy_input_fn(
    x: Any, y: Any = None, batch_size: int = 128, num_epochs: int | None = 1, shuffle: bool | None = None,
    queue_capacity: int = 1000, num_threads: int = 1,
) -> InputFunction:  # fmt: skip
    """A function that makes (features, labels), or features alone, of batches of the rows of arrays.

    x: an array, or a dict of them; y: an array, a dict, or None. num_epochs None: for ever. The last batch may be
    smaller. Raises ValueError where shuffle is not said, or the arrays' lengths differ.
    """
    if not isinstance(shuffle, bool):
        raise ValueError(f"shuffle must be provided and explicitly set as boolean; got {shuffle}")
    if not (isinstance(x, (np.ndarray, Mapping))) or (isinstance(x, Mapping) and not x):
        raise TypeError(f"x must be a dict or array; got {type(x).__name__}")
    features = dict(x) if isinstance(x, Mapping) else {None: x}
    targets = dict(y) if isinstance(y, Mapping) else {} if y is None else {None: y}
    arrays = [np.asarray(a) for a in (*features.values(), *targets.values())]
    if len({len(a) for a in arrays}) != 1:
        raise ValueError(f"Length of tensors in x and y is mismatched: {[a.shape for a in arrays]}")

    def input_fn() -> Any:
        rows = _rows(len(arrays[0]), batch_size, num_epochs, shuffle, queue_capacity)
        found = [array_slice.gather(convert_to_tensor(a, name="rows"), rows) for a in arrays]
        left, right = found[: len(features)], found[len(features) :]
        inputs = dict(zip(features, left)) if isinstance(x, Mapping) else left[0]
        if y is None:
            return inputs
        return inputs, (dict(zip(targets, right)) if isinstance(y, Mapping) else right[0])

    return input_fn


def _rows(count: int, batch_size: int, epochs: int | None, shuffle: bool, capacity: int) -> Any:
    """The numbers of the rows of the next batch."""
    queue = train.range_input_producer(count, epochs, shuffle, capacity=max(capacity, batch_size))
    rows = queue.dequeue_up_to(batch_size)
    rows.set_shape([None])
    return rows


def pandas_input_fn(
    x: Any, y: Any = None, batch_size: int = 128, num_epochs: int | None = 1, shuffle: bool | None = None,
    queue_capacity: int = 1000, num_threads: int = 1, target_column: str = "target",
) -> InputFunction:  # fmt: skip
    """As numpy_input_fn, of the columns of a data frame and of a series of labels."""
    columns = {name: _column(x[name]) for name in x.columns}
    labels = None if y is None else _column(y)
    return numpy_input_fn(columns, labels, batch_size, num_epochs, shuffle, queue_capacity, num_threads)


def _column(series: Any) -> np.ndarray:
    values = series.to_numpy()
    return values.astype(object) if values.dtype.kind in "OSU" else values
