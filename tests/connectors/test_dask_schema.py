"""What Dask may call columns, and we do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.dataframe as dd
import pandas as pd
import pytest

import sparkflow as tf
from sparkflow_connectors.dask_schema import arrow_schema


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", 0], r"Column 0 has a name that is no string \(int\): rename it"),
        (
            pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")]),
            r"Column \('a', 'b'\) has a name that is no string \(tuple",
        ),
        (["a", "a"], "Column 'a' is there 2 times: give the columns different names"),
    ],
)
def test_names_that_no_column_may_have(names: Any, message: str, tmp_path: Path) -> None:
    frame = pd.DataFrame([[1, 2], [3, 4]])
    frame.columns = names
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        arrow_schema(dd.from_pandas(frame, npartitions=1))
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        tf.dask.to_tfrecord(dd.from_pandas(frame, npartitions=1), tmp_path / "out")
    assert not (tmp_path / "out").exists()
