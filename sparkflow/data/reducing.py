"""One element for each key: what a reducer makes of all elements of that key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sparkflow.data.dataset import Dataset, Row, Rows
from sparkflow.data.elements import Fed, Function, Spec
from sparkflow.data.lasting import Lasting
from sparkflow_runtime.wire import dtypes


class Reducer:
    """init_func(key) gives a state, reduce_func(state, element) the next one, finalize_func(state) what comes out."""

    def __init__(
        self, init_func: Callable[..., Any], reduce_func: Callable[..., Any], finalize_func: Callable[..., Any]
    ):
        self.init_func, self.reduce_func, self.finalize_func = init_func, reduce_func, finalize_func


def group_by_reducer(key_func: Callable[..., Any], reducer: Reducer) -> Callable[[Dataset], Dataset]:
    """For Dataset.apply: what the reducer makes of the elements of each key, in the order of the keys.

    key_func gives an int64 scalar. Raises ValueError where it does not, TypeError where reduce_func gives a state of
    other types than init_func.
    """

    def made(dataset: Dataset) -> Dataset:
        key_of = Function(key_func, dataset._spec)
        if key_of.spec.types != (dtypes.int64,) or key_of.spec.dims[0] not in ((), None):
            raise ValueError(f"`key_func` must return a single tf.int64 scalar, but it gives {key_of.spec.kinds}")
        first = Function(reducer.init_func, key_of.spec)
        both = Spec((first.spec.like, dataset._spec.like), *_together(first.spec, dataset._spec))
        following = Function(reducer.reduce_func, both)
        if following.spec.types != first.spec.types:
            raise TypeError(
                f"group_by_reducer: the state is {first.spec.types}, reduce_func gives {following.spec.types} for it"
            )
        state = first.spec._replace(dims=following.spec.dims)
        last = Function(reducer.finalize_func, state)

        def rows(fed: Fed) -> Rows:
            calls = [f.bound(fed) for f in (key_of, first, following, last)]
            states: dict[int, Row] = {}
            source = dataset._rows(fed)

            def begin() -> Iterator[Row]:
                for row in source:
                    key = int(calls[0](row)[0])
                    held = states[key] if key in states else calls[1]([np.int64(key)])
                    states[key] = calls[2]([*held, *row])
                for key in sorted(states):
                    yield calls[3](states.pop(key))

            return Lasting(begin)

        tensors = dataset._tensors + key_of.tensors + first.tensors + following.tensors + last.tensors
        return Dataset(last.spec, rows, tuple(dict.fromkeys(tensors)))

    return made


def _together(one: Spec, other: Spec) -> tuple[Any, Any]:
    return one.types + other.types, one.dims + other.dims
