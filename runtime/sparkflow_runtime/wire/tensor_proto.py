"""numpy arrays <-> TensorProto (source: tensorflow/core/framework/tensor.proto)."""

from __future__ import annotations

from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import TensorProto, TensorShapeProto
from sparkflow_runtime.wire.serialized import INSTEAD, MAX_BYTES

_FIELD = {
    "float32": "float_val",
    "float64": "double_val",
    "int64": "int64_val",
    "bool": "bool_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
    **dict.fromkeys(("int8", "int16", "int32", "uint8", "uint16"), "int_val"),
}


_LARGE_BYTES = 1 << 16


def shape_proto(shape: tuple[int | None, ...] | None) -> TensorShapeProto:
    proto = TensorShapeProto(unknown_rank=shape is None)
    try:
        for size in shape or ():
            proto.dim.add(size=-1 if size is None else size)
    except ValueError:
        raise InvalidArgumentError(f"Shape {shape}: a size must be below 2**63. Make the tensor smaller") from None
    return proto


def shape_tuple(proto: TensorShapeProto) -> tuple[int | None, ...] | None:
    if proto.unknown_rank:
        return None
    return tuple([None if d.size < 0 else d.size for d in proto.dim])


def as_bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode()


def make_tensor_proto(array: np.ndarray, short: bool = True) -> TensorProto:
    """The TensorProto of an array; strings are object arrays of bytes or str. short: one value may stand for all."""
    dtype = dtypes.as_dtype(array.dtype)
    proto = TensorProto(dtype=dtype.as_datatype_enum, tensor_shape=shape_proto(array.shape))
    if dtype is dtypes.string:
        proto.string_val.extend(as_bytes(s) for s in array.ravel())
    elif short and array.size > 1 and _is_one_value(array):
        _put_value(proto, dtype, array[(0,) * array.ndim])
    else:
        check_fits(array)
        proto.tensor_content = np.ascontiguousarray(array).tobytes()
    return proto


def check_fits(array: np.ndarray) -> None:
    """Raises InvalidArgumentError, which is a ValueError too, where no TensorProto holds the array."""
    if array.nbytes > MAX_BYTES and not array.dtype.hasobject and not _is_one_value(array):
        raise InvalidArgumentError(
            f"Cannot create a tensor proto whose content is larger than 2 GiB: {array.dtype} of shape {array.shape} "
            f"has {array.nbytes} bytes. {INSTEAD}"
        )


def _is_one_value(array: np.ndarray) -> bool:
    """Whether all elements have the same bits: one then stands for all (zeros, ones, an optimizer's first slots)."""
    if not any(array.strides):
        return True
    if array.itemsize > 8 or not array.flags.c_contiguous:
        return False
    bits = array.reshape(-1).view(f"u{array.itemsize}")
    return bool(bits[0] == bits[-1]) and bool((bits == bits[0]).all())


def _put_value(proto: TensorProto, dtype: dtypes.DType, value: Any) -> None:
    if dtype.name in ("float16", "bfloat16"):
        proto.half_val.append(int(value.view(np.uint16)))
    elif dtype.is_complex:
        (proto.scomplex_val if dtype is dtypes.complex64 else proto.dcomplex_val).extend([value.real, value.imag])
    else:
        getattr(proto, _FIELD[dtype.name]).append(value.item())


def make_ndarray(proto: TensorProto) -> np.ndarray:
    """The array of a TensorProto; a large one of one value throughout is a view of that. Raises InvalidArgumentError
    where its bytes do not match its shape."""
    dtype, dims = dtypes.as_dtype(proto.dtype), shape_tuple(proto.tensor_shape)
    if dims is None or None in dims:
        raise InvalidArgumentError(f"TensorProto of {dtype.name}: its shape {dims} is not fully known")
    shape = [d for d in dims if d is not None]
    count = prod(shape)
    if proto.tensor_content:
        if len(proto.tensor_content) != count * dtype.np.itemsize:
            raise InvalidArgumentError(
                f"TensorProto of {dtype.name}{shape}: {len(proto.tensor_content)} bytes, expected "
                f"{count * dtype.np.itemsize}"
            )
        return np.frombuffer(proto.tensor_content, dtype.np).reshape(shape).copy()
    values = _typed_values(proto, dtype)
    if len(values) > count:
        raise InvalidArgumentError(
            f"TensorProto of {dtype.name}{shape}: {len(values)} values, expected at most {count}"
        )
    if len(values) == 1 and count * dtype.np.itemsize > _LARGE_BYTES:
        return np.broadcast_to(values, shape)
    out = np.zeros(count, dtype.np) if dtype is not dtypes.string else np.full(count, b"", object)
    out[: len(values)] = values
    if 0 < len(values) < count:  # the last value stands for the rest
        out[len(values) :] = values[-1]
    return out.reshape(shape)


def _typed_values(proto: TensorProto, dtype: dtypes.DType) -> Any:
    if dtype is dtypes.string:
        values = np.empty(len(proto.string_val), object)
        values[:] = proto.string_val
        return values
    if dtype.name in ("float16", "bfloat16"):
        kind = np.float16 if dtype.name == "float16" else ml_dtypes.bfloat16
        return np.array(proto.half_val, np.uint16).view(kind)
    if dtype.is_complex:
        pairs = np.array(proto.scomplex_val if dtype is dtypes.complex64 else proto.dcomplex_val)
        return pairs[0::2] + 1j * pairs[1::2]
    return np.array(getattr(proto, _FIELD[dtype.name]), dtype.np)
