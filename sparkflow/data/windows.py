"""Windows: the elements of a dataset as datasets of so many of them, for flat_map to make elements of."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sparkflow.data.dataset import Dataset, Rows
from sparkflow.data.elements import Fed, Function, Spec, Whole
from sparkflow.data.lasting import Pair, pairs
from sparkflow.data.order import in_turn
from sparkflow.framework import nest
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnimplementedError


class Windows:
    """What Dataset.window gives: for each component of its elements a dataset of `size` of them, `stride` apart, the
    next ones beginning `shift` elements later. At the end they are shorter, or left out with drop_remainder."""

    def __init__(self, source: Dataset, size: Any, shift: Any, stride: Any, drop_remainder: bool):
        self._source, self._drop = source, bool(drop_remainder)
        self._cut = Whole(size, size if shift is None else shift, stride)
        if not self._cut.tensors:
            self._sizes({})

    def _sizes(self, fed: Fed) -> list[int]:
        sizes = [int(x) for x in self._cut.values(fed)]
        for name, value in zip(("size", "shift", "stride"), sizes):
            if value < 1:
                raise InvalidArgumentError(f"window: {name} must be greater than zero, got {value}")
        return sizes

    def flat_map(self, map_func: Callable[..., Dataset]) -> Dataset:
        """The elements of the datasets that map_func makes of each window, one dataset after the other."""
        spec = self._source._spec
        tokens = Spec(spec.like, (dtypes.string,) * len(spec.types), ((),) * len(spec.types))
        parts = {}

        def of_tokens(*given: Any) -> Dataset:
            element = given if isinstance(spec.like, tuple) and not hasattr(spec.like, "_fields") else given[0]
            leaves = nest.flatten(element)
            for token, kind, dims in zip(leaves, spec.types, spec.dims, strict=True):
                parts[token] = Dataset(Spec(0, (kind,), (dims,)), lambda fed, token=token: fed[token], (token,))  # type: ignore[misc]
            return map_func(*(nest.map_structure(parts.__getitem__, one) for one in given))

        function = Function(of_tokens, tokens, "map_func")
        inner: Any = function.raw
        given = [t for t in inner._tensors if t not in parts]
        own = tuple(function.graph.own(t) for t in given)

        def rows(fed: Fed) -> Rows:
            values = function.bound(fed, own)
            size, shift, stride = self._sizes(fed)
            windows = _windows(pairs(self._source._rows(fed)), size, shift, stride, self._drop)

            def opened(window: list[Pair]) -> Rows:
                failed = next((error for _, error in window if error is not None), None)
                if failed is not None:
                    raise failed
                known = dict(zip(given, values([b""] * len(parts)))) if given else {}
                tokens = {t: [[row[i]] for row, _ in window] for i, t in enumerate(parts)}
                return inner._rows({**known, **tokens})

            return in_turn(windows, opened, 1)

        tensors = self._source._tensors + self._cut.tensors + function.tensors
        return Dataset(inner._spec, rows, tuple(dict.fromkeys(tensors)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Dataset, name):
            raise AttributeError(name)
        raise UnimplementedError(
            f"Dataset.window(...).{name}: of windows there is flat_map; use {name} before or after it"
        )


def _windows(rows: Iterator[Pair], size: int, shift: int, stride: int, drop: bool) -> Iterator[list[Pair]]:
    held = deque[Pair]()
    span = (size - 1) * stride + 1
    while True:
        held.extend(itertools.islice(rows, span - len(held)))
        window = list(itertools.islice(held, 0, span, stride))
        if not window or (drop and len(window) < size):
            return
        yield window
        _drop(rows, shift - len(held))
        for _ in range(min(shift, len(held))):
            held.popleft()


def _drop(rows: Iterable[Pair], count: int) -> None:
    for _ in itertools.islice(rows, max(0, count)):
        pass
