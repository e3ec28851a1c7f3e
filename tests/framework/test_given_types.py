"""Arrays of numpy where another type is asked for: they get it, as in TensorFlow, and what that changes is said."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sparkflow as tf

pytestmark = pytest.mark.usefixtures("graph")


@pytest.mark.parametrize(
    "given, dtype, values",
    [
        (np.array([2.0, -3.0]), tf.int32, [2, -3]),  # labels as pandas and np.loadtxt give them
        (np.float64(4.0), tf.int64, 4),
        (np.array([0, 2]), tf.bool, [False, True]),
        (np.array([1, 2], object), tf.float32, [1.0, 2.0]),
        (np.array(["1", "25"]), tf.int32, [1, 25]),
        (np.array([200], np.uint8), tf.float32, [200.0]),
        (np.array([]), tf.int32, []),
    ],
)
def test_an_array_has_the_type_that_is_asked_for(
    given: Any, dtype: Any, values: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with tf.Session() as session:
        for tensor in (tf.constant(given, dtype), tf.convert_to_tensor(given, dtype)):
            assert tensor.dtype is dtype and session.run(tensor).tolist() == values
    assert not caplog.records


@pytest.mark.parametrize(
    "given, dtype, values, said",
    [
        (np.array([1.0, 1.7, -2.3]), tf.int32, [1, 1, -2], "2 of its 3 values are others now, the first 1, which"),
        (np.int64(300), tf.uint8, 44, "the first 44, which was 300"),
        (np.array([-1]), tf.uint8, [255], "int64 was given as uint8"),
        (np.array([1 + 2j]), tf.float32, [1.0], r"complex128 was given as float32"),
        (np.array([np.nan]), tf.int32, [np.iinfo(np.int32).min], "which was nan"),
    ],
)  # fmt: skip
def test_values_that_change_are_told(
    given: Any, dtype: Any, values: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        tensor = tf.constant(given, dtype)
    assert said in caplog.text
    with tf.Session() as session:
        assert session.run(tensor).tolist() == values


@pytest.mark.parametrize("given", [1.7, [1.7], [np.float64(1.7)]])
def test_numbers_of_python_are_not_cut(given: Any) -> None:
    with pytest.raises(TypeError, match="Expected int32"):
        tf.constant(given, tf.int32)


def test_an_array_beside_a_tensor_has_its_type() -> None:
    with tf.Session() as session:
        assert session.run(tf.constant([1, 2]) + np.array([2.0, 3.0])).tolist() == [3, 5]


@pytest.mark.parametrize(
    "column, dtype",
    [
        (pd.Series([2**40, 1]), tf.int64),
        (pd.Series([0.5, 1.5]), tf.float64),
        (pd.Series(["a", "b"]), tf.string),
        (pd.Series(["a", "b"], dtype="string"), tf.string),
        (pd.Series(["a", "b"], dtype="category"), tf.string),
        (pd.Series([3, 4], dtype="Int64"), tf.int64),
        (pd.Series([], dtype=object), tf.string),
        (pd.DataFrame({"a": [1.0], "b": [2.0]}), tf.float64),
        (pd.Index([1, 2]), tf.int64),
        (pa.array([1, 2]), tf.int64),
        (pa.chunked_array([["a"], ["b"]]), tf.string),
    ],
)
def test_a_column_has_its_own_type(column: Any, dtype: Any) -> None:
    tensor = tf.convert_to_tensor(column)
    assert tensor.dtype is dtype and tensor.shape.as_list() == list(np.shape(np.asarray(column)))
    assert tf.convert_to_tensor(pd.Series([1.0, 2.0]), tf.int32).dtype is tf.int32  # as an array's numbers


def test_a_frame_as_a_dictionary_of_columns_is_a_dataset() -> None:
    frame = pd.DataFrame({"id": [2**40, 1], "city": ["x", "y"]})
    dataset = tf.data.Dataset.from_tensor_slices((dict(frame), frame["id"]))
    assert dataset.output_types == ({"id": tf.int64, "city": tf.string}, tf.int64)
    with tf.Session() as session:
        features, label = session.run(dataset.make_one_shot_iterator().get_next())
    assert features == {"id": 2**40, "city": b"x"} and label == 2**40


@pytest.mark.parametrize(
    "column, said",
    [
        (pd.Series(pd.to_datetime(["2020-01-01"])), r"Cannot convert datetime64\[ns\] to a Tensor. Give its numbers"),
        (pd.Series(pd.to_timedelta([1], unit="s")), r"Cannot convert timedelta64\[ns\] to a Tensor"),
        (pd.Series([[1, 2], [3, 4]]), r"got \[1, 2\] of type list. Of a column of rows np.stack"),
    ],
)
def test_a_column_of_what_no_tensor_holds(column: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        tf.convert_to_tensor(column)
    days = np.array(["1970-01-03"], "datetime64[D]")
    assert tf.get_static_value(tf.convert_to_tensor(days, tf.int64)).tolist() == [2]


@pytest.mark.parametrize("numbers, dtype", [([1, 2], tf.int64), ([1.0, 2.0], tf.float64), (["a", "b"], tf.string)])
def test_columns_side_by_side_keep_their_type(numbers: Any, dtype: Any) -> None:
    frame = pd.DataFrame({"a": numbers, "b": numbers})
    assert tf.stack([frame["a"], frame["b"]], axis=1).dtype is dtype
    assert tf.stack([pa.array(numbers), np.array(numbers)]).dtype is dtype
