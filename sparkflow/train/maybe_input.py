"""Batches of the examples that a condition keeps: tf.train.maybe_batch and its kin, beside those of train/input.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.ops import array, array_select, array_slice, control_flow, control_flow_cond
from sparkflow.train.input import batches, fifo, shuffling
from sparkflow_runtime.wire.dtypes import bool_


def maybe_batch(
    tensors: Any, keep_input: Any, batch_size: Any, num_threads: int = 1, capacity: int = 32,
    enqueue_many: bool = False, shapes: Any = None, dynamic_pad: bool = False, allow_smaller_final_batch: bool = False,
    shared_name: str | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """As batch, of what keep_input keeps: a bool for all that is enqueued at once or, with enqueue_many, one an
    example."""
    return batches([tensors] * num_threads, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch,
                   fifo(shared_name, dynamic_pad), name or "maybe_batch", dynamic_pad,
                   Keep(keep_input, enqueue_many))  # fmt: skip


def maybe_batch_join(
    tensors_list: Sequence[Any], keep_input: Any, batch_size: Any, capacity: int = 32, enqueue_many: bool = False,
    shapes: Any = None, dynamic_pad: bool = False, allow_smaller_final_batch: bool = False,
    shared_name: str | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """As maybe_batch, of several sources with a thread each."""
    return batches(tensors_list, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch,
                   fifo(shared_name, dynamic_pad), name or "maybe_batch_join", dynamic_pad,
                   Keep(keep_input, enqueue_many))  # fmt: skip


def maybe_shuffle_batch(
    tensors: Any, batch_size: Any, capacity: int, min_after_dequeue: int, keep_input: Any, num_threads: int = 1,
    seed: int | None = None, enqueue_many: bool = False, shapes: Any = None, allow_smaller_final_batch: bool = False,
    shared_name: str | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """As shuffle_batch, of what keep_input keeps (maybe_batch)."""
    return batches([tensors] * num_threads, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch,
                   shuffling(min_after_dequeue, seed, shared_name), name or "maybe_shuffle_batch",
                   keep=Keep(keep_input, enqueue_many))  # fmt: skip


def maybe_shuffle_batch_join(
    tensors_list: Sequence[Any], batch_size: Any, capacity: int, min_after_dequeue: int, keep_input: Any,
    seed: int | None = None, enqueue_many: bool = False, shapes: Any = None, allow_smaller_final_batch: bool = False,
    shared_name: str | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """As maybe_shuffle_batch, of several sources with a thread each."""
    return batches(tensors_list, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch,
                   shuffling(min_after_dequeue, seed, shared_name), name or "maybe_shuffle_batch_join",
                   keep=Keep(keep_input, enqueue_many))  # fmt: skip


class Keep:
    """Which examples are enqueued. Raises ValueError where keep_input is neither one bool nor, with enqueue_many, a
    vector of them."""

    def __init__(self, keep_input: Any, enqueue_many: bool):
        self._keep = convert_to_tensor(keep_input, bool_)
        rank = self._keep.shape.ndims
        if rank is None:
            raise ValueError("keep_input must have a known rank when the graph is built")
        if rank > 1 or (rank == 1 and not enqueue_many):
            wanted = "a scalar or a vector" if enqueue_many else "a scalar without enqueue_many"
            raise ValueError(f"keep_input must be {wanted}, got shape {self._keep.shape}")

    def __call__(self, queue: Any, tensors: list[Tensor], enqueue_many: bool) -> Any:
        """The operation that enqueues what is kept."""
        enqueue = queue.enqueue_many if enqueue_many else queue.enqueue
        if self._keep.shape.ndims == 1:
            for tensor in tensors:
                if not self._keep.shape.is_compatible_with(tensor.shape[:1]):
                    raise ValueError(
                        f"keep_input of shape {self._keep.shape} must have one entry for each example of "
                        f"{tensor.name}, which has shape {tensor.shape}"
                    )
            rows = array.reshape(array_select.where(self._keep), [-1])
            return enqueue([array_slice.gather(tensor, rows) for tensor in tensors])
        done = control_flow_cond.cond(self._keep, lambda: enqueue(tensors), control_flow.no_op)
        return done.op if isinstance(done, Tensor) else done
