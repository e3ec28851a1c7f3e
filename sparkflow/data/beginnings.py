"""What datasets begin with: arrays and tensors, numbers, the files of a pattern, what a Python generator yields."""

from __future__ import annotations

import glob
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from sparkflow.data import deferred, draws, elements
from sparkflow.data.elements import Fed, Given, Spec, Whole, leaves_of, structured
from sparkflow.data.lasting import Lasting
from sparkflow.data.order import side_by_side
from sparkflow.data.ragged_batches import row_of, rows_of
from sparkflow.framework import nest, shapes
from sparkflow.framework.graph import Tensor
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops.ragged import RaggedTensor
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

Row = list[Any]
Rows = Iterable[Row]
Begun = tuple[Spec, Callable[[Fed], Rows], tuple[Tensor, ...]]  # what Dataset takes


def _arrays(leaves: list[Any], fed: Fed) -> list[Any]:
    return [fed[x] if isinstance(x, Tensor) else x for x in leaves]


def one_element(tensors: Any) -> Begun:
    leaves, spec, fed = elements.begun(tensors)
    return spec, lambda values: [_arrays(leaves, values)], fed


def slices(tensors: Any) -> tuple[Any, ...]:
    """An element for each row of the arrays, SparseTensors and RaggedTensors. Raises ValueError on a scalar,
    and on none of them."""
    leaves, spec, fed = elements.begun(tensors)
    if not leaves:
        raise ValueError(f"from_tensor_slices: the element {tensors!r} is empty: give at least one array or tensor")
    sparse = spec.sparse
    ragged = {at: leaf.ragged_rank + 1 for at, leaf in spec.ragged.items()}
    parts = {at + i for at in sparse for i in range(3)} | {at + i for at, n in ragged.items() for i in range(n)}
    if any(d == () for i, d in enumerate(spec.dims) if i not in parts):
        raise ValueError("from_tensor_slices: every component must have at least one axis, got a scalar")
    counts = {d[0] for i, d in enumerate(spec.dims) if i not in parts and d is not None and d[0] is not None}
    if len(counts) > 1:
        raise ValueError(f"from_tensor_slices: the components have different numbers of rows: {sorted(counts)}")

    def arrays(values: Fed) -> list[Any]:
        return _arrays(leaves, values)

    if not parts:
        cut = spec.with_dims(lambda d: None if d is None else d[1:])
        return cut, lambda values: range(len(arrays(values)[0])), fed, deferred.slices(arrays)

    def rows(values: Fed) -> Rows:
        found = arrays(values)
        columns: list[Any] = []
        for i, array in enumerate(found):
            if i in sparse:
                columns.append(_sparse_rows(*found[i : i + 3]))
            elif i in ragged:
                columns.append(rows_of(found[i : i + ragged[i]]))
            elif i not in parts:
                columns.append([x] for x in array)
        return ([x for column in row for x in column] for row in zip(*columns))

    return _without_first_axis(spec), rows, fed


def _without_first_axis(spec: Spec) -> Spec:
    """Of rows, some of which are SparseTensors or RaggedTensors."""
    likes, kinds, dims = [], list[Any](), list[shapes.Dims]()
    at = 0
    for leaf in nest.flatten(spec.like):
        size = spec.dims[at + 2] if isinstance(leaf, SparseTensor) else spec.dims[at]
        if isinstance(leaf, SparseTensor):
            rank = None if size is None or size[0] is None else size[0] - 1
            like, types = elements.sparse_like(spec.types[at + 1], rank), spec.types[at : at + 3]
            own: tuple[shapes.Dims, ...] = ((None, rank), (None,), (rank,))
        elif isinstance(leaf, RaggedTensor):
            like, types, own = row_of(leaf)
        else:
            like, types, own = leaf, (spec.types[at],), (None if size is None else size[1:],)
        likes.append(like)
        kinds += types
        dims += own
        at += len(nest.flatten(leaf, expand_composites=True))
    return Spec(nest.pack_sequence_as(spec.like, likes), tuple(kinds), tuple(dims))


def _sparse_rows(indices: Any, values: Any, size: Any) -> Rows:
    """The parts of each row of a SparseTensor. Raises InvalidArgumentError where one lies outside of it."""
    count = int(size[0])
    order = np.argsort(indices[:, 0], kind="stable")
    ordered = indices[order]
    if len(ordered) and not 0 <= ordered[0, 0] <= ordered[-1, 0] < count:
        raise InvalidArgumentError(
            f"from_tensor_slices: a SparseTensor of {count} rows has values in row {ordered[-1, 0]}"
        )
    ends = np.searchsorted(ordered[:, 0], np.arange(count + 1))
    for start, stop in itertools.pairwise(ends):
        yield [ordered[start:stop, 1:], values[order[start:stop]], size[1:]]


class _OtherStructure(Exception):
    """Why an element is of another structure than was said."""


def _placed(like: Any, element: Any) -> Iterator[Any]:
    """What the element has in the places of the structure's leaves."""
    if isinstance(like, dict):
        if not isinstance(element, Mapping) or element.keys() != like.keys():
            raise _OtherStructure(f"{element!r} has not just the keys {', '.join(map(repr, like))}")
        for key in sorted(like):
            yield from _placed(like[key], element[key])
    elif isinstance(like, tuple):
        if not isinstance(element, tuple) or len(element) != len(like):
            raise _OtherStructure(f"{element!r} is no tuple of {len(like)}")
        for of_like, of_element in zip(like, element, strict=True):
            yield from _placed(of_like, of_element)
    else:
        yield element


def generated(generator: Callable[..., Iterable[Any]], output_types: Any, output_shapes: Any, args: Any) -> Begun:
    if not callable(generator):
        raise TypeError(f"`generator` must be a Python callable, got {generator!r}")
    kinds = tuple(map(dtypes.as_dtype, leaves_of(output_types)))
    like = structured(output_types)
    dims = (None,) * len(kinds) if output_shapes is None else elements.dims_like(like, output_shapes)

    def rows(values: Fed) -> Rows:
        yielded: Iterator[Any] | None = None

        def begin() -> Iterator[Row]:
            nonlocal yielded
            if yielded is None:
                yielded = iter(generator(*(args or ())))
            return map(leaves, yielded)

        return Lasting(begin)

    def leaves(element: Any) -> Row:
        try:
            parts = list(_placed(like, element))
        except _OtherStructure as error:
            raise InvalidArgumentError(
                f"The generator yielded {element!r}, expected a structure like {like!r}: {error}"
            ) from None
        found = [elements.typed(v, t) for v, t in zip(parts, kinds)]
        for value, wanted in zip(found, dims):
            if wanted is not None and not shapes.compatible(wanted, np.shape(value)):
                raise InvalidArgumentError(
                    f"The generator yielded an element of shape {np.shape(value)} where an element of shape "
                    f"{shapes.show(wanted)} was expected"
                )
        return found

    return Spec(like, kinds, dims), rows, ()


def numbers(args: tuple[Any, ...], output_type: Any) -> Begun:
    """Python's range of numbers or tensors."""
    given, kind = Whole(*args), dtypes.as_dtype(output_type)

    def rows(fed: Fed) -> Rows:
        found = [int(x) for x in given.values(fed)]
        if len(found) == 3 and not found[2]:
            raise InvalidArgumentError("range: step must not be 0")
        return ([kind.np.type(i)] for i in range(*found))

    if not 1 <= len(args) <= 3:
        raise ValueError(f"range: takes stop, start and stop, or start, stop and step; got {len(args)} arguments")
    return Spec(0, (kind,), ((),)), rows, given.tensors


def zipped(datasets: Any) -> Begun:
    """A structure of datasets, side by side."""
    parts = nest.flatten(datasets)
    if isinstance(datasets, list) or not all(hasattr(d, "_rows") for d in parts):
        raise TypeError(f"zip takes (nested) tuples and dicts of datasets, and no lists, got {datasets!r}")
    if not parts:
        raise ValueError(f"zip takes at least one dataset, got {datasets!r}")
    like = nest.map_structure(lambda d: d._spec.like, datasets)
    kinds, dims = [t for d in parts for t in d._spec.types], [s for d in parts for s in d._spec.dims]
    tensors = tuple(t for d in parts for t in d._tensors)

    key: Any = object()

    def rows(fed: Fed) -> Rows:
        return side_by_side(draws.each(parts, fed, key))

    return Spec(like, tuple(kinds), tuple(dims)), rows, tensors


def matching_files(pattern: Any) -> Begun:
    """Paths, sorted. Raises InvalidArgumentError where there are none; of a tensor's when it is known."""
    given = Given(pattern if isinstance(pattern, (Tensor, str, bytes)) else list(pattern))

    def found(value: Any) -> list[str]:
        texts = [t.decode() if isinstance(t, bytes) else str(t) for t in np.ravel(np.asarray(value, object))]
        paths = sorted({path for text in texts for path in glob.glob(text)})
        if not paths:
            raise InvalidArgumentError(f"list_files: no files matched pattern: {', '.join(texts)}")
        return paths

    known = None if given.tensors else found(given.known[0])
    return (
        Spec(0, (dtypes.string,), ((),)),
        lambda fed: ([p.encode()] for p in known or found(given.values(fed)[0])),
        given.tensors,
    )
