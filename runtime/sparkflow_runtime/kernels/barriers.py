"""Barriers as ops: their handles are the barriers themselves, whose waiting is in resources/barriers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sparkflow_runtime.kernels.registry import Node, asynchronous, bound
from sparkflow_runtime.resources.barriers import Barrier
from sparkflow_runtime.wire.errors import InvalidArgumentError

_CPU = ("CPU",)


@bound("Barrier", devices=_CPU)
def _barrier(node: Node) -> Callable[[], Barrier]:
    types, dims = tuple(node.attrs["component_types"]), tuple(s.dims for s in node.attr("shapes", ()))
    if len(dims) != len(types) or any(d is None or None in d for d in dims):
        raise InvalidArgumentError(
            f"Barrier {node.name!r}: All of the component shapes must be specified, for {len(types)} types, got {dims}"
        )
    if node.attr("capacity", -1) != -1:
        raise InvalidArgumentError(
            f"Barrier {node.name!r} only accepts capacity=-1, got {node.attr('capacity')}. Feed the inputs to your "
            "Barrier through a queue to enforce a limited capacity"
        )
    name = node.resource_name
    held = node.resources.get_or_create(node.container, name, Barrier, lambda: Barrier(name, types, dims))
    if (held.types, held.shapes) != (types, dims):
        have, want = ((tuple(t.name for t in kinds), of) for kinds, of in ((held.types, held.shapes), (types, dims)))
        raise InvalidArgumentError(
            f"{held} is held on this task with types and shapes {have}, and this graph declares {want}. "
            "Give it another shared_name, or declare it alike"
        )
    return lambda: held


@bound("BarrierInsertMany", refs=(0,), devices=_CPU)
def _insert_many(node: Node) -> Callable[..., None]:
    component = node.attrs["component_index"]
    return lambda barrier, keys, values: barrier.insert_many(keys, values, component)


@asynchronous("BarrierTakeMany", refs=(0,), devices=_CPU)
def _take_many(node: Node) -> Callable[..., None]:
    """wait_for_incomplete changes nothing, as in TensorFlow."""
    small = node.attr("allow_small_batch", False)
    if node.attr("timeout_ms", -1) != -1:
        raise InvalidArgumentError(
            f"BarrierTakeMany {node.name!r}: Timeout not supported yet; give the run RunOptions(timeout_in_ms)"
        )
    return lambda step, done, barrier, n: barrier.take_many(int(n), small, done, step)


@bound("BarrierClose", refs=(0,), devices=_CPU)
def _close(node: Node) -> Callable[[Barrier], None]:
    cancel = node.attr("cancel_pending_enqueues", False)
    return lambda barrier: barrier.end(cancel)


@bound("BarrierReadySize", refs=(0,), devices=_CPU)
def _ready_size(node: Node) -> Callable[[Barrier], np.int32]:
    return lambda barrier: np.int32(barrier.ready_size)


@bound("BarrierIncompleteSize", refs=(0,), devices=_CPU)
def _incomplete_size(node: Node) -> Callable[[Barrier], np.int32]:
    return lambda barrier: np.int32(barrier.incomplete_size)
