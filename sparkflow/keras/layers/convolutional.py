"""Convolutions, and layers that widen, cut or repeat along the axes of space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.graph import Tensor
from sparkflow.keras import activations, backend
from sparkflow.keras.engine import Layer
from sparkflow.keras.nets import repeat_elements
from sparkflow.layers import conv
from sparkflow.layers.base import numbers
from sparkflow.layers.utils import normalize_tuple
from sparkflow.ops import array, array_join, image, nn, nn_conv_depthwise
from sparkflow.ops.nn_window import layout

_Base: Any = object  # a layer of tf.layers and Keras' Layer come behind it


class _Keras(_Base):
    """What Keras says otherwise than tf.layers: data_format may be None, for backend.image_data_format()."""

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        *args: Any,
        **kwargs: Any,
    ):
        super().__init__(filters, kernel_size, strides, padding, data_format or _data_format(self), *args, **kwargs)


def _data_format(layer: Any) -> str:
    return "channels_last" if layer.space == 1 else backend.image_data_format()


class Conv1D(_Keras, conv.Conv1D, Layer):
    __doc__ = conv.Conv1D.__doc__


class Conv2D(_Keras, conv.Conv2D, Layer):
    __doc__ = conv.Conv2D.__doc__


class Conv3D(_Keras, conv.Conv3D, Layer):
    __doc__ = conv.Conv3D.__doc__


class SeparableConv1D(_Keras, conv.SeparableConv1D, Layer):
    __doc__ = conv.SeparableConv1D.__doc__


class SeparableConv2D(_Keras, conv.SeparableConv2D, Layer):
    __doc__ = conv.SeparableConv2D.__doc__


class Conv2DTranspose(_Keras, conv.Conv2DTranspose, Layer):
    __doc__ = conv.Conv2DTranspose.__doc__


class Conv3DTranspose(_Keras, conv.Conv3DTranspose, Layer):
    __doc__ = conv.Conv3DTranspose.__doc__


class DepthwiseConv2D(Layer):
    """Each channel by depth_multiplier filters of its own: <name>/depthwise_kernel [h, w, channels, depth_multiplier],
    <name>/bias [channels * depth_multiplier]."""

    def __init__(
        self,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        depth_multiplier: int = 1,
        data_format: str | None = None,
        dilation_rate: Any = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.kernel_size = numbers("DepthwiseConv2D", "kernel_size", kernel_size, 2)
        self.strides = numbers("DepthwiseConv2D", "strides", strides, 2)
        self.dilation_rate = numbers("DepthwiseConv2D", "dilation_rate", dilation_rate, 2)
        self.padding, self.depth_multiplier = padding.upper(), depth_multiplier
        self.data_format = data_format or backend.image_data_format()
        self._layout = layout("DepthwiseConv2D", self.data_format, 2)
        self.activation, self.use_bias = activations.get(activation), use_bias
        self._of_kernel = {
            "initializer": depthwise_initializer,
            "regularizer": depthwise_regularizer,
            "constraint": depthwise_constraint,
        }
        self._of_bias = {
            "initializer": bias_initializer,
            "regularizer": bias_regularizer,
            "constraint": bias_constraint,
        }

    def build(self, input_shape: Any) -> None:
        channels = input_shape.as_list()[1 if self._layout == "NCHW" else 3]
        if channels is None:
            raise ValueError(f"DepthwiseConv2D needs inputs whose channels are known, got shape {input_shape}")
        size = [*self.kernel_size, channels, self.depth_multiplier]
        self.depthwise_kernel = self.add_weight("depthwise_kernel", size, **self._of_kernel)
        count = channels * self.depth_multiplier
        self.bias = self.add_weight("bias", [count], **self._of_bias) if self.use_bias else None
        self.built = True

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        down, across = self.strides
        strides = [1, down, across, 1] if self._layout == "NHWC" else [1, 1, down, across]
        out = nn_conv_depthwise.depthwise_conv2d(
            inputs, self.depthwise_kernel, strides, self.padding, rate=self.dilation_rate, data_format=self._layout
        )
        out = out if self.bias is None else nn.bias_add(out, self.bias, self._layout)
        return self.activation(out)


# ---------------------------------------------------------------------- along the axes of space


class _Spatial(Layer):
    """Of inputs [batch, *space, channels], or [batch, channels, *space] where data_format is channels_first."""

    space = 0

    def __init__(self, data_format: str | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.data_format = data_format or _data_format(self)
        self._first = 1 if self.data_format == "channels_last" else 2

    def _around(self, pairs: Sequence[Any], other: Any) -> list[Any]:
        """One for each axis: of space the pairs."""
        out = [other] * (self.space + 2)
        out[self._first : self._first + self.space] = pairs
        return out


def _pairs(name: str, value: Any, space: int) -> list[list[int]]:
    """(before, after) for each axis, from one number, one an axis, or one pair an axis."""
    if space == 1:
        return [[int(v) for v in normalize_tuple(value, 2, name)]]
    if isinstance(value, int):
        return [[value, value]] * space
    if len(value) != space:
        raise ValueError(f"{name} should have {space} elements, got {value!r}")
    return [[v, v] if isinstance(v, int) else [int(w) for w in normalize_tuple(v, 2, name)] for v in value]


class _ZeroPadding(_Spatial):
    """Zeros before and after along each axis of space. padding: a number, one an axis, or (before, after) for each."""

    def __init__(self, padding: Any = 1, data_format: str | None = None, **kwargs: Any):
        super().__init__(data_format, **kwargs)
        self.padding = _pairs("padding", padding, self.space)

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        return array.pad(inputs, self._around(self.padding, [0, 0]))


class ZeroPadding1D(_ZeroPadding):
    __doc__ = _ZeroPadding.__doc__
    space = 1


class ZeroPadding2D(_ZeroPadding):
    __doc__ = _ZeroPadding.__doc__
    space = 2


class ZeroPadding3D(_ZeroPadding):
    __doc__ = _ZeroPadding.__doc__
    space = 3


class _Cropping(_Spatial):
    """Without what lies before and after along each axis of space: a number, one an axis, or a pair for each."""

    def __init__(self, cropping: Any = 1, data_format: str | None = None, **kwargs: Any):
        super().__init__(data_format, **kwargs)
        self.cropping = _pairs("cropping", cropping, self.space)

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        cuts = [slice(before, -after or None) for before, after in self.cropping]
        return inputs[tuple(self._around(cuts, slice(None)))]


class Cropping1D(_Cropping):
    __doc__ = _Cropping.__doc__
    space = 1


class Cropping2D(_Cropping):
    __doc__ = _Cropping.__doc__
    space = 2


class Cropping3D(_Cropping):
    __doc__ = _Cropping.__doc__
    space = 3


class _UpSampling(_Spatial):
    """Each place size times along its axis."""

    def __init__(self, size: Any = 2, data_format: str | None = None, **kwargs: Any):
        super().__init__(data_format, **kwargs)
        self.size = numbers(type(self).__name__, "size", size, self.space)

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        out = inputs
        for axis, times in enumerate(self.size, self._first):
            out = repeat_elements(out, times, axis)
        return out


class UpSampling1D(_UpSampling):
    __doc__ = _UpSampling.__doc__
    space = 1


class UpSampling2D(_UpSampling):
    """Each place size times along its axis. interpolation: "nearest", or "bilinear" between the places."""

    space = 2

    def __init__(
        self, size: Any = (2, 2), data_format: str | None = None, interpolation: str = "nearest", **kwargs: Any
    ):
        super().__init__(size, data_format, **kwargs)
        if interpolation not in ("nearest", "bilinear"):
            raise ValueError(f"interpolation should be one of nearest, bilinear, got {interpolation!r}")
        self.interpolation = interpolation

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        if self.interpolation == "nearest":
            return super().call(inputs)
        last = self._first == 1
        x: Any = inputs if last else array.transpose(inputs, [0, 2, 3, 1])
        sizes = [s * n for s, n in zip(array_join.unstack(array.shape(x)[1:3]), self.size)]
        out = image.resize_bilinear(x, array_join.stack(sizes), half_pixel_centers=True)
        dims = x._shape
        known = [None if d is None else d * n for d, n in zip(dims[1:3], self.size)]
        out.set_shape([dims[0], *known, dims[3]])
        return out if last else array.transpose(out, [0, 3, 1, 2])


class UpSampling3D(_UpSampling):
    __doc__ = _UpSampling.__doc__
    space = 3
