"""Iterator: a dataset's elements as tensors, the next ones with every step.

Where an iterator stands belongs to the session that runs it, or to all sessions of a task that name it by one
shared_name; the datasets are Python.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Self
from weakref import WeakValueDictionary

from sparkflow.data import draws
from sparkflow.data.dataset import Dataset
from sparkflow.data.elements import Spec, dims_like, leaves_of, sparse_like, structured
from sparkflow.data.interrupts import next_row
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Graph, Operation, Tensor, get_default_graph
from sparkflow.framework.nest import flatten, pack_sequence_as
from sparkflow.framework.random_seed import get_seed
from sparkflow.framework.shapes import TensorShape, compatible, show
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops.script import py_func_of_session
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from sparkflow_runtime.wire.py_functions import SHARED

_NUMBERS = count()
_BY_HANDLE: WeakValueDictionary[bytes, Iterator] = WeakValueDictionary()
_KEPT = "iterators"  # in a graph's extra: those whose elements its nodes give
State = dict[str, Any]  # a session's: "rows" is what is left of its "source", "lock" is held while it gives one
_PLACE = ("root", "asked", "failed", "over")  # what of a state says where it stands
Origin = tuple[Dataset, Mapping[Any, Any]]  # a dataset and the values of its tensors


def iterates(graph: Graph) -> bool:
    """Whether the graph takes elements of datasets, which come to an end."""
    return _KEPT in graph.extra


def iterators() -> list[Iterator]:
    """Those of the current graph."""
    return list(get_default_graph().extra.get(_KEPT, ()))


class Iterator:
    """get_next() raises OutOfRangeError when it runs at the end, FailedPreconditionError before an initializer did."""

    _spec: Spec
    _start: Origin | None  # where a session begins that runs no initializer before
    _lock: threading.Lock
    _name: str
    _initializer: Operation | None = None
    _resource: Tensor | None = None

    def __init__(
        self,
        iterator_resource: Any,
        initializer: Any,
        output_types: Any,
        output_shapes: Any,
        output_classes: Any = None,
    ):
        """Another one of the iterator whose `_iterator_resource` that is: both go through the same elements. Raises
        ValueError where it is none's, TypeError where the types or shapes do not fit."""
        owners = [i for i in get_default_graph().extra.get(_KEPT, []) if i._resource is iterator_resource]
        if not owners:
            raise ValueError(
                f"Iterator: iterator_resource must be the `_iterator_resource` of an iterator of this graph, got "
                f"{iterator_resource!r}: Dataset.make_initializable_iterator() or Iterator.from_structure() make one"
            )
        owner, self._spec = owners[0], _spec(output_types, output_shapes, output_classes)
        _check_fits(self._spec, owner._spec)
        self._start, self._lock, self._name = owner._start, owner._lock, owner._name
        self._initializer, self._resource = initializer, iterator_resource

    @classmethod
    def _of(cls, spec: Spec, start: Origin | None = None, shared_name: str | None = None) -> Self:
        self = cls.__new__(cls)
        self._spec, self._start, self._lock = spec, start, threading.Lock()
        self._name = SHARED + shared_name if shared_name else f"iterator_{next(_NUMBERS)}"
        _BY_HANDLE[self._name.encode()] = self
        get_default_graph().extra.setdefault(_KEPT, []).append(self)
        return self

    @staticmethod
    def from_structure(
        output_types: Any, output_shapes: Any = None, shared_name: str | None = None, output_classes: Any = None
    ) -> Iterator:
        """One without a dataset: make_initializer(dataset) gives it one of these types and shapes. shared_name: all
        sessions of a task that name it so go through the same elements."""
        return Iterator._of(_spec(output_types, output_shapes, output_classes), shared_name=shared_name)

    @staticmethod
    def from_string_handle(
        string_handle: Any, output_types: Any, output_shapes: Any = None, output_classes: Any = None
    ) -> FedIterator:
        """Whichever iterator a string tensor names: feed it the value of another one's string_handle()."""
        if not isinstance(string_handle, (str, bytes)) and getattr(string_handle, "dtype", None) != dtypes.string:
            raise TypeError(f"from_string_handle: a handle is a string, got {string_handle!r}")
        made = FedIterator._of(_spec(output_types, output_shapes, output_classes))
        made._handle = string_handle
        return made

    def make_initializer(self, dataset: Dataset, name: str | None = None) -> Operation:
        """The op that begins with the dataset's first element. Raises TypeError or ValueError where it does not fit."""
        _check_fits(self._spec, dataset._spec)

        def begin(state: State, *values: Any) -> None:
            with state.setdefault("lock", self._lock):
                _begin(state, (dataset, dict(zip(dataset._tensors, values))))

        inputs = list(dataset._tensors)
        made = py_func_of_session(begin, inputs, [], self._name, name or "MakeIterator")
        return made if isinstance(made, Operation) else made.op

    @property
    def initializer(self) -> Operation:
        """Raises ValueError where there is none: of a one-shot iterator, or one without a dataset of its own."""
        if self._initializer is None:
            raise ValueError("Iterator does not have an initializer.")
        return self._initializer

    def string_handle(self, name: str | None = None) -> Tensor:
        """A string that stands for it, for from_string_handle."""
        made = py_func_of_session(self._told, [], [dtypes.string], self._name, name or "IteratorToStringHandle")[0]
        made.set_shape(())
        return made

    @property
    def _iterator_resource(self) -> Tensor:
        """What stands for it in the graph; libraries ask for its name."""
        if self._resource is None:
            self._resource = self.string_handle("IteratorV2")
        return self._resource

    def _told(self, state: State) -> bytes:
        """Its handle in this session, in which it stands where it stands."""
        state["iterator"] = self
        return self._name.encode()

    output_types = property(lambda self: self._spec.kinds)
    output_shapes = property(lambda self: self._spec.sizes)
    output_classes = property(lambda self: self._spec.classes)

    def _next(self, state: State) -> list[Any]:
        with state.setdefault("lock", self._lock):
            self._begun(state)
            try:
                row = next_row(state)
            except OutOfRangeError:
                row = None
            except Exception:
                state["asked"] += 1
                state["failed"] += 1
                raise
            state["asked"] += 1
            if row is None:
                _end(state)
        if row is None:
            raise OutOfRangeError("End of sequence")
        return row

    def _begun(self, state: State) -> None:
        """Raises FailedPreconditionError where no initializer has run, and none is needless."""
        if "rows" not in state:
            if self._start is None:
                raise FailedPreconditionError("The iterator has not been initialized: run an initializer of it first")
            _begin(state, self._start)

    def _position(self, state: State) -> bytes:
        """Where the iterator stands, for `_go_to` in this or another process."""
        with state.setdefault("lock", self._lock):
            self._begun(state)
            return json.dumps({name: state[name] for name in _PLACE}).encode()

    def _go_to(self, state: State, position: bytes) -> None:
        """Stand there, in the dataset that it goes through now. Raises InvalidArgumentError on what is no position."""
        try:
            at = {name: int(value) for name, value in json.loads(position).items()}
            root, asked, failed, over = (at[name] for name in _PLACE)
            if min(at.values()) < 0:
                raise ValueError
        except (ValueError, KeyError, AttributeError, TypeError):
            raise InvalidArgumentError(f"Iterator: {position[:80]!r} is no position of an iterator") from None
        with state.setdefault("lock", self._lock):
            self._begun(state)
            _begin(state, state["origin"], root)
            if over:
                _end(state)
            else:
                _pass_by(state, asked, failed)
            state |= {"asked": asked, "failed": failed}

    def get_next(self, name: str | None = None) -> Any:
        """The next element, as tensors in the dataset's structure."""
        key, inputs = self._asked()
        found = py_func_of_session(self._value_of, inputs, list(self._spec.types), key, name or "IteratorGetNext")
        return _element(self._spec, found)

    def get_next_as_optional(self) -> Any:
        """The next element as data.experimental.Optional, which has no value at the end."""
        from sparkflow.data.optional import get_next_as_optional

        return get_next_as_optional(self)

    @property
    def element_spec(self) -> Any:
        """A TensorSpec or SparseTensorSpec for each component of an element."""
        return self._spec.described_as_specs

    def _asked(self) -> tuple[str, list[Any]]:
        """(the key of the session's state, the inputs) with which a node calls `_value_of`."""
        return self._name, []

    def _value_of(self, state: State) -> list[Any]:
        return self._next(state)


def _begin(state: State, origin: Origin, root: int | None = None) -> None:
    """A run through a dataset, of which the state says how it came about and how often it was asked since."""
    dataset, values = origin
    root = draws.new_root() if root is None else root
    source = dataset._rows(draws.run(values, root))
    state["source"], state["rows"] = source, iter(source)
    state |= {"origin": origin, "root": root, "asked": 0, "failed": 0, "over": False}


def _pass_by(state: State, asked: int, failed: int) -> None:
    """The first so many elements. Where none of them failed, they are made only by what has to see them."""
    if not failed:
        dataset, values = state["origin"]
        source = dataset._rows_behind(draws.run(values, state["root"]), asked)
        state["source"], state["rows"] = source, iter(source)
        return
    for _ in range(asked):
        with contextlib.suppress(Exception):
            next_row(state)  # goes on behind an error


def _end(state: State) -> None:
    """The end is the end, whatever could give more."""
    state["source"], state["rows"], state["over"] = (), iter(()), True


class FedIterator(Iterator):
    """Whichever iterator its handle names when it runs."""

    _handle: Any

    def _asked(self) -> tuple[str, list[Any]]:
        return "", [self._handle]

    def _value_of(self, states: Callable[[str], State], handle: bytes) -> list[Any]:  # type: ignore[override]
        iterator = _BY_HANDLE.get(handle)
        if iterator is None:
            raise InvalidArgumentError(f"Iterator: {handle!r} is no string_handle of an iterator of this process")
        return iterator._next(states(iterator._name))


def of_dataset(dataset: Dataset, one_shot: bool, shared_name: str | None = None) -> Iterator:
    if not one_shot:
        made = Iterator._of(dataset._spec, shared_name=shared_name)
        made._initializer = made.make_initializer(dataset)
        return made
    tensors = dataset._tensors
    known = [constant_value(t) for t in tensors]
    if any(k is None for k in known):
        names = [t.name for t, k in zip(tensors, known) if k is None]
        raise ValueError(f"A one-shot iterator needs constants, got {names}: use make_initializable_iterator()")
    get_seed(None)  # as TensorFlow, which takes one here that nothing draws by: what follows has its seeds
    return Iterator._of(dataset._spec, (dataset, dict(zip(tensors, known))))


def _element(spec: Spec, found: list[Tensor]) -> Any:
    for tensor, dims in zip(found, spec.dims):
        tensor.set_shape(TensorShape(dims))
    return spec.pack(found)


def _spec(types: Any, shapes: Any, classes: Any = None) -> Spec:
    """classes: SparseTensor where one is meant; None where all are tensors."""
    kinds = tuple(map(dtypes.as_dtype, leaves_of(types)))
    like = structured(types)
    dims = (None,) * len(kinds) if shapes is None else dims_like(like, shapes)
    sparse = [c is SparseTensor for c in leaves_of(classes)] if classes is not None else [False]
    if not any(sparse):
        return Spec(like, kinds, dims)
    parts = [sparse_like(t, None if d is None else len(d)) if s else t for t, d, s in zip(kinds, dims, sparse)]
    made = pack_sequence_as(like, parts)
    leaves = flatten(made, expand_composites=True)
    own = iter(d for d, s in zip(dims, sparse) if not s)
    return Spec(
        made,
        tuple(dtypes.as_dtype(x.dtype if isinstance(x, Tensor) else x) for x in leaves),
        tuple(x._shape if isinstance(x, Tensor) else next(own) for x in leaves),
    )


def _check_fits(own: Spec, given: Spec) -> None:
    if own.types != given.types:
        raise TypeError(f"Expected output types {own.kinds}, got a dataset of {given.kinds}.")
    for mine, theirs in zip(own.dims, given.dims):
        if not compatible(mine, theirs):
            raise TypeError(f"Expected output shapes compatible with {show(mine)}, got a dataset of {show(theirs)}.")
