"""Sizes of tensors that must agree, by the letters that stand for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.shapes import show
from sparkflow.ops import array, checks, control_flow
from sparkflow.ops.array_slice import getitem

_ANY = (Ellipsis, "*")


def assert_shapes(
    shapes: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: str | None = None
) -> Operation:
    """The op that checks that tensors have sizes that agree: shapes are pairs of a tensor and its sizes, or a dict.

    A size is a number, None for any, or a text that stands for the same size wherever it is; `...` or "*" in front
    stands for any axes. Raises ValueError where the static shapes say that it is wrong; InvalidArgumentError when it
    runs.
    """
    pairs = list(shapes.items() if isinstance(shapes, Mapping) else shapes)
    known: dict[Any, tuple[int | None, Any, str]] = {}  # a text -> its size, as far as it is known, and whose it is
    found: list[Operation] = []
    with get_default_graph().name_scope(name or "assert_shapes"):
        for given, wanted in pairs:
            tensor, sizes = convert_to_tensor(given), _sizes(wanted)
            open_ = bool(sizes) and sizes[0] in _ANY
            sizes = sizes[1:] if open_ else sizes
            assert_rank = checks.assert_rank_at_least if open_ else checks.assert_rank
            found.append(assert_rank(tensor, len(sizes), data, summarize, message))
            for place, size in zip(range(-len(sizes), 0), sizes):
                found += _checked(tensor, place, size, known, (data, summarize, message))
        return control_flow.group(*found)


def _sizes(wanted: Any) -> tuple[Any, ...]:
    return tuple(wanted) if isinstance(wanted, (Sequence, str)) or hasattr(wanted, "__iter__") else (wanted,)


def _checked(tensor: Tensor, place: int, size: Any, known: dict[Any, Any], told: tuple[Any, ...]) -> list[Operation]:
    """That the axis has that size, a number or what the text stands for."""
    if size is None or size == ".":
        return []
    static = None if tensor._shape is None else tensor._shape[place]
    own = static if static is not None else getitem(array.shape(tensor), place)
    if not isinstance(size, str):
        wanted, dynamic, whose = int(size), int(size), "Specified explicitly"
    elif size in known:
        wanted, dynamic, whose = known[size]
    else:
        known[size] = static, own, f"Specified by tensor {tensor.name} dimension {place}"
        return []
    if static is not None and wanted is not None:
        if static != wanted:
            raise ValueError(
                f"{told[2] or ''}{whose}. Tensor {tensor.name} dimension {place} must have size {wanted}. "
                f"Received size {static}, shape {show(tensor._shape)}"
            )
        return []
    if isinstance(size, str) and wanted is None and static is not None:
        known[size] = static, static, f"Specified by tensor {tensor.name} dimension {place}"
    return [checks.assert_equal(own, dynamic, *told)]
