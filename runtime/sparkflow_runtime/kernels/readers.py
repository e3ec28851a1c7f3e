"""Readers as ops. Their handles are the readers themselves; how they wait is in resources/readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.registry import Node, Prompt, asynchronous, bound, prepares
from sparkflow_runtime.records import ready
from sparkflow_runtime.resources.readers import Reader, ReaderSpec, check_spec

_CPU = ("CPU",)
_NUMBERS = {
    "FixedLengthRecordReader": ("record_bytes", "header_bytes", "footer_bytes", "hop_bytes"),
    "TextLineReader": ("skip_header_lines",),
}


@bound(
    "TFRecordReaderV2", "WholeFileReaderV2", "TextLineReaderV2", "FixedLengthRecordReaderV2", "IdentityReaderV2",
    handle=True, devices=_CPU,
)  # fmt: skip
def _reader(node: Node) -> Callable[[], Reader]:
    kind = node.op.removesuffix("V2")
    numbers = tuple(node.attr(n, 0) for n in _NUMBERS.get(kind, ()))
    compression = node.attr("compression_type", b"") or node.attr("encoding", b"")
    text = compression.decode() if isinstance(compression, bytes) else compression
    spec, name = ReaderSpec(kind, numbers, text), node.resource_name
    check_spec(spec)
    held = node.resources.get_or_create(node.container, name, Reader, lambda: Reader(name, spec))
    return lambda: held


prepares(ready.prepare, "TFRecordReaderV2")


@asynchronous("ReaderReadV2", devices=_CPU)
def _read(node: Node) -> Callable[..., None]:
    return Prompt(
        lambda step, done, reader, queue: reader.read(queue, None, done, step),
        lambda reader, queue: reader.try_read(queue, None),
    )


@asynchronous("ReaderReadUpToV2", devices=_CPU)
def _read_up_to(node: Node) -> Callable[..., None]:
    return Prompt(
        lambda step, done, reader, queue, most: reader.read(queue, int(most), done, step),
        lambda reader, queue, most: reader.try_read(queue, int(most)),
    )


@bound("ReaderNumRecordsProducedV2", devices=_CPU)
def _records(node: Node) -> Callable[[Reader], Any]:
    return lambda reader: np.int64(reader.records_produced)


@bound("ReaderNumWorkUnitsCompletedV2", devices=_CPU)
def _units(node: Node) -> Callable[[Reader], Any]:
    return lambda reader: np.int64(reader.work_units_completed)


@bound("ReaderResetV2", multi=True, devices=_CPU)
def _reset(node: Node) -> Callable[[Reader], tuple[()]]:
    def run(reader: Reader) -> tuple[()]:
        reader.reset()
        return ()

    return run
