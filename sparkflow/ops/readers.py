"""Readers as nodes: they take file names from a queue and give keys and values, string tensors."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op

_SHARED: dict[str, Any] = {"container": "", "shared_name": ""}
_HANDLE = "-> reader_handle: resource"
op("TFRecordReaderV2", _HANDLE, lambda op: [()], stateful=True, compression_type="", **_SHARED)
op("WholeFileReaderV2", _HANDLE, lambda op: [()], stateful=True, **_SHARED)
op("TextLineReaderV2", _HANDLE, lambda op: [()], stateful=True, skip_header_lines=0, **_SHARED)
op("IdentityReaderV2", _HANDLE, lambda op: [()], stateful=True, **_SHARED)
op(
    "FixedLengthRecordReaderV2", _HANDLE, lambda op: [()], stateful=True, header_bytes=0, footer_bytes=0, hop_bytes=0,
    encoding="", **_SHARED,
)  # fmt: skip
_BOTH = "reader_handle: resource, queue_handle: resource"
op("ReaderReadV2", f"{_BOTH} -> key: string, value: string", lambda op: [(), ()], stateful=True)
op(
    "ReaderReadUpToV2", f"{_BOTH}, num_records: int64 -> keys: string, values: string",
    lambda op: [(None,), (None,)], stateful=True,
)  # fmt: skip
op("ReaderNumRecordsProducedV2", "reader_handle: resource -> records_produced: int64", lambda op: [()], stateful=True)
op("ReaderNumWorkUnitsCompletedV2", "reader_handle: resource -> units_completed: int64", lambda op: [()], stateful=True)
op("ReaderResetV2", "reader_handle: resource ->", stateful=True)


class ReaderBase:
    """Gives the records of files whose names a queue gives; the end of the queue is the end of the records."""

    def __init__(self, reader_ref: Tensor, supports_serialize: bool = False):
        self._reader_ref, self._supports_serialize = reader_ref, supports_serialize

    @property
    def reader_ref(self) -> Tensor:
        return self._reader_ref

    @property
    def supports_serialize(self) -> bool:
        """Whether the state can be saved in the midst of a file: never, here."""
        return self._supports_serialize

    def read(self, queue: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
        """(key, value) of the next record, string scalars. queue: of strings. Raises OutOfRangeError in the step when
        the queue is closed and the last file is read, NotFoundError and DataLossError with the file's name."""
        return apply_op("ReaderReadV2", [self._reader_ref, _handle(queue)], name=name)

    def read_up_to(self, queue: Any, num_records: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
        """(keys, values): 1 to num_records records of one file, [n] each."""
        return apply_op("ReaderReadUpToV2", [self._reader_ref, _handle(queue), num_records], name=name)

    def num_records_produced(self, name: str | None = None) -> Tensor:
        return apply_op("ReaderNumRecordsProducedV2", [self._reader_ref], name=name)

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """How many files were read to their end."""
        return apply_op("ReaderNumWorkUnitsCompletedV2", [self._reader_ref], name=name)

    def reset(self, name: str | None = None) -> Operation:
        """Forgets the file that is open, and the counts."""
        return apply_op("ReaderResetV2", [self._reader_ref], name=name)


def _handle(queue: Any) -> Tensor:
    return queue if isinstance(queue, Tensor) else queue.queue_ref


class TFRecordReader(ReaderBase):
    """The records of TFRecord files; keys are 'file:offset'. options: tf.python_io.TFRecordOptions."""

    def __init__(self, name: str | None = None, options: Any = None):
        compression = getattr(options, "compression_type", options) or ""
        super().__init__(apply_op("TFRecordReaderV2", [], {"compression_type": compression}, name))


class WholeFileReader(ReaderBase):
    """A file is one record; its key is its name."""

    def __init__(self, name: str | None = None):
        super().__init__(apply_op("WholeFileReaderV2", [], name=name))


class TextLineReader(ReaderBase):
    """The lines of files, without their ends; keys are 'file:line', the first line is 1."""

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None):
        super().__init__(apply_op("TextLineReaderV2", [], {"skip_header_lines": skip_header_lines or 0}, name))


class FixedLengthRecordReader(ReaderBase):
    """Records of record_bytes each, between a header and a footer that are left out, hop_bytes apart (0: one after the
    other); keys are 'file:number'. encoding: '', 'GZIP' or 'ZLIB'."""

    def __init__(
        self,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        hop_bytes: int | None = None,
        name: str | None = None,
        encoding: str | None = None,
    ):
        numbers = {"header_bytes": header_bytes, "footer_bytes": footer_bytes, "hop_bytes": hop_bytes}
        attrs = {"record_bytes": record_bytes, "encoding": encoding or "", **{k: v or 0 for k, v in numbers.items()}}
        super().__init__(apply_op("FixedLengthRecordReaderV2", [], attrs, name))


class IdentityReader(ReaderBase):
    """What the queue gives is key and value."""

    def __init__(self, name: str | None = None):
        super().__init__(apply_op("IdentityReaderV2", [], name=name))
