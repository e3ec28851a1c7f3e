"""Pools over windows, and over all of space."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.graph import Tensor
from sparkflow.keras import backend
from sparkflow.keras.engine import Layer
from sparkflow.layers import pooling
from sparkflow.layers.input_spec import InputSpec
from sparkflow.ops import array, math, math_reduce, operators  # noqa: F401 - x / y on tensors

_Base: Any = object  # a layer of tf.layers and Keras' Layer come behind it


class _Keras(_Base):
    """What Keras says otherwise than tf.layers: windows of 2 by default, moved by their own size."""

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: str = "valid",
        data_format: str | None = None,
        **kwargs: Any,
    ):
        kind = data_format or ("channels_last" if self.space == 1 else backend.image_data_format())
        super().__init__(pool_size, strides, padding, kind, **kwargs)


class MaxPooling1D(_Keras, pooling.MaxPooling1D, Layer):  # type: ignore[misc,valid-type]
    __doc__ = pooling.MaxPooling1D.__doc__


class MaxPooling2D(_Keras, pooling.MaxPooling2D, Layer):  # type: ignore[misc,valid-type]
    __doc__ = pooling.MaxPooling2D.__doc__


class MaxPooling3D(_Keras, pooling.MaxPooling3D, Layer):  # type: ignore[misc,valid-type]
    __doc__ = pooling.MaxPooling3D.__doc__


class AveragePooling1D(_Keras, pooling.AveragePooling1D, Layer):  # type: ignore[misc,valid-type]
    __doc__ = pooling.AveragePooling1D.__doc__


class AveragePooling2D(_Keras, pooling.AveragePooling2D, Layer):  # type: ignore[misc,valid-type]
    __doc__ = pooling.AveragePooling2D.__doc__


class AveragePooling3D(_Keras, pooling.AveragePooling3D, Layer):  # type: ignore[misc,valid-type]
    __doc__ = pooling.AveragePooling3D.__doc__


class _Global(Layer):
    """Over all of space: [batch, *space, channels] -> [batch, channels]."""

    space = 0

    def __init__(self, data_format: str | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.data_format = data_format or ("channels_last" if self.space == 1 else backend.image_data_format())
        self.input_spec = InputSpec(ndim=self.space + 2)
        first = 1 if self.data_format == "channels_last" else 2
        self._axes = list(range(first, first + self.space))


class _GlobalMax(_Global):
    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        return math_reduce.reduce_max(inputs, axis=self._axes)


class _GlobalAverage(_Global):
    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        return math_reduce.reduce_mean(inputs, axis=self._axes)


class GlobalMaxPooling1D(_GlobalMax):
    __doc__ = _Global.__doc__
    space = 1


class GlobalMaxPooling2D(_GlobalMax):
    __doc__ = _Global.__doc__
    space = 2


class GlobalMaxPooling3D(_GlobalMax):
    __doc__ = _Global.__doc__
    space = 3


class GlobalAveragePooling1D(_GlobalAverage):
    """The mean of the steps, of those that the mask leaves: [batch, steps, channels] -> [batch, channels]."""

    space = 1
    supports_masking = True

    def call(self, inputs: Any, mask: Any = None) -> Tensor:  # type: ignore[override]
        if mask is None:
            return super().call(inputs)
        axis = self._axes[0]
        counted = array.expand_dims(math.cast(mask, inputs.dtype.base_dtype), 2 if axis == 1 else 1)
        return math_reduce.reduce_sum(inputs * counted, axis=axis) / math_reduce.reduce_sum(counted, axis=axis)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return None


class GlobalAveragePooling2D(_GlobalAverage):
    __doc__ = _Global.__doc__
    space = 2


class GlobalAveragePooling3D(_GlobalAverage):
    __doc__ = _Global.__doc__
    space = 3
