"""What `Session.run` was asked for, flattened: tensors and operations in, a structure of the same shape out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sparkflow.framework.graph import Graph, Operation, Tensor
from sparkflow.framework.indexed_slices import IndexedSlices

Rebuild = Callable[[list[Any]], Any]


class IndexedSlicesValue(NamedTuple):
    values: Any
    indices: Any
    dense_shape: Any


class FetchPlan:
    """tensors and targets to run, and how their values become the caller's structure."""

    def __init__(self, graph: Graph, fetches: Any):
        self._graph = graph
        self.tensors: list[str] = []
        self.targets: list[str] = []
        self._index: dict[str, int] = {}
        self.rebuild: Rebuild = self._map(fetches)

    def _map(self, fetch: Any) -> Rebuild:
        if isinstance(fetch, IndexedSlices):
            parts = [self._map(p) for p in (fetch.values, fetch.indices)]
            shape = self._map(fetch.dense_shape) if fetch.dense_shape is not None else lambda values: None
            return lambda values: IndexedSlicesValue(parts[0](values), parts[1](values), shape(values))
        if isinstance(fetch, Mapping):
            maps = {key: self._map(f) for key, f in fetch.items()}
            make: Any = type(fetch)
            return lambda values: make((key, m(values)) for key, m in maps.items())
        if isinstance(fetch, (list, tuple)):
            return self._sequence(fetch)
        return self._leaf(fetch)

    def _sequence(self, fetch: Any) -> Rebuild:
        maps = [self._map(f) for f in fetch]
        if hasattr(fetch, "_fields"):
            return lambda values: type(fetch)(*(m(values) for m in maps))
        kind = type(fetch)
        return lambda values: kind([m(values) for m in maps])

    def _leaf(self, fetch: Any) -> Rebuild:
        element = _element(self._graph, fetch)
        if isinstance(element, Operation):
            if element.name not in self.targets:
                self.targets.append(element.name)
            return lambda values: None
        return self._tensor(element)

    def _tensor(self, tensor: Tensor) -> Rebuild:
        index = self._index.setdefault(tensor.name, len(self.tensors))
        if index == len(self.tensors):
            self.tensors.append(tensor.name)
        return lambda values: values[index]


def _element(graph: Graph, fetch: Any) -> Any:
    try:
        element = graph.as_graph_element(fetch)
    except TypeError as error:
        raise TypeError(
            f"Fetch argument {fetch!r} has invalid type {type(fetch).__name__}, must be a string, Tensor or "
            f"Operation. ({error})"
        ) from None
    except (ValueError, KeyError) as error:
        raise ValueError(f"Fetch argument {fetch!r} cannot be interpreted as a Tensor. ({error})") from None
    if not graph.is_fetchable(element):
        raise ValueError(
            f"Operation {element.name!r} has been marked as not fetchable. It is inside a cond branch or a while loop: "
            "return its value from there."
        )
    return element
