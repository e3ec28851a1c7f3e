"""TFRecord files: whole, damaged, compressed, of any block size."""

from __future__ import annotations

import gzip
import tracemalloc
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sparkflow_runtime.records.example import INT64_LIST, Room
from sparkflow_runtime.records.example_encode import Feature, encode
from sparkflow_runtime.records.files import RecordFile, RecordWriter
from sparkflow_runtime.records.framing import frame, frames
from sparkflow_runtime.wire.errors import DataLossError, FailedPreconditionError, InvalidArgumentError, NotFoundError

KNOWN = "0500000000000000eab2043e68656c6c6fbb1f1c19000000000000000029039807d8ea82a2"
RECORDS = [b"", b"a" * 11, *(bytes([i]) * (i * 7 % 90) for i in range(200)), b"z" * 5000]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "records"
    with RecordWriter(str(path)) as writer:
        for record in RECORDS:
            writer.write(record)
    return path


def read(path: Path, skip: bool = False, block: int = 97, compression: str = "") -> tuple[list[bytes], int]:
    with RecordFile(str(path), compression, skip, block) as file:
        return [r for b in file.blocks() for r in b.records()], file.skipped


def test_a_known_file(version: str) -> None:
    """As TensorFlow 2.21 writes the records b'hello' and b''."""
    data = bytes.fromhex(KNOWN)
    assert frame(b"hello") + frame(b"") == data
    found = frames(np.frombuffer(bytearray(data), np.uint8))
    assert found.starts.tolist() == [12, 33] and found.ends.tolist() == [17, 33] and found.used == 37


@pytest.mark.parametrize("block", [16, 97, 1 << 20])
def test_records_come_back_whatever_the_block(version: str, path: Path, block: int) -> None:
    assert read(path, block=block) == (RECORDS, 0)


@pytest.mark.parametrize("block", [16, 97])
def test_memory_of_blocks_is_used_again(path: Path, block: int) -> None:
    with RecordFile(str(path), block_bytes=block, reuse=True) as file:
        got, places = [], []
        for found in file.blocks():
            got += found.records()
            places.append(found.buffer.ctypes.data)
    assert got == RECORDS and len(set(places)) < len(places)


def test_memory_of_messages_is_used_again() -> None:
    numbers, room = np.arange(50), Room()
    feature = Feature(b"n", INT64_LIST, numbers, None)
    first, _ = encode([feature], 50, room=room)
    kept = first.tobytes()
    second, _ = encode([feature], 40, room=room)
    assert np.shares_memory(first, second) and kept == encode([feature], 50)[0].tobytes()


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_compressed(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "records"
    with RecordWriter(str(path), compression) as writer:
        writer.write_framed(np.frombuffer(b"".join(map(frame, RECORDS)), np.uint8))
    assert read(path, compression=compression) == (RECORDS, 0)
    if compression == "GZIP":
        assert gzip.decompress(path.read_bytes()) == b"".join(map(frame, RECORDS))
        path.write_bytes(path.read_bytes() * 2 + bytes(9))
        assert read(path, compression=compression) == (RECORDS * 2, 0), "members, and zeros after them"
        path.write_bytes(path.read_bytes()[: (path.stat().st_size - 9) // 2])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataLossError, match=r"records: decompression ended at byte \d+"):
        read(path, compression=compression)
    got, skipped = read(path, True, compression=compression)
    assert got == RECORDS[: len(got)] and skipped >= 1 and len(got) > 100, "what comes before is not lost"
    path.write_bytes(b"".join(map(frame, RECORDS)))
    with pytest.raises(DataLossError, match="decompression ended at byte 0"):
        read(path, compression=compression)


def test_every_flipped_byte_is_noticed(version: str, tmp_path: Path) -> None:
    parts = [b"abc", b"de", b"fghij"]
    whole = b"".join(map(frame, parts))
    path = tmp_path / "records"
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        hit = 0 if at < 19 else 1 if at < 37 else 2
        with pytest.raises(DataLossError, match=f"begins at byte {(0, 19, 37)[hit]}"):
            read(path)
        assert read(path, skip=True) == ([p for i, p in enumerate(parts) if i != hit], 1)


def test_a_file_that_ends_early(version: str, tmp_path: Path) -> None:
    path, whole = tmp_path / "records", frame(b"abc") + frame(b"defg")
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        if length in (0, 19):
            assert read(path)[0] == [b"abc"][: length // 19]
            continue
        with pytest.raises(
            DataLossError,
            match=f"records: the file ends inside the record that begins at byte {19 if length > 19 else 0}",
        ):
            read(path)
        assert read(path, skip=True) == ([b"abc"][: length // 19], 1)


def test_a_length_that_lies_is_not_believed(tmp_path: Path) -> None:
    """A header of 2**60 bytes, with a wrong sum: nothing of that size is waited for or allocated."""
    path = tmp_path / "records"
    path.write_bytes((1 << 60).to_bytes(8, "little") + b"\0" * 40 + frame(b"after"))
    with pytest.raises(DataLossError, match="the checksum of the length that begins at byte 0 is wrong"):
        read(path)
    assert read(path, skip=True) == ([b"after"], 1)


def test_a_large_record_is_held_twice(tmp_path: Path) -> None:
    """In the block and as bytes, or in two blocks while it is read; and what is asked for of it."""
    path, record = tmp_path / "one", bytes(50 << 20)
    path.write_bytes(frame(record) + frame(b"small"))
    with RecordFile(str(path)) as file:
        tracemalloc.start()
        try:
            sizes = [len(found) for block in file.blocks() for found in block.records()]
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert sizes == [len(record), 5] and most < 3.2 * len(record)


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="nowhere"):
        RecordFile(str(tmp_path / "nowhere"))
    with pytest.raises(InvalidArgumentError, match="expected one of '', 'GZIP', 'ZLIB', got 'LZ4'"):
        RecordFile(str(tmp_path / "nowhere"), "LZ4")
    with pytest.raises(FailedPreconditionError, match="is a directory"):
        RecordFile(str(tmp_path))


def test_framed_messages_are_a_file(version: str, tmp_path: Path) -> None:
    numbers = np.arange(500, dtype=np.int64) ** 3
    data, ends = encode([Feature(b"n", INT64_LIST, numbers, np.arange(501, dtype=np.int64))], 500, framed=True)
    bare, at = encode([Feature(b"n", INT64_LIST, numbers, np.arange(501, dtype=np.int64))], 500)
    (tmp_path / "records").write_bytes(data.tobytes())
    assert read(tmp_path / "records")[0] == [bytes(bare[a:b]) for a, b in pairwise(at)]
    assert ends[-1] == len(data)
