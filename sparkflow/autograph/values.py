"""What conditions, comparisons and names become in converted functions: Python's own where no tensor is among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow.framework.apply import convert_to_tensor, is_tensor_like
from sparkflow.framework.graph import Tensor
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import control_flow, math
from sparkflow.ops.control_flow_cond import cond

Thunk = Callable[[], Any]
_PLAIN = (bool, int, float, complex, str, bytes, np.ndarray, np.generic)  # what can be a tensor's value


class Undefined:
    """The value of a name that none was given to yet. why: what its use shall say beside that."""

    def __init__(self, name: str, why: str = ""):
        self.name, self.why = name, why

    def told(self) -> Exception:
        """The error of its use."""
        if self.why:
            return ValueError(f"{self.name!r} has no value here: {self.why}")
        return UnboundLocalError(f"{self.name!r} has no value here: it is used before it is assigned")

    def __getattr__(self, attribute: str) -> Any:
        if attribute[:2] == "__":
            raise AttributeError(attribute)
        raise self.told()

    def __repr__(self) -> str:
        return f"<{self.name!r} is undefined>"


def ld(value: Any) -> Any:
    """The value of a name. Raises UnboundLocalError, or ValueError, where it has none."""
    if isinstance(value, Undefined):
        raise value.told()
    return value


def of(read: Thunk, name: str) -> Any:
    """An attribute or an item, Undefined where there is none yet."""
    try:
        return read()
    except (AttributeError, KeyError, IndexError, TypeError):  # TypeError: an item of what is None as yet
        return Undefined(name)


def symbolic(value: Any) -> bool:
    """Whether it has a value only when the graph runs."""
    return is_tensor_like(value) and not isinstance(value, SparseTensor)


def and_(*values: Thunk) -> Any:
    """`a and b and ...`: later values are computed only where the earlier ones are true."""
    value = values[0]()
    if len(values) == 1:
        return value
    if not symbolic(value):
        return value and and_(*values[1:])
    return cond(value, lambda: _truth(and_(*values[1:])), lambda: convert_to_tensor(False), name="and")


def or_(*values: Thunk) -> Any:
    """`a or b or ...`: later values are computed only where the earlier ones are false."""
    value = values[0]()
    if len(values) == 1:
        return value
    if not symbolic(value):
        return value or or_(*values[1:])
    return cond(value, lambda: convert_to_tensor(True), lambda: _truth(or_(*values[1:])), name="or")


def _truth(value: Any) -> Tensor:
    return convert_to_tensor(value if symbolic(value) else bool(value))


def compared(left: Any, *rest: tuple[Callable[[Any, Any], Any], Thunk]) -> Any:
    """`left < b < c ...`, given as pairs of a comparison and what gives the value: later ones are computed only where
    the earlier comparisons are true, and each once."""
    compare, following = rest[0]
    right = following()
    value = compare(left, right)
    if len(rest) == 1:
        return value
    if not symbolic(value):
        return value and compared(right, *rest[1:])
    return cond(value, lambda: _truth(compared(right, *rest[1:])), lambda: convert_to_tensor(False), name="and")


def not_(value: Any) -> Any:
    return math.logical_not(value) if symbolic(value) else not value


def eq(a: Any, b: Any) -> Any:
    """a == b; of a tensor and what can be its value, element by element, as tf.equal. Two variables are one or not."""
    return math.equal(a, b) if _by_value(a, b) else a == b


def not_eq(a: Any, b: Any) -> Any:
    """a != b; of tensors as eq."""
    return math.not_equal(a, b) if _by_value(a, b) else a != b


def _by_value(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return all(symbolic(x) or isinstance(x, _PLAIN) for x in (a, b))
    return symbolic(a) != symbolic(b) and any(isinstance(x, _PLAIN) for x in (a, b))


def assert_stmt(condition: Any, message: Thunk) -> None:
    """`assert condition, message`; of a tensor an op that fails where it is false."""
    if not symbolic(condition):
        if not condition:
            raise AssertionError(message())
        return
    control_flow.Assert(condition, [convert_to_tensor(message())])
