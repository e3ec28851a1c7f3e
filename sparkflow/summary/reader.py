"""Event files, read."""

from __future__ import annotations

from collections.abc import Iterator

from tensorboard.compat.proto.event_pb2 import Event

from sparkflow.python_io import tf_record_iterator


def summary_iterator(path: str) -> Iterator[Event]:
    """The events of an event file, in their order. Raises NotFoundError, and DataLossError on a damaged record."""
    return map(Event.FromString, tf_record_iterator(path))
