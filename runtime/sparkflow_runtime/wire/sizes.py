"""Bytes of a node's outputs, as far as its NodeDef tells."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.edges import parse
from sparkflow_runtime.wire.protos import AttrValue, NodeDef
from sparkflow_runtime.wire.tensor_proto import shape_tuple

UNKNOWN_SIZE = 128  # of a dimension that the static shape leaves open: a usual batch
SHAPES = "_output_shapes"
_TYPE_ATTRS = ("DstT", "dtype", "T", "Tparams", "out_type", "output_type", "tensor_type")
_COMPARISONS = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")
_TESTS = ("LogicalAnd", "LogicalOr", "LogicalNot", "IsNan", "IsInf", "IsFinite", "All", "Any", "InTopK", "InTopKV2")
_BOOLS = frozenset((*_COMPARISONS, *_TESTS, "IsVariableInitialized"))
_POINTER_BYTES = 8  # of a string, which is a Python object


def static_shape(nodes: Mapping[str, NodeDef], e: str) -> tuple[int | None, ...] | None:
    """Of what a data edge carries; None where nothing is known, as of one that is fed."""
    name, port = parse(e)
    node = nodes.get(name)
    if node is None or SHAPES not in node.attr or port >= len(node.attr[SHAPES].list.shape):
        return None
    return shape_tuple(node.attr[SHAPES].list.shape[port])


def output_bytes(node: NodeDef, unknown: int = UNKNOWN_SIZE) -> tuple[int, ...]:
    """Of each output by its static shape, in the type that the node says; an open dimension counts as `unknown`.

    Empty where the node has no `_output_shapes`.
    """
    attrs = node.attr
    if SHAPES not in attrs:
        return ()
    return _bytes(attrs[SHAPES].SerializeToString(), item_bytes(node), unknown)


def item_bytes(node: NodeDef) -> int:
    if node.op in _BOOLS:
        return 1
    attr = node.attr
    name = _type_attr.get(node.op)
    if name is None or name not in attr:
        name = next((k for k in _TYPE_ATTRS if k in attr and attr[k].type), None)
        if name is None:
            return 4
        _type_attr[node.op] = name
    return _width(attr[name].type)


_type_attr: dict[str, str] = {}  # op -> the attribute that said its type last time


@lru_cache
def _width(kind: int) -> int:
    return dtypes.as_dtype(kind).size or _POINTER_BYTES


@lru_cache(maxsize=4096)
def _bytes(attr: bytes, width: int, unknown: int) -> tuple[int, ...]:
    """Graphs have many tensors and few different shapes. A tensor of unknown rank counts as one element."""
    sizes = []
    for shape in AttrValue.FromString(attr).list.shape:
        size = width
        for dim in shape_tuple(shape) or ():
            size *= unknown if dim is None else dim
        sizes.append(size)
    return tuple(sizes)
