"""Columns of tables that are fed: what is no number among them is named, with what to do about it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparkflow as tf

pytestmark = pytest.mark.usefixtures("graph")


@pytest.mark.parametrize(
    "column, dtype, said",
    [
        (
            pd.Series([[1, 2], [3, 4]]),
            tf.float32,
            r"\[1, 2\] of type list. Of a column of rows np.stack makes one array",
        ),
        (pd.Series([np.ones(2)] * 2), tf.float32, "of type ndarray. Of a column of rows np.stack"),
        (np.array([1, None], object), tf.float32, "such as None of type NoneType. Fill nulls"),
        (np.array([1.0, Decimal("1.5")], object), tf.float32, r"Decimal\('1.5'\) of type Decimal. .* convert others"),
        (pd.Series([7, None], dtype="Int64"), tf.int64, r"such as np.float64\(nan\) would be cut to int64; .* a null"),
        (np.array([1.0, 2.5]), tf.int32, r"such as np.float64\(2.5\) would be cut to int32$"),
        (np.array([1, 300]), tf.uint8, r"such as np.int64\(300\) do not fit uint8"),
    ],
)
def test_what_is_no_such_number_is_named(column: Any, dtype: Any, said: str) -> None:
    x = tf.placeholder(dtype)
    with tf.Session() as session, pytest.raises((TypeError, ValueError), match=f"Cannot feed 'Placeholder:0' .*{said}"):
        session.run(x, {x: column})


@pytest.mark.parametrize(
    ("value", "error"), [(3, TypeError), (None, TypeError), ("x", ValueError), (np.zeros([2, 3]), ValueError)]
)
def test_what_is_no_value_of_a_sparse_placeholder(value: Any, error: type, graph: Any) -> None:
    sparse = tf.sparse_placeholder(tf.float32, [2, 3])
    with tf.Session() as session, pytest.raises(error, match=r"of 3 elements got (?s:.)*Feed a tf.SparseTensorValue"):
        session.run(sparse.values, {sparse: value})


@pytest.mark.parametrize("dtype", [tf.int64, tf.float64, tf.int32])
def test_numbers_that_begin_between_two_words(dtype: Any) -> None:
    """As those of frames that Dask has sent may; of a feed, of a callable's, and of a function."""
    values = np.arange(100).astype(dtype.np)
    odd = np.frombuffer(b"-" + values.tobytes(), dtype.np, 100, 1)
    assert not odd.flags.aligned
    x = tf.placeholder(dtype, [None])
    texts = tf.strings.as_string(x, precision=0 if dtype.is_floating else -1)
    expected = [str(n).encode() for n in range(100)]
    with tf.Session() as session:
        assert session.run(texts, {x: odd}).tolist() == expected
        assert session.make_callable(texts, [x])(odd).tolist() == expected
        made = tf.py_func(lambda: odd, [], dtype)
        made = tf.strings.as_string(made, precision=0 if dtype.is_floating else -1)
        assert session.run(made).tolist() == expected
