"""StagingArea: hands tuples of tensors from one step to a later one, such as the batch for the next step."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from sparkflow.framework import shapes as dims
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims, TensorShape
from sparkflow_runtime.wire.dtypes import DType, as_dtype, int32

_AREA: dict[str, Any] = {"capacity": 0, "memory_limit": 0, "container": "", "shared_name": "", "stateful": True}


def _unknown(op: Operation) -> list[Dims]:
    return [None] * len(op.attrs["dtypes"])


op("Stage", "values: [dtypes] ->", **_AREA)
op("Unstage", "-> values: [dtypes]", _unknown, **_AREA)
op("StagePeek", "index: int32 -> values: [dtypes]", _unknown, **_AREA)
op("StageSize", "-> size: int32", lambda op: [()], **_AREA)
op("StageClear", "->", **_AREA)


class StagingArea:
    """First in, first out, of tuples with these dtypes; shapes may be unknown.

    names: tuples are then dicts with these keys. capacity: tuples it holds at most, memory_limit: bytes; 0 for no
    limit. A put waits for room, a get or peek for values.
    """

    def __init__(
        self,
        dtypes: Sequence[Any],
        shapes: Sequence[Any] | None = None,
        names: Sequence[str] | None = None,
        shared_name: str | None = None,
        capacity: int = 0,
        memory_limit: int = 0,
    ):
        self._dtypes = [as_dtype(t) for t in dtypes]
        self._shapes = [dims.as_dims(s) for s in shapes] if shapes is not None else [None] * len(self._dtypes)
        for what, given in (("shapes", self._shapes), ("names", names)):
            if given is not None and len(given) != len(self._dtypes):
                raise ValueError(f"StagingArea {what} must be as many as dtypes, {len(self._dtypes)}, got {given}")
        if capacity < 0 or memory_limit < 0:
            raise ValueError(f"capacity and memory_limit must be 0 or more, got {capacity} and {memory_limit}")
        self._names = None if names is None else list(names)
        self._name = shared_name or get_default_graph().unique_name(type(self).__name__)
        self._limits = {"capacity": capacity, "memory_limit": memory_limit}
        self._first: Operation | None = None  # the others stand beside it

    @property
    def name(self) -> str:
        return self._name

    @property
    def dtypes(self) -> list[DType]:
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        return [TensorShape(s) for s in self._shapes]

    @property
    def names(self) -> list[str] | None:
        return self._names

    @property
    def capacity(self) -> int:
        return self._limits["capacity"]

    @property
    def memory_limit(self) -> int:
        return self._limits["memory_limit"]

    def put(self, values: Any, name: str | None = None) -> Operation:
        """values: a tensor, a list, or a dict when the area has names. Raises ValueError on another number, keys or
        shapes."""
        parts = [convert_to_tensor(v, t) for v, t in zip(self._parts(values), self._dtypes, strict=True)]
        for tensor, shape in zip(parts, self._shapes, strict=True):
            tensor.get_shape().assert_is_compatible_with(shape)
        return self._apply("Stage", [parts], {"dtypes": self._dtypes}, name or f"{self._name}_put")

    def _parts(self, values: Any) -> list[Any]:
        if self._names is not None:
            if not isinstance(values, dict) or sorted(values) != sorted(self._names):
                got: Any = sorted(values) if isinstance(values, dict) else type(values).__name__
                raise ValueError(f"StagingArea {self._name!r} takes a dictionary of {sorted(self._names)}, got {got}")
            return [values[key] for key in self._names]
        parts = list(values) if isinstance(values, (list, tuple)) else [values]
        if isinstance(values, dict) or len(parts) != len(self._dtypes):
            got = "a dictionary" if isinstance(values, dict) else len(parts)
            raise ValueError(f"StagingArea {self._name!r} takes {len(self._dtypes)} tensors, got {got}")
        return parts

    def get(self, name: str | None = None) -> Any:
        """The oldest tuple, taken out: a list of tensors, or a dict."""
        return self._returned(self._apply("Unstage", [], {"dtypes": self._dtypes}, name or f"{self._name}_get"))

    def peek(self, index: Any, name: str | None = None) -> Any:
        """The tuple at that place, the oldest being 0, which stays."""
        index = convert_to_tensor(index, int32)
        return self._returned(self._apply("StagePeek", [index], {"dtypes": self._dtypes}, name or f"{self._name}_peek"))

    def size(self, name: str | None = None) -> Tensor:
        return self._apply("StageSize", [], {"dtypes": self._dtypes}, name or f"{self._name}_size")

    def clear(self, name: str | None = None) -> Operation:
        return self._apply("StageClear", [], {"dtypes": self._dtypes}, name or f"{self._name}_clear")

    def _returned(self, found: Any) -> Any:
        tensors = list(found) if isinstance(found, (list, tuple)) else [found]
        for tensor, shape in zip(tensors, self._shapes, strict=True):
            tensor.set_shape(shape)
        return tensors if self._names is None else dict(zip(self._names, tensors, strict=True))

    def _apply(self, op_type: str, inputs: list[Any], attrs: dict[str, Any], name: str) -> Any:
        attrs = {**attrs, **self._limits, "shared_name": self._name}
        with get_default_graph().colocate_with(self._first) if self._first is not None else nullcontext():
            made = apply_op(op_type, inputs, attrs, name)
        if self._first is None:
            first = made[0] if isinstance(made, (list, tuple)) else made
            self._first = first if isinstance(first, Operation) else first.op
        return made
