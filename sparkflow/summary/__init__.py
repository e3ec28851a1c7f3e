"""Summaries: what training writes for TensorBoard."""

from tensorboard.compat.proto.event_pb2 import Event, SessionLog, TaggedRunMetadata
from tensorboard.compat.proto.summary_pb2 import SummaryDescription

from sparkflow.summary.ops import (
    audio,
    get_summary_description,
    histogram,
    image,
    merge,
    merge_all,
    scalar,
    tensor_summary,
    text,
)
from sparkflow.summary.writer import FileWriter, FileWriterCache
from sparkflow_runtime.wire.protos import Summary
