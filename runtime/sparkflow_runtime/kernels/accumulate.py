"""Sums that a loop builds up: added to in the memory they are in, where nobody else can see it.

The gradient of what is the same in every iteration, such as a weight matrix, is one; without this each iteration would
take new memory for it.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.parallel import add_into
from sparkflow_runtime.kernels.registry import Kernel

_LARGE = 1 << 16  # items
_OPS = {"Add", "AddV2", "AddN"}


def accumulating(row: Kernel) -> Kernel | None:
    """A kernel of `sum + value` that its caller uses when it will not read the old sum again; None where there is
    none."""
    return replace(row, factory=lambda node: _accumulate) if row.op in _OPS else None


def _references(held: Any, value: Any) -> int:
    return sys.getrefcount(held)


def _when_alone() -> int:
    """What `_references` counts when its caller's variable is all that refers to the array."""
    held = np.empty(1)
    return _references(held, held.size)


_ALONE = _when_alone()


def _accumulate(held: Any, value: Any) -> Any:
    """A view, a fetch, a stack or a variable that has to do with the array refers to it too, and it is left alone."""
    if (
        type(held) is np.ndarray
        and sys.getrefcount(held) <= _ALONE
        and held.shape == np.shape(value)
        and held.dtype == value.dtype
        and held.flags.owndata
        and held.flags.writeable
    ):
        if held.size < _LARGE:
            return np.add(held, value, out=held)
        add_into(held, value)
        return held
    return held + value
