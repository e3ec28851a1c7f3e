"""Dense layers, embeddings, and layers that drop, mask or lay out anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, cast

from sparkflow.framework.graph import Tensor
from sparkflow.framework.shapes import TensorShape
from sparkflow.keras import activations, backend
from sparkflow.keras.calls import Node, numbered
from sparkflow.keras.engine import Layer
from sparkflow.keras.learning import in_train_phase, learning
from sparkflow.keras.regularizers import L1L2
from sparkflow.layers.dense import Dense as _Dense
from sparkflow.layers.dense import Dropout as _Dropout
from sparkflow.layers.dense import Flatten as _Flatten
from sparkflow.layers.input_spec import InputSpec
from sparkflow.ops import array, array_join, math, math_reduce, nn, operators, random  # noqa: F401 - x * y on tensors
from sparkflow.ops.embedding import embedding_lookup
from sparkflow.ops.sparse import sparse_placeholder
from sparkflow_runtime.wire.dtypes import int32, int64


class Dense(_Dense, Layer):
    __doc__ = _Dense.__doc__
    supports_masking = True

    def __init__(self, units: int, *args: Any, **kwargs: Any):
        super().__init__(units, *args, **kwargs)
        self.activation = activations.get(self.activation)

    def call(self, inputs: Any, **kwargs: Any) -> Tensor:
        """Whole numbers are cast to what the layer computes in."""
        given, kernel = inputs.dtype.base_dtype, cast(Any, self.kernel)
        if given.is_integer or given.is_bool:
            inputs = math.cast(inputs, kernel.dtype.base_dtype)
        return super().call(inputs, **kwargs)


class Flatten(_Flatten, Layer):
    __doc__ = _Flatten.__doc__

    def __init__(self, data_format: str | None = None, **kwargs: Any):
        super().__init__(data_format or "channels_last", **kwargs)


class Dropout(_Dropout, Layer):
    __doc__ = _Dropout.__doc__
    supports_masking = True

    def call(self, inputs: Any, training: Any = None) -> Tensor:  # type: ignore[override]
        """training: a bool or a bool scalar tensor; the learning phase by default."""
        return super().call(inputs, training=learning(training))


class _SpatialDropout(Dropout):
    """Whole channels are dropped."""

    space = 0

    def __init__(self, rate: Any, data_format: str | None = None, **kwargs: Any):
        super().__init__(rate, **kwargs)
        self.data_format = data_format or "channels_last"
        self.input_spec = InputSpec(ndim=self.space + 2)

    def call(self, inputs: Any, training: Any = None) -> Tensor:  # type: ignore[override]
        sizes = array.shape(inputs)
        last = self.data_format == "channels_last"
        kept = [sizes[0], *[1] * self.space, sizes[self.space + 1]] if last else [*_two(sizes), *[1] * self.space]
        drop = lambda: nn.dropout(inputs, rate=self.rate, noise_shape=array_join.stack(kept), seed=self.seed)  # noqa: E731
        return in_train_phase(drop, lambda: array.identity(inputs), training)


def _two(sizes: Tensor) -> list[Tensor]:
    return [sizes[0], sizes[1]]


class SpatialDropout1D(_SpatialDropout):
    __doc__ = _SpatialDropout.__doc__
    space = 1


class SpatialDropout2D(_SpatialDropout):
    __doc__ = _SpatialDropout.__doc__
    space = 2


class SpatialDropout3D(_SpatialDropout):
    __doc__ = _SpatialDropout.__doc__
    space = 3


class Activation(Layer):
    """A function of tensors, by name or itself."""

    supports_masking = True

    def __init__(self, activation: Any, **kwargs: Any):
        super().__init__(**kwargs)
        self.activation = activations.get(activation)

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        return self.activation(inputs)


class Reshape(Layer):
    """[batch, ...] -> [batch, *target_shape], of which one size may be -1."""

    def __init__(self, target_shape: Sequence[int], **kwargs: Any):
        super().__init__(**kwargs)
        self.target_shape = tuple(target_shape)

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        sizes = array.shape(inputs)
        out = array.reshape(inputs, [sizes[0], *self.target_shape])
        dims = inputs._shape
        batch = None if dims is None else dims[0]
        target = list(self.target_shape)
        if -1 in target and dims is not None and None not in dims[1:]:
            whole, rest = 1, 1
            for d in dims[1:]:
                whole *= d
            for d in target:
                rest *= d if d != -1 else 1
            target[target.index(-1)] = whole // rest if rest else -1
        out.set_shape([batch, *(None if d == -1 else d for d in target)])
        return out


class Permute(Layer):
    """The axes behind the batch's in another order; dims counts them from 1."""

    def __init__(self, dims: Sequence[int], **kwargs: Any):
        super().__init__(**kwargs)
        self.dims = tuple(dims)
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise ValueError(f"Permute: dims must be the numbers from 1 to {len(self.dims)} in some order, got {dims}")
        self.input_spec = InputSpec(ndim=len(self.dims) + 1)

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        return array.transpose(inputs, [0, *self.dims])


class RepeatVector(Layer):
    """[batch, n] -> [batch, times, n]."""

    def __init__(self, n: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.n = n
        self.input_spec = InputSpec(ndim=2)

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        return array.tile(array.expand_dims(inputs, 1), [1, self.n, 1])


class Lambda(Layer):
    """A function of tensors as a layer. arguments: further ones of it, by name; it gets mask and training if it takes
    them. output_shape says nothing: the graph knows."""

    def __init__(
        self,
        function: Callable[..., Any],
        output_shape: Any = None,
        mask: Any = None,
        arguments: dict[str, Any] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if not callable(function):
            raise ValueError(
                f"Lambda {self.name}: no function {function!r} is known. A config has only the name of a function: "
                "give the function by that name in custom_objects, or make it a layer's class"
            )
        self.function, self.arguments, self._mask = function, dict(arguments or {}), mask
        self.supports_masking = mask is not None

    def call(self, inputs: Any, mask: Any = None, training: Any = None) -> Any:  # type: ignore[override]
        takes = signature(self.function).parameters
        further = dict(self.arguments)
        for key, value in (("mask", mask), ("training", training)):
            if key in takes:
                further.setdefault(key, value)
        return self.function(inputs, **further)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return self._mask(inputs, mask) if callable(self._mask) else self._mask


class Masking(Layer):
    """Steps whose features all equal mask_value become zeros, and are left out by the layers behind."""

    supports_masking = True

    def __init__(self, mask_value: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.mask_value = mask_value

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return math_reduce.reduce_any(math.not_equal(inputs, self.mask_value), axis=-1)

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        some = math_reduce.reduce_any(math.not_equal(inputs, self.mask_value), axis=-1, keepdims=True)
        return inputs * math.cast(some, inputs.dtype.base_dtype)


class ActivityRegularization(Layer):
    """The inputs; l1 * sum |x| + l2 * sum x**2 of them, over the batch's size, among the losses."""

    supports_masking = True

    def __init__(self, l1: float = 0.0, l2: float = 0.0, **kwargs: Any):
        super().__init__(activity_regularizer=L1L2(l1, l2), **kwargs)
        self.l1, self.l2 = l1, l2

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        return array.identity(inputs)


class Embedding(Layer):
    """Rows of <name>/embeddings [input_dim, output_dim]: whole numbers [...] -> [..., output_dim].

    mask_zero: 0 stands for no step, and is left out by the layers behind. input_length: how many numbers there are.
    """

    _inputs_may_be_whole = True

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        activity_regularizer: Any = None,
        embeddings_constraint: Any = None,
        mask_zero: bool = False,
        input_length: Any = None,
        **kwargs: Any,
    ):
        if "input_shape" not in kwargs and "batch_input_shape" not in kwargs:
            lengths = input_length if isinstance(input_length, (list, tuple)) else (input_length,)
            kwargs["input_shape"] = tuple(lengths)
        kwargs.setdefault("dtype", "float32")
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.input_dim, self.output_dim, self.mask_zero = input_dim, output_dim, mask_zero
        self.supports_masking = mask_zero
        self.input_length = input_length
        self._of_table = {
            "initializer": embeddings_initializer,
            "regularizer": embeddings_regularizer,
            "constraint": embeddings_constraint,
        }

    def build(self, input_shape: Any) -> None:
        self.embeddings = self.add_weight("embeddings", [self.input_dim, self.output_dim], **self._of_table)
        self.built = True

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        ids = inputs if inputs.dtype.base_dtype in (int32, int64) else math.cast(inputs, int32)
        return embedding_lookup(self.embeddings, ids)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return math.not_equal(inputs, array.zeros_like(inputs)) if self.mask_zero else None


class GaussianNoise(Layer):
    """Normal noise of deviation stddev is added while training."""

    supports_masking = True

    def __init__(self, stddev: float, **kwargs: Any):
        super().__init__(**kwargs)
        self.stddev = stddev

    def call(self, inputs: Any, training: Any = None) -> Tensor:  # type: ignore[override]
        def noised() -> Tensor:
            kind = inputs.dtype.base_dtype
            return inputs + random.random_normal(array.shape(inputs), 0.0, self.stddev, kind)

        return in_train_phase(noised, lambda: array.identity(inputs), training)


class GaussianDropout(Layer):
    """Normal factors of mean 1 and deviation sqrt(rate / (1 - rate)) while training."""

    supports_masking = True

    def __init__(self, rate: float, **kwargs: Any):
        super().__init__(**kwargs)
        self.rate = rate

    def call(self, inputs: Any, training: Any = None) -> Tensor:  # type: ignore[override]
        def noised() -> Tensor:
            deviation = (self.rate / (1.0 - self.rate)) ** 0.5
            return inputs * random.random_normal(array.shape(inputs), 1.0, deviation, inputs.dtype.base_dtype)

        if not 0 < self.rate < 1:
            return array.identity(inputs)
        return in_train_phase(noised, lambda: array.identity(inputs), training)


class AlphaDropout(Layer):
    """Dropout that keeps mean and variance of what selu gives."""

    supports_masking = True

    def __init__(self, rate: float, noise_shape: Any = None, seed: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.rate, self.noise_shape, self.seed = rate, noise_shape, seed

    def call(self, inputs: Any, training: Any = None) -> Tensor:  # type: ignore[override]
        floor = -1.6732632423543772848170429916717 * 1.0507009873554804934193349852946

        def dropped() -> Tensor:
            kind = inputs.dtype.base_dtype
            shape = array.shape(inputs) if self.noise_shape is None else self.noise_shape
            drawn = random.random_uniform(shape, seed=self.seed, dtype=kind)
            kept = math.cast(math.greater_equal(drawn, self.rate), kind)
            scale = ((1 - self.rate) * (1 + self.rate * floor**2)) ** -0.5
            return scale * (inputs * kept + floor * (1 - kept)) - scale * floor * self.rate

        if not 0.0 < self.rate < 1.0:
            return array.identity(inputs)
        return in_train_phase(dropped, lambda: array.identity(inputs), training)


class InputLayer(Layer):
    """A place to feed: its output is a placeholder [batch, *input_shape], or input_tensor."""

    def __init__(
        self,
        input_shape: Any = None,
        batch_size: int | None = None,
        dtype: Any = None,
        input_tensor: Tensor | None = None,
        sparse: bool = False,
        name: str | None = None,
        batch_input_shape: Any = None,
        **kwargs: Any,
    ):
        if batch_input_shape is None and input_tensor is None:
            if input_shape is None:
                raise ValueError("Please provide to Input either a `shape` or a `tensor` argument.")
            batch_input_shape = (batch_size, *TensorShape(input_shape).as_list())
        super().__init__(name=name or numbered("input"), dtype=dtype, **kwargs)
        self.built = True
        if input_tensor is None:
            make = sparse_placeholder if sparse else array.placeholder
            input_tensor = make(dtype or backend.floatx(), batch_input_shape, name=self.name)  # type: ignore[assignment]
        self._batch_input_shape = backend.int_shape(input_tensor) if batch_input_shape is None else batch_input_shape
        self._record(Node(self, input_tensor, (), {}, input_tensor))

    def call(self, inputs: Any) -> Any:  # type: ignore[override]
        return inputs


def Input(
    shape: Any = None,
    batch_size: int | None = None,
    name: str | None = None,
    dtype: Any = None,
    sparse: bool = False,
    tensor: Tensor | None = None,
    batch_shape: Any = None,
) -> Any:
    """A placeholder [batch_size, *shape], from which a `Model` can be made. tensor: one that is there already."""
    layer = InputLayer(shape, batch_size, dtype, tensor, sparse, name, batch_shape)
    return layer.output
