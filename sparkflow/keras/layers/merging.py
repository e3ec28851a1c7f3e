"""Layers of several inputs: sums, products, joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.framework.graph import Tensor
from sparkflow.keras import backend
from sparkflow.keras.engine import Layer
from sparkflow.ops import array, array_join, math, math_reduce, nn, operators  # noqa: F401 - x * y on tensors


class _Merge(Layer):
    """Of a list of tensors, one. Those of less axes get axes of size 1 behind the batch's."""

    supports_masking = True
    least = 2
    most: int | None = None
    one: Callable[[Any, Any], Any]

    def build(self, input_shape: Any) -> None:
        count = len(input_shape) if isinstance(input_shape, (list, tuple)) else 0
        if count < self.least or (self.most is not None and count > self.most):
            wanted = f"exactly {self.least}" if self.most == self.least else f"at least {self.least}"
            raise ValueError(
                f"A {type(self).__name__} layer should be called on a list of {wanted} inputs, got {count}"
            )
        self.built = True

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        ranks = [None if x._shape is None else len(x._shape) for x in inputs]
        if None not in ranks and len(set(ranks)) > 1:
            inputs = [_deeper(x, max(ranks) - rank) for x, rank in zip(inputs, ranks)]  # type: ignore[type-var,operator]
        return self.merge(list(inputs))

    def merge(self, inputs: list[Tensor]) -> Tensor:
        out = inputs[0]
        for x in inputs[1:]:
            out = type(self).one(out, x)
        return out

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        given = [m for m in mask or () if m is not None]
        if not given or len(given) < len(mask):
            return None
        out = given[0]
        for m in given[1:]:
            out = math.logical_and(out, m)
        return out


def _deeper(x: Tensor, axes: int) -> Tensor:
    for _ in range(axes):
        x = array.expand_dims(x, 1)
    return x


class Add(_Merge):
    __doc__ = _Merge.__doc__
    one = math.add


class Subtract(_Merge):
    """The first of two tensors less the second."""

    most = 2
    one = math.subtract


class Multiply(_Merge):
    __doc__ = _Merge.__doc__
    one = math.multiply


class Average(_Merge):
    __doc__ = _Merge.__doc__
    one = math.add

    def merge(self, inputs: list[Tensor]) -> Tensor:
        return super().merge(inputs) / len(inputs)


class Maximum(_Merge):
    __doc__ = _Merge.__doc__
    one = math.maximum


class Minimum(_Merge):
    __doc__ = _Merge.__doc__
    one = math.minimum


class Concatenate(_Merge):
    """Tensors joined along an axis."""

    least = 1

    def __init__(self, axis: int = -1, **kwargs: Any):
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        return array_join.concat(list(inputs), self.axis)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        if mask is None or all(m is None for m in mask):
            return None
        masks = []
        for x, m in zip(inputs, mask):
            ones = array.ones_like(x, dtype="bool")
            masks.append(ones if m is None else math.logical_and(ones, _deeper_behind(m, x)))
        return math_reduce.reduce_all(array_join.concat(masks, self.axis), axis=-1)


def _deeper_behind(mask: Tensor, like: Tensor) -> Tensor:
    for _ in range(len(like._shape or ()) - len(mask._shape or ())):
        mask = array.expand_dims(mask, -1)
    return mask


class Dot(_Merge):
    """Products of two tensors, summed along axes (one, or one of each; the batch's is 0). normalize: of vectors made 1
    long there, which is their cosine."""

    most = 2

    def __init__(self, axes: int | Sequence[int], normalize: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        self.axes, self.normalize = axes, normalize

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        x, y = inputs
        pair = [self.axes] * 2 if isinstance(self.axes, int) else list(self.axes)
        axes = [a % len(t._shape) for a, t in zip(pair, (x, y))]
        if self.normalize:
            x, y = (nn.l2_normalize(t, axis=a) for a, t in zip(axes, (x, y)))
        return backend.batch_dot(x, y, axes)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return None


# ---------------------------------------------------------------------- as functions


def _function(kind: type[_Merge]) -> Callable[..., Tensor]:
    def layer(inputs: Any, **kwargs: Any) -> Tensor:
        return kind(**kwargs)(inputs)

    layer.__doc__ = f"{kind.__name__} as a function of a list of tensors."
    return layer


add, subtract, multiply, average = _function(Add), _function(Subtract), _function(Multiply), _function(Average)
maximum, minimum = _function(Maximum), _function(Minimum)


def concatenate(inputs: Any, axis: int = -1, **kwargs: Any) -> Tensor:
    """Concatenate as a function."""
    return Concatenate(axis=axis, **kwargs)(inputs)


def dot(inputs: Any, axes: Any, normalize: bool = False, **kwargs: Any) -> Tensor:
    """Dot as a function."""
    return Dot(axes=axes, normalize=normalize, **kwargs)(inputs)
