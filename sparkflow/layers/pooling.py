"""Pooling layers over one to three axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework.graph import Tensor
from sparkflow.layers.base import Layer, channel_axis, numbers
from sparkflow.ops import nn_pool
from sparkflow.ops.nn_window import layout


class _Pooling(Layer):
    """pool_size, strides: a number, or one an axis. padding: "valid" or "same". data_format: "channels_last" or
    "channels_first"."""

    space = 0
    kind = ""

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
        **kwargs: Any,
    ):
        super().__init__(name=name, **kwargs)
        what = type(self).__name__
        self.pool_size = numbers(what, "pool_size", pool_size, self.space)
        self.strides = numbers(what, "strides", pool_size if strides is None else strides, self.space)
        channel_axis(what, data_format, self.space + 2)
        self.padding, self.data_format = padding.upper(), data_format

    def call(self, inputs: Any, **kwargs: Any) -> Tensor:
        kind = layout(type(self).__name__, self.data_format, self.space)
        return nn_pool.pool(inputs, self.pool_size, self.kind, self.padding, strides=self.strides, data_format=kind)


def _layer(space: int, kind: str, name: str) -> tuple[type[_Pooling], Callable[..., Tensor]]:
    """The class, and the function of TF1's name for it."""
    one = type(name, (_Pooling,), {"space": space, "kind": kind, "__doc__": _Pooling.__doc__, "__module__": __name__})

    def function(
        inputs: Any,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
    ) -> Tensor:
        return one(pool_size, strides, padding, data_format, name)(inputs)

    function.__doc__ = f"{name} as a function."
    return one, function


MaxPooling1D, max_pooling1d = _layer(1, "MAX", "MaxPooling1D")
MaxPooling2D, max_pooling2d = _layer(2, "MAX", "MaxPooling2D")
MaxPooling3D, max_pooling3d = _layer(3, "MAX", "MaxPooling3D")
AveragePooling1D, average_pooling1d = _layer(1, "AVG", "AveragePooling1D")
AveragePooling2D, average_pooling2d = _layer(2, "AVG", "AveragePooling2D")
AveragePooling3D, average_pooling3d = _layer(3, "AVG", "AveragePooling3D")
