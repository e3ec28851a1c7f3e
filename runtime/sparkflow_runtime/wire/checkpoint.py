"""A checkpoint's index: which bytes of which file hold a tensor, or a slice of one, and their checksum.

    <prefix>.data-00000-of-00002    the tensors of a task, in the safetensors format
    <prefix>.index                  this index, as JSON; a checkpoint exists when this file does

Numbers are stored as they are; what safetensors has no type for as numbers of another type, or as bytes.
TensorFlow's checkpoints have files of the same names: tensor_bundle.py makes the same Index of theirs, and
tensor_slices.py of those of its V1 format.
"""

from __future__ import annotations

import glob
import json
import mmap
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sparkflow_runtime.wire.checksums import crc32c
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError, NotFoundError

VERSION = 1
INDEX_SUFFIX = ".index"
_FSYNC = "SPARKFLOW_CHECKPOINT_FSYNC"  # "1": a save waits for the disk
Dims = tuple[int, ...]


class Piece(NamedTuple):
    """A whole tensor or a box of it: `size` elements from `begin` on, `nbytes` bytes at `offset` of `file`."""

    file: str
    key: str
    begin: Dims
    size: Dims
    offset: int
    nbytes: int
    crc32c: int


_FIELDS = Piece._fields


@dataclass
class Entry:
    """A tensor: dtype is sparkflow's name of it, shape that of the whole."""

    dtype: str
    shape: Dims
    pieces: list[Piece] = field(default_factory=list)


@dataclass
class Index:
    """tensor name -> Entry; files: the bytes each data file has, of TensorFlow's (`tensorflow`, `v1`) at least."""

    entries: dict[str, Entry] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    tensorflow: bool = False
    v1: bool = False

    def add(self, name: str, dtype: str, shape: Dims, piece: Piece) -> None:
        """Raises InvalidArgumentError where the tensor is there already, or is declared otherwise by another slice."""
        entry = self.entries.setdefault(name, Entry(dtype, shape))
        if (entry.dtype, entry.shape) != (dtype, shape):
            raise InvalidArgumentError(
                f"Checkpoint: tensor {name!r} is saved as {entry.dtype}{list(entry.shape)} and as {dtype}{list(shape)}"
            )
        if entry.pieces and (not shape or any(overlap(p.begin, p.size, piece.begin, piece.size) for p in entry.pieces)):
            raise InvalidArgumentError(
                f"Checkpoint: tensor {name!r} is saved twice. Give one of the variables another name"
            )
        entry.pieces.append(piece)

    def missing(self, name: str, prefix: str) -> str:
        """What to say of a tensor that is not here."""
        import difflib  # dear to import

        near = difflib.get_close_matches(name, self.entries, n=3, cutoff=0.5)
        similar = f"Similar names in it: {', '.join(near)}. " if near else ""
        some = sorted(self.entries)[:10]
        more = f" and {len(self.entries) - 10} more" if len(self.entries) > 10 else ""
        return (
            f"Key {name} not found in checkpoint {prefix}{INDEX_SUFFIX}. {similar}"
            f"It holds {', '.join(some) or 'no tensors'}{more}"
        )


def survives_power_cut() -> bool:
    """Whether a save waits until the disk has everything. Without, as in TensorFlow, it survives the death of every
    process but not that of the machine in the next half minute: a restore then finds the damage by the checksums."""
    return os.environ.get(_FSYNC) == "1"


def overlap(begin_a: Dims, size_a: Dims, begin_b: Dims, size_b: Dims) -> tuple[slice, ...] | None:
    """Where both boxes are, as slices of the whole; None where nowhere, or where they are points of rank 0."""
    out = []
    for a, n, b, m in zip(begin_a, size_a, begin_b, size_b, strict=True):
        low, high = max(a, b), min(a + n, b + m)
        if low >= high:
            return None
        out.append(slice(low, high))
    return tuple(out) or None


def parse_slice(spec: str) -> tuple[Dims, Dims, Dims] | None:
    """'6 2 0,3:0,2' -> (full shape, begin, size), None for ''; '-' in place of a pair is the whole dimension.

    Raises InvalidArgumentError where it cannot be read or does not fit.
    """
    if not spec:
        return None
    try:
        *dims, boxes = spec.split(" ")
        shape = tuple(int(d) for d in dims)
        pairs = [
            (0, n) if box == "-" else tuple(map(int, box.split(",")))
            for box, n in zip(boxes.split(":"), shape, strict=True)
        ]
        begin, size = tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
    except (ValueError, IndexError) as error:
        raise InvalidArgumentError(
            f"Slice {spec!r}: expected e.g. '6 2 0,3:0,2' (shape, then begin,size pairs)"
        ) from error
    if any(b < 0 or n < 0 or b + n > d for b, n, d in zip(begin, size, shape)):
        raise InvalidArgumentError(f"Slice {spec!r} reaches beyond the shape {list(shape)}")
    return shape, begin, size


def encode(index: Index) -> bytes:
    tensors = {
        name: {"dtype": entry.dtype, "shape": entry.shape, "pieces": [dict(zip(_FIELDS, p)) for p in entry.pieces]}
        for name, entry in index.entries.items()
    }
    body = _body({"files": index.files, "tensors": tensors})
    return b'{"sparkflow_checkpoint":%d,"crc32c":%d,%b' % (VERSION, crc32c(body), body[1:])


def _body(fields: dict[str, Any]) -> bytes:
    """The bytes that the checksum is of."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def _is_right(raw: bytes, body: dict[str, Any], crc: Any) -> bool:
    """Whether the checksum is that of an index written as `encode` does, or of one that somebody has laid out anew."""
    return crc32c(b'{"files"' + raw.partition(b',"files"')[2]) == crc or crc32c(_body(body)) == crc


def decode(raw: bytes, where: str) -> Index:
    """The index in these bytes of the file `where`, sparkflow's or TensorFlow's.

    Raises DataLossError where they are damaged or something else.
    """
    if raw[:1] != b"{":
        from sparkflow_runtime.wire import tensor_bundle  # makes messages, for those alone who need them

        return tensor_bundle.decode(raw, where)
    try:
        found = json.loads(raw)
        version, body = found["sparkflow_checkpoint"], {"files": found["files"], "tensors": found["tensors"]}
        right = _is_right(raw, body, found["crc32c"])
    except (ValueError, KeyError, TypeError) as error:
        raise DataLossError(
            f"{where} is no sparkflow checkpoint index or is damaged ({type(error).__name__}: {error}). "
            "Restore an older checkpoint"
        ) from None
    if version != VERSION:
        raise DataLossError(f"{where} is of checkpoint version {version}; this sparkflow reads version {VERSION}")
    if not right:
        raise DataLossError(f"{where} is damaged: its checksum does not match. Restore an older checkpoint")
    return Index({name: _entry(fields, where) for name, fields in body["tensors"].items()}, body["files"])


def _entry(fields: dict[str, Any], where: str) -> Entry:
    pieces = [
        Piece(p["file"], p["key"], tuple(p["begin"]), tuple(p["size"]), p["offset"], p["nbytes"], p["crc32c"])
        for p in fields["pieces"]
    ]
    _check_names((p.file for p in pieces), where)
    return Entry(fields["dtype"], tuple(fields["shape"]), pieces)


def v1_files(prefix: str) -> list[str]:
    """The files of a checkpoint of TensorFlow's V1 format: the tensors in a table, or one for each shard, and no
    index."""
    from sparkflow_runtime.wire.sorted_table import MARK

    five = "[0-9]" * 5
    stem, wild, count = prefix.rpartition("-?????-of-")  # so TensorFlow calls its shards
    shards = f"{glob.escape(stem)}-{five}-of-{count}" if wild else f"{glob.escape(prefix)}-{five}-of-{five}"
    found = []
    for path in [prefix, *sorted(glob.glob(shards))]:
        if os.path.isfile(path) and os.path.getsize(path) > len(MARK):
            with open(path, "rb") as file:
                file.seek(-len(MARK), os.SEEK_END)
                found += [path] if file.read() == MARK else []
    return found


def _read_v1(paths: list[str]) -> Index:
    from sparkflow_runtime.wire import tensor_slices

    this = tuple((path, os.stat(path).st_ino, os.stat(path).st_mtime_ns) for path in paths)
    latest, index = _latest[0]
    if latest != this:
        shard = re.search(r"-\d{5}-of-(\d{5})$", paths[0])
        if shard and len(paths) != int(shard[1]):
            raise DataLossError(f"Of the {int(shard[1])} files of a checkpoint there are only {', '.join(paths)}")
        index = Index(tensorflow=True, v1=True)
        for path in paths:
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
                tensor_slices.decode(raw, os.path.basename(path), index)
        _latest[0] = this, index
    return index


# The file read last, and what was in it: a restore looks at it before its graph runs, and then again.
_latest: list[tuple[tuple[Any, ...], Index]] = [((), Index())]


def read(prefix: str) -> Index:
    """The index of a checkpoint, which others have too: leave it as it is.

    Raises NotFoundError where there is none, DataLossError where it is damaged.
    """
    path = prefix + INDEX_SUFFIX
    try:
        with open(path, "rb") as file:
            held = os.fstat(file.fileno())
            this = path, held.st_dev, held.st_ino, held.st_size, held.st_mtime_ns
            latest, index = _latest[0]
            if latest != this:
                index = decode(file.read(), path)
                _latest[0] = this, index
            return index
    except FileNotFoundError:
        if paths := v1_files(prefix):
            return _read_v1(paths)
        pattern = os.path.join(glob.escape(os.path.dirname(prefix)), "*" + INDEX_SUFFIX)
        there = " (what is there of that name is no whole checkpoint)" if os.path.isfile(prefix) else ""
        near = ", ".join(sorted(p.removesuffix(INDEX_SUFFIX) for p in glob.glob(pattern))[-5:])
        raise NotFoundError(
            f"No checkpoint {prefix!r}: {path} does not exist{there}. Its directory has {near or 'none'}"
        ) from None


def _check_names(files: Iterable[str], where: str) -> None:
    """Data files lie beside the index: a name with a path would read elsewhere."""
    for file in files:
        if "/" in file or "\\" in file or file in ("", ".", ".."):
            raise DataLossError(f"{where} names the data file {file!r}; only files beside the index are read")
