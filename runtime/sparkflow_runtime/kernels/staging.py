"""Staging areas as ops: each names its area by shared_name, so that no handle is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.registry import Function, Node, asynchronous, bound
from sparkflow_runtime.resources.staging import StagingArea
from sparkflow_runtime.wire.errors import InvalidArgumentError

_CPU = ("CPU",)


def _area(node: Node) -> StagingArea:
    name, limits = node.resource_name, (node.attr("capacity", 0), node.attr("memory_limit", 0))
    if min(limits) < 0:
        raise InvalidArgumentError(
            f"{node.op} {node.name!r}: capacity and memory_limit must be 0 or more, got {limits}"
        )
    held = node.resources.get_or_create(node.container, name, StagingArea, lambda: StagingArea(name, *limits))
    if (held.capacity, held.memory_limit) != limits:
        have = held.capacity, held.memory_limit
        raise InvalidArgumentError(
            f"Staging area {name!r} is held on this task with capacity and memory_limit {have}, and this graph "
            f"declares {limits}"
        )
    return held


@asynchronous("Stage", devices=_CPU)
def _stage(node: Node) -> Function:
    area = _area(node)
    return lambda step, done, *values: area.put(tuple(map(_own, values)), done, step)


def _own(value: Any) -> Any:
    """A copy: the caller's memory may change, as it is a feed or a variable."""
    return value.copy() if isinstance(value, np.ndarray) else value


@asynchronous("Unstage", devices=_CPU)
def _unstage(node: Node) -> Function:
    area = _area(node)
    return lambda step, done: area.get(done, step)


@asynchronous("StagePeek", devices=_CPU)
def _peek(node: Node) -> Function:
    area = _area(node)
    return lambda step, done, index: area.peek(int(index), lambda error, out: done(error, [_own(v) for v in out]), step)


@bound("StageSize", devices=_CPU)
def _size(node: Node) -> Callable[[], np.int32]:
    area = _area(node)
    return lambda: np.int32(area.size)


@bound("StageClear", devices=_CPU)
def _clear(node: Node) -> Callable[[], None]:
    return _area(node).clear
