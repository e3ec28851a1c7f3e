"""The rows of queues: copies that keep the GIL, and the places of a shuffling queue."""

import ml_dtypes
import numpy as np
import pytest

from sparkflow_runtime.kernels import queue_loops
from sparkflow_runtime.resources import shuffle_rows
from sparkflow_runtime.resources.queue_stores import ShuffleStore
from sparkflow_runtime.resources.row_copies import HELD_BYTES, copied, joined
from sparkflow_runtime.resources.shuffle_rows import Column, ShuffleLoops

ARRAYS = [
    np.arange(12, dtype=np.float32).reshape(4, 3),
    np.arange(24).reshape(4, 3, 2)[:, ::2],
    np.asfortranarray(np.arange(12.0).reshape(4, 3)),
    np.arange(4).astype(ml_dtypes.bfloat16),
    np.array([b"a", b"bc", b"", b"d"], object),
    np.arange(4) > 1,
    np.zeros((4, 0)),
    np.zeros((4, HELD_BYTES // 16)),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_copies_are_equal_and_apart(array):
    array.setflags(write=False)
    for copy in (copied(array), joined([array[:1], array[1:]])):
        assert copy.dtype == array.dtype and copy.flags.writeable and not np.shares_memory(copy, array)
        assert np.array_equal(copy, array)


@pytest.mark.parametrize("size, n", [(1, 1), (7, 7), (50, 1), (1000, 300), (1000, 999)])
def test_compiled_draws_are_those_of_numpy(size, n):
    drawn = np.random.default_rng(size).integers(1 << 32, size=n, dtype=np.uint32)
    a, b = np.arange(size + 5), np.arange(size + 5)
    shuffle_rows.draw(a, size, drawn)
    queue_loops.draw.compile()(b, size, drawn)
    assert a.tolist() == b.tolist() and sorted(a) == list(range(size + 5)) and a[size:].tolist() == b[size:].tolist()


@pytest.mark.parametrize("word", ["uint64", "uint32", "uint8"])
def test_compiled_moves_are_those_of_numpy(word):
    rows, places = np.arange(60, dtype=word).reshape(20, 3), np.array([7, 0, 19, 4], np.uint64)
    a, b = np.zeros((4, 3), word), np.zeros((4, 3), word)
    shuffle_rows.gather(rows, places, a)
    queue_loops.gather.compile()(rows, places, b)
    assert a.tolist() == b.tolist() == rows[places].tolist()
    a, b = rows.copy(), rows.copy()
    shuffle_rows.scatter(rows[:4], places, a)
    queue_loops.scatter.compile()(rows[:4], places, b)
    assert a.tolist() == b.tolist() and a[places].tolist() == rows[:4].tolist()


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_a_column_gives_what_was_put(array):
    column = Column(array.dtype, array.shape[1:], ShuffleLoops())
    column.grow(4)
    column.put(np.array([3, 1, 2]), array[:3])
    column.grow(9)
    column.put(np.array([8]), array[3:])
    assert np.array_equal(column.take(np.array([3, 1, 2, 8])), array)


def test_strings_that_were_taken_are_let_go():
    store = ShuffleStore([np.dtype(object)], [()], (1, 2))
    store.put([np.array([b"a", b"b"], object)])
    store.take(1)
    held = store._columns[0]._rows
    assert sum(value is not None for value in held) == 1


def test_a_seed_gives_the_same_rows_however_many_are_taken_at_once():
    def run(numbers):
        store = ShuffleStore([np.dtype(np.int64)], [()], (1, 2))
        store.put([np.arange(10_000)])
        return np.concatenate([store.take(n)[0] for n in numbers])

    assert run([9_000, 1]).tolist() == run([1] * 5 + [8_996]).tolist()
