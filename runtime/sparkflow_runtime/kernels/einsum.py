"""Einsum: products of two inputs at a time, by BLAS where labels are summed over.

How a product is made is worked out once for the shapes of its inputs: an input's labels are put in the order batch,
free, summed (or batch, summed, free where it lies so already) and joined to three axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from sparkflow_runtime.kernels.math import product
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.wire.errors import InvalidArgumentError

Shape = tuple[int, ...]
Function = Callable[..., Any]
_KINDS = 256  # shapes whose products are held
_ELLIPSIS = "..."


@bound("Einsum", stateful=False)
def _einsum(node: Node) -> Function:
    xp, equation = node.xp, node.attrs["equation"].replace(" ", "")
    left, _, result = equation.partition("->")

    def run(*inputs: Any) -> Any:
        steps = _steps(left, result, tuple(x.shape for x in inputs)) if len(inputs) > 1 else None
        if steps is None:
            return _by_numpy(xp, equation, inputs)
        held = list(inputs)
        for i, j, make in steps:
            b, a = held.pop(j), held.pop(i)
            held.append(make(xp, a, b))
        return held[0] if held[0].dtype == inputs[0].dtype else held[0].astype(inputs[0].dtype)

    return run


def _by_numpy(xp: Any, equation: str, inputs: Sequence[Any]) -> Any:
    """What has an input with a label twice, or sizes to broadcast, or one input alone."""
    left, _, result = equation.partition("->")
    once = "".join(dict.fromkeys(result.replace(_ELLIPSIS, "")))
    kind = inputs[0].dtype
    if kind == bfloat16:  # of which numpy's einsum knows nothing
        return _by_numpy(xp, equation, [x.astype(np.float32) for x in inputs]).astype(kind)
    try:
        if len(once) == len(result.replace(_ELLIPSIS, "")):
            found = xp.einsum(equation, *inputs, optimize=len(inputs) > 1)
            return xp.asarray(found).astype(inputs[0].dtype, copy=False)
        return _diagonal(xp, left, once, result, inputs)
    except ValueError as error:
        raise InvalidArgumentError(f"Einsum {equation!r} of {[list(x.shape) for x in inputs]}: {error}") from None


def _diagonal(xp: Any, left: str, once: str, result: str, inputs: Any) -> Any:
    """A label that the result has twice: values where both agree, zeros elsewhere."""
    dots = _ELLIPSIS if _ELLIPSIS in result else ""
    values = xp.einsum(f"{left}->{dots}{once}", *inputs)
    lead = values.ndim - len(once)  # the axes of the ellipsis
    sizes = {c: [size] for c, size in zip(once, values.shape[lead:])} | {".": list(values.shape[:lead])}
    out = xp.zeros([size for c in result.replace(_ELLIPSIS, ".") for size in sizes[c]], values.dtype)
    xp.einsum(f"{result}->{dots}{once}", out)[...] = values
    return out


# ---------------------------------------------------------------------- what is worked out once

Step = tuple[int, int, Function]  # places of a and b among what is left, (xp, a, b) -> what joins them at the end


@lru_cache(_KINDS)
def _steps(left: str, result: str, shapes: tuple[Shape, ...]) -> list[Step] | None:
    """None where not every step is a product of two inputs whose labels have one size each."""
    labels = _written_out(left.split(","), result, shapes)
    if labels is None:
        return None
    *held, wanted = labels
    if any(len(set(one)) < len(one) for one in labels) or not set(wanted) <= set("".join(held)):
        return None
    sizes: dict[str, int] = {}
    for own, shape in zip(held, shapes):
        if len(own) != len(shape) or any(sizes.setdefault(c, n) != n for c, n in zip(own, shape)):
            return None
    steps: list[Step] = []
    for i, j in _order(held, wanted, shapes):
        b, a = held.pop(j), held.pop(i)
        later = set(wanted).union(*held)
        made = wanted if not held else "".join(c for c in dict.fromkeys(a + b) if c in later)
        steps.append((i, j, _Product(a, b, made, sizes)))
        held.append(made)
    return steps


def _written_out(inputs: list[str], result: str, shapes: tuple[Shape, ...]) -> list[str] | None:
    """The labels of the inputs and of the result, with letters of their own for the axes of an ellipsis."""
    if len(inputs) != len(shapes):
        return None
    texts = [*inputs, result]
    if not any(_ELLIPSIS in one for one in texts):
        return texts
    free = [c for c in map(chr, range(ord("A"), ord("z") + 1)) if c.isalpha() and not any(c in one for one in texts)]
    counts = [len(s) - len(one) + 3 for one, s in zip(inputs, shapes) if _ELLIPSIS in one]
    most = max(counts, default=0)
    if min(counts, default=0) < 0 or most > len(free):
        return None
    axes = "".join(free[:most])
    own = [axes[most - len(s) + len(one) - 3 :] if _ELLIPSIS in one else "" for one, s in zip(inputs, shapes)]
    return [one.replace(_ELLIPSIS, more) for one, more in zip(texts, [*own, axes])]


def _order(held: list[str], wanted: str, shapes: tuple[Shape, ...]) -> list[tuple[int, int]]:
    if len(held) == 2:
        return [(0, 1)]
    path, _ = np.einsum_path(f"{','.join(held)}->{wanted}", *map(np.empty, shapes), optimize="greedy")
    pairs: list[tuple[int, int]] = []
    for places in path[1:]:  # several at once are multiplied one after the other
        first, *more = sorted(places)
        pairs += [(first, more[0])] if len(more) == 1 else [(0, 1)] * len(more)
    return pairs


class _Product:
    """a and b, with these labels, to a result with those."""

    def __init__(self, a: str, b: str, result: str, sizes: dict[str, int]):
        self.sums = tuple(
            tuple(i for i, c in enumerate(one) if c not in other and c not in result) for one, other in ((a, b), (b, a))
        )
        a, b = ("".join(c for i, c in enumerate(one) if i not in over) for one, over in zip((a, b), self.sums))
        batch = [c for c in a if c in b and c in result]
        summed = [c for c in a if c in b and c not in result]
        only_a, only_b = [c for c in a if c not in b], [c for c in b if c not in a]
        first = next((c for c in result if c not in batch), "")
        self.swapped = first in only_b  # then the result's rows are b's
        if self.swapped:
            a, b, only_a, only_b, self.sums = b, a, only_b, only_a, self.sums[::-1]
        self.dot = not only_a and not only_b and bool(batch)
        self.equation = f"{a},{b}->{result}"
        self.left = _Joined(a, batch, only_a, summed, sizes)
        self.right = _Joined(b, batch, summed, only_b, sizes)
        self.multiplies = not summed
        made = [*batch, *only_a, *only_b]
        self.shape = tuple(sizes[c] for c in made)
        self.order = tuple(made.index(c) for c in result)
        self.straight = self.order == tuple(range(len(made)))

    def __call__(self, xp: Any, a: Any, b: Any) -> Any:
        a, b = (b, a) if self.swapped else (a, b)
        a, b = (x.sum(over, dtype=x.dtype) if over else x for x, over in zip((a, b), self.sums))
        if self.dot:  # of rows by rows: BLAS would be called for each
            return xp.einsum(self.equation, a, b)
        a, b = self.left(a), self.right(b)
        found = (a * b if self.multiplies else product(xp, a, b)).reshape(self.shape)
        return found if self.straight else xp.ascontiguousarray(found.transpose(self.order))


class _Joined:
    """An input as [batch, rows, columns], without the first where there is no batch."""

    def __init__(self, own: str, batch: list[str], rows: list[str], columns: list[str], sizes: dict[str, int]):
        lead = [own.index(c) for c in batch]
        at = [own.index(c) for c in rows], [own.index(c) for c in columns]
        counts = [int(np.prod([sizes[c] for c in part], dtype=np.int64)) for part in (rows, columns)]
        self.turned = bool(at[0] and at[1]) and at[1] + at[0] == sorted(at[1] + at[0])
        if self.turned:
            at, counts = at[::-1], counts[::-1]
        self.order = (*lead, *at[0], *at[1])
        self.straight = self.order == tuple(range(len(own)))
        self.shape = (*([int(np.prod([sizes[c] for c in batch], dtype=np.int64))] if batch else []), *counts)

    def __call__(self, x: Any) -> Any:
        if not self.straight:
            x = x.transpose(self.order)
        x = x.reshape(self.shape)
        return x.swapaxes(-1, -2) if self.turned else x
