"""Adam whose moments decay in all rows: a table and its two slots in one pass, block by block in the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.host import check_indices
from sparkflow_runtime.kernels.parallel import runs, scratch, share
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.sorting import grouped
from sparkflow_runtime.kernels.state import check_scatter, combine_rows, show
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire.errors import InvalidArgumentError

_BLOCK = 1 << 16  # items at once
_FLOATS = ("float32", "float64")


@bound("_ApplyDecayedAdam", refs=(0, 1, 2))
def _apply_decayed_adam(node: Node) -> Callable[..., Variable]:
    xp = node.xp
    moved.prepare()

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
    dtype, width = held[0].dtype, held[0].shape[1]
    tables, flat = [a.reshape(-1) for a in held], [np.ascontiguousarray(a, dtype).reshape(-1) for a in added]
    numbers, four = np.ascontiguousarray(ids, np.int64), np.array(factors, dtype)
    loop = moved if dtype.name in _FLOATS else moved.numpy

    def work(blocks: Sequence[tuple[int, int]]) -> None:
        for first, count in blocks:
            begin, end = np.searchsorted(numbers, (first, first + count))
            mine = [a[begin * width : end * width] for a in flat]
            loop(*tables, four, numbers[begin:end], *mine, first, first + count, width)

    share(work, runs(len(held[0]), max(1, _BLOCK // max(1, width))))


_TABLE, _GIVEN = "{0}[::1]", "Array({0}, 1, 'C', readonly=True)"
_NUMBERS = f"{_GIVEN}, Array(int64, 1, 'C', readonly=True)"
_SIGNATURE = f"void({_TABLE}, {_TABLE}, {_TABLE}, {_NUMBERS}, {_GIVEN}, {_GIVEN}, int64, int64, int64)"


@compiled([_SIGNATURE.format(kind) for kind in _FLOATS])
def moved(
    var: Any, m: Any, v: Any, factors: Any, ids: Any, added_m: Any, added_v: Any, first: Any, stop: Any, width: Any
) -> None:
    """The rows of `width` items from `first` to `stop`; ids: of these rows, in order, those that something is added to.
    factors: rate, beta1, beta2, epsilon."""
    rate, beta1, beta2, epsilon = factors[0], factors[1], factors[2], factors[3]
    size, count = np.uint64(width), np.uint64(ids.shape[0])
    at = np.uint64(first) * size
    for i in range(count + np.uint64(1)):
        end = (np.uint64(ids[i]) if i < count else np.uint64(stop)) * size
        for k in range(at, end):
            one, two = m[k] * beta1, v[k] * beta2
            m[k], v[k] = one, two
            var[k] -= rate * one / (np.sqrt(two) + epsilon)
        if i < count:
            source = i * size
            for k in range(size):
                one, two = m[end + k] * beta1 + added_m[source + k], v[end + k] * beta2 + added_v[source + k]
                m[end + k], v[end + k] = one, two
                var[end + k] -= rate * one / (np.sqrt(two) + epsilon)
            at = end + size


@moved.otherwise
def _(
    var: Any, m: Any, v: Any, factors: Any, ids: Any, added_m: Any, added_v: Any, first: Any, stop: Any, width: Any
) -> None:
    rate, beta1, beta2, epsilon = factors
    table, one, two = (a.reshape(-1, width)[first:stop] for a in (var, m, v))
    one *= beta1
    two *= beta2
    one[ids - first] += added_m.reshape(-1, width)
    two[ids - first] += added_v.reshape(-1, width)
    step = np.multiply(one, rate, out=scratch("adam step", one.shape, one.dtype))
    root = np.sqrt(two, out=scratch("adam root", two.shape, two.dtype))
    root += epsilon
    step /= root
    table -= step
