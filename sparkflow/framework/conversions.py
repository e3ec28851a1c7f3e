"""Small names of tf that convert values, or are there for programs that name them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from typing import Any

import numpy as np

from sparkflow.framework import shapes
from sparkflow.framework.apply import convert_to_tensor, register_conversion
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.python_values import as_array
from sparkflow.framework.scopes import name_scope
from sparkflow.framework.sparse_tensor import SparseTensor, SparseTensorValue
from sparkflow_runtime.wire import tensor_proto
from sparkflow_runtime.wire.dtypes import as_dtype
from sparkflow_runtime.wire.protos import TensorProto


class AggregationMethod:
    """How gradients of one tensor are added; accepted and not looked at: there is one way."""

    ADD_N = DEFAULT = 0
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


class VariableSynchronization(Enum):
    """A variable is where its device is; one that is ON_READ is not trained unless it is asked for."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(Enum):
    """Kept with a variable: there is one replica."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


def convert_to_tensor_or_indexed_slices(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """IndexedSlices and SparseTensors as they are, anything else as a Tensor."""
    return value if isinstance(value, (IndexedSlices, SparseTensor)) else convert_to_tensor(value, dtype, name)


def convert_to_tensor_or_sparse_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """SparseTensors (of SparseTensorValues too), anything else as a Tensor. Raises RuntimeError on another dtype."""
    if not isinstance(value, (SparseTensor, SparseTensorValue)):
        return convert_to_tensor(value, dtype, name)
    found = SparseTensor.from_value(value)
    if dtype is not None and not as_dtype(dtype).is_compatible_with(found.dtype):
        raise RuntimeError(f"Sparse dtype: requested = {as_dtype(dtype).name}, actual = {found.dtype.name}")
    return found


def get_static_value(tensor: Any, partial: bool = False) -> Any:
    """The array that the tensor is known to hold, None where only a step tells."""
    return constant_value(tensor) if isinstance(tensor, Tensor) else np.asarray(tensor)


def make_tensor_proto(
    values: Any, dtype: Any = None, shape: Any = None, verify_shape: bool = False, allow_broadcast: bool = False
) -> TensorProto:
    """A TensorProto of these values. allow_broadcast: one value may fill the shape.

    Raises ValueError where they do not fill the shape.
    """
    array = as_array(values, None if dtype is None else as_dtype(dtype))
    sizes = array.shape if shape is None else tuple(map(int, shape))
    if allow_broadcast and array.size == 1:
        array = np.broadcast_to(array.reshape([]), sizes)
    if array.shape != sizes:
        if verify_shape or array.size != shapes.product(sizes):
            raise ValueError(f"Expected Tensor's shape: {sizes}, got {array.shape}.")
        array = array.reshape(sizes)
    return tensor_proto.make_tensor_proto(array)


def make_ndarray(tensor: TensorProto) -> np.ndarray:
    return tensor_proto.make_ndarray(tensor)


def register_tensor_conversion_function(
    base_type: Any, conversion_func: Callable[..., Any], priority: int = 100
) -> None:
    """conversion_func(value, dtype=None, name=None, as_ref=False) makes a Tensor of a value of that type (or types)."""
    for kind in base_type if isinstance(base_type, tuple) else (base_type,):
        if not isinstance(kind, type):
            raise TypeError(f"base_type must be a type or a tuple of types, got {base_type!r}")
        register_conversion(
            kind, lambda value, dtype, name, as_ref: conversion_func(value, dtype=dtype, name=name, as_ref=as_ref)
        )


@contextmanager
def op_scope(values: Any, name: str | None, default_name: str | None = None) -> Iterator[str]:
    """name_scope with its oldest order of arguments."""
    with name_scope(name, default_name, values) as scope:
        yield scope


def init_scope() -> AbstractContextManager[None]:
    """Out of all control dependencies, branches and loops."""
    return get_default_graph().control_dependencies(None)
