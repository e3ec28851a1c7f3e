"""Lists of tensors as values (variant tensors): what TensorFlow 2 makes of TensorArrays and of loops' gradients.

A list never changes: what puts something into it gives another list. An element that was not set is zeros.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import host, ints, one_int
from sparkflow_runtime.kernels.registry import Function, Node, bound
from sparkflow_runtime.wire.errors import InvalidArgumentError

Dims = tuple[int | None, ...]


class TensorList:
    """values: arrays, None where nothing was set. dims: of an element, as far as known; None where not even its rank
    is."""

    __slots__ = ("dims", "dtype", "limit", "values")
    shape: tuple[int, ...] = ()  # as a tensor it is a scalar

    def __init__(self, values: list[Any], dtype: Any, dims: Dims | None, limit: int = -1):
        self.values, self.dtype, self.dims, self.limit = values, dtype, dims, limit

    def of(self, values: list[Any]) -> TensorList:
        return TensorList(values, self.dtype, self.dims, self.limit)

    def zeros(self) -> TensorList:
        return self.of([None] * len(self.values))

    def __add__(self, other: TensorList) -> TensorList:
        if len(self.values) != len(other.values):
            raise InvalidArgumentError(
                f"AddN: lists of {len(self.values)} and {len(other.values)} tensors cannot be added"
            )
        pairs = zip(self.values, other.values)
        return self.of([b if a is None else a if b is None else a + b for a, b in pairs])

    def element(self, xp: Any, index: int, dims: Dims | None) -> Any:
        """Raises InvalidArgumentError on an index that is not in the list, and on zeros of an unknown shape."""
        if not 0 <= index < len(self.values):
            raise InvalidArgumentError(f"Trying to access element {index} in a list with {len(self.values)} elements.")
        value = self.values[index]
        return self.blank(xp, dims) if value is None else value

    def blank(self, xp: Any, dims: Dims | None) -> Any:
        """Zeros for an element that was not set."""
        known = [v.shape for v in self.values if v is not None]
        shape = next((s for s in (dims, self.dims, *known) if s is not None and None not in s), None)
        if shape is None:
            raise InvalidArgumentError(
                "Trying to read an uninitialized tensor of a list, and its shape is not known: the list's is "
                f"{self.dims}, the shape that is asked for {dims}"
            )
        return xp.zeros(shape, self.dtype)


def _dims(shape: Any) -> Dims | None:
    """A shape input: a vector with -1 for sizes that are not known, or -1 alone."""
    array = host(shape)
    return None if array.ndim == 0 else tuple(None if n < 0 else int(n) for n in array)


def _kernel(
    *ops: str, multi: bool = False, of_list: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register fn(node, *inputs); no such op may be folded into a constant, so all count as stateful.

    of_list: the first input is a list, which stays on its device.
    """

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        @bound(*ops, multi=multi, aliases=True, plain=True, refs=(0,) if of_list else ())
        def factory(node: Node) -> Function:
            return functools.partial(fn, node)

        return fn

    return register


def _np_dtype(node: Node) -> Any:
    return node.attr("element_dtype").np


# ---------------------------------------------------------------------- new lists


@_kernel("EmptyTensorList")
def _empty(node: Node, shape: Any, limit: Any) -> TensorList:
    return TensorList([], _np_dtype(node), _dims(shape), one_int(limit))


@_kernel("TensorListReserve")
def _reserve(node: Node, shape: Any, count: Any) -> TensorList:
    return TensorList([None] * one_int(count), _np_dtype(node), _dims(shape))


@_kernel("TensorListFromTensor")
def _from_tensor(node: Node, tensor: Any, shape: Any) -> TensorList:
    if not tensor.shape:
        raise InvalidArgumentError("TensorListFromTensor: the tensor must be at least a vector, got a scalar")
    return TensorList(list(tensor), _np_dtype(node), _dims(shape))


@_kernel("TensorListScatterV2")
def _scatter(node: Node, tensor: Any, indices: Any, shape: Any, count: Any) -> TensorList:
    places = ints(indices)
    values: list[Any] = [None] * max(one_int(count), 1 + max(places, default=-1))
    for place, value in zip(places, tensor, strict=True):
        values[place] = value
    return TensorList(values, _np_dtype(node), _dims(shape))


@_kernel("TensorListSplit")
def _split(node: Node, tensor: Any, shape: Any, lengths: Any) -> TensorList:
    sizes = ints(lengths)
    if sum(sizes) != len(tensor):
        raise InvalidArgumentError(f"TensorListSplit: lengths {list(sizes)} do not add up to {len(tensor)} rows")
    ends = np.cumsum(sizes)
    return TensorList([tensor[end - n : end] for n, end in zip(sizes, ends)], _np_dtype(node), _dims(shape))


# ---------------------------------------------------------------------- elements


@_kernel("TensorListPushBack", of_list=True)
def _push_back(node: Node, tensors: TensorList, value: Any) -> TensorList:
    if len(tensors.values) == tensors.limit:
        raise InvalidArgumentError(f"TensorListPushBack: the list is full: it holds at most {tensors.limit} tensors")
    return tensors.of([*tensors.values, value])


@_kernel("TensorListPopBack", multi=True, of_list=True)
def _pop_back(node: Node, tensors: TensorList, shape: Any) -> tuple[TensorList, Any]:
    if not tensors.values:
        raise InvalidArgumentError("Trying to pop from an empty list.")
    return tensors.of(tensors.values[:-1]), tensors.element(node.xp, len(tensors.values) - 1, _dims(shape))


@_kernel("TensorListGetItem", of_list=True)
def _get_item(node: Node, tensors: TensorList, index: Any, shape: Any) -> Any:
    return tensors.element(node.xp, one_int(index), _dims(shape))


@_kernel("TensorListSetItem", of_list=True)
def _set_item(node: Node, tensors: TensorList, index: Any, value: Any) -> TensorList:
    at, values = one_int(index), list(tensors.values)
    if node.attr("resize_if_index_out_of_bounds", False) and at >= len(values):
        values += [None] * (at + 1 - len(values))
    if not 0 <= at < len(values):
        raise InvalidArgumentError(f"Trying to modify element {at} in a list with {len(values)} elements.")
    values[at] = value
    return tensors.of(values)


@_kernel("TensorListResize", of_list=True)
def _resize(node: Node, tensors: TensorList, size: Any) -> TensorList:
    count = one_int(size)
    return tensors.of((tensors.values + [None] * (count - len(tensors.values)))[:count])


# ---------------------------------------------------------------------- all of it


@_kernel("TensorListLength", of_list=True)
def _length(node: Node, tensors: TensorList) -> Any:
    return np.array(len(tensors.values), np.int32)


@_kernel("TensorListElementShape", of_list=True)
def _element_shape(node: Node, tensors: TensorList) -> Any:
    dtype = node.attr("shape_type").np
    return np.array(-1 if tensors.dims is None else [-1 if n is None else n for n in tensors.dims], dtype)


@_kernel("TensorListStack", of_list=True)
def _stack(node: Node, tensors: TensorList, shape: Any) -> Any:
    wanted, dims, count = node.attr("num_elements", -1), _dims(shape), len(tensors.values)
    if wanted not in (-1, count):
        raise InvalidArgumentError(f"TensorListStack: {wanted} elements are wanted, and the list has {count}")
    return _stacked(node, tensors, range(count), dims)


@_kernel("TensorListGather", of_list=True)
def _gather(node: Node, tensors: TensorList, indices: Any, shape: Any) -> Any:
    return _stacked(node, tensors, ints(indices), _dims(shape))


def _stacked(node: Node, tensors: TensorList, places: Any, dims: Dims | None) -> Any:
    if not len(places):
        return node.xp.empty((0, *tensors.blank(node.xp, dims).shape), tensors.dtype)
    return node.xp.stack([tensors.element(node.xp, i, dims) for i in places])


@_kernel("TensorListConcatV2", multi=True, of_list=True)
def _concat(node: Node, tensors: TensorList, shape: Any, leading: Any) -> tuple[Any, Any]:
    sizes = ints(leading)
    dims = _dims(shape)
    parts = []
    for i, value in enumerate(tensors.values):
        rows = dims if dims is None or i >= len(sizes) else (sizes[i], *dims[1:])
        parts.append(tensors.element(node.xp, i, rows) if value is None else value)
    if not parts:
        rest = (dims or tensors.dims or ())[1:]
        return node.xp.empty((0, *rest), tensors.dtype), np.zeros(0, np.int64)
    return node.xp.concatenate(parts), np.array([len(p) for p in parts], np.int64)
