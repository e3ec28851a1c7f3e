"""tf.python_io and the messages of tf.train that go into record files."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

import sparkflow as tf


@pytest.mark.parametrize(
    "options", [None, "GZIP", tf.python_io.TFRecordOptions(tf.python_io.TFRecordCompressionType.ZLIB)]
)
def test_examples_written_and_read(tmp_path: Path, options: object) -> None:
    path = tmp_path / "examples"
    with tf.python_io.TFRecordWriter(path, options) as writer:
        for i in range(3):
            features = {
                "i": tf.train.Feature(int64_list=tf.train.Int64List(value=[i, -i])),
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=[i / 2])),
                "s": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a" * i])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
    read = [tf.train.Example.FromString(r) for r in tf.python_io.tf_record_iterator(str(path), options)]
    assert [list(e.features.feature["i"].int64_list.value) for e in read] == [[0, 0], [1, -1], [2, -2]]
    assert [e.features.feature["s"].bytes_list.value[0] for e in read] == [b"", b"a", b"aa"]


def test_sequences_of_features() -> None:
    sequence = tf.train.SequenceExample()
    sequence.context.feature["length"].int64_list.value.append(2)
    for word in (b"to", b"be"):
        sequence.feature_lists.feature_list["words"].feature.add().bytes_list.value.append(word)
    again = tf.train.SequenceExample.FromString(sequence.SerializeToString())
    assert [f.bytes_list.value[0] for f in again.feature_lists.feature_list["words"].feature] == [b"to", b"be"]


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    with (
        tf.python_io.TFRecordWriter(tmp_path / "a") as writer,
        pytest.raises(TypeError, match=r"expected bytes, got Example; call SerializeToString\(\)"),
    ):
        writer.write(tf.train.Example())
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected 'GZIP', 'ZLIB', '' or None, got 'snappy'"):
        tf.python_io.TFRecordOptions("snappy")
    with pytest.raises(tf.errors.NotFoundError, match="nowhere"):
        next(tf.python_io.tf_record_iterator(tmp_path / "nowhere"))


@pytest.mark.parametrize("kind", ["GZIP", "ZLIB"])
def test_a_level_of_compression(tmp_path: Path, kind: str) -> None:
    record, sizes = b"ab" * 5000, []
    for level in (0, 1, 9, None):
        options = tf.io.TFRecordOptions(kind, compression_level=level)
        with tf.io.TFRecordWriter(tmp_path / "a", options) as writer:
            writer.write(record)
        assert list(tf.python_io.tf_record_iterator(tmp_path / "a", options)) == [record]
        sizes.append((tmp_path / "a").stat().st_size)
    assert sizes[0] > len(record) > 20 * sizes[1] > 20 * sizes[2] and sizes[3] <= sizes[1]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"compression_level: expected 0 to 9, .* got 77"):
        tf.io.TFRecordOptions(kind, compression_level=77)
    with pytest.raises(TypeError, match="compresion_level"):
        tf.io.TFRecordOptions(kind, compresion_level=1)


def test_texts_are_written_and_nothing_behind_the_end(tmp_path: Path) -> None:
    writer = tf.io.TFRecordWriter(str(tmp_path / "a"))
    for record in ("é", bytearray(b"b")):
        writer.write(record)
    writer.close()
    writer.close()
    assert list(tf.python_io.tf_record_iterator(tmp_path / "a")) == ["é".encode(), b"b"]
    for late in (lambda: writer.write(b"c"), writer.flush):
        with pytest.raises(tf.errors.FailedPreconditionError, match="/a: this writer is closed"):
            late()


def test_a_file_that_can_grow_no_more(tmp_path: Path) -> None:
    """As on a full disk: while records are written, when they are flushed, or with the end."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        for count, kind, name in ((3000, "", "a"), (500, "", "b"), (500, "GZIP", "c"), (500, "", "d")):
            said = f"/{name} cannot be written: File too large"
            with (
                pytest.raises(tf.errors.ResourceExhaustedError, match=said),
                tf.io.TFRecordWriter(str(tmp_path / name), kind) as writer,
            ):
                for i in range(count):
                    writer.write(bytes([i * 7 % 251, i % 250]) * 10)
                if name == "d":
                    writer.flush()
        with (
            pytest.raises(tf.errors.ResourceExhaustedError, match="/e; File too large"),
            tf.gfile.GFile(str(tmp_path / "e"), "w") as file,
        ):
            file.write("x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
