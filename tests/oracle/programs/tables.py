"""Look-up tables."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np

from tests.oracle.cases.values import i64, noise, strings
from tests.oracle.compare import EXACT
from tests.oracle.program import program

_WORDS = strings("a", "c", "nobody", "", "a")
_ALL = ("HashTableV2", "LookupTableFindV2", "LookupTableImportV2", "LookupTableSizeV2", "LookupTableExportV2")


def _file(text: str) -> str:
    """A file of this text that stays for the whole run."""
    handle, path = tempfile.mkstemp(suffix=".txt")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    return path


_LINES, _COLUMNS = _file("emerson\nlake\npalmer\n"), _file("a\t1\t0.5\nb\t2\t-1e3\n")


@program(*_ALL, tolerance=EXACT)
def words_to_ids(tf: Any) -> list[Any]:
    init = tf.lookup.KeyValueTensorInitializer(["a", "b", "c"], np.array([5, 6, 7], np.int64))
    table = tf.lookup.StaticHashTable(init, -1)
    words = tf.placeholder(tf.string, [None])
    found, size = table.lookup(words), table.size()
    feed = {words: _WORDS}
    ready = tf.tables_initializer()
    return [
        ([found], feed),
        [size],
        [ready],
        ([found], feed),
        [size],
        [ready],
        ([found], feed),
        ([found], {words: _WORDS[:0]}),
    ]


@program(*_ALL, tolerance=EXACT)
def numbers_to_words(tf: Any) -> list[Any]:
    init = tf.lookup.KeyValueTensorInitializer(tf.constant([3, 1, -2], tf.int64), ["three", "one", "minus two"])
    table = tf.lookup.StaticHashTable(init, "?")
    at = tf.placeholder(tf.int64, None)
    found = table.lookup(at)
    steps = [([found], {at: a}) for a in (i64([1, 2], [3, -2]), np.array(1, np.int64), np.zeros((0, 3), np.int64))]
    keys, _ = table.export()
    return [[table.initializer], *steps, [tf.sort(keys)]]


@program("LookupTableImportV2", "HashTableV2", tolerance=EXACT)
def keys_that_repeat(tf: Any) -> list[Any]:
    def table(values: list[int]) -> Any:
        init = tf.lookup.KeyValueTensorInitializer(["a", "a"], tf.constant(values, tf.int64))
        return tf.lookup.StaticHashTable(init, -1)

    same, other = table([1, 1]), table([1, 2])
    return [[same.initializer], [same.size()], [other.initializer], [other.size()]]


@program("LookupTableImportV2", "HashTableV2", tolerance=EXACT)
def filled_twice(tf: Any) -> list[Any]:
    keys, values = tf.placeholder(tf.string, [None]), tf.placeholder(tf.int64, [None])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1)
    one, two = {keys: strings("a", "b"), values: i64(1, 2)}, {keys: strings("a"), values: i64(1)}
    fill, found = table.initializer, table.lookup(tf.constant(["b"]))
    return [([fill], one), ([fill], one), ([fill], two), [found]]


@program("InitializeTableFromTextFileV2", "LookupTableFindV2", tolerance=EXACT)
def lines_of_files(tf: Any) -> list[Any]:
    from_file, index = tf.lookup.TextFileInitializer, tf.lookup.TextFileIndex
    ids = tf.lookup.StaticHashTable(from_file(_LINES, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER), -1)
    back = tf.lookup.StaticHashTable(from_file(_LINES, tf.int64, index.LINE_NUMBER, tf.string, index.WHOLE_LINE), "UNK")
    two = tf.lookup.StaticHashTable(from_file(_COLUMNS, tf.string, 0, tf.float32, 2), 0.0)
    ints = tf.lookup.StaticHashTable(from_file(_COLUMNS, tf.string, 0, tf.int64, 1, delimiter="\t", vocab_size=1), 0)
    found = [
        ids.lookup(tf.constant(["lake", "mozart"])), back.lookup(tf.constant([2, 3], tf.int64)),
        two.lookup(tf.constant(["b", "a"])), ints.lookup(tf.constant(["b", "a"])), ints.size(),
    ]  # fmt: skip
    return [[tf.tables_initializer()], found]


@program("InitializeTableFromTextFileV2", tolerance=EXACT)
def files_that_do_not_fit(tf: Any) -> list[Any]:
    from_file, index = tf.lookup.TextFileInitializer, tf.lookup.TextFileIndex
    whole = (tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER)
    tables = [
        from_file("/nowhere/at/all", *whole),
        from_file(_LINES, *whole, vocab_size=4),
        from_file(_LINES, tf.string, 0, tf.int64, 1),
        from_file(_COLUMNS, tf.string, 0, tf.int64, 2),
        from_file(_file("a\n\nb\n"), *whole),
        from_file(_file("a\na\n"), *whole),
    ]
    return [[tf.lookup.StaticHashTable(init, -1).initializer] for init in tables]


@program("LookupTableFindV2", tolerance=EXACT)
def vocabulary_with_buckets(tf: Any) -> list[Any]:
    init = tf.lookup.KeyValueTensorInitializer(["a", "b", "c"], np.array([0, 1, 2], np.int64))
    table = tf.lookup.StaticVocabularyTable(init, 4)
    words = tf.constant(["a", "z", "y", "c", ""])
    sparse = tf.SparseTensor([[0, 1], [2, 0]], ["b", "x"], [3, 2])
    return [[table.initializer], [table.lookup(words), table.lookup(sparse).values, table.size()]]


@program("LookupTableFindV2", tolerance=EXACT)
def vocabulary_of_numbers(tf: Any) -> list[Any]:
    init = tf.lookup.KeyValueTensorInitializer(tf.constant([7, 8], tf.int64), np.array([0, 1], np.int64))
    table = tf.lookup.StaticVocabularyTable(init, 3, lookup_key_dtype=tf.int32)
    return [[tf.tables_initializer()], [table.lookup(tf.constant([8, 1, 7, -5]))]]


_CHANGED = ("MutableHashTableV2", "LookupTableInsertV2", "LookupTableRemoveV2", "LookupTableExportV2")


@program(*_CHANGED, "LookupTableFindV2", "LookupTableSizeV2", tolerance=EXACT)
def table_that_changes(tf: Any) -> list[Any]:
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, -1.0)
    at, values = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None])
    insert, remove, found = table.insert(at, values), table.remove(at), table.lookup(at)
    keys, held = table.export()
    every = {at: i64(1, 2, 3, 4, 5)}
    steps: list[Any] = [(([found, table.size()]), every)]
    for here, now in (([1, 2, 1], [5, 6, 7]), ([4, 5], [0.5, 1]), ([2], [9])):
        steps += [([insert], {at: i64(*here), values: np.array(now, np.float32)}), ([found, table.size()], every)]
    steps += [([remove], {at: i64(2, 3, 4)}), ([found, table.size()], every)]
    steps += [([insert], {at: i64(3), values: np.array([8], np.float32)}), ([found], every)]
    dynamic = table.lookup(tf.constant([1, 2, 7], tf.int64), tf.constant([10.0, 20.0, 30.0]))
    return [*steps, [dynamic], [tf.sort(keys), tf.reduce_sum(held)]]


@program("MutableHashTableOfTensorsV2", "LookupTableInsertV2", "LookupTableFindV2", tolerance=EXACT)
def table_of_vectors(tf: Any) -> list[Any]:
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, [0.0, -1.0, 2.0])
    insert = table.insert(tf.constant(["a", "b"]), noise("float32", 2, 3))
    remove = table.remove(tf.constant(["a"]))
    found = table.lookup(tf.constant([["a", "z"], ["b", "a"]]))
    return [[found], [insert], [found], [remove], [found], [table.size()]]


@program("MutableHashTableV2", tolerance=EXACT)
def table_of_words(tf: Any) -> list[Any]:
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    insert = table.insert(tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64))
    found = table.lookup(tf.constant(["a", "b", "c"]))
    return [[insert], [found]]


@program(
    "MutableDenseHashTableV2", "LookupTableInsertV2", "LookupTableRemoveV2", "LookupTableExportV2", tolerance=EXACT
)
def dense_table(tf: Any) -> list[Any]:
    """The buckets are TensorFlow's, bit by bit: through growth, removals and what takes their places."""
    table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, -1.0, 0, -1, initial_num_buckets=4)
    at, values = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None])
    insert, remove, found = table.insert(at, values), table.remove(at), table.lookup(at)
    seen = [found, table.size(), *table.export()]
    every = {at: i64(1, 2, 5, 9, 17, -7, 1 << 40)}
    steps: list[Any] = [(seen, every)]
    for here in ([1, 5, 9], [2, 17], [-7, 1 << 40, 33, 5]):
        steps += [([insert], {at: i64(*here), values: np.arange(len(here), dtype=np.float32)}), (seen, every)]
    steps += [([remove], {at: i64(5, 33, 77)}), (seen, every)]
    steps += [([insert], {at: i64(37), values: np.array([8], np.float32)}), (seen, every)]
    for refused in (0, -1):
        steps += [(found, {at: i64(1, refused)})]
    return [*steps, [table.lookup(tf.constant([[1], [2]], tf.int64))]]


@program("MutableDenseHashTableV2", "LookupTableFindV2", tolerance=EXACT)
def dense_table_of_vectors(tf: Any) -> list[Any]:
    table = tf.lookup.experimental.DenseHashTable(
        tf.int64, tf.float32, [0.0, 1.0, 2.0], [0, 0], [-1, -1], initial_num_buckets=8
    )
    keys = tf.constant([[1, 2], [3, 4], [1, 2], [-9, 1 << 50]], tf.int64)
    insert = table.insert(keys, noise("float32", 4, 3))
    found = table.lookup(tf.constant([[[1, 2]], [[7, 7]]], tf.int64))
    return [[insert], [found, table.size(), *table.export()], [table.remove(keys[:1])], [found, *table.export()]]


@program("MutableDenseHashTableV2", "LookupTableFindV2", tolerance=EXACT)
def dense_table_of_words(tf: Any) -> list[Any]:
    table = tf.lookup.experimental.DenseHashTable(tf.string, tf.int64, -1, "", "$", initial_num_buckets=8)
    words = ["a", "some longer word", "b\0", "z" * 40]
    insert = table.insert(words, tf.constant([1, 2, 3, 4], tf.int64))
    return [[insert], [table.lookup(tf.constant([*words, "b"])), *table.export()]]
