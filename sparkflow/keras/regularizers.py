"""tf.keras.regularizers: penalties of a variable, for kernel_regularizer and its kin."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import constant
from sparkflow.framework.graph import Tensor
from sparkflow.ops import math, math_reduce


class Regularizer:
    """Of a variable, a scalar to be added to the loss: a subclass defines __call__."""

    def __call__(self, x: Any) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not say its penalty: define __call__(x)")


class L1L2(Regularizer):
    """l1 * sum |x| + l2 * sum x**2."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0):
        self.l1, self.l2 = float(l1), float(l2)

    def __call__(self, x: Any) -> Tensor:
        terms = []
        if self.l1:
            terms.append(self.l1 * math_reduce.reduce_sum(math.abs(x)))
        if self.l2:
            terms.append(self.l2 * math_reduce.reduce_sum(math.square(x)))
        return math.add_n(terms) if terms else constant(0.0, x.dtype.base_dtype)

    def get_config(self) -> dict[str, float]:
        return {"l1": self.l1, "l2": self.l2}


def l1(l: float = 0.01) -> L1L2:  # noqa: E741 - Keras' name
    return L1L2(l1=l)


def l2(l: float = 0.01) -> L1L2:  # noqa: E741 - Keras' name
    return L1L2(l2=l)


def l1_l2(l1: float = 0.01, l2: float = 0.01) -> L1L2:
    return L1L2(l1, l2)


def get(identifier: Any) -> Any:
    """The penalty of that name; itself, or None. Raises ValueError on an unknown name."""
    if identifier is None or callable(identifier):
        return identifier
    named: dict[str, Any] = {"l1": l1, "l2": l2, "l1_l2": l1_l2}
    if identifier not in named:
        raise ValueError(f"Unknown regularizer: {identifier!r}; there are {', '.join(named)}")
    return named[identifier]()
