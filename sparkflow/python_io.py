"""TFRecord files from Python: `tf.python_io`, also found as `tf.io`."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike, fsdecode
from types import TracebackType
from typing import Any

from sparkflow_runtime.wire.errors import InvalidArgumentError


class TFRecordCompressionType:
    NONE, ZLIB, GZIP = 0, 1, 2


_NAMES = {TFRecordCompressionType.NONE: "", TFRecordCompressionType.ZLIB: "ZLIB", TFRecordCompressionType.GZIP: "GZIP"}


class TFRecordOptions:
    """compression_type: 'GZIP', 'ZLIB', '', None or a TFRecordCompressionType. TensorFlow's zlib settings are accepted
    and ignored: they change the size of a file, not what it holds."""

    compression_type_map = _NAMES

    def __init__(self, compression_type: str | int | None = None, **_zlib: Any):
        self.compression_type = _compression(compression_type)

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        return _compression(options)


class TFRecordWriter:
    """Writes records of bytes to `path`; a context manager."""

    def __init__(self, path: str | bytes | PathLike[str], options: TFRecordOptions | str | int | None = None):
        from sparkflow_runtime.records.files import RecordWriter  # and with it the compiled loops and the kernels

        self._writer = RecordWriter(fsdecode(path), _compression(options))

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, record: bytes) -> None:
        """Raises TypeError where `record` is no bytes."""
        if not isinstance(record, bytes):
            raise TypeError(
                f"TFRecordWriter.write: expected bytes, got {type(record).__name__}; call SerializeToString()"
            )
        self._writer.write(record)

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def tf_record_iterator(
    path: str | bytes | PathLike[str], options: TFRecordOptions | str | int | None = None
) -> Iterator[bytes]:
    """The records of a file. Raises NotFoundError, and DataLossError with the position of what is damaged."""
    from sparkflow_runtime.records.files import RecordFile

    with RecordFile(fsdecode(path), _compression(options)) as file:
        for block in file.blocks():
            yield from block.records()


def _compression(options: Any) -> str:
    if isinstance(options, TFRecordOptions):
        return options.compression_type
    name = _NAMES.get(options, options) if options is not None else ""
    if name not in _NAMES.values():
        raise InvalidArgumentError(f"TFRecord compression: expected 'GZIP', 'ZLIB', '' or None, got {options!r}")
    return name
