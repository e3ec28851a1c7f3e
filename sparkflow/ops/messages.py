"""decode_proto and encode_proto: fields of serialized protobuf messages as tensors, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow_runtime.wire import dtypes


class DecodedProto(NamedTuple):
    """sizes: int32 [batch, fields], how many values each field has; values: of each field, [batch, the most]."""

    sizes: Tensor
    values: list[Tensor]


def _decode_rule(op: Operation) -> list[Dims]:
    batch = op.inputs[0]._shape
    names = op.attr("field_names")
    if batch is None:
        return [None] * (1 + len(names))
    return [(*batch, len(names)), *[(*batch, None) for _ in names]]


def _encode_rule(op: Operation) -> list[Dims]:
    sizes = op.inputs[0]._shape
    return [None if sizes is None else sizes[:-1]]


op(
    "DecodeProtoV2", "bytes: string -> sizes: int32, values: [output_types]", _decode_rule,
    descriptor_source="local://", message_format="binary", sanitize=False,
)  # fmt: skip
op("EncodeProto", "sizes: int32, values: [Tinput_types] -> bytes: string", _encode_rule, descriptor_source="local://")


def decode_proto(
    bytes: Any, message_type: str, field_names: Sequence[str], output_types: Sequence[Any],
    descriptor_source: Any = "local://", message_format: str = "binary", sanitize: bool = False,
    name: str | None = None,
) -> DecodedProto:  # fmt: skip
    """These fields of serialized messages: how many values each has, and the values, zeros or "" after the last.

    descriptor_source: "bytes://" and the bytes of a FileDescriptorSet, a file of one, or "local://", messages that the
    process which runs it has imported. message_format: "binary" or "text". Fields that are messages are their bytes.
    When it runs, DataLossError on bytes that are no message, InvalidArgumentError on a field or type that does not fit.
    """
    attrs = {
        "message_type": message_type, "field_names": [*field_names],
        "output_types": [dtypes.as_dtype(dtype) for dtype in output_types], "descriptor_source": descriptor_source,
        "message_format": message_format, "sanitize": sanitize,
    }  # fmt: skip
    sizes, *values = apply_op("DecodeProtoV2", [bytes], attrs, name)
    return DecodedProto(sizes, [*values[0]] if values and isinstance(values[0], (list, tuple)) else values)


def encode_proto(
    sizes: Any, values: Sequence[Any], field_names: Sequence[str], message_type: str,
    descriptor_source: Any = "local://", name: str | None = None,
) -> Tensor:  # fmt: skip
    """The messages that have these values: of each field the first sizes[batch, field] of values[field][batch, ...]."""
    attrs = {"field_names": [*field_names], "message_type": message_type, "descriptor_source": descriptor_source}
    return apply_op("EncodeProto", [sizes, [*values]], attrs, name)
