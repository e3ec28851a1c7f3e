"""Python's operators on Tensors: x + y, x < y, ~x, x @ y, x[...]. `==` stays identity, as in TF1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import math
from sparkflow.ops.array_slice import getitem
from sparkflow_runtime.wire import dtypes


def _forward(build: Callable[..., Any], name: str) -> Callable[[Any, Any], Any]:
    def operator(self: Any, other: Any) -> Any:
        if isinstance(other, SparseTensor) and name == "mul":
            return NotImplemented  # SparseTensor's own
        try:
            return build(self, other, name=name)
        except (TypeError, ValueError):
            # An object that is no tensor may know how to stand at the right: a library's own kind of array.
            reflected = getattr(type(other), f"__r{name}__", None)
            found = NotImplemented if reflected is None or isinstance(other, Tensor) else reflected(other, self)
            if found is NotImplemented:
                raise
            return found

    return operator


def _reflected(build: Callable[..., Any], name: str) -> Callable[[Any, Any], Any]:
    def operator(self: Any, other: Any) -> Any:
        dtype = self.dtype.base_dtype
        with get_default_graph().name_scope(name) as scope:  # so that a constant is called e.g. mul/x
            return build(convert_to_tensor(other, dtype, "x"), self, name=scope)

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


def _of_bits(logical: Callable[..., Any], op_type: str) -> Callable[..., Any]:
    """Of truth values, or bit by bit of integers, whose node is in a scope of that name."""

    def build(x: Any, y: Any, name: str) -> Any:
        if x.dtype.base_dtype == dtypes.bool_:
            return logical(x, y, name=name)
        with get_default_graph().name_scope(name):
            return apply_op(op_type, [x, y])

    return build


def _inverted(x: Any) -> Any:
    return math.logical_not(x) if x.dtype.base_dtype == dtypes.bool_ else apply_op("Invert", [x])


_LOGICAL = {
    "and": (_of_bits(math.logical_and, "BitwiseAnd"), "and"),
    "or": (_of_bits(math.logical_or, "BitwiseOr"), "or"),
    "xor": (_of_bits(math.logical_xor, "BitwiseXor"), "xor"),
}
_DIVISION = {"div": (math.div, "div")}  # Python 2's


def _compare(build: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def operator(self: Any, other: Any) -> Any:
        return build(self, other)

    return operator


def install(kind: type) -> None:
    """Give a class that converts to a Tensor (Tensor itself, variables) the operators."""
    for label, (build, name) in {**_BINARY, **_DIVISION, **_LOGICAL}.items():
        setattr(kind, f"__{label}__", _forward(build, name))
        setattr(kind, f"__r{label}__", _reflected(build, name))
    for label, build in _COMPARISONS.items():
        setattr(kind, f"__{label}__", _compare(build))
    for label, function in {
        "neg": lambda x: math.negative(x),
        "abs": lambda x: math.abs(x),
        "invert": _inverted,
        "getitem": getitem,
    }.items():
        setattr(kind, f"__{label}__", function)

    kind.OVERLOADABLE_OPERATORS = _NAMES  # type: ignore[attr-defined]


_NAMES = frozenset(
    f"__{label}__"
    for label in (
        *(name for each in (*_BINARY, *_DIVISION, *_LOGICAL) for name in (each, f"r{each}")), *_COMPARISONS,
        *("eq", "ne", "neg", "abs", "invert", "getitem"),
    )
)  # fmt: skip
install(Tensor)
