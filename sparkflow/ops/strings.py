"""Strings: cutting, joining, replacing, numbers of them, hashes, bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import array, math_reduce, rules
from sparkflow.ops.elementwise import of_ragged_too
from sparkflow.ops.io import string_join
from sparkflow.ops.ragged import RaggedTensor
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

_SAME = "input: string -> output: string"


def _in_buckets(op: Operation) -> list[shapes.Dims]:
    if op.attrs["num_buckets"] < 1:
        raise InvalidArgumentError(f"{op.type}: num_buckets must be at least 1, got {op.attrs['num_buckets']}")
    return rules.same(op)


def _one(op_type: str, doc: str, signature: str = _SAME, /, **defaults: Any) -> Callable[..., Tensor]:
    """Register an op of one tensor of strings and return its function f(input, name=None)."""
    op(op_type, signature, rules.same, **defaults)

    def build(input: Any, name: str | None = None) -> Tensor:
        return apply_op(op_type, [input], name=name)

    build.__name__, build.__doc__ = op_type, doc
    return of_ragged_too(build)


string_strip = _one("StringStrip", "The strings without white space at their ends.")
decode_base64 = _one("DecodeBase64", "The bytes that web-safe base64 stands for; padding may be missing.")
op("EncodeBase64", _SAME, rules.same, pad=False)
op("StringLower", _SAME, rules.same, encoding="")
op("StringUpper", _SAME, rules.same, encoding="")
op("StringLength", "input: string -> output: int32", rules.same, unit="BYTE")
op("StringToNumber", "string_tensor: string -> output: out_type", rules.same, out_type=dtypes.float32)
op("StringToHashBucket", "string_tensor: string -> output: int64", lambda op: _in_buckets(op))
op("StringToHashBucketFast", "input: string -> output: int64", lambda op: _in_buckets(op))
op("StringToHashBucketStrong", "input: string -> output: int64", lambda op: _in_buckets(op))
op(
    "AsString",
    "input: T -> output: string",
    rules.same,
    precision=-1,
    scientific=False,
    shortest=False,
    width=-1,
    fill="",
)
op("Substr", "input: string, pos: T, len: T -> output: string", rules.broadcast, unit="BYTE")
op("RegexReplace", "input: string, pattern: string, rewrite: string -> output: string", rules.same, replace_global=True)
op("StaticRegexReplace", _SAME, rules.same, replace_global=True)
op("RegexFullMatch", "input: string, pattern: string -> output: bool", rules.same)
op("StaticRegexFullMatch", "input: string -> output: bool", rules.same)


def _split_rule(op: Operation) -> list[Dims]:
    rules.require_rank(op, "input", op.inputs[0], 1)
    rules.require_rank(op, "delimiter", op.inputs[1], 0)
    return [(None, 2), (None,), (2,)]


op(
    "StringSplit",
    "input: string, delimiter: string -> indices: int64, values: string, shape: int64",
    _split_rule,
    skip_empty=True,
)
op(
    "StringSplitV2",
    "input: string, sep: string -> indices: int64, values: string, shape: int64",
    _split_rule,
    maxsplit=-1,
)


def _raw_rule(op: Operation) -> list[Dims]:
    dims = op.inputs[0]._shape
    return [None if dims is None else (*dims, None)]


def _joined_rule(op: Operation) -> list[Dims]:
    dims, axes = op.inputs[0]._shape, constant_value(op.inputs[1])
    if dims is None:
        return [None]
    if axes is None:
        return [(None,) * len(dims) if op.attrs["keep_dims"] else None]
    gone = {rules.axis_in(op, int(a), len(dims)) for a in axes.ravel()}
    keep = op.attrs["keep_dims"]
    return [tuple(1 if i in gone else d for i, d in enumerate(dims) if keep or i not in gone)]


op("DecodeRaw", "bytes: string -> output: out_type", _raw_rule, little_endian=True)
op(
    "ReduceJoin",
    "inputs: string, reduction_indices: int32 -> output: string",
    _joined_rule,
    keep_dims=False,
    separator="",
)


def encode_base64(input: Any, pad: bool = False, name: str | None = None) -> Tensor:
    """Web-safe base64 of the strings; pad: with = at the end."""
    return apply_op("EncodeBase64", [input], {"pad": pad}, name)


@of_ragged_too
def lower(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """The strings with small letters: of ASCII, or with encoding "utf-8" of Unicode."""
    return apply_op("StringLower", [input], {"encoding": encoding}, name)


@of_ragged_too
def upper(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """The strings with capital letters: of ASCII, or with encoding "utf-8" of Unicode."""
    return apply_op("StringUpper", [input], {"encoding": encoding}, name)


@of_ragged_too
def length(input: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """How many bytes the strings have, or characters with unit "UTF8_CHAR"."""
    return apply_op("StringLength", [input], {"unit": unit}, name)


@of_ragged_too
def string_to_number(
    string_tensor: Any = None, out_type: Any = dtypes.float32, name: str | None = None, input: Any = None
) -> Tensor:
    """The numbers that the strings name; InvalidArgumentError when it runs on one that names none."""
    text = string_tensor if input is None else input
    return apply_op("StringToNumber", [text], {"out_type": dtypes.as_dtype(out_type)}, name)


@of_ragged_too
def string_to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Tensor:
    """A number in [0, num_buckets) for each string, the same in every process: FarmHash's Fingerprint64."""
    return apply_op("StringToHashBucketFast", [input], {"num_buckets": num_buckets}, name)


@of_ragged_too
def string_to_hash_bucket_strong(input: Any, num_buckets: int, key: Any, name: str | None = None) -> Tensor:
    """As string_to_hash_bucket_fast, by SipHash under a key of two 64-bit numbers."""
    return apply_op("StringToHashBucketStrong", [input], {"num_buckets": num_buckets, "key": list(key)}, name)


@of_ragged_too
def string_to_hash_bucket(
    string_tensor: Any = None, num_buckets: int | None = None, name: str | None = None, input: Any = None
) -> Tensor:
    """As string_to_hash_bucket_fast, by TensorFlow's older Hash64."""
    text = string_tensor if input is None else input
    return apply_op("StringToHashBucket", [text], {"num_buckets": num_buckets}, name)


@of_ragged_too
def as_string(
    input: Any, precision: int = -1, scientific: bool = False, shortest: bool = False, width: int = -1, fill: str = "",
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Numbers and bools as text. precision: digits after the point; scientific: 1.5e+00; shortest: the shorter of both;
    width: at least so many characters, filled with spaces, or with `fill`."""
    attrs = {"precision": precision, "scientific": scientific, "shortest": shortest, "width": width, "fill": fill}
    return apply_op("AsString", [input], attrs, name)


@of_ragged_too
def substr(input: Any, pos: Any, len: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """`len` bytes from `pos` (from the end where negative) of each string, or characters with unit "UTF8_CHAR".

    Raises InvalidArgumentError when it runs where pos lies outside a string.
    """
    return apply_op("Substr", [input, pos, len], {"unit": unit}, name)


@of_ragged_too
def regex_replace(
    input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: str | None = None
) -> Tensor:
    r"""What matches the pattern replaced by rewrite, in which \1 ... \9 are groups; the first match only where
    replace_global is False."""
    if isinstance(pattern, (str, bytes)) and isinstance(rewrite, (str, bytes)):
        attrs = {"pattern": pattern, "rewrite": rewrite, "replace_global": replace_global}
        return apply_op("StaticRegexReplace", [input], attrs, name)
    return apply_op("RegexReplace", [input, pattern, rewrite], {"replace_global": replace_global}, name)


@of_ragged_too
def regex_full_match(input: Any, pattern: Any, name: str | None = None) -> Tensor:
    """Whether the pattern matches each string from end to end."""
    if isinstance(pattern, (str, bytes)):
        return apply_op("StaticRegexFullMatch", [input], {"pattern": pattern}, name)
    return apply_op("RegexFullMatch", [input, pattern], name=name)


def string_split(
    source: Any = None, sep: Any = None, skip_empty: bool = True, delimiter: Any = " ",
    result_type: str = "SparseTensor", name: str | None = None, input: Any = None,
) -> Any:  # fmt: skip
    """A SparseTensor [n, longest] of the parts of n strings between the delimiter's characters (each byte of a string
    that is "" without any); or a RaggedTensor, if result_type says so."""
    text = source if input is None else input
    cut = delimiter if sep is None else sep
    found = SparseTensor(*apply_op("StringSplit", [text, cut], {"skip_empty": skip_empty}, name))
    return _as_result(found, result_type)


def split(
    input: Any = None, sep: Any = None, maxsplit: int = -1, result_type: str = "SparseTensor", source: Any = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """A SparseTensor of the parts between `sep`, at most maxsplit cuts each, as Python's str.split cuts; or a
    RaggedTensor, if result_type says so. One string is taken as a list of one."""
    text = convert_to_tensor(source if input is None else input, dtypes.string)
    text = array.expand_dims(text, 0) if text._shape == () else text
    found = SparseTensor(*apply_op("StringSplitV2", [text, sep or ""], {"maxsplit": maxsplit}, name))
    return _as_result(found, result_type)


def _as_result(found: SparseTensor, result_type: str) -> Any:
    """result_type: "SparseTensor" or "RaggedTensor"."""
    if result_type == "SparseTensor":
        return found
    if result_type != "RaggedTensor":
        raise ValueError(f"result_type must be 'RaggedTensor' or 'SparseTensor', got {result_type!r}")
    return RaggedTensor.from_sparse(found)


def decode_raw(
    input_bytes: Any = None,
    out_type: Any = None,
    little_endian: bool = True,
    name: str | None = None,
    bytes: Any = None,
) -> Tensor:
    """The bytes of each string read as numbers, along a new last axis; all strings must be of one length."""
    raw = input_bytes if bytes is None else bytes
    attrs = {"out_type": dtypes.as_dtype(out_type), "little_endian": little_endian}
    return apply_op("DecodeRaw", [raw], attrs, name)


@of_ragged_too
def reduce_join(
    inputs: Any, axis: Any = None, keep_dims: bool | None = None, separator: str = "", name: str | None = None,
    reduction_indices: Any = None, keepdims: bool | None = None,
) -> Tensor:  # fmt: skip
    """The strings along the axes, joined, the first axis of the list running fastest; all of them in reading order."""
    inputs = convert_to_tensor(inputs, dtypes.string)
    axes = reduction_indices if axis is None else axis
    if axes is None and inputs._shape is not None:
        axes = convert_to_tensor(list(range(len(inputs._shape)))[::-1], dtypes.int32)
    axes = array.reverse(math_reduce.all_axes(inputs), [0]) if axes is None else axes
    attrs = {"keep_dims": bool(keep_dims or keepdims), "separator": separator}
    return apply_op("ReduceJoin", [inputs, axes], attrs, name)


@of_ragged_too
def join(inputs: Any, separator: str = "", name: str | None = None) -> Tensor:
    """string_join."""
    with get_default_graph().name_scope(name or "StringJoin"):
        return string_join(inputs, separator)


def _segments_rule(op: Operation) -> list[Dims]:
    inputs, ids = op.inputs[0]._shape, op.inputs[1]._shape
    count = constant_value(op.inputs[2])
    if inputs is None or ids is None:
        return [None]
    shapes.merge(inputs[: len(ids)], ids)
    return [(None if count is None else int(count), *inputs[len(ids) :])]


op(
    "UnsortedSegmentJoin",
    "inputs: string, segment_ids: Tindices, num_segments: Tnumsegments -> output: string",
    _segments_rule,
    separator="",
    Tnumsegments=dtypes.int32,
)
op(
    "UnicodeTranscode",
    _SAME,
    rules.same,
    errors="replace",
    replacement_char=65533,
    replace_control_characters=False,
)


def unsorted_segment_join(
    inputs: Any, segment_ids: Any, num_segments: Any, separator: str = "", name: str | None = None
) -> Tensor:
    """[num_segments, ...]: the strings of each segment, joined in their order."""
    return apply_op("UnsortedSegmentJoin", [inputs, segment_ids, num_segments], {"separator": separator}, name)


@of_ragged_too
def unicode_transcode(
    input: Any, input_encoding: str, output_encoding: str, errors: str = "replace", replacement_char: int = 65533,
    replace_control_characters: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The strings in another encoding: "UTF-8", "UTF-16-BE" or "UTF-32-BE" (input_encoding: any that Python knows).

    errors: what becomes of bytes that are none: "replace" (by replacement_char), "ignore", or "strict", an
    InvalidArgumentError when it runs. replace_control_characters: those below a space count as such.
    """
    attrs = {
        "input_encoding": input_encoding, "output_encoding": output_encoding, "errors": errors,
        "replacement_char": replacement_char, "replace_control_characters": replace_control_characters,
    }  # fmt: skip
    return apply_op("UnicodeTranscode", [input], attrs, name)
