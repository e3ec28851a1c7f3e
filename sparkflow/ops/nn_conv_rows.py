"""The ops behind convolutions, with their static shapes, and the attributes that their functions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.constant_value import constant_value_as_shape
from sparkflow.framework.graph import Operation
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops.nn_window import arranged, channel_of, image_dims, layout, paddings, per_axis, space_sizes
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _channels_fit(op: Operation, channels: int | None, taken: int | None, filter_dims: Dims) -> None:
    """A filter that takes a part of the channels is one of groups."""
    if channels is None or taken is None:
        return
    grouped = op.type == "Conv2D" and taken > 0 and channels % taken == 0
    if channels != taken and not grouped:
        raise InvalidArgumentError(
            f"{op.type}: input {shapes.show(op.inputs[0]._shape)} has {channels} channels, filter "
            f"{shapes.show(filter_dims)} takes {taken} ({op.attrs['data_format']})"
        )


def _conv_rule(space: int, depthwise: bool = False) -> Callable[[Operation], list[Dims]]:
    def rule(op: Operation) -> list[Dims]:
        x, w = image_dims(op, 0, "input", space), image_dims(op, 1, "filter", space)
        _channels_fit(op, channel_of(op, x), w[-2], w)
        made = w[-1]
        if depthwise:
            made = None if w[-1] is None or w[-2] is None else w[-1] * w[-2]
        return [arranged(op, x[0], space_sizes(op, x, w[:space]), made)]  # type: ignore[arg-type]

    return rule


def _input_rule(space: int, depthwise: bool = False) -> Callable[[Operation], list[Dims]]:
    def rule(op: Operation) -> list[Dims]:
        dims = constant_value_as_shape(op.inputs[0])
        w, dy = image_dims(op, 1, "filter", space), image_dims(op, 2, "out_backprop", space)
        if dims is not None and len(dims) == space:
            dims = arranged(op, dy[0], dims, w[-2])
        dims = shapes.merge(dims, (None,) * (space + 2))
        assert dims is not None
        made = channel_of(op, dy)
        if not depthwise and None not in (made, w[-1]) and made != w[-1]:
            raise InvalidArgumentError(
                f"{op.type}: out_backprop {shapes.show(dy)} has {made} channels, filter {shapes.show(w)} makes {w[-1]}"
            )
        return [(dy[0] if dims[0] is None else dims[0], *dims[1:])]

    return rule


def _filter_rule(op: Operation) -> list[Dims]:
    return [shapes.merge(constant_value_as_shape(op.inputs[1]), (None,) * len(op.attrs["strides"]))]


_INPUT = "input_sizes: {}, filter: T, out_backprop: T -> output: T"
_FILTER = "input: T, filter_sizes: int32, out_backprop: T -> output: T"
_CONV = "input: T, filter: T -> output: T"
_FLAT: dict[str, Any] = {"explicit_paddings": [], "data_format": "NHWC", "dilations": [1, 1, 1, 1]}
_DEEP: dict[str, Any] = {"data_format": "NDHWC", "dilations": [1, 1, 1, 1, 1]}
op("Conv2D", _CONV, _conv_rule(2), use_cudnn_on_gpu=True, **_FLAT)
op("Conv2DBackpropInput", _INPUT.format("int32"), _input_rule(2), use_cudnn_on_gpu=True, **_FLAT)
op("Conv2DBackpropFilter", _FILTER, _filter_rule, use_cudnn_on_gpu=True, **_FLAT)
op("DepthwiseConv2dNative", _CONV, _conv_rule(2, depthwise=True), **_FLAT)
op("DepthwiseConv2dNativeBackpropInput", _INPUT.format("int32"), _input_rule(2, depthwise=True), **_FLAT)
op("DepthwiseConv2dNativeBackpropFilter", _FILTER, _filter_rule, **_FLAT)
op("Conv3D", _CONV, _conv_rule(3), **_DEEP)
op("Conv3DBackpropInputV2", _INPUT.format("Tshape"), _input_rule(3), Tshape=dtypes.int32, **_DEEP)
op("Conv3DBackpropFilterV2", _FILTER, _filter_rule, **_DEEP)


# ---------------------------------------------------------------------- attributes


def window_attrs(
    what: str, space: int, strides: Any, padding: Any, data_format: str | None, dilations: Any
) -> dict[str, Any]:
    """What `what` was given, as the ops want it. Raises ValueError on what does not fit `space` axes."""
    kind = layout(what, data_format, space)
    found = {
        "strides": per_axis(what, "strides", strides, space, kind),
        "dilations": per_axis(what, "dilations", dilations, space, kind),
        "data_format": kind,
        **paddings(what, padding, space + 2),
    }
    if space == 3 and "explicit_paddings" in found:
        raise ValueError(f"{what}: padding must be SAME or VALID, got {padding!r}")
    return found


def one_of(what: str, **values: Any) -> Any:
    """TF1's and TF2's names of one argument: whichever is given."""
    given = [v for v in values.values() if v is not None]
    if len(given) != 1:
        raise ValueError(f"{what}: give one of {' and '.join(values)}")
    return given[0]
