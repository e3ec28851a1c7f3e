"""Restoring tensors, or boxes of them, from a checkpoint's files: mapped, checked, then copied to where they belong."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import numpy as np
from safetensors import SafetensorError, safe_open

from sparkflow_runtime.kernels import checkpoint_bytes
from sparkflow_runtime.wire import checkpoint, checkpoint_strings, dtypes
from sparkflow_runtime.wire.checkpoint import Dims, Index, Piece
from sparkflow_runtime.wire.errors import (
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
    class_of,
)


def restore(
    prefix: str, names: Sequence[str], slices: Sequence[str], wanted: Sequence[dtypes.DType]
) -> list[np.ndarray]:
    """The tensors, or slices of them; all are looked up first, then all bytes are checked.

    What is stored in one piece is a read-only view of the mapped file: an Assign copies it to where it belongs.
    """
    index = checkpoint.read(prefix)
    boxes = [_box(index, prefix, *asked) for asked in zip(names, slices, wanted)]
    reader = _Reader(os.path.dirname(prefix), index)
    reader.check(
        (name, piece) for name, (begin, size) in zip(names, boxes) for piece in reader.pieces(name, begin, size)
    )
    return [reader.box(name, begin, size) for name, (begin, size) in zip(names, boxes)]


def _box(index: Index, prefix: str, name: str, spec: str, dtype: dtypes.DType) -> tuple[Dims, Dims]:
    entry = index.entries.get(name)
    if entry is None:
        raise NotFoundError(index.missing(name, prefix))
    if entry.dtype != dtype.name:
        raise InvalidArgumentError(
            f"RestoreV2: tensor {name!r} is {entry.dtype} in checkpoint {prefix}, and {dtype.name} was asked for"
        )
    if dtype in (dtypes.variant, dtypes.resource):
        raise UnimplementedError(
            f"RestoreV2: tensor {name!r} is {entry.dtype} in checkpoint {prefix}, and only numbers and strings are read"
        )
    part = checkpoint.parse_slice(spec)
    if part is None:
        return (0,) * len(entry.shape), entry.shape
    if part[0] != entry.shape:
        raise InvalidArgumentError(
            f"RestoreV2: tensor {name!r} has shape {list(entry.shape)} in checkpoint {prefix}, and a slice of shape "
            f"{list(part[0])} was asked for"
        )
    return part[1], part[2]


class _Reader:
    """Reads boxes of tensors; data files are mapped at first use."""

    def __init__(self, directory: str, index: Index):
        self.directory, self.index = directory, index
        self.files: dict[str, np.ndarray] = {}

    def pieces(self, name: str, begin: Dims, size: Dims) -> list[Piece]:
        """The pieces that a box needs: one of just its extent where there is one."""
        pieces = self.index.entries[name].pieces
        if len(pieces) == 1 and pieces[0].size == size:
            return pieces
        same = [p for p in pieces if (p.begin, p.size) == (begin, size)]
        return same[:1] or [p for p in pieces if checkpoint.overlap(begin, size, p.begin, p.size) is not None]

    def check(self, asked: Iterable[tuple[str, Piece]]) -> None:
        """Raises DataLossError where the bytes of a piece are not those that were saved."""
        found = {id(piece): (name, piece) for name, piece in asked}
        parts = [self._summed(name, p) for name, p in found.values()]
        for (name, piece), crc in zip(found.values(), checkpoint_bytes.checksums(parts)):
            if crc != piece.crc32c:
                raise self._damaged(name, piece, "its checksum does not match")

    def _summed(self, name: str, piece: Piece) -> np.ndarray:
        """The bytes that a piece's checksum is of."""
        flat = self._bytes(piece)
        if not self.index.tensorflow or self.index.v1 or self.index.entries[name].dtype != "string":
            return flat
        try:
            return checkpoint_strings.tensorflow_summed(flat, piece.size)
        except ValueError as error:
            raise self._damaged(name, piece, str(error)) from None

    def _damaged(self, name: str, piece: Piece, how: str) -> DataLossError:
        return DataLossError(
            f"{self._path(piece)}: tensor {name!r}, {piece.nbytes} bytes at offset {piece.offset}, is damaged: {how}. "
            "Restore an older checkpoint"
        )

    def box(self, name: str, begin: Dims, size: Dims) -> np.ndarray:
        """`size` elements from `begin` on, of one stored piece or put together from several."""
        dtype = dtypes.as_dtype(self.index.entries[name].dtype)
        pieces = self.pieces(name, begin, size)
        if len(pieces) == 1 and (pieces[0].begin, pieces[0].size) == (begin, size):
            return self._as_kept(name, pieces[0], dtype)
        out = np.empty(size, dtype.np)
        filled = 0
        for piece in pieces:
            common = checkpoint.overlap(begin, size, piece.begin, piece.size)
            if common is not None:
                part = self._as_kept(name, piece, dtype)[_from(common, piece.begin)]
                out[_from(common, begin)] = part
                filled += part.size
        if filled != out.size:
            raise DataLossError(
                f"Checkpoint in {self.directory}: of tensor {name!r} {filled} of the {out.size} elements asked "
                "for are there"
            )
        return out

    def _as_kept(self, name: str, piece: Piece, dtype: dtypes.DType) -> np.ndarray:
        """The array that a piece's bytes stand for."""
        flat, size = self._bytes(piece), piece.size
        if self.index.v1:
            return self._of_v1(name, piece, flat, dtype)
        if dtype is dtypes.string:
            unpacked = checkpoint_strings.tensorflow_unpacked if self.index.tensorflow else checkpoint_strings.unpacked
            return unpacked(flat, size)
        values = flat.view(dtype.np).reshape(size)
        return values if values.flags.aligned else values.copy()  # not so in files that others wrote

    def _of_v1(self, name: str, piece: Piece, flat: np.ndarray, dtype: dtypes.DType) -> np.ndarray:
        from sparkflow_runtime.wire import tensor_slices  # for those alone who need it

        try:
            return tensor_slices.values(flat, dtype, piece.size)
        except ValueError as error:
            raise self._damaged(name, piece, str(error)) from None

    def _path(self, piece: Piece) -> str:
        return os.path.join(self.directory, piece.file)

    def _bytes(self, piece: Piece) -> np.ndarray:
        held = self.files.get(piece.file)
        if held is None:
            held = self.files[piece.file] = self._mapped(piece)
        return held[piece.offset : piece.offset + piece.nbytes]

    def _mapped(self, piece: Piece) -> np.ndarray:
        """Raises NotFoundError where its file is gone, as one that its saver deletes just now, PermissionDeniedError
        where it may not be read, DataLossError where it is cut short or no safetensors file."""
        path, expected = self._path(piece), self.index.files[piece.file]
        try:
            return (_mapped_of_tensorflow if self.index.tensorflow else _mapped)(path, expected)
        except FileNotFoundError:
            raise NotFoundError(f"Data file {path} of the checkpoint is missing. Restore another checkpoint") from None
        except OSError as error:
            why = f"cannot be read: {error.strerror or error}"
            raise class_of(error)(f"Data file {path} of the checkpoint {why}. Restore another checkpoint") from None


def _mapped_of_tensorflow(path: str, expected: int) -> np.ndarray:
    """Its bytes, `expected` at least: it has no header, and the index alone says what lies where."""
    if os.path.getsize(path) < expected:
        raise DataLossError(
            f"{path} has {os.path.getsize(path)} bytes, expected {expected}. Copy it again, or restore an older "
            "checkpoint"
        )
    return checkpoint_bytes.mapped(path)


def _mapped(path: str, expected: int) -> np.ndarray:
    if os.path.getsize(path) != expected:
        raise DataLossError(
            f"{path} has {os.path.getsize(path)} bytes, expected {expected}. Restore an older checkpoint"
        )
    try:
        with safe_open(path, framework="numpy"):  # its header is as it should be
            pass
    except SafetensorError as error:
        raise DataLossError(f"{path}: its header is damaged: {error}. Restore an older checkpoint") from None
    return checkpoint_bytes.mapped(path)


def _from(where: tuple[slice, ...], begin: Dims) -> tuple[slice, ...]:
    return tuple(slice(s.start - b, s.stop - b) for s, b in zip(where, begin))
