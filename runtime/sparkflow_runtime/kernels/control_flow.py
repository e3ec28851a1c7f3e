"""Kernels that do nothing but run, and checks."""

from __future__ import annotations

import sys
from itertools import count
from typing import Any

from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.registry import Function, Node, bound, kernel
from sparkflow_runtime.wire.errors import InvalidArgumentError

kernel("NoOp", "ControlTrigger", multi=True)(lambda xp: ())

# ---------------------------------------------------------------------- primitives
# What they do with frames and dead values is the plan's; these rows say what becomes of the value of their input.

kernel("Enter", "Exit", "NextIteration", "LoopCond", "Merge", aliases=True)(lambda xp, x: x)
kernel("Switch", aliases=True)(lambda xp, x, predicate: x)
for _op in ("RefEnter", "RefExit", "RefNextIteration", "RefSwitch", "RefMerge", "RefIdentity"):
    bound(_op, refs=(0,))(lambda node: lambda ref, *others: ref)


def truth(predicate: Any) -> bool:
    """The value of a Switch's or LoopCond's predicate. Raises InvalidArgumentError unless it is a scalar."""
    if predicate.shape:
        raise InvalidArgumentError(f"The predicate of a branch or loop must be a scalar, got shape {predicate.shape}")
    return bool(predicate)


# ---------------------------------------------------------------------- checks


def _shown(values: tuple[Any, ...], summarize: int) -> str:
    """The first `summarize` values of each array, all where it is negative."""
    parts = []
    for value in values:
        flat = host(value).ravel()
        first = flat if summarize < 0 else flat[:summarize]
        text = " ".join(v.decode(errors="replace") if isinstance(v, bytes) else str(v) for v in first)
        parts.append(f"[{text}{'...' if len(first) < len(flat) else ''}]")
    return " ".join(parts)


@bound("Assert", multi=True)
def _assert(node: Node) -> Function:
    summarize = node.attr("summarize", 3)

    def run(condition: Any, *data: Any) -> Any:
        if not condition:
            raise InvalidArgumentError(node, None, f"assertion failed: {_shown(data, summarize)} [op {node.name!r}]")
        return ()

    return run


@bound("CheckNumerics", aliases=True)
def _check_numerics(node: Node) -> Function:
    xp, tensor = node.xp, next(iter(node.inputs), "")

    def run(x: Any) -> Any:
        if not bool(xp.isfinite(x).all()):
            kinds = [k for k, found in (("Inf", xp.isinf(x)), ("NaN", xp.isnan(x))) if bool(found.any())]
            text = f"{node.attr('message')} : Tensor had {' and '.join(kinds)} values"
            raise InvalidArgumentError(node, None, f"{text} (shape {x.shape}, made by {tensor!r})")
        return x

    return run


@bound("Print", aliases=True)
def _print(node: Node) -> Function:
    calls, limit = count(), node.attr("first_n", -1)

    def run(x: Any, *data: Any) -> Any:
        if limit < 0 or next(calls) < limit:
            print(f"{node.attr('message', '')}{_shown(data, node.attr('summarize', 3))}", file=sys.stderr)
        return x

    return run


@bound("EnsureShape", aliases=True, stateful=False)
def _ensure_shape(node: Node) -> Function:
    dims = node.attrs["shape"].dims

    def run(x: Any) -> Any:
        if dims is not None and (len(dims) != x.ndim or any(d not in (None, n) for d, n in zip(dims, x.shape))):
            wanted = ["?" if d is None else d for d in dims]
            raise InvalidArgumentError(
                node,
                None,
                f"Shape of tensor {node.inputs[0]} {list(x.shape)} is not compatible with expected shape {wanted}.",
            )
        return x

    return run
