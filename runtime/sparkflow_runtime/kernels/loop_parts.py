"""Parts of loops that are no Python functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class Stack:
    """Cleared float32 memory of a loop's own stack, of a shape: LLVM knows that no argument lies in it. It is one of
    the loop's `parts`, is called by the loop itself and not by a part, and once; in Python it makes an array."""

    def __init__(self, name: str, *shape: int):
        self.__name__, self.shape = name, shape

    def __call__(self) -> np.ndarray:
        return np.zeros(self.shape, np.float32)


class Instructions:
    """A function that machine code calls and that is written as LLVM's instructions: one of a loop's `parts`. Its numpy
    version does without. make: gives it as numba's; it alone may import numba."""

    def __init__(self, name: str, make: Callable[[], Any]):
        self.__name__, self.make = name, make

    def __call__(self, *args: Any) -> Any:
        raise NotImplementedError(f"{self.__name__} is there for machine code alone")


class Inlined:
    """A part whose code numba puts into the loop's own: LLVM would unroll its loops first, and then take it for too
    long to be put there, and a loop with a call in it cannot go by the vector."""

    def __init__(self, function: Callable[..., Any]):
        self.__name__, self.function = function.__name__, function

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)
