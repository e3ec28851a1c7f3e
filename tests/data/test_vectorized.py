"""Batches that are made at once, beside the same elements one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.data.dataset import Dataset
from sparkflow.data.deferred import Padding

D = tf.data.Dataset


def rows_of(dataset: Any, feeds: Any = None, before: Any = ()) -> list[Any]:
    iterator = dataset.make_initializable_iterator()
    element, found = iterator.get_next(), []
    with tf.Session() as session:
        session.run(list(before))
        session.run(iterator.initializer, feeds)
        while True:
            try:
                found.append(session.run(element))
            except tf.errors.OutOfRangeError:
                return found


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [x for k in sorted(value) for x in leaves(value[k])]
    return [x for part in value for x in leaves(part)] if isinstance(value, tuple) else [value]


def same(dataset: Any, size: int = 4, feeds: Any = None, before: Any = ()) -> None:
    """The batches are the elements, bit by bit, and were made at once."""
    assert dataset._step is not None
    one_by_one = [leaves(row) for row in rows_of(dataset, feeds, before)]
    batches = [leaves(row) for row in rows_of(dataset.batch(size), feeds, before)]
    for at, batch in enumerate(batches):
        for found, column in zip(batch, zip(*one_by_one[at * size : (at + 1) * size]), strict=True):
            wanted = np.stack([np.asarray(x, object if isinstance(x, bytes) else None) for x in column])
            assert found.dtype == wanted.dtype and found.shape == wanted.shape
            assert found.tolist() == wanted.tolist()


RNG = np.random.default_rng(0)
X, N, M = RNG.normal(size=(10, 6)).astype(np.float32), np.arange(10), RNG.normal(size=(10, 2, 3)).astype(np.float32)
TEXTS = np.array([f"{i},{i / 8},w{i % 3}" for i in range(10)], object)
FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "scaled": (X, lambda x: tf.cast(x * 50, tf.int32) / 7 - 1),
    "scalar and row": ((X, N), lambda x, i: x * tf.cast(i, tf.float32) + [1.0, 2, 3, 4, 5, 6]),
    "table and row": (X, lambda x: tf.ones([3, 1]) * x),
    "matrix and row": ((M, X), lambda m, x: (m + x[:3], m[..., 1], m[:, ::2], m[1], x[-2:], x[2:4])),
    "new axes": (M, lambda m: (m[tf.newaxis], m[:, tf.newaxis, 1:], tf.expand_dims(m, -1), tf.expand_dims(m, 0))),
    "one hot": (N, lambda i: {"a": tf.one_hot(i % 3, 3), "b": tf.one_hot([i, i + 1], 4, axis=0)}),
    "shapes": (M, lambda m: (tf.reshape(m, [3, 2]), tf.reshape(m, [-1]), tf.transpose(m), tf.shape(m), tf.size(m))),
    "squeezed": (M, lambda m: (tf.squeeze(m[:1], 0), tf.squeeze(m[:, :1]), tf.squeeze(m))),
    "joined": ((X, M), lambda x, m: (tf.stack([x, -x], 1), tf.concat([x, x[:2]], 0), tf.concat([m, m], -1))),
    "picked": (N, lambda i: tf.gather([[1, 2], [3, 4], [5, 6]], i % 3)),
    "compared": ((X, N), lambda x, i: (x > 0, tf.logical_and(i > 3, i < 7), tf.maximum(x, 0.5))),
    "curves": (X, lambda x: (tf.sqrt(tf.abs(x)), tf.exp(x), tf.tanh(x), tf.sigmoid(x), tf.log1p(tf.square(x)))),
    "csv": (TEXTS, lambda t: dict(zip("abc", tf.decode_csv(t, [[0], [0.0], [""]])))),
    "buckets": (TEXTS, lambda t: (tf.string_to_hash_bucket_fast(t, 10), tf.strings.length(t))),
    "the same for all": (N, lambda i: (i, tf.constant([1, 2]), tf.constant("a"))),
    "numbers": (N, lambda i: tf.string_to_number(tf.as_string(i))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_many(graph: Any, name: str) -> None:
    data, function = FUNCTIONS[name]
    same(D.from_tensor_slices(data).map(function))


def test_sources_that_are_no_arrays(graph: Any) -> None:
    same(D.range(10).map(lambda i: (i * 2, tf.cast(i, tf.float32))))
    rows = D.from_generator(lambda: iter(X), tf.float32, [6]).map(lambda x: x[1:] * 2)
    same(rows)
    same(rows.map(lambda x: {"first": x[0], "rest": x[1:]}))


def test_examples(graph: Any, tmp_path: Path) -> None:
    with tf.io.TFRecordWriter(str(tmp_path / "r")) as writer:
        for i in range(10):
            feature = {
                "i": tf.train.Feature(int64_list=tf.train.Int64List(value=[i])),
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=X[i])),
                "raw": tf.train.Feature(bytes_list=tf.train.BytesList(value=[X[i].tobytes()])),
            }
            if i % 2:
                feature.pop("i")
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    wanted = {
        "i": tf.FixedLenFeature([], tf.int64, -1), "x": tf.FixedLenFeature([2, 3], tf.float32),
        "raw": tf.FixedLenFeature([], tf.string),
    }  # fmt: skip

    def parse(record: Any) -> Any:
        found = tf.parse_single_example(record, wanted)
        return tf.reshape(tf.decode_raw(found["raw"], tf.float32), [3, 2]), found["x"], found["i"]

    same(tf.data.TFRecordDataset(str(tmp_path / "r")).map(parse))


def test_tables_and_tensors_of_the_graph_around(graph: Any) -> None:
    table = tf.contrib.lookup.index_table_from_tensor(tf.constant(["w0", "w2"]), default_value=-1)
    fed = tf.placeholder(tf.float32, [])
    same(
        D.from_tensor_slices((TEXTS, X)).map(lambda t, x: (table.lookup(tf.strings.lower(t)), x * fed)),
        feeds={fed: 3.0}, before=[tf.tables_initializer()],
    )  # fmt: skip


def test_order_and_number_of_what_is_made_late(graph: Any) -> None:
    rows = D.from_tensor_slices(N).map(lambda i: i * 10)
    for found, wanted in (
        (rows.skip(2).take(5), [20, 30, 40, 50, 60]),
        (rows.shard(3, 1), [10, 40, 70]),
        (rows.repeat(2).skip(8).take(4), [80, 90, 0, 10]),
        (rows.take(2).concatenate(rows.take(1)), [0, 10, 0]),
        (rows.filter(lambda i: i < 20), [0, 10]),
        (rows.take(2).prefetch(1).cache(), [0, 10]),
    ):
        assert rows_of(found) == wanted
        assert np.concatenate(rows_of(found.batch(3))).tolist() == wanted
    mixed = rows_of(rows.shuffle(4, seed=1).repeat(2).batch(10))
    assert [sorted(m.tolist()) for m in mixed] == [list(range(0, 100, 10))] * 2
    assert mixed[0].tolist() != mixed[1].tolist() and mixed[0].tolist() != sorted(mixed[0].tolist())
    with pytest.raises(tf.errors.InvalidArgumentError, match="buffer_size must be greater than zero"):
        rows_of(rows.shuffle(0))
    pairs = tf.data.experimental.unique()(D.from_tensor_slices([3, 1, 3, 1]))
    assert rows_of(pairs) == [3, 1]


@pytest.mark.parametrize(
    "function",
    [
        lambda i: tf.py_func(lambda x: x, [i], tf.int64),
        lambda i: i + tf.random_uniform([], 0, 5, tf.int64),
        lambda i: tf.reduce_sum(tf.range(i)),
        lambda i: tf.cond(i > 3, lambda: i, lambda: -i),
        lambda i: (i, tf.random_uniform([2])),
    ],
)
def test_functions_without_a_form_for_many(graph: Any, function: Any) -> None:
    rows = D.range(4).map(function)
    assert rows._step is None and len(rows_of(rows.batch(2))) == 2


def test_one_wrong_element_of_many(graph: Any) -> None:
    """The error is that of the element, and batches before it are whole."""
    lines = D.from_tensor_slices(["1", "2", "3", "x"]).map(lambda t: tf.decode_csv(t, [[0]])[0])
    iterator = lines.batch(2).make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        assert session.run(element).tolist() == [1, 2]
        with pytest.raises(tf.errors.InvalidArgumentError, match="x"):
            session.run(element)
    ragged = D.from_tensor_slices(["ab", "abc"]).map(lambda t: tf.decode_raw(t, tf.uint8))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Use padded_batch"):
        rows_of(ragged.batch(2))
    (padded,) = rows_of(ragged.padded_batch(2, [None]))
    assert padded.tolist() == [[97, 98, 0], [97, 98, 99]]
    wrong = D.from_tensor_slices(["abcdef", "abcdef"]).map(lambda t: tf.reshape(tf.decode_raw(t, tf.uint8), [3]))
    with pytest.raises(tf.errors.InvalidArgumentError):
        rows_of(wrong.batch(2))


def test_an_array_may_be_fed_again(graph: Any) -> None:
    """The step is bound to what the iterator was initialized with."""
    fed = tf.placeholder(tf.float32, [None, 2])
    iterator = D.from_tensor_slices(fed).map(lambda x: x + 1).repeat().batch(3).make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        for start in (0.0, 10.0):
            session.run(iterator.initializer, {fed: np.full((2, 2), start)})
            assert session.run(element).tolist() == [[start + 1] * 2] * 3


def test_a_dataset_is_what_it_says(graph: Any) -> None:
    rows: Dataset = D.from_tensor_slices(X).map(lambda x: {"x": x[:2], "y": x[0]}).batch(4)
    assert rows.output_shapes["x"].as_list() == [None, 2] and rows.output_types["y"] is tf.float32


def test_texts_of_any_kind_are_batched(graph: Any) -> None:
    """Bytes, and arrays without an axis that hold them."""
    lines = D.from_tensor_slices(["a b", "c"]).map(lambda t: tf.py_func(lambda x: x.upper(), [t], tf.string))
    assert rows_of(lines.batch(2))[0].tolist() == [b"A B", b"C"]
    held = D.from_generator(lambda: iter([np.array(b"a", object), np.array(b"bc", object)]), tf.string, [])
    assert rows_of(held.batch(2))[0].tolist() == [b"a", b"bc"]


def test_names_of_the_function_stay_its_own() -> None:
    """A constant of the function that is called as those are that a rule makes."""
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.from_tensor_slices(np.arange(6.0).reshape(6, 1))
        mapped = dataset.map(lambda x: tf.reshape(x, [1, 1]) + tf.constant(2.0, tf.float64, name="Const_1"))
        same(mapped.map(lambda x: (x, tf.constant([1, 2]), tf.reshape(x, [-1]))))


def records(*sizes: int) -> np.ndarray:
    """Messages with so many numbers and words each."""
    found = []
    for n in sizes:
        numbers = tf.train.Feature(int64_list=tf.train.Int64List(value=range(n)))
        words = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"w%d" % i for i in range(n // 2)]))
        label = tf.train.Feature(float_list=tf.train.FloatList(value=[n / 2]))
        features = tf.train.Features(feature={"n": numbers, "w": words, "y": label})
        found.append(tf.train.Example(features=features).SerializeToString())
    return np.array(found, object)


def dense(record: Any) -> Any:
    kinds = {"n": tf.VarLenFeature(tf.int64), "w": tf.VarLenFeature(tf.string), "y": tf.FixedLenFeature([], tf.float32)}
    found = tf.parse_single_example(record, kinds)
    numbers = tf.cast(tf.sparse_tensor_to_dense(found["n"]), tf.float32)
    return numbers, tf.sparse_tensor_to_dense(found["w"], "?"), found["y"]


@pytest.mark.parametrize("sizes", [(3, 0, 5, 1, 4, 4, 2), (0, 0), (2,), ()])
@pytest.mark.parametrize("shapes", [([None], [None], []), ([6], [None], []), ([None], [4], [])])
def test_features_made_dense_are_padded_at_once(graph: Any, sizes: tuple[int, ...], shapes: Any) -> None:
    rows = D.from_tensor_slices(records(*sizes)).map(dense)
    if sizes:
        assert rows._step is not None
        padding = Padding([(None,), (None,), ()], [0, b"", 0], [tf.float32, tf.string, tf.float32])
        assert rows._step({}).padded([0], padding) is not None
    fill = np.float32(-1), b"none", np.float32(0)
    found = rows_of(rows.padded_batch(3, shapes, fill))
    alone = rows_of(rows)
    wanted = rows_of(D.from_generator(lambda: alone, (tf.float32, tf.string, tf.float32)).padded_batch(3, shapes, fill))
    assert len(found) == -(-len(sizes) // 3)
    for one, other in zip(found, wanted, strict=True):
        for a, b in zip(one, other, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape and a.tolist() == b.tolist()


def test_features_made_dense_are_batched_where_they_have_one_size(graph: Any) -> None:
    same(D.from_tensor_slices(records(4, 4, 4, 4, 4)).map(dense), 2)
    same(D.from_tensor_slices(records(0, 0, 0)).map(dense), 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Cannot batch tensors with different shapes"):
        rows_of(D.from_tensor_slices(records(4, 2)).map(dense).batch(2))


def test_features_made_dense_that_are_too_long_for_the_padding(graph: Any) -> None:
    rows = D.from_tensor_slices(records(3, 5)).map(dense)
    with pytest.raises(tf.errors.DataLossError, match=r"smaller size than the input element: \[5\] > \[4\]"):
        rows_of(rows.padded_batch(2, ([4], [None], [])))


def test_what_is_made_of_features_that_are_dense(graph: Any) -> None:
    """Of whole vectors there is no form for many."""
    rows = D.from_tensor_slices(records(3, 5, 1))
    summed = rows.map(lambda r: tf.reduce_sum(dense(r)[0]))
    assert summed._step is None and rows_of(summed) == [3.0, 10.0, 0.0]
    twice = rows.map(dense).map(lambda n, w, y: (n * 2, tf.strings.length(w), y))
    found = rows_of(twice.padded_batch(3, ([None], [None], [])))
    assert found[0][0].tolist() == [[0, 2, 4, 0, 0], [0, 2, 4, 6, 8], [0, 0, 0, 0, 0]]
    assert found[0][1].tolist() == [[2, 0], [2, 2], [0, 0]]
