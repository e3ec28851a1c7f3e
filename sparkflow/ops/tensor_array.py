"""TensorArray: a list of tensors that lives for one step, written and read by number inside loops.

The nodes share a handle. A scalar `flow` goes from each operation to the next and orders them; it is what a loop
carries and what gradients travel along. Each TensorArray object is one moment of the list: operations return the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.nest import register_composite
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims, TensorShape
from sparkflow.ops import array, math, rules
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.dtypes import DType, as_dtype, int32, int64

_ANY = Shape(None)
op(
    "TensorArrayV3",
    "size: int32 -> handle: resource, flow: float32",
    lambda op: [(2,), ()],
    stateful=True,
    element_shape=_ANY,
    dynamic_size=False,
    clear_after_read=True,
    identical_element_shapes=False,
    tensor_array_name="",
)
op(
    "TensorArrayGradV3",
    "handle: resource, flow_in: float32 -> grad_handle: resource, flow_out: float32",
    lambda op: [(2,), ()],
    stateful=True,
)
op(
    "TensorArrayGradWithShape",
    "handle: resource, flow_in: float32, shape_to_prepend: int32 -> grad_handle: resource, flow_out: float32",
    lambda op: [(2,), ()],
    stateful=True,
)
op(
    "TensorArrayReadV3",
    "handle: resource, index: int32, flow_in: float32 -> value: dtype",
    lambda op: [None],
    stateful=True,
)
op(
    "TensorArrayWriteV3",
    "handle: resource, index: int32, value: T, flow_in: float32 -> flow_out: float32",
    rules.scalar,
    stateful=True,
)
op(
    "TensorArrayGatherV3",
    "handle: resource, indices: int32, flow_in: float32 -> value: dtype",
    lambda op: [_rows(op.inputs[1]._shape, op.attrs["element_shape"].dims)],
    stateful=True,
    element_shape=_ANY,
)
op(
    "TensorArrayScatterV3",
    "handle: resource, indices: int32, value: T, flow_in: float32 -> flow_out: float32",
    rules.scalar,
    stateful=True,
)
op(
    "TensorArrayConcatV3",
    "handle: resource, flow_in: float32 -> value: dtype, lengths: int64",
    lambda op: [_rows(None, op.attrs["element_shape_except0"].dims), (None,)],
    stateful=True,
    element_shape_except0=_ANY,
)
op(
    "TensorArraySplitV3",
    "handle: resource, value: T, lengths: int64, flow_in: float32 -> flow_out: float32",
    rules.scalar,
    stateful=True,
)
op("TensorArraySizeV3", "handle: resource, flow_in: float32 -> size: int32", rules.scalar, stateful=True)
op("TensorArrayCloseV3", "handle: resource ->", stateful=True)


def _rows(indices: Dims, element: Dims) -> Dims:
    if element is None:
        return None
    return (None if indices is None else indices[0], *element)


class TensorArray:
    """A list of `size` tensors of one dtype, written once and read by number.

    dynamic_size: it grows when written past its end. clear_after_read: an element is freed, and cannot be read again,
    once read. infer_shape: all elements have one shape, learned from what is written; element_shape: that shape.
    colocate_with_first_write_call: it lives beside the first value written. handle, flow: of a list that exists.
    Raises ValueError unless exactly one of size and handle is given.
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Tensor | None = None,
        flow: Tensor | None = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ):
        if (handle is None) == (size is None):
            raise ValueError("TensorArray takes one of size, for a new list, and handle")
        if handle is not None and (tensor_array_name or dynamic_size is not None or clear_after_read is not None):
            raise ValueError(
                "TensorArray: tensor_array_name, dynamic_size and clear_after_read cannot be set with handle"
            )
        self._dtype: DType = as_dtype(dtype).base_dtype
        self._infer_shape, self._dynamic_size = infer_shape, bool(dynamic_size)
        # Lists of one, shared by all moments of this list: what one learns, the others know.
        self._element_shape: list[Dims] = [shapes.as_dims(element_shape)]
        self._beside: list[Tensor] | None = [] if colocate_with_first_write_call else None
        self._size: Any = None if size is None else convert_to_tensor(size, int32, "size")
        if handle is not None:
            self._handle = handle
            self._flow = flow if flow is not None else convert_to_tensor(0.0, name="flow")
            return
        self._handle, self._flow = self._made(clear_after_read, tensor_array_name, name)

    def _made(self, clear: bool | None, label: str | None, name: str | None) -> list[Tensor]:
        attrs = {
            "dtype": self._dtype,
            "element_shape": Shape(self._element_shape[0]),
            "identical_element_shapes": self._infer_shape,
            "dynamic_size": self._dynamic_size,
            "clear_after_read": clear is not False,
            "tensor_array_name": label or "",
        }
        graph = get_default_graph()
        if self._beside is None:
            return apply_op("TensorArrayV3", [self._size], attrs, name or "TensorArray")
        with graph.device(None):
            return apply_op("TensorArrayV3", [self._size], attrs, name or "TensorArray")

    # ------------------------------------------------------------------ what it is

    flow: Tensor = property(lambda self: self._flow)  # type: ignore[assignment]
    handle: Tensor = property(lambda self: self._handle)  # type: ignore[assignment]
    dtype: DType = property(lambda self: self._dtype)  # type: ignore[assignment]
    dynamic_size: bool = property(lambda self: self._dynamic_size)  # type: ignore[assignment]

    @property
    def element_shape(self) -> TensorShape:
        return TensorShape(self._element_shape[0])

    def part_invariants(self, _: Dims) -> list[Dims]:
        """Of a loop variable: the flow is a scalar."""
        return [()]

    def __repr__(self) -> str:
        return f"<tf.TensorArray {self._handle.op.name!r} of {self._dtype.name} {shapes.show(self._element_shape[0])}>"

    def _at(self, flow: Tensor) -> TensorArray:
        """This list at the moment of `flow`."""
        other = object.__new__(TensorArray)
        other.__dict__.update(self.__dict__)
        other._flow = flow
        return other

    def identity(self) -> TensorArray:
        """The same list, behind the control dependencies of the moment."""
        return self._at(array.identity(self._flow))

    def grad(self, source: str, flow: Tensor | None = None, name: str | None = None) -> TensorArray:
        """The list of this one's gradients, the same one for each `source`; writes to an element of it add up."""
        graph, flow = get_default_graph(), self._flow if flow is None else flow
        with graph.name_scope(name or "TensorArrayGrad"), graph.colocate_with(self._handle):
            handle, _ = apply_op("TensorArrayGradV3", [self._handle, flow], {"source": source}, "TensorArrayGradV3")
            with graph.control_dependencies([handle]):
                flow = array.identity(flow, name="gradient_flow")
            found = TensorArray(
                self._dtype,
                handle=handle,
                flow=flow,
                infer_shape=self._infer_shape,
                colocate_with_first_write_call=False,
            )
            found._element_shape = self._element_shape
            return found

    def _learn(self, dims: Dims) -> None:
        if not self._infer_shape:
            return
        if not shapes.compatible(self._element_shape[0], dims):
            raise ValueError(
                f"Inconsistent shapes: saw {shapes.show(dims)} but expected {shapes.show(self._element_shape[0])} "
                "(and infer_shape=True)"
            )
        self._element_shape[0] = shapes.merge(self._element_shape[0], dims)

    @contextmanager
    def _beside_first(self, value: Tensor) -> Iterator[None]:
        if self._beside is None:
            yield
            return
        if not self._beside:
            self._beside.append(value)
        with get_default_graph().colocate_with(self._beside[0]):
            yield

    # ------------------------------------------------------------------ elements

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """The element of that number."""
        inputs = [self._handle, index, self._flow]
        value = apply_op("TensorArrayReadV3", inputs, {"dtype": self._dtype}, name)
        value.set_shape(self._element_shape[0])
        return value

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """The list with `value` as the element of that number, which no one has written."""
        value = convert_to_tensor(value, self._dtype, "value")
        self._learn(value._shape)
        with self._beside_first(value):
            return self._at(apply_op("TensorArrayWriteV3", [self._handle, index, value, self._flow], name=name))

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """The elements of these numbers along a new first axis."""
        attrs = {"dtype": self._dtype, "element_shape": Shape(self._element_shape[0])}
        return apply_op("TensorArrayGatherV3", [self._handle, indices, self._flow], attrs, name)

    def stack(self, name: str | None = None) -> Tensor:
        """All elements along a new first axis."""
        graph = get_default_graph()
        with graph.colocate_with(self._handle), graph.name_scope(name or "TensorArrayStack"):
            value = self.gather(math.range(0, self.size()))
            known = None if self._size is None or self._dynamic_size else constant_value(self._size)
            if known is not None and self._element_shape[0] is not None:
                value.set_shape((int(known), *self._element_shape[0]))
            return value

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """The list with row i of `value` as the element of number indices[i]."""
        value = convert_to_tensor(value, self._dtype, "value")
        self._learn(None if value._shape is None else value._shape[1:])
        with self._beside_first(value):
            inputs = [self._handle, indices, value, self._flow]
            return self._at(apply_op("TensorArrayScatterV3", inputs, name=name))

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """The list with the rows of `value` as its elements."""
        with get_default_graph().name_scope(name or "TensorArrayUnstack"):
            value = convert_to_tensor(value, self._dtype, "value")
            return self.scatter(math.range(0, array.shape(value)[0]), value)

    def concat(self, name: str | None = None) -> Tensor:
        """All elements one after the other along their first axis."""
        dims = self._element_shape[0]
        attrs = {"dtype": self._dtype, "element_shape_except0": Shape(None if dims is None else dims[1:])}
        value, _ = apply_op("TensorArrayConcatV3", [self._handle, self._flow], attrs, name)
        count = None if self._size is None or self._dynamic_size else constant_value(self._size)
        if count is not None and dims and dims[0] is not None and self._infer_shape:
            value.set_shape([int(count) * dims[0], *dims[1:]])
        return value

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """The list with the parts of `value`, lengths[i] rows each, as its elements."""
        value = convert_to_tensor(value, self._dtype, "value")
        sizes = math.to_int64(lengths) if isinstance(lengths, Tensor) else convert_to_tensor(lengths, int64, "lengths")
        known = constant_value(sizes)
        if value._shape is not None:
            alike = known is not None and known.size and (known == known.ravel()[0]).all()
            self._learn((int(known.ravel()[0]) if alike and known is not None else None, *value._shape[1:]))
        with self._beside_first(value):
            return self._at(apply_op("TensorArraySplitV3", [self._handle, value, sizes, self._flow], name=name))

    def size(self, name: str | None = None) -> Tensor:
        """How many elements it has."""
        if self._size is not None and not self._dynamic_size:
            known = constant_value(self._size)
            if known is not None:
                return convert_to_tensor(known, int32, name or "size")
        return apply_op("TensorArraySizeV3", [self._handle, self._flow], name=name)

    def close(self, name: str | None = None) -> Operation:
        """Free the elements before the step ends."""
        return apply_op("TensorArrayCloseV3", [self._handle], name=name)


register_composite(TensorArray, lambda ta: (ta.flow,), lambda like, parts: like._at(parts[0]))
