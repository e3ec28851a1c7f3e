"""What Dataset has as methods: counts, classes, keys, sparse batches, and elements that may not be there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from tests.data.elements import values

D, X = tf.data.Dataset, tf.data.experimental


def ragged() -> Any:
    return D.from_generator(lambda: ([i] * i for i in range(1, 5)), tf.int64, [None])


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (lambda: D.range(5), 5), (lambda: D.range(5).repeat(), -1), (lambda: D.range(0).repeat(), 0),
        (lambda: D.range(5).repeat(3), 15), (lambda: D.range(5).repeat(0), 0), (lambda: D.range(5).batch(2), 3),
        (lambda: D.range(5).batch(2, True), 2), (lambda: D.range(5).padded_batch(2, []), 3),
        (lambda: D.range(5).filter(lambda x: x > 1), -2), (lambda: D.range(5).map(lambda x: x + 1), 5),
        (lambda: D.range(5).flat_map(lambda x: D.range(2)), -2), (lambda: D.from_tensors([1, 2]), 1),
        (lambda: D.from_tensor_slices(np.zeros((7, 2))).shuffle(3).prefetch(1).cache(), 7),
        (lambda: D.range(9).take(4), 4), (lambda: D.range(3).take(-1), 3), (lambda: D.range(3).repeat().take(4), 4),
        (lambda: D.range(3).skip(2), 1), (lambda: D.range(3).skip(-1), 0), (lambda: D.range(3).repeat().skip(3), -1),
        (lambda: D.range(10).shard(3, 0), 4), (lambda: D.range(10).shard(3, 1), 3), (lambda: D.range(4).enumerate(), 4),
        (lambda: D.zip((D.range(3), D.range(5))), 3), (lambda: D.zip((D.range(3).repeat(), D.range(5))), 5),
        (lambda: D.zip((D.range(3).filter(lambda x: x > 0), D.range(5))), -2),
        (lambda: D.range(3).concatenate(D.range(4)), 7), (lambda: D.range(3).repeat().concatenate(D.range(4)), -1),
        (lambda: D.range(3).filter(lambda x: x > 1).concatenate(D.range(4)), -2), (lambda: ragged(), -2),
        (lambda: D.counter(), -1), (lambda: D.random(), -1), (lambda: D.range(5).unique(), -2),
        (lambda: D.range(5).scan(np.int64(0), lambda s, x: (s, x)), 5), (lambda: D.range(5).sparse_batch(2, []), 3),
        (lambda: D.range(5).apply(X.assert_cardinality(5)), 5), (lambda: X.from_list([1, 2, 3]), 3),
        (lambda: D.range(tf.constant(2, tf.int64) + tf.constant(1, tf.int64)).repeat(2), 6),
    ],
)  # fmt: skip
def test_cardinality(graph: Any, make: Any, count: int) -> None:
    with tf.Session() as session:
        assert session.run(X.cardinality(make())) == count
        assert session.run(make().cardinality()) == count


def test_placeholders_count_when_it_runs(graph: Any) -> None:
    size = tf.placeholder(tf.int64, [])
    count = D.range(size).batch(2).cardinality()
    with tf.Session() as session:
        assert [int(session.run(count, {size: n})) for n in (0, 3, 4)] == [0, 2, 2]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: D.range(9).take_while(lambda x: x < 3), [0, 1, 2]),
        (lambda: D.from_tensor_slices([3, 1, 3]).unique(), [3, 1]),
        (lambda: D.range(4).scan(np.int64(0), lambda s, x: (s + x, s)), [0, 0, 1, 3]),
        (lambda: D.range(5).group_by_window(lambda x: x % 2, lambda k, rows: rows.batch(2), 2), [[0, 2], [1, 3], [4]]),
        (lambda: ragged().bucket_by_sequence_length(lambda x: tf.shape(x)[0], [3], [2, 2], padded_shapes=[None]),
         [[[1, 0], [2, 2]], [[3, 3, 3, 0], [4, 4, 4, 4]]]),
        (lambda: D.range(6).batch(4).rebatch(3), [[0, 1, 2], [3, 4, 5]]),
        (lambda: D.counter(2, 3).take(2), [2, 5]),
        (lambda: X.from_list([(1, 2), (3, 4)]), [(1, 2), (3, 4)]),
        (lambda: ragged().sparse_batch(2, [4]).map(tf.sparse_tensor_to_dense),
         [[[1, 0, 0, 0], [2, 2, 0, 0]], [[3, 3, 3, 0], [4, 4, 4, 4]]]),
        (lambda: ragged().sparse_batch(3, [None]).map(lambda s: s.dense_shape), [[3, 3], [1, 4]]),
        (lambda: D.range(3).sparse_batch(2, []).map(lambda s: s.values), [[0, 1], [2]]),
        (lambda: D.choose_from_datasets([D.range(2), D.range(5, 8)], D.from_tensor_slices(np.array([1, 0, 0, 0, 1]))),
         [5, 0, 1]),
        (lambda: D.sample_from_datasets([D.range(2), D.range(9)], [1.0, 0.0], stop_on_empty_dataset=True), [0, 1]),
    ],
)  # fmt: skip
def test_methods(graph: Any, make: Any, expected: Any) -> None:
    assert values(make()) == expected


def test_reducers(graph: Any) -> None:
    """States are structures; what comes out stands in the order of the keys."""
    means = X.Reducer(
        lambda key: {"key": key, "sum": 0.0, "count": 0.0},
        lambda s, x: {"key": s["key"], "sum": s["sum"] + tf.to_float(x), "count": s["count"] + 1.0},
        lambda s: (s["key"], s["sum"] / s["count"]),
    )
    grouped = D.from_tensor_slices(np.array([5, 4, 1, 6, 3])).apply(X.group_by_reducer(lambda x: x % 2, means))
    assert values(grouped) == [(0, 5.0), (1, 3.0)]
    with pytest.raises(ValueError, match="key_func"):
        D.range(3).apply(X.group_by_reducer(tf.to_float, means))
    wrong = X.Reducer(lambda key: key, lambda s, x: tf.to_float(s), lambda s: s)
    with pytest.raises(TypeError, match="state"):
        D.range(3).apply(X.group_by_reducer(lambda x: x, wrong))


@pytest.mark.parametrize("initial", [None, [0.9, 0.1]])
def test_other_distributions_of_classes(graph: Any, initial: Any) -> None:
    classes = np.random.default_rng(1).random(6000) < 0.1
    resampled = D.from_tensor_slices(classes).rejection_resample(tf.to_int32, [0.5, 0.5], initial, seed=4)
    found = values(resampled, 6000)
    assert all(bool(kind) == element for kind, element in found)
    assert 900 < len(found) < 1600 and abs(np.mean([kind for kind, _ in found]) - 0.5) < 0.05


def test_what_resampling_refuses(graph: Any) -> None:
    with pytest.raises(TypeError, match="class_func"):
        D.range(3).rejection_resample(tf.to_float, [0.5, 0.5])
    element = D.range(3).rejection_resample(lambda x: x, [0.5, 0.5]).make_one_shot_iterator().get_next()
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="2 classes"):
        for _ in range(3):
            session.run(element)


def test_resampling_goes_on_behind_an_error_and_ends_once(graph: Any) -> None:
    numbers = D.range(60).map(lambda x: tf.to_int32(x) // (7 - tf.to_int32(x)) * 0 + tf.to_int32(x) % 2)
    element = numbers.rejection_resample(lambda x: x, [0.5, 0.5], [0.6, 0.4], 4).make_one_shot_iterator().get_next()
    found, ends, failed = 0, 0, 0
    with tf.Session() as session:
        while ends < 3 and found < 200:
            try:
                session.run(element)
                found += 1
            except tf.errors.OutOfRangeError:
                ends += 1
            except tf.errors.InvalidArgumentError:
                failed += 1
    assert ends == 3 and failed == 2 and 50 < found < 80  # of each class some come as they are, others by chance


def test_random_numbers_come_again_with_a_seed(graph: Any) -> None:
    first, second = (values(X.RandomDataset(5), 300) for _ in range(2))
    assert first == second and len(set(first)) > 290 and min(first) >= 0 and max(first) < 2**32


def test_what_sparse_batches_refuse(graph: Any) -> None:
    batch = ragged().apply(X.dense_to_sparse_batch(3, [2])).make_one_shot_iterator().get_next()
    with tf.Session() as session, pytest.raises(tf.errors.DataLossError, match="larger than row_shape"):
        session.run(batch)
    with pytest.raises(ValueError, match="another rank"):
        ragged().sparse_batch(3, [2, 2])
    with pytest.raises(TypeError, match="single tensors"):
        D.zip((D.range(2), D.range(2))).sparse_batch(2, [])


def test_optionals(graph: Any) -> None:
    iterator = D.range(2).map(lambda x: (x, {"half": tf.to_float(x) / 2})).make_initializable_iterator()
    following = iterator.get_next_as_optional()
    has, value = following.has_value(), following.get_value()
    assert value[0].shape.as_list() == [] and has.dtype is tf.bool
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(has)
        session.run(iterator.initializer)
        assert [session.run((has, value)) for _ in range(2)] == [(True, (0, {"half": 0})), (True, (1, {"half": 0.5}))]
        assert not session.run(has)
        with pytest.raises(tf.errors.InvalidArgumentError, match="does not have a value"):
            session.run(value)
        known, empty = X.Optional.from_value({"a": 3}), X.Optional.empty(tf.TensorSpec([2], tf.string))
        assert session.run([known.has_value(), known.get_value(), empty.has_value()]) == [True, {"a": 3}, False]
        assert empty.get_value().shape.as_list() == [2]


def test_optionals_of_a_fed_iterator(graph: Any) -> None:
    source, handle = D.range(1).make_one_shot_iterator(), tf.placeholder(tf.string, [])
    fed = tf.data.Iterator.from_string_handle(handle, tf.int64, [])
    has = X.get_next_as_optional(fed).has_value()
    with tf.Session() as session:
        name = session.run(source.string_handle())
        assert [bool(session.run(has, {handle: name})) for _ in range(2)] == [True, False]


def test_what_elements_are(graph: Any) -> None:
    dataset = D.range(4).map(lambda x: {"a": x, "b": tf.fill([3], 1.0), "s": tf.SparseTensor([[0]], [x], [3])})
    spec = dataset.element_spec
    assert spec["a"] == tf.TensorSpec([], tf.int64) and spec["b"].shape.as_list() == [3]
    assert isinstance(spec["s"], tf.SparseTensorSpec) and spec["s"].dtype is tf.int64
    assert dataset.make_one_shot_iterator().element_spec["b"] == spec["b"]


def test_records_of_a_dataset(graph: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "records")
    with tf.Session() as session:
        session.run(X.TFRecordWriter(path).write(D.from_tensor_slices(["a", "bc"])))
    assert values(tf.data.TFRecordDataset(path)) == [b"a", b"bc"]
    with pytest.raises(TypeError, match="scalar strings"):
        X.TFRecordWriter(path).write(D.range(3))


@pytest.mark.parametrize("wrong", [2.5, 2.0, "2", [2]], ids=repr)
def test_settings_are_whole_numbers(graph: Any, wrong: Any) -> None:
    """Half a batch size is a mistake that no rounding should hide."""
    rows = tf.data.Dataset.range(5)
    for method in (rows.batch, rows.repeat, rows.take, rows.skip, rows.shuffle, rows.padded_batch, rows.window):
        with pytest.raises(TypeError, match="must be a whole number"):
            method(wrong)
    assert rows.batch(np.int32(2)).output_shapes.as_list() == [None]


@pytest.mark.parametrize(
    ("calls", "error"),
    [("x", TypeError), (1.5, TypeError), (0, tf.errors.InvalidArgumentError), (-2, tf.errors.InvalidArgumentError)],
)
def test_numbers_of_calls_that_there_cannot_be(calls: Any, error: type, graph: Any) -> None:
    numbers = tf.data.Dataset.range(3)
    for make in (
        lambda: numbers.map(lambda x: x, num_parallel_calls=calls),
        lambda: numbers.interleave(tf.data.Dataset.range, 2, num_parallel_calls=calls),
        lambda: numbers.apply(tf.data.experimental.map_and_batch(lambda x: x, 2, num_parallel_calls=calls)),
    ):
        with pytest.raises(error, match=r"must be a whole number|num_parallel_calls must be greater than zero"):
            make()
    for fine in (None, 2, tf.data.experimental.AUTOTUNE, tf.constant(2, tf.int64)):
        numbers.map(lambda x: x, num_parallel_calls=fine)


@pytest.mark.parametrize("cycle_length", [None, tf.data.experimental.AUTOTUNE])
def test_interleaving_of_as_many_as_one_likes(cycle_length: Any, graph: Any) -> None:
    made = tf.data.Dataset.range(4).interleave(tf.data.Dataset.range, cycle_length, None)
    element = made.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert [session.run(element) for _ in range(6)] == [0, 0, 1, 0, 1, 2]
