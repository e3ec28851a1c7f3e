"""Adam whose moments decay in all rows: a table and its two slots in one pass, block by block in the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import check_indices
from sparkflow_runtime.kernels.parallel import runs, scratch, share
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.sorting import grouped
from sparkflow_runtime.kernels.state import check_scatter, combine_rows, show
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire.errors import InvalidArgumentError

_BLOCK = 1 << 15  # items at once: of five arrays they fit into a core's cache


@bound("_ApplyDecayedAdam", refs=(0, 1, 2))
def _apply_decayed_adam(node: Node) -> Callable[..., Variable]:
    xp = node.xp

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


def _change(xp: Any, held: Sequence[Any], ids: Any, added: Sequence[Any], factors: Sequence[Any]) -> None:
    if xp is np and all(a.flags.c_contiguous for a in held) and held[0].size:
        ordered, order, starts = grouped(np, ids) if ids.size else (ids, ids, ids)
        if len(starts) == len(ids):
            _by_blocks([a.reshape(len(a), -1) for a in held], ordered, [a[order] for a in added], factors)
            return
    var, m, v = held
    rate, beta1, beta2, epsilon = factors
    for slot, beta, more in ((m, beta1, added[0]), (v, beta2, added[1])):
        slot *= beta
        combine_rows(xp, "ScatterAdd", slot, ids, more)
    var -= rate * m / (xp.sqrt(v) + epsilon)


def _by_blocks(held: Sequence[Any], ids: Any, added: Sequence[Any], factors: Sequence[Any]) -> None:
    """ids: in order, none twice; added: their rows."""
    rate, beta1, beta2, epsilon = factors
    width = held[0].shape[1]
    flat = [a.reshape(len(ids), width) for a in added]

    def work(blocks: Sequence[tuple[int, int]]) -> None:
        for first, count in blocks:
            var, m, v = (a[first : first + count] for a in held)
            begin, end = np.searchsorted(ids, (first, first + count))
            here = ids[begin:end] - first
            np.multiply(m, beta1, out=m)
            np.multiply(v, beta2, out=v)
            m[here] += flat[0][begin:end]
            v[here] += flat[1][begin:end]
            step = np.multiply(m, rate, out=scratch("adam step", m.shape, m.dtype))
            root = np.sqrt(v, out=scratch("adam root", v.shape, v.dtype))
            root += epsilon
            step /= root
            var -= step

    share(work, runs(len(held[0]), max(1, _BLOCK // max(1, width))))
