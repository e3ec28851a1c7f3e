"""Dataset: a recipe for rows. Each transformation makes a new recipe; an iterator runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sparkflow.data import ahead, beginnings, counts, deferred, draws, elements, order, ragged_batches
from sparkflow.data.deferred import Bind
from sparkflow.data.elements import Fed, Function, Given, Spec, Whole, check_whole, leaves_of
from sparkflow.data.lasting import Lasting, lasting
from sparkflow.data.transformations import Transformations
from sparkflow.framework import nest
from sparkflow.framework.graph import Tensor
from sparkflow.framework.random_seed import get_seed
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

Row = list[Any]  # the leaves of one element
Rows = Iterable[Row]
Call = Callable[[Row], list[Any]]
_ALL = 1 << 62  # more than there are


class Dataset(Transformations):
    """rows(fed) gives the elements' leaves, anew each time; tensors: what must be known before that.

    step: where it is given, rows gives what that makes elements of, one by one or as a batch. count(fed): how many they
    are, as counts.py says it. The `name`s that the transformations take are for TensorFlow's sake.
    """

    def __init__(
        self, spec: Spec, rows: Callable[[Fed], Rows], tensors: tuple[Tensor, ...] = (), step: Bind | None = None,
        count: Callable[[Fed], int] = counts.unknown,
    ):  # fmt: skip
        self._spec, self._raw, self._tensors, self._step, self._count = spec, rows, tensors, step, count
        self._behind: Callable[[Fed, int], Rows] | None = None  # `_rows_behind`, where it is quicker than to make them
        self._fused = False  # whether a batch of these fails as one, as TensorFlow makes one op of map and batch

    def _begun(self, fed: Fed) -> Rows:
        """What elements are made of; `iter` of it goes on, also behind an error."""
        return lasting(self._raw(fed))

    def _rows(self, fed: Fed) -> Rows:
        """The elements' leaves; as `_begun`."""
        source = self._begun(fed)
        return source if self._step is None else deferred.one_by_one(self._step(fed), source)

    def _rows_behind(self, fed: Fed, number: int) -> Rows:
        """Those behind the first so many, none of which fails."""
        source = self._begun_behind(fed, number)
        return source if self._step is None else deferred.one_by_one(self._step(fed), source)

    # ------------------------------------------------------------------ sources

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """One element."""
        return Dataset(*beginnings.one_element(tensors), count=lambda fed: 1)

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """An element for each row of the arrays and SparseTensors, which must have equally many. Raises ValueError on a
        scalar."""
        spec, rows, fed, *step = beginnings.slices(tensors)
        return Dataset(spec, rows, fed, step[0] if step else None, counts.of_rows(rows) if step else counts.unknown)

    @staticmethod
    def from_generator(
        generator: Callable[..., Iterable[Any]], output_types: Any = None, output_shapes: Any = None, args: Any = None,
        output_signature: Any = None, name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """What generator(*args) yields, of these types and shapes, or of a structure of TensorSpecs.
        InvalidArgumentError where a value does not fit."""
        output_types, output_shapes = elements.signed(output_signature, output_types, output_shapes)
        return Dataset(*beginnings.generated(generator, output_types, output_shapes, args))

    @staticmethod
    def range(*args: Any, output_type: Any = dtypes.int64, name: str | None = None) -> Dataset:
        """The numbers of Python's range, int64; of numbers or tensors."""
        return Dataset(*beginnings.numbers(args, output_type), count=counts.of_range(Whole(*args)))

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
        """A structure of datasets, or several of them, to elements of that structure; as long as the shortest."""
        parts = datasets if datasets is not None else args[0] if len(args) == 1 else args
        return Dataset(*beginnings.zipped(parts), count=counts.of_zip(nest.flatten(parts)))

    @staticmethod
    def list_files(
        file_pattern: Any, shuffle: bool | None = None, seed: int | None = None, name: str | None = None
    ) -> Dataset:
        """The paths that match a pattern (or several, or a tensor of them), in random order unless shuffle is False.

        Raises InvalidArgumentError where none does, of a tensor when the iterator is initialized.
        """
        files = Dataset(*beginnings.matching_files(file_pattern))
        return files if shuffle is False else files.shuffle(_ALL, seed)

    # ------------------------------------------------------------------ order and number

    def _new(
        self, rows: Callable[[Rows], Rows], spec: Spec | None = None, count: counts.Count = counts.not_known
    ) -> Dataset:
        raw, number = (lambda fed: rows(self._rows(fed))), (lambda fed: count(self._count(fed)))
        return Dataset(spec or self._spec, raw, self._tensors, count=number)

    def _moved(self, rows: Callable[..., Rows], given: Given, count: counts.Count = counts.same) -> Dataset:
        """rows: the same ones or some of them in some order, which it does not look at; also of what was given."""
        return Dataset(
            self._spec,
            lambda fed: rows(self._begun(fed), *given.values(fed)),
            tuple(dict.fromkeys(self._tensors + given.tensors)),
            self._step,
            lambda fed: count(self._count(fed), *given.values(fed)),
        )

    def _given(self, given: Given, rows: Callable[..., Rows], spec: Spec) -> Dataset:
        """rows: as many as these, of these and of the values of what was given."""
        tensors = tuple(dict.fromkeys(self._tensors + given.tensors))
        return Dataset(spec, lambda fed: rows(self._rows(fed), *given.values(fed)), tensors, count=self._count)

    def _applied(
        self, function: Function, rows: Callable[[Rows, Call], Rows], spec: Spec | None = None,
        fetches: tuple[Tensor, ...] | None = None, count: counts.Count = counts.not_known,
    ) -> Dataset:  # fmt: skip
        """rows: of these rows and a function of one of them, which also has what it takes from the graph around it."""
        return Dataset(
            spec or self._spec,
            lambda fed: rows(self._rows(fed), function.bound(fed, fetches)),
            tuple(dict.fromkeys(self._tensors + function.tensors)),
            count=lambda fed: count(self._count(fed)),
        )

    def repeat(self, count: int | None = None, name: str | None = None) -> Dataset:
        """Again and again: so many times, or for ever (None, -1)."""

        given = Whole(count, optional=True)

        def rows(fed: Fed) -> Rows:
            (times,) = given.values(fed)
            return order.repeated(lambda: self._begun(fed), -1 if times is None else int(times))

        tensors = tuple(dict.fromkeys(self._tensors + given.tensors))
        number = lambda fed: counts.repeated(self._count(fed), *given.values(fed))  # noqa: E731
        return Dataset(self._spec, rows, tensors, self._step, number)

    def shuffle(
        self, buffer_size: int, seed: int | None = None, reshuffle_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """In random order: each element is drawn from the next buffer_size ones. With a seed the order is the same each
        time that an iterator begins. In a repeat it is another each time, unless reshuffle_each_iteration is False."""
        given, pair, key = Whole(buffer_size), get_seed(seed), object()
        elements.check_truth("reshuffle_each_iteration", reshuffle_each_iteration is None or reshuffle_each_iteration)

        def rows(fed: Fed) -> Rows:
            (size,) = given.values(fed)
            if size < 1:
                raise InvalidArgumentError(f"shuffle: buffer_size must be greater than zero, got {size}")
            words = draws.words(fed, key, pair, reshuffle_each_iteration is not False)
            return order.shuffled(self._begun(fed), int(size), words)

        tensors = tuple(dict.fromkeys(self._tensors + given.tensors))
        return Dataset(self._spec, rows, tensors, self._step, self._count)

    def take(self, count: int, name: str | None = None) -> Dataset:
        """The first ones, all for -1."""
        taken = lambda rows, n: rows if n < 0 else order.taken(rows, int(n))  # noqa: E731
        return self._moved(taken, Whole(count), counts.taken)

    def skip(self, count: int, name: str | None = None) -> Dataset:
        """Without the first ones, none for -1."""
        left = lambda rows, n: iter(()) if n < 0 else order.skipped(rows, int(n))  # noqa: E731
        return self._moved(left, Whole(count), counts.skipped)

    def shard(self, num_shards: Any, index: Any, name: str | None = None) -> Dataset:
        """Every num_shards-th one, from `index` on. Raises InvalidArgumentError, when it runs, on an index beyond."""

        def rows(source: Rows, count: Any, first: Any) -> Rows:
            if not 0 <= first < count:
                raise InvalidArgumentError(f"shard: index must be in [0, {count}), got {first}")
            return order.sharded(source, int(count), int(first))

        return self._moved(rows, Whole(num_shards, index), counts.of_shard)

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """These, then the other's."""
        if self._spec.types != dataset._spec.types:
            raise TypeError("Two datasets to concatenate have different types")
        dims = tuple(elements.common(a, b) for a, b in zip(self._spec.dims, dataset._spec.dims))
        key: Any = object()
        return Dataset(
            self._spec._replace(dims=dims),
            lambda fed: order.joined(
                [lambda: self._rows(draws.part(fed, key, 0)), lambda: dataset._rows(draws.part(fed, key, 1))]
            ),
            self._tensors + dataset._tensors,
            count=lambda fed: counts.added([self._count(fed), dataset._count(fed)]),
        )

    def cache(self, filename: str = "", name: str | None = None) -> Dataset:
        """Kept in memory once they have all been seen, by each iterator until it is initialized again; where there is
        a filename, for as long as there is the dataset."""
        own: dict[Any, Any] = {}
        key: Any = object()  # of the kept rows among the values of an initialization, which live as long as these do

        def rows(fed: Fed) -> Rows:
            kept: Any = own if filename else draws.whole(fed)
            if key in kept:
                found: list[Row] = kept[key]
                return found
            source, seen = self._rows(fed), list[Row]()

            def begin() -> Any:
                for row in source:
                    seen.append(row)
                    yield row
                kept[key] = seen

            return Lasting(begin)

        return Dataset(self._spec, rows, self._tensors, count=self._count)

    def prefetch(self, buffer_size: Any = None, name: str | None = None) -> Dataset:
        """The same, up to buffer_size elements being made in a thread before they are asked for, where they take long.

        Elements that a batch makes at once are left to it.
        """
        given = Whole(ahead.AUTOTUNE if buffer_size is None else buffer_size)
        if self._step is not None or given.known == [0]:
            return self._moved(lambda rows: rows, Given())
        made = lambda rows, n: ahead.prefetched(rows, int(n) if n > 0 else 2)  # noqa: E731
        held = self._given(given, made, self._spec)
        held._behind = lambda fed, number: made(self._rows_behind(fed, number), *given.values(fed))
        return held

    # ------------------------------------------------------------------ batches

    def batch(
        self, batch_size: int, drop_remainder: bool = False, num_parallel_calls: Any = None, deterministic: Any = None,
        name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """So many elements stacked; the last batch may be smaller, unless drop_remainder. SparseTensors get an axis in
        front, and are as large as the largest of the batch."""
        if self._spec.ragged:
            return ragged_batches.batched(self, batch_size, drop_remainder)
        given = Whole(batch_size)
        lead = given.first if drop_remainder else None
        spec = self._spec.with_dims(lambda d: None if d is None else (lead, *d))
        sparse = spec.sparse
        if sparse:
            spec = spec._replace(dims=deferred.with_one_axis_more(self._spec.dims, spec.dims, sparse))
        bind = self._step or deferred.whole_with(sparse)

        def rows(fed: Fed, behind: int = 0) -> Rows:
            (size,) = given.values(fed)
            if size < 1:
                raise InvalidArgumentError(f"batch: batch_size must be greater than zero, got {size}")
            step = bind(fed)
            fused = self._fused and num_parallel_calls is None
            one = None if fused else step.one
            source = self._begun_behind(fed, behind * int(size))
            return deferred.batches(source, int(size), drop_remainder, step.many, one)

        return self._batched(spec, rows, given, drop_remainder)

    def _begun_behind(self, fed: Fed, number: int) -> Rows:
        if number and self._behind is not None:  # then there is no step
            return lasting(self._behind(fed, number))
        return order.skipped(self._begun(fed), number) if number else self._begun(fed)

    def _batched(self, spec: Spec, rows: Callable[..., Rows], given: Given, drop: bool) -> Dataset:
        elements.check_truth("drop_remainder", drop)
        tensors = tuple(dict.fromkeys(self._tensors + given.tensors))
        number = lambda fed: counts.batched(self._count(fed), given.values(fed)[0], drop)  # noqa: E731
        made = Dataset(spec, rows, tensors, count=number)
        made._behind = rows
        return made

    def padded_batch(
        self, batch_size: int, padded_shapes: Any = None, padding_values: Any = None, drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """As batch, of arrays of different sizes: filled up to padded_shapes, or the largest of the batch where a
        size is None or -1. Raises TypeError on a SparseTensor."""
        self._spec.check_plain("padded_batch")
        dims = self._spec.dims if padded_shapes is None else elements.padded_like(self._spec, padded_shapes)
        nothing = [b"" if t is dtypes.string else 0 for t in self._spec.types]
        given = Given(batch_size, *(nothing if padding_values is None else leaves_of(padding_values)))
        check_whole(given.known[0])
        elements.check_padding(given.known[1:], self._spec.types)

        def rows(fed: Fed, behind: int = 0) -> Rows:
            (size, *fill), step = given.values(fed), (self._step or deferred.whole)(fed)
            if size < 1:
                raise InvalidArgumentError(f"padded_batch: batch_size must be greater than zero, got {size}")
            padding = deferred.Padding(dims, fill, self._spec.types)
            many = lambda group: deferred.padded_columns(step, group, padding)  # noqa: E731
            source = self._begun_behind(fed, behind * int(size))
            return deferred.batches(source, int(size), drop_remainder, many, step.one)

        lead = given.first if drop_remainder else None
        spec = self._spec._replace(dims=tuple(None if d is None else (lead, *d) for d in dims))
        return self._batched(spec, rows, given, drop_remainder)

    # ------------------------------------------------------------------ functions

    def map(
        self, map_func: Callable[..., Any], num_parallel_calls: Any = None, deterministic: Any = None,
        name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """map_func of each element; up to num_parallel_calls at once where that takes long."""
        threads, function = ahead.threads_of(num_parallel_calls), Function(map_func, self._spec)
        if function.takes_many:
            tensors = tuple(dict.fromkeys(self._tensors + function.tensors))
            step = deferred.mapped(self._step or deferred.whole, function)
            made = Dataset(function.spec, self._raw, tensors, step, self._count)
        else:
            called = lambda rows, call: (  # noqa: E731
                order.mapped(call, rows) if threads < 2 else ahead.calls(call, rows, threads)
            )
            made = self._applied(function, called, function.spec, count=counts.same)
            if function.forgets:
                made._behind = lambda fed, number: called(self._rows_behind(fed, number), function.bound(fed))
        made._fused = True
        return made

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """The elements for which the predicate is true. Raises ValueError unless it gives one boolean scalar."""
        function = Function(predicate, self._spec)
        if function.spec.types != (dtypes.bool_,) or function.spec.dims[0] not in (None, ()):
            raise ValueError(f"`predicate` must return a `tf.bool` scalar tensor, but it gives {function.spec.kinds}")
        return self._applied(function, lambda rows, call: Lasting(lambda: (row for row in rows if bool(call(row)[0]))))

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        made = transformation_func(self)
        if not hasattr(made, "_rows"):
            raise TypeError(f"`transformation_func` must return a `tf.data.Dataset` object. Got {type(made)}.")
        return made

    def flat_map(self, map_func: Callable[..., Dataset], name: str | None = None) -> Dataset:
        """The elements of the datasets that map_func makes of each, one dataset after the other."""
        return self.interleave(map_func, 1)

    def interleave(
        self,
        map_func: Callable[..., Dataset],
        cycle_length: int | None = 1,
        block_length: int | None = 1,
        num_parallel_calls: Any = None,
        deterministic: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """As flat_map, from cycle_length datasets in turn, block_length elements of each; from one where that is left
        open (None, AUTOTUNE), so that the order does not depend on the machine."""
        ahead.check_calls(num_parallel_calls)
        cycle_length = 1 if cycle_length in (None, ahead.AUTOTUNE) else cycle_length
        block_length = 1 if block_length is None else block_length
        function = Function(map_func, self._spec, "map_func")
        made: Dataset = function.raw
        given = tuple(function.graph.own(t) for t in made._tensors)
        if min(cycle_length, block_length) < 1:
            raise InvalidArgumentError(
                f"interleave: cycle_length and block_length must be 1 or more, got {cycle_length}, {block_length}"
            )

        def rows(fed: Fed) -> Rows:
            values = function.bound(fed, given)

            def opened(row: Row) -> Any:
                return made._rows(draws.within(fed, dict(zip(made._tensors, values(row)))))

            return order.in_turn(self._rows(fed), opened, cycle_length, block_length, num_parallel_calls is not None)

        return Dataset(made._spec, rows, tuple(dict.fromkeys(self._tensors + function.tensors)))

    # ------------------------------------------------------------------ looking at it

    def make_one_shot_iterator(self) -> Any:
        """Its get_next() needs no initialization. Raises ValueError where the dataset begins with a placeholder."""
        from sparkflow.data.iterator import of_dataset

        return of_dataset(self, one_shot=True)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Any:
        """Run its `initializer` first, with placeholders' values. shared_name: as Iterator.from_structure has it."""
        from sparkflow.data.iterator import of_dataset

        return of_dataset(self, False, shared_name)

    map_with_legacy_function = map
    filter_with_legacy_function = filter

    output_types = property(lambda self: self._spec.kinds)
    output_classes = property(lambda self: self._spec.classes)
    output_shapes = property(lambda self: self._spec.sizes)

    def __repr__(self) -> str:
        return f"<Dataset shapes: {self.output_shapes}, types: {self.output_types}>"
