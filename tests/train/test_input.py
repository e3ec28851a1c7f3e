"""Input pipelines of queues, run to the end of their data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import sparkflow as tf


@contextmanager
def _running() -> Iterator[Any]:
    with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=20000)) as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coord)
        try:
            yield session
        finally:
            coord.request_stop()
            coord.join(threads, stop_grace_period_secs=10)


def _all(session: Any, fetches: Any) -> list[Any]:
    found = []
    while True:
        try:
            found.append(session.run(fetches))
        except tf.errors.OutOfRangeError:
            return found


def test_slices_come_together_as_often_as_asked(graph: Any) -> None:
    x, y = np.arange(10), np.arange(10, dtype=np.float32) ** 2
    one, square = tf.train.slice_input_producer([x, y], num_epochs=3, seed=1)
    rows = tf.train.batch([one, square], batch_size=4, allow_smaller_final_batch=True)
    with _running() as session:
        batches = _all(session, rows)
    seen = np.concatenate([b[0] for b in batches])
    assert [len(b[0]) for b in batches] == [4] * 7 + [2]
    assert sorted(seen.tolist()) == sorted(list(range(10)) * 3)
    assert seen.tolist()[:10] != list(range(10)), "shuffled"
    assert all((b[0] ** 2 == b[1]).all() for b in batches)


def test_what_is_left_of_the_last_batch_is_dropped(graph: Any) -> None:
    numbers = tf.train.range_input_producer(10, num_epochs=1, shuffle=False).dequeue()
    rows = tf.train.batch({"n": numbers, "half": numbers / 2}, 4)
    with _running() as session:
        batches = _all(session, rows)
    assert [b["n"].tolist() for b in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert batches[1]["half"].tolist() == [2, 2.5, 3, 3.5]


def test_shuffled_batches_of_many(graph: Any) -> None:
    rows = tf.train.input_producer(np.arange(40).reshape(20, 2), num_epochs=2, shuffle=False).dequeue_many(5)
    mixed = tf.train.shuffle_batch([rows], 10, capacity=40, min_after_dequeue=10, enqueue_many=True, seed=2)
    with _running() as session:
        found = _all(session, mixed)
    seen = np.concatenate(found)
    assert seen.shape == (40, 2)
    assert sorted(seen[:, 0].tolist()) == sorted(list(range(0, 40, 2)) * 2)
    assert seen[:10, 0].tolist() != list(range(0, 20, 2))


def test_files(graph: Any, tmp_path: Any) -> None:
    for name in ("b.txt", "a.txt", "c.csv"):
        (tmp_path / name).write_text(name * 2)
    found = tf.train.match_filenames_once(f"{tmp_path}/*.txt")
    name = tf.train.string_input_producer(found, num_epochs=1, shuffle=False).dequeue()
    text = tf.read_file(name)
    with _running() as session:
        assert _all(session, text) == [b"a.txta.txt", b"b.txtb.txt"]
    with tf.Session() as session:
        session.run(tf.write_file(f"{tmp_path}/new/d.txt", "four"))
        assert (tmp_path / "new" / "d.txt").read_text() == "four"
        assert list((tmp_path / "new").iterdir()) == [tmp_path / "new" / "d.txt"]
        with pytest.raises(tf.errors.NotFoundError, match=r"nowhere.txt: No such file"):
            session.run(tf.read_file(f"{tmp_path}/nowhere.txt"))


def test_a_pattern_that_no_file_matches(graph: Any, tmp_path: Any) -> None:
    """Ends, and says why, instead of looking for the first name for ever."""
    names = tf.train.string_input_producer(tf.train.match_filenames_once(f"{tmp_path}/*.none"))
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coord)
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(names.dequeue())
        with pytest.raises(tf.errors.InvalidArgumentError, match="requires a non-null input tensor"):
            coord.join(threads)


def test_two_sources(graph: Any) -> None:
    sources = [[tf.train.range_input_producer(6, num_epochs=1).dequeue()] for _ in range(2)]
    rows = tf.train.batch_join(sources, 3)
    with _running() as session:
        found = _all(session, rows)
    assert sorted(n for batch in found for n in batch.tolist()) == sorted(list(range(6)) * 2)


def test_sources_of_more_tensors_than_the_first(graph: Any) -> None:
    """What is over is left."""
    n = tf.train.range_input_producer(4, num_epochs=1).dequeue()
    rows = tf.train.batch_join([[n], [n, n * 2]], 2)
    assert (rows.dtype, rows.shape.as_list()) == (tf.int32, [2])
    with _running() as session:
        assert sum(map(len, _all(session, rows))) == 4
    with pytest.raises(ValueError, match="1 tensors where the first has 2"):
        tf.train.shuffle_batch_join([[n, n], [n]], 2, 8, 2)


def test_count_up_to(graph: Any) -> None:
    v = tf.Variable(1, name="v")
    count = tf.count_up_to(v, 3)
    with tf.Session() as session:
        session.run(v.initializer)
        assert [session.run(count), session.run(count)] == [1, 2]
        with pytest.raises(tf.errors.OutOfRangeError, match="Reached limit of 3"):
            session.run(count)


def test_refusals(graph: Any) -> None:
    with pytest.raises(ValueError, match="num_epochs must be > 0 not 0"):
        tf.train.limit_epochs(1, 0)
    with pytest.raises(ValueError, match="non-null input tensor"):
        tf.train.string_input_producer([])
    with pytest.raises(ValueError, match=r"All shapes must be fully defined: .* has \(\?,\)"):
        tf.train.batch([tf.placeholder(tf.float32, [None])], 2)
    with pytest.raises(ValueError, match="All shapes must have a known rank"):
        tf.train.batch([tf.placeholder(tf.float32)], 2, dynamic_pad=True)


REFUSED: list[tuple[str, Any]] = [
    ("num_threads of at least 1", lambda one: tf.train.batch([one], 2, num_threads=0)),
    ("at least one source", lambda one: tf.train.batch_join([], 2)),
    ("at least one tensor", lambda one: tf.train.batch({}, 2)),
    ("the same keys", lambda one: tf.train.batch_join([{"a": one}, {"b": one}], 2)),
    ("the same keys", lambda one: tf.train.batch_join([[one], {"b": one}], 2)),
    ("bigger than min_after_dequeue 8", lambda one: tf.train.shuffle_batch([one], 2, 4, 8)),
    (
        r"\(2,\) must have one entry for each example",
        lambda one: tf.train.maybe_batch([tf.tile([one], [3])], [True, False], 2, enqueue_many=True),
    ),
]


@pytest.mark.parametrize(("said", "make"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_what_cannot_be_batched_is_refused_when_it_is_built(graph: Any, said: str, make: Any) -> None:
    with pytest.raises(ValueError, match=said):
        make(tf.train.range_input_producer(7).dequeue())


def test_batches_are_padded_to_their_longest(graph: Any) -> None:
    x = tf.train.range_input_producer(5, num_epochs=1, shuffle=False).dequeue()
    batch = tf.train.batch({"n": x, "xs": tf.range(x)}, 2, dynamic_pad=True, allow_smaller_final_batch=True)
    assert batch["xs"].shape.as_list() == [None, None]
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coord)
        got = [session.run(batch) for _ in range(3)]
        assert [b["n"].tolist() for b in got] == [[0, 1], [2, 3], [4]]
        assert [b["xs"].tolist() for b in got] == [[[0], [0]], [[0, 1, 0], [0, 1, 2]], [[0, 1, 2, 3]]]
        coord.request_stop()
        coord.join(threads)


def _all_batches(batch: Any) -> list[Any]:
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coord)
        got = []
        try:
            while True:
                got.append(session.run(batch).tolist())
        except tf.errors.OutOfRangeError:
            coord.request_stop()
        coord.join(threads)
    return got


def test_examples_may_be_left_out(graph: Any) -> None:
    x = tf.train.range_input_producer(9, num_epochs=1, shuffle=False).dequeue()
    assert _all_batches(tf.train.maybe_batch(x, tf.equal(x % 3, 0), 2)) == [[0, 3]]


def test_examples_of_a_batch_may_be_left_out(graph: Any) -> None:
    x = tf.train.range_input_producer(3, num_epochs=1, shuffle=False).dequeue() * 10 + tf.range(3)
    batch = tf.train.maybe_batch_join([[x]], tf.not_equal(x % 10, 1), 3, enqueue_many=True)
    assert _all_batches(batch) == [[0, 2, 10], [12, 20, 22]]
    mixed = tf.train.maybe_shuffle_batch([tf.range(4)], 2, 8, 0, [True, False, True, False], enqueue_many=True)
    with tf.Session() as session:
        runner = tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)[-1]
        session.run(runner.enqueue_ops[0])
        assert sorted(session.run(mixed)) == [0, 2]


@pytest.mark.parametrize("keep, many", [([True], False), ([[True]], True)])
def test_what_keeps_must_be_a_scalar_or_a_vector(graph: Any, keep: Any, many: bool) -> None:
    with pytest.raises(ValueError, match=r"keep_input must be a scalar .*, got shape \(1"):
        tf.train.maybe_shuffle_batch_join([[tf.range(1)]], 1, 2, 0, keep, enqueue_many=many)


def test_a_list_of_one_gives_a_tensor(graph: Any) -> None:
    x = tf.constant(1)
    for batch in (tf.train.batch([x], 2), tf.train.batch((x,), 2), tf.train.shuffle_batch([x], 2, 9, 1)):
        assert isinstance(batch, tf.Tensor) and batch.shape == [2]
    assert isinstance(tf.train.batch_join([[x], [x]], 2), tf.Tensor)
    assert list(tf.train.batch({"x": x}, 2)) == ["x"]
    assert [b.shape for b in tf.train.batch([x, x], 2)] == [[2], [2]]


def test_names_of_queues_and_of_how_full_they_are(graph: Any) -> None:
    x = tf.train.slice_input_producer([tf.zeros([5, 2])], shuffle=False)[0]
    tf.train.string_input_producer(["a"], name="files")
    tf.train.shuffle_batch([x], 2, 20, 5)
    tf.train.batch([x], 2)
    runners = [runner.name for runner in tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)]
    assert runners[:2] == ["input_producer/input_producer", "files"]
    assert runners[2:] == ["shuffle_batch/random_shuffle_queue", "batch/fifo_queue"]
    summaries = [t.op.name for t in tf.get_collection(tf.GraphKeys.SUMMARIES)]
    assert summaries[-2:] == ["shuffle_batch/fraction_over_5_of_15_full", "batch/fraction_of_32_full"]
    queue = tf.RandomShuffleQueue(20, 5, [tf.int32], [[]])
    assert queue.name == "random_shuffle_queue" and queue.dequeue().op.name == "random_shuffle_queue_Dequeue"


@pytest.mark.parametrize("many", [False, True])
def test_sparse_tensors_are_batched(graph: Any, many: bool) -> None:
    """As the labels of recognised text are, which are of another length in each example."""
    n = tf.train.range_input_producer(3, num_epochs=1, shuffle=False).dequeue() + 1
    at = tf.to_int64(tf.range(n))[:, None]
    where = tf.concat([tf.zeros_like(at), at], 1) if many else at
    label = tf.SparseTensor(where, at[:, 0], tf.to_int64(tf.stack([1, n] if many else [n])))
    taken = tf.train.batch({"n": tf.fill([1], n) if many else n, "label": label}, 3, enqueue_many=many)
    assert isinstance(taken["label"], tf.SparseTensor) and taken["label"].indices.shape.as_list() == [None, 2]
    with _running() as session:
        found = session.run({"n": taken["n"], "label": tf.sparse_tensor_to_dense(taken["label"], -1)})
    assert found["n"].tolist() == [1, 2, 3] and found["label"].tolist() == [[0, -1, -1], [0, 1, -1], [0, 1, 2]]
