"""tf.data.experimental against plain Python."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from tests.data.elements import values

D, X = tf.data.Dataset, tf.data.experimental
CHOICES = np.array([1, 0, 1, 0, 0, 1])


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: D.range(3).apply(X.enumerate_dataset(5)), [(5, 0), (6, 1), (7, 2)]),
        (lambda: D.range(6).batch(4).apply(X.unbatch()), [0, 1, 2, 3, 4, 5]),
        (lambda: D.range(9).apply(X.take_while(lambda x: x < 3)), [0, 1, 2]),
        (lambda: D.from_tensor_slices([3, 1, 3, 2, 1]).apply(X.unique()), [3, 1, 2]),
        (lambda: D.from_tensor_slices(["b", "a", "b"]).apply(X.unique()), [b"b", b"a"]),
        (lambda: D.range(4).apply(X.scan(np.int64(10), lambda s, x: (s + x, s * 2))), [20, 20, 22, 26]),
        (lambda: D.range(2).apply(X.parallel_interleave(lambda x: D.from_tensors(x).repeat(2), 2)), [0, 1, 0, 1]),
        (lambda: D.range(4).apply(X.map_and_batch(lambda x: x * 2, 3)), [[0, 2, 4], [6]]),
        (lambda: X.choose_from_datasets([D.range(2), D.range(10, 19)], D.from_tensor_slices(CHOICES)),
         [10, 0, 11, 1, 12]),
        (lambda: D.from_tensors(np.array([1, 2])), [[1, 2]]),
        (lambda: X.Counter(3, -1).take(3), [3, 2, 1]),
        (lambda: D.range(3).apply(X.prefetch_to_device("/gpu:0")).apply(X.copy_to_device("/gpu:0")), [0, 1, 2]),
        (lambda: D.range(5).apply(tf.contrib.data.batch_and_drop_remainder(2)), [[0, 1], [2, 3]]),
    ],
)  # fmt: skip
def test_transformations(graph: Any, make: Any, expected: Any) -> None:
    assert values(make()) == expected


def test_groups_by_key(graph: Any) -> None:
    """Reduced when full, and what is left at the end; the function may use the key and tensors around it."""
    scale = tf.constant(100, tf.int64)
    grouped = D.range(7).apply(
        X.group_by_window(lambda x: x % 2, lambda key, rows: rows.map(lambda x: x + key * scale).batch(3), 3)
    )
    assert values(grouped) == [[0, 2, 4], [101, 103, 105], [6]]
    sized = D.range(6).apply(
        X.group_by_window(lambda x: x % 2, lambda _, rows: rows.batch(9), window_size_func=lambda key: key + 1)
    )
    assert values(sized) == [[0], [2], [1, 3], [4], [5]]
    with pytest.raises(ValueError, match="either window_size or window_size_func"):
        X.group_by_window(lambda x: x, lambda k, d: d)


def test_batches_of_similar_lengths(graph: Any) -> None:
    lengths = [1, 5, 2, 6, 1, 9]
    rows = D.from_generator(lambda: ([n] * n for n in lengths), tf.int64, [None])
    buckets = rows.apply(X.bucket_by_sequence_length(lambda x: tf.shape(x)[0], [3, 7], [2, 2, 1]))
    assert buckets.output_shapes.as_list() == [None, None]
    assert values(buckets) == [[[1, 0], [2, 2]], [[5] * 5 + [0], [6] * 6], [[9] * 9], [[1]]]
    wide = rows.take(5).apply(
        X.bucket_by_sequence_length(
            lambda x: tf.size(x), [3, 7], [3, 2, 1], padding_values=np.int64(-1), pad_to_bucket_boundary=True
        )
    )
    assert values(wide) == [[[5] * 5 + [-1], [6] * 6], [[1, -1], [2, 2], [1, -1]]]
    with pytest.raises(ValueError, match=r"must equal len\(bucket_boundaries\) \+ 1"):
        X.bucket_by_sequence_length(tf.size, [3], [2])


def test_buckets_of_odd_boundaries_and_sizes(graph: Any) -> None:
    """The first interval that a length is in counts; what is in none, or in one without a batch size, is an error."""
    rows = D.from_generator(lambda: ([n] * n for n in (4, 7, 2)), tf.int64, [None])
    by = lambda length, *how: values(rows.apply(X.bucket_by_sequence_length(length, *how)))  # noqa: E731
    assert by(tf.shape, [3], [1, 2]) == [[[4] * 4 + [0] * 3, [7] * 7], [[2, 2]]]
    assert by(tf.size, [6, 3], [2, 1, 2]) == [[[4] * 4, [2, 2, 0, 0]], [[7] * 7]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be greater than zero, got 0 for bucket 1"):
        by(tf.size, [3], [1, 0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="must return one number"):
        by(lambda x: x, [3], [1, 1])


def test_mixtures_keep_to_the_weights(graph: Any) -> None:
    mixed = X.sample_from_datasets(
        [D.range(1).repeat(), D.range(1, 2).repeat(), D.range(2, 3).repeat(5)], [0.5, 0.25, 0.25], 3
    )
    found = values(mixed, 400)
    assert found == values(mixed, 400) and found.count(2) == 5
    assert 0.6 < found.count(0) / (found.count(0) + found.count(1)) < 0.75
    assert sorted(values(X.sample_from_datasets([D.range(3), D.range(5, 7)]))) == [0, 1, 2, 5, 6]


def test_the_one_element(graph: Any) -> None:
    fed = tf.placeholder(tf.int64, [])
    one = X.get_single_element(D.range(8).map(lambda x: x + fed).batch(8))
    none = X.get_single_element(D.range(0))
    with tf.Session() as session:
        assert session.run(one, {fed: 1}).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Dataset had no element"):
            session.run(none)


def test_csv_files_as_named_columns(graph: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('name,age,size\nann,3,1.5\n"bo, b",,2\n')
    (tmp_path / "b.csv").write_text("name,age,size\ncy,5,3\n")
    rows = X.make_csv_dataset(str(tmp_path / "*.csv"), 2, label_name="age", num_epochs=1, shuffle=False)
    (x, y), (x2, y2) = values(rows)
    assert x["name"].tolist() == [b"ann", b"bo, b"] and x["size"].dtype == np.float32 and y.tolist() == [3, 0]
    assert x2["size"].tolist() == [3] and y2.dtype == np.int32 and y2.tolist() == [5]
    some = X.make_csv_dataset(
        str(tmp_path / "b.csv"), 1, select_columns=["age"], column_defaults=[tf.float32], num_epochs=1
    )
    assert values(some)[0]["age"].tolist() == [5.0]
    strict = X.make_csv_dataset(
        str(tmp_path / "a.csv"), 1, select_columns=["age"], column_defaults=[tf.int32], num_epochs=1, shuffle=False
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="'age' is required but missing"):
        values(strict)
    with pytest.raises(ValueError, match="must be one of the columns"):
        X.make_csv_dataset(str(tmp_path / "b.csv"), 1, label_name="no")


def test_features_of_record_files(graph: Any, tmp_path: Path) -> None:
    with tf.io.TFRecordWriter(str(tmp_path / "r")) as writer:
        for i in range(3):
            feature = {
                k: tf.train.Feature(int64_list=tf.train.Int64List(value=[i * n])) for k, n in (("x", 1), ("y", 10))
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    features = {k: tf.io.FixedLenFeature([], tf.int64) for k in "xy"}
    rows = X.make_batched_features_dataset(str(tmp_path / "r"), 2, features, label_key="y", num_epochs=1, shuffle=False)
    found = values(rows)
    assert [x["x"].tolist() for x, _ in found] == [[0, 1], [2]] and [y.tolist() for _, y in found] == [[0, 10], [20]]


@pytest.mark.parametrize("kind", ["", "GZIP"])
def test_csv_files_with_lines_in_their_fields(graph: Any, tmp_path: Path, kind: str) -> None:
    """A record goes on while a quote is open; every file has names of its own."""
    files = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    for path, text in zip(files, (b'n,t\n1,"a\r\n""b"",\n"\r\n2,c\r\n', b'"n",t\n3,"\xff"')):
        Path(path).write_bytes(gzip.compress(text) if kind else text)
    texts = [b'a\r\n"b",\n', b"c", b"\xff"]
    rows = values(X.CsvDataset(files, [tf.int32, tf.string], kind, header=True))
    assert [int(n) for n, _ in rows] == [1, 2, 3] and [t for _, t in rows] == texts
    named = X.make_csv_dataset(files, 3, num_epochs=1, shuffle=False, compression_type=kind)
    (batch,) = values(named)
    assert batch["n"].tolist() == [1, 2, 3] and batch["t"].tolist() == texts
    plain = values(X.CsvDataset(files[:1], [tf.string], kind, use_quote_delim=False, select_cols=[0]))
    assert plain == [(b"n",), (b"1",), (b'""b""',), (b'"',), (b"2",)]


def test_selected_columns_of_csv_files_are_in_the_files_order(graph: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,n,v\na,1,1.5\nc,,3\n")
    make = lambda *columns, **more: X.make_csv_dataset(  # noqa: E731
        str(tmp_path / "a.csv"), 2, select_columns=list(columns), num_epochs=1, shuffle=False, **more
    )
    for columns in (("n", "name"), (1, 0)):
        (row,) = values(make(*columns, column_defaults=[["z"], [5]]))
        assert row["name"].tolist() == [b"a", b"c"] and row["n"].tolist() == [1, 5]
    assert make("v", label_name="v").output_types[1] == tf.float32
    for columns, said in ((("n", "n"), "not repeat"), (("zz",), "has 'zz'"), ((3,), "has 3")):
        with pytest.raises(ValueError, match=said):
            make(*columns)
    with pytest.raises(ValueError, match="as many as the selected columns, 2, got 1"):
        make("n", "v", column_defaults=[[1]])


def test_what_csv_columns_are_taken_for(graph: Any, tmp_path: Path) -> None:
    """As TensorFlow infers it: words of numbers that are none are strings, and too large ones are of the next type."""
    path = tmp_path / "a.csv"
    path.write_text("nan,inf,under,large,huge,low\nnan,inf,1_000,3000000000,1e300,-inf\n1,1,1,1,1,1\n")
    (row,) = values(X.make_csv_dataset(str(path), 2, num_epochs=1, shuffle=False))
    kinds = {"nan": "O", "inf": "O", "under": "O", "large": "int64", "huge": "float64", "low": "float32"}
    assert {name: column.dtype for name, column in row.items()} == {n: np.dtype(k) for n, k in kinds.items()}
    typed = X.make_csv_dataset(str(path), 2, select_columns=["under"], column_defaults=[tf.int32], num_epochs=1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="'under' is not a valid int32: '1_000'"):
        values(typed)


def test_csv_files_that_are_none(graph: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n" + "x" * 200_000)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{path}: line 2: field larger than field limit"):
        X.make_csv_dataset(str(path), 1)
    with pytest.raises(tf.errors.DataLossError, match=f"{path}: .*or no GZIP file"):
        X.make_csv_dataset(str(path), 1, compression_type="GZIP")
    path.write_text('1,"open\n2,b\n')
    with pytest.raises(tf.errors.InvalidArgumentError, match="DecodeCSV: "):
        values(X.CsvDataset(str(path), [tf.int32, tf.string]))
