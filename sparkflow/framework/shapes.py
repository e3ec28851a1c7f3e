"""Static shapes. Inside sparkflow a shape is a tuple (None for an unknown size) or None for an unknown rank."""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import TensorShapeProto
from sparkflow_runtime.wire.tensor_proto import shape_proto, shape_tuple

Dims = tuple[int | None, ...] | None


class Dimension:
    """One size of a TensorShape, as TF1 hands it out: `.value` is an int or None."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        """Raises TypeError on what is no whole number, ValueError on one below 0."""
        try:
            self.value: int | None = (
                value.value if isinstance(value, Dimension) else None if value is None else int(value)
            )
        except (TypeError, ValueError):
            raise TypeError(f"Dimension value must be integer or None, got {value!r} in a shape") from None
        if self.value is not None and not isinstance(value, (str, bytes, Dimension)) and value != self.value:
            raise TypeError(f"Dimension value must be integer or None, got {value!r}; divide sizes with //")
        if self.value is not None and self.value < 0:
            raise ValueError(f"Dimension {self.value} must be >= 0; a size that is not known is None")

    def __int__(self) -> int:
        if self.value is None:
            raise TypeError("This dimension is not known statically; use tf.shape(x) for its size at run time")
        return self.value

    __index__ = __int__

    def _compared(self, other: Any, compare: Callable[[Any, Any], bool]) -> Any:
        """None, which counts as false, where either is not known."""
        a, b = self.value, Dimension(other).value
        return None if a is None or b is None else compare(a, b)

    def __eq__(self, other: object) -> Any:
        try:
            return self._compared(other, operator.eq)
        except (TypeError, ValueError):
            return NotImplemented

    def __ne__(self, other: object) -> Any:
        try:
            return self._compared(other, operator.ne)
        except (TypeError, ValueError):
            return NotImplemented

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compared(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, operator.ge)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"Dimension({self.value})"

    def __str__(self) -> str:
        return "?" if self.value is None else str(self.value)

    def is_compatible_with(self, other: Any) -> bool:
        return compatible((self.value,), (Dimension(other).value,))

    def merge_with(self, other: Any) -> Dimension:
        """Whichever is known. Raises ValueError where both are, and differ."""
        if not self.is_compatible_with(other):
            raise InvalidArgumentError(f"Dimensions {self} and {Dimension(other)} are not compatible")
        return Dimension(other) if self.value is None else self

    assert_is_compatible_with = merge_with

    def _with(self, other: Any, combine: Callable[[Any, Any], int], swapped: bool = False) -> Dimension:
        a, b = self.value, Dimension(other).value
        if a is None or b is None:
            return Dimension(None)
        return Dimension(combine(b, a) if swapped else combine(a, b))

    def __mul__(self, other: Any) -> Dimension:
        return self._with(other, operator.mul)

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Dimension:
        return self._with(other, operator.add)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dimension:
        return self._with(other, operator.sub)

    def __rsub__(self, other: Any) -> Dimension:
        return self._with(other, operator.sub, swapped=True)

    def __floordiv__(self, other: Any) -> Dimension:
        return self._with(other, operator.floordiv)

    def __rfloordiv__(self, other: Any) -> Dimension:
        return self._with(other, operator.floordiv, swapped=True)

    def __mod__(self, other: Any) -> Dimension:
        return self._with(other, operator.mod)

    def __rmod__(self, other: Any) -> Dimension:
        return self._with(other, operator.mod, swapped=True)

    def __truediv__(self, other: Any) -> Dimension:
        raise TypeError(f"A dimension is divided by //: {self} / {other} need not be a whole number")

    __rtruediv__ = __truediv__


class TensorShape:
    """The static shape of a tensor: a sequence of Dimension, or of unknown rank."""

    __slots__ = ("dims_",)

    def __init__(self, dims: Any):
        self.dims_: Dims = as_dims(dims)

    @property
    def ndims(self) -> int | None:
        return None if self.dims_ is None else len(self.dims_)

    rank = ndims

    @property
    def dims(self) -> list[Dimension] | None:
        return None if self.dims_ is None else [Dimension(d) for d in self.dims_]

    def as_list(self) -> list[int | None]:
        if self.dims_ is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape")
        return list(self.dims_)

    def num_elements(self) -> int | None:
        return None if not self.is_fully_defined() else product(self.dims_)

    def is_fully_defined(self) -> bool:
        return fully_known(self.dims_)

    def is_compatible_with(self, other: Any) -> bool:
        return compatible(self.dims_, as_dims(other))

    def merge_with(self, other: Any) -> TensorShape:
        return TensorShape(merge(self.dims_, as_dims(other)))

    def concatenate(self, other: Any) -> TensorShape:
        other = as_dims(other)
        return TensorShape(None if self.dims_ is None or other is None else self.dims_ + other)

    __add__ = concatenate

    def __radd__(self, other: Any) -> TensorShape:
        return TensorShape(other).concatenate(self)

    def assert_is_compatible_with(self, other: Any) -> None:
        if not compatible(self.dims_, as_dims(other)):
            raise InvalidArgumentError(f"Shapes {self} and {other} are incompatible")

    def with_rank(self, rank: int) -> TensorShape:
        return self.merge_with([None] * rank)

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """Itself. Raises ValueError where it is known to have less axes."""
        if self.dims_ is not None and len(self.dims_) < rank:
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def with_rank_at_most(self, rank: int) -> TensorShape:
        """Itself. Raises ValueError where it is known to have more axes."""
        if self.dims_ is not None and len(self.dims_) > rank:
            raise ValueError(f"Shape {self} must have rank at most {rank}")
        return self

    def assert_has_rank(self, rank: int) -> None:
        if self.dims_ is not None and len(self.dims_) != rank:
            raise ValueError(f"Shape {self} must have rank {rank}")

    def assert_same_rank(self, other: Any) -> None:
        other = TensorShape(other)
        if other.ndims is not None and self.ndims not in (None, other.ndims):
            raise ValueError(f"Shapes {self} and {other} must have the same rank")

    def assert_is_fully_defined(self) -> None:
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def __len__(self) -> int:
        return len(self.as_list())

    def __iter__(self) -> Iterator[Dimension]:
        return (Dimension(d) for d in self.as_list())

    def __getitem__(self, key: Any) -> Any:
        if self.dims_ is None:
            return TensorShape(None) if isinstance(key, slice) else Dimension(None)
        return TensorShape(self.dims_[key]) if isinstance(key, slice) else Dimension(self.dims_[key])

    def __bool__(self) -> bool:
        return self.dims_ is not None

    def __eq__(self, other: object) -> bool:
        try:
            return self.dims_ == as_dims(other)
        except TypeError:
            return False

    def as_proto(self) -> TensorShapeProto:
        return shape_proto(self.dims_)

    def __hash__(self) -> int:
        return hash(self.dims_)

    def __repr__(self) -> str:
        return f"TensorShape({None if self.dims_ is None else [*map(Dimension, self.dims_)]})"

    def __str__(self) -> str:
        return show(self.dims_)


def as_dims(value: Any) -> Dims:
    """The tuple form of a TensorShape, its message, a sequence of sizes, an int, or None; a size of -1 is not known.

    Raises TypeError on anything else, ValueError on other negative sizes.
    """
    if value is None or (isinstance(value, tuple) and all(type(d) is int and d >= 0 for d in value)):
        return value
    if isinstance(value, TensorShape):
        return value.dims_
    if isinstance(value, (str, bytes)):
        raise TypeError(f"Expected a shape, got {value!r}")
    if isinstance(value, TensorShapeProto):
        return shape_tuple(value)
    if isinstance(value, Sequence) or hasattr(value, "__iter__"):
        return tuple(map(_size, value))
    return (_size(value),)


def _size(value: Any) -> int | None:
    return None if isinstance(value, numbers.Integral) and value == -1 else Dimension(value).value


def show(dims: Dims) -> str:
    if dims is None:
        return "<unknown>"
    return "(" + ", ".join("?" if d is None else str(d) for d in dims) + ("," if len(dims) == 1 else "") + ")"


def fully_known(dims: Dims) -> bool:
    return dims is not None and None not in dims


def product(dims: Any) -> int:
    total = 1
    for d in dims:
        total *= d
    return total


def compatible(a: Dims, b: Dims) -> bool:
    if a is None or b is None:
        return True
    if len(a) != len(b):
        return False
    for x, y in zip(a, b):  # noqa: SIM110 - each feed of a run is asked: a generator takes three times as long
        if x != y and x is not None and y is not None:
            return False
    return True


def merge(a: Dims, b: Dims) -> Dims:
    """What both know together. Raises InvalidArgumentError where they contradict each other."""
    if not compatible(a, b):
        raise InvalidArgumentError(f"Shapes {show(a)} and {show(b)} are not compatible")
    if a is None or b is None:
        return b if a is None else a
    return tuple(y if x is None else x for x, y in zip(a, b, strict=True))


def broadcast(a: Dims, b: Dims, what: str = "operands") -> Dims:
    """numpy's broadcasting rule. Raises InvalidArgumentError where two known sizes differ and neither is 1."""
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    out = []
    for x, y in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True):
        if x == 1 or x == y:
            out.append(y)
        elif y == 1 or y is None:
            out.append(x)
        elif x is None:
            out.append(y)
        else:
            raise InvalidArgumentError(f"{what}: shapes {show(a)} and {show(b)} do not broadcast")
    return tuple(out)
