"""Feature columns: what they make of features, their variables, and what they refuse. Values are TensorFlow 1.15's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

fc = tf.feature_column
NUMBERS = np.array([1.0, 5.0, 9.0, 2.0], np.float32)
WORDS = np.array([["a", "b"], ["c", ""], ["zz", "a"], ["", ""]], object)
IDS = np.array([3, -1, 0, 2], np.int64)
WEIGHTS = np.array([[0.5, 2.0], [1.0, 0.0], [3.0, 1.0], [0.0, 0.0]], np.float32)


def features() -> dict[str, Any]:
    return {"x": tf.constant(NUMBERS), "c": tf.constant(WORDS), "i": tf.constant(IDS), "w": tf.constant(WEIGHTS)}


def run(make: Callable[[], Any]) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        found = make()
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return session.run(found)


def layer(*columns: Any) -> np.ndarray:
    return run(lambda: fc.input_layer(features(), columns))


def words(**more: Any) -> Any:
    return fc.categorical_column_with_vocabulary_list("c", ["a", "b", "c"], **more)


def identity(key: str = "i") -> Any:
    return fc.categorical_column_with_identity(key, 4, default_value=0)


def table(rows: int) -> Any:
    return tf.constant_initializer(np.arange(rows * 2, dtype=np.float32).reshape(rows, 2))


def test_numbers_and_buckets_lie_in_the_order_of_their_names() -> None:
    x = fc.numeric_column("x", normalizer_fn=lambda t: t * 2)
    found = layer(fc.bucketized_column(fc.numeric_column("x"), [2.0, 5.0]), x)
    buckets = np.eye(3)[[0, 2, 2, 1]]
    np.testing.assert_array_equal(found, np.hstack([2 * NUMBERS[:, None], buckets]))


@pytest.mark.parametrize(
    ("column", "hot"),
    [
        (lambda: words(), [[0, 1], [2], [0], []]),
        (lambda: words(default_value=1), [[0, 1], [2], [1, 0], []]),
        (lambda: words(num_oov_buckets=2), [[0, 1], [2], [3, 0], []]),
        (lambda: fc.categorical_column_with_hash_bucket("c", 10), [[2, 9], [2], [2, 9], []]),
        (lambda: identity(), [[3], [], [0], [2]]),
        (lambda: fc.categorical_column_with_vocabulary_list("i", [0, 2, 3], default_value=1), [[2], [], [0], [1]]),
    ],
)  # fmt: skip
def test_indicators(column: Callable[[], Any], hot: list[list[int]]) -> None:
    categorical = column()
    expected = np.zeros((4, categorical.num_buckets))
    for row, ids in enumerate(hot):
        np.add.at(expected[row], ids, 1)
    np.testing.assert_array_equal(layer(fc.indicator_column(categorical)), expected)


def hashed(key: str) -> Any:
    return fc.categorical_column_with_hash_bucket(key, 4)


def test_a_vocabulary_file_may_be_cut(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("a\nb\nc\n")
    whole = fc.categorical_column_with_vocabulary_file("c", str(path))
    cut = fc.categorical_column_with_vocabulary_file("c", str(path), vocabulary_size=2, num_oov_buckets=1)
    np.testing.assert_array_equal(layer(fc.indicator_column(whole)), layer(fc.indicator_column(words())))
    np.testing.assert_array_equal(layer(fc.indicator_column(cut))[:3, :2], [[1, 1], [0, 0], [1, 0]])


def test_weights_weigh() -> None:
    weighted = fc.weighted_categorical_column(words(num_oov_buckets=0), "w")
    assert weighted.name == "c_weighted_by_w"
    dense = layer(fc.indicator_column(weighted))
    np.testing.assert_array_equal(dense, [[0.5, 2, 0], [0, 0, 1], [1, 0, 0], [0, 0, 0]])
    mean = layer(fc.embedding_column(weighted, 2, initializer=table(3)))
    np.testing.assert_allclose(mean, [[(0 * 0.5 + 2 * 2) / 2.5, (0.5 + 3 * 2) / 2.5], [4, 5], [0, 1], [0, 0]], 1e-6)


def test_crosses_are_hashed_as_tensorflow_hashes() -> None:
    crossed = fc.crossed_column(["c", "i"], 100)
    assert crossed.name == "c_X_i"
    assert [np.flatnonzero(row).tolist() for row in layer(fc.indicator_column(crossed))] == [
        [64, 86],
        [7, 69],
        [44, 63],
        [85],
    ]


def test_embeddings_combine_and_leave_rows_without_ids_at_zero() -> None:
    for combiner, first in (("sum", [2, 4]), ("mean", [1, 2]), ("sqrtn", [2 / 2**0.5, 4 / 2**0.5])):
        found = layer(fc.embedding_column(words(), 2, combiner, initializer=table(3)))
        np.testing.assert_allclose(found, [first, [4, 5], [0, 1], [0, 0]], 1e-6)


def test_shared_embeddings_have_one_table() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        given = {"i": tf.constant(IDS), "j": tf.constant(IDS[::-1].copy())}
        found = fc.input_layer(
            given, fc.shared_embedding_columns([identity("j"), identity("i")], 2, initializer=table(4))
        )
        assert [v.op.name for v in tf.global_variables()] == ["input_layer/i_j_shared_embedding/embedding_weights"]
        session.run(tf.global_variables_initializer())
        rows = np.array([[6, 7], [0, 0], [0, 1], [4, 5]])
        np.testing.assert_array_equal(session.run(found), np.hstack([rows, rows[::-1]]))


def test_a_linear_model_sums_weights_and_bias() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        mine: dict[Any, Any] = {}
        x, c = fc.numeric_column("x"), words()
        found = fc.linear_model(features(), [c, x], units=2, cols_to_vars=mine)
        assert [v.op.name for v in tf.trainable_variables()] == [
            "linear_model/c/weights", "linear_model/x/weights", "linear_model/bias_weights",
        ]  # fmt: skip
        assert mine == {c: mine[c], x: mine[x], "bias": tf.trainable_variables()[2:]}
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        mine[c][0].load(np.array([[1, 2], [3, 4], [5, 6]], np.float32), session)
        mine[x][0].load(np.array([[1, 10]], np.float32), session)
        mine["bias"][0].load(np.array([100, 200], np.float32), session)
        of_words = np.array([[4, 6], [5, 6], [1, 2], [0, 0]])
        expected = of_words + NUMBERS[:, None] * [1, 10] + [100, 200]
        np.testing.assert_allclose(session.run(found), expected)


def test_sparse_features_and_examples_are_taken_as_parsed() -> None:
    columns = [fc.numeric_column("x", shape=2), fc.indicator_column(words())]
    spec = fc.make_parse_example_spec(columns)
    assert spec == {"x": tf.FixedLenFeature((2,), tf.float32), "c": tf.VarLenFeature(tf.string)}

    def example(text: list[bytes]) -> bytes:
        kinds = tf.train
        feature = {"x": kinds.Feature(float_list=kinds.FloatList(value=[1, 2])),
                   "c": kinds.Feature(bytes_list=kinds.BytesList(value=text))}  # fmt: skip
        return kinds.Example(features=kinds.Features(feature=feature)).SerializeToString()

    rows = [example([b"a", b"c", b"a"]), example([])]
    found = run(lambda: fc.input_layer(tf.parse_example(rows, spec), columns))
    np.testing.assert_array_equal(found, [[2, 0, 1, 1, 2], [0, 0, 0, 1, 2]])


def test_a_table_may_come_from_a_checkpoint(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("there/rows", initializer=np.arange(6, dtype=np.float32).reshape(3, 2))
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    column = fc.embedding_column(words(), 2, ckpt_to_load_from=path, tensor_name_in_ckpt="there/rows")
    np.testing.assert_allclose(layer(column), [[1, 2], [4, 5], [0, 1], [0, 0]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fc.numeric_column("x", shape=[0]), "greater than 0"),
        (lambda: fc.numeric_column("x", dtype=tf.string), "convertible to float"),
        (lambda: fc.numeric_column("x", shape=[2], default_value=[1, 2, 3]), "shape of default_value"),
        (lambda: fc.bucketized_column(fc.numeric_column("x"), [2, 1]), "sorted list"),
        (lambda: fc.bucketized_column(identity(), [1, 2]), "numeric_column"),
        (lambda: fc.categorical_column_with_hash_bucket("c", 0), "hash_bucket_size"),
        (lambda: fc.categorical_column_with_identity("i", 3, default_value=3), "not in range"),
        (lambda: fc.categorical_column_with_vocabulary_list("c", ["a", "a"]), "Duplicate keys"),
        (lambda: words(num_oov_buckets=1, default_value=0), "both num_oov_buckets and default_value"),
        (lambda: fc.embedding_column(words(), 0), "Invalid dimension"),
        (lambda: fc.crossed_column(["c"], 10), "length > 1"),
        (lambda: fc.crossed_column(["c", hashed("d")], 10), "for crossing"),
        (lambda: fc.shared_embedding_columns([identity(), words()], 2), "same type and number of buckets"),
        (lambda: layer(words()), "dense column"),
        (lambda: layer(fc.numeric_column("y")), "not in features dictionary"),
        (lambda: layer(fc.numeric_column("x"), fc.numeric_column("x")), "Duplicate feature column name"),
        (lambda: layer(fc.indicator_column(hashed("x"))), "dtype must be compatible"),
    ],
)  # fmt: skip
def test_what_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_an_id_out_of_range_is_an_error_in_the_step() -> None:
    column = fc.indicator_column(fc.categorical_column_with_identity("i", 3))
    with pytest.raises(tf.errors.InvalidArgumentError, match="assert_less_than_num_buckets"):
        layer(column)


def test_an_example_has_as_many_numbers_as_its_column(graph: Any) -> None:
    column = tf.feature_column.numeric_column("x", shape=(3,))
    with pytest.raises(ValueError, match="1 numbers an example"):
        tf.feature_column.input_layer({"x": tf.constant([[1.0], [20.0], [35.0]])}, [column])
    x = tf.placeholder(tf.float32, [None, None])
    row = tf.feature_column.input_layer({"x": x}, [column])
    with tf.Session() as session:
        assert session.run(row, {x: [[1.0, 2.0, 3.0]]}).tolist() == [[1, 2, 3]]
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(row, {x: [[1.0], [2.0], [3.0]]})
