"""TensorArrays: lists of tensors that loops write and read one element at a time.

An array lives for one step: TensorArrayV3 makes a new one at every run, and its handle is the array itself. An array
holds the arrays of its gradients by the names of their sources, so that several TensorArrayGradV3 nodes meet there;
writes to those add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import host, ints, one_int
from sparkflow_runtime.kernels.registry import Function, Node, bound
from sparkflow_runtime.kernels.strings import texts
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.dtypes import DType, string
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnimplementedError

Dims = tuple[int | None, ...] | None


class TensorArray:
    """`items[i]` is an array, None when not yet written, or, once cleared by a read, the shape that it had.

    shapes: of a gradient array, the shapes of its zeros.
    """

    def __init__(self, name: str, xp: Any, dtype: DType, size: int, dims: Dims = None):
        self.name, self.xp, self.dtype, self.dims = name, xp, dtype, dims
        self.items: list[Any] = [None] * size
        self.shapes: list[tuple[int, ...] | None] = []
        self.dynamic = self.identical = self.adds = self.closed = False
        self.clears = True
        self.read_at: set[int] = set()
        self.gradients: dict[str, TensorArray] = {}

    def error(self, text: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"TensorArray {self.name!r}: {text}")

    def check_open(self) -> None:
        if self.closed:
            raise self.error("it has already been closed")

    # ------------------------------------------------------------------ writing

    def write(self, index: int, value: Any) -> None:
        """Raises InvalidArgumentError on an index outside, an element that was written or read before, and a value of
        another dtype or shape than the array's elements."""
        items = self.items
        if not 0 <= index < len(items) or self.closed:
            self._make_room(index)
        held = items[index]
        if value.shape != self.dims or value.dtype != self.dtype.np:
            self._check_element(value)
        if held is None:
            items[index] = value
        else:
            items[index] = self._joined(index, held, value)

    def _make_room(self, index: int) -> None:
        self.check_open()
        if index < 0 or not self.dynamic:
            kind = "" if self.dynamic else " and the array is not resizeable (dynamic_size=False)"
            raise self.error(f"Tried to write to index {index}, its size is {len(self.items)}{kind}")
        self.items += [None] * (index + 1 - len(self.items))

    def _joined(self, index: int, held: Any, value: Any) -> Any:
        if type(held) is tuple or index in self.read_at:
            raise self.error(f"Could not write to index {index}: it has already been read")
        if not self.adds:
            raise self.error(f"Could not write to index {index}: it has already been written to")
        if held.shape != value.shape:
            raise self.error(
                f"Could not add to index {index}: it holds shape {held.shape}, and the value has {value.shape}"
            )
        return held + value

    def _check_element(self, value: Any) -> None:
        if value.dtype != self.dtype.np and not (self.dtype is string and value.dtype.kind in "OSU"):
            raise self.error(f"Tried to write a value of dtype {value.dtype}, its dtype is {self.dtype.name}")
        dims, shape = self.dims, value.shape
        if shape == dims:
            return
        if dims is not None and (len(shape) != len(dims) or any(d not in (None, s) for d, s in zip(dims, shape))):
            raise self.error(f"Tried to write a value of shape {shape}, its elements have shape {_show(dims)}")
        if self.identical:
            self.dims = shape

    # ------------------------------------------------------------------ reading

    def read(self, index: int, dims: Dims = None) -> Any:
        """Raises InvalidArgumentError on an index outside, an element that a read before has cleared, and one that
        was never written unless its shape is known (or `dims` says it): then it is zeros."""
        items = self.items
        if not 0 <= index < len(items) or self.closed:
            self.check_open()
            raise self.error(f"Tried to read from index {index}, its size is {len(items)}")
        value = items[index]
        if value is None or type(value) is tuple:
            value = self._zeros(index, value, dims)
        if self.clears:
            items[index] = value.shape
        else:
            self.read_at.add(index)
        return value

    def _zeros(self, index: int, why: Any, dims: Dims) -> Any:
        if why is not None:
            raise self.error(
                f"Could not read index {index} twice: it was cleared after a previous read (perhaps try "
                "clear_after_read=False?)"
            )
        known = self.shapes[index] if index < len(self.shapes) else None
        shape = next((s for s in (known, self.dims, dims) if s is not None and None not in s), None)
        if shape is None:
            said = _show(self.dims if known is None else known)
            raise self.error(
                f"Could not read index {index}: it was not written, and the shape of its zeros is not known ({said}). "
                "Give the array a full element_shape to read zeros there"
            )
        return np.full(shape, b"", object) if self.dtype is string else self.xp.zeros(shape, self.dtype.np)

    # ------------------------------------------------------------------ gradients

    def gradient(self, source: str, prefix: tuple[int, ...] = ()) -> TensorArray:
        """The array of gradients of that source, made at first use; from then on this array keeps its size."""
        self.check_open()
        found = self.gradients.get(source)
        if found is None:
            dims = None if self.dims is None else (*prefix, *self.dims)
            found = TensorArray(f"{self.name}@{source}", self.xp, self.dtype, len(self.items), dims)
            found.adds, found.identical, found.clears = True, self.identical and not prefix, self.clears
            shapes = (v if v is None or type(v) is tuple else v.shape for v in self.items)
            found.shapes = [None if shape is None else (*prefix, *shape) for shape in shapes]
            self.gradients[source] = found
            self.dynamic = False
        return found


def _show(dims: Dims) -> str:
    return "<unknown>" if dims is None else "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"


def _dims(node: Node, name: str) -> Dims:
    shape = node.attr(name)
    return shape.dims if isinstance(shape, Shape) else None


# ---------------------------------------------------------------------- making, closing


@bound("TensorArrayV3", multi=True, plain=True)
def _make(node: Node) -> Function:
    name, xp, dtype = node.attr("tensor_array_name") or node.name, node.xp, node.attr("dtype")
    dims, flow = _dims(node, "element_shape"), node.xp.float32(0)
    dynamic, identical = node.attr("dynamic_size", False), node.attr("identical_element_shapes", False)
    clears = node.attr("clear_after_read", True)

    def run(size: Any) -> tuple[TensorArray, Any]:
        count = one_int(size)
        if count < 0:
            raise InvalidArgumentError(f"TensorArray {name!r}: its size must not be negative, got {count}")
        made = TensorArray(name, xp, dtype, count, dims)
        made.dynamic, made.identical, made.clears = dynamic, identical, clears
        return made, flow

    return run


@bound("TensorArrayGradV3", refs=(0,), multi=True, plain=True)
def _gradient(node: Node) -> Function:
    source = node.attr("source")
    return lambda array, flow: (array.gradient(source), flow)


@bound("TensorArrayGradWithShape", refs=(0,), multi=True, plain=True)
def _gradient_with_shape(node: Node) -> Function:
    source = node.attr("source")
    return lambda array, flow, prefix: (array.gradient(source, ints(prefix)), flow)


@bound("TensorArraySizeV3", refs=(0,), plain=True)
def _size(node: Node) -> Function:
    def run(array: TensorArray, flow: Any) -> Any:
        array.check_open()
        return node.xp.int32(len(array.items))

    return run


@bound("TensorArrayCloseV3", refs=(0,), multi=True, plain=True)
def _close(node: Node) -> Function:
    def run(array: TensorArray) -> tuple[()]:
        array.closed, array.items = True, []
        return ()

    return run


# ---------------------------------------------------------------------- one element


@bound("TensorArrayWriteV3", refs=(0,), plain=True)
def _write(node: Node) -> Function:
    def run(array: TensorArray, index: Any, value: Any, flow: Any) -> Any:
        array.write(int(index), texts(value) if type(value) is bytes else value)
        return flow

    return run


@bound("TensorArrayReadV3", refs=(0,), aliases=True, plain=True)
def _read(node: Node) -> Function:
    dtype = node.attr("dtype")

    def run(array: TensorArray, index: Any, flow: Any) -> Any:
        if array.dtype is not dtype:
            raise array.error(f"its dtype is {array.dtype.name}, and {node.name!r} reads {dtype.name}")
        return array.read(int(index))

    return run


# ---------------------------------------------------------------------- many elements


@bound("TensorArrayScatterV3", refs=(0,), plain=True)
def _scatter(node: Node) -> Function:
    def run(array: TensorArray, indices: Any, value: Any, flow: Any) -> Any:
        wanted = ints(indices)
        if not value.shape or len(wanted) != len(value):
            raise array.error(f"{len(wanted)} indices to scatter a value of shape {value.shape} to: need one a row")
        for index, row in zip(wanted, _rows(value)):
            array.write(index, row)
        return flow

    return run


def _rows(value: Any) -> Sequence[Any]:
    """The elements along the first axis as arrays, views where they have an axis of their own."""
    return list(value) if value.ndim > 1 else [value[i : i + 1].reshape(()) for i in range(len(value))]


@bound("TensorArrayGatherV3", refs=(0,), plain=True)
def _gather(node: Node) -> Function:
    xp, dims, dtype = node.xp, _dims(node, "element_shape"), node.attr("dtype").np

    def run(array: TensorArray, indices: Any, flow: Any) -> Any:
        array.check_open()
        values = [array.read(i, dims) for i in ints(indices)]
        if not values:
            return xp.zeros((0, *_known(array, dims)), dtype)
        _check_alike(array, values, "gather", 0)
        out = xp.empty((len(values), *values[0].shape), values[0].dtype)
        for row, value in enumerate(values):
            out[row, ...] = value  # of a string, what the array of it holds
        return out

    return run


def _check_alike(array: TensorArray, values: Sequence[Any], what: str, skip: int) -> None:
    """Raises InvalidArgumentError unless all values have one shape beyond their first `skip` axes."""
    first = values[0].shape
    for i, value in enumerate(values):
        if value.shape[skip:] != first[skip:] or value.ndim != len(first):
            raise array.error(f"Cannot {what} elements of shapes {first} (the first) and {value.shape} (number {i})")


def _known(array: TensorArray, dims: Dims, behind: int = 0) -> tuple[int, ...]:
    """The shape of elements where there is none to look at, behind so many of its axes."""
    for found in (array.dims and array.dims[behind:], dims):
        if found is not None and None not in found:
            return found  # type: ignore[return-value]
    text = (
        f"TensorArray {array.name!r}: Without an element, the shape of elements must be fully known, got {_show(dims)}"
    )
    raise UnimplementedError(text)


@bound("TensorArrayConcatV3", refs=(0,), multi=True, plain=True)
def _concat(node: Node) -> Function:
    xp, rest, dtype = node.xp, _dims(node, "element_shape_except0"), node.attr("dtype").np

    def run(array: TensorArray, flow: Any) -> tuple[Any, Any]:
        array.check_open()
        values = [array.read(i) for i in range(len(array.items))]
        if not values:
            return xp.zeros((0, *_known(array, rest, 1)), dtype), xp.zeros(0, xp.int64)
        if not values[0].shape:
            raise array.error("Cannot concat scalars: elements need an axis to join; gather stacks them")
        _check_alike(array, values, "concat", 1)
        return xp.concatenate(values), xp.asarray([len(v) for v in values], xp.int64)

    return run


@bound("TensorArraySplitV3", refs=(0,), plain=True)
def _split(node: Node) -> Function:
    def run(array: TensorArray, value: Any, lengths: Any, flow: Any) -> Any:
        sizes = [int(n) for n in host(lengths).ravel()]
        total = value.shape[0] if value.shape else 0
        if not value.shape or sum(sizes) != total or any(n < 0 for n in sizes):
            raise array.error(f"Lengths {sizes} must be positive and sum to the {total} rows of shape {value.shape}")
        if len(sizes) != len(array.items) and not (array.dynamic and len(sizes) > len(array.items)):
            raise array.error(f"{len(sizes)} lengths to split by, its size is {len(array.items)}")
        start = 0
        for index, size in enumerate(sizes):
            array.write(index, value[start : start + size])
            start += size
        return flow

    return run
