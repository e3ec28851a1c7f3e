"""Queues and accumulators as ops. Their handles are the resources themselves; their waiting is in resources/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import queue_loops
from sparkflow_runtime.kernels.registry import Node, Prompt, asynchronous, bound, prepares
from sparkflow_runtime.resources.accumulators import Accumulator, SparseAccumulator
from sparkflow_runtime.resources.queue_elements import QueueSpec
from sparkflow_runtime.resources.queues import Queue
from sparkflow_runtime.resources.shuffle_rows import ShuffleLoops
from sparkflow_runtime.wire.dtypes import int64
from sparkflow_runtime.wire.errors import InvalidArgumentError

_CPU = ("CPU",)
Wait = Callable[..., None]


# ---------------------------------------------------------------------- queues


def _spec(node: Node, kind: str) -> QueueSpec:
    types, shapes = tuple(node.attr("component_types", ())), node.attr("shapes") or None
    dims = None if shapes is None else tuple(shape.dims for shape in shapes)
    _check_shapes(f"{kind} {node.name!r}", len(types), dims, kind == "PaddingFIFOQueue")
    if kind == "PriorityQueue":
        types, dims = (int64, *types), None if dims is None else ((), *dims)
    seeds = (node.attr("seed", 0), node.attr("seed2", 0))
    return QueueSpec(kind, types, dims, node.attr("capacity", -1), node.attr("min_after_dequeue", 0), seeds)


def _check_shapes(queue: str, count: int, dims: tuple[Any, ...] | None, padding: bool) -> None:
    if dims is None and not padding:
        return
    if dims is None or len(dims) != count or any(d is None or (None in d and not padding) for d in dims):
        wanted = "a shape of known rank for each" if padding else "a fully known shape for each, or none,"
        raise InvalidArgumentError(f"{queue}: give {wanted} of {count} components, got {dims}")


def _check_same(held: Queue, wanted: QueueSpec) -> None:
    for name in ("kind", "types", "shapes", "capacity", "min_after_dequeue"):
        have, want = getattr(held.spec, name), getattr(wanted, name)
        if have != want:
            raise InvalidArgumentError(
                f"Queue {held.name!r} is held on this task with {name} {have}, and this graph declares {want}. "
                "Give it another shared_name, or declare it alike"
            )


def _queue(kind: str, loops: Callable[[], ShuffleLoops | None]) -> Callable[[Node], Callable[[], Queue]]:
    def factory(node: Node) -> Callable[[], Queue]:
        spec, name, container = _spec(node, kind), node.resource_name, node.container
        held = node.resources.get_or_create(container, name, Queue, lambda: Queue(name, spec, loops()))
        _check_same(held, spec)
        return lambda: held

    return factory


bound("FIFOQueueV2", handle=True, devices=_CPU)(_queue("FIFOQueue", lambda: None))
bound("PaddingFIFOQueueV2", handle=True, devices=_CPU)(_queue("PaddingFIFOQueue", lambda: None))
bound("PriorityQueueV2", handle=True, devices=_CPU)(_queue("PriorityQueue", lambda: None))
bound("RandomShuffleQueueV2", handle=True, devices=_CPU)(_queue("RandomShuffleQueue", queue_loops.loops))
prepares(queue_loops.prepare, "RandomShuffleQueueV2")


@asynchronous("QueueEnqueueV2", devices=_CPU)
def _enqueue(node: Node) -> Wait:
    return Prompt(
        lambda step, done, queue, *components: queue.enqueue(components, done, step),
        lambda queue, *components: queue.try_enqueue(components),
    )


@asynchronous("QueueEnqueueManyV2", devices=_CPU)
def _enqueue_many(node: Node) -> Wait:
    return Prompt(
        lambda step, done, queue, *components: queue.enqueue_many(components, done, step),
        lambda queue, *components: queue.try_enqueue_many(components),
    )


@asynchronous("QueueDequeueV2", devices=_CPU)
def _dequeue(node: Node) -> Wait:
    return Prompt(lambda step, done, queue: queue.dequeue(done, step), lambda queue: queue.try_dequeue())


@asynchronous("QueueDequeueManyV2", "QueueDequeueUpToV2", devices=_CPU)
def _dequeue_many(node: Node) -> Wait:
    up_to = node.op == "QueueDequeueUpToV2"
    return Prompt(
        lambda step, done, queue, n: queue.dequeue_many(int(n), done, step, up_to),
        lambda queue, n: queue.try_dequeue_many(int(n)),
    )


@asynchronous("QueueCloseV2", devices=_CPU)
def _close(node: Node) -> Wait:
    cancel = node.attr("cancel_pending_enqueues", False)
    return lambda step, done, queue: queue.close(cancel, done, step)


@bound("QueueSizeV2", devices=_CPU)
def _size(node: Node) -> Callable[[Queue], np.int32]:
    return lambda queue: np.int32(queue.size)


@bound("QueueIsClosedV2", devices=_CPU)
def _is_closed(node: Node) -> Callable[[Queue], np.bool_]:
    return lambda queue: np.bool_(queue.closed)


# ---------------------------------------------------------------------- accumulators
# By reference or, in graphs that TensorFlow 2 makes, as a resource: the same object.


def _accumulator(kind: type[Accumulator]) -> Callable[[Node], Callable[[], Accumulator]]:
    def factory(node: Node) -> Callable[[], Accumulator]:
        name, dtype, dims = node.resource_name, node.attrs["dtype"], node.attrs["shape"].dims
        if kind is SparseAccumulator and dims == ():
            dims = None  # as TensorFlow's SyncReplicasOptimizer says that the shape is not known
        reduction = node.attr("reduction_type", "MEAN")
        make = lambda: kind(name, dtype, dims, reduction)  # noqa: E731
        held = node.resources.get_or_create(node.container, name, kind, make)
        have, want = (held.dtype.name, held.shape, held.reduction), (dtype.name, dims, reduction)
        if have != want:
            raise InvalidArgumentError(
                f"{held} is held on this task with dtype, shape, reduction {have}, and this graph declares {want}. "
                "Give it another shared_name, or declare it alike"
            )
        return lambda: held

    return factory


bound("ConditionalAccumulator", "ResourceConditionalAccumulator", devices=_CPU)(_accumulator(Accumulator))
bound("SparseConditionalAccumulator", devices=_CPU)(_accumulator(SparseAccumulator))


@bound("ResourceAccumulatorApplyGradient", devices=_CPU)
@bound("AccumulatorApplyGradient", refs=(0,), devices=_CPU)
def _apply_gradient(node: Node) -> Callable[..., None]:
    rank = node.attr("_replica", 0)
    return lambda accumulator, local_step, gradient: accumulator.apply(int(local_step), gradient, rank)


@bound("SparseAccumulatorApplyGradient", refs=(0,), devices=_CPU)
def _apply_rows(node: Node) -> Callable[..., None]:
    rank, shaped = node.attr("_replica", 0), node.attr("has_known_shape", True)

    def run(accumulator: SparseAccumulator, local_step: Any, indices: Any, values: Any, shape: Any) -> None:
        accumulator.apply_rows(int(local_step), indices, values, np.asarray(shape) if shaped else (), rank)

    return run


@asynchronous("ResourceAccumulatorTakeGradient", devices=_CPU)
@asynchronous("AccumulatorTakeGradient", "SparseAccumulatorTakeGradient", refs=(0,), devices=_CPU)
def _take_gradient(node: Node) -> Wait:
    return lambda step, done, accumulator, num_required: accumulator.take(int(num_required), done, step)


@bound("ResourceAccumulatorSetGlobalStep", devices=_CPU)
@bound("AccumulatorSetGlobalStep", refs=(0,), devices=_CPU)
def _set_global_step(node: Node) -> Callable[..., None]:
    return lambda accumulator, new_global_step: accumulator.set_step(int(new_global_step))


@bound("ResourceAccumulatorNumAccumulated", devices=_CPU)
@bound("AccumulatorNumAccumulated", refs=(0,), devices=_CPU)
def _num_accumulated(node: Node) -> Callable[[Accumulator], np.int32]:
    return lambda accumulator: np.int32(accumulator.num_accumulated)
