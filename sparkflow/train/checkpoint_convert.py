"""Checkpoints written as TensorFlow does, for it to read what was trained here."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from sparkflow.train.checkpoint_reader import CheckpointReader
from sparkflow.train.checkpoint_state import write_whole
from sparkflow_runtime.wire import checkpoint, checkpoint_strings, temporaries
from sparkflow_runtime.wire.checkpoint import INDEX_SUFFIX, Index, Piece
from sparkflow_runtime.wire.checksums import crc32c
from sparkflow_runtime.wire.errors import AlreadyExistsError, NotFoundError


def to_tensorflow(prefix: str, out: str, names: Collection[str] | None = None, graph: bool = True) -> int:
    """Write the checkpoint `prefix`, and its graph where there is `prefix.meta`, as `out` in TensorFlow's V2 format.

    names: of the tensors to write, all by default. graph: False leaves that out.

    Partitioned variables are whole in it, as TensorFlow takes them too. The index is written last: `out` is there when
    it is whole. Returns how many tensors it has.

    Raises AlreadyExistsError where there is such a checkpoint, NotFoundError on a name that is not in it, and what
    restoring from `prefix` raises.
    """
    from sparkflow_runtime.wire import tensor_bundle  # makes messages, for those alone who need them

    reader = CheckpointReader(prefix)
    if os.path.exists(out + INDEX_SUFFIX):
        raise AlreadyExistsError(f"{out}{INDEX_SUFFIX} exists. Give another name, or remove that checkpoint")
    os.makedirs(os.path.dirname(out) or ".", exist_ok=True)
    data, index = f"{out}.data-00000-of-00001", Index()
    types = reader.get_variable_to_dtype_map()
    if gone := sorted(set(names or ()) - types.keys()):
        raise NotFoundError(f"The checkpoint {prefix} has no tensor {gone[0]!r}")
    with _temporary(data) as file:
        for name in sorted(types if names is None else names, key=str.encode):
            value = np.asarray(reader.get_tensor(name), types[name].np)
            content, crc = _content(value)
            begin, file_name = (0,) * value.ndim, os.path.basename(data)
            piece = Piece(file_name, name, begin, value.shape, file.tell(), content.nbytes, crc)
            file.write(content)
            index.add(name, types[name].name, value.shape, piece)
    if graph and os.path.isfile(prefix + ".meta"):
        shutil.copyfile(prefix + ".meta", out + ".meta")
    write_whole(out + INDEX_SUFFIX, tensor_bundle.encode(index))
    return len(index.entries)


def _content(value: np.ndarray) -> tuple[memoryview, int]:
    """A tensor's bytes, and the checksum that the index has of them."""
    if value.dtype == object:
        packed, crc = checkpoint_strings.tensorflow_packed(value)
        return memoryview(packed), crc
    raw = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
    return raw, crc32c(raw)


@contextlib.contextmanager
def _temporary(path: str) -> Iterator[Any]:
    """A new file that has the name `path` when the block ends well, and is gone when it does not."""
    temporary = temporaries.temporary(path)
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            if checkpoint.survives_power_cut():
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        raise
