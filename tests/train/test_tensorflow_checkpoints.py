"""Checkpoints as TensorFlow writes them, whose bytes this file makes by hand."""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
from crc32c import crc32c

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow_runtime.wire import sorted_table, tensor_bundle
from sparkflow_runtime.wire.dtypes import as_dtype
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError, NotFoundError, UnimplementedError

MAGIC = bytes.fromhex("57fb808b247547db")


def number(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + number(value >> 7)


def masked(raw: bytes) -> bytes:
    crc = crc32c(raw)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def field(at: int, value: int | bytes) -> bytes:
    """Of a protobuf message."""
    if isinstance(value, int):
        return number(at << 3) + number(value)
    return number(at << 3 | 2) + number(len(value)) + value


def entry(
    dtype: str, shape: tuple[int, ...], shard: int, offset: int, size: int, crc: bytes, slices: bytes = b""
) -> bytes:
    dims = b"".join(field(2, field(1, d)) for d in shape)
    sizes = field(3, shard) + field(4, offset) + field(5, size)
    return field(1, as_dtype(dtype).as_datatype_enum) + field(2, dims) + sizes + number(6 << 3 | 5) + crc + slices


def table(rows: dict[bytes, bytes], snappy: bool = False) -> bytes:
    """A block for each two rows."""
    out, places = b"", {}

    def append(content: dict[bytes, bytes]) -> bytes:
        nonlocal out
        block, last = b"", b""
        for key, value in content.items():
            shared = next((i for i, (a, b) in enumerate(zip(last, key)) if a != b), min(len(last), len(key)))
            block += number(shared) + number(len(key) - shared) + number(len(value)) + key[shared:] + value
            last = key
        block += struct.pack("<II", 0, 1)
        block = pa.compress(block, codec="snappy", asbytes=True) if snappy else block
        at, stored = len(out), block + bytes([snappy])
        out += stored + masked(stored)
        return number(at) + number(len(block))

    ordered = sorted(rows.items())
    for i in range(0, len(ordered), 2):
        places[ordered[i : i + 2][-1][0]] = append(dict(ordered[i : i + 2]))
    handles = append({}) + append(places)
    return out + handles.ljust(40, b"\0") + MAGIC


def header(shards: int, endianness: int = 0, min_consumer: int = 0) -> bytes:
    return field(1, shards) + field(2, endianness) + field(3, field(1, 1) + field(2, min_consumer))


def write(prefix: str, tensors: dict[str, np.ndarray], shards: int = 1, snappy: bool = False, **changed: int) -> None:
    """Tensors in turn to each of the data files, one byte apart, so that none lies where its type would like it."""
    rows, files = {b"": header(shards, **changed)}, [b""] * shards
    for i, (name, value) in enumerate(tensors.items()):
        shard = i % shards
        files[shard] += b"?"
        if value.dtype == object:
            lengths = struct.pack(f"<{value.size}I", *map(len, value.ravel()))
            rest = masked(lengths) + b"".join(value.ravel())
            raw, crc = b"".join(number(len(t)) for t in value.ravel()) + rest, masked(lengths + rest)
        else:
            raw, crc = value.tobytes(), masked(value.tobytes())
        rows[name.encode()] = entry(
            as_dtype(value.dtype).name, value.shape, shard, len(files[shard]), len(raw), crc
        )  # fmt: skip
        files[shard] += raw
    for i, content in enumerate(files):
        Path(f"{prefix}.data-{i:05d}-of-{shards:05d}").write_bytes(content)
    Path(prefix + ".index").write_bytes(table(rows, snappy))


FLOATS, COMPLEX = ["float16", "float32", "float64"], ["complex64", "complex128"]
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
NUMBERS = [*FLOATS, *INTEGERS, *COMPLEX, "bool"]
TENSORS: dict[str, np.ndarray] = {
    **{f"layer/{dtype}": np.arange(6).reshape(2, 3).astype(dtype) for dtype in NUMBERS},
    "layer/bfloat16": np.arange(6).astype(ml_dtypes.bfloat16),
    "layer/scalar": np.array(7, np.int64),
    "layer/empty": np.zeros((0, 3), np.float32),
    "texts": np.array([[b"", b"a"], [b"x" * 300, b"\xff\0"]], object),
    "no texts": np.empty((0,), object),
    "\N{GREEK SMALL LETTER BETA}": np.ones(1, np.float32),
}


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("snappy", [False, True])
def test_what_readers_give(tmp_path: Path, shards: int, snappy: bool) -> None:
    prefix = str(tmp_path / "model.ckpt-7")
    write(prefix, TENSORS, shards, snappy)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"\n')
    assert tf.train.latest_checkpoint(str(tmp_path)) == prefix
    assert dict(tf.train.list_variables(str(tmp_path))) == {n: list(t.shape) for n, t in TENSORS.items()}
    reader = tf.train.load_checkpoint(str(tmp_path))
    types = reader.get_variable_to_dtype_map()
    for name, value in TENSORS.items():
        found = reader.get_tensor(name)
        assert types[name] == value.dtype and np.asarray(found, value.dtype).shape == value.shape
        np.testing.assert_array_equal(found, value[()])
    np.testing.assert_array_equal(reader.get_rows("layer/float32", 1, 2), [[3, 4, 5]])
    np.testing.assert_array_equal(reader.get_rows("texts", 1, 2), TENSORS["texts"][1:])
    assert tf.contrib.framework.load_variable(prefix, "layer/scalar") == 7


def test_saver_restores_and_saves_over_it(tmp_path: Path, graph: Graph) -> None:
    prefix = str(tmp_path / "m")
    write(prefix, {"w": np.arange(4, dtype=np.float32)}, shards=2)
    w = tf.get_variable("w", [4])
    saver = tf.train.Saver()
    with tf.Session() as sess:
        saver.restore(sess, prefix)
        assert sess.run(w).tolist() == [0, 1, 2, 3]
        sess.run(w.assign_add([1.0] * 4))
        saver.save(sess, prefix, write_meta_graph=False)
        sess.run(w.initializer)
        saver.restore(sess, prefix)
        assert sess.run(w).tolist() == [1, 2, 3, 4]
    assert len(list(tmp_path.glob("m.data-*"))) == 1  # TensorFlow's are gone


def test_a_model_begins_from_it(tmp_path: Path, graph: Graph) -> None:
    write(str(tmp_path / "m"), {"old/w": np.arange(4, dtype=np.float32)})
    w = tf.get_variable("w", [4])
    tf.train.init_from_checkpoint(str(tmp_path / "m"), {"old/w": w})
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(w).tolist() == [0, 1, 2, 3]


# ---------------------------------------------------------------------- slices

# (extents, as TensorFlow encodes (name "p", slice); the numbers below 64 take a byte, 0x80 | n, -1 is 0x7f)
P = b"\0p\0\x01\x01\x02"
SLICES = [
    ([(0, 2), (0, -1)], P + b"\x80\x82\x80\x7f"),
    ([(2, 98), (0, -1)], P + b"\x82\xc0\x62\x80\x7f"),
]


@pytest.mark.parametrize("extents, key", SLICES)
def test_the_key_of_a_slice(extents: list[tuple[int, int]], key: bytes) -> None:
    assert tensor_bundle.slice_key("p", extents) == key


def sliced(prefix: str, whole: np.ndarray, slices: list[Any] = SLICES) -> None:
    listed = b""
    rows, data = {b"": header(1)}, b""
    for extents, key in slices:
        first, count = extents[0]
        raw = whole[first : first + count].tobytes()
        dims = (field(1, first) if first else b"") + field(2, count)
        listed += field(7, field(1, dims) + field(1, b""))
        rows[key] = entry("float32", (count, 3), 0, len(data), len(raw), masked(raw))
        data += raw
    rows[b"p"] = entry("float32", whole.shape, 0, 0, 0, bytes(4), listed)
    Path(prefix + ".index").write_bytes(table(rows))
    Path(prefix + ".data-00000-of-00001").write_bytes(data)


def test_a_partitioned_variable(tmp_path: Path) -> None:
    whole, prefix = np.arange(300, dtype=np.float32).reshape(100, 3), str(tmp_path / "m")
    sliced(prefix, whole)
    reader = tf.train.load_checkpoint(prefix)
    np.testing.assert_array_equal(reader.get_tensor("p"), whole)
    np.testing.assert_array_equal(reader.get_rows("p", 1, 5), whole[1:5])
    with Graph().as_default(), tf.Session() as sess:
        p = tf.get_variable("p", [100, 3], partitioner=tf.fixed_size_partitioner(3))
        tf.train.Saver().restore(sess, prefix)
        np.testing.assert_array_equal(sess.run(tf.concat(list(p), 0)), whole)


@pytest.mark.parametrize(
    "slices, message",
    [
        (SLICES[:1], "of tensor .p. 6 of the 300"),
        ([SLICES[0], SLICES[0]], "saved twice"),
        ([([(2, 99), (0, -1)], b"\0x")], "reaches beyond"),
        ([([(2, 98), (0, -1)], b"\0x")], "has no entry"),
    ],
)
def test_slices_that_do_not_fit(tmp_path: Path, slices: list[Any], message: str) -> None:
    sliced(str(tmp_path / "m"), np.zeros((100, 3), np.float32), slices)
    with pytest.raises(DataLossError, match=message):
        tf.train.load_variable(str(tmp_path / "m"), "p")


# ---------------------------------------------------------------------- damage


def restored(prefix: str) -> list[Any]:
    with Graph().as_default(), tf.Session() as sess:
        held = [tf.get_variable(name, [4], initializer=tf.zeros_initializer()) for name in ("a", "w")]
        held.append(tf.Variable(["", ""], name="t"))
        sess.run(tf.global_variables_initializer())
        try:
            tf.train.Saver().restore(sess, prefix)
        except Exception:
            assert sess.run(held[0]).tolist() == sess.run(held[1]).tolist() == [0] * 4  # nothing half restored
            assert sess.run(held[2]).tolist() == [b"", b""]
            raise
        return list(sess.run(held))


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    path = str(tmp_path / "m")
    texts = np.array([b"one", b"two"], object)
    write(path, {"a": np.ones(4, np.float32), "t": texts, "w": np.ones(4, np.float32)})
    return path


def changed(path: str, at: int, to: int | None = None) -> None:
    raw = bytearray(Path(path).read_bytes())
    raw[at] = raw[at] ^ 4 if to is None else to
    Path(path).write_bytes(raw)


def test_every_flipped_byte_of_the_index_is_found(prefix: str) -> None:
    raw = Path(prefix + ".index").read_bytes()
    for at in range(len(raw)):
        changed(prefix + ".index", at)
        padding = at >= len(raw) - 48 and raw[at] == 0  # of no meaning
        with contextlib.nullcontext() if padding else pytest.raises(DataLossError, match=r"m\.index"):
            tf.train.list_variables(prefix)
        Path(prefix + ".index").write_bytes(raw)
    for size in range(len(raw)):
        Path(prefix + ".index").write_bytes(raw[:size])
        with pytest.raises(DataLossError, match=r"m\.index"):
            tf.train.list_variables(prefix)


@pytest.mark.parametrize("at, name", [(1, "a"), (16, "a"), (18, "t"), (19, "t"), (21, "t"), (26, "t"), (-1, "w")])
def test_a_flipped_bit_in_the_data(prefix: str, at: int, name: str) -> None:
    changed(prefix + ".data-00000-of-00001", at)
    with pytest.raises(DataLossError, match=rf"m\.data-00000-of-00001: tensor '{name}', \d+ bytes at offset \d+, is"):
        restored(prefix)


def test_lengths_of_strings_without_an_end(prefix: str) -> None:
    for at in range(18, 30):
        changed(prefix + ".data-00000-of-00001", at, 0xFF)
    with pytest.raises(DataLossError, match="tensor 't'"):
        restored(prefix)


def test_a_short_data_file(prefix: str) -> None:
    data = Path(prefix + ".data-00000-of-00001")
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(DataLossError, match=r"m\.data-00000-of-00001 has 46 bytes, expected 47"):
        restored(prefix)


def test_a_missing_data_file(prefix: str) -> None:
    os.remove(prefix + ".data-00000-of-00001")
    with pytest.raises(NotFoundError, match=r"m\.data-00000-of-00001 .* is missing"):
        restored(prefix)


@pytest.mark.parametrize(
    "value, error, message",
    [
        (np.ones(5, np.float32), InvalidArgumentError, r"w has shape \(4,\) in the graph and \(5,\) in the checkpoint"),
        (np.ones(4, np.float64), InvalidArgumentError, "w is float32 in the graph and float64 in the checkpoint"),
    ],
)
def test_another_tensor(prefix: str, value: np.ndarray, error: type, message: str) -> None:
    write(prefix, {"a": np.ones(4, np.float32), "t": np.array([b"", b""], object), "w": value})
    with pytest.raises(error, match=message):
        restored(prefix)


def test_a_tensor_that_is_not_there(prefix: str) -> None:
    with pytest.raises(NotFoundError, match=r"Key b not found in checkpoint .*m\.index"):
        tf.train.load_variable(prefix, "b")


@pytest.mark.parametrize(
    "change, message", [({"endianness": 1}, "big end first"), ({"min_consumer": 2}, "needs a reader of version 2")]
)
def test_what_others_wrote(prefix: str, change: dict[str, int], message: str) -> None:
    write(prefix, {"a": np.ones(4, np.float32)}, **change)
    with pytest.raises(UnimplementedError, match=message):
        restored(prefix)


def test_an_entry_that_does_not_fit(prefix: str) -> None:
    rows = {b"": header(1), b"a": entry("float32", (4,), 0, 0, 12, bytes(4))}
    Path(prefix + ".index").write_bytes(table(rows))
    with pytest.raises(DataLossError, match=r"'a', float32\[4\], has 12 bytes at offset 0, expected 16"):
        restored(prefix)
    rows[b"a"] = entry("float32", (4,), 1, 0, 16, bytes(4))
    Path(prefix + ".index").write_bytes(table(rows))
    with pytest.raises(DataLossError, match="data file 1 of 1"):
        restored(prefix)
    Path(prefix + ".index").write_bytes(table({b"a": rows[b"a"]}))
    with pytest.raises(DataLossError, match="has no header"):
        restored(prefix)


# ---------------------------------------------------------------------- tables


@pytest.mark.parametrize("size", [0, 1, 59, 60, 61, 5000, 70_000])
def test_snappy(size: int) -> None:
    rng = np.random.default_rng(size)
    for raw in (rng.bytes(size), b"abc" * (size // 3), bytes(rng.integers(0, 3, size, np.uint8))):
        assert sorted_table.unsnapped(pa.compress(raw, codec="snappy", asbytes=True)) == raw


@pytest.mark.parametrize("raw", [b"", b"\x05\x10ab", b"\x05\x09\x04", b"\x02\x10abcde", b"\xff" * 12])
def test_damaged_snappy(raw: bytes) -> None:
    with pytest.raises(ValueError):
        sorted_table.unsnapped(raw)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 5000])
def test_a_table_that_is_written_is_read(count: int) -> None:
    rows = {f"name/of/{i:05d}".encode(): bytes([i % 256]) * (i % 200) for i in range(count)}
    assert dict(sorted_table.entries(sorted_table.encode(rows.items()))) == rows
