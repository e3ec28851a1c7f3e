"""What `feed_dict` gives, checked: names of tensors and arrays of their dtypes and shapes."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sparkflow.framework import shapes
from sparkflow.framework.graph import Graph, Tensor
from sparkflow.framework.python_values import as_array
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.session.fetches import CONVERSIONS, composite_parts
from sparkflow_runtime.wire import dtypes

# Python numbers of these types become numpy scalars of these dtypes at once; whatever else takes the long way.
_DIRECT: dict[tuple[type, str], type] = {
    **{(float, name): getattr(np, name) for name in ("float32", "float64")},
    **{(int, name): getattr(np, name) for name in ("float32", "float64", "int32", "int64")},
    (bool, "bool"): np.bool_,
}


def feeds_of(graph: Graph, feed_dict: Any) -> dict[str, Any]:
    """'name:port' -> value. Raises TypeError on keys that are no tensors, TypeError or ValueError on values that do
    not fit them."""
    if type(feed_dict) is not dict and not isinstance(feed_dict, Mapping):  # the second asks an abstract class
        raise TypeError(f"feed_dict must be a dictionary of tensors and values, got {type(feed_dict).__name__}")
    feeds: dict[str, Any] = {}
    for key, value in feed_dict.items():
        if type(key) is Tensor and key.op.graph is graph and key.op not in graph._unfeedable:
            feeds[key.name] = checked(key, value)
        else:
            _add(graph, key, value, feeds)
    return feeds


def feeds_in_order(graph: Graph, keys: Iterable[Any], values: Iterable[Any]) -> dict[str, Any]:
    """The same of keys and their values side by side."""
    feeds: dict[str, Any] = {}
    for key, value in zip(keys, values, strict=True):
        _add(graph, key, value, feeds)
    return feeds


def fed_tensors(graph: Graph, key: Any) -> list[Tensor]:
    """All tensors that a key of any kind will be fed as. Raises TypeError and ValueError as fed_tensor does."""
    parts = key if isinstance(key, (list, tuple)) else composite_parts(key)
    for kind, _, _, names in CONVERSIONS:
        if isinstance(key, kind) and names is not None:
            parts = names(key)
            break
    if parts is None:
        return [fed_tensor(graph, key)]
    return [tensor for part in parts if part is not None for tensor in fed_tensors(graph, part)]


def _add(graph: Graph, key: Any, value: Any, feeds: dict[str, Any]) -> None:
    """One key of any kind: a tensor, its name, a composite such as IndexedSlices, or a tuple of keys."""
    for kind, _, feed_function, _ in CONVERSIONS:
        if isinstance(key, kind) and feed_function is not None:
            for part, part_value in feed_function(key, value):
                _add(graph, part, part_value, feeds)
            return
    parts = key if isinstance(key, (list, tuple)) else composite_parts(key)
    if parts is None:
        tensor = fed_tensor(graph, key)
        feeds[tensor.name] = checked(tensor, value)
        return
    if not hasattr(value, "__len__"):
        raise TypeError(f"A feed key of {len(parts)} elements got {value!r}: {key}. {_wanted(key)}")
    if len(parts) != len(value):
        raise ValueError(
            f"A feed key of {len(parts)} elements got a value of {len(value)}: {key} and {value!r}. {_wanted(key)}"
        )
    for part, part_value in zip(parts, value):
        if part is not None:
            _add(graph, part, part_value, feeds)


def _wanted(key: Any) -> str:
    """What to feed for a key of several tensors."""
    if isinstance(key, SparseTensor):
        return "Feed a tf.SparseTensorValue(indices, values, dense_shape)"
    return "Feed a tuple with a value for each"


def fed_tensor(graph: Graph, key: Any) -> Tensor:
    """The tensor that a key of feed_dict is or names. Raises TypeError where there is none, ValueError where it may not
    be fed."""
    try:
        tensor = graph.as_graph_element(key, allow_operation=False)
    except (TypeError, ValueError, KeyError) as error:
        raise TypeError(f"Cannot interpret feed_dict key as Tensor: {error}") from None
    if not graph.is_feedable(tensor):
        raise ValueError(f"Tensor {tensor.name!r} may not be fed.")
    return tensor


def checked(tensor: Tensor, value: Any) -> Any:
    """The value in the tensor's dtype: an array, or a numpy scalar for a Python number.

    Raises TypeError or ValueError, naming the tensor, where dtype or shape do not fit.
    """
    want = tensor.dtype.base_dtype
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype == want.np and want is not dtypes.string:
        # Arrays that came over a wire (Dask's) or out of a file may begin between two words, as no loop expects them.
        array: Any = value if value.flags.aligned else value.copy()
    else:
        array = _converted(tensor, value, want)
    if array.shape != tensor._shape and not shapes.compatible(array.shape, tensor._shape):
        raise ValueError(
            f"Cannot feed value of shape {array.shape} for Tensor {tensor.name!r}, which has shape "
            f"{shapes.show(tensor._shape)}"
        )
    return array


def _converted(tensor: Tensor, value: Any, want: dtypes.DType) -> Any:
    """Numbers are cast as numpy casts them, but never so that a float becomes an integer, or a complex number a
    real one, with a loss."""
    try:
        direct = _DIRECT.get((type(value), want.name))
        if direct is not None:
            return direct(value)
        if isinstance(value, Tensor):
            raise TypeError("the value of a feed cannot be a Tensor; run it first and feed the result")
        array = as_array(value, dtypes.string) if want is dtypes.string else _numbers(np.asarray(value))
        _check_kind(array, want)
        if isinstance(value, int) and want.np.type(value) != value:
            raise OverflowError
        fed = array.astype(want.np, copy=False)
        if array.dtype.kind in "iu" and want.is_integer and not np.array_equal(fed, array):
            value = array[fed != array][0]
            raise TypeError(f"values such as {value!r} do not fit {want.name} [{want.min}, {want.max}]")
        return fed
    except OverflowError:
        raise TypeError(
            f"Cannot feed {tensor.name!r}: the value {value} does not fit {want.name}. "
            "Give the fed tensor a larger type (e.g. tf.int64)"
        ) from None
    except (TypeError, ValueError) as error:
        raise type(error)(f"Cannot feed {tensor.name!r} (dtype {want.name}): {error}") from None


def _numbers(array: np.ndarray) -> np.ndarray:
    """Of an array of objects, as the values of a table with columns of several types are, the numbers."""
    if array.dtype != object:
        return array
    found = np.array(array.tolist())  # raises ValueError where the parts have different lengths
    return found if found.shape == array.shape and found.dtype.kind in "biufc" else array


def _check_kind(array: np.ndarray, want: dtypes.DType) -> None:
    if array.dtype.kind in "OSU" and want is not dtypes.string:
        raise ValueError(f"the value has type {array.dtype}{_such_as(array)}")
    if array.dtype.kind == "f" and want.is_integer and (cut := array[array != np.trunc(array)]).size:
        null = "; nan is what a null becomes among floats, fill it" if np.isnan(cut[0]) else ""
        raise TypeError(f"values such as {cut[0]!r} would be cut to {want.name}{null}")
    if array.dtype.kind == "c" and not want.is_complex:
        raise TypeError("complex numbers would lose their imaginary parts; feed value.real")


def _such_as(array: np.ndarray) -> str:
    """The first value that is no number, and what to do about it."""
    items = array.ravel().tolist()
    wrong = next((item for item in items if not isinstance(item, (int, float, complex, np.number, np.bool_))), None)
    is_row = isinstance(wrong, (list, tuple, np.ndarray))
    what = "Of a column of rows np.stack makes one array" if is_row else "Fill nulls, convert others to numbers"
    return f", such as {reprlib.repr(wrong)} of type {type(wrong).__name__}. {what}"
