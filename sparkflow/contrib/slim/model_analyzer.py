"""tf.contrib.slim.model_analyzer: how large a model's variables, and the tensors of a graph, are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_LINE = "---------"


def tensor_description(var: Any) -> str:
    """Its type and shape, such as "(float32_ref 3x4)"."""
    return f"({var.dtype.name} {'x'.join(map(str, _sizes(var)))})"


def _sizes(var: Any) -> list[Any]:
    dims = var.get_shape()
    return [] if dims.rank is None else [str(d) for d in dims]


def _count(var: Any) -> int:
    return var.get_shape().num_elements() or 0


def analyze_ops(graph: Any, print_info: bool = False) -> int:
    """How many numbers the tensors of a graph have, where their shapes are known; print_info: say it of each."""
    lines, total = [], 0
    for op in graph.get_operations():
        size = sum(map(_count, op.outputs))
        shapes = [tensor_description(t) for t in op.outputs if _sizes(t)]
        lines.append(f"{op.name} \t-> {', '.join(shapes)} [{size}]")
        total += size
    if print_info:
        print(_LINE, "Operations: name -> (type shapes) [size]", _LINE, *lines, sep="\n")
    return total


def analyze_vars(variables: Iterable[Any], print_info: bool = False) -> tuple[int, int]:
    """(how many numbers, how many bytes) variables have; print_info: say it of each, and of all."""
    lines, size, nbytes = [], 0, 0
    for var in variables:
        own, own_bytes = _count(var), _count(var) * var.dtype.size
        lines.append(f"{var.name} {tensor_description(var)} [{own}, bytes: {own_bytes}]")
        size, nbytes = size + own, nbytes + own_bytes
    if print_info:
        print(_LINE, "Variables: name (type shape) [size]", _LINE, *lines, sep="\n")
        print(f"Total size of variables: {size}", f"Total bytes of variables: {nbytes}", sep="\n")
    return size, nbytes
