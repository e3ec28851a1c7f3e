"""Gradients of CTC and of other families with few ops."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

RNG = np.random.default_rng(8)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def _ctc(x: Any) -> Any:
    labels = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([1, 1, 0]), [2, 2])
    return tf.nn.ctc_loss(labels, x, [6, 4])


def _pooled(pool: Any, overlapping: bool, x: Any) -> Any:
    return pool(x, [1, 1.5, 1.3, 1], overlapping=overlapping, deterministic=True, seed=3, seed2=5)[0]


_ONES, IMAGE, SIGNAL = [1, 1, 1, 1], normal(2, 6, 5, 3), normal(2, 12)
CASES: list[Any] = [
    ("ctc", _ctc, (normal(6, 2, 4),)),
    ("patches", lambda x: tf.extract_image_patches(x, [1, 3, 2, 1], _ONES, [1, 1, 2, 1], "SAME"), (IMAGE,)),
    ("volumes", lambda x: tf.extract_volume_patches(x, [1, 2, 3, 1, 1], [1, 2, 1, 1, 1], "VALID"), (IMAGE[..., None],)),
    ("dilation", lambda x, w: tf.nn.dilation2d(x, w, _ONES, [1, 2, 1, 1], "SAME"), (IMAGE, normal(2, 3, 3))),
    ("erosion", lambda x, w: tf.nn.erosion2d(x, w, [1, 2, 1, 1], _ONES, "VALID"), (IMAGE, normal(2, 3, 3))),
    *((f"dct {k}", partial(tf.signal.dct, type=k), (SIGNAL,)) for k in (1, 2, 3, 4)),
    ("idct", lambda x: tf.signal.idct(x, norm="ortho"), (SIGNAL,)),
    ("bessel", lambda x: tf.math.bessel_i0e(x) * tf.math.bessel_i1(x), (normal(3, 4),)),
    ("bessel scaled", lambda x: tf.math.bessel_i1e(x) * tf.math.bessel_i0(x), (normal(3, 4),)),
    ("swish", lambda x: tf.nn.swish(x, 1.5), (normal(3, 4),)),
    ("repeat", lambda x: tf.repeat(x, 2, axis=0), (normal(3, 4),)),
    ("stft", lambda x: tf.abs(tf.signal.stft(x, 6, 2)), (SIGNAL,)),
    ("overlap", lambda x: tf.signal.overlap_and_add(tf.signal.frame(x, 5, 2, pad_end=True), 3), (SIGNAL,)),
    *(
        (f"{pool.__name__} {overlapping}", partial(_pooled, pool, overlapping), (IMAGE,))
        for pool in (tf.nn.fractional_max_pool, tf.nn.fractional_avg_pool)
        for overlapping in (False, True)
    ),
]


RANKED = ("dct", "idct", "stft", "overlap")  # they want to know the rank


@pytest.mark.parametrize("known_shapes", [True, False])
@pytest.mark.parametrize("name, build, values", CASES, ids=[c[0] for c in CASES])
def test_gradient(check_gradient: Any, name: str, build: Any, values: Any, known_shapes: bool) -> None:
    if known_shapes or not name.startswith(RANKED):
        check_gradient(build, *values, known_shapes=known_shapes)


def test_no_second_derivative_of_ctc(graph: Any) -> None:
    x = tf.constant(normal(6, 2, 4))
    (first,) = tf.gradients(_ctc(x), x)
    with pytest.raises(LookupError, match="second derivative"):
        tf.gradients(first, x)


@pytest.mark.parametrize("flips", [(False, False), (False, True), (True, False), (True, True)])
def test_product_of_two_types(graph: Any, flips: tuple[bool, bool]) -> None:
    """bfloat16 by float32 is float32, also by matmul; each gradient has its input's type."""
    a = tf.constant(np.ones((3, 2) if flips[0] else (2, 3)), tf.bfloat16)
    b = tf.constant(np.arange(12.0).reshape((4, 3) if flips[1] else (3, 4)), tf.float32)
    made = [f(a, b, *flips) for f in (tf.sparse_matmul, tf.matmul)]
    slopes = tf.gradients(made, [a, b])
    assert [t.dtype for t in (*made, *slopes)] == [tf.float32, tf.float32, tf.bfloat16, tf.float32]
    with tf.Session() as session:
        one, other, da, db = session.run([*made, *slopes])
    right = np.arange(12.0).reshape(4, 3).T if flips[1] else np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(one, np.ones((2, 3)) @ right)
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(da.astype(np.float32).T if flips[0] else da, 2 * np.ones((2, 4)) @ right.T)
    np.testing.assert_array_equal(db, np.full(b.shape.as_list(), 4.0))
