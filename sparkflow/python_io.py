"""TFRecord files from Python: `tf.python_io`, also found as `tf.io`."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike, fsdecode
from types import TracebackType
from typing import Any

from sparkflow_runtime.wire.errors import FailedPreconditionError, InvalidArgumentError, OpError, class_of


class TFRecordCompressionType:
    NONE, ZLIB, GZIP = 0, 1, 2


_NAMES = {TFRecordCompressionType.NONE: "", TFRecordCompressionType.ZLIB: "ZLIB", TFRecordCompressionType.GZIP: "GZIP"}


class TFRecordOptions:
    """compression_type: 'GZIP', 'ZLIB', '', None or a TFRecordCompressionType. compression_level: of writing, from 0
    (stored, at once) to 9 (small, slow); zlib's other settings are accepted and ignored: they change little of a file's
    size, and nothing of what it holds."""

    compression_type_map = _NAMES

    def __init__(
        self,
        compression_type: str | int | None = None,
        flush_mode: int | None = None,
        input_buffer_size: int | None = None,
        output_buffer_size: int | None = None,
        window_bits: int | None = None,
        compression_level: int | None = None,
        compression_method: int | None = None,
        mem_level: int | None = None,
        compression_strategy: int | None = None,
    ):
        self.compression_type = _compression(compression_type)
        if compression_level is not None and compression_level not in range(-1, 10):
            raise InvalidArgumentError(
                f"TFRecord compression_level: expected 0 to 9, or -1 for zlib's own, got {compression_level!r}"
            )
        self.compression_level = compression_level

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        return _compression(options)


class TFRecordWriter:
    """Writes records of bytes to `path`; a context manager."""

    def __init__(self, path: str | bytes | PathLike[str], options: TFRecordOptions | str | int | None = None):
        from sparkflow_runtime.records.files import RecordWriter  # and with it the compiled loops and the kernels

        level = options.compression_level if isinstance(options, TFRecordOptions) else None
        self._path, self._closed = fsdecode(path), False
        self._writer = RecordWriter(self._path, _compression(options), level=-1 if level is None else level)

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, record: bytes | bytearray | str) -> None:
        """Text is written as UTF-8. Raises TypeError where `record` is no bytes, FailedPreconditionError after
        `close`, ResourceExhaustedError on a full disk, here or when the file is flushed."""
        if not isinstance(record, bytes | bytearray | str):
            raise TypeError(
                f"TFRecordWriter.write: expected bytes, got {type(record).__name__}; call SerializeToString()"
            )
        self._check_open()
        try:
            self._writer.write(record.encode() if isinstance(record, str) else bytes(record))
        except OSError as error:
            raise self._unwritten(error) from None

    def _unwritten(self, error: OSError) -> OpError:
        why = error.strerror or error
        return class_of(error)(f"{self._path} cannot be written: {why}. What it has until here may end within a record")

    def _check_open(self) -> None:
        if self._closed:
            raise FailedPreconditionError(f"{self._path}: this writer is closed. Make another one, for another file")

    def flush(self) -> None:
        """Raises FailedPreconditionError after `close`."""
        self._check_open()
        try:
            self._writer.flush()
        except OSError as error:
            raise self._unwritten(error) from None

    def close(self) -> None:
        self._closed = True
        try:
            self._writer.close()
        except OSError as error:
            raise self._unwritten(error) from None


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
