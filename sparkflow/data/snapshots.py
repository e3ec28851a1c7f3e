"""Elements kept in a folder: made once, read by later runs and other programs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sparkflow.data.dataset import Dataset, Rows
from sparkflow.data.elements import Fed, Given, Spec, text_of
from sparkflow.data.lasting import Lasting
from sparkflow.python_io import TFRecordOptions, TFRecordWriter, tf_record_iterator
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError, UnimplementedError
from sparkflow_runtime.wire.protos import TensorProto
from sparkflow_runtime.wire.tensor_proto import make_ndarray, make_tensor_proto

_KINDS = {None: "", "": "", "NONE": "", "GZIP": "GZIP", "ZLIB": "ZLIB"}
_ROWS, _TOLD = "elements.tfrecord", "snapshot.json"


def snapshot(
    path: Any, compression: str | None = "AUTO", reader_func: Any = None, shard_func: Any = None
) -> Callable[[Dataset], Dataset]:
    """For Dataset.apply: the same elements, which the first complete pass writes to the folder `path`, and later ones,
    of any program, read from there.

    compression: "AUTO" and "GZIP", "ZLIB", or None. A pass that is not complete leaves nothing; where several passes
    write at once, the first that is complete stays. Another kind of elements has a snapshot of its own in the folder.
    """
    kind = "GZIP" if compression in ("AUTO", "SNAPPY") else compression
    if kind not in _KINDS:
        raise InvalidArgumentError(f"snapshot: compression must be AUTO, GZIP, ZLIB or None, got {compression!r}")
    if reader_func is not None or shard_func is not None:
        raise UnimplementedError(
            "snapshot: it has one file, so there is nothing for reader_func and shard_func to choose"
        )
    given, options = Given(path), TFRecordOptions(_KINDS[kind])

    def made(dataset: Dataset) -> Dataset:
        dataset._spec.check_plain("snapshot")

        def rows(fed: Fed) -> Rows:
            (where,) = given.values(fed)
            folder = Path(text_of(where)) / _name_of(dataset._spec)
            if (folder / _TOLD).exists():
                return _read(folder, dataset._spec)
            source = dataset._rows(fed)
            begun: list[bool] = []

            def begin() -> Iterator[Any]:
                if begun:  # behind an error nothing is written any more
                    return iter(source)
                begun.append(True)
                return _written(iter(source), folder, options)

            return Lasting(begin)

        tensors = tuple(dict.fromkeys(dataset._tensors + given.tensors))
        return Dataset(dataset._spec, rows, tensors, count=dataset._count)

    return made


def _name_of(spec: Spec) -> str:
    """The folder of elements of this kind."""
    told = repr([(t.name, d) for t, d in zip(spec.types, spec.dims)])
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _written(source: Iterator[Any], folder: Path, options: TFRecordOptions) -> Iterator[Any]:
    """The rows, each written as it goes by; the folder is there once all have."""
    temporary = folder.parent / f".{folder.name}.{uuid.uuid4().hex}"
    temporary.mkdir(parents=True)
    try:
        count = 0
        with TFRecordWriter(str(temporary / _ROWS), options) as writer:
            for row in source:
                leaves = list(row)
                writer.write(b"".join(_packed(np.asarray(leaf)) for leaf in leaves))
                count += 1
                yield leaves
        told = {"elements": count, "compression": options.compression_type or ""}
        (temporary / _TOLD).write_text(json.dumps(told))
        if not folder.exists():
            os.rename(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _packed(leaf: np.ndarray) -> bytes:
    data = make_tensor_proto(leaf).SerializeToString()
    return len(data).to_bytes(8, "little") + data


def _read(folder: Path, spec: Spec) -> Iterator[Any]:
    told, count = json.loads((folder / _TOLD).read_text()), 0
    for record in tf_record_iterator(str(folder / _ROWS), TFRecordOptions(told["compression"])):
        yield list(_unpacked(record, spec))
        count += 1
    if count != told["elements"]:
        raise DataLossError(f"snapshot {str(folder)!r} has {count} elements of {told['elements']}: remove it")


def _unpacked(record: bytes, spec: Spec) -> Iterator[Any]:
    at = 0
    for _ in spec.types:
        size = int.from_bytes(record[at : at + 8], "little")
        value = make_ndarray(TensorProto.FromString(record[at + 8 : at + 8 + size]))
        at += 8 + size
        yield value if value.ndim else value[()]
