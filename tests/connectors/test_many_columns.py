"""Tables of thousands of columns: no check compares each of them with all others."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest

from sparkflow_connectors.schema import check_batch, resolve
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _seconds(count: int) -> float:
    value = pa.array(np.zeros(1, np.float32))
    batch = pa.RecordBatch.from_arrays([value] * count, [f"column {i}" for i in range(count)])
    taken = []
    for _ in range(3):
        begin = time.thread_time()
        check_batch(batch, resolve(batch.schema, None, "column 7"), 0)
        taken.append(time.thread_time() - begin)
    return min(taken)


def test_columns_are_resolved_in_linear_time() -> None:
    ratio = _seconds(10_000) / _seconds(2000)
    assert ratio < 12, f"5 times the columns took {ratio:.1f} times as long"


@pytest.mark.parametrize(
    "names, features, message",
    [
        (["a", "b"], ["a", "c"], "Column 'c' is missing; the table has 'a', 'b'"),
        (["a", "b", "b"], ["a", "b"], "Column 'b' is there 2 times"),
        (["a", "b"], ["a", "b", "a"], "Column 'a' is named 2 times"),
    ],
)
def test_a_wrong_column_is_named(names: list[str], features: list[str], message: str) -> None:
    schema = pa.schema([(name, pa.float32()) for name in names])
    with pytest.raises(InvalidArgumentError, match=message):
        resolve(schema, features, None)
