"""Convolution layers: plain, transposed and separable. They make <name>/kernel and <name>/bias."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.graph import Tensor
from sparkflow.framework.shapes import TensorShape
from sparkflow.layers.base import Layer, channel_axis, in_own_scopes, named_activation, numbers
from sparkflow.ops import array, init_ops, nn, nn_conv, nn_conv_depthwise
from sparkflow.ops.nn_window import layout

Activation = Callable[[Tensor], Tensor]


class _Conv(Layer):
    """activation(convolution(inputs, kernel) + bias) over `space` axes.

    filters: how many channels come out. kernel_size, strides, dilation_rate: a number, or one an axis. padding:
    "valid", "same" or, of one axis of space, "causal". data_format: "channels_last" or "channels_first". Raises
    ValueError where the channels of inputs are not known.
    """

    space = 0
    kernel_name = "kernel"

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
        activation: Activation | str | None = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ):
        super().__init__(trainable, name, activity_regularizer=activity_regularizer, **kwargs)
        what = type(self).__name__
        self.filters, self.activation, self.use_bias = int(filters), named_activation(activation), use_bias
        self.kernel_size = numbers(what, "kernel_size", kernel_size, self.space)
        self.strides = numbers(what, "strides", strides, self.space)
        self.dilation_rate = numbers(what, "dilation_rate", dilation_rate, self.space)
        self._causal = padding == "causal"
        if self._causal and not isinstance(self, (Conv1D, SeparableConv1D)):
            raise ValueError("Causal padding is only supported for `Conv1D` and `SeparableConv1D`.")
        self.padding, self.data_format = "VALID" if self._causal else padding.upper(), data_format
        self.axis = channel_axis(what, data_format, self.space + 2)
        self._layout = layout(what, data_format, self.space)
        self._of_kernel = {
            "initializer": kernel_initializer,
            "regularizer": kernel_regularizer,
            "constraint": kernel_constraint,
        }
        self._of_bias = {
            "initializer": bias_initializer or init_ops.zeros_initializer(),
            "regularizer": bias_regularizer,
            "constraint": bias_constraint,
        }
        self.kernel = self.bias = None

    @in_own_scopes
    def build(self, input_shape: TensorShape) -> None:
        self._make_kernels(self._channels(input_shape))
        if self.use_bias:
            self.bias = self.add_weight("bias", [self.filters], **self._of_bias)

    def _channels(self, input_shape: TensorShape) -> int:
        dims = input_shape.dims_
        if dims is None or len(dims) != self.space + 2 or dims[self.axis] is None:
            raise ValueError(
                f"The inputs to `{type(self).__name__}` must have a batch, {self.space} axes of space and channels "
                f"that are known ({self.data_format}), got shape {shapes.show(dims)}"
            )
        return dims[self.axis]  # type: ignore[return-value]

    def _make_kernels(self, channels: int) -> None:
        self.kernel = self.add_weight("kernel", [*self.kernel_size, channels, self.filters], **self._of_kernel)

    def _convolve(self, inputs: Tensor) -> Tensor:
        convolve = (nn_conv.conv1d, nn_conv.conv2d, nn_conv.conv3d)[self.space - 1]
        window = (self.strides[0], self.dilation_rate[0]) if self.space == 1 else (self.strides, self.dilation_rate)
        return convolve(inputs, self.kernel, window[0], self.padding, data_format=self._layout, dilations=window[1])

    def _after_zeros(self, inputs: Tensor) -> Tensor:
        """As many as hide from each output what comes after it."""
        before = [[0, 0]] * 3
        before[2 if self.axis == 1 else 1] = [self.dilation_rate[0] * (self.kernel_size[0] - 1), 0]
        return array.pad(inputs, before)

    def call(self, inputs: Any, **kwargs: Any) -> Tensor:
        out = self._convolve(self._after_zeros(inputs) if self._causal else inputs)
        if self.use_bias:
            out = nn.bias_add(out, self.bias, "NCHW" if self.data_format == "channels_first" else "NHWC")
        return out if self.activation is None else self.activation(out)


class Conv1D(_Conv):
    __doc__ = _Conv.__doc__
    space = 1


class Conv2D(_Conv):
    __doc__ = _Conv.__doc__
    space = 2


class Conv3D(_Conv):
    __doc__ = _Conv.__doc__
    space = 3


class _Transposed(_Conv):
    """The transpose of a convolution: the inputs are what a convolution with these strides would have made.

    The kernel is [*kernel_size, filters, channels]. An axis of n cells becomes n * stride ("same") or n * stride +
    max(kernel_size - stride, 0) ("valid").
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        *args: Any,
        **kwargs: Any,
    ):
        """As for a convolution, without dilation_rate."""
        super().__init__(filters, kernel_size, strides, padding, data_format, 1, *args, **kwargs)

    def _make_kernels(self, channels: int) -> None:
        self.kernel = self.add_weight("kernel", [*self.kernel_size, self.filters, channels], **self._of_kernel)

    def _convolve(self, inputs: Tensor) -> Tensor:
        known, sizes = inputs._shape, array.shape(inputs)
        assert known is not None  # build refused an unknown rank
        first = 2 if self.axis == 1 else 1
        space = [
            self._length(sizes[first + i] if known[first + i] is None else known[first + i], i)
            for i in range(self.space)
        ]
        batch = sizes[0] if known[0] is None else known[0]
        shape = [batch, self.filters, *space] if self.axis == 1 else [batch, *space, self.filters]
        transpose = nn_conv.conv2d_transpose if self.space == 2 else nn_conv.conv3d_transpose
        out = transpose(inputs, self.kernel, shape, self.strides, self.padding, self._layout)
        out.set_shape([None if isinstance(s, Tensor) else s for s in shape])
        return out

    def _length(self, size: Any, axis: int) -> Any:
        stride, window = self.strides[axis], self.kernel_size[axis]
        return size * stride + (max(window - stride, 0) if self.padding == "VALID" else 0)


class Conv2DTranspose(_Transposed):
    __doc__ = _Transposed.__doc__
    space = 2


class Conv3DTranspose(_Transposed):
    __doc__ = _Transposed.__doc__
    space = 3


class _Separable(_Conv):
    """Each channel by depth_multiplier filters of its own (<name>/depthwise_kernel), then a convolution of size 1
    (<name>/pointwise_kernel) and <name>/bias."""

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
        depth_multiplier: int = 1,
        activation: Activation | str | None = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        pointwise_initializer: Any = None,
        bias_initializer: Any = None,
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        *,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
        **kwargs: Any,
    ):
        window = (strides, padding, data_format, dilation_rate)
        super().__init__(
            filters, kernel_size, *window, activation, use_bias, bias_initializer=bias_initializer, **kwargs
        )
        self.depth_multiplier = depth_multiplier
        self._of_depthwise = {
            "initializer": depthwise_initializer,
            "regularizer": depthwise_regularizer,
            "constraint": depthwise_constraint,
        }
        self._of_pointwise = {
            "initializer": pointwise_initializer,
            "regularizer": pointwise_regularizer,
            "constraint": pointwise_constraint,
        }

    def _make_kernels(self, channels: int) -> None:
        deep = [*self.kernel_size, channels, self.depth_multiplier]
        self.depthwise_kernel = self.add_weight("depthwise_kernel", deep, **self._of_depthwise)
        flat = [*([1] * self.space), channels * self.depth_multiplier, self.filters]
        self.pointwise_kernel = self.add_weight("pointwise_kernel", flat, **self._of_pointwise)


class SeparableConv1D(_Separable):
    __doc__ = _Separable.__doc__
    space = 1

    def _convolve(self, inputs: Tensor) -> Tensor:
        """As rows of an image of height 1."""
        axis = 1 if self._layout[-1] == "C" else 2
        out = nn_conv_depthwise.separable_conv2d(
            array.expand_dims(inputs, axis),
            array.expand_dims(self.depthwise_kernel, 0),
            array.expand_dims(self.pointwise_kernel, 0),
            (self.strides[0], *self.strides),
            self.padding,
            rate=(1, *self.dilation_rate),
            data_format="NHWC" if self._layout[-1] == "C" else "NCHW",
        )
        return array.squeeze(out, [axis])


class SeparableConv2D(_Separable):
    __doc__ = _Separable.__doc__
    space = 2

    def _convolve(self, inputs: Tensor) -> Tensor:
        return nn_conv_depthwise.separable_conv2d(
            inputs,
            self.depthwise_kernel,
            self.pointwise_kernel,
            self.strides,
            self.padding,
            rate=self.dilation_rate,
            data_format=self._layout,
        )


# ---------------------------------------------------------------------- as functions


def _function(kind: type[_Conv]) -> Callable[..., Tensor]:
    def layer(inputs: Any, *args: Any, name: str | None = None, reuse: Any = None, **kwargs: Any) -> Tensor:
        settings: dict[str, Any] = {"name": name, "_scope": name, "_reuse": reuse, **kwargs}
        return kind(*args, **settings)(inputs)

    layer.__doc__ = f"{kind.__name__} as a function: (inputs, filters, kernel_size, ...), name and reuse by name."
    return layer


conv1d, conv2d, conv3d = _function(Conv1D), _function(Conv2D), _function(Conv3D)
conv2d_transpose, conv3d_transpose = _function(Conv2DTranspose), _function(Conv3DTranspose)
separable_conv1d, separable_conv2d = _function(SeparableConv1D), _function(SeparableConv2D)
