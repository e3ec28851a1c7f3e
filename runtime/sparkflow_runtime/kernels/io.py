"""Saving and restoring tensors, and making the names of the files for it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import checkpoint_files, checkpoint_restore
from sparkflow_runtime.kernels.registry import Function, Node, bound, on_host
from sparkflow_runtime.kernels.text_makers import joined
from sparkflow_runtime.wire.collector import paused
from sparkflow_runtime.wire.errors import InvalidArgumentError, class_of
from sparkflow_runtime.wire.tensor_proto import as_bytes


def _texts(x: Any) -> list[str]:
    return [as_bytes(item).decode() for item in np.asarray(x, object).ravel()]


def _text(x: Any) -> str:
    return _texts(x)[0]


def _string(text: str) -> np.ndarray:
    out = np.empty((), object)
    out[()] = text.encode()
    return out


@contextmanager
def _named(op: str, prefix: str) -> Iterator[None]:
    """What the system says while a checkpoint is written, as the error of its kind."""
    try:
        yield
    except OSError as error:
        raise class_of(error)(
            f"{op}: checkpoint {prefix} cannot be written: {error.strerror or error} ({error.filename or prefix}). "
            "Checkpoints before it are as they were; make room, or make its directory writable"
        ) from error


@bound("SaveV2", multi=True)
def _save(node: Node) -> Function:
    types = [t.base_dtype.name if t.is_quantized else "" for t in node.attrs["dtypes"]]

    def run(prefix: Any, names: Any, slices: Any, *tensors: Any) -> tuple[()]:
        texts, specs = _texts(names), _texts(slices)
        if not len(texts) == len(specs) == len(tensors):
            raise InvalidArgumentError(f"SaveV2: {len(tensors)} tensors, {len(texts)} names, {len(specs)} slices")
        with _named("SaveV2", _text(prefix)), paused():
            unsaid = {name: dtype for name, dtype in zip(texts, types) if dtype}
            checkpoint_files.save(_text(prefix), list(zip(texts, specs, tensors)), unsaid)
        return ()

    return run


@bound("RestoreV2", multi=True)
def _restore(node: Node) -> Function:
    """Reads and checks everything before it returns, so that no Assign runs when any tensor is missing or damaged."""
    wanted = node.attrs["dtypes"]

    def run(prefix: Any, names: Any, slices: Any) -> list[Any]:
        with paused():
            arrays = checkpoint_restore.restore(_text(prefix), _texts(names), _texts(slices), wanted)
        return [a if a.dtype == object else node.xp.asarray(a) for a in arrays]

    return run


@bound("MergeV2Checkpoints", multi=True)
def _merge(node: Node) -> Function:
    def run(parts: Any, destination: Any) -> tuple[()]:
        with _named("MergeV2Checkpoints", _text(destination)), paused():
            checkpoint_files.merge(_texts(parts), _text(destination), node.attr("delete_old_dirs", True))
        return ()

    return run


@on_host("ShardedFilename")
def _sharded_filename(xp: Any, basename: Any, shard: Any, num_shards: Any) -> np.ndarray:
    return _string(f"{_text(basename)}-{int(shard):05d}-of-{int(num_shards):05d}")


@on_host("StringJoin")
def _string_join(xp: Any, *inputs: Any, separator: str = "") -> np.ndarray:
    """Element by element; scalars go with every element."""
    given = [np.asarray(x, object) for x in inputs]
    shape = max((x.shape for x in given), key=len, default=())
    if {x.shape for x in given} <= {shape, ()} and shape:
        parts = [np.ascontiguousarray(x).reshape(-1) for x in given]
        steps = [int(x.shape == shape) for x in given]
        found = joined(parts, steps, math.prod(shape), as_bytes(separator))
        if found is not None:
            return found.reshape(shape)
    arrays = np.broadcast_arrays(*given)
    together = zip(*(map(as_bytes, a.reshape(-1).tolist()) for a in arrays))
    return np.fromiter(map(as_bytes(separator).join, together), object, arrays[0].size).reshape(arrays[0].shape)
