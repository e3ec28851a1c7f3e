"""Barriers as nodes: elements whose components come one by one, under keys, and are taken when complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework import shapes as static
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import lookup, op
from sparkflow.framework.shapes import Dims
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.dtypes import as_dtype


def _taken_shapes(op: Operation) -> list[Dims]:
    n = None if op.attrs.get("allow_small_batch") else constant_value(op.inputs[1])
    rows = None if n is None else int(n)
    known = [shape.dims for shape in op.inputs[0].op.attrs.get("shapes") or ()]
    elements = known or [None] * len(op.attrs["component_types"])
    return [(rows,), (rows,), *(None if dims is None else (rows, *dims) for dims in elements)]


_MADE: dict[str, Any] = {"shapes": [], "capacity": -1, "container": "", "shared_name": ""}
op("Barrier", "-> handle: &string", lambda op: [(2,)], stateful=True, **_MADE)
op("BarrierInsertMany", "handle: &string, keys: string, values: T ->")
op(
    "BarrierTakeMany",
    "handle: &string, num_elements: int32 -> indices: int64, keys: string, values: [component_types]",
    _taken_shapes,
    allow_small_batch=False,
    wait_for_incomplete=False,
    timeout_ms=-1,
)
op("BarrierClose", "handle: &string ->", cancel_pending_enqueues=False)
op("BarrierReadySize", "handle: &string -> size: int32", lambda op: [()])
op("BarrierIncompleteSize", "handle: &string -> size: int32", lambda op: [()])


class Barrier:
    """A barrier on the device it is made under.

    types, shapes: of an element's components; without shapes they are scalars. shared_name: whose sessions share it.
    Raises ValueError where a shape is not fully known.
    """

    def __init__(self, types: Any, shapes: Any = None, shared_name: str | None = None, name: str = "barrier"):
        self._types = [as_dtype(t) for t in (types if isinstance(types, (list, tuple)) else [types])]
        dims = [()] * len(self._types) if shapes is None else [static.as_dims(shape) for shape in shapes]
        if any(not static.fully_known(d) for d in dims):
            raise ValueError(f"All shapes must be fully defined: {[static.show(d) for d in dims]}")
        attrs = {
            "component_types": self._types,
            "shapes": [Shape(d) for d in dims],
            "shared_name": shared_name or "",
        }
        self._barrier_ref: Tensor = apply_op("Barrier", [], attrs, name)

    @property
    def barrier_ref(self) -> Tensor:
        return self._barrier_ref

    @property
    def name(self) -> str:
        return self._barrier_ref.op.name

    def insert_many(self, component_index: int, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Give each key's element its component of that number. keys: string [n]; values: [n, ...].

        Running it raises InvalidArgumentError where a key has that component, and CancelledError for a new key once
        the barrier is closed.
        """
        values = convert_to_tensor(values, self._types[component_index])
        given = [convert_to_tensor(keys, dtypes.string), values]
        return self._apply("BarrierInsertMany", given, {"component_index": component_index}, name)

    def take_many(
        self, num_elements: Any, allow_small_batch: bool = False, timeout: int | None = None, name: str | None = None
    ) -> Any:
        """(indices int64 [n], keys string [n], values: each component, [n, ...]) of n complete elements.

        Waits until there are so many. An index tells which insertion began the element, from -2**63 on.
        allow_small_batch: of a closed barrier, what is left. Running it raises OutOfRangeError where too little is,
        InvalidArgumentError with any timeout: give RunOptions(timeout_in_ms) to the run instead.
        """
        attrs = {"component_types": self._types, "allow_small_batch": allow_small_batch}
        attrs["timeout_ms"] = -1 if timeout is None else timeout
        indices, keys, *values = self._apply(
            "BarrierTakeMany", [convert_to_tensor(num_elements, dtypes.int32)], attrs, name
        )
        return lookup("BarrierTakeMany").record(indices, keys, values)

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """No new keys from now on; those that have begun may be completed, unless cancel_pending_enqueues."""
        return self._apply("BarrierClose", [], {"cancel_pending_enqueues": cancel_pending_enqueues}, name)

    def ready_size(self, name: str | None = None) -> Tensor:
        """How many elements are complete now, a scalar int32."""
        return self._apply("BarrierReadySize", [], {}, name)

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """How many lack a component, a scalar int32."""
        return self._apply("BarrierIncompleteSize", [], {}, name)

    def _apply(self, op_type: str, inputs: Sequence[Any], attrs: dict[str, Any], name: str | None) -> Any:
        name = name or f"{self.name.rpartition('/')[2]}_{op_type}"
        with get_default_graph().colocate_with(self._barrier_ref):
            return apply_op(op_type, [self._barrier_ref, *inputs], attrs, name)
