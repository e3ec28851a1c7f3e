"""Datasets of files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from sparkflow.data.dataset import Dataset, Rows
from sparkflow.data.elements import Spec, begun, check_whole
from sparkflow.data.lasting import Lasting
from sparkflow.data.order import in_turn
from sparkflow.framework.graph import Tensor
from sparkflow.python_io import TFRecordOptions, tf_record_iterator
from sparkflow_runtime.records.files import opened
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError


class _Files(Dataset):
    """What read(name) yields of one file after the other, or of so many in turn. filenames: strings, a tensor, or a
    dataset of them."""

    def __init__(self, filenames: Any, read: Callable[[str], Iterator[bytes]], together: Any = None):
        check_whole(together)
        if isinstance(filenames, Dataset):
            names, tensors = filenames._rows, filenames._tensors
            _check_text(filenames._spec)
        else:
            leaves, spec, tensors = begun(_names(filenames))
            if spec.dims != ((0,),):  # an empty list is of numbers as well
                _check_text(spec)

            def names(fed: Any) -> Rows:
                listed = fed.get(leaves[0]) if isinstance(leaves[0], Tensor) else leaves[0]
                return ([n] for n in ([listed] if isinstance(listed, bytes) else listed.reshape(-1)))

        def rows(fed: Any) -> Rows:
            records = in_turn(names(fed), lambda name: read(_path(name[0])), max(together or 1, 1))
            return Lasting(lambda: ([record] for record in records))

        super().__init__(Spec(0, (dtypes.string,), ((),)), rows, tensors)


def _check_text(spec: Spec) -> None:
    if spec.types != (dtypes.string,):
        raise TypeError(f"The `filenames` argument must contain strings, got {', '.join(t.name for t in spec.types)}")


def _names(filenames: Any) -> Any:
    """A list of names, also of one; anything else as it is."""
    one = isinstance(filenames, (str, bytes, os.PathLike))
    listed = [filenames] if one else filenames
    return (
        [os.fspath(n) for n in listed] if isinstance(listed, (list, tuple)) and any(map(_is_path, listed)) else listed
    )


def _is_path(name: Any) -> bool:
    return isinstance(name, os.PathLike)


def _path(name: Any) -> str:
    text = name if isinstance(name, (bytes, str)) else name.item()
    return text.decode() if isinstance(text, bytes) else text


def _compression(kind: Any) -> str:
    if kind is not None and not isinstance(kind, str):
        raise TypeError(f"Dataset of files: compression_type must be a string, got {kind!r}")
    return kind or ""


def _lines(path: str, compression: str) -> Iterator[bytes]:
    """With their ends."""
    with opened(path, compression) as file:
        yield from file


class TextLineDataset(_Files):
    """The lines of text files, without their ends; as in TensorFlow, none has a carriage return anywhere."""

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
        name: str | None = None,
    ):
        kind = _compression(compression_type)
        check_whole(buffer_size)

        def read(path: str) -> Iterator[bytes]:
            return (line.removesuffix(b"\n").replace(b"\r", b"") for line in _lines(path, kind))

        super().__init__(filenames, read, num_parallel_reads)


class CsvRecords(_Files):
    """The records of CSV files, each as its text. header: without the first one of each file."""

    def __init__(self, filenames: Any, compression_type: str | None, header: bool, use_quote_delim: bool):
        def read(path: str) -> Iterator[bytes]:
            lines = _lines(path, compression_type or "")
            return islice(_records(lines) if use_quote_delim else map(_without_end, lines), int(header), None)

        super().__init__(filenames, read)


def _records(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Lines, but for one that ends between quotes, which goes on in the next."""
    held: list[bytes] = []
    for line in lines:
        if line.count(b'"') & 1:
            held.append(line)
            if len(held) > 1:
                yield _without_end(b"".join(held))
                held.clear()
        elif held:
            held.append(line)
        else:
            yield _without_end(line)
    if held:
        yield _without_end(b"".join(held))


def _without_end(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")


class TFRecordDataset(_Files):
    """The records of TFRecord files."""

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
        name: str | None = None,
    ):
        check_whole(buffer_size)
        options = TFRecordOptions(_compression(compression_type))
        super().__init__(filenames, lambda path: tf_record_iterator(path, options), num_parallel_reads)


class FixedLengthRecordDataset(_Files):
    """Records of record_bytes each, between header_bytes at the beginning of a file and footer_bytes at its end."""

    def __init__(
        self, filenames: Any, record_bytes: int, header_bytes: int = 0, footer_bytes: int = 0, buffer_size: Any = None,
        compression_type: str | None = None, num_parallel_reads: Any = None, name: str | None = None,
    ):  # fmt: skip
        for setting in (record_bytes, header_bytes, footer_bytes, buffer_size):
            check_whole(setting)
        kind = _compression(compression_type)

        def read(path: str) -> Iterator[bytes]:
            if record_bytes < 1:
                raise InvalidArgumentError(f"FixedLengthRecordDataset: record_bytes must be above 0, is {record_bytes}")
            data = b"".join(_lines(path, kind))
            body = data[header_bytes : len(data) - footer_bytes]
            if len(body) % record_bytes:
                raise InvalidArgumentError(f"{path}: {len(body)} bytes are no multiple of {record_bytes}")
            return (body[i : i + record_bytes] for i in range(0, len(body), record_bytes))

        super().__init__(filenames, read, num_parallel_reads)
