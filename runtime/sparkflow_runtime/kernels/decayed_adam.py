"""Adam whose moments decay in all rows, alone: what a graph of its own making adds to them, and ids that may repeat.

The tables of an optimizer are updated together (updates.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.decay_loops import decay, decay_others_of
from sparkflow_runtime.kernels.host import check_indices
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.rows import has_repeats
from sparkflow_runtime.kernels.state import check_scatter, combine_rows, show
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire.errors import InvalidArgumentError


@bound("_ApplyDecayedAdam", refs=(0, 1, 2))
def _apply_decayed_adam(node: Node) -> Callable[..., Variable]:
    xp = node.xp
    decay.prepare()

    def run(
        var: Variable, m: Variable, v: Variable, rate: Any, beta1: Any, beta2: Any, epsilon: Any, ids: Any, *rows: Any
    ) -> Variable:
        """rows: what is added to m and to v where ids say."""
        with var.lock, m.lock, v.lock:
            held = [ref.read() for ref in (var, m, v)]
            ids, *added = (xp.asarray(a) for a in (ids, *rows))
            for ref, array, more in zip((m, v), held[1:], added):
                check_scatter(ref, array, ids, more)
            if not held[0].shape == held[1].shape == held[2].shape:
                shapes = ", ".join(show(a.shape) for a in held)
                raise InvalidArgumentError(f"Adam: variable {var.name!r} and its slots have shapes {shapes}")
            check_indices(ids, len(held[0]), f"Adam of the rows of variable {var.name!r}")
            factors = [held[0].dtype.type(f) if xp is np else f for f in (rate, beta1, beta2, epsilon)]
            whole = [more if more.shape else xp.broadcast_to(more, ids.shape + held[0].shape[1:]) for more in added]
            _change(xp, held, ids.reshape(-1), [w.reshape(-1, *held[0].shape[1:]) for w in whole], factors)
        return var

    return run


@bound("_SparseApplyDecayedAdam", refs=(0, 1, 2))
def _sparse_apply_decayed_adam(node: Node) -> Callable[..., Variable]:
    """The same by a gradient, whose ids may repeat: grad * keep1 and grad * grad * keep2 are added."""
    apply = _apply_decayed_adam(node)

    def run(*inputs: Any) -> Variable:
        *others, keep1, keep2, grad, ids = inputs
        return apply(*others, ids, grad * keep1, grad * grad * keep2)

    return run


def _change(xp: Any, held: Sequence[Any], ids: Any, added: Sequence[Any], factors: Sequence[Any]) -> None:
    var, m, v = held
    rate, beta1, beta2, epsilon = factors
    if not ids.size or has_repeats(xp, ids):  # what is added to a row twice moves it once
        for slot, beta, more in ((m, beta1, added[0]), (v, beta2, added[1])):
            slot *= beta
            combine_rows(xp, "ScatterAdd", slot, ids, more)
        var -= rate * m / (xp.sqrt(v) + epsilon)
        return
    decay_others_of(xp, held, ids, factors)
    row, first, second = (array.take(ids, axis=0) for array in held)
    first, second = first * beta1 + added[0], second * beta2 + added[1]
    for array, new in zip(held, (row - rate * first / (xp.sqrt(second) + epsilon), first, second)):
        array[ids] = new
