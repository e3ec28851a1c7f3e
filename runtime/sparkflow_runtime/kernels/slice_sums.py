"""Sums of tensors of which each is zero but for a slice (master/passes/slice_gradients.py)."""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.kernels.array_slice import index_of
from sparkflow_runtime.kernels.host import ints
from sparkflow_runtime.kernels.registry import Function, Node, bound
from sparkflow_runtime.wire.errors import InvalidArgumentError


@bound("_AddSlices", stateful=False)
def _add_slices(node: Node) -> Function:
    """ranks: how many numbers each of begins, ends and strides has for an input; -1 for one that is no slice. masks:
    five an input, in the order in which StridedSlice has them."""
    keys = _keys(node)

    def run(shape: Any, *terms: Any) -> Any:
        dims = ints(shape)
        out: Any = None
        for k, (key, term) in enumerate(zip(keys, terms)):
            if key is None:
                out = node.xp.array(term) if out is None else node.xp.add(out, term, out=out)
                continue
            is_first = out is None
            out = node.xp.zeros(dims, term.dtype) if is_first else out
            place = out[key]
            if place.shape != term.shape:
                text = f"StridedSliceGrad: dy must have shape {place.shape}, got {term.shape}"
                raise InvalidArgumentError(node.member(k, "StridedSliceGrad"), None, text)
            out[key] = term if is_first else place + term if not place.ndim else node.xp.add(place, term, out=place)
        return out

    return run


def _keys(node: Node) -> list[tuple[Any, ...] | None]:
    keys: list[tuple[Any, ...] | None] = []
    masks, end = [int(n) for n in node.attrs["masks"]], 0
    begins, ends, strides = ([int(n) for n in node.attr(name, ())] for name in ("begins", "ends", "strides"))
    for k, rank in enumerate(map(int, node.attrs["ranks"])):
        begin, end = end, end + max(rank, 0)
        at = slice(begin, end)
        keys.append(None if rank < 0 else index_of(begins[at], ends[at], strides[at], masks[5 * k : 5 * k + 5]))
    return keys
