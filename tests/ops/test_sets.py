"""Sets along the last axis, and floats rounded to a few bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import set_loops
from sparkflow_runtime.wire.errors import InvalidArgumentError

A = np.array([[1, 2, 2], [5, 3, 9]])
B = np.array([[2, 4], [9, 5]])


@pytest.mark.parametrize(
    "operation, want",
    [
        (tf.sets.intersection, [{2}, {5, 9}]),
        (tf.sets.union, [{1, 2, 4}, {3, 5, 9}]),
        (tf.sets.difference, [{1}, {3}]),
        (lambda a, b: tf.sets.difference(a, b, aminusb=False), [{4}, set()]),
    ],
)
def test_rows_are_sets(graph: Any, operation: Any, want: Any) -> None:
    where = np.argwhere(np.ones_like(A))
    sparse = tf.SparseTensor(where, A.reshape(-1), [2, 3])
    outs = [operation(a, tf.constant(B)) for a in (tf.constant(A), sparse)]
    with tf.Session() as session:
        for found in session.run(outs):
            rows = [found.values[found.indices[:, 0] == r].tolist() for r in range(2)]
            assert [set(row) for row in rows] == want and all(row == sorted(set(row)) for row in rows)
            assert found.dense_shape.tolist() == [2, max(map(len, want))]
        assert session.run(tf.sets.size(sparse)).tolist() == [2, 3]


def test_sets_are_refused_at_build_time(graph: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\(2, 3\).*\(1, 2\)"):
        tf.sets.union(tf.constant(A), tf.constant(B[:1]))
    with pytest.raises(TypeError, match="integers or strings"):
        tf.sets.union(tf.constant([[1.0]]), tf.constant([[1.0]]))
    with pytest.raises(TypeError, match="int32 and int64"):
        tf.sets.union(tf.constant([[1]], tf.int32), tf.constant([[1]], tf.int64))


def test_few_bits_have_few_values(evaluate: Any) -> None:
    x = np.linspace(-8, 8, 1001).astype(np.float32)
    y = evaluate(lambda t: tf.fake_quant_with_min_max_args(t, -3, 5, num_bits=3), x)
    assert len(np.unique(y)) == 8 and 0 in y
    assert np.abs(y - x.clip(y.min(), y.max())).max() <= (y.max() - y.min()) / 14 + 1e-5


def test_gradients_go_to_what_cut(evaluate: Any) -> None:
    x = np.array([-9, -1, 0.3, 2, 9, 11], np.float32)

    def build(t: Any) -> Any:
        low, high = tf.constant(-3.0), tf.constant(4.0)
        return tf.gradients(tf.fake_quant_with_min_max_vars(t, low, high), [t, low, high])

    of_x, of_low, of_high = evaluate(build, x)
    assert of_x.tolist() == [0, 1, 1, 1, 0, 0] and (of_low, of_high) == (1, 2)


def test_bounds_along_an_axis(evaluate: Any) -> None:
    x = np.array([[0.26, 9], [-0.26, -9]])
    bounds = np.array([1.0, 10.0])

    def build(t: Any) -> Any:
        return tf.quantization.quantize_and_dequantize_v2(t, -bounds, bounds, num_bits=4, range_given=True, axis=1)

    np.testing.assert_allclose(evaluate(build, x), np.rint(x / bounds * 7) * bounds / 7, rtol=1e-12)


def test_bits_are_refused_at_build_time(graph: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="num_bits"):
        tf.fake_quant_with_min_max_args([1.0], num_bits=1)
    with pytest.raises(InvalidArgumentError, match=r"\(5,\).*\(4, 5\).*\(4,\)"):
        tf.fake_quant_with_min_max_vars_per_channel(tf.zeros([4, 5]), tf.zeros([4]), tf.ones([5]))


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("kept", range(8))
def test_both_versions_of_the_walk(compiled: bool, kept: int) -> None:
    rng = np.random.default_rng(kept)
    for sizes in ((40, 30), (0, 5), (5, 0), (0, 0), (1, 1)):
        a, b = (np.sort(rng.integers(-20, 20, n)) for n in sizes)
        out = np.full(sum(sizes) + 1, 77)
        count = (set_loops.merge.compile() if compiled else set_loops.merge.numpy)(a, b, out, kept)
        first, second = set(a.tolist()), set(b.tolist())
        parts = ((1, first - second), (2, second - first), (4, first & second))
        assert out[:count].tolist() == sorted(set().union(*(part for flag, part in parts if kept & flag)))


@pytest.mark.parametrize("values", [
    np.array([[-(2**63), 5, 2**63 - 1, 5], [2**63 - 1, 0, 0, 0]]),
    np.array([[3, 9, 3, 200], [255, 0, 0, 1]], np.uint8),
    np.array([[b"b", b"a", b"", b"b"], [b"z", b"z", b"a", b"a"]], object),
    np.zeros((2, 0), np.int64),
], ids=["widest", "narrow", "strings", "none"])  # fmt: skip
def test_sets_of_any_values(graph: Any, values: Any) -> None:
    other = values[:, : values.shape[1] // 2]
    with tf.Session() as session:
        kinds = [session.run(f(tf.constant(values), tf.constant(other))) for f in (tf.sets.union, tf.sets.difference)]
    for found, operation in zip(kinds, (set.union, set.difference)):
        want = [sorted(operation(set(a), set(b))) for a, b in zip(values.tolist(), other.tolist())]
        assert [found.values[found.indices[:, 0] == r].tolist() for r in range(2)] == want
        assert found.values.dtype == values.dtype
