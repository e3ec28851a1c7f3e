"""Summary ops: nodes whose value is a serialized Summary, for TensorBoard."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tensorboard.compat.proto.summary_pb2 import SummaryDescription, SummaryMetadata

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.registry import op
from sparkflow_runtime.wire import dtypes

op("ScalarSummary", "tags: string, values: T -> summary: string", lambda op: [()])
op("HistogramSummary", "tag: string, values: T -> summary: string", lambda op: [()], T=dtypes.float32)
op("MergeSummary", "inputs: N * string -> summary: string", lambda op: [()])
op("ImageSummary", "tag: string, tensor: T -> summary: string", lambda op: [()], T=dtypes.float32, max_images=3)
op("AudioSummaryV2", "tag: string, tensor: float32, sample_rate: float32 -> summary: string", lambda op: [()],
   max_outputs=3)  # fmt: skip
op("TensorSummary", "tensor: T -> summary: string", lambda op: [()], description="", labels=[], display_name="")
op("TensorSummaryV2", "tag: string, tensor: T, serialized_summary_metadata: string -> summary: string",
   lambda op: [()])  # fmt: skip

_ILLEGAL = re.compile(r"[^-/\w\.]")
_log = logging.getLogger("sparkflow")


def scalar(name: str, tensor: Any, collections: Sequence[str] | None = None, family: str | None = None) -> Tensor:
    """The summary of one number. name: its tag, after the scopes it is made in. family: groups tags in TensorBoard.

    tensor: a scalar of any real dtype. collections: [SUMMARIES] by default. Returns a string scalar.
    """
    with summary_scope(name, family) as (tag, scope):
        inputs = [convert_to_tensor(tag, dtypes.string, "tags"), tensor]
        return _collected(apply_op("ScalarSummary", inputs, name=scope), collections)


def histogram(name: str, values: Any, collections: Sequence[str] | None = None, family: str | None = None) -> Tensor:
    """The summary of how values are spread. values: any shape, real dtype; InvalidArgumentError on NaN or infinity."""
    with summary_scope(name, family) as (tag, scope):
        inputs = [convert_to_tensor(tag, dtypes.string, "tag"), values]
        return _collected(apply_op("HistogramSummary", inputs, name=scope), collections)


def image(
    name: str, tensor: Any, max_outputs: int = 3, collections: Sequence[str] | None = None, family: str | None = None
) -> Tensor:
    """The summary of the first max_outputs images of a batch, as PNG files.

    tensor: [batch, height, width, channels], 1, 3 or 4 channels, uint8 or float; floats are scaled, image by image, so
    that the largest becomes 255, or around 128 where some are negative. InvalidArgumentError on another shape.
    """
    with summary_scope(name, family) as (tag, scope):
        inputs = [convert_to_tensor(tag, dtypes.string, "tag"), tensor]
        return _collected(apply_op("ImageSummary", inputs, {"max_images": max_outputs}, scope), collections)


def audio(
    name: str, tensor: Any, sample_rate: Any, max_outputs: int = 3, collections: Sequence[str] | None = None,
    family: str | None = None,
) -> Tensor:  # fmt: skip
    """The summary of the first max_outputs sounds of a batch, as WAV files.

    tensor: [batch, frames] or [batch, frames, channels], float32 in -1..1. sample_rate: frames a second.
    """
    with summary_scope(name, family) as (tag, scope):
        rate = convert_to_tensor(sample_rate, dtypes.float32, "sample_rate")
        inputs = [convert_to_tensor(tag, dtypes.string, "tag"), tensor, rate]
        return _collected(apply_op("AudioSummaryV2", inputs, {"max_outputs": max_outputs}, scope), collections)


def tensor_summary(
    name: str, tensor: Any, summary_description: str | None = None, collections: Sequence[str] | None = None,
    summary_metadata: Any = None, family: str | None = None, display_name: str | None = None,
) -> Tensor:  # fmt: skip
    """The summary of a whole tensor. summary_metadata: a SummaryMetadata, which says whose plugin shows it."""
    metadata = SummaryMetadata() if summary_metadata is None else summary_metadata
    if display_name is not None:
        metadata.display_name = display_name
    if summary_description is not None:
        metadata.summary_description = summary_description
    with summary_scope(name, family) as (tag, scope):
        inputs = [
            convert_to_tensor(tag, dtypes.string, "tag"), tensor,
            convert_to_tensor(metadata.SerializeToString(), dtypes.string, "serialized_summary_metadata"),
        ]  # fmt: skip
        return _collected(apply_op("TensorSummaryV2", inputs, name=scope), collections)


def text(name: str, tensor: Any, collections: Sequence[str] | None = None) -> Tensor:
    """The summary of text, which TensorBoard shows as Markdown: a string, or a table of them.

    tensor: strings. Raises ValueError on another type.
    """
    tensor = convert_to_tensor(tensor)
    if tensor.dtype.base_dtype is not dtypes.string:
        raise ValueError(f"Expected tensor {tensor.name} to have dtype string, got {tensor.dtype}")
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    return tensor_summary(name, tensor, summary_metadata=metadata, collections=collections)


def get_summary_description(node_def: Any) -> SummaryDescription:
    """What a TensorSummary node says of itself. Raises ValueError on another node."""
    if node_def.op != "TensorSummary":
        raise ValueError(f"Can't get_summary_description on {node_def.op}")
    from google.protobuf import json_format  # dear to import

    return json_format.Parse(node_def.attr["description"].s.decode(), SummaryDescription())


def merge(inputs: Sequence[Tensor], collections: Sequence[str] | None = None, name: str | None = None) -> Tensor:
    """One summary of several. Raises ValueError where there are none; when run, InvalidArgumentError where two have the
    same tag."""
    inputs = list(inputs)
    if not inputs:
        raise ValueError("summary.merge: there must be at least one summary, got an empty list")
    with get_default_graph().name_scope(name or "Merge"):
        return _collected(apply_op("MergeSummary", [inputs], name=name or "MergeSummary"), collections or [])


def merge_all(key: str = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None) -> Tensor | None:
    """One summary of all in the graph's collection `key`; None where there are none."""
    found = get_default_graph().get_collection(key, scope)
    return merge(found, name=name) if found else None


def clean_tag(name: str | None) -> str | None:
    """The name with only what a scope's name may have, and a word in the log where that changed it."""
    if name is None:
        return None
    clean = _ILLEGAL.sub("_", name).lstrip("/")
    if clean != name:
        _log.info("Summary name %s is illegal; using %s instead.", name, clean)
    return clean


@contextmanager
def summary_scope(
    name: str | None, family: str | None = None, default_name: str | None = None, values: Any = None
) -> Iterator[tuple[str, str]]:
    """(tag, scope): both unique in the graph, as TensorFlow names them."""
    clean, family = clean_tag(name) or default_name, clean_tag(family)
    with get_default_graph().name_scope(clean if family is None else f"{family}/{clean}") as scope:
        tag = scope.rstrip("/")
        yield (tag if family is None else f"{family}/{tag}"), scope


def collect(val: Any, collections: Sequence[str] | None, default_collections: Sequence[str]) -> None:
    """Put a summary into collections, or where these are None into the default ones."""
    get_default_graph().add_to_collections(default_collections if collections is None else collections, val)


def skip_summary() -> bool:
    """Whether this is one of the replicas whose summaries TensorFlow leaves out: never."""
    return False


def _collected(summary: Tensor, collections: Sequence[str] | None) -> Tensor:
    collect(summary, collections, [GraphKeys.SUMMARIES])
    return summary
