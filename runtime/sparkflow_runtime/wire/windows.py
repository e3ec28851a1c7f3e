"""How a window slides along one axis: the front end infers sizes by it, the kernels compute by it.

Source: TensorFlow's "Notes on padding" (tf.nn): SAME puts the odd cell behind, VALID pads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sparkflow_runtime.wire.errors import InvalidArgumentError

PADDINGS = ("SAME", "VALID", "EXPLICIT")


class Slide(NamedTuple):
    """`out` positions of the window; cells of padding before and after the axis."""

    out: int
    before: int
    after: int


def slide(size: int, window: int, stride: int, dilation: int, padding: str, explicit: Sequence[int] = (0, 0)) -> Slide:
    """Along an axis of `size` cells. Raises InvalidArgumentError where the window does not fit at all."""
    reach = (window - 1) * dilation + 1
    if padding == "SAME":
        out = -(-size // stride)
        missing = max(0, (out - 1) * stride + reach - size)
        return Slide(out, missing // 2, missing - missing // 2)
    before, after = explicit if padding == "EXPLICIT" else (0, 0)
    out = (size + before + after - reach + stride) // stride
    if out < 0:
        raise InvalidArgumentError(
            f"a window of {window} (dilation {dilation}: it reaches over {reach}) does not fit an axis of {size} with "
            f"padding {padding} ({before} before, {after} after); use padding SAME or a smaller window"
        )
    return Slide(out, before, after)


def spatial_axes(data_format: str, rank: int) -> tuple[list[int], int]:
    """(axes that a window slides over, the channel axis) of a batch tensor of that rank."""
    if data_format.startswith("NC"):
        return list(range(2, rank)), 1
    return list(range(1, rank - 1)), rank - 1
