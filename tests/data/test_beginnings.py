"""What datasets begin with: numbers and tensors that are known late, SparseTensors, files of a pattern, generators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

Dataset = tf.data.Dataset


def elements(dataset: Any, feeds: Any = None) -> list[Any]:
    """All of them, as Python's values."""
    iterator = tf.data.make_initializable_iterator(dataset)
    following, found = iterator.get_next(), []
    with tf.Session() as session:
        session.run(iterator.initializer, feeds)
        while True:
            try:
                found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                return found


def plain(found: list[Any]) -> list[Any]:
    return [np.asarray(x).tolist() for x in found]


@pytest.mark.parametrize(
    ("make", "value", "wanted"),
    [
        (lambda n: Dataset.range(n), 3, [0, 1, 2]),
        (lambda n: Dataset.range(1, n, 2), 6, [1, 3, 5]),
        (lambda n: Dataset.range(6).shard(n, 1), 2, [1, 3, 5]),
        (lambda n: Dataset.range(6).shard(3, n), 2, [2, 5]),
        (lambda n: Dataset.range(5).window(n).flat_map(lambda w: w.batch(9)), 2, [[0, 1], [2, 3], [4]]),
        (lambda n: Dataset.from_tensor_slices([n, n + 1]), 7, [7, 8]),
        (lambda n: Dataset.range(3).flat_map(lambda x: Dataset.range(x, n)), 2, [0, 1, 1]),
    ],
)
def test_numbers_may_be_tensors(graph: Any, make: Any, value: int, wanted: list[Any]) -> None:
    given = tf.placeholder(tf.int64, [])
    assert plain(elements(make(given), {given: value})) == wanted


def test_range_of_another_type(graph: Any) -> None:
    assert tf.data.get_output_types(Dataset.range(2, output_type=tf.int32)) == tf.int32
    assert plain(elements(Dataset.range(3, 0, -1))) == [3, 2, 1] and plain(elements(Dataset.range(3, 0))) == []
    with pytest.raises(ValueError, match="one-shot"):
        tf.data.make_one_shot_iterator(Dataset.range(tf.placeholder(tf.int64, [])))


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda n: Dataset.range(0, 3, n), "step"),
        (lambda n: Dataset.range(3).batch(n), "batch_size"),
        (lambda n: Dataset.range(3).shard(n, 0), "shard"),
        (lambda n: Dataset.range(3).window(n).flat_map(lambda w: w), "window: size"),
    ],
)
def test_numbers_that_do_not_fit_are_refused_when_they_are_known(graph: Any, make: Any, match: str) -> None:
    given = tf.placeholder(tf.int64, [])
    with pytest.raises(tf.errors.InvalidArgumentError, match=match):
        elements(make(given), {given: 0})
    with pytest.raises(tf.errors.InvalidArgumentError, match=match):
        elements(make(0))


def test_interleave_takes_one_dataset_at_least(graph: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="cycle_length"):
        Dataset.range(3).interleave(Dataset.from_tensors, cycle_length=0)


def test_rows_of_a_sparse_tensor(graph: Any) -> None:
    sparse = tf.SparseTensor([[0, 0], [0, 1], [2, 1]], [1, 2, 3], [4, 2])
    for given in (sparse, tf.SparseTensorValue([[0, 0], [0, 1], [2, 1]], [1, 2, 3], [4, 2])):
        found = elements(Dataset.from_tensor_slices(given))
        assert [(x.indices.tolist(), x.values.tolist(), list(x.dense_shape)) for x in found] == [
            ([[0], [1]], [1, 2], [2]),
            ([], [], [2]),
            ([[1]], [3], [2]),
            ([], [], [2]),
        ]
        assert found[1].indices.shape == (0, 1)
    (whole,) = elements(Dataset.from_tensors({"s": sparse, "n": 5}))
    assert whole["n"] == 5 and whole["s"].values.tolist() == [1, 2, 3]


def test_rows_of_sparse_and_dense_tensors_together(graph: Any) -> None:
    indices = tf.placeholder(tf.int64, [None, 2])
    sparse = tf.SparseTensor(indices, [3.0, 1.0], [3, 9])
    dataset = Dataset.from_tensor_slices({"s": sparse, "label": [7, 8, 9]})
    batches = elements(dataset.batch(2), {indices: [[2, 8], [0, 4]]})  # in no order
    assert [b["label"].tolist() for b in batches] == [[7, 8], [9]]
    assert [b["s"].indices.tolist() for b in batches] == [[[0, 4]], [[0, 8]]]
    assert [b["s"].values.tolist() for b in batches] == [[1.0], [3.0]]
    assert batches[0]["s"].dense_shape.tolist() == [2, 9]
    with pytest.raises(tf.errors.InvalidArgumentError, match="row 3"):
        elements(dataset, {indices: [[3, 0], [0, 4]]})


def test_files_of_a_pattern_that_is_known_late(graph: Any, tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / f"{name}.txt").write_text(name)
    pattern = tf.placeholder(tf.string, [])
    files = Dataset.list_files(pattern, shuffle=False)
    assert elements(files, {pattern: f"{tmp_path}/*.txt"}) == [f"{tmp_path}/{n}.txt".encode() for n in "abc"]
    shuffled = elements(Dataset.list_files(pattern), {pattern: f"{tmp_path}/*.txt"})
    assert sorted(shuffled) == [f"{tmp_path}/{n}.txt".encode() for n in "abc"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="no files matched"):
        elements(files, {pattern: f"{tmp_path}/*.no"})


def test_a_generator_keeps_to_its_shapes(graph: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"shape \(2,\).*\(3,\)"):
        elements(Dataset.from_generator(lambda: iter([[1, 2, 3], [1, 2]]), tf.int64, [3]))


@pytest.mark.parametrize(
    ("types", "yielded", "said"),
    [
        ({"age": tf.int64, "rank": tf.int64}, {"age": 1, "size": 2}, "has not just the keys 'age', 'rank'"),
        ({"age": tf.int64, "rank": tf.int64}, (1, 2), "has not just the keys"),
        ((tf.int64, tf.int64), {"age": 1, "rank": 2}, "is no tuple of 2"),
        (((tf.int64, tf.int64), tf.int64), (1, (2, 3)), "1 is no tuple of 2"),
        (tf.int64, 1.5, "expected int64: .*1.5"),
        (tf.int64, "7", "expected int64"),
        (tf.uint8, 300, "300 does not fit uint8"),
        (tf.string, 7, "Expected strings, got 7 of type int"),
    ],
)
def test_a_generator_keeps_to_its_structure_and_types(graph: Any, types: Any, yielded: Any, said: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"The generator yielded .*{said}"):
        elements(Dataset.from_generator(lambda: iter([yielded]), types))


def test_lists_that_a_generator_yields_have_the_types_that_were_said(graph: Any) -> None:
    types = (tf.float64, {"words": tf.string, "ids": tf.int64})
    ((floats, inner),) = elements(
        Dataset.from_generator(lambda: iter([([0.1], {"words": [], "ids": (2**40, 1)})]), types)
    )
    assert floats.tolist() == [0.1] and inner["words"].tolist() == [] and inner["ids"].tolist() == [2**40, 1]


def test_a_function_may_give_a_list_and_have_loops(graph: Any) -> None:
    def both(x: Any) -> Any:
        return tf.py_func(lambda a: (a, a + 0.5), [x], [tf.int64, tf.float64])

    assert elements(Dataset.range(2).map(both)) == [(0, 0.5), (1, 1.5)]
    assert elements(Dataset.range(2).map(lambda x: [x, x])) == [(0, 0), (1, 1)]
    counted = Dataset.range(3).map(
        lambda x: tf.while_loop(lambda i: i < x, lambda i: i + 1, [tf.constant(0, tf.int64)])
    )
    assert elements(counted) == [0, 1, 2]


def test_a_number_of_elements_is_asserted(graph: Any) -> None:
    def checked(n: int) -> Any:
        return Dataset.range(3).apply(tf.data.experimental.assert_cardinality(n))

    assert elements(checked(3)) == [0, 1, 2]
    with pytest.raises(tf.errors.FailedPreconditionError, match="has more"):
        elements(checked(2))
    with pytest.raises(tf.errors.FailedPreconditionError, match="has 3"):
        elements(checked(4))
