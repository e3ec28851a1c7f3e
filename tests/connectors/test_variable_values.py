"""Tables of numbers as variables: what their dtype has not is refused, not cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.variable_tables import write

INF = float("inf")


@pytest.fixture
def base(tmp_path: Path) -> str:
    with tf.Graph().as_default(), tf.Session() as session:
        for dtype in (tf.int8, tf.uint8, tf.int32, tf.bool, tf.float16, tf.bfloat16, tf.float32):
            tf.get_variable(dtype.name, [3, 2], dtype, initializer=tf.zeros_initializer())
        session.run(tf.global_variables_initializer())
        return str(tf.train.Saver().save(session, str(tmp_path / "base")))


@pytest.mark.parametrize(
    ("dtype", "values", "found"),
    [
        ("int8", [300, 1], "row 1 has 300"),
        ("int8", [-128, 1.0], [-128, 1]),
        ("uint8", [1, -1], "row 1 has -1"),
        ("int32", [1.0, 0.5], "row 1 has 0.5"),
        ("int32", [1.0, float("nan")], "row 1 has nan"),
        ("bool", [1, 2], "row 1 has 2"),
        ("bool", [1, 0], [True, False]),
        ("float16", [1.0, 70000.0], "row 1 has 70000.0"),
        ("float16", [0.1, INF], [np.float16(0.1), INF]),
        ("bfloat16", [1.0, 1e39], r"row 1 has 1e\+39"),
        ("float32", [1.0, 1e300], r"row 1 has 1e\+300"),
        ("float32", [2**60 + 1, 1], [2.0**60, 1.0]),
    ],
)
def test_numbers_that_a_variable_has_not(dtype: str, values: Any, found: Any, base: str, tmp_path: Path) -> None:
    rows = pa.table({"row": [0, 1], "value": [[0, 1], values]})
    if isinstance(found, str):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"{dtype!r}: column 'value' does not fit .*: {found}"):
            write(tmp_path / "out", {dtype: rows}, base)
        assert not list(tmp_path.glob("out*"))
        return
    write(tmp_path / "out", {dtype: rows}, base)
    assert tf.train.load_variable(str(tmp_path / "out"), dtype).tolist() == [[0, 1], found, [0, 0]]
