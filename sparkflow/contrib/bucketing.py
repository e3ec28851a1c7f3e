"""tf.contrib.training.bucket: batches of examples that belong together, such as sequences of like length, by queues."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, control_flow, data_flow, math, math_reduce
from sparkflow.ops.array_join import stack
from sparkflow.ops.control_flow_cond import cond
from sparkflow.train.input import _element_shapes, _flat, _like, _stored, _taken
from sparkflow.train.queue_runner import QueueRunner, add_queue_runner
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import CancelledError, OutOfRangeError

_ENDS = (OutOfRangeError, CancelledError)


def bucket(
    tensors: Any, which_bucket: Any, batch_size: int | Sequence[int], num_buckets: int, num_threads: int = 1,
    capacity: int = 32, bucket_capacities: Sequence[int] | None = None, shapes: Any = None, dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False, keep_input: Any = True, shared_name: str | None = None,
    name: str | None = None,
) -> tuple[Tensor, Any]:  # fmt: skip
    """(the bucket, a batch of its examples): `tensors` (a tensor, list or dict) wait in the queue of the bucket that
    `which_bucket` says, until there are batch_size of them (a list: of each bucket); capacity is in batches.

    The rest as of tf.train.batch; keep_input: false for examples that are left out. Queue runners do the work. Raises
    ValueError where batch sizes or capacities are not as many as the buckets.
    """
    sizes = _each(batch_size, num_buckets, "batch_size")
    rooms = _each(bucket_capacities if bucket_capacities is not None else capacity, num_buckets, "bucket_capacities")
    if num_buckets < 2:
        raise ValueError(f"num_buckets must be at least 2, got {num_buckets}")
    with get_default_graph().name_scope(name or "bucket"):
        stored = [_stored(t, False) for t in _flat(tensors)]
        own = _element_shapes([stored], False, dynamic_pad) if shapes is None else shapes
        kinds = [t.dtype.base_dtype for t in stored]
        make = data_flow.PaddingFIFOQueue if dynamic_pad else data_flow.FIFOQueue
        queues = [
            make(room, kinds, own, shared_name=f"{shared_name}_{i}" if shared_name else None, name=f"bucket_queue_{i}")
            for i, room in enumerate(rooms)
        ]
        ready = data_flow.FIFOQueue(capacity, [dtypes.int32, *kinds], shared_name=shared_name, name="top_queue")
        which, keep = math.cast(convert_to_tensor(which_bucket), dtypes.int32), convert_to_tensor(keep_input)

        def put(i: int) -> Any:
            wanted = math.logical_and(keep, math.equal(which, i))
            return cond(wanted, lambda: control_flow.group(queues[i].enqueue(stored)), control_flow.no_op)

        def moved(i: int) -> Any:
            queue = queues[i]
            taken = (queue.dequeue_up_to if allow_smaller_final_batch else queue.dequeue_many)(sizes[i])
            rows = taken if isinstance(taken, (list, tuple)) else [taken]
            return ready.enqueue([array.constant(i, dtypes.int32), *rows])

        closed = control_flow.group(*(queue.close() for queue in queues))
        cancelled = control_flow.group(*(queue.close(cancel_pending_enqueues=True) for queue in queues))
        enqueued = control_flow.group(*(put(i) for i in range(num_buckets)))
        add_queue_runner(QueueRunner(queues[0], [enqueued] * num_threads, closed, cancelled, _ENDS))
        add_queue_runner(QueueRunner(ready, [moved(i) for i in range(num_buckets)], queue_closed_exception_types=_ENDS))
        found, *rows = ready.dequeue()
        size = sizes[0] if len({*sizes}) == 1 and not allow_smaller_final_batch else None
        for row, shape in zip(rows, own):
            row.set_shape([size, *([None] * len(shape) if dynamic_pad else shape)])
        return found, _like(tensors, [_taken(row, t, False) for row, t in zip(rows, _flat(tensors))])


def bucket_by_sequence_length(
    input_length: Any, tensors: Any, batch_size: int | Sequence[int], bucket_boundaries: Sequence[int],
    num_threads: int = 1, capacity: int = 32, bucket_capacities: Sequence[int] | None = None, shapes: Any = None,
    dynamic_pad: bool = False, allow_smaller_final_batch: bool = False, keep_input: Any = True,
    shared_name: str | None = None, name: str | None = None,
) -> tuple[Tensor, Any]:  # fmt: skip
    """(the lengths, a batch): bucket i has the lengths from bucket_boundaries[i - 1] to less than bucket_boundaries[i].

    Raises ValueError where boundaries do not rise, or batch sizes are not one more than they are.
    """
    edges = list(bucket_boundaries)
    if not edges or any(later <= before for before, later in pairwise(edges)):
        raise ValueError(f"bucket_boundaries must be integers that rise, got {edges}")
    length = math.cast(convert_to_tensor(input_length), dtypes.int32)
    with get_default_graph().name_scope(name or "bucket_by_sequence_length"):
        which = math_reduce.reduce_sum(math.cast(stack([math.less_equal(e, length) for e in edges]), dtypes.int32))
        flat = [length, *_flat(tensors)]
        given = None if shapes is None else [[], *shapes]
        _, (lengths, *rows) = bucket(
            flat, which, batch_size, len(edges) + 1, num_threads, capacity, bucket_capacities, given, dynamic_pad,
            allow_smaller_final_batch, keep_input, shared_name,
        )  # fmt: skip
        return lengths, rows if isinstance(tensors, (list, tuple)) else _like(tensors, rows)  # a list of one, too


def _each(value: Any, count: int, name: str) -> list[int]:
    values = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(values) != count:
        raise ValueError(f"{name} must be one number or {count}, one for each bucket, got {values}")
    return values
