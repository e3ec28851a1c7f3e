"""Arguments in TensorFlow's order and under its names, where a mistake would be silent; tests/oracle has them all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def _run(fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


def test_elementwise_functions_call_their_arguments_as_the_ops_do() -> None:
    x, y = tf.constant([0.5, -1.5]), tf.constant([2.0, 3.0])
    got = _run([tf.nn.relu(features=x), tf.atan2(y=x, x=y), tf.zeta(x=y, q=y), tf.igamma(a=y, x=y), tf.add(x=x, y=y)])
    np.testing.assert_allclose(got[0], [0.5, 0])
    np.testing.assert_allclose(got[1], np.arctan2([0.5, -1.5], [2, 3]), rtol=1e-6)
    np.testing.assert_allclose(got[4], [2.5, 1.5])
    with pytest.raises(TypeError, match="unexpected keyword"):
        tf.nn.relu(x=x)


def test_transposed_convolutions_have_no_dilation() -> None:
    image = tf.ones([1, 4, 4, 3])
    out = tf.layers.conv2d_transpose(image, 2, 3, (2, 2), "same", "channels_last", tf.nn.relu, False)
    assert out.op.type == "Relu" and out.shape.as_list() == [1, 8, 8, 2] and len(tf.global_variables()) == 1


def test_separable_convolutions_by_place() -> None:
    layer = tf.layers.SeparableConv2D(4, 3, 2, "same", "channels_last", 1, 2, tf.nn.relu, False)
    assert layer(tf.ones([1, 4, 4, 3])).shape.as_list() == [1, 2, 2, 4]
    assert [v.shape.as_list() for v in layer.variables] == [[3, 3, 3, 2], [1, 1, 6, 4]]


def test_a_preferred_type_is_not_a_demand() -> None:
    assert tf.convert_to_tensor([1, 2], preferred_dtype=tf.float32).dtype is tf.float32
    assert tf.convert_to_tensor(1.5, dtype_hint=tf.int32).dtype is tf.float32


@pytest.mark.parametrize("batch_dims", [1, 2])
def test_gather_nd_of_batches(batch_dims: int) -> None:
    rng = np.random.default_rng(0)
    params = rng.standard_normal((2, 3, 4, 5))
    indices = rng.integers(0, 3, (2, 3, 6, 2) if batch_dims == 2 else (2, 6, 2))
    taken = tf.gather_nd(params, indices, batch_dims=batch_dims)
    flat = params.reshape(-1, *params.shape[batch_dims:]), indices.reshape(-1, *indices.shape[batch_dims:])
    want = np.stack([p[i[..., 0], i[..., 1]] for p, i in zip(*flat)]).reshape(taken.shape.as_list())
    np.testing.assert_array_equal(_run(taken), want)
    with pytest.raises(ValueError, match="batch_dims=3"):
        tf.gather_nd(params, [[0]], batch_dims=3)


def test_references_are_keys() -> None:
    v = tf.Variable([1.0, 2.0])
    found = {v.experimental_ref(): "v", v.value().ref(): "value"}
    assert found[v.ref()] == "v" and v.ref().deref() is v and v.ref() != v.value().ref()
    assert _run(v.scatter_nd_add([[1]], [3.0])).tolist() == [1, 5]


def test_shapes_say_their_rank() -> None:
    shape = tf.TensorShape([2, None])
    assert shape.with_rank_at_least(1) is shape and shape.with_rank_at_most(2) is shape
    for wrong in (lambda: shape.with_rank_at_least(3), lambda: shape.assert_has_rank(1), shape.assert_is_fully_defined):
        with pytest.raises(ValueError, match=r"\(2, \?\)"):
            wrong()
    assert shape[0].merge_with(None) == 2 and not shape[0].is_compatible_with(3)
