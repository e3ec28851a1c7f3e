"""What a dataset's elements are: a structure (tuples and dicts) of arrays, with a type and static shape for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sparkflow.framework import nest, shapes
from sparkflow.framework.apply import as_array, convert_to_tensor
from sparkflow.framework.graph import Graph, Tensor
from sparkflow.ops import array
from sparkflow.session.session import Session
from sparkflow_runtime.wire import dtypes


class Spec(NamedTuple):
    """like: a structure with anything at its leaves; types and dims: one for each leaf."""

    like: Any
    types: tuple[dtypes.DType, ...]
    dims: tuple[shapes.Dims, ...]

    def pack(self, leaves: Sequence[Any]) -> Any:
        return nest.pack_sequence_as(self.like, list(leaves))

    def with_dims(self, change: Callable[[shapes.Dims], shapes.Dims]) -> Spec:
        return self._replace(dims=tuple(map(change, self.dims)))


def leaves_of(structure: Any) -> list[Any]:
    """Lists are arrays here, as TensorFlow takes them in datasets; tuples and dicts are structures."""
    return nest.flatten(_tuples(structure))


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return as_value(value)
    if isinstance(value, dict):
        return {k: _tuples(v) for k, v in value.items()}
    if isinstance(value, tuple):
        parts = [_tuples(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


structured = _tuples


def as_value(value: Any) -> Any:
    return value if isinstance(value, Tensor) else as_array(value)


def spec_of(structure: Any) -> Spec:
    """Of a structure of arrays and tensors."""
    leaves = nest.flatten(structure)
    kinds = tuple(dtypes.as_dtype(x.dtype).base_dtype for x in leaves)
    dims = tuple(x._shape if isinstance(x, Tensor) else np.shape(x) for x in leaves)
    return Spec(structure, kinds, dims)


class Function:
    """A user's function as a graph of its own: called with the leaves of an element, it gives the leaves of another.

    spec: of what it gives. The argument of a tuple is its parts, as TensorFlow passes them.
    """

    def __init__(self, function: Callable[..., Any], given: Spec):
        self._graph = Graph()
        with self._graph.as_default():
            self._inputs = [array.placeholder(t, d) for t, d in zip(given.types, given.dims)]
            element = given.pack(self._inputs)
            plain = isinstance(element, tuple) and not hasattr(element, "_fields")
            self.raw = function(*element) if plain else function(element)
            if not hasattr(self.raw, "_rows"):
                made = nest.map_structure(convert_to_tensor, structured(self.raw))
                self.spec = spec_of(made)
                self._outputs = nest.flatten(made)
        self._call: Any = None

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        if self._call is None:
            self._call = Session(graph=self._graph).make_callable(self._outputs, self._inputs)
        return self._call(*leaves)
