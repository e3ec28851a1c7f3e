"""Columns to tensors: every Arrow type, with and without its Column; what is shared, what is refused."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.assembly import assembled, placeholders
from sparkflow_connectors.columns import Column
from sparkflow_connectors.schema import arrays, check_batch, check_trainable, resolve
from sparkflow_runtime.records.hashes import fingerprint64

VECTOR = pa.struct(
    [("type", pa.int8()), ("size", pa.int32()), ("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.float64()))]
)
DENSE = {"type": 1, "size": None, "indices": None, "values": [1.0, 2.0, 3.0]}
SPARSE = {"type": 0, "size": 3, "indices": [0, 2], "values": [5.0, 7.0]}


def tensors(values: Any, arrow: pa.DataType, /, **options: Any) -> dict[str, np.ndarray]:
    batch = pa.record_batch([pa.array(values, arrow)], names=["c"])
    columns = resolve(batch.schema, [Column("c", **options)], None)
    check_batch(batch, columns, 0)
    found = arrays(batch, columns)
    for name, tensor in columns.tensors.items():
        assert found[name].dtype == tensor.dtype.np, name
        assert all(want in (None, got) for want, got in zip(tensor.shape, found[name].shape[1:], strict=True)), name
    return found


def tensor(values: Any, arrow: pa.DataType, /, **options: Any) -> Any:
    return tensors(values, arrow, **options)["c"].tolist()


UTC = dt.UTC
TYPES = [
    (pa.bool_(), [True, False], {}, [True, False]),
    (pa.bool_(), [True, None], {"default": False}, [True, False]),
    (pa.int16(), [1, None], {"default": 7}, [1, 7]),
    (pa.float64(), [1.0, None], {"default": float("inf")}, [1.0, float("inf")]),
    (pa.decimal128(9, 2), [Decimal("1.25"), None], {"default": 0.5}, [1.25, 0.5]),
    (pa.decimal128(38, 0), [Decimal(2**53 + 1), Decimal(-(2**63)), None], {"cast": tf.int64, "default": 7},
     [2**53 + 1, -(2**63), 7]),
    (pa.decimal32(9, 1), [Decimal(3)], {"cast": tf.int64}, [3]),
    (pa.list_(pa.decimal256(40, 2)), [[Decimal(2**64 - 1)]], {"cast": tf.uint64, "shape": [1]}, [[2**64 - 1]]),
    (pa.date32(), [dt.date(1970, 1, 3), dt.date(1969, 12, 31)], {}, [2, -1]),
    (pa.timestamp("us", "UTC"), [dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), None], {"default": 0}, [1_000_000, 0]),
    (pa.timestamp("ms"), [dt.datetime(1970, 1, 1, 0, 0, 1)], {}, [1000]),
    (pa.time32("s"), [dt.time(0, 1)], {}, [60]),
    (pa.duration("us"), [dt.timedelta(seconds=2)], {}, [2_000_000]),
    (pa.string(), ["a", "é", None], {"default": "x"}, [b"a", "é".encode(), b"x"]),
    (pa.binary(), [b"\xff\0", b""], {}, [b"\xff\0", b""]),
    (pa.dictionary(pa.int8(), pa.string()), ["b", "b"], {}, [b"b", b"b"]),
    (pa.dictionary(pa.int8(), pa.int64()), [3, 4], {}, [3, 4]),
    (pa.list_view(pa.int32()), [[1, 2], None], {"shape": [2], "default": 7}, [[1, 2], [7, 7]]),
    (pa.large_list_view(pa.string_view()), [["a"], []], {"shape": [1], "pad": "-"}, [[b"a"], [b"-"]]),
    (pa.bool_(), [True, None], {"default": 0.5, "cast": tf.float16}, [1.0, 0.5]),
    (pa.list_(pa.bool_()), [[True, False]], {"shape": [2], "cast": tf.float16}, [[1.0, 0.0]]),
    (pa.float64(), [1.1, 2.0], {"cast": tf.float32}, [np.float32(1.1).item(), 2.0]),
    (pa.int64(), [2**24 + 1], {"cast": tf.float32}, [float(2**24)]),
    (pa.int64(), [100, None], {"cast": tf.int8, "default": -1}, [100, -1]),
    (pa.list_(pa.float32()), [[1, 2], [3, 4]], {"shape": [2]}, [[1, 2], [3, 4]]),
    (pa.list_(pa.int32()), [[1, 2, 3, 4]] * 2, {"shape": [2, 2]}, [[[1, 2], [3, 4]]] * 2),
    (pa.list_(pa.int32(), 2), [[1, 2], [3, 4]], {}, [[1, 2], [3, 4]]),
    (pa.list_(pa.list_(pa.int32(), 2), 1), [[[1, 2]], [[3, 4]]], {}, [[[1, 2]], [[3, 4]]]),
    (pa.list_(pa.list_(pa.int32(), 2), 1), [[[1, 2]], None], {"default": 0}, [[[1, 2]], [[0, 0]]]),
    (pa.list_(pa.int32()), [[1], [], None, [1, 2, 3]], {"shape": [3], "pad": -1, "default": 0},
     [[1, -1, -1], [-1, -1, -1], [-1, -1, -1], [1, 2, 3]]),
    (pa.list_(pa.int32()), [[1, None], None], {"shape": [2], "default": 9}, [[1, 9], [9, 9]]),
    (pa.large_list(pa.int32()), [[1, 2, 3], [4, 5]], {"shape": [2], "truncate": True}, [[1, 2], [4, 5]]),
    (pa.list_(pa.string()), [["a"], ["b", "c"]], {"shape": [2], "pad": "-"}, [[b"a", b"-"], [b"b", b"c"]]),
    (pa.list_(pa.string()), [["a"], ["b"]], {"shape": [1], "vocabulary": ["b", "a"]}, [[1], [0]]),
    (pa.list_(pa.string()), [["a"], ["c", "b"], None],
     {"shape": [2], "vocabulary": ["b", "a"], "pad": -2, "default": "a"}, [[1, -2], [-1, 0], [-2, -2]]),
    (pa.list_(pa.string()), [["a"], ["c", None], None],
     {"shape": [2], "vocabulary": ["b", "a"], "pad": "b", "num_oov_buckets": 1, "default": "a"},
     [[1, 0], [2, 1], [0, 0]]),
    (pa.list_(pa.string()), [["b"], None], {"shape": [1], "vocabulary": ["b", "a"], "default": "a"}, [[0], [1]]),
    (pa.list_(pa.string()), [["b"], None], {"shape": [1], "default": "a"}, [[b"b"], [b"a"]]),
    (pa.list_(pa.list_(pa.int8())), [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], {"shape": [2, 2]},
     [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]),
    (pa.list_(pa.list_(pa.int8(), 2)), [[[1, 2]], None, [[5, 6]]], {"shape": [1, 2], "default": 9},
     [[[1, 2]], [[9, 9]], [[5, 6]]]),
    (pa.list_(pa.large_list(pa.int8()), 1), [[[1, None]], [[5, 6]]], {"shape": [1, 2], "default": 9},
     [[[1, 9]], [[5, 6]]]),
    (pa.string_view(), ["a", None, "b" * 20], {"default": "x"}, [b"a", b"x", b"b" * 20]),
    (pa.binary_view(), [b"ab", b"cd"], {"shape": [2], "cast": tf.uint8}, [[97, 98], [99, 100]]),
    (pa.list_(pa.dictionary(pa.int8(), pa.string())), [["a"], ["b"]], {"shape": [1]}, [[b"a"], [b"b"]]),
    (pa.bool8(), [1, 0], {}, [True, False]),
    (VECTOR, [DENSE, DENSE], {"shape": [3]}, [[1, 2, 3], [1, 2, 3]]),
    (VECTOR, [SPARSE, DENSE], {"shape": [3]}, [[5, 0, 7], [1, 2, 3]]),
    (VECTOR, [SPARSE], {"shape": [3], "cast": tf.float32}, [[5, 0, 7]]),
    (VECTOR, [None, DENSE, None, SPARSE], {"shape": [3], "default": -1}, [[-1] * 3, [1, 2, 3], [-1] * 3, [5, 0, 7]]),
    (VECTOR, [DENSE, None], {"shape": [3], "default": 0.5}, [[1, 2, 3], [0.5] * 3]),
    (pa.binary(), [b"\x01\x02\x03\x04"], {"shape": [2, 2], "cast": tf.uint8}, [[[1, 2], [3, 4]]]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "options", "expected"), TYPES)
def test_a_type_and_its_tensor(kind: pa.DataType, values: Any, options: Any, expected: Any) -> None:
    assert tensor(values, kind, **options) == expected
    batch = pa.record_batch([pa.array([*values[:1], *values], kind)], names=["c"]).slice(1)
    columns = resolve(batch.schema, [Column("c", **options)], None)
    assert arrays(batch, columns)["c"].tolist() == expected, "a part of a batch"
    empty = arrays(batch.slice(0, 0), columns)["c"]
    assert empty.shape == (0, *np.shape(expected)[1:]) and empty.dtype == columns.tensors["c"].dtype.np


SHARED = [
    (pa.int32(), {}), (pa.float64(), {}), (pa.uint8(), {}), (pa.date32(), {}), (pa.timestamp("us", "UTC"), {}),
    (pa.time64("us"), {}), (pa.duration("ns"), {}), (pa.list_(pa.int64()), {"shape": [2]}),
    (pa.list_(pa.float32(), 3), {}), (pa.list_(pa.list_(pa.int8(), 2), 2), {}),
    (pa.large_list(pa.int64()), {"shape": [2, 1]}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "options"), SHARED)
def test_arrow_memory_is_shared(kind: pa.DataType, options: Any) -> None:
    leaf, count = kind, 1
    while hasattr(leaf, "value_type"):
        count *= leaf.list_size if pa.types.is_fixed_size_list(leaf) else 2
        leaf = leaf.value_type
    flat = pa.array(range(10 * count), pa.int64()).cast(f"int{leaf.bit_width}").view(leaf)
    array: Any = flat
    if pa.types.is_fixed_size_list(kind):
        inner = kind.value_type
        array = flat if inner == leaf else pa.FixedSizeListArray.from_arrays(flat, inner.list_size)
        array = pa.FixedSizeListArray.from_arrays(array, kind.list_size)
    elif kind != leaf:
        array = type(pa.array([], kind)).from_arrays(np.arange(0, 10 * count + 1, count), flat)
    batch = pa.record_batch([array], names=["c"]).slice(2)
    found = arrays(batch, resolve(batch.schema, [Column("c", **options)], None))["c"]
    width = leaf.bit_width // 8
    memory = np.frombuffer(flat.buffers()[1], np.dtype(f"u{width}"))
    assert len(found) == 8 and np.shares_memory(found, memory)


def test_forms_that_arrow_makes_of_arrays() -> None:
    """Tensors in rows have their own shape; what is stored stands for other types; ends of runs are counted."""
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12.0).reshape(3, 2, 2))
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", "b"], pa.string_view()))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([5, 6]))
    ids = pa.array([b"0" * 16] * 3, pa.uuid())
    batch = pa.record_batch([tensors, runs, ids, words], names=["t", "r", "u", "w"]).slice(1)
    found = arrays(batch, resolve(batch.schema, None, None))
    assert found["t"].tolist() == np.arange(4.0, 12.0).reshape(2, 2, 2).tolist()
    assert (
        found["r"].tolist() == [5, 6] and found["w"].tolist() == [b"b", b"a"] and found["u"].tolist() == [b"0" * 16] * 2
    )
    assert np.shares_memory(found["t"], tensors.storage.flatten().to_numpy())


def test_a_pad_is_hashed_as_the_words_are() -> None:
    words = Column("c", hash_buckets=1000, shape=[2], pad="")
    batch = pa.record_batch({"c": pa.array([["a"], ["", "a"]])})
    (a, padded), (empty, again) = arrays(batch, resolve(batch.schema, [words], None))["c"].tolist()
    assert (a, padded) == (again, empty)


def test_bytes_and_vectors_share_memory_too() -> None:
    images = pa.array([bytes(range(4)), bytes(range(4, 8))])
    batch = pa.record_batch([images], names=["c"])
    found = arrays(batch, resolve(batch.schema, [Column("c", cast=tf.uint8, shape=[4])], None))["c"]
    assert found.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert np.shares_memory(found, np.frombuffer(images.buffers()[2], np.uint8))
    vectors = pa.array([DENSE, DENSE], VECTOR)
    batch = pa.record_batch([vectors], names=["c"])
    found = arrays(batch, resolve(batch.schema, [Column("c", shape=[3])], None))["c"]
    assert np.shares_memory(found, vectors.field("values").values.to_numpy())


def test_a_vocabulary_file_of_windows(tmp_path: Path) -> None:
    """A line's end may be two characters, to a column as to a table of the graph; inside a line one of them counts."""
    path, words = tmp_path / "words.txt", ["a", "b\rc", "d\r", "e", "bc", "a\r"]
    path.write_bytes(b"a\r\nb\rc\r\nd\r\r\ne\r")
    assert tensor(words, pa.string(), vocabulary=path) == [0, 1, 2, 3, -1, -1]
    with tf.Graph().as_default(), tf.Session() as session:
        ids = tf.contrib.lookup.index_table_from_file(str(path)).lookup(tf.constant(words))
        session.run(tf.tables_initializer())
        assert session.run(ids).tolist() == [0, 1, 2, 3, -1, -1]


def test_strings_by_vocabulary(tmp_path: Path) -> None:
    words = ["red", "green", "", "blé"]
    (tmp_path / "words.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    values = ["green", "blé", "pink", "", None]
    for vocabulary in (str(tmp_path / "words.txt"), tmp_path / "words.txt", words, np.array(words), pa.array(words)):
        assert tensor(values, pa.string(), vocabulary=vocabulary, default="red") == [1, 3, -1, 2, 0]
    outside = 4 + fingerprint64(b"pink") % 5
    assert tensor(values, pa.string(), vocabulary=words, num_oov_buckets=5, default="red") == [1, 3, outside, 2, 0]
    assert tensor([7, 8], pa.int32(), vocabulary=["8", "7"]) == [1, 0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="its vocabulary has 'a' twice"):
        tensor(["a"], pa.string(), vocabulary=["a", "b", "a"])
    with pytest.raises(tf.errors.NotFoundError, match="'/nowhere' does not exist"):
        tensor(["a"], pa.string(), vocabulary="/nowhere")


def test_a_vocabulary_of_an_empty_file(tmp_path: Path) -> None:
    """It has no string, not the empty one."""
    (tmp_path / "words.txt").touch()
    column = Column("c", vocabulary=tmp_path / "words.txt", num_oov_buckets=3)
    assert column.loaded().vocabulary == ()
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Column 'c': its vocabulary file '.*words.txt' is empty"):
        replace(column, num_oov_buckets=0).loaded()
    (tmp_path / "words.txt").write_text("\n")
    assert replace(column, num_oov_buckets=0).loaded().vocabulary == ("",)


def test_strings_by_hash_are_what_the_graph_would_give() -> None:
    values = ["", "a", "sparkflow", "x" * 100]
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        expected = session.run(tf.strings.to_hash_bucket_fast(values, 1000)).tolist()
        digits = session.run(tf.strings.to_hash_bucket_fast(tf.as_string([3, -17]), 10)).tolist()
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())):
        given = [v.encode() for v in values] if kind == pa.binary() else values
        assert tensor(given, kind, hash_buckets=1000) == expected
    assert tensor([3, -17], pa.int64(), hash_buckets=10) == digits
    assert tensor([["a"], ["a"]], pa.list_(pa.string()), hash_buckets=1000, shape=[1]) == [[expected[1]]] * 2


def features(values: Any, arrow: pa.DataType, /, **options: Any) -> Any:
    """What a model would be given."""
    batch = pa.record_batch([pa.array(values, arrow)], names=["c"])
    columns = resolve(batch.schema, [Column("c", **options)], None)
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        fed = placeholders(columns)
        found, _ = assembled(columns, fed)
        data = arrays(batch, columns)
        return session.run(found["c"], {fed[name]: data[name] for name in fed})


@pytest.mark.parametrize("length", [None, 4])
def test_sparse_and_ragged(length: int | None) -> None:
    rows = [[1, 2, 3], [], None, [4]]
    options: Any = {"default": 0, "length": length}
    sparse = features(rows, pa.list_(pa.int64()), kind="sparse", **options)
    assert sparse.indices.tolist() == [[0, 0], [0, 1], [0, 2], [3, 0]] and sparse.values.tolist() == [1, 2, 3, 4]
    assert sparse.dense_shape.tolist() == [4, length or 3]
    ragged = features(rows, pa.list_(pa.int64()), kind="ragged", **options)
    assert ragged.values.tolist() == [1, 2, 3, 4] and ragged.row_splits.tolist() == [0, 3, 3, 3, 4]
    words = features([["a"], ["b", "c"]], pa.list_(pa.string()), kind="ragged", length=length)
    assert words.values.tolist() == [b"a", b"b", b"c"]


def test_sparse_vectors() -> None:
    found = features([SPARSE, DENSE, SPARSE], VECTOR, kind="sparse", shape=[3])
    assert found.dense_shape.tolist() == [3, 3] and found.values.tolist() == [5, 7, 1, 2, 3, 5, 7]
    assert found.indices.tolist() == [[0, 0], [0, 2], [1, 0], [1, 1], [1, 2], [2, 0], [2, 2]]
    with_null = features([SPARSE, None, DENSE], VECTOR, kind="sparse", shape=[3], default=0)
    assert with_null.indices.tolist() == [[0, 0], [0, 2], [2, 0], [2, 1], [2, 2]]


REFUSED: list[tuple[pa.DataType, Any, Any, str]] = [
    (pa.int32(), [1, None], {}, r"Column 'c' \(feature\) is null at row 1 of its partition \(1 nulls"),
    (pa.list_(pa.int32()), [[1], [1, None]], {"shape": [1], "truncate": True}, "null at row 1 .*, inside its list"),
    (pa.list_(pa.int32()), [[1, 2], [1]], {"shape": [2]}, r"'c' has 1 values at row 1 of .* its shape is \[2\]"),
    (pa.list_(pa.int32()), [[1, 2], [1]], {}, "'c' has type list.* of any length: say how long"),
    (pa.list_(pa.list_(pa.int32())), [[[1]]], {}, r"of any length: say how long it is, by Column\(..., shape=\[n, m\]"),
    (pa.list_(pa.list_(pa.int32())), [[[1]]], {"shape": [1]}, r"lists of lists 2 deep, and its shape is \[1\]"),
    (pa.list_(pa.list_(pa.int32(), 3)), [[[1] * 3]], {"shape": [1, 2]}, r"2 deep, and its shape is \[1, 2\]"),
    (pa.list_(pa.list_(pa.int32())), [[[1]]], {"shape": [2, 1], "pad": 0}, "are neither padded nor truncated"),
    (pa.list_(pa.list_(pa.int32())), [[[1]], [[1, 2]]], {"shape": [1, 1]}, "one of 2 values among .* at row 1"),
    (pa.list_(pa.list_(pa.int32())), [[[1]], [None]], {"shape": [1, 1]}, "'c' has a null among its lists .* at row 1"),
    (pa.list_(pa.list_(pa.int32())), [[[1]], [[1]] * 2], {"shape": [1, 1]}, "has 2 values at row 1 of its partition"),
    (pa.list_(pa.int32()), [[1]], {"shape": [2], "pad": "x"}, "its pad 'x' is no int32"),
    (pa.int32(), [None], {"default": 0.5}, "its default 0.5 is no int32: it is no whole number"),
    (pa.list_(pa.list_view(pa.int32())), [[[1]]], {"shape": [1, 1]}, "has type list<.*list_view.*, which has no dtype"),
    (pa.list_(pa.int32(), 2), [[1, 2]], {"shape": [3]}, r"has 2 values a row, and its shape is \[3\]"),
    (pa.int32(), [1], {"shape": [2]}, "one value a row, and its shape is"),
    (pa.int32(), [1], {"kind": "sparse"}, "is no list: it cannot be sparse"),
    (pa.float32(), [1.0], {"hash_buckets": 3}, "a vocabulary or hash_buckets is for strings and whole numbers"),
    (pa.string(), ["1"], {"cast": tf.int32}, "cannot be cast to int32; numbers can"),
    (pa.int32(), [1] * 9 + [300], {"cast": tf.int8}, "cannot be cast to int8 at row 9 of .*: Integer value 300"),
    (pa.list_(pa.float64()), [[1], [], [3, 0.5]], {"cast": tf.int8, "kind": "sparse"}, "int8 at row 2 of its"),
    (pa.int32(), [None], {"default": "x"}, "its default 'x' is no int32"),
    (pa.map_(pa.string(), pa.int32()), [[("a", 1)]], {}, "has type map.*, which has no dtype; convert it first"),
    (pa.struct({"a": pa.int32()}), [{"a": 1}], {}, "has no dtype; make columns of its fields that you need, .* 'a'"),
    (VECTOR, [DENSE], {}, "has type ML vector, of any length: say how long it is"),
    (VECTOR, [DENSE], {"shape": [4]}, r"a vector of size 3 at row 0 of its partition, and its shape is \[4\]"),
    (VECTOR, [DENSE, None], {"shape": [3]}, "'c' .*is null at row 1"),
    *(
        (VECTOR, [DENSE, {**SPARSE, **wrong}], {"shape": [3], "kind": kind}, f"sparse vector at row 1 of .* {message}")
        for kind in ("dense", "sparse")
        for wrong, message in (
            ({"indices": [0, 3]}, r"\[0, 3\] are not one for each of its 2 values, from 0 to 2"),
            ({"indices": [-1, 0]}, r"\[-1, 0\] are not one"),
            ({"indices": [0]}, r"\[0\] are not one for each of its 2"),
            ({"indices": None}, "None are not one for each of its 2"),
        )
    ),
    (VECTOR, [DENSE, {**DENSE, "values": [1.0, None, 2.0]}], {"shape": [3]}, "Column 'c' is null at row 1"),
    (pa.list_(pa.int32()), [[1, 2]], {"kind": "ragged", "length": 1}, "has 2 values at row 0 .* length is at most 1"),
    (pa.list_(pa.int32()), [[1, 2]], {"kind": "ragged", "shape": [1]}, "by `length`, not `shape`"),
    (pa.int32(), [1], {"kind": "dens"}, "kind must be one of 'dense', 'sparse', 'ragged', got 'dens'"),
    (pa.int32(), [1], {"shape": [0]}, "shape must be sizes of at least 1"),
    (pa.string(), ["a"], {"hash_buckets": 2, "vocabulary": ["a"]}, "give one of them"),
    *((pa.list_(pa.int32()), [[1]], {"shape": shape}, r"sizes of at least 1, got \(") for shape in ([True], 0, [1.0])),
    (pa.string(), ["a"], {"vocabulary": ["a", 1]}, "'c': its vocabulary has 1, which is no string"),
    (pa.string(), ["a"], {"vocabulary": 1}, "'c': its vocabulary has 1, which is no string"),
    (pa.string(), ["a"], {"num_oov_buckets": 2}, "'c': num_oov_buckets is for what a vocabulary has not"),
    (pa.string(), ["a"], {"num_oov_buckets": 2, "hash_buckets": 2}, "num_oov_buckets is for what a vocabulary has"),
    (pa.string(), ["a"], {"vocabulary": "a", "num_oov_buckets": 2**64}, r"num_oov_buckets must be at most 2\*\*63"),
    (pa.string(), ["a"], {"vocabulary": ["a"], "num_oov_buckets": 2**63}, r"are more than 2\*\*63 together"),
    (pa.string(), ["a"], {"hash_buckets": 2**64}, r"'c': hash_buckets must be at most 2\*\*63, .* got 18446744073"),
    (pa.string(), ["a"], {"hash_buckets": True}, "hash_buckets must be a whole number that is not negative, got True"),
    (pa.string(), ["a"], {"hash_buckets": 2, "cast": tf.int32}, "'c': cast is for numbers, and a voc.* gives int64"),
    (pa.string(), ["a"], {"vocabulary": ["a"], "cast": tf.int32}, "'c': cast is for numbers, and a vocabulary or"),
    (pa.list_(pa.int32()), [[1]], {"length": True, "kind": "sparse"}, "length must be a whole number of at least 1"),
    (pa.string(), ["a"], {"hash_buckets": -2}, "hash_buckets must be a whole number that is not negative"),
    (pa.list_(pa.int32()), [[1]], {"pad": 0}, "pad is for dense lists, with the shape"),
    (pa.list_(pa.int32()), [[1]], {"length": 0, "kind": "sparse"}, "length must be a whole number of at least 1"),
]  # fmt: skip


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1000])
def test_vocabularies_of_any_size(size: int) -> None:
    words = tuple(f"w{i}" for i in range(size))
    asked = [f"w{i}" for i in range(0, 2 * size + 5, 3)] * 2
    expected = [int(w[1:]) if int(w[1:]) < size else -1 for w in asked]
    assert (
        tensor(asked, pa.string(), vocabulary=words) == tensor(asked, pa.string(), vocabulary=list(words)) == expected
    )


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int64(), pa.uint32(), pa.uint64(), pa.dictionary(pa.int8(), pa.int16())]
)
@pytest.mark.parametrize("default", [None, 300, -(2**63), 2**70, True, "x", 0.5])
def test_numbers_are_hashed_as_their_digits(kind: pa.DataType, default: Any) -> None:
    values = [0, 7, 100, 7, *([] if default is None else [None])]
    expected = [fingerprint64(str(default if v is None else v).encode()) % 1000 for v in values]
    assert tensor(values, kind, hash_buckets=1000, default=default) == expected
    assert tensor([values], pa.list_(pa.int64()), hash_buckets=1000, default=default, shape=[len(values)]) == [expected]


def test_bytes_that_are_no_text_have_ids_too() -> None:
    words = {"vocabulary": ["a", "é"], "num_oov_buckets": 2, "default": b"a"}
    assert tensor([b"\xff", "é".encode()], pa.binary(), vocabulary=["é", b"\xff"]) == [1, 0]
    found = tensor([b"\xff", "é".encode(), None], pa.binary(), **words)
    assert found == [2 + fingerprint64(b"\xff") % 2, 1, 0]
    assert tensor([b"\xff"], pa.binary(), hash_buckets=7) == [fingerprint64(b"\xff") % 7]


@pytest.mark.parametrize(("kind", "values", "options", "message"), REFUSED)
def test_what_is_refused(kind: pa.DataType, values: Any, options: Any, message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        tensor(values, kind, **options)


def test_what_cannot_wait_in_a_queue() -> None:
    schema = pa.schema([("s", pa.string()), ("l", pa.list_(pa.int64()))])
    with pytest.raises(tf.errors.InvalidArgumentError, match="'s' has type string: a training reads strings as numb"):
        check_trainable(resolve(schema, ["s"], None))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"'l' is sparse: say how many .* kind='sparse', length="):
        check_trainable(resolve(schema, [Column("l", kind="sparse")], None))


def test_names() -> None:
    schema = pa.schema([("l", pa.list_(pa.int64())), ("l/length", pa.int32()), ("x", pa.float32())])
    with pytest.raises(tf.errors.InvalidArgumentError, match="bears the name of a part of another"):
        resolve(schema, [Column("l", kind="sparse"), "l/length"], None)
    with pytest.raises(tf.errors.InvalidArgumentError, match="'x' is named 2 times among the features"):
        resolve(schema, ["x", Column("x")], None)
    with pytest.raises(tf.errors.InvalidArgumentError, match="'x' is there 2 times: give the columns different names"):
        resolve(pa.schema([("x", pa.int32())] * 2), None, None)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"'x\.a' is missing; .*Where it is a field of 'x', make"):
        resolve(schema, ["x.a"], None)
    found = resolve(schema, {"x": tf.float32, "l": Column("", shape=[1])}, Column("l/length", cast=tf.float32))
    assert found.features == {"x": tf.float32, "l": tf.int64} and found.label_dtype == tf.float32


def test_a_type_that_changes_on_the_way() -> None:
    columns = resolve(pa.schema([("c", pa.int32())]), ["c"], None)
    with pytest.raises(tf.errors.InvalidArgumentError, match="'c' has type int64, and the table said int32: the type"):
        check_batch(pa.record_batch([pa.array([1])], names=["c"]), columns, 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="'c' is missing; the table has 'd'"):
        check_batch(pa.record_batch([pa.array([1])], names=["d"]), columns, 0)


def test_batches_whose_columns_move_or_go() -> None:
    """What was found of one batch's schema holds for those that have the same."""
    first = pa.record_batch({"a": [1, 2], "b": [3.0, 4.0]})
    columns = resolve(first.schema, ["a", "b"], None)
    for batch in (first, first.select(["b", "a"]), first.append_column("c", pa.array(["x", "y"])), first):
        check_batch(batch, columns, 0)
        assert {n: v.tolist() for n, v in arrays(batch, columns).items()} == {"a": [1, 2], "b": [3.0, 4.0]}
    for wrong, message in (
        (first.select(["a"]), "Column 'b' is missing"),
        (first.append_column("a", pa.array([1, 2])), "Column 'a' is there 2 times"),
        (pa.record_batch({"a": [1.0], "b": [3.0]}), "Column 'a' has type double, and the table said int64"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            check_batch(wrong, columns, 0)
