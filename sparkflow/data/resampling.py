"""Datasets of random numbers, and elements of another distribution of classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, repeat, tee
from typing import Any

import numpy as np

from sparkflow.data import counts, draws
from sparkflow.data.dataset import Dataset, Row, Rows
from sparkflow.data.elements import Fed, Given, Spec
from sparkflow.data.lasting import Lasting
from sparkflow.framework.random_seed import get_seed
from sparkflow_runtime.kernels import philox
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

_DRAWS = 256  # numbers that are drawn at once
_TOGETHER, _SEEN = 32, 10  # elements whose classes are counted together, and what stands for those not seen yet


def RandomDataset(
    seed: int | None = None, rerandomize_each_iteration: bool | None = None, name: str | None = None
) -> Dataset:
    """Random int64 numbers in [0, 2^32) without end; with a seed the same ones each time, unless they are to be drawn
    anew."""
    pair, key = get_seed(seed), object()

    def rows(fed: Fed) -> Iterator[Row]:
        words = draws.words(fed, key, pair, bool(rerandomize_each_iteration))
        while True:
            yield from ([number] for number in words.take(_DRAWS).astype(np.int64))

    return Dataset(Spec(0, (dtypes.int64,), ((),)), rows, count=lambda _: counts.INFINITE)


def rejection_resample(
    class_func: Callable[..., Any], target_dist: Any, initial_dist: Any = None, seed: int | None = None
) -> Callable[[Dataset], Dataset]:
    """For Dataset.apply: pairs (class, element) of some elements, whose classes are distributed as target_dist says.

    class_func gives an element's class, an int32 or int64 in [0, number of classes). initial_dist: how they are
    distributed before; by default what has been seen of them. An element is kept with a probability in proportion to
    target / initial of its class. Raises TypeError where class_func gives something else.
    """

    def made(dataset: Dataset) -> Dataset:
        pairs = dataset.map(lambda *x: (class_func(*x), x[0] if len(x) == 1 else x))
        kinds = pairs._spec.types[: -len(dataset._spec.types)]
        if kinds not in ((dtypes.int32,), (dtypes.int64,)):
            raise TypeError("`class_func` must return a scalar of type int32 or int64")
        pair, keys = get_seed(seed), (object(), object())
        given = Given(target_dist, *(() if initial_dist is None else (initial_dist,)))

        def rows(fed: Fed) -> Rows:
            target, *known = (np.asarray(v, np.float32) for v in given.values(fed))
            seen = np.full(len(target), _SEEN, np.int64)
            sources = draws.each([pairs] * (2 if known else 3), fed, keys)
            even, choices = (draws.words(fed, key, pair, False) for key in keys)
            over = False

            def classed(source: Iterable[Row]) -> Iterator[Row]:
                for row in source:
                    if not 0 <= row[0] < len(target):
                        raise InvalidArgumentError(
                            f"rejection_resample: class_func gives {row[0]}, target_dist has {len(target)} classes"
                        )
                    yield row

            def begin() -> Iterator[Row]:
                nonlocal over
                if over:
                    return
                any_of, accepted_of, *counted = map(classed, sources)
                chances = _estimated(target, seen, *counted) if counted else repeat(_chances(target, known[0]))
                accepting, mixing = tee(chances)
                kept = _accepted(accepted_of, accepting, even)
                for number in _chosen(mixing, choices):
                    row = next((any_of, kept)[number], None)
                    if row is None:
                        break
                    yield row
                over = True

            return Lasting(begin)

        return Dataset(pairs._spec, rows, tuple(dict.fromkeys(pairs._tensors + given.tensors)))

    return made


_Chances = tuple[Any, Any]  # of each class to be accepted; to take any element instead


def _chances(target: np.ndarray, initial: np.ndarray) -> _Chances:
    """Elements of all classes as they come are mixed with some that are accepted, so that few are passed over."""
    ratio = target / (initial + np.finfo(np.float32).tiny)
    least, most = ratio.min(), ratio.max()
    with np.errstate(invalid="ignore"):
        return (ratio - least) / (most - least), least


def _estimated(target: np.ndarray, seen: np.ndarray, classed: Iterator[Row]) -> Iterator[_Chances]:
    """By how many of each class were seen until then, for as many elements as they are looked at together."""
    while some := [int(row[0]) for row in islice(classed, _TOGETHER)]:
        seen += np.bincount(some, minlength=len(target))
        yield from repeat(_chances(target, (seen / seen.sum()).astype(np.float32)), len(some))


def _accepted(classed: Iterator[Row], chances: Iterator[_Chances], words: philox.Words) -> Iterator[Row]:
    """By an even number for each, drawn as by an op that is run for one after the other."""
    even: list[float] = []
    for chance, row in zip(chances, classed):
        if not even:
            bits = words.firsts(_DRAWS) & np.uint32(0x7FFFFF)
            even = (bits.astype(np.float32) * np.float32(2.0**-23)).tolist()[::-1]
        if even.pop() < chance[0][row[0]]:
            yield row


def _chosen(chances: Iterator[_Chances], words: philox.Words) -> Iterator[int]:
    """0: any element is next, 1: one that is accepted."""
    last: Any = None
    sums, even = np.zeros(2), iter(np.zeros(0).tolist())
    for _, untouched in chances:
        if untouched != last:
            last, sums = untouched, draws.running_sums(np.array([untouched, 1 - untouched]))
        drawn = next(even, None)
        if drawn is None:
            even = iter(draws.even_of_seeds(words).tolist())
            drawn = next(even)
        yield int(drawn * sums[1] >= sums[0])
