"""Outputs in the memory of an input that nobody else has: no new pages, and a lower peak.

Whether an input may be written over is seen from its count of references when the kernel is called. A variable, a
constant, a feed, a fetch, a value on its way to another task or kept by a queue, a stack or another unit of the plan
each hold the array or a view of it, which counts as well. What a lone array counts depends on the interpreter, so it is
measured once, in each form in which segments run; where holding it once more does not count one more, nothing is
reused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from functools import cache
from typing import Any

import numpy as np

REUSED_BYTES = 1 << 16  # below that, new memory costs no more than the question
_TYPES = frozenset("fd")

Function = Callable[..., Any]
InTurn = Callable[[Callable[[], Any], Function], None]  # (make, use): has `use` called with what `make` returns


def _generated(make: Callable[[], Any], use: Function) -> None:
    names: dict[str, Any] = {"k0": make, "k1": use}
    exec("def run(V):\n    t0 = k0()\n    t1 = k1(t0); del t0\n", names)
    names["run"]([None])


def reusing(function: Function, positions: Collection[int], in_turn: InTurn = _generated) -> Function:
    """`function`, called with `out=x` where one of the inputs at these positions is large, fits and is free.

    Only for calls that those inputs do not outlive. in_turn: how the caller has them, and makes such a call.
    """
    counts = _counts(in_turn)
    return function if counts is None else _calling(function, tuple(positions), *counts)


def _calling(function: Function, positions: tuple[int, ...], alone: int, of_base: int) -> Function:
    """alone: what an array counts that only the caller has; of_base: the memory behind it, where it is a view."""
    references = sys.getrefcount

    def call(*inputs: Any) -> Any:
        for i in positions:
            x = inputs[i]
            if type(x) is np.ndarray and x.nbytes >= REUSED_BYTES and references(x) == alone and _fits(x, inputs):
                base = x.base
                if x.flags.owndata if base is None else (references(base) == of_base and _is_all_of(base, x)):
                    return function(*inputs, out=x)
        return function(*inputs)

    return call


def _is_all_of(base: Any, x: np.ndarray) -> bool:
    return type(base) is np.ndarray and base.flags.owndata and base.nbytes == x.nbytes


def _fits(x: np.ndarray, inputs: tuple[Any, ...]) -> bool:
    """Whether the others broadcast to its shape, in its type, and its elements lie one after the other."""
    if x.dtype.char not in _TYPES or not x.flags.carray:
        return False
    for y in inputs:
        if isinstance(y, (np.ndarray, np.generic)) and y is not x:
            row = y.ndim == 1 and y.shape == x.shape[-1:]
            if y.dtype != x.dtype or not (y.shape == x.shape or y.ndim == 0 or row):
                return False
    return True


@cache
def _counts(in_turn: InTurn = _generated) -> tuple[int, int] | None:
    """(what an array counts that only the caller has, what the array behind it does)."""
    alone = _count(in_turn, lambda count: (count, 0), _new)
    of_base = None if alone is None else _count(in_turn, lambda count: (alone, count), lambda: _new().reshape(2, -1))
    return None if alone is None or of_base is None else (alone, of_base)


def _new() -> np.ndarray:
    return np.empty(REUSED_BYTES // 8)


def _count(in_turn: InTurn, counts: Callable[[int], tuple[int, int]], make: Callable[[], np.ndarray]) -> int | None:
    """The only count with which an array is taken that nobody else has; None unless one more holder adds one."""

    def takes(count: int, is_held: bool) -> bool:
        seen: list[bool] = []
        held: list[np.ndarray] = []
        kernel = lambda x, out=None: seen.append(out is not None)  # noqa: E731

        def made() -> np.ndarray:
            x = make()
            if is_held:
                held.append(x if x.base is None else x.base)
            return x

        in_turn(made, _calling(kernel, (0,), *counts(count)))
        return seen[0]

    lone = [count for count in range(12) if takes(count, False)]
    more = [count for count in range(12) if takes(count, True)]
    return lone[0] if len(lone) == 1 and more == [lone[0] + 1] else None
