"""Transformations of datasets that mix, group and select elements: what tf.data.experimental gives to Dataset.apply."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from sparkflow.data import draws
from sparkflow.data.dataset import Call, Dataset, Row, Rows
from sparkflow.data.elements import Fed, Function, Spec, check_choices
from sparkflow.data.lasting import Lasting, pairs
from sparkflow.data.order import in_turn
from sparkflow.framework import nest
from sparkflow.framework.apply import constant
from sparkflow.framework.random_seed import get_seed
from sparkflow.ops import array
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError, OpError

_log = logging.getLogger("sparkflow")

Transformation = Callable[[Dataset], Dataset]


def enumerate_dataset(start: int = 0) -> Transformation:
    """Pairs of a number, from start on, and an element."""
    return lambda dataset: dataset.enumerate(start)


def unbatch() -> Transformation:
    """The rows of each element, one after the other."""
    return lambda dataset: dataset.unbatch()


def parallel_interleave(
    map_func: Callable[..., Dataset], cycle_length: int, block_length: int = 1, sloppy: Any = False,
    buffer_output_elements: Any = None, prefetch_input_elements: Any = None,
) -> Transformation:  # fmt: skip
    """Dataset.interleave."""
    return lambda dataset: dataset.interleave(map_func, cycle_length, block_length)


def take_while(predicate: Callable[..., Any]) -> Transformation:
    """The elements before the first for which the predicate is false."""

    def taken(dataset: Dataset) -> Dataset:
        function = Function(predicate, dataset._spec)

        def rows(source: Rows, call: Call) -> Rows:
            over = False

            def begin() -> Iterator[Row]:
                nonlocal over
                for row in () if over else source:
                    if not call(row)[0]:
                        over = True
                        return
                    yield row

            return Lasting(begin)

        return dataset._applied(function, rows)

    return taken


def unique() -> Transformation:
    """Each element once. Raises TypeError unless the elements are single integers or strings."""

    def rows(source: Rows) -> Rows:
        seen = set()

        def begin() -> Iterator[Row]:
            for row in source:
                key = bytes(row[0]) if isinstance(row[0], bytes) else np.asarray(row[0]).tobytes()
                if key not in seen:
                    seen.add(key)
                    yield row

        return Lasting(begin)

    def made(dataset: Dataset) -> Dataset:
        if dataset._spec.types not in ((dtypes.int32,), (dtypes.int64,), (dtypes.string,)):
            raise TypeError(f"unique: expected a single component of int32, int64 or string, got {dataset!r}")
        return dataset._new(rows)

    return made


def scan(initial_state: Any, scan_func: Callable[..., Any]) -> Transformation:
    """scan_func(state, element) gives (the next state, an element of what comes out)."""

    def made(dataset: Dataset) -> Dataset:
        start = Dataset.from_tensors(initial_state)
        joined = _both(start._spec, dataset._spec)
        function = Function(scan_func, joined)
        first, count = start._spec, len(start._spec.types)
        like = function.spec.like[1]
        spec = Spec(like, function.spec.types[count:], function.spec.dims[count:])
        if function.spec.types[:count] != first.types:
            raise TypeError(f"scan: the state is {first.types}, scan_func gives {function.spec.types[:count]} for it")
        chosen = dataset._applied(function, lambda rows, call: rows, spec)

        def rows(fed: Fed) -> Rows:
            call, (state,), source = function.bound(fed), list(start._rows(fed)), dataset._rows(fed)

            def begin() -> Iterator[Row]:
                nonlocal state
                for row in source:
                    found = call([*state, *row])
                    state = found[:count]
                    yield found[count:]

            return Lasting(begin)

        return Dataset(spec, rows, tuple(dict.fromkeys(chosen._tensors + start._tensors)), count=dataset._count)

    return made


def reduced(dataset: Dataset, initial_state: Any, reduce_func: Callable[..., Any]) -> Any:
    """Dataset.reduce. Raises TypeError where reduce_func gives a state of other types."""
    start = Dataset.from_tensors(initial_state)
    function = Function(reduce_func, _both(start._spec, dataset._spec))
    if function.spec.types != start._spec.types:
        raise TypeError(f"reduce: the state is {start._spec.types}, reduce_func gives {function.spec.types} for it")
    tensors = tuple(dict.fromkeys(dataset._tensors + start._tensors + function.tensors))

    def last(*values: Any) -> list[Any]:
        fed = dict(zip(tensors, values))
        call, (state,) = function.bound(fed), list(start._rows(fed))
        for row in dataset._rows(fed):
            state = call([*state, *row])
        return list(state)

    return _made(Spec(start._spec.like, start._spec.types, function.spec.dims), last, tensors)


def _made(spec: Spec, function: Callable[..., list[Any]], tensors: Sequence[Any]) -> Any:
    """What a function of the tensors' values gives, when it runs."""
    from sparkflow.data.iterator import _element
    from sparkflow.ops.script import py_func

    return _element(spec, nest.flatten(py_func(function, list(tensors), list(spec.types))))


def ignore_errors(log_warning: bool = False) -> Transformation:
    """Without the elements that fail when they are made; of a generator or a file that fails itself, what would have
    come behind is lost too."""

    def rows(source: Rows) -> Iterator[Row]:
        for row, error in pairs(source):
            if error is None:
                yield row
            elif not isinstance(error, OpError):
                raise error
            elif log_warning:
                _log.warning("ignore_errors: an element was left out: %s", error)

    return lambda dataset: dataset._new(rows)


def _both(one: Spec, other: Spec) -> Spec:
    return Spec((one.like, other.like), one.types + other.types, one.dims + other.dims)


# ---------------------------------------------------------------------- groups


def group_by_window(
    key_func: Callable[..., Any], reduce_func: Callable[[Any, Dataset], Dataset], window_size: int | None = None,
    window_size_func: Callable[[Any], Any] | None = None,
) -> Transformation:  # fmt: skip
    """reduce_func(key, a dataset of window_size elements whose key_func, an int64, is key), one after the other.

    window_size_func: the size by the key. What is left at the end is reduced too. Raises ValueError unless one of both
    is given.
    """
    if (window_size is None) == (window_size_func is None):
        raise ValueError("group_by_window: give either window_size or window_size_func")

    def made(dataset: Dataset) -> Dataset:
        key_spec = Spec(0, (dtypes.int64,), ((),))
        key_of = Function(key_func, dataset._spec)
        size_of = None if window_size_func is None else Function(window_size_func, key_spec)
        token = array.placeholder(dtypes.string, [], name="window")
        window = Dataset(dataset._spec, lambda fed: fed[token], (token,))
        reduced = Function(lambda key: reduce_func(key, window), key_spec, "reduce_func")
        inner: Dataset = reduced.raw
        given = [t for t in inner._tensors if t is not token]
        own = tuple(reduced.graph.own(t) for t in given)

        def rows(fed: Fed) -> Rows:
            key_call, values = key_of.bound(fed), reduced.bound(fed, own)
            size_call = None if size_of is None else size_of.bound(fed)
            held: dict[int, list[Row]] = {}
            source = dataset._rows(fed)

            def full() -> Iterator[int]:
                for row in source:
                    key = int(key_call(row)[0])
                    held.setdefault(key, []).append(row)
                    size = window_size if size_call is None else int(size_call([np.int64(key)])[0])
                    if len(held[key]) == size:
                        yield key
                yield from sorted(held)

            def opened(key: int) -> Rows:
                window = held.pop(key)
                known = dict(zip(given, values([np.int64(key)])))
                return inner._rows({**fed, **known, token: window})

            return in_turn(Lasting(full), opened, 1)

        parts = dataset._tensors + key_of.tensors + reduced.tensors + (() if size_of is None else size_of.tensors)
        return Dataset(inner._spec, rows, tuple(t for t in dict.fromkeys(parts) if t is not token))

    return made


def bucket_by_sequence_length(
    element_length_func: Callable[..., Any], bucket_boundaries: Sequence[int], bucket_batch_sizes: Sequence[int],
    padded_shapes: Any = None, padding_values: Any = None, pad_to_bucket_boundary: bool = False,
    no_padding: bool = False, drop_remainder: bool = False,
) -> Transformation:  # fmt: skip
    """Padded batches of elements of similar length: a bucket for each interval between the boundaries, with a batch
    size of its own. Raises ValueError unless there is one more batch size than there are boundaries."""
    if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
        raise ValueError("len(bucket_batch_sizes) must equal len(bucket_boundaries) + 1")

    intervals = list(zip([-np.inf, *bucket_boundaries], [*bucket_boundaries, np.inf], strict=True))

    def bucket_of(length: Any) -> int:
        """The first whose interval it is in: boundaries need not rise."""
        if np.size(length) != 1:
            raise InvalidArgumentError(
                f"bucket_by_sequence_length: element_length_func must return one number, got {np.shape(length)} of them"
            )
        size = int(np.asarray(length).reshape(()))
        bucket = next((i for i, (low, high) in enumerate(intervals) if low <= size < high), None)
        if bucket is None:
            raise InvalidArgumentError(
                f"bucket_by_sequence_length: an element of length {size} is in no interval of the boundaries "
                f"{list(bucket_boundaries)}; give them in rising order"
            )
        if bucket_batch_sizes[bucket] < 1:
            raise InvalidArgumentError(
                f"bucket_by_sequence_length: batch sizes must be greater than zero, got {bucket_batch_sizes[bucket]} "
                f"for bucket {bucket}"
            )
        return bucket

    def made(dataset: Dataset) -> Dataset:
        length_of = Function(element_length_func, dataset._spec)
        shapes = padded_shapes if padded_shapes is not None else dataset.output_shapes

        def batched(rows: list[Row], bucket: int) -> Dataset:
            held, sizes = Dataset(dataset._spec, lambda _: rows), shapes
            if no_padding:
                return held.batch(bucket_batch_sizes[bucket], drop_remainder)
            if pad_to_bucket_boundary:
                if bucket == len(bucket_boundaries):
                    raise InvalidArgumentError("bucket_by_sequence_length: an element is longer than the last boundary")
                sizes = _filled(shapes, bucket_boundaries[bucket] - 1)
            return held.padded_batch(bucket_batch_sizes[bucket], sizes, padding_values, drop_remainder)

        def rows(source: Rows, call: Call) -> Rows:
            held: dict[int, list[Row]] = {}

            def full() -> Iterator[int]:
                for row in source:
                    bucket = bucket_of(call(row)[0])
                    held.setdefault(bucket, []).append(row)
                    if len(held[bucket]) == bucket_batch_sizes[bucket]:
                        yield bucket
                yield from sorted(held)

            return in_turn(Lasting(full), lambda bucket: batched(held.pop(bucket), bucket)._rows({}), 1)

        plain = dataset.batch(2) if no_padding else dataset.padded_batch(2, shapes, padding_values)
        return dataset._applied(length_of, rows, plain._spec)

    return made


def _filled(shapes: Any, size: int) -> Any:
    """The shapes, unknown sizes being `size`."""

    def one(shape: Any) -> list[int]:
        dims = shape.as_list() if hasattr(shape, "as_list") else list(shape)
        return [size if d is None or d == -1 else d for d in dims]

    if isinstance(shapes, dict):
        return {k: _filled(s, size) for k, s in shapes.items()}
    if isinstance(shapes, tuple) and not all(isinstance(s, int | None) for s in shapes):
        return tuple(_filled(s, size) for s in shapes)
    return one(shapes)


# ---------------------------------------------------------------------- mixtures


def sample_from_datasets(
    datasets: Sequence[Dataset], weights: Any = None, seed: int | None = None, stop_on_empty_dataset: bool = False
) -> Dataset:
    """Elements of the datasets, each from one drawn with these probabilities, until all have come to their end; with
    stop_on_empty_dataset, until one has."""
    shares = np.ones(len(datasets)) if weights is None else np.asarray(weights, float)
    if shares.shape != (len(datasets) or None,):
        raise ValueError(f"`weights` must have the same length as `datasets`, above 0, got {shares.shape}")
    pair, key = get_seed(seed), object()

    def rows(fed: Fed) -> Rows:
        chosen = draws.classes(draws.words(fed, key, pair, False), shares)
        sources, left = draws.each(datasets, fed, key), shares > 0

        def begin() -> Iterator[Row]:
            waiting = [iter(s) for s in sources]
            while left.any():
                number = next(chosen)
                row = next(waiting[number], None) if left[number] else None
                if row is not None:
                    yield row
                elif stop_on_empty_dataset:
                    left[:] = False
                else:
                    left[number] = False

        return Lasting(begin)

    return _mixed(datasets, rows)


def choose_from_datasets(
    datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = False
) -> Dataset:
    """Elements of the datasets, each from the one whose number choice_dataset (int64 scalars) gives.

    Choices of a dataset at its end are passed over, or end it with stop_on_empty_dataset. Others are an error.
    """
    check_choices(choice_dataset)
    key: Any = object()

    def rows(fed: Fed) -> Rows:
        *sources, choices = draws.each([*datasets, choice_dataset], fed, key)
        over = False

        def begin() -> Iterator[Row]:
            nonlocal over
            waiting = [iter(s) for s in sources]
            for (choice,) in () if over else choices:
                if not 0 <= int(choice) < len(sources):
                    raise InvalidArgumentError(f"choose_from_datasets: there are {len(sources)} datasets, got {choice}")
                row = next(waiting[int(choice)], None)
                if row is not None:
                    yield row
                elif stop_on_empty_dataset:
                    over = True
                    return

        return Lasting(begin)

    return _mixed([*datasets, choice_dataset], rows, datasets)


def _mixed(
    parts: Sequence[Dataset], rows: Callable[[Fed], Iterable[Row]], alike: Sequence[Dataset] | None = None
) -> Dataset:
    spec = (alike or parts)[0]
    for other in (alike or parts)[1:]:
        spec = spec.concatenate(other)  # checks the types, and has the shape of both
    return Dataset(spec._spec, rows, tuple(dict.fromkeys(t for d in parts for t in d._tensors)))


def cardinality(dataset: Dataset) -> Any:
    """How many elements a dataset has, an int64 tensor: INFINITE_CARDINALITY for no end, UNKNOWN_CARDINALITY where only
    going through them tells."""

    def found(*values: Any) -> list[Any]:
        return [np.int64(dataset._count(dict(zip(dataset._tensors, values))))]

    if not dataset._tensors:
        return constant(dataset._count({}), dtypes.int64)
    return _made(Spec(0, (dtypes.int64,), ((),)), found, dataset._tensors)


def get_single_element(dataset: Dataset) -> Any:
    """The one element of a dataset, as tensors. When they run: InvalidArgumentError where there is none, or another."""

    def found(*values: Any) -> list[Any]:
        rows = list(itertools.islice(dataset._rows(dict(zip(dataset._tensors, values))), 2))
        if len(rows) != 1:
            raise InvalidArgumentError(f"Dataset had {'no' if not rows else 'more than one'} element.")
        return rows[0]

    return _made(dataset._spec, found, dataset._tensors)
