"""Input pipelines of queues: a producer of examples, and batches of what one thread or several enqueue.

Every function adds its queue runner to the graph: tf.train.start_queue_runners (or a monitored session) sets it going,
and the end of the data reaches the trainer as OutOfRangeError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow import summary
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.sparse_tensor import SparseTensor, rank_of
from sparkflow.ops import array, array_slice, data_flow, files, math, state
from sparkflow.ops.control_flow import Assert
from sparkflow.ops.random import random_shuffle
from sparkflow.ops.sparse_serialized import deserialize_many_sparse, serialize_many_sparse, serialize_sparse
from sparkflow.ops.variables import Variable
from sparkflow.train.queue_runner import QueueRunner, add_queue_runner
from sparkflow_runtime.wire.dtypes import float32, int64, string


def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Tensor:
    """The tensor, `num_epochs` times; then OutOfRangeError. The count is a local variable: run its initializer."""
    tensor = convert_to_tensor(tensor)
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be > 0 not {num_epochs}.")
    with get_default_graph().name_scope(name or "limit_epochs") as scope:
        zero = array.zeros([], int64)
        epochs = Variable(zero, trainable=False, name="epochs", collections=[GraphKeys.LOCAL_VARIABLES])
        counter = state.count_up_to(epochs, num_epochs)
        with get_default_graph().control_dependencies([counter]):
            return array.identity(tensor, name=scope)


def input_producer(
    input_tensor: Any,
    element_shape: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> Any:
    """A FIFO queue of the rows of `input_tensor`, each `num_epochs` times (for ever), shuffled within an epoch."""
    with get_default_graph().name_scope(name or "input_producer") as scope:
        input_tensor = convert_to_tensor(input_tensor, name="input_tensor")
        shape = input_tensor.shape[1:].merge_with(element_shape)
        if not shape.is_fully_defined():
            raise ValueError(
                f"Either input_tensor must have a fully defined shape or element_shape must be, got {shape}"
            )
        rows = random_shuffle(input_tensor, seed=seed) if shuffle else input_tensor
        rows = limit_epochs(rows, num_epochs)
        kinds = [input_tensor.dtype.base_dtype]
        queue = data_flow.FIFOQueue(capacity, kinds, [shape], shared_name=shared_name, name=scope)
        add_queue_runner(QueueRunner(queue, [queue.enqueue_many([rows])], cancel_op=cancel_op))
        if summary_name is not None:
            _summarise(queue, capacity, summary_name)
        return queue


def _summarise(queue: Any, capacity: int, name: str | None = None) -> None:
    """How full it is, of what it holds beyond what it keeps."""
    kept = queue.queue_ref.op.attrs.get("min_after_dequeue", 0)
    size = math.maximum(0, queue.size() - kept) if kept else queue.size()
    of = f"over_{kept}_of_{capacity - kept}" if kept else f"of_{capacity}"
    summary.scalar(name or f"fraction_{of}_full", math.cast(size, float32) * (1.0 / (capacity - kept)))


def string_input_producer(
    string_tensor: Any, num_epochs: int | None = None, shuffle: bool = True, seed: int | None = None,
    capacity: int = 32, shared_name: str | None = None, name: str | None = None, cancel_op: Any = None,
) -> Any:  # fmt: skip
    """A queue of strings, such as file names. Raises ValueError on an empty list; a tensor that is empty when it runs,
    of which no row would ever come, ends the queue with InvalidArgumentError."""
    none = "string_input_producer requires a non-null input tensor"
    if not isinstance(string_tensor, (Tensor, Variable)) and not list(string_tensor):
        raise ValueError(none)
    with get_default_graph().name_scope(name or "input_producer") as scope:
        strings = convert_to_tensor(string_tensor, dtype=string)
        with get_default_graph().control_dependencies([Assert(math.greater(array.size(strings), 0), [none])]):
            strings = array.identity(strings)
        return input_producer(
            strings, [], num_epochs, shuffle, seed, capacity, shared_name,
            f"fraction_of_{capacity}_full", scope, cancel_op,
        )  # fmt: skip


def range_input_producer(
    limit: Any, num_epochs: int | None = None, shuffle: bool = True, seed: int | None = None, capacity: int = 32,
    shared_name: str | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """A queue of the integers from 0 to limit - 1."""
    with get_default_graph().name_scope(name or "input_producer") as scope:
        return input_producer(
            math.range(limit), [], num_epochs, shuffle, seed, capacity, shared_name,
            f"fraction_of_{capacity}_full", scope,
        )  # fmt: skip


def slice_input_producer(
    tensor_list: Sequence[Any], num_epochs: int | None = None, shuffle: bool = True, seed: int | None = None,
    capacity: int = 32, shared_name: str | None = None, name: str | None = None,
) -> list[Tensor]:  # fmt: skip
    """One slice [i] of every tensor of the list, i running over their common first size."""
    with get_default_graph().name_scope(name or "input_producer"):
        tensors = [convert_to_tensor(t) for t in tensor_list]
        if not tensors:
            raise ValueError("Expected at least one tensor in slice_input_producer().")
        size = array.shape(tensors[0])[0]
        index = range_input_producer(size, num_epochs, shuffle, seed, capacity, shared_name).dequeue()
        return [array_slice.gather(t, index) for t in tensors]


# ---------------------------------------------------------------------------- batches


def batch(
    tensors: Any, batch_size: Any, num_threads: int = 1, capacity: int = 32, enqueue_many: bool = False,
    shapes: Any = None, dynamic_pad: bool = False, allow_smaller_final_batch: bool = False,
    shared_name: str | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Batches [batch_size, ...] of `tensors` (a tensor, list or dict; the result has the same structure, but
    a tensor for a list of one).

    enqueue_many: the tensors are examples along their first dimension already. allow_smaller_final_batch: what is left
    at the end makes a last, smaller batch; else it is dropped. dynamic_pad: sizes may be unknown; what is shorter is
    filled up with zeros to the longest of its batch.
    """
    return batches([tensors] * num_threads, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch,
                   fifo(shared_name, dynamic_pad), name or "batch", dynamic_pad)  # fmt: skip


def batch_join(
    tensors_list: Sequence[Any], batch_size: Any, capacity: int = 32, enqueue_many: bool = False, shapes: Any = None,
    dynamic_pad: bool = False, allow_smaller_final_batch: bool = False, shared_name: str | None = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """As batch, of several sources with a thread each."""
    return batches(tensors_list, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch,
                   fifo(shared_name, dynamic_pad), name or "batch_join", dynamic_pad)  # fmt: skip


def shuffle_batch(
    tensors: Any, batch_size: Any, capacity: int, min_after_dequeue: int, num_threads: int = 1,
    seed: int | None = None, enqueue_many: bool = False, shapes: Any = None, allow_smaller_final_batch: bool = False,
    shared_name: str | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """As batch, drawn at random from a queue that keeps at least min_after_dequeue examples to draw from."""
    return batches([tensors] * num_threads, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch,
                   shuffling(min_after_dequeue, seed, shared_name), name or "shuffle_batch")  # fmt: skip


def shuffle_batch_join(
    tensors_list: Sequence[Any], batch_size: Any, capacity: int, min_after_dequeue: int, seed: int | None = None,
    enqueue_many: bool = False, shapes: Any = None, allow_smaller_final_batch: bool = False,
    shared_name: str | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """As shuffle_batch, of several sources with a thread each."""
    return batches(tensors_list, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch,
                   shuffling(min_after_dequeue, seed, shared_name), name or "shuffle_batch_join")  # fmt: skip


_MakeQueue = Callable[[int, list[Any], list[Any]], Any]
_Enqueue = Callable[[Any, list[Tensor], bool], Any]


def fifo(shared_name: str | None, dynamic_pad: bool) -> _MakeQueue:
    kind = data_flow.PaddingFIFOQueue if dynamic_pad else data_flow.FIFOQueue
    return lambda capacity, dtypes, shapes: kind(capacity, dtypes, shapes, shared_name=shared_name)


def shuffling(min_after_dequeue: int, seed: int | None, shared_name: str | None) -> _MakeQueue:
    def make(capacity: int, dtypes: list[Any], shapes: list[Any]) -> Any:
        if capacity <= min_after_dequeue:
            raise ValueError(f"capacity {capacity} must be bigger than min_after_dequeue {min_after_dequeue}")
        return data_flow.RandomShuffleQueue(
            capacity, min_after_dequeue, dtypes, shapes, seed=seed, shared_name=shared_name
        )

    return make


def batches(
    sources: Sequence[Any], batch_size: Any, capacity: int, enqueue_many: bool, given: Any, smaller: bool,
    make_queue: _MakeQueue, name: str, padded: bool = False, keep: _Enqueue | None = None,
) -> Any:  # fmt: skip
    """What all of these functions do. padded: sizes may be unknown. keep: makes the op that enqueues what is kept."""
    _check_sources(sources, name)
    with get_default_graph().name_scope(name) as scope:
        lists = [[_stored(t, enqueue_many) for t in _flat(source)] for source in sources]
        first = lists[0]
        lists = [tensors[: len(first)] for tensors in lists]  # what the others have over is left, as in TensorFlow
        for other in lists[1:]:
            if len(other) < len(first):
                raise ValueError(f"{name}: sources have {len(other)} tensors where the first has {len(first)}")
            if [t.dtype for t in other] != [t.dtype for t in first]:
                raise TypeError(f"{name}: all sources must have the same dtypes, got {[t.dtype.name for t in other]}")
        shapes = _element_shapes(lists, enqueue_many, padded) if given is None else given
        queue = make_queue(capacity, [t.dtype.base_dtype for t in first], shapes)
        enqueues = [(keep or _enqueue)(queue, tensors, enqueue_many) for tensors in lists]
        add_queue_runner(QueueRunner(queue, enqueues))
        _summarise(queue, capacity)
        taken = (queue.dequeue_up_to if smaller else queue.dequeue_many)(batch_size, name=scope)
        rows = taken if isinstance(taken, (list, tuple)) else [taken]
        return _like(sources[0], [_taken(row, t, enqueue_many) for row, t in zip(rows, _flat(sources[0]))])


def _check_sources(sources: Sequence[Any], name: str) -> None:
    """Raises ValueError where there is nothing to enqueue, or sources do not have the same keys."""
    if not sources:
        raise ValueError(f"{name}: expected at least one source and num_threads of at least 1, got none")
    if not _flat(sources[0]):
        raise ValueError(f"{name}: expected at least one tensor, got none")
    keys = [sorted(source) if isinstance(source, dict) else None for source in sources]
    for own in keys:
        if own != keys[0]:
            raise ValueError(f"{name}: all sources must have the same keys, got {keys[0]} and {own}")


def _stored(value: Any, enqueue_many: bool) -> Tensor:
    """As the queue holds it: a SparseTensor as three strings."""
    if isinstance(value, SparseTensor):
        return (serialize_many_sparse if enqueue_many else serialize_sparse)(value)
    return convert_to_tensor(value)


def _taken(row: Tensor, source: Any, enqueue_many: bool) -> Any:
    if not isinstance(source, SparseTensor):
        return row
    rank = rank_of(source)
    return deserialize_many_sparse(row, source.dtype, None if rank is None else rank + (not enqueue_many))


def _enqueue(queue: Any, tensors: list[Tensor], enqueue_many: bool) -> Any:
    return queue.enqueue_many(tensors) if enqueue_many else queue.enqueue(tensors)


def _element_shapes(lists: Sequence[Sequence[Tensor]], enqueue_many: bool, padded: bool) -> list[Any]:
    """Of each component, what all sources agree on. Raises ValueError where that is not all of it, or not its rank."""
    shapes = []
    for tensors in zip(*lists, strict=True):
        own = [t.shape[1:] if enqueue_many else t.shape for t in tensors]
        merged = own[0]
        for other in own[1:]:
            merged = merged.merge_with(other)
        if merged.ndims is None or not (padded or merged.is_fully_defined()):
            hint = "Give shapes=" if padded else "Give shapes=, or dynamic_pad=True where batch has it"
            what = "have a known rank" if padded else "be fully defined"
            raise ValueError(f"All shapes must {what}: {tensors[0].name} has {merged}. {hint}")
        shapes.append(merged)
    return shapes


def _flat(source: Any) -> list[Any]:
    if isinstance(source, dict):
        return [source[key] for key in sorted(source)]
    return list(source) if isinstance(source, (list, tuple)) else [source]


def _like(source: Any, values: list[Any]) -> Any:
    """Values as their source is: a dict or a list; of a single one that is no dict's, itself."""
    if isinstance(source, dict):
        return dict(zip(sorted(source), values, strict=True))
    return values if len(values) > 1 else values[0]


def match_filenames_once(pattern: Any, name: str | None = None) -> Any:
    """A local variable with the names of the files that match the pattern (or any of a list), sorted, when it is
    initialized."""
    with get_default_graph().name_scope(name or "matching_filenames"):
        return Variable(
            lambda: files.matching_files(pattern), trainable=False, validate_shape=False, name="matching_filenames",
            collections=[GraphKeys.LOCAL_VARIABLES],
        )  # fmt: skip
