"""Small ops of arrays: rows repeated, tensors as bytes, the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, array_join, array_slice, math, math_reduce, operators, rules  # noqa: F401
from sparkflow.ops.counts import searchsorted
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _stacked_rule(op: Operation) -> list[Dims]:
    """Inputs [1, ...], one behind the other; all sizes must be known."""
    dims = rules.merged(op)[0]
    if dims is None or None in dims or dims[:1] != (1,):
        raise InvalidArgumentError(
            f"ParallelConcat: All input shapes must be fully defined and [1, ...], got {shapes.show(dims)}"
        )
    return [(len(op.inputs), *dims[1:])]


op("ParallelConcat", "values: N * T -> output: T", _stacked_rule)
op("GuaranteeConst", "input: T -> output: T", rules.same, stateful=True)
op("Timestamp", "-> ts: float64", lambda op: [()], stateful=True)
op("SerializeTensor", "tensor: T -> serialized: string", lambda op: [()])
op("ParseTensor", "serialized: string -> output: out_type", lambda op: [None])
op("Fingerprint", "data: T, method: string -> fingerprint: uint8", lambda op: _fingerprint_rule(op))
op("DecodeCompressed", "bytes: string -> output: string", rules.same, compression_type="")


def parallel_stack(values: Sequence[Any], name: str = "parallel_stack") -> Tensor:
    """Tensors of one known shape, stacked along a new first axis."""
    with get_default_graph().name_scope(name) as scope:
        first = convert_to_tensor(values[0])
        dims = first._shape
        if dims is None or None in dims:
            raise ValueError(f"parallel_stack: the shape of the values must be known, got {shapes.show(dims)}")
        rows = [array.expand_dims(convert_to_tensor(v, first.dtype.base_dtype), 0) for v in values]
        return apply_op("ParallelConcat", [rows], {"shape": Shape((len(rows), *dims))}, scope)


def guarantee_const(input: Any, name: str | None = None) -> Tensor:
    """input itself; the caller says that it never changes."""
    return apply_op("GuaranteeConst", [input], name=name)


def timestamp(name: str | None = None) -> Tensor:
    """Seconds since 1970 when it runs, float64."""
    return apply_op("Timestamp", name=name)


def serialize_tensor(tensor: Any, name: str | None = None) -> Tensor:
    """The tensor as the bytes of a TensorProto."""
    return apply_op("SerializeTensor", [tensor], name=name)


def parse_tensor(serialized: Any, out_type: Any, name: str | None = None) -> Tensor:
    """The tensor of a TensorProto's bytes; InvalidArgumentError when it runs on others, or on another type."""
    return apply_op("ParseTensor", [serialized], {"out_type": dtypes.as_dtype(out_type)}, name)


def decode_compressed(bytes: Any, compression_type: str = "", name: str | None = None) -> Tensor:
    """The strings uncompressed: "ZLIB", "GZIP" or "" (as they are)."""
    return apply_op("DecodeCompressed", [bytes], {"compression_type": compression_type}, name)


def _fingerprint_rule(op: Operation) -> list[Dims]:
    rules.require_rank(op, "method", op.inputs[1], 0)
    dims, method = op.inputs[0]._shape, constant_value(op.inputs[1])
    if dims == ():
        raise InvalidArgumentError("Fingerprint: data must have rank 1 or higher, of which the first axis are rows")
    if method is not None and method.item() not in (b"farmhash64", "farmhash64"):
        raise InvalidArgumentError(f"Fingerprint: Unsupported method: {method.item()!r}; there is 'farmhash64'")
    return [(dims[0] if dims else None, 8)]


def fingerprint(data: Any, method: str = "farmhash64", name: str | None = None) -> Tensor:
    """uint8 [rows, 8]: FarmHash's Fingerprint64 of the bytes of each row, which stays the same on every machine.

    data: [rows, ...]. Of one string in each row it is the string's, of several that of the strings' fingerprints.
    Raises InvalidArgumentError on a scalar, and on another method than "farmhash64".
    """
    return apply_op("Fingerprint", [data, method], name=name)


def batch_gather(params: Any, indices: Any, name: str | None = None) -> Tensor:
    """gather along the last axis of indices, of which the axes before are those of params too."""
    indices = convert_to_tensor(indices, name="indices")
    rank = rules.rank_of(indices)
    if rank is None:
        raise ValueError("batch_gather does not allow indices with unknown shape.")
    with get_default_graph().name_scope(name or "BatchGather"):
        return array_slice.gather(params, indices, axis=rank - 1, batch_dims=rank - 1)


def repeat(input: Any, repeats: Any, axis: int | None = None, name: str | None = None) -> Tensor:
    """Each part along the axis (each value of all, without one) as often as `repeats` says: a number, or one for each
    part."""
    with get_default_graph().name_scope(name or "Repeat"):
        x = convert_to_tensor(input)
        if axis is None:
            x, axis = array.reshape(x, [-1]), 0
        size = array.shape(x)[axis]
        counts = math.cast(convert_to_tensor(repeats), dtypes.int32)
        counts = array.broadcast_to(counts, array.reshape(size, [1]))
        ends = math_reduce.cumsum(counts)
        total = math_reduce.reduce_sum(counts)
        owners = searchsorted(ends, math.range(total), "right")
        out = array_slice.gather(x, owners, axis=axis)
        dims, known = x._shape, constant_value(convert_to_tensor(repeats))
        if dims is not None:
            at, own = axis % len(dims), dims[axis]
            length = None if known is None or (known.size == 1 and own is None) else int(known.sum())
            if length is not None and known is not None and known.size == 1:
                length *= own or 0
            out.set_shape((*dims[:at], length, *dims[at + 1 :]))
        return out
