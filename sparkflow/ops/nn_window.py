"""What convolutions and pools share: reading strides, paddings and layouts, and the static sizes that follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.graph import Operation
from sparkflow.framework.shapes import Dims
from sparkflow.ops import rules
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.windows import PADDINGS, slide, spatial_axes

LAYOUTS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


def layout(what: str, data_format: str | None, space: int) -> str:
    """TensorFlow's name of a layout for `space` axes. Raises ValueError on another one."""
    last, first = LAYOUTS[space]
    found = {None: last, "channels_last": last, "channels_first": first}.get(data_format, data_format)
    if found not in (last, first):
        raise ValueError(f"{what}: data_format must be {last} or {first}, got {data_format!r}")
    return found


def layout_of(op: Operation) -> str:
    return op.attrs.get("data_format", "NHWC")


def per_axis(what: str, name: str, values: Any, space: int, data_format: str) -> list[int]:
    """One number an axis: from a number, numbers for the space axes, or numbers for all axes. None: ones."""
    listed = [1] if values is None else [int(v) for v in values] if hasattr(values, "__iter__") else [int(values)]
    if len(listed) == 1:
        listed *= space
    if len(listed) == space:
        listed = [1, 1, *listed] if data_format.startswith("NC") else [1, *listed, 1]
    if len(listed) != space + 2:
        raise ValueError(f"{what}: {name} must hold 1, {space} or {space + 2} numbers, got {values!r}")
    return listed


def paddings(what: str, padding: Any, rank: int) -> dict[str, Any]:
    """The attributes `padding` and, where it is a list of (before, after) for each axis, `explicit_paddings`."""
    if isinstance(padding, str):
        if padding.upper() not in PADDINGS[:2]:
            raise ValueError(f"{what}: padding must be SAME, VALID or a list of pairs, got {padding!r}")
        return {"padding": padding.upper()}
    pairs = [tuple(int(v) for v in pair) for pair in padding or ()]
    if len(pairs) != rank or any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
        raise ValueError(f"{what}: padding must be SAME, VALID or {rank} pairs of numbers, got {padding!r}")
    return {"padding": "EXPLICIT", "explicit_paddings": [v for pair in pairs for v in pair]}


def space_sizes(op: Operation, dims: Sequence[int | None], taps: Sequence[int | None], strides: Any = None) -> Dims:
    """The sizes that a window of `taps` makes of the space axes of `dims`; None where either is not known."""
    if op.attrs["padding"] not in PADDINGS:
        raise InvalidArgumentError(f"{op.type}: padding must be one of {PADDINGS}, got {op.attrs['padding']!r}")
    axes, channel = spatial_axes(layout_of(op), len(dims))
    strides = op.attrs["strides"] if strides is None else strides
    dilations = op.attrs.get("dilations") or op.attrs.get("rates") or [1] * len(dims)
    explicit = op.attrs.get("explicit_paddings") or [0] * 2 * len(dims)
    for name, values in (("strides", strides), ("dilations", dilations)):
        if len(values) != len(dims) or min(values) < 1 or (values[0], values[channel]) != (1, 1):
            raise InvalidArgumentError(
                f"{op.type}: {name} must be {len(dims)} numbers above 0, and 1 for batch and channels "
                f"({layout_of(op)}), got {list(values)}"
            )
    if any(explicit[2 * a] or explicit[2 * a + 1] for a in (0, channel)):
        raise InvalidArgumentError(
            f"{op.type}: Nonzero explicit padding in the batch or depth dimensions is not supported, got {explicit}"
        )
    out: list[int | None] = []
    for axis, window in zip(axes, taps, strict=True):
        size, pair = dims[axis], explicit[2 * axis : 2 * axis + 2]
        known = size is not None and (window is not None or op.attrs["padding"] == "SAME")
        if not known:
            out.append(None)
            continue
        reach = 1 + ((window or 1) - 1) * dilations[axis]
        if op.attrs["padding"] != "SAME" and size + sum(pair) < reach:  # type: ignore[operator]
            raise InvalidArgumentError(
                f"{op.type}: input {shapes.show(tuple(dims))}, axis {axis}: a window of {window} (dilation "
                f"{dilations[axis]}: it reaches over {reach}) does not fit an axis of {dims[axis]}. Negative dimension "
                f"size caused by subtracting {reach} from {size}; use padding SAME or a smaller window"
            )
        try:
            out.append(slide(size, window or 1, strides[axis], dilations[axis], op.attrs["padding"], pair).out)  # type: ignore[arg-type]
        except InvalidArgumentError as error:
            raise InvalidArgumentError(
                f"{op.type}: input {shapes.show(tuple(dims))}, axis {axis}: {error.message}"
            ) from None
    return tuple(out)


def arranged(op: Operation, batch: int | None, space: Sequence[int | None], channels: int | None) -> Dims:
    """A shape in the layout of op."""
    return (batch, channels, *space) if layout_of(op).startswith("NC") else (batch, *space, channels)


def image_dims(op: Operation, index: int, what: str, space: int) -> tuple[int | None, ...]:
    """The shape of an input of `space` axes with batch and channels. Raises InvalidArgumentError on another rank."""
    return rules.require_rank(op, what, op.inputs[index], space + 2) or (None,) * (space + 2)


def channel_of(op: Operation, dims: Sequence[int | None]) -> int | None:
    return dims[spatial_axes(layout_of(op), len(dims))[1]]
