"""Windows, reductions, elements that fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

D = tf.data.Dataset


def rows_of(dataset: Any, feeds: Any = None) -> list[Any]:
    iterator = dataset.make_initializable_iterator()
    element, found = iterator.get_next(), []
    with tf.Session() as session:
        session.run(iterator.initializer, feeds)
        while True:
            try:
                found.append(session.run(element))
            except tf.errors.OutOfRangeError:
                return found


def expected(count: int, size: int, shift: int, stride: int, drop: bool) -> list[list[int]]:
    windows = [list(range(a, count, stride))[:size] for a in range(0, count, shift)]
    return [w for w in windows if len(w) == size or not drop]


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("size, shift, stride", [(3, 1, 1), (3, None, 1), (2, 5, 1), (3, 2, 2), (1, 1, 3), (20, 1, 1)])
def test_windows(graph: Any, size: int, shift: int | None, stride: int, drop: bool) -> None:
    windows = D.range(9).map(lambda x: x).window(size, shift, stride, drop)
    found = [row.tolist() for row in rows_of(windows.flat_map(lambda w: w.batch(size)))]
    assert found == expected(9, size, shift or size, stride, drop)


def test_windows_of_structures(graph: Any) -> None:
    """A dataset for each component; tensors of the graph around."""
    fed = tf.placeholder(tf.int64, [])
    data = D.from_tensor_slices((np.arange(6), {"x": np.arange(12.0).reshape(6, 2)}))
    pairs = data.window(2).flat_map(
        lambda i, d: D.zip((i.map(lambda v: v + fed).batch(2), d["x"].batch(2).map(lambda x: x[0])))
    )
    assert [(a.tolist(), b.tolist()) for a, b in rows_of(pairs, {fed: 10})] == [
        ([10, 11], [0, 1]), ([12, 13], [4, 5]), ([14, 15], [8, 9]),
    ]  # fmt: skip
    one = D.from_tensor_slices({"a": [1, 2, 3]}).window(2, 1, drop_remainder=True).flat_map(lambda d: d["a"].batch(2))
    assert [r.tolist() for r in rows_of(one)] == [[1, 2], [2, 3]]
    inputs = D.range(5).window(3, 1, drop_remainder=True).flat_map(lambda w: w.batch(3)).map(lambda w: (w[:-1], w[-1]))
    assert [(a.tolist(), int(b)) for a, b in rows_of(inputs)] == [([0, 1], 2), ([1, 2], 3), ([2, 3], 4)]


def test_windows_that_are_none(graph: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="window: shift must be greater than zero, got 0"):
        D.range(3).window(2, 0)
    with pytest.raises(TypeError, match="must return a `Dataset`"):
        D.range(3).window(2).flat_map(lambda w: tf.constant(1))
    with pytest.raises(tf.errors.UnimplementedError, match="of windows there is flat_map"):
        D.range(3).window(2).map(lambda w: w)


def test_reductions(graph: Any) -> None:
    fed = tf.placeholder(tf.int64, [])
    total = D.range(5).map(lambda x: x * fed).reduce(np.int64(0), lambda state, x: state + x)
    both = D.from_tensor_slices(([1.0, 3.0], [2.0, 4.0])).reduce(
        (0.0, {"n": 0}), lambda s, row: (s[0] + row[0] * row[1], {"n": s[1]["n"] + 1})
    )
    with tf.Session() as session:
        assert session.run(total, {fed: 3}) == 30 and session.run(total, {fed: 1}) == 10
        assert session.run(both) == (14.0, {"n": 2}) and total.shape == ()
    with pytest.raises(TypeError, match="reduce: the state is"):
        D.range(3).reduce(0, lambda state, x: x)


@pytest.mark.parametrize("calls", [None, 2])
def test_elements_that_fail(graph: Any, calls: Any) -> None:
    lines = D.from_tensor_slices(["1", "x", "3", '""', "5"]).map(lambda t: tf.decode_csv(t, [[0]])[0], calls)
    assert rows_of(lines.apply(tf.data.experimental.ignore_errors())) == [1, 3, 0, 5]
    checked = D.range(5).map(lambda i: tf.py_func(lambda v: np.int64(6 // (int(v) % 3)), [i], tf.int64), calls)
    assert rows_of(checked.apply(tf.data.experimental.ignore_errors(True))) == [6, 3, 6]
    assert [r.tolist() for r in rows_of(checked.apply(tf.data.experimental.ignore_errors()).batch(2))] == [[6, 3], [6]]


def test_settings_that_change_nothing(graph: Any) -> None:
    options = tf.data.Options()
    options.experimental_deterministic = False
    options.experimental_optimization.map_parallelization = True
    options.experimental_threading.private_threadpool_size = 4
    rows = D.range(3).map_with_legacy_function(lambda x: (x, {"a": x})).with_options(options)
    assert rows.output_classes == (tf.Tensor, {"a": tf.Tensor}) == tf.data.get_output_classes(rows)
    assert [int(x) for x, _ in rows_of(rows.filter_with_legacy_function(lambda x, d: x > 0))] == [1, 2]
