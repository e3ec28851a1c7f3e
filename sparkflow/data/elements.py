"""What a dataset's elements are: a structure (tuples and dicts) of arrays, with a type and static shape for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sparkflow.autograph import convert
from sparkflow.data.function_graph import TABLE_FILLS, TABLE_TYPE, FunctionGraph
from sparkflow.data.vectorized import Vectorized, vectorized
from sparkflow.framework import nest, shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Graph, Operation, Tensor, get_default_graph
from sparkflow.framework.python_values import as_array
from sparkflow.framework.sparse_tensor import SparseTensor, SparseTensorValue
from sparkflow.framework.tensor_spec import SparseTensorSpec, TensorSpec
from sparkflow.ops import array
from sparkflow.ops.ragged import RaggedTensor
from sparkflow.session.session import Session
from sparkflow.type_specs import RaggedTensorSpec
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnimplementedError

Fed = Mapping[Tensor, Any]  # the values of the tensors that a recipe begins with
OF_RUN: Any = object()  # among them: what functions that draw at random are called by, in one run through a dataset


class Spec(NamedTuple):
    """like: a structure with anything at its leaves; types and dims: one for each leaf, three for a SparseTensor, which
    is its parts to all that moves elements."""

    like: Any
    types: tuple[dtypes.DType, ...]
    dims: tuple[shapes.Dims, ...]

    def pack(self, leaves: Sequence[Any]) -> Any:
        return nest.pack_sequence_as(self.like, list(leaves), expand_composites=True)

    @property
    def sparse(self) -> tuple[int, ...]:
        """Where the parts of each SparseTensor begin among the leaves."""
        found, at = [], 0
        for leaf in nest.flatten(self.like):
            found += [at] if isinstance(leaf, SparseTensor) else []
            at += len(nest.flatten(leaf, expand_composites=True))
        return tuple(found)

    @property
    def ragged(self) -> dict[int, RaggedTensor]:
        """Where the parts of each RaggedTensor begin among the leaves, and what stands for it."""
        found, at = {}, 0
        for leaf in nest.flatten(self.like):
            if isinstance(leaf, RaggedTensor):
                found[at] = leaf
            at += len(nest.flatten(leaf, expand_composites=True))
        return found

    @property
    def plain(self) -> bool:
        """Whether each leaf is a tensor of its own."""
        return len(nest.flatten(self.like)) == len(self.types)

    def check_plain(self, what: str) -> None:
        if not self.plain:
            raise TypeError(
                f"{what}: takes tensors only, got components {self.classes}: make them dense before, by "
                "tf.sparse_tensor_to_dense or to_tensor() in a map"
            )

    def described(self, plain: Sequence[Any], sparse: Callable[[int], Any], ragged: Callable[[Any], Any]) -> Any:
        """A structure of what `plain` says of each leaf, sparse(where its parts begin) of each SparseTensor, and ragged
        of each RaggedTensor."""
        found, at = [], 0
        for leaf in nest.flatten(self.like):
            known = plain[at] if not isinstance(leaf, RaggedTensor) else ragged(leaf)
            found.append(sparse(at) if isinstance(leaf, SparseTensor) else known)
            at += len(nest.flatten(leaf, expand_composites=True))
        return nest.pack_sequence_as(self.like, found)

    @property
    def kinds(self) -> Any:
        """What users are told of the types: of a SparseTensor that of its values."""
        return self.described(self.types, lambda at: self.types[at + 1], lambda leaf: leaf.dtype.base_dtype)

    @property
    def sizes(self) -> Any:
        """What users are told of the shapes: of a SparseTensor how many axes it has."""
        dense = [shapes.TensorShape(d) for d in self.dims]
        return self.described(dense, lambda at: sparse_shape(self.dims[at + 2]), lambda leaf: leaf.shape)

    @property
    def described_as_specs(self) -> Any:
        """A TensorSpec or SparseTensorSpec for each."""
        dense = [TensorSpec(shapes.TensorShape(d), t) for d, t in zip(self.dims, self.types)]
        sparse = lambda at: SparseTensorSpec(sparse_shape(self.dims[at + 2]), self.types[at + 1])  # noqa: E731
        return self.described(dense, sparse, RaggedTensorSpec.from_value)

    @property
    def classes(self) -> Any:
        return self.described([Tensor] * len(self.types), lambda _: SparseTensor, lambda _: RaggedTensor)

    def with_dims(self, change: Callable[[shapes.Dims], shapes.Dims]) -> Spec:
        return self._replace(dims=tuple(map(change, self.dims)))


def sparse_shape(dims: shapes.Dims) -> Any:
    count = dims[0] if dims else None
    return shapes.TensorShape(None if count is None else [None] * count)


def sparse_like(dtype: dtypes.DType, rank: int | None) -> SparseTensor:
    """What stands for a SparseTensor in a structure."""
    with Graph().as_default():
        return SparseTensor(
            array.placeholder(dtypes.int64, [None, rank]),
            array.placeholder(dtype, [None]),
            array.placeholder(dtypes.int64, [rank]),
        )


def ragged_like(
    dtype: dtypes.DType, rank: int, flat: shapes.Dims, splits: dtypes.DType, lead: int | None = None
) -> RaggedTensor:
    """What stands for a RaggedTensor in a structure. flat: the shape of the flat values; lead: how many rows it has."""
    with Graph().as_default():
        values = array.placeholder(dtype, None if flat is None else [None, *flat[1:]])
        sizes = [None if lead is None else lead + 1, *[None] * (rank - 1)]
        return RaggedTensor.from_nested_row_splits(values, [array.placeholder(splits, [n]) for n in sizes])


def leaves_of(structure: Any) -> list[Any]:
    """Lists are arrays here, as TensorFlow takes them in datasets; tuples and dicts are structures."""
    return nest.flatten(_tuples(structure))


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return convert_to_tensor(value) if any(isinstance(x, Tensor) for x in nest.flatten(value)) else as_value(value)
    if isinstance(value, SparseTensorValue):
        return SparseTensor.from_value(value)
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
    leaves = nest.flatten(structure, expand_composites=True)
    kinds = tuple(dtypes.as_dtype(x.dtype).base_dtype for x in leaves)
    dims = tuple(x._shape if isinstance(x, Tensor) else np.shape(x) for x in leaves)
    return Spec(structure, kinds, dims)


class Given:
    """Settings of a dataset: numbers, or tensors whose values are known when the iterator is initialized.

    known: what of it is known now, None for the rest. tensors: the rest.
    """

    def __init__(self, *values: Any):
        self.known = [constant_value(v) if isinstance(v, Tensor) else v for v in values]
        graph = get_default_graph()
        own = graph.own if isinstance(graph, FunctionGraph) else lambda t: t
        self._sources = [
            own(v) if isinstance(v, Tensor) and known is None else None for v, known in zip(values, self.known)
        ]

    @property
    def first(self) -> int | None:
        """The first one, a number, where it is known now."""
        return None if self.known[0] is None else int(self.known[0])

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(t for t in self._sources if t is not None)

    def values(self, fed: Fed) -> list[Any]:
        return [known if t is None else fed[t] for known, t in zip(self.known, self._sources)]


class Whole(Given):
    """Settings that are whole numbers; None too where they are optional. TypeError on others, ValueError on None."""

    def __init__(self, *values: Any, optional: bool = False):
        if not optional and any(v is None for v in values):
            raise ValueError("Dataset: None values are not supported for a batch_size, count or other setting")
        super().__init__(*values)
        for value in self.known:
            check_whole(value)


def text_of(value: Any) -> str:
    """A setting that is a text: Python's, or the value of a string tensor."""
    found = np.asarray(value).item()
    return found.decode() if isinstance(found, bytes) else str(found)


def check_whole(value: Any) -> None:
    """Raises TypeError on what is neither None nor a whole number."""
    kind = np.asarray(0 if value is None else value)
    if kind.dtype.kind not in "iu" or kind.ndim:
        raise TypeError(f"Dataset: a batch_size, count or other setting must be a whole number, got {value!r}")


def check_truth(name: str, value: Any) -> None:
    """Raises TypeError on what is no truth value."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"Dataset: {name} must be a bool, got {value!r}")


def check_choices(dataset: Any) -> None:
    """Raises TypeError on what is no dataset of numbers of datasets."""
    if not hasattr(dataset, "_rows") or dataset._spec.types != (dtypes.int64,):
        raise TypeError(f"`choice_dataset` must be a dataset of int64 scalars, got {dataset!r}")


def padded_like(spec: Spec, given: Any) -> tuple[shapes.Dims, ...]:
    """The shapes that batches are padded to. Raises ValueError where one is of another rank than the component."""
    wanted = dims_like(spec.like, given)
    for own, one in zip(spec.dims, wanted):
        if own is not None and one is not None and len(own) != len(one):
            raise ValueError(
                f"padded_batch: the padded shape {shapes.show(one)} is not compatible with the component's, "
                f"{shapes.show(own)}: they differ in rank"
            )
    return wanted


def check_padding(values: Iterable[Any], types: Iterable[dtypes.DType]) -> None:
    """Raises TypeError where a padding value that is known is no value of the component's type."""
    for value, kind in zip(values, types):
        own = None if value is None else np.asarray(value).dtype.kind
        if own is not None and (own in "SUO") != (kind is dtypes.string):
            raise TypeError(f"padded_batch: Invalid `padding_values`: {value!r} is no {kind.name}")
        if own == "f" and not (kind.is_floating or kind.is_complex):
            raise TypeError(f"padded_batch: Invalid `padding_values`: {value!r} is no {kind.name}")


def _check_given(raw: Any, dataset_of: str | None) -> None:
    if dataset_of is not None and not hasattr(raw, "_rows"):
        raise TypeError(f"`{dataset_of}` must return a `Dataset` object. Got {type(raw).__name__}")
    if dataset_of is None and hasattr(raw, "_rows"):
        raise UnimplementedError(
            "A dataset's function gives a Dataset: datasets of datasets are not supported. flat_map and interleave "
            "take such a function, and give the elements of all"
        )


class Function:
    """A user's function as a graph of its own: called with the leaves of an element, it gives the leaves of another.

    spec: of what it gives. The argument of a tuple is its parts, as TensorFlow passes them. tensors: what it takes from
    the graph around it, whose values `bound` is to be given.
    """

    def __init__(self, function: Callable[..., Any], given: Spec, dataset_of: str | None = None):
        """dataset_of: the argument that this is, where it is to give a dataset, which is `raw` then."""
        if not callable(function):
            raise ValueError(f"A dataset is transformed by a function of its elements: func must be callable, "
                             f"got {function!r}")  # fmt: skip
        self.graph = FunctionGraph(get_default_graph())
        with self.graph.as_default():
            self.inputs = [array.placeholder(t, d) for t, d in zip(given.types, given.dims)]
            element = given.pack(self.inputs)
            plain = isinstance(element, tuple) and not hasattr(element, "_fields")
            own_flow = convert(function)  # with Python's control flow as the graph's
            self.raw = own_flow(*element) if plain else own_flow(element)
            _check_given(self.raw, dataset_of)
            if dataset_of is None:
                own = self.graph.own
                # A list is more likely what an op of several results gave, as py_func does, than parts of one tensor.
                raw = structured(tuple(self.raw) if isinstance(self.raw, list) else self.raw)
                made = nest.map_structure(lambda x: own(convert_to_tensor(x)), raw, expand_composites=True)
                self.spec = spec_of(made)
                self._outputs = nest.flatten(made, expand_composites=True)
                self._plain = given.plain and len(self._outputs) - len(nest.flatten(made)) == 2 * len(self.spec.sparse)
        self._calls: dict[tuple[Tensor, ...], Any] = {}

    @cached_property
    def _vectorized(self) -> Vectorized | None:
        return vectorized(self.graph, self.inputs, self._outputs, self.spec.sparse) if self._plain else None

    @property
    def takes_many(self) -> bool:
        """Whether `bound_to_many` can be had."""
        return self._vectorized is not None

    @property
    def ragged(self) -> dict[int, int]:
        """Which columns that `bound_to_many` gives are vectors of any size, one after the other, and which column has
        the element and the place of each of their values."""
        return self._vectorized.ragged if self._vectorized is not None else {}

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(self.graph.captured)

    @property
    def forgets(self) -> bool:
        """Whether it is the same whatever it was called with before."""
        tables = (*TABLE_FILLS, TABLE_TYPE)
        return not any(op.spec.stateful and op.type not in tables for op in self.graph.get_operations())

    @cached_property
    def _draws(self) -> bool:
        """Whether it has random ops, which go on from call to call in one run and begin anew in the next."""
        return any("seed2" in op.spec.defaults for op in self.graph.get_operations())

    def bound(self, fed: Fed, fetches: Sequence[Tensor] | None = None) -> Callable[[Sequence[Any]], list[Any]]:
        """From the leaves of an element to the values of fetches (what the function gives), `tensors` having the values
        that fed says."""
        wanted = tuple(self._outputs if fetches is None else fetches)
        calls = fed.get(OF_RUN, self._calls) if self._draws else self._calls
        if wanted not in calls:
            inputs = [*self.inputs, *self.graph.captured.values()]
            calls[wanted] = _callable(self.graph, self.graph.fillers, wanted, inputs)
        call, values = calls[wanted], [fed[t] for t in self.graph.captured]
        return lambda leaves: call(*leaves, *values)

    def bound_to_many(self, fed: Fed) -> Callable[[Sequence[Any]], list[Any]]:
        """As `bound`, of the leaves of many elements, stacked. It may refuse what `bound` takes one by one."""
        made = self._vectorized
        if made is None:
            raise UnimplementedError("This function has no form for many elements")
        wanted = tuple(made.outputs)
        if wanted not in self._calls:
            self._calls[wanted] = _callable(made.graph, made.fillers, wanted, [*made.inputs, *made.captured])
        call, values = self._calls[wanted], [fed[t] for t in self.graph.captured]
        return lambda columns: call(*columns, *values)


def _callable(graph: Graph, fillers: Sequence[Operation], wanted: Sequence[Tensor], inputs: list[Tensor]) -> Any:
    session = Session(graph=graph)
    session.run(list(fillers))
    return session.make_callable(list(wanted), inputs)


def begun(tensors: Any) -> tuple[list[Any], Spec, tuple[Tensor, ...]]:
    """The leaves of what a dataset begins with, what they are, and those that are tensors."""
    values = nest.map_structure(as_value, structured(tensors), expand_composites=True)
    leaves = nest.flatten(values, expand_composites=True)
    return leaves, spec_of(values), tuple(x for x in leaves if isinstance(x, Tensor))


def signed(signature: Any, types: Any, wanted: Any) -> tuple[Any, Any]:
    """(types, shapes) of a structure of TensorSpecs, else those given. Raises TypeError where there is neither."""
    if signature is None and types is None:
        raise TypeError("from_generator: give output_types or output_signature")
    if signature is None:
        return types, wanted
    return tuple(
        nest.map_structure(lambda spec, part=part: getattr(spec, part), signature) for part in ("dtype", "shape")
    )


def dims_like(like: Any, given: Any) -> tuple[shapes.Dims, ...]:
    """One shape for each leaf of `like`, from a structure of shapes, which are sequences themselves."""
    if isinstance(like, dict):
        return tuple(d for key in sorted(like) for d in dims_like(like[key], given[key]))
    if isinstance(like, tuple):
        return tuple(d for own, one in zip(like, given, strict=True) for d in dims_like(own, one))
    return (shapes.as_dims(given),)


def typed(value: Any, dtype: dtypes.DType) -> Any:
    """What a generator yielded. Raises InvalidArgumentError where it is of no such type: as in TensorFlow, no number of
    Python's is cut, and an array's are. Numpy is the quicker one where the two give the same."""
    try:
        takes = not isinstance(value, str if dtype.is_floating else (str, float, int, list, tuple))
        return np.asarray(value, dtype.np) if takes and dtype is not dtypes.string else as_array(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"The generator yielded {value!r}, expected {dtype.name}: {error}") from None


def common(a: shapes.Dims, b: shapes.Dims) -> shapes.Dims:
    """What both shapes fit."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b))
