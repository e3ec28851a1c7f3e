"""Arithmetic on numpy's scalars, for code in which most values are single numbers (counters, losses, learning rates).

A ufunc spends 300 ns on finding out that its inputs are single numbers; the operator of `np.float32` takes 30. Both
round alike, so a form of this table gives the same bits as the op's kernel. It also gives the right result for arrays
(only no faster), since a plan can only guess which values are single numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sparkflow_runtime.wire import dtypes

Form = str | Callable[..., Any]  # an expression of the inputs, or a function of them

_REAL = frozenset((dtypes.float32, dtypes.float64))
_NUMBERS = _REAL | {dtypes.int32, dtypes.int64}
_NUMPY_REAL = (np.float32, np.float64)


def _maximum(x: Any, y: Any) -> Any:
    """numpy's: nan wins, and of two equal numbers (0 and -0) the second."""
    if type(x) in _NUMPY_REAL and type(x) is type(y):
        return x if x > y or x != x else y
    return np.maximum(x, y)


def _minimum(x: Any, y: Any) -> Any:
    if type(x) in _NUMPY_REAL and type(x) is type(y):
        return x if x < y or x != x else y
    return np.minimum(x, y)


_FORMS: dict[str, tuple[Form, frozenset[dtypes.DType]]] = {
    "Add": ("{} + {}", _NUMBERS),
    "AddV2": ("{} + {}", _NUMBERS),
    "Sub": ("{} - {}", _NUMBERS),
    "Mul": ("{} * {}", _NUMBERS),
    "RealDiv": ("{} / {}", _REAL),
    "Neg": ("-{}", _NUMBERS),
    "Maximum": (_maximum, _REAL),
    "Minimum": (_minimum, _REAL),
    "Less": ("{} < {}", _NUMBERS),
    "LessEqual": ("{} <= {}", _NUMBERS),
    "Greater": ("{} > {}", _NUMBERS),
    "GreaterEqual": ("{} >= {}", _NUMBERS),
    "Equal": ("{} == {}", _NUMBERS),
    "NotEqual": ("{} != {}", _NUMBERS),
    "LogicalAnd": ("{} & {}", frozenset()),
    "LogicalOr": ("{} | {}", frozenset()),
    "LogicalNot": ("~{}", frozenset()),
}


def scalar_form(op: str, attrs: Mapping[str, Any]) -> Form | None:
    """How `op` is computed where its inputs are likely single numbers; None where its kernel is as good."""
    form, types = _FORMS.get(op, (None, frozenset()))
    return form if not types or attrs.get("T") in types else None
