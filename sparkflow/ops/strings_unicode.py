"""Strings and their code points, in rows of different lengths; Examples from JSON."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, array_join, array_slice, rules
from sparkflow.ops.ragged import RaggedTensor
from sparkflow_runtime.wire import dtypes

_DECODING: dict[str, Any] = {
    "errors": "replace", "replacement_char": 65533, "replace_control_characters": False, "Tsplits": dtypes.int64,
}  # fmt: skip


def _splits_rule(op: Operation) -> list[Dims]:
    dims = op.inputs[0]._shape
    count = dims[0] if dims is not None and len(dims) == 1 else None
    return [(None if count is None else count + 1,), *[(None,)] * (len(op.outputs) - 1)]


def _encoded_rule(op: Operation) -> list[Dims]:
    dims = op.inputs[1]._shape
    return [(None if not dims or dims[0] is None else dims[0] - 1,)]


op("UnicodeDecode", "input: string -> row_splits: Tsplits, char_values: int32", _splits_rule, **_DECODING)
op(
    "UnicodeDecodeWithOffsets",
    "input: string -> row_splits: Tsplits, char_values: int32, char_to_byte_starts: int64",
    _splits_rule,
    **_DECODING,
)
op(
    "UnicodeEncode", "input_values: int32, input_splits: Tsplits -> output: string", _encoded_rule, errors="replace",
    replacement_char=65533, Tsplits=dtypes.int64,
)  # fmt: skip
op("DecodeJSONExample", "json_examples: string -> binary_examples: string", rules.same)


def _given(input: Any, dtype: Any) -> Any:
    """A RaggedTensor as it is, or a Tensor. Raises ValueError where the rank is not known."""
    found = input if isinstance(input, RaggedTensor) else convert_to_tensor(input, dtype)
    if found.shape.ndims is None:
        raise ValueError("Rank of `input` must be statically known.")
    return found


def _decode(input: Any, encoding: str, errors: str, replacement: int, controls: bool, offsets: bool) -> list[Any]:
    """[code points] or [code points, offsets], with an axis more."""
    given = _given(input, dtypes.string)
    rank = given.shape.ndims
    if rank > 1 and not isinstance(given, RaggedTensor):
        given = RaggedTensor.from_tensor(given, ragged_rank=rank - 1)
    ragged = isinstance(given, RaggedTensor)
    attrs = {
        "input_encoding": encoding, "errors": errors, "replacement_char": replacement,
        "replace_control_characters": controls,
    }  # fmt: skip
    flat = array.reshape(given.flat_values if ragged else given, [-1])
    splits, *found = apply_op("UnicodeDecodeWithOffsets" if offsets else "UnicodeDecode", [flat], attrs)
    if rank == 0:
        return found
    rows = [RaggedTensor.from_row_splits(values, splits) for values in found]
    return [given.with_flat_values(each) for each in rows] if ragged else rows


def unicode_decode(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 0xFFFD,
    replace_control_characters: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """The code points of strings [...], ragged [..., characters]; of one string a Tensor.

    errors: what becomes of bytes that are no character: "replace" (by replacement_char), "ignore" or "strict", an
    InvalidArgumentError when it runs. replace_control_characters: those below a space count as such.
    """
    with get_default_graph().name_scope(name or "UnicodeDecode"):
        settings = (input_encoding, errors, replacement_char, replace_control_characters)
        return _decode(input, *settings, offsets=False)[0]


def unicode_decode_with_offsets(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 0xFFFD,
    replace_control_characters: bool = False, name: str | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """(unicode_decode, at which byte of its string each begins)."""
    with get_default_graph().name_scope(name or "UnicodeDecodeWithOffsets"):
        settings = (input_encoding, errors, replacement_char, replace_control_characters)
        points, offsets = _decode(input, *settings, offsets=True)
        return points, offsets


def unicode_encode(
    input: Any, output_encoding: str, errors: str = "replace", replacement_char: int = 65533, name: str | None = None
) -> Any:
    """The strings [...] of code points [..., characters] (int32, ragged or not): UTF-8, UTF-16-BE or UTF-32-BE."""
    with get_default_graph().name_scope(name or "UnicodeEncode"):
        return _encode(_given(input, dtypes.int32), output_encoding, errors, replacement_char)


def _encode(given: Any, encoding: str, errors: str, replacement: int) -> Any:
    attrs = {"output_encoding": encoding, "errors": errors, "replacement_char": replacement}
    if isinstance(given, RaggedTensor):
        if len(given.flat_values.shape) > 1:
            return given.with_flat_values(_encode(given.flat_values, encoding, errors, replacement))
        if given.ragged_rank > 1:
            return given.with_values(_encode(given.values, encoding, errors, replacement))
        return apply_op("UnicodeEncode", [given.values, given.row_splits], attrs)
    rank = given.shape.ndims
    if rank == 0:
        raise ValueError("input_tensor's rank must be at least 1.")
    if rank == 1:
        splits = array_join.stack([0, array.shape(given, out_type=dtypes.int32)[0]])
        return array.reshape(apply_op("UnicodeEncode", [given, splits], attrs), [])
    shape = array.shape(given)
    rows = given if rank == 2 else array.reshape(given, array_join.stack([-1, shape[-1]]))
    found = _encode(RaggedTensor.from_tensor(rows), encoding, errors, replacement)
    return found if rank == 2 else array.reshape(found, array_slice.strided_slice(shape, [0], [-1]))


def unicode_split(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 0xFFFD, name: str | None = None
) -> Any:
    """The characters of strings [...] as strings, ragged [..., characters]; of one string a Tensor."""
    with get_default_graph().name_scope(name or "UnicodeSplit"):
        points = _decode(input, input_encoding, errors, replacement_char, False, offsets=False)[0]
        return _characters(points, input_encoding, errors, replacement_char)


def unicode_split_with_offsets(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 0xFFFD, name: str | None = None
) -> tuple[Any, Any]:
    """(unicode_split, at which byte of its string each begins)."""
    with get_default_graph().name_scope(name or "UnicodeSplitWithOffsets"):
        points, offsets = _decode(input, input_encoding, errors, replacement_char, False, offsets=True)
        return _characters(points, input_encoding, errors, replacement_char), offsets


def _characters(points: Any, encoding: str, errors: str, replacement: int) -> Any:
    flat = points.flat_values if isinstance(points, RaggedTensor) else points
    found = _encode(array.expand_dims(flat, -1), encoding, errors, replacement)
    return points.with_flat_values(found) if isinstance(points, RaggedTensor) else found


def decode_json_example(json_examples: Any, name: str | None = None) -> Tensor:
    """Serialized Examples of the same in JSON. Raises InvalidArgumentError when one is none."""
    return apply_op("DecodeJSONExample", [json_examples], name=name)
