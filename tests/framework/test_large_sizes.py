"""Sizes and places that int32 does not hold: int64 takes their place, or an error names it. Nothing here has the memory
of what it describes: zeros are of pages that nobody wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

ROWS = 2**31 + 5


@pytest.fixture(scope="module")
def zeros() -> np.ndarray:
    return np.zeros(ROWS, np.int8)


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def _table(**more: Any) -> Any:
    return tf.get_variable("table", [ROWS], **more)


MADE: dict[str, Callable[[], Any]] = {
    "zeros": lambda: tf.zeros([ROWS]),
    "ones of a shape": lambda: tf.ones(tf.TensorShape([ROWS])),
    "ones beside a tensor": lambda: tf.ones([ROWS, tf.constant(3)])[:, 0],
    "fill": lambda: tf.fill([ROWS], 1.0),
    "reshape": lambda: tf.reshape(tf.placeholder(tf.int8, [ROWS]), (-1, ROWS))[0],
    "broadcast": lambda: tf.broadcast_to(1.0, [ROWS]),
    "pad": lambda: tf.pad([1.0], [[ROWS - 1, 0]]),
    "tile": lambda: tf.tile([1.0], [ROWS]),
    "random": lambda: tf.random_uniform([ROWS]),
    "stateless": lambda: tf.random.stateless_normal([ROWS], [1, 2]),
    "segments": lambda: tf.math.unsorted_segment_sum([1.0], [3], ROWS),
    "variable": lambda: _table(initializer=tf.zeros_initializer()),
    "drawn variable": lambda: _table(),
    "slice": lambda: tf.placeholder(tf.int8, [ROWS + 3])[3:ROWS + 3],
    "slice, mixed": lambda: tf.slice(tf.placeholder(tf.int8, [ROWS + 3]), [0], [ROWS]),
    "mask": lambda: tf.sequence_mask([3], ROWS)[0],
    "dense gradient": lambda: tf.gradients(tf.square(_table()), _table())[0],
    "gradient of rows": lambda: tf.convert_to_tensor(tf.gradients(tf.gather(_table(), [3]), _table())[0]),
    "gradient of a slice": lambda: tf.gradients(_table()[3:5], _table())[0],
    "gradient of a mean": lambda: tf.gradients(tf.reduce_mean(_table()), _table())[0],
    "gradient of a product": lambda: tf.gradients(_table() * tf.get_variable("s", []), _table())[0],
    "tensordot": lambda: tf.tensordot(tf.placeholder(tf.float32, [ROWS, 2]), [[1.0], [2.0]], 1)[:, 0],
    "dropout": lambda: tf.nn.dropout(tf.placeholder(tf.float32, [ROWS]), 0.5),
}  # fmt: skip


@pytest.mark.parametrize("what", MADE)
def test_more_than_int32_holds(what: str) -> None:
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        assert MADE[what]().shape == (ROWS,)


@pytest.mark.parametrize("optimizer", [tf.train.AdagradOptimizer(0.1), tf.train.AdamOptimizer()])
def test_optimizers_of_a_table_of_more_rows(optimizer: Any) -> None:
    table = tf.get_variable("table", [4 * ROWS, 8], partitioner=tf.fixed_size_partitioner(3))
    optimizer.minimize(tf.reduce_sum(tf.nn.embedding_lookup(table, [4 * ROWS - 1])))
    assert sum(int(part.shape[0]) for part in table) == 4 * ROWS


def test_sizes_known_in_advance_are_int64() -> None:
    x = tf.placeholder(tf.int8, [ROWS])
    assert (tf.shape(x).dtype, tf.size(x).dtype) == (tf.int64, tf.int64)
    assert tf.shape(tf.placeholder(tf.int8, [7])).dtype == tf.int32
    with pytest.raises(ValueError, match="does not fit int32"):
        tf.shape(x, out_type=tf.int32)


def test_values_and_places(zeros: np.ndarray) -> None:
    x = tf.placeholder(tf.int8, [ROWS])
    picks = tf.gather(x, [ROWS - 1, 0]), x[ROWS - 2 :], tf.strided_slice(x, [ROWS - 2], [ROWS])
    zeros[-1] = 7
    with tf.Session() as session:
        values = session.run(picks, {x: zeros})
    zeros[-1] = 0
    assert [v.tolist() for v in values] == [[7, 0], [0, 7], [0, 7]]


REFUSED: dict[str, tuple[Callable[[tf.Tensor], Any], str]] = {
    "Shape": (tf.shape, "out_type=tf.int64"),
    "Size": (tf.size, "out_type=tf.int64"),
    "ArgMax": (lambda x: tf.argmax(x, output_type=tf.int32), "output_type=tf.int64"),
    "TopKV2": (lambda x: tf.nn.top_k(x, 1), "index_type=tf.int64"),
    "UpperBound": (lambda x: tf.searchsorted(x, tf.constant([0], tf.int8), "right"), "out_type=tf.int64"),
}


@pytest.mark.parametrize("op", REFUSED)
def test_places_that_int32_does_not_hold_are_refused(op: str, zeros: np.ndarray) -> None:
    build, advice = REFUSED[op]
    x = tf.placeholder(tf.int8, [None])
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError) as refusal:
        session.run(build(x), {x: zeros})
    assert str(ROWS)[:8] in str(refusal.value) and advice in str(refusal.value)


def test_a_mask_of_narrow_lengths() -> None:
    with tf.Session() as session:
        mask = session.run(tf.sequence_mask(tf.constant([3, 200], tf.uint8), 300))
        assert mask.shape == (2, 300) and mask.sum(1).tolist() == [3, 200]
        assert session.run(tf.sequence_mask(tf.constant([2**40], tf.int64), 3)).all()


def test_sizes_beyond_int64_are_refused() -> None:
    tiled = tf.tile(tf.zeros([1000]), tf.constant([2**60], tf.int64))
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="must be below"):
        session.run(tiled)
