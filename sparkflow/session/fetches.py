"""What `Session.run` was asked for, flattened: tensors and operations in, a structure of the same shape out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, cast

from sparkflow.framework.graph import Graph, Operation, Tensor
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.sparse_tensor import SparseTensor, SparseTensorValue

Rebuild = Callable[[list[Any]], Any]


class IndexedSlicesValue(NamedTuple):
    values: Any
    indices: Any
    dense_shape: Any


class FetchPlan:
    """tensors and targets to run, and how their values become the caller's structure."""

    def __init__(self, graph: Graph, fetches: Any, session: Callable[[], Any] = lambda: None):
        self._graph, self._session = graph, session
        self.tensors: list[str] = []
        self.targets: list[str] = []
        self._asked: set[str] = set()  # the targets
        self._index: dict[str, int] = {}
        self._places: dict[Rebuild, int] = {}  # of the maps that take one value
        self.rebuild: Rebuild = self._map(fetches)

    def _map(self, fetch: Any) -> Rebuild:
        if isinstance(fetch, (Tensor, Operation, str)):
            return self._leaf(fetch)
        for kind, fetch_function, *_ in CONVERSIONS:
            if isinstance(fetch, kind):
                found, contract = fetch_function(fetch)
                return self._into(contract, found)
        for kind, parts_of, join in _COMPOSITES:
            if isinstance(fetch, kind):
                parts = [_nothing if part is None else self._map(part) for part in parts_of(fetch)]
                return lambda values: join([part(values) for part in parts])
        if isinstance(fetch, Mapping):
            return self._mapping(fetch)
        if isinstance(fetch, (list, tuple)):
            return self._sequence(fetch)
        if hasattr(fetch, "__attrs_attrs__"):
            names = [field.name for field in fetch.__attrs_attrs__]
            return self._into(lambda found: type(fetch)(*found), [getattr(fetch, name) for name in names])
        return self._leaf(fetch)

    def _mapping(self, fetch: Mapping[Any, Any]) -> Rebuild:
        keys, make = list(fetch), cast(Any, type(fetch))
        if isinstance(fetch, defaultdict):
            make = partial(defaultdict, fetch.default_factory)
        return self._into(lambda found: make(zip(keys, found)), fetch.values())

    def _sequence(self, fetch: Any) -> Rebuild:
        kind = type(fetch)
        return self._into((lambda found: kind(*found)) if hasattr(fetch, "_fields") else kind, fetch)

    def _into(self, make: Callable[[list[Any]], Any], fetches: Iterable[Any]) -> Rebuild:
        maps = [self._map(fetch) for fetch in fetches]
        if len(maps) > 1 and all(each in self._places for each in maps):  # tensors alone
            take = itemgetter(*[self._places[each] for each in maps])
            return lambda values: make(list(take(values)))
        return lambda values: make([each(values) for each in maps])

    def _leaf(self, fetch: Any) -> Rebuild:
        element = _element(self._graph, fetch)
        if isinstance(element, Operation):
            if element.name not in self._asked:
                self._asked.add(element.name)
                self.targets.append(element.name)
            return lambda values: None
        return self._tensor(element)

    def _tensor(self, tensor: Tensor) -> Rebuild:
        name = tensor.name
        index = self._index.get(name)
        if index is None:
            index = self._index[name] = len(self.tensors)
            self.tensors.append(name)
        wrap = _OUTPUTS.get(tensor.op.type)
        if wrap is not None:
            return lambda values: wrap(values[index], tensor, self._session())
        take = itemgetter(index)
        self._places[take] = index
        return take


class FetchPlans:
    """The plans of a session, by what was asked for: programs ask for the same again and again."""

    def __init__(self, graph: Graph, session: Callable[[], Any], most: int = 1000):
        self._graph, self._session, self._most = graph, session, most
        self._made: dict[Any, FetchPlan] = {}

    def of(self, fetches: Any) -> FetchPlan:
        """Raises TypeError or ValueError on what cannot be fetched."""
        try:
            key = fetches if type(fetches) is Tensor else _key(fetches)
            found = self._made.get(key)
        except TypeError:  # it cannot be hashed
            return FetchPlan(self._graph, fetches, self._session)
        if found is None:
            found = FetchPlan(self._graph, fetches, self._session)
            if len(self._made) >= self._most:
                self._made.clear()
            self._made[key] = found
        return found


def _key(fetches: Any) -> Any:
    """By which a structure is the same as another: tuples of two kinds are not, though they be equal."""
    kind = type(fetches)
    if issubclass(kind, (list, tuple)):
        return (kind, *[one if type(one) is Tensor else _key(one) for one in fetches])
    if kind is dict:
        return (kind, *fetches, *map(_key, fetches.values()))
    return fetches


def _nothing(values: list[Any]) -> None:
    """Of a part that is absent, such as the dense_shape of IndexedSlices."""


# What stands for several tensors: (its class, its parts, its value from theirs); `register_composite` adds rows.
_COMPOSITES: list[tuple[type, Callable[[Any], Sequence[Any]], Callable[[list[Any]], Any]]] = [
    (IndexedSlices, lambda s: (s.values, s.indices, s.dense_shape), lambda found: IndexedSlicesValue(*found)),
    (SparseTensor, lambda s: (s.indices, s.values, s.dense_shape), lambda found: SparseTensorValue(*found)),
]


def register_composite(kind: type, parts_of: Callable[[Any], Sequence[Any]], join: Callable[[list[Any]], Any]) -> None:
    """Let sessions fetch and feed `kind`: parts_of(it) are its tensors (or None), join(values of the parts) its value.

    A value that is fed is a sequence of the values of the parts, in the same order.
    """
    _COMPOSITES.append((kind, parts_of, join))


# Of ops whose fetched values are more than arrays: (value, tensor, session) -> what the caller gets.
_OUTPUTS: dict[str, Callable[[Any, Tensor, Any], Any]] = {}


def register_output(op_type: str, wrap: Callable[[Any, Tensor, Any], Any]) -> None:
    """Let runs give wrap(value, tensor, session) for what ops of that type give."""
    _OUTPUTS[op_type] = wrap


# What a program has registered: (its class and the three functions), the last first.
CONVERSIONS: list[tuple[type, Callable[[Any], tuple[Sequence[Any], Callable[[list[Any]], Any]]], Any, Any]] = []


def register_session_run_conversion_functions(
    tensor_type: type,
    fetch_function: Callable[[Any], tuple[Sequence[Any], Callable[[list[Any]], Any]]],
    feed_function: Callable[[Any, Any], Iterable[tuple[Any, Any]]] | None = None,
    feed_function_for_partial_run: Any = None,
) -> None:
    """Let sessions fetch and feed values of a type: fetch_function(it) -> (what to fetch, what makes its value of the
    list of theirs); feed_function(it, value) -> [(what to feed, its value)]; feed_function_for_partial_run(it) -> what
    will be fed. Raises ValueError where it is registered.
    """
    if any(issubclass(kind, tensor_type) for kind, *_ in CONVERSIONS):
        raise ValueError(f"{tensor_type} has already been registered so ignore it.")
    CONVERSIONS.insert(0, (tensor_type, fetch_function, feed_function, feed_function_for_partial_run))


def composite_parts(key: Any) -> list[Any] | None:
    """The tensors of a composite, None for anything else."""
    return next((list(parts_of(key)) for kind, parts_of, _ in _COMPOSITES if isinstance(key, kind)), None)


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
