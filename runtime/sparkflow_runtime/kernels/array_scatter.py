"""Kernels that put updates at index vectors: into a variable, or into a copy of a tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.registry import Node, bound, kernel
from sparkflow_runtime.kernels.row_numbers import flat_rows
from sparkflow_runtime.kernels.rows import combine_in_rounds, has_repeats, put_rows
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire.errors import InvalidArgumentError

_COMBINE = {"Add": "add", "Sub": "subtract", "Max": "maximum", "Min": "minimum"}


def _scattered(xp: Any, op: str, held: Any, indices: Any, updates: Any) -> None:
    """held[index vectors] = (or +=, ...) updates, in place; of a repeated index every update counts, in order."""
    depth = indices.shape[-1] if indices.ndim else 1
    if not indices.ndim or depth > held.ndim or updates.shape != indices.shape[:-1] + held.shape[depth:]:
        raise InvalidArgumentError(
            f"{op}: Must have updates.shape = indices.shape[:-1] + params.shape[indices.shape[-1]:], got updates.shape "
            f"{list(updates.shape)}, indices.shape {list(indices.shape)}, params.shape {list(held.shape)}"
        )
    at = flat_rows(xp, indices, held.shape, op).reshape(-1)
    rest = held.shape[depth:]
    rows, new = held.reshape(math.prod(held.shape[:depth]), *rest), updates.reshape(at.size, *rest)
    kind = op.removeprefix("TensorScatter").removeprefix("ScatterNd")
    if kind == "Update":
        put_rows(xp, rows, at, new)
    elif not has_repeats(xp, at):
        rows[at] = getattr(xp, _COMBINE[kind])(rows[at], new)
    elif xp is np:
        getattr(np, _COMBINE[kind]).at(rows, at, new)
    else:
        combine_in_rounds(xp, getattr(xp, _COMBINE[kind]), rows, at, new)


def _into_tensor(op: str) -> None:
    def run(xp: Any, tensor: Any, indices: Any, updates: Any) -> Any:
        out = xp.array(tensor, order="C")
        _scattered(xp, op, out, indices, updates)
        return out

    kernel(op)(run)


for _kind in ("Update", *_COMBINE):
    _into_tensor(f"TensorScatter{_kind}")


@bound("ScatterNdUpdate", *(f"ScatterNd{_kind}" for _kind in _COMBINE), refs=(0,))
def _into_variable(node: Node) -> Callable[..., Variable]:
    def run(ref: Variable, indices: Any, updates: Any) -> Variable:
        with ref.lock:
            _scattered(node.xp, node.op, ref.read(), node.xp.asarray(indices), node.xp.asarray(updates))
        return ref

    return run
