"""Checkpoints of TensorFlow's V1 format, whose bytes this file makes by hand."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow import cli
from sparkflow_runtime.wire import sorted_table, tensor_bundle
from sparkflow_runtime.wire.dtypes import as_dtype
from sparkflow_runtime.wire.errors import DataLossError, NotFoundError
from sparkflow_runtime.wire.varints import to_varint

Extents = list[tuple[int, int]]
FIELDS = {"float32": 5, "float64": 6, "int32": 7, "string": 8, "complex64": 9, "int64": 10, "bool": 11, "float16": 13}


def field(number: int, value: Any) -> bytes:
    """A field of a message: a number, or bytes."""
    if isinstance(value, int):
        return to_varint(number << 3) + to_varint(value & 2**64 - 1)
    return to_varint(number << 3 | 2) + to_varint(len(value)) + value


def extents_of(extents: Extents) -> bytes:
    """A slice; (0, -1) is all of a dimension."""
    return b"".join(field(1, b"" if n < 0 else field(1, b) + field(2, n)) for b, n in extents)


def values_of(array: np.ndarray) -> bytes:
    """A TensorProto, without type and shape, as the format has it."""
    name = as_dtype(array.dtype).name
    if name == "string":
        return b"".join(field(FIELDS[name], text) for text in array.ravel().tolist())
    if name in ("float32", "float64", "complex64"):
        return field(FIELDS[name], array.tobytes())
    flat = array.ravel()
    numbers = (flat.view(np.uint16) if name == "float16" else flat.astype(np.int64)).tolist()
    return field(FIELDS[name], b"".join(to_varint(n & 2**64 - 1) for n in numbers))


def table(**tensors: tuple[np.ndarray, list[tuple[Extents, np.ndarray]]]) -> bytes:
    """name -> (what is whole, its slices)."""
    rows, told = {}, b""
    for name, (whole, slices) in tensors.items():
        shape = b"".join(field(2, field(1, size)) for size in whole.shape)
        kind = as_dtype(whole.dtype).as_datatype_enum
        spans = b"".join(field(4, extents_of(extents)) for extents, _ in slices)
        told += field(1, field(1, name.encode()) + field(2, shape) + field(3, kind) + spans)
        for extents, part in slices:
            held = field(1, name.encode()) + field(2, extents_of(extents)) + field(3, values_of(part))
            rows[tensor_bundle.slice_key(name, extents)] = field(2, held)
    rows[b""] = field(1, told + field(2, field(1, 1)))
    return sorted_table.encode(sorted(rows.items()))


def whole(array: Any) -> tuple[np.ndarray, list[tuple[Extents, np.ndarray]]]:
    array = np.asarray(array)
    return array, [([(0, -1)] * array.ndim, array)]


HALF = np.array([1.5, -2.0], np.float16)
TENSORS = {
    "f": np.arange(6, dtype=np.float32).reshape(2, 3), "d": np.array(-0.5),
    "n": np.array([[-3, 200, 2**31 - 1]], np.int32),
    "big": np.array([-(2**62), 0, 300]), "b": np.array([True, False]), "h": HALF, "c": np.array([1 + 2j], np.complex64),
    "s": np.array([b"one", b"", b"x" * 200], object), "empty": np.zeros((0, 4), np.int32),
}  # fmt: skip


def test_all_that_readers_ask_of_it(tmp_path: Path) -> None:
    prefix = str(tmp_path / "old.ckpt")
    Path(prefix).write_bytes(table(**{name: whole(value) for name, value in TENSORS.items()}))
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "old.ckpt"\n')
    assert tf.train.latest_checkpoint(str(tmp_path)) == prefix and tf.train.checkpoint_exists(prefix)
    assert tf.train.list_variables(prefix) == [(name, list(TENSORS[name].shape)) for name in sorted(TENSORS)]
    assert cli.main(["checkpoint", "convert", prefix, str(tmp_path / "new"), "--to", "tensorflow"]) == 0
    for where in (prefix, str(tmp_path / "new")):
        reader = tf.train.load_checkpoint(where)
        for name, value in TENSORS.items():
            assert reader.get_tensor(name).tolist() == value.tolist(), name
            assert reader.get_variable_to_dtype_map()[name] == as_dtype(value.dtype)
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", [2, 3])
        tf.train.init_from_checkpoint(str(tmp_path), {"f": "v"})
        session.run(tf.global_variables_initializer())
        assert session.run(v).tolist() == TENSORS["f"].tolist()
        with pytest.raises(NotFoundError, match="Key v not found"):
            tf.train.Saver().restore(session, prefix)


@pytest.mark.parametrize("wild", [False, True])
def test_slices_in_several_files(tmp_path: Path, wild: bool) -> None:
    """A variable of other parts takes what it needs of each."""
    rows = np.arange(24, dtype=np.float32).reshape(6, 4)
    for i, (begin, count) in enumerate([(0, 4), (4, 2)]):
        parts = [([(begin, count), (0, -1)], rows[begin : begin + count])]
        more = {"alone": whole(np.float32(7))} if i else {}
        (tmp_path / f"m-0000{i}-of-00002").write_bytes(table(part=(rows, parts), **more))
    prefix = str(tmp_path / ("m-?????-of-00002" if wild else "m"))
    with tf.Graph().as_default(), tf.Session() as session:
        part = tf.get_variable("part", [6, 4], partitioner=tf.fixed_size_partitioner(3))
        alone = tf.get_variable("alone", [])
        tf.train.Saver().restore(session, prefix)
        assert session.run(tf.convert_to_tensor(part)).tolist() == rows.tolist() and session.run(alone) == 7
    for gone in ("m-00000-of-00002", "m-00001-of-00002"):
        kept = (tmp_path / gone).read_bytes()
        (tmp_path / gone).unlink()
        with pytest.raises(DataLossError, match="Of the 2 files"):
            tf.train.list_variables(prefix)
        (tmp_path / gone).write_bytes(kept)


def _short(raw: bytes) -> bytes:
    """The message of "f" with a number less."""
    rows = dict(sorted_table.entries(raw))
    key = tensor_bundle.slice_key("f", [(0, -1)] * 2)
    rows[key] = field(2, field(3, field(5, TENSORS["f"].tobytes()[4:])))
    return sorted_table.encode(sorted(rows.items()))


def _without(raw: bytes, key: bytes) -> bytes:
    return sorted_table.encode(sorted((k, v) for k, v in sorted_table.entries(raw) if k != key))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_short, "'f'.*damaged: it has 5 of 6 values"),
        (lambda raw: _without(raw, b""), "does not say what it holds"),
        (lambda raw: _without(raw, tensor_bundle.slice_key("f", [(0, -1)] * 2)), "slice .* of tensor 'f' is not there"),
        (lambda raw: raw[:30] + bytes([raw[30] ^ 1]) + raw[31:], "checksum"),
        (lambda raw: sorted_table.encode([(b"", b"\x0a\x7fx")]), "would reach beyond"),
        (lambda raw: sorted_table.encode([(b"", b"\x0b")]), "no field"),
    ],
)
def test_damage_is_told(tmp_path: Path, change: Any, said: str) -> None:
    path = tmp_path / "m"
    path.write_bytes(change(table(f=whole(TENSORS["f"]))))
    with pytest.raises(DataLossError, match=said):
        tf.train.load_variable(str(path), "f")


def test_what_is_cut_off_is_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(table(f=whole(TENSORS["f"]))[:-1])
    with pytest.raises(NotFoundError, match="is no whole checkpoint"):
        tf.train.list_variables(str(path))


def test_numbers_that_stand_alone(tmp_path: Path) -> None:
    """A message's numbers need not be packed."""
    array = np.array([3, -1], np.int64)
    rows = dict(sorted_table.entries(table(n=whole(array))))
    alone = b"".join(field(FIELDS["int64"], int(n)) for n in array)
    rows[tensor_bundle.slice_key("n", [(0, -1)])] = field(2, field(3, alone))
    (tmp_path / "m").write_bytes(sorted_table.encode(sorted(rows.items())))
    assert tf.train.load_variable(str(tmp_path / "m"), "n").tolist() == [3, -1]
    single = b"".join(struct.pack("<Bf", FIELDS["float32"] << 3 | 5, x) for x in (0.5, math.pi))
    rows = dict(sorted_table.entries(table(n=whole(np.zeros(2, np.float32)))))
    rows[tensor_bundle.slice_key("n", [(0, -1)])] = field(2, field(3, single))
    (tmp_path / "f").write_bytes(sorted_table.encode(sorted(rows.items())))
    assert tf.train.load_variable(str(tmp_path / "f"), "n").tolist() == [0.5, np.float32(math.pi)]
