"""Queues as nodes: made, filled, emptied and closed. What waits, and for what, is said in the runtime's
resources/queues."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.random_seed import get_seed
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims, TensorShape, as_dims
from sparkflow.ops import array_join, array_slice
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.dtypes import DType, as_dtype
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _element_dims(op: Operation) -> list[Dims]:
    """The shapes of an element's components, as far as the queue that made the handle tells them."""
    queue = op.inputs[0].op
    known = [shape.dims for shape in queue.attrs.get("shapes") or ()]
    if known and queue.type == "PriorityQueueV2":
        known = [(), *known]
    return known or [None] * len(op.attrs["component_types"])


def _stacked(op: Operation, n: int | None) -> list[Dims]:
    return [None if dims is None else (n, *dims) for dims in _element_dims(op)]


def _many_shape(op: Operation) -> list[Dims]:
    n = constant_value(op.inputs[1])
    if n is not None and n < 0:
        raise InvalidArgumentError(f"{op.type}: n, the number of elements, must be >= 0, got {n}")
    return _stacked(op, None if n is None else int(n))


_HANDLE = "-> handle: resource"
_QUEUE: dict[str, Any] = {"shapes": [], "capacity": -1, "container": "", "shared_name": ""}
op("FIFOQueueV2", _HANDLE, lambda op: [()], stateful=True, **_QUEUE)
op("PaddingFIFOQueueV2", _HANDLE, lambda op: [()], stateful=True, **_QUEUE)
op("PriorityQueueV2", _HANDLE, lambda op: [()], stateful=True, **{**_QUEUE, "component_types": []})
op("RandomShuffleQueueV2", _HANDLE, lambda op: [()], stateful=True, min_after_dequeue=0, seed=0, seed2=0, **_QUEUE)
for _op_type in ("QueueEnqueueV2", "QueueEnqueueManyV2"):
    op(_op_type, "handle: resource, components: [Tcomponents] ->", stateful=True, timeout_ms=-1)
op("QueueDequeueV2", "handle: resource -> components: [component_types]", _element_dims, stateful=True, timeout_ms=-1)
_TAKE_MANY = "handle: resource, n: int32 -> components: [component_types]"
op("QueueDequeueManyV2", _TAKE_MANY, _many_shape, stateful=True, timeout_ms=-1)
op("QueueDequeueUpToV2", _TAKE_MANY, lambda op: _stacked(op, None), stateful=True, timeout_ms=-1)
op("QueueSizeV2", "handle: resource -> size: int32", lambda op: [()], stateful=True)
op("QueueIsClosedV2", "handle: resource -> is_closed: bool", lambda op: [()], stateful=True)
op("QueueCloseV2", "handle: resource ->", stateful=True, cancel_pending_enqueues=False)


def _common(found: list[Dims]) -> Dims:
    """What all these shapes say."""
    ranks = {None if dims is None else len(dims) for dims in found}
    if len(ranks) > 1 or None in ranks:
        return None
    return tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*(dims or () for dims in found)))


class QueueBase:
    """A queue of elements, each a tuple of components of fixed dtypes, and of fixed shapes where `shapes` is given.

    dtypes: one a component. shapes: of one element's components, fully known; dequeue_many and dequeue_up_to need them.
    names: elements are then dicts with these keys. queue_ref: the handle.
    """

    def __init__(self, dtypes: Sequence[Any], shapes: Any, names: Any, queue_ref: Tensor):
        self._dtypes, self._shapes, self._names = list(dtypes), shapes, names
        self._queue_ref = queue_ref

    @staticmethod
    def from_list(index: Any, queues: list[QueueBase]) -> QueueBase:
        """The queue queues[index], chosen anew in each step.

        index: a scalar of int32 or int64. Raises TypeError unless all have the same dtypes and names.
        """
        if not queues or not isinstance(queues, list) or not all(isinstance(q, QueueBase) for q in queues):
            raise TypeError(f"QueueBase.from_list: a list of queues expected, got {queues!r}")
        first = queues[0]
        if any(q.dtypes != first.dtypes or q.names != first.names for q in queues):
            raise TypeError("QueueBase.from_list: queues do not have matching component dtypes and names")
        common = [_common([s.dims_ for s in sizes]) for sizes in zip(*(q.shapes for q in queues))]
        chosen = array_slice.gather(array_join.stack([q.queue_ref for q in queues]), index)
        return QueueBase(first.dtypes, common, first.names, chosen)

    @property
    def queue_ref(self) -> Tensor:
        return self._queue_ref

    @property
    def name(self) -> str:
        return self._queue_ref.op.name

    @property
    def _label(self) -> str:
        """What the names of its ops begin with."""
        return self.name.rpartition("/")[2]

    @property
    def dtypes(self) -> list[DType]:
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        dims = self._shapes if self._shapes is not None else [None] * len(self._dtypes)
        return [TensorShape(d) for d in dims]

    @property
    def names(self) -> list[str] | None:
        return self._names

    # ------------------------------------------------------------------ putting in

    def enqueue(self, vals: Any, name: str | None = None) -> Operation:
        """Put one element in, waiting while the queue is full.

        vals: a tensor, a list of tensors, or a dict when the queue has names.
        Raises ValueError on another number, shape or keys; when run, CancelledError on a closed queue.
        """
        with get_default_graph().name_scope(name or f"{self._label}_enqueue") as scope:
            parts = self._components(vals)
            for tensor, dims in zip(parts, self._shapes or ()):
                tensor.get_shape().assert_is_compatible_with(dims)
            return self._apply("QueueEnqueueV2", [parts], {}, scope)

    def enqueue_many(self, vals: Any, name: str | None = None) -> Operation:
        """Put in every row of the components, which have the same first size; in pieces where there is not room
        for all."""
        with get_default_graph().name_scope(name or f"{self._label}_EnqueueMany") as scope:
            parts = self._components(vals)
            rows: Dims = (None,)
            for i, tensor in enumerate(parts):
                if tensor._shape == ():
                    raise ValueError(f"enqueue_many: component {i} of queue {self.name!r} must have rows, got a scalar")
                rows = shapes.merge(rows, None if tensor._shape is None else tensor._shape[:1])
                if self._shapes is not None and tensor._shape is not None:
                    shapes.merge(tensor._shape[1:], shapes.as_dims(self._shapes[i]))
            return self._apply("QueueEnqueueManyV2", [parts], {}, scope)

    def _components(self, vals: Any) -> list[Tensor]:
        if self._names:
            if not isinstance(vals, dict):
                raise ValueError(f"You must enqueue a dictionary in a Queue with names: {self._names}")
            if sorted(vals) != sorted(self._names):
                raise ValueError(f"Queue {self.name!r} has names {self._names}, got a dictionary of {sorted(vals)}")
            vals = [vals[k] for k in self._names]
        elif isinstance(vals, dict):
            raise ValueError(f"You must enqueue a list in a Queue without names; got a dictionary of {sorted(vals)}")
        elif not isinstance(vals, (list, tuple)) or (len(self._dtypes) == 1 and len(vals) != 1):
            vals = [vals]
        if len(vals) != len(self._dtypes):
            raise ValueError(f"Queue {self.name!r} holds {len(self._dtypes)} components an element, got {len(vals)}")
        return [convert_to_tensor(v, t, f"component_{i}") for i, (v, t) in enumerate(zip(vals, self._dtypes))]

    # ------------------------------------------------------------------ taking out

    def dequeue(self, name: str | None = None) -> Any:
        """One element, waiting while there is none: a tensor, a list, or a dict. OutOfRangeError once closed
        and empty."""
        return self._returned(self._take("QueueDequeueV2", [], name or f"{self._label}_Dequeue"))

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """n elements stacked, [n, ...]; OutOfRangeError once the queue is closed and has fewer, which then stay
        in it."""
        return self._take_many("QueueDequeueManyV2", n, name or f"{self._label}_DequeueMany")

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """As dequeue_many, but a closed queue gives what it has left; OutOfRangeError when that is nothing. A
        PriorityQueue does as dequeue_many."""
        return self._take_many("QueueDequeueUpToV2", n, name or f"{self._label}_DequeueUpTo")

    def _take_many(self, op_type: str, n: Any, name: str) -> Any:
        with get_default_graph().name_scope(name) as scope:
            count = convert_to_tensor(n, dtypes.int32, "n")
            return self._returned(self._take(op_type, [count], scope), (None,))

    def _take(self, op_type: str, inputs: list[Tensor], name: str) -> list[Tensor]:
        return self._apply(op_type, inputs, {"component_types": self._dtypes}, name)

    def _returned(self, tensors: list[Tensor], rows: Dims = ()) -> Any:
        for tensor, dims in zip(tensors, self._shapes or ()):
            if as_dims(dims) is not None:
                tensor.set_shape((*(rows or ()), *(as_dims(dims) or ())))
        if self._names:
            return dict(zip(self._names, tensors))
        return tensors[0] if len(tensors) == 1 else tensors

    # ------------------------------------------------------------------ state

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """No more enqueues: after those that wait already, or at once, cancelling those."""
        attrs = {"cancel_pending_enqueues": cancel_pending_enqueues}
        return self._apply("QueueCloseV2", [], attrs, name or f"{self._label}_Close")

    def is_closed(self, name: str | None = None) -> Tensor:
        return self._apply("QueueIsClosedV2", [], {}, name or f"{self._label}_Is_Closed")

    def size(self, name: str | None = None) -> Tensor:
        """The number of elements, a scalar int32."""
        return self._apply("QueueSizeV2", [], {}, name or f"{self._label}_Size")

    def _apply(self, op_type: str, inputs: list[Any], attrs: dict[str, Any], name: str) -> Any:
        with get_default_graph().colocate_with(self._queue_ref):
            return apply_op(op_type, [self._queue_ref, *inputs], attrs, name)


def _whole(name: str, value: Any, default: int) -> int:
    """As an attribute of a node, where None is the op's own value and a fraction is cut off."""
    if value is None:
        return default
    if not isinstance(value, Real):
        raise TypeError(f"Expected int for argument {name!r} not {value!r}.")
    return int(float(value)) if not isinstance(value, Integral) else int(value)


def _declared(
    capacity: int, types: Any, element_shapes: Any, names: Any, shared_name: str | None, partial: bool = False
) -> tuple[list[DType], list[Dims] | None, list[str] | None, dict[str, Any]]:
    """Dtypes, shapes and names as lists, one entry a component, and the attributes of the queue's node. partial: sizes
    may be unknown. Raises TypeError where the capacity is no number."""
    types = [as_dtype(t) for t in (types if isinstance(types, (list, tuple)) else [types])]
    if element_shapes is not None:
        if isinstance(element_shapes, TensorShape) or all(d is None or isinstance(d, int) for d in element_shapes):
            element_shapes = [element_shapes]
        element_shapes = [shapes.as_dims(s) for s in element_shapes]
        if len(element_shapes) != len(types):
            lengths = f"{len(element_shapes)} and {len(types)}"
            raise ValueError(f"Queue shapes must have the same length as dtypes, got {lengths}")
        if not all(s is not None if partial else shapes.fully_known(s) for s in element_shapes):
            what = "have a defined rank" if partial else "be fully defined"
            raise ValueError(f"Queue shapes must {what}, got {[shapes.show(s) for s in element_shapes]}")
    if names is not None:
        names = list(names) if isinstance(names, (list, tuple)) else [names]
        if len(names) != len(types):
            raise ValueError(f"Queue names must have the same length as dtypes, got {names} for {len(types)}")
    attrs = {
        "component_types": types,
        "shapes": [Shape(s) for s in element_shapes or ()],
        "capacity": _whole("capacity", capacity, -1),
        "shared_name": shared_name or "",
        "container": "",
    }
    return types, element_shapes, names, attrs


class FIFOQueue(QueueBase):
    """First in, first out."""

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "fifo_queue",
    ):
        """capacity: elements it holds at most; negative for no limit. shared_name: sessions of a cluster share
        it by that; without one each session has a queue of its own, which ends with it."""
        types, dims, keys, attrs = _declared(capacity, dtypes, shapes, names, shared_name)
        super().__init__(types, dims, keys, apply_op("FIFOQueueV2", [], attrs, name))


class RandomShuffleQueue(QueueBase):
    """Gives elements in random order."""

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ):
        """min_after_dequeue: elements that stay in it while it is open, so that the picks are well mixed."""
        types, dims, keys, attrs = _declared(capacity, dtypes, shapes, names, shared_name)
        seed1, seed2 = get_seed(seed)
        attrs |= {"min_after_dequeue": _whole("min_after_dequeue", min_after_dequeue, 0), "seed": seed1, "seed2": seed2}
        super().__init__(types, dims, keys, apply_op("RandomShuffleQueueV2", [], attrs, name))


class PaddingFIFOQueue(QueueBase):
    """First in, first out, of elements whose sizes may differ: dequeue_many and dequeue_up_to fill them up to the
    largest of their batch, with zeros or empty strings, along the dimensions that `shapes` leaves unknown."""

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ):
        """shapes: one a component, with None for sizes that may differ. Raises ValueError where one is missing or of
        unknown rank."""
        types, dims, keys, attrs = _declared(capacity, dtypes, shapes, names, shared_name, partial=True)
        if dims is None:
            raise ValueError(f"Shapes must be provided for all {len(types)} components of a PaddingFIFOQueue, got none")
        super().__init__(types, dims, keys, apply_op("PaddingFIFOQueueV2", [], attrs, name))


class PriorityQueue(QueueBase):
    """Gives elements in the order of their priority, an int64 that comes before their components, the smallest
    first."""

    def __init__(
        self,
        capacity: int,
        types: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "priority_queue",
    ):
        """types, shapes: of the components without the priority; names: with it."""
        types, dims, _, attrs = _declared(capacity, types, shapes, None, shared_name)
        keys = list(names) if isinstance(names, (list, tuple)) else names
        if keys is not None and len(keys) != 1 + len(types):
            raise ValueError(f"PriorityQueue names must begin with the priority's, got {keys} for {len(types)} types")
        ref = apply_op("PriorityQueueV2", [], attrs, name)
        super().__init__([dtypes.int64, *types], None if dims is None else [(), *dims], keys, ref)
