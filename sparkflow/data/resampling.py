"""Datasets of random numbers, and elements of another distribution of classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sparkflow.data import counts, draws
from sparkflow.data.dataset import Dataset, Row, Rows
from sparkflow.data.elements import Fed, Function, Given, Spec
from sparkflow.data.lasting import Lasting
from sparkflow.framework.random_seed import get_seed
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

_DRAWS = 256  # numbers that are drawn at once


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
        class_of = Function(class_func, dataset._spec)
        if class_of.spec.types not in ((dtypes.int32,), (dtypes.int64,)):
            raise TypeError("`class_func` must return a scalar of type int32 or int64")
        pair, key = get_seed(seed), object()
        given = Given(target_dist, *(() if initial_dist is None else (initial_dist,)))

        def rows(fed: Fed) -> Rows:
            rng, call = draws.generator(fed, key, pair, False), class_of.bound(fed)
            target, *known = (np.asarray(v, np.float64) for v in given.values(fed))
            seen, source = np.zeros(len(target)), dataset._rows(fed)

            def begin() -> Iterator[Row]:
                for row in source:
                    kind = int(call(row)[0])
                    if not 0 <= kind < len(target):
                        raise InvalidArgumentError(
                            f"rejection_resample: class_func gives {kind}, target_dist has {len(target)} classes"
                        )
                    seen[kind] += 1
                    kept = target / np.maximum(known[0] if known else seen / seen.sum(), 1e-300)
                    largest = kept[seen > 0].max() if not known else kept.max()
                    if largest > 0 and rng.random() < kept[kind] / largest:
                        yield [class_of.spec.types[0].np.type(kind), *row]

            return Lasting(begin)

        spec = dataset._spec
        pairs = Spec((0, spec.like), (*class_of.spec.types, *spec.types), ((), *spec.dims))
        return Dataset(pairs, rows, tuple(dict.fromkeys(dataset._tensors + class_of.tensors + given.tensors)))

    return made
