"""Python's operators on Tensors: x + y, x < y, ~x, x @ y, x[...]. `==` stays identity, as in TF1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import math
from sparkflow.ops.array_slice import getitem


def _forward(build: Callable[..., Any], name: str) -> Callable[[Any, Any], Any]:
    def operator(self: Any, other: Any) -> Any:
        if isinstance(other, SparseTensor) and name == "mul":
            return NotImplemented  # SparseTensor's own
        return build(self, other, name=name)

    return operator


def _reflected(build: Callable[..., Any], name: str) -> Callable[[Any, Any], Any]:
    def operator(self: Any, other: Any) -> Any:
        dtype = self.dtype.base_dtype
        return build(convert_to_tensor(other, dtype, "x"), self, name=name)

    return operator


_BINARY: dict[str, tuple[Callable[..., Any], str]] = {
    "add": (math.add, "add"),
    "sub": (math.subtract, "sub"),
    "mul": (math.multiply, "mul"),
    "truediv": (math.truediv, "truediv"),
    "floordiv": (math.floordiv, "floordiv"),
    "mod": (math.floormod, "mod"),
    "pow": (math.pow, "pow"),
    "matmul": (math.matmul, "matmul"),
}
_COMPARISONS = {"lt": math.less, "le": math.less_equal, "gt": math.greater, "ge": math.greater_equal}
_LOGICAL = {"and": (math.logical_and, "and"), "or": (math.logical_or, "or"), "xor": (math.logical_xor, "xor")}


def _compare(build: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def operator(self: Any, other: Any) -> Any:
        return build(self, other)

    return operator


def install(kind: type) -> None:
    """Give a class that converts to a Tensor (Tensor itself, variables) the operators."""
    for label, (build, name) in {**_BINARY, **_LOGICAL}.items():
        setattr(kind, f"__{label}__", _forward(build, name))
        setattr(kind, f"__r{label}__", _reflected(build, name))
    for label, build in _COMPARISONS.items():
        setattr(kind, f"__{label}__", _compare(build))
    for label, function in {
        "neg": lambda x: math.negative(x),
        "abs": lambda x: math.abs(x),
        "invert": lambda x: math.logical_not(x),
        "getitem": getitem,
    }.items():
        setattr(kind, f"__{label}__", function)


install(Tensor)
