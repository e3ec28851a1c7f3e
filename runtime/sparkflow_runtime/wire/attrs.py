"""Python values <-> AttrValue. A shape is a `Shape` (a tuple, None where unknown), so that it differs from a list of
ints."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np

from sparkflow_runtime.wire.dtypes import DType, as_dtype
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import AttrValue, NodeDef, TensorShapeProto
from sparkflow_runtime.wire.tensor_proto import as_bytes, make_ndarray, make_tensor_proto, shape_proto, shape_tuple


class Shape:
    """The value of a shape attribute; dims is a tuple with None for unknown sizes, or None for an unknown rank."""

    __slots__ = ("dims",)

    def __init__(self, dims: tuple[int | None, ...] | None):
        self.dims = dims

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and self.dims == other.dims

    def __hash__(self) -> int:
        return hash(self.dims)

    def __repr__(self) -> str:
        return f"Shape({self.dims})"


def encode(value: Any) -> AttrValue:
    """Raises InvalidArgumentError on a value that no AttrValue holds."""
    attr = AttrValue()
    put(attr, value)
    return attr


def put(attr: AttrValue, value: Any) -> None:
    """`encode` into an attribute of a node that has no value yet."""
    of = type(value)
    if of is DType:  # half of all attributes
        attr.type = value.as_datatype_enum
        return
    if of is list and len(value) == 1 and type(value[0]) is str:  # most lists are of one name
        attr.list.s.append(value[0].encode())
        return
    if of is np.ndarray and value.nbytes <= _SMALL_BYTES and value.dtype.kind in "biuf":
        attr.CopyFrom(_small_tensor(value.dtype, value.shape, value.tobytes()))
        return
    if of is bool:
        attr.b = value
        return
    if of is Shape:
        attr.CopyFrom(_shape(value))
        return
    kind = _KINDS.get(type(value)) or _kind_of(value)
    if kind == "list":
        attr.list.SetInParent()
        for kind, items in groupby(value, lambda item: _KINDS.get(type(item)) or _kind_of(item)):
            getattr(attr.list, kind).extend([(_PLAIN.get(kind) or _MESSAGES[kind])(item) for item in items])
    elif kind in _MESSAGES:
        getattr(attr, kind).CopyFrom(_MESSAGES[kind](value))
    else:
        setattr(attr, kind, _PLAIN[kind](value))


_SMALL_BYTES = 32


@lru_cache(4096)
def _small_tensor(dtype: np.dtype[Any], shape: tuple[int, ...], data: bytes) -> AttrValue:
    """Graphs have many small constants and few different ones; the result is only copied from."""
    return AttrValue(tensor=make_tensor_proto(np.frombuffer(data, dtype).reshape(shape)))


@lru_cache(4096)
def _shape(value: Shape) -> AttrValue:
    return AttrValue(shape=shape_proto(value.dims))


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "b": bool,
    "type": lambda value: value.as_datatype_enum,
    "i": int,
    "f": float,
    "s": as_bytes,
}
_MESSAGES: dict[str, Callable[[Any], Any]] = {
    "tensor": make_tensor_proto,
    "shape": lambda value: shape_proto(value.dims),
}
_TYPES: tuple[tuple[Any, str], ...] = (
    ((list, tuple), "list"),
    ((bool, np.bool_), "b"),
    (DType, "type"),
    ((int, np.integer), "i"),
    ((float, np.floating), "f"),
    ((str, bytes), "s"),
    (np.ndarray, "tensor"),
    (Shape, "shape"),
)
_KINDS: dict[type, str] = {
    kind: name for kinds, name in _TYPES for kind in (kinds if isinstance(kinds, tuple) else (kinds,))
}


def _kind_of(value: Any) -> str:
    for kinds, name in _TYPES:
        if isinstance(value, kinds):
            return name
    raise InvalidArgumentError(f"No attribute can hold {value!r} ({type(value).__name__})")


@lru_cache(4096)
def _decoded_shape(proto: bytes) -> Shape:
    """Of hundreds of variables, shapes are few."""
    return Shape(shape_tuple(TensorShapeProto.FromString(proto)))


_DECODE: dict[str, Callable[[Any], Any]] = {
    "b": bool,
    "i": int,
    "f": float,
    "type": as_dtype,
    "tensor": make_ndarray,
    "shape": lambda proto: _decoded_shape(proto.SerializeToString()),
    "s": lambda raw: _text(raw),
}


def _text(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def decode(attr: AttrValue) -> Any:
    return _decode(attr, attr.WhichOneof("value"))


def _decode(attr: AttrValue, field: str | None) -> Any:
    if field == "list":
        return [_DECODE[f.name](v) for f, values in attr.list.ListFields() for v in values]
    if field not in _DECODE:
        raise InvalidArgumentError(f"Attribute of kind {field!r} is not supported")
    return _DECODE[field](getattr(attr, field))


def told(value: Any) -> Any:
    """As TensorFlow's Operation.get_attr gives it: strings are bytes, shapes and tensors are messages."""
    attr = encode(value)
    field = attr.WhichOneof("value") or "list"
    if field == "list":
        return [as_dtype(v) if f.name == "type" else v for f, values in attr.list.ListFields() for v in values]
    found = getattr(attr, field)
    return as_dtype(found) if field == "type" else found


_REMEMBERED_BYTES = 64  # of a constant as an attribute


def constant(attr: AttrValue) -> np.ndarray:
    """The array of a Const's `value`, which may only be read: graphs have many small ones and few different ones."""
    return _small_constant(attr.SerializeToString()) if attr.ByteSize() <= _REMEMBERED_BYTES else decode(attr)


@lru_cache(4096)
def _small_constant(attr: bytes) -> np.ndarray:
    value: np.ndarray = decode(AttrValue.FromString(attr))
    value.setflags(write=False)
    return value


_OF_THE_GRAPH = frozenset(["_output_shapes", "_class"])


def node_attrs(node: NodeDef) -> dict[str, Any]:
    """The attributes of a node as Python values; functions are left out."""
    return _values(node, ())


def kernel_attrs(node: NodeDef) -> dict[str, Any]:
    """Those that its kernel may ask for, without what only passes over a graph want to know."""
    return _values(node, _OF_THE_GRAPH)


def _values(node: NodeDef, without: Collection[str]) -> dict[str, Any]:
    found, attrs = {}, node.attr
    for name in attrs:  # its items() take twice as long
        if name not in without:
            attr = attrs[name]
            field = attr.WhichOneof("value")
            if field in _DECODE or field == "list":
                found[name] = _decode(attr, field)
    return found
