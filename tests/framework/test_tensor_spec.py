"""TensorSpec and SparseTensorSpec."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def test_what_it_says(graph: Any) -> None:
    spec = tf.TensorSpec([None, 28], "float32", "x")
    assert (spec.shape.as_list(), spec.dtype, spec.name) == ([None, 28], tf.float32, "x")
    assert repr(spec) == "TensorSpec(shape=(?, 28), dtype=tf.float32, name='x')"
    assert spec == copy.deepcopy(spec) and hash(spec) == hash(tf.TensorSpec([None, 28], tf.float32, "x"))
    assert spec != tf.TensorSpec([None, 28]) and spec != tf.SparseTensorSpec([None, 28])
    assert tf.TensorSpec.from_spec(spec, "y").name == "y"
    assert tf.TensorSpec.from_tensor(tf.zeros([2], tf.int32, name="zeros")) == tf.TensorSpec([2], tf.int32, "zeros")
    with pytest.raises(ValueError, match=r"should be a tf\.Tensor"):
        tf.TensorSpec.from_tensor(3)


def test_what_fits(graph: Any) -> None:
    spec = tf.TensorSpec([None, 3])
    assert spec.is_compatible_with(tf.zeros([5, 3])) and spec.is_compatible_with(np.zeros([5, 3], np.float32))
    assert spec.is_compatible_with(tf.placeholder(tf.float32)) and spec.is_compatible_with(tf.TensorSpec([4, None]))
    assert not spec.is_compatible_with(tf.zeros([5, 4])) and not spec.is_compatible_with(tf.zeros([5, 3], tf.int32))
    sparse = tf.SparseTensor(np.zeros([1, 2], np.int64), [1.0], [2, 3])
    assert tf.SparseTensorSpec([None, 3]).is_compatible_with(sparse) and not spec.is_compatible_with(sparse)
    assert not tf.SparseTensorSpec([None, 4]).is_compatible_with(sparse)


def test_as_the_signature_of_a_generator(graph: Any) -> None:
    signature = {"id": tf.TensorSpec([], tf.int32), "row": tf.TensorSpec([None], tf.float32)}
    data = tf.data.Dataset.from_generator(lambda: iter([{"id": 1, "row": [1, 2]}]), output_signature=signature)
    found = data.make_one_shot_iterator().get_next()
    assert found["row"].shape.as_list() == [None] and found["id"].dtype == tf.int32
    with tf.Session() as session:
        assert session.run(found)["row"].tolist() == [1, 2]
