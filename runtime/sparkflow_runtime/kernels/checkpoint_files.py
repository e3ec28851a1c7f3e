"""Checkpoint files on disk: written under temporary names, then renamed, the index last."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from sparkflow_runtime.kernels import checkpoint_bytes
from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.wire import checkpoint, checkpoint_strings, dtypes, temporaries
from sparkflow_runtime.wire.checkpoint import INDEX_SUFFIX, Dims, Index, Piece
from sparkflow_runtime.wire.errors import InvalidArgumentError

_SAFETENSORS = {
    **{f"float{n}": f"F{n}" for n in (16, 32, 64)},
    **{f"int{n}": f"I{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"U{n}" for n in (8, 16, 32, 64)},
    "bool": "BOOL",
}
Saved = tuple[str, str, Any]  # tensor name, slice ('' for the whole), value


_guard = Lock()
_turns: WeakValueDictionary[str, Any] = WeakValueDictionary()  # prefix -> a lock, for as long as somebody uses it


def _turn(prefix: str) -> Any:
    """To be held by who writes that checkpoint: a step saves it, say, and beside it a signal's thread. Each would take
    the other's data files for those of an older one."""
    with _guard:
        return _turns.setdefault(os.path.realpath(prefix), Lock())


# ---------------------------------------------------------------------- writing


def save(prefix: str, tensors: Sequence[Saved], types: Mapping[str, str] | None = None) -> None:
    """Write the checkpoint `prefix` of one data file; an older one of that name stays until this one is complete.

    types: those that arrays do not say of themselves, by the tensors' names.
    Raises InvalidArgumentError on a name given twice or a slice of another shape than its tensor.
    """
    os.makedirs(os.path.dirname(prefix) or ".", exist_ok=True)
    plan = [_described(*tensor, (types or {}).get(tensor[0])) for tensor in tensors]
    plan.sort(key=lambda described: -described[-1].itemsize)  # so that each begins at a multiple of its item size
    with _turn(prefix):
        _save(prefix, plan)


def _save(prefix: str, plan: Sequence[_Described]) -> None:
    index = Index()
    data = _free_name(prefix, 0, 1)
    file = os.path.basename(data)
    with _temporary(data) as (temporary, out):
        start = _write_header(out, plan)
        begins = list(accumulate((d[-1].nbytes for d in plan), initial=start))
        crcs = checkpoint_bytes.write(out, [d[-1] for d in plan], begins)
        for (name, dtype, shape, key, begin, size, value), offset, crc in zip(plan, begins, crcs):
            index.add(name, dtype, shape, Piece(file, key, begin, size, offset, value.nbytes, crc))
        index.files[file] = begins[-1]
    commit(prefix, index, [(temporary, data)])


_Described = tuple[str, str, Dims, str, Dims, Dims, np.ndarray]


def _described(name: str, spec: str, value: Any, dtype: str | None) -> _Described:
    array = host(value)
    dtype, part = dtype or dtypes.as_dtype(array.dtype).name, checkpoint.parse_slice(spec)
    shape, begin, size = part or (array.shape, (0,) * array.ndim, array.shape)
    if size != array.shape:
        raise InvalidArgumentError(
            f"SaveV2: tensor {name!r} has shape {list(array.shape)}, its slice {spec!r} says {list(size)}"
        )
    return name, dtype, shape, f"{name} {spec}" if spec else name, begin, size, _as_stored(array)


def _as_stored(array: np.ndarray) -> np.ndarray:
    """An array of a type that safetensors has, on the same memory where that is possible."""
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    if array.dtype == object:
        return checkpoint_strings.packed(array)
    if array.dtype.kind == "c":
        return array.reshape(*array.shape, 1).view(array.real.dtype)
    return array.view(np.uint16) if array.dtype == dtypes.bfloat16.np else array


def _write_header(out: Any, plan: Sequence[_Described]) -> int:
    """The safetensors header; returns where the first tensor begins."""
    metadata = {"format": "sparkflow"}
    header: dict[str, Any] = {"__metadata__": metadata}
    at = 0
    for _, dtype, _, key, _, _, value in plan:
        if key in header:
            raise InvalidArgumentError(f"SaveV2: tensor {key!r} is given twice. Give one of the variables another name")
        stored = dtypes.as_dtype(value.dtype).name
        if stored != dtype:
            metadata[f"dtype of {key}"] = dtype
        header[key] = {
            "dtype": _SAFETENSORS[stored],
            "shape": list(value.shape),
            "data_offsets": [at, at + value.nbytes],
        }
        at += value.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    out.write(struct.pack("<Q", len(text)) + text)
    return 8 + len(text)


def commit(prefix: str, index: Index, moves: Sequence[tuple[str, str]]) -> None:
    """Give the data files their names (old, new) and write the index, by which the checkpoint begins to exist, then
    remove data files of an older one of that name. The index is on the disk before the first of them has its name."""
    try:
        with _temporary(prefix + INDEX_SUFFIX) as (temporary, out):
            out.write(checkpoint.encode(index))
    except OSError:  # a full disk: data files, which no checkpoint has, would stay for ever
        for old, _ in moves:
            remove(old)
        raise
    for old, new in moves:
        os.replace(old, new)
    sync_directory(prefix)
    os.replace(temporary, prefix + INDEX_SUFFIX)
    sync_directory(prefix)
    for path in glob.glob(glob.escape(prefix) + ".data-*"):
        if os.path.basename(path) not in index.files and temporaries.abandoned(path) is not False:
            remove(path)


@contextlib.contextmanager
def _temporary(path: str) -> Iterator[tuple[str, Any]]:
    """A new file beside `path`, whole when the block ends well and gone when it does not."""
    temporary = temporaries.temporary(path)
    try:
        with open(temporary, "wb") as out:
            yield temporary, out
            out.flush()
            if checkpoint.survives_power_cut():
                os.fsync(out.fileno())
    except BaseException:
        remove(temporary)
        raise


def sync_directory(path: str) -> None:
    """Make renames in path's directory survive a power cut, where that is asked for."""
    if not checkpoint.survives_power_cut():
        return
    handle = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def _free_name(prefix: str, number: int, count: int) -> str:
    """<prefix>.data-00000-of-00001, with a suffix while a checkpoint of that prefix, still needed, has that file."""
    name = f"{prefix}.data-{number:05d}-of-{count:05d}"
    n = 0
    while os.path.exists(name if not n else f"{name}.{n}"):
        n += 1
    return name if not n else f"{name}.{n}"


def merge(parts: Sequence[str], prefix: str, delete_old_dirs: bool) -> None:
    """Make one checkpoint of those that tasks saved as `parts`: their data files are renamed, their indexes joined."""
    with _turn(prefix):
        _merge(parts, prefix, delete_old_dirs)


def _merge(parts: Sequence[str], prefix: str, delete_old_dirs: bool) -> None:
    joined = Index()
    moved: list[tuple[str, str]] = []
    found = [(part, checkpoint.read(part)) for part in parts]
    if foreign := [part for part, index in found if index.tensorflow]:
        raise InvalidArgumentError(
            f"MergeV2Checkpoints: {foreign[0]} was written by TensorFlow, and parts can only be joined by who wrote "
            "them. Restore it and save it anew"
        )
    count = sum(len(index.files) for _, index in found)
    for part, index in found:
        new_names = {}
        for file, nbytes in index.files.items():
            new = _free_name(prefix, len(moved), count)
            new_names[file] = os.path.basename(new)
            joined.files[new_names[file]] = nbytes
            moved.append((os.path.join(os.path.dirname(part), file), new))
        for name, entry in index.entries.items():
            for p in entry.pieces:
                piece = Piece(new_names[p.file], p.key, p.begin, p.size, p.offset, p.nbytes, p.crc32c)
                joined.add(name, entry.dtype, entry.shape, piece)
    commit(prefix, joined, moved)
    for part in parts:
        remove(part + INDEX_SUFFIX)
    if delete_old_dirs:
        for directory in {os.path.dirname(part) for part in parts} - {os.path.dirname(prefix)}:
            with contextlib.suppress(OSError):  # not empty: another save is at work there
                os.rmdir(directory)
