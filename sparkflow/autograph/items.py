"""What a `for` of a converted function goes through in the graph: tensors by their first dimension, ranges without
their values, enumerations and zips of those."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Protocol

from sparkflow.autograph.values import symbolic
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.ops import array, array_slice, math
from sparkflow.ops.ragged import RaggedTensor
from sparkflow.ops.tensor_array import TensorArray


class Items(Protocol):
    """start: the loop's own variables before it. more, item, next: of their values in an iteration, whether there is
    an item, that item, and the variables of the iteration after."""

    def start(self) -> list[Any]: ...
    def more(self, state: Sequence[Any]) -> Tensor: ...
    def item(self, state: Sequence[Any]) -> Any: ...
    def next(self, state: Sequence[Any]) -> list[Any]: ...


class Rows:
    """The rows of a tensor, of a ragged one, or what a TensorArray holds."""

    def __init__(self, values: Any):
        self._values = values
        if isinstance(values, TensorArray):
            self._count = values.size()
        elif isinstance(values, RaggedTensor):
            self._count = math.cast(values.nrows(), "int32")
        else:
            if values._shape == ():
                raise ValueError(f"Cannot iterate over a scalar tensor: {values}")
            self._count = array.shape(values)[0]

    def start(self) -> list[Any]:
        return [convert_to_tensor(0)]

    def more(self, state: Sequence[Any]) -> Tensor:
        return math.less(state[0], self._count)

    def item(self, state: Sequence[Any]) -> Any:
        if isinstance(self._values, TensorArray):
            return self._values.read(state[0])
        if isinstance(self._values, RaggedTensor):
            return self._values[state[0]]  # type: ignore[index]  # operators gives it that
        return array_slice.gather(self._values, state[0])

    def next(self, state: Sequence[Any]) -> list[Any]:
        return [math.add(state[0], 1)]


class Range:
    """What tf.range gives, number by number."""

    def __init__(self, values: Tensor):
        self._first, self._limit, self._step = values.op.inputs

    def start(self) -> list[Any]:
        return [array.identity(self._first)]

    def more(self, state: Sequence[Any]) -> Tensor:
        (at,) = state
        up, down = math.less(at, self._limit), math.greater(at, self._limit)
        forwards = math.greater(self._step, array.zeros_like(self._step))
        return math.logical_or(math.logical_and(forwards, up), math.logical_and(math.logical_not(forwards), down))

    def item(self, state: Sequence[Any]) -> Any:
        return state[0]

    def next(self, state: Sequence[Any]) -> list[Any]:
        return [math.add(state[0], self._step)]


class Enumeration:
    """enumerate(values, start) of such values."""

    def __init__(self, values: Items, start: Any):
        self._values, self._start = values, start

    def start(self) -> list[Any]:
        return [convert_to_tensor(self._start), *self._values.start()]

    def more(self, state: Sequence[Any]) -> Tensor:
        return self._values.more(state[1:])

    def item(self, state: Sequence[Any]) -> Any:
        return state[0], self._values.item(state[1:])

    def next(self, state: Sequence[Any]) -> list[Any]:
        return [math.add(state[0], 1), *self._values.next(state[1:])]


class Zip:
    """zip(...) of such values: as long as all have items."""

    def __init__(self, several: Sequence[Items]):
        self._several = several

    def start(self) -> list[Any]:
        return [one.start() for one in self._several]

    def more(self, state: Sequence[Any]) -> Tensor:
        found = [one.more(own) for one, own in zip(self._several, state)]
        return reduce(math.logical_and, found)

    def item(self, state: Sequence[Any]) -> Any:
        return tuple(one.item(own) for one, own in zip(self._several, state))

    def next(self, state: Sequence[Any]) -> list[Any]:
        return [one.next(own) for one, own in zip(self._several, state)]


def items_of(values: Any) -> Items | None:
    """How a loop in the graph goes through these values; None of what Python goes through."""
    if isinstance(values, (Enumeration, Zip)):
        return values
    if isinstance(values, Tensor) and values.op.type == "Range":
        return Range(values)
    if isinstance(values, (TensorArray, RaggedTensor)):
        return Rows(values)
    if symbolic(values):
        return Rows(convert_to_tensor(values))
    if hasattr(values, "make_initializable_iterator"):
        raise TypeError(
            f"for over {values!r}: a graph gets a dataset's elements by iterator.get_next(), one in each Session.run; "
            "or use dataset.reduce(initial_state, reduce_func)"
        )
    return None
