"""FileWriter: event files that TensorBoard reads.

The file is written here and not by tensorboard's EventFileWriter, because that imports TensorFlow wherever it is
installed and takes its checksums in Python: 12 MB/s measured, where crc32c has 10 GB/s, and a graph has
megabytes.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import socket
import struct
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog, TaggedRunMetadata

from sparkflow.framework.graph import Graph
from sparkflow_runtime.wire.checksums import crc32c
from sparkflow_runtime.wire.errors import class_of
from sparkflow_runtime.wire.protos import GraphDef, Summary
from sparkflow_runtime.wire.serialized import serialized

_count = itertools.count()
_open_writers: weakref.WeakSet[FileWriter] = weakref.WeakSet()


def _masked_crc(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    """A record as in TFRecord files: length, its checksum, data, its checksum."""
    length = struct.pack("<Q", len(data))
    return b"".join((length, _masked_crc(length), data, _masked_crc(data)))


class FileWriter:
    """Writes events to a new file in `logdir`. Thread-safe; a closed one opens another file when written to again.

    graph: written at once, with its collections as a MetaGraphDef. flush_secs: an event is on disk at most so long
    after it was added, if others follow, and at `flush` and `close`. max_queue: kept for TF1 callers, nothing is
    queued. filename_suffix: ends the file's name.
    """

    def __init__(
        self,
        logdir: str,
        graph: Graph | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: GraphDef | None = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ):
        self._logdir, self._flush_secs, self._suffix = os.fsdecode(logdir), flush_secs, filename_suffix or ""
        self._lock = threading.Lock()
        self._file: Any = None
        self._tags: set[str] = set()  # of run metadata
        self._open()
        _open_writers.add(self)
        if graph is not None or graph_def is not None:
            self.add_graph(graph, graph_def=graph_def)
            if isinstance(graph, Graph):
                from sparkflow.train.meta_graph import export_meta_graph  # which imports summaries

                self.add_meta_graph(export_meta_graph(graph=graph))

    def _open(self) -> None:
        parts = f"{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_count)}"
        self._path = os.path.join(self._logdir, f"events.out.tfevents.{parts}{self._suffix}")
        with self._named():
            os.makedirs(self._logdir, exist_ok=True)
            self._file = open(self._path, "ab")  # noqa: SIM115 (closed by close())
            self._file.write(record(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString()))
            self._flush()

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """What the system refuses is raised as the error of its kind, with the file's name. The file is given up:
        closing it would try to write what it holds once more."""
        try:
            yield
        except OSError as error:
            file, self._file = self._file, None
            with contextlib.suppress(OSError, AttributeError):
                file.close()
            raise class_of(error)(
                None, None, f"Event file {self._path} cannot be written: {error.strerror or error}. Make room, or "
                "give another directory",
            ) from error  # fmt: skip

    # ------------------------------------------------------------------ events

    def get_logdir(self) -> str:
        return self._logdir

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """summary: a Summary, or one serialized, as summary ops give it."""
        if isinstance(summary, bytes):
            summary = Summary.FromString(summary)
        self._add(Event(summary=summary), global_step)

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: GraphDef | None = None) -> None:
        """graph: a Graph, or a GraphDef. Raises TypeError on anything else."""
        if isinstance(graph, Graph):
            graph_def = graph.as_graph_def(add_shapes=True)
        elif isinstance(graph, GraphDef):
            graph_def = graph
        elif graph is not None or graph_def is None:
            raise TypeError(f"add_graph takes a Graph or a GraphDef, got {graph!r}")
        self._add(Event(graph_def=serialized(graph_def)), global_step)

    def add_meta_graph(self, meta_graph_def: Any, global_step: Any = None) -> None:
        self._add(Event(meta_graph_def=serialized(meta_graph_def)), global_step)

    def add_session_log(self, session_log: SessionLog, global_step: Any = None) -> None:
        self._add(Event(session_log=session_log), global_step)

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """What a run took, by a tag of its own. Raises ValueError on one that is used already."""
        if tag in self._tags:
            raise ValueError(f"add_run_metadata: tag {tag!r} was already used by this writer")
        self._tags.add(tag)
        tagged = TaggedRunMetadata(tag=tag, run_metadata=run_metadata.SerializeToString())
        self._add(Event(tagged_run_metadata=tagged), global_step)

    def _add(self, event: Event, global_step: Any) -> None:
        event.wall_time = time.time()
        if global_step is not None:
            event.step = int(global_step)
        self.add_event(event)

    def add_event(self, event: Event) -> None:
        data = record(serialized(event))
        with self._lock:
            if self._file is None:
                self._open()
            with self._named():
                self._file.write(data)
            if time.monotonic() - self._flushed >= self._flush_secs:
                self._flush()

    # ------------------------------------------------------------------ the file

    def _flush(self) -> None:
        with self._named():
            self._file.flush()
        self._flushed = time.monotonic()

    def flush(self) -> None:
        """Put what was added on disk."""
        with self._lock:
            if self._file is not None:
                self._flush()

    def reopen(self) -> None:
        """Write to a new file from now on, if this one was closed."""
        with self._lock:
            if self._file is None:
                self._open()

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                with self._named():
                    self._file.close()
                self._file = None

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self.close()


@atexit.register
def _flush_all() -> None:
    for writer in list(_open_writers):
        writer.flush()


class FileWriterCache:
    """One FileWriter a directory, for those who write to the same one."""

    _lock = threading.Lock()
    _writers: dict[str, FileWriter] = {}  # noqa: RUF012 (it is meant to be shared)

    @classmethod
    def get(cls, logdir: str) -> FileWriter:
        with cls._lock:
            if logdir not in cls._writers:
                cls._writers[logdir] = FileWriter(logdir)
            return cls._writers[logdir]

    @classmethod
    def clear(cls) -> None:
        """Close them all and forget them."""
        with cls._lock:
            for writer in cls._writers.values():
                writer.close()
            cls._writers.clear()
