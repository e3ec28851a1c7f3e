"""Look-up tables, as programs use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import lookup
from sparkflow.framework.apply import apply_op
from sparkflow_runtime.resources.dense_tables import Buckets, DenseTable
from sparkflow_runtime.resources.tables import Table, TableSpec
from sparkflow_runtime.wire import dtypes

pytestmark = pytest.mark.usefixtures("graph")


def test_a_vocabulary_and_back() -> None:
    words = tf.placeholder(tf.string, [None])
    ids = lookup.index_table_from_tensor(["emerson", "lake", "palmer"], num_oov_buckets=1)
    back = lookup.index_to_string_table_from_tensor(["emerson", "lake", "palmer"], default_value="UNKNOWN")
    found = ids.lookup(words)
    with tf.Session() as sess:
        sess.run(tf.tables_initializer())
        at, text = sess.run([found, back.lookup(found)], {words: ["lake", "and", "palmer"]})
    assert at.tolist() == [1, 3, 2]
    assert text.tolist() == [b"lake", b"UNKNOWN", b"palmer"]


def test_a_vocabulary_file(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("a\r\nb\nc")
    table = lookup.index_table_from_file(str(file), vocab_size=2, default_value=7)
    back = lookup.index_to_string_table_from_file(str(file))
    with tf.Session() as sess:
        sess.run(tf.tables_initializer())
        assert sess.run(table.lookup(tf.constant(["b", "c", "a"]))).tolist() == [1, 7, 0]
        assert sess.run(back.lookup(tf.constant([0, 2, 3], tf.int64))).tolist() == [b"a", b"c", b"UNK"]
        assert sess.run([table.size(), back.size()]) == [2, 3]


def test_a_vocabulary_of_numbers() -> None:
    table = lookup.index_table_from_tensor([10, 20], dtype=tf.int32, num_oov_buckets=2)
    with tf.Session() as sess:
        sess.run(table.init)
        assert sess.run(table.lookup(tf.constant([20, 10]))).tolist() == [1, 0]
        assert sess.run(table.lookup(tf.constant([5]))).item() in (2, 3)


def test_only_buckets() -> None:
    table = lookup.IdTableWithHashBuckets(None, 3)
    with tf.Session() as sess:
        sess.run(table.initializer)
        got = sess.run(table.lookup(tf.constant(["a", "b", "c", "d"])))
        assert set(got.tolist()) <= {0, 1, 2}
        assert sess.run(table.size()) == 3


def test_a_sparse_look_up() -> None:
    table = lookup.index_table_from_tensor(["a", "b"])
    found = table.lookup(tf.SparseTensor([[0, 0], [1, 2]], ["b", "z"], [2, 3]))
    with tf.Session() as sess:
        sess.run(tf.tables_initializer())
        value = sess.run(found)
    assert value.values.tolist() == [1, -1]
    assert value.indices.tolist() == [[0, 0], [1, 2]]


def test_a_table_that_is_not_filled_says_so() -> None:
    table = lookup.index_table_from_tensor(["a"])
    with tf.Session() as sess, pytest.raises(tf.errors.FailedPreconditionError, match="tables_initializer"):
        sess.run(table.lookup(tf.constant(["a"])))


def test_a_table_filled_with_other_values_refuses() -> None:
    values = tf.placeholder(tf.int64, [1])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], values), -1)
    with tf.Session() as sess:
        sess.run(table.initializer, {values: [1]})
        sess.run(table.initializer, {values: [1]})
        with pytest.raises(tf.errors.FailedPreconditionError, match="different data"):
            sess.run(table.initializer, {values: [2]})


def test_the_older_op_fills_too() -> None:
    table = lookup.index_table_from_tensor(["a"])
    fill = apply_op("InitializeTableV2", [table.resource_handle, ["x", "y"], np.array([4, 5])])
    with tf.Session() as sess:
        sess.run(fill)
        assert sess.run(table.lookup(tf.constant(["y"]))).item() == 5


def test_keys_of_another_type_are_refused() -> None:
    table = lookup.index_table_from_tensor(["a"])
    with pytest.raises(TypeError, match="keys"):
        table.lookup(tf.constant([1]))


def test_monitored_sessions_fill_tables() -> None:
    table = lookup.index_table_from_tensor(["a", "b"])
    found = table.lookup(tf.constant(["b"]))
    tf.train.create_global_step()
    with tf.train.MonitoredTrainingSession() as sess:
        assert sess.run(found).item() == 1


def test_a_saver_keeps_tables_that_change(tmp_path: Path) -> None:
    table = lookup.MutableHashTable(tf.string, tf.int64, -1, name="t")
    vectors = lookup.MutableHashTable(tf.int64, tf.float32, [0.0, 0.0], name="v")
    w = tf.Variable(3.0, name="t-middle")
    fill = [table.insert(["a", "b"], [1, 2]), vectors.insert([5], [[1.5, 2.5]])]
    more = table.insert(["c", "b"], [3, 9])
    found = [table.lookup(["a", "b", "c"]), vectors.lookup([5, 6])]
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(fill)
        path = saver.save(sess, str(tmp_path / "model"))
        sess.run([more, w.assign(7.0)])
        saver.restore(sess, path)
        assert sess.run(found[0]).tolist() == [1, 2, -1]
        assert sess.run(w) == 3.0
    with tf.Session() as sess:
        saver.restore(sess, path)
        assert sess.run(found[0]).tolist() == [1, 2, -1]
        assert sess.run(found[1]).tolist() == [[1.5, 2.5], [0.0, 0.0]]
    assert {"t-keys", "t-values", "v-keys", "v-values", "t-middle"} == {n for n, _ in tf.train.list_variables(path)}


def test_rows_of_removed_keys_are_used_again() -> None:
    """Random inserts and removals give what a dictionary gives."""
    table = Table("t", TableSpec(dtypes.int64, dtypes.float32, False))
    held: dict[int, float] = {}
    rng = np.random.default_rng(3)
    for step in range(200):
        keys = rng.integers(0, 30, 8)
        if step % 3 == 2:
            table.remove(keys)
            for key in keys.tolist():
                held.pop(key, None)
        else:
            values = rng.normal(size=8).astype(np.float32)
            table.insert(keys, values)
            held.update(zip(keys.tolist(), values.tolist()))
        got = table.find(np.arange(30), np.float32(-99).reshape(()))
        assert got.tolist() == [held.get(i, -99.0) for i in range(30)]
        assert len(table) == len(held)
    keys, values = table.export()
    assert dict(zip(keys.tolist(), values.tolist())) == held
    assert len(table._values) <= 64


def _dense(**options: Any) -> Any:
    return tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, -1.0, 0, -1, initial_num_buckets=4, **options)


def test_a_saver_keeps_the_buckets_of_a_dense_table(tmp_path: Path) -> None:
    """What another process saved is there, and what came after is not."""
    table = _dense(name="d")
    fill = table.insert([5, 6, 7, 8], [1.0, 2.0, 3.0, 4.0])
    more = [table.insert([9], [5.0]), table.remove(tf.constant([6], tf.int64))]
    found = table.lookup([5, 6, 7, 8, 9])
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(fill)
        path = saver.save(sess, str(tmp_path / "model"))
        sess.run(more)
        saver.restore(sess, path)
        assert sess.run(found).tolist() == [1, 2, 3, 4, -1]
    with tf.Session() as sess:
        saver.restore(sess, path)
        assert sess.run(found).tolist() == [1, 2, 3, 4, -1]
        assert sess.run(table.size()).item() == 4
        sess.run(more)
        assert sess.run(found).tolist() == [1, -1, 3, 4, 5]
    reader = tf.train.load_checkpoint(path)
    assert sorted(reader.get_tensor("d-keys").ravel().tolist()) == [0, 0, 0, 0, 5, 6, 7, 8]
    assert reader.get_tensor("d-values").shape == (8, 1)


def test_a_refused_key_changes_nothing_in_a_dense_table() -> None:
    table = _dense()
    with tf.Session() as sess:
        for refused in (0, -1):
            with pytest.raises(tf.errors.InvalidArgumentError, match="not allowed"):
                sess.run(table.insert([4, refused], [1.0, 2.0]))
        assert sess.run(table.size()).item() == 0


@pytest.mark.parametrize(
    "keys, buckets, message", [((0, 0), 4, "cannot be equal"), ((0, 1), 6, "power of 2"), ((0, 1), 2, "at least 4")]
)
def test_what_a_dense_table_cannot_be_is_refused(keys: tuple[int, int], buckets: int, message: str) -> None:
    table = lookup.MutableDenseHashTable(tf.int64, tf.int64, -1, *keys, initial_num_buckets=buckets)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match=message):
        sess.run(table.size())


def test_buckets_of_another_form_are_refused() -> None:
    table = _dense()
    fill = apply_op("LookupTableImportV2", [table.resource_handle, tf.constant([1, 2], tf.int64), [1.0, 2.0]])
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="buckets must be"):
        sess.run(fill)


def test_random_changes_of_a_dense_table_give_what_a_dictionary_gives() -> None:
    table = DenseTable("t", TableSpec(dtypes.int64, dtypes.float32, False), Buckets(-1, -2, 4, 0.8), hash)
    held: dict[int, float] = {}
    rng = np.random.default_rng(4)
    for step in range(200):
        keys = rng.integers(0, 40, 8)
        if step % 3 == 2:
            table.remove(keys)
            held = {k: v for k, v in held.items() if k not in keys.tolist()}
        else:
            values = rng.normal(size=8).astype(np.float32)
            table.insert(keys, values)
            held.update(zip(keys.tolist(), values.tolist()))
        if step % 50 == 49:
            table.fill(*table.export())
        got = table.find(np.arange(40), np.float32(-99).reshape(()))
        assert got.tolist() == [held.get(i, -99.0) for i in range(40)]
    keys, values = table.export()
    there = keys.ravel() >= 0
    assert dict(zip(keys[there].ravel().tolist(), values[there].ravel().tolist())) == held
