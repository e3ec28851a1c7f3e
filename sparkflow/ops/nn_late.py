"""tf.nn, what came late: transposed convolutions of any rank, dropout by a seed, largest values, labels of a CTC."""

from __future__ import annotations

from collections.abc import Callable, Sized
from functools import partial
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, array_select, math, nn
from sparkflow.ops.functional import map_fn
from sparkflow.ops.nn_conv import conv1d_transpose, conv2d_transpose, conv3d_transpose
from sparkflow.ops.random_stateless import stateless_random_uniform
from sparkflow_runtime.wire.dtypes import int32, int64


def conv_transpose(
    input: Any, filters: Any, output_shape: Any, strides: Any, padding: Any = "SAME", data_format: str | None = None,
    dilations: Any = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """conv1d_transpose, conv2d_transpose or conv3d_transpose, as output_shape has 3, 4 or 5 sizes."""
    if isinstance(output_shape, Tensor):
        count = output_shape.shape[0].value
    elif isinstance(output_shape, Sized):
        count = len(output_shape)
    else:
        raise ValueError(f"conv_transpose: output_shape must be a tensor or a list, got {output_shape!r}")
    if count not in (3, 4, 5):
        raise ValueError(f"conv_transpose: output_shape must have 3, 4 or 5 sizes, got {output_shape!r}")
    function: Any = (conv1d_transpose, conv2d_transpose, conv3d_transpose)[count - 3]
    layout = data_format or ("NWC", "NHWC", "NDHWC")[count - 3]
    return function(
        input=input, filters=filters, output_shape=output_shape, strides=strides, padding=padding, data_format=layout,
        dilations=dilations, name=name,
    )  # fmt: skip


def general_dropout(
    x: Any, rate: Any, uniform_sampler: Callable[..., Tensor], noise_shape: Any = None, name: str | None = None
) -> Tensor:
    """dropout whose choices are drawn by uniform_sampler(shape=..., dtype=...), from [0, 1)."""
    if isinstance(rate, (int, float)) and not 0 <= rate < 1:
        raise ValueError(f"`rate` must be a scalar tensor or a float in the range [0, 1). Received: rate={rate}")
    with get_default_graph().name_scope(name or "dropout"):
        x = convert_to_tensor(x)
        if not x.dtype.is_floating:
            raise ValueError(f"dropout: x must be of a floating type, for it is scaled; got {x.dtype.name}")
        if isinstance(rate, (int, float)) and rate == 0:
            return x
        given = math.cast(convert_to_tensor(rate), x.dtype.base_dtype)
        scaled = math.divide(x, math.subtract(convert_to_tensor(1, x.dtype.base_dtype), given))
        drawn = uniform_sampler(shape=array.shape(x) if noise_shape is None else noise_shape, dtype=x.dtype.base_dtype)
        kept = array_select.where_v2(math.greater_equal(drawn, given), scaled, convert_to_tensor(0, x.dtype.base_dtype))
        kept.set_shape(x.shape)
        return kept


def stateless_dropout(
    x: Any, rate: Any, seed: Any, rng_alg: Any = None, noise_shape: Any = None, name: str | None = None
) -> Tensor:
    """dropout whose choices follow from the seed, two integers, alone: TensorFlow's."""
    sampler = partial(stateless_random_uniform, seed=seed)
    return general_dropout(x, rate, sampler, noise_shape, name or "stateless_dropout")


def _largest(
    operand: Any, k: int, reduction_dimension: int, name: str | None, label: str, sign: int
) -> tuple[Tensor, Tensor]:
    with get_default_graph().name_scope(name or label):
        x = convert_to_tensor(operand)
        rank = x.shape.ndims
        if rank is None or not -rank <= reduction_dimension < rank:
            raise ValueError(f"{label}: reduction_dimension {reduction_dimension} is out of range for rank {rank}")
        at, last = reduction_dimension % rank, rank - 1
        order = [i for i in range(rank) if i != at] + [at]
        turned = x if at == last else array.transpose(x, order)
        values, places = nn.top_k(turned if sign > 0 else math.negative(turned), k)
        values = values if sign > 0 else math.negative(values)
        if at == last:
            return values, places
        back = [order.index(i) for i in range(rank)]
        return array.transpose(values, back), array.transpose(places, back)


def approx_max_k(
    operand: Any, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
    reduction_input_size_override: int = -1, aggregate_to_topk: bool = True, name: str | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(the k largest values along a dimension, their places): all of them, as on TensorFlow's CPUs."""
    return _largest(operand, k, reduction_dimension, name, "approx_max_k", 1)


def approx_min_k(
    operand: Any, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
    reduction_input_size_override: int = -1, aggregate_to_topk: bool = True, name: str | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(the k smallest values along a dimension, their places): all of them."""
    return _largest(operand, k, reduction_dimension, name, "approx_min_k", -1)


def ctc_unique_labels(labels: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(the distinct labels of each row of [batch, n], zeros behind them; for each label which of those it is)."""

    def distinct(row: Tensor) -> list[Tensor]:
        values, places = array_select.unique(row)
        missing = array.size(places) - array.size(values)
        return [math.cast(array.pad(values, [[0, missing]]), int64), places]

    with get_default_graph().name_scope(name or "ctc_unique_labels"):
        found = map_fn(distinct, convert_to_tensor(labels), dtype=[int64, int32])
        return found[0], found[1]
