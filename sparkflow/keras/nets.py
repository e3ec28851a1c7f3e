"""What tf.keras.backend has of convolutions, pools and the like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.keras import settings
from sparkflow.ops import array, array_join, math, nn, nn_conv, nn_pool, operators, random  # noqa: F401 - x + y
from sparkflow.ops.nn_window import layout


def _layout(data_format: str | None, space: int) -> str:
    return layout("tf.keras.backend", data_format or settings.image_data_format(), space)


def conv1d(
    x: Any, kernel: Any, strides: int = 1, padding: str = "valid", data_format: str | None = None,
    dilation_rate: int = 1,
) -> Tensor:  # fmt: skip
    """padding: "valid", "same" or "causal", with zeros before the first step."""
    kind = _layout(data_format, 1)
    if padding == "causal":
        before = [dilation_rate * (int(convert_to_tensor(kernel).shape[0]) - 1), 0]
        x, padding = array.pad(x, [[0, 0], before, [0, 0]] if kind[-1] == "C" else [[0, 0], [0, 0], before]), "valid"
    return nn_conv.conv1d(x, kernel, strides, padding.upper(), data_format=kind, dilations=dilation_rate)


def conv2d(
    x: Any, kernel: Any, strides: Any = (1, 1), padding: str = "valid", data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Tensor:  # fmt: skip
    kind = _layout(data_format, 2)
    return nn_conv.conv2d(x, kernel, strides, padding.upper(), data_format=kind, dilations=dilation_rate)


def pool2d(
    x: Any, pool_size: Any, strides: Any = (1, 1), padding: str = "valid", data_format: str | None = None,
    pool_mode: str = "max",
) -> Tensor:  # fmt: skip
    """pool_mode: "max" or "avg". Raises ValueError on another."""
    if pool_mode not in ("max", "avg"):
        raise ValueError(f"Invalid pooling mode: {pool_mode!r}; it is max or avg")
    kind = _layout(data_format, 2)
    return nn_pool.pool(x, pool_size, pool_mode.upper(), padding.upper(), strides=strides, data_format=kind)


def bias_add(x: Any, bias: Any, data_format: str | None = None) -> Tensor:
    """A vector to the channels; a bias of more axes to all of an example."""
    x, bias = convert_to_tensor(x), convert_to_tensor(bias)
    kind = data_format or settings.image_data_format()
    if len(bias._shape or ()) == 1:
        return nn.bias_add(x, bias, "NCHW" if kind == "channels_first" and len(x._shape or ()) > 2 else "NHWC")
    sizes = bias.shape.as_list()
    if kind == "channels_first":
        sizes = [sizes[-1], *sizes[:-1]]
    return x + array.reshape(bias, [1, *sizes])


def batch_normalization(
    x: Any, mean: Any, var: Any, beta: Any, gamma: Any, axis: int = -1, epsilon: float = 1e-3
) -> Tensor:
    return nn.batch_normalization(x, mean, var, beta, gamma, epsilon)


def dropout(x: Any, level: Any, noise_shape: Any = None, seed: int | None = None) -> Tensor:
    return nn.dropout(x, rate=level, noise_shape=noise_shape, seed=seed)


def random_binomial(shape: Any, p: float = 0.0, dtype: Any = None, seed: int | None = None) -> Tensor:
    """Ones with that probability, zeros else."""
    return math.cast(random.random_uniform(shape, seed=seed) <= p, dtype or settings.floatx())


def repeat_elements(x: Any, rep: int, axis: int) -> Tensor:
    """Each slice along axis rep times: [[1, 2]] -> [[1, 1, 2, 2]]."""
    x = convert_to_tensor(x)
    dims, sizes = x._shape, array.shape(x)
    if dims is None:
        raise ValueError(f"repeat_elements: the rank of {x} is not known")
    axis %= len(dims)
    wide = array.tile(array.expand_dims(x, axis + 1), [rep if a == axis + 1 else 1 for a in range(len(dims) + 1)])
    out = array.reshape(wide, array_join.stack([sizes[a] * (rep if a == axis else 1) for a in range(len(dims))]))
    out.set_shape([d * rep if a == axis and d is not None else d for a, d in enumerate(dims)])
    return out


def temporal_padding(x: Any, padding: Sequence[int] = (1, 1)) -> Tensor:
    """Zeros before and after the steps of [batch, steps, n]."""
    return array.pad(x, [[0, 0], list(padding), [0, 0]])


def spatial_2d_padding(x: Any, padding: Any = ((1, 1), (1, 1)), data_format: str | None = None) -> Tensor:
    """Zeros around [batch, height, width, channels], or [batch, channels, height, width]."""
    space = [list(p) for p in padding]
    kind = _layout(data_format, 2)
    return array.pad(x, [[0, 0], *space, [0, 0]] if kind == "NHWC" else [[0, 0], [0, 0], *space])
