"""A window that moves over an image, with steps between the cells it looks at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, array_join, array_slice, math
from sparkflow.ops.array_blocks import batch_to_space_nd, required_space_to_batch_paddings, space_to_batch_nd
from sparkflow_runtime.wire import dtypes


def with_space_to_batch(
    input: Any, dilation_rate: Any, padding: str, op: Callable[[Tensor, int, str], Tensor], filter_shape: Any = None,
    spatial_dims: Sequence[int] | None = None, data_format: str | None = None,
) -> Tensor:  # fmt: skip
    """op(input, number of axes of space, padding) as if op's window met only every dilation_rate-th cell of each axis.

    The cells that one window meets become images of their own, in a larger batch. filter_shape: of op's window, for
    padding "SAME". spatial_dims: the axes of space, where they are not those after the batch (and after the channels,
    with an "NC..." data_format).
    """
    x, rate = convert_to_tensor(input, name="input"), convert_to_tensor(dilation_rate, dtypes.int32, "dilation_rate")
    if rate.shape.ndims != 1 or rate.shape[0].value is None:
        raise ValueError(f"with_space_to_batch: dilation_rate must be a vector of known size, got {rate}")
    count, rates = rate.shape[0].value, constant_value(rate)
    axes = _axes(spatial_dims, count, data_format)
    if x.shape.ndims is not None and x.shape.ndims <= axes[-1]:
        raise ValueError(f"with_space_to_batch: input must have more than {axes[-1]} axes, got {x}")
    if rates is not None and (rates < 1).any():
        raise ValueError(f"with_space_to_batch: dilation_rate must be positive, got {rates.tolist()}")
    if rates is not None and (rates == 1).all():
        return op(x, count, padding)
    with get_default_graph().name_scope("with_space_to_batch"):
        sizes = _sizes(x, axes)
        paddings, crops = required_space_to_batch_paddings(sizes, rate, _before(padding, filter_shape, rate, count))
        whole = [_at(axes, part, fill) for part, fill in ((rate, 1), (paddings, [0, 0]), (crops, [0, 0]))]
        found = op(space_to_batch_nd(x, whole[0], whole[1]), count, "VALID")
        return batch_to_space_nd(found, whole[0], whole[2])


def _axes(given: Sequence[int] | None, count: int, data_format: str | None) -> list[int]:
    first = 2 if data_format is not None and data_format.startswith("NC") else 1
    axes = list(range(first, first + count)) if given is None else list(given)
    if len(axes) != count or axes != sorted(set(axes)) or axes[0] < 1:
        raise ValueError(f"with_space_to_batch: spatial_dims must be {count} growing numbers from 1 on, got {given}")
    return axes


def _sizes(x: Tensor, axes: list[int]) -> Any:
    known = [None if x.shape.ndims is None else x.shape[axis].value for axis in axes]
    return array_slice.gather(array.shape(x), axes) if None in known else known


def _before(padding: str, filter_shape: Any, rate: Tensor, count: int) -> Any:
    """[axes, 2]: what the padding alone adds on both sides."""
    match padding:
        case "VALID":
            return None
        case "SAME" if filter_shape is not None:
            taps = convert_to_tensor(filter_shape, dtypes.int32, "filter_shape")
            fixed, rates = constant_value(taps), constant_value(rate)
            if fixed is not None and rates is not None:
                extra = (fixed[:count] - 1) * rates
                return np.stack([extra // 2, extra - extra // 2], 1)
            more = math.multiply(math.subtract(taps[:count], 1), rate)
            half = math.floordiv(more, 2)
            return array_join.stack([half, math.subtract(more, half)], axis=1)
    raise ValueError(f"with_space_to_batch: padding must be VALID, or SAME with a filter_shape, got {padding!r}")


def _at(axes: list[int], parts: Tensor, fill: Any) -> Any:
    """A row of parts for each axis from 1 to the last of space, and fill for those between."""
    known = constant_value(parts)
    if known is not None:
        return [known[axes.index(a)].tolist() if a in axes else fill for a in range(1, axes[-1] + 1)]
    return array_join.stack([parts[axes.index(a)] if a in axes else fill for a in range(1, axes[-1] + 1)])
