"""The hot loop of bilinear resizing."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled

_FOUR = "Array(float32, 4, 'C', readonly=True)"
_PLACES = (
    "Array(int64, 1, 'C', readonly=True), Array(int64, 1, 'C', readonly=True), Array(float32, 1, 'C', readonly=True)"
)


@compiled([f"void({_FOUR}, {_PLACES}, {_PLACES}, float32[:,:,:,::1], int64, int64)"])
def between(
    x: Any, top: Any, bottom: Any, down: Any, left: Any, right: Any, across: Any, out: Any, start: Any, stop: Any
) -> None:
    """Each cell of the images from `start` to `stop` between the four cells of the original around it."""
    for n in range(start, stop):
        for h in range(out.shape[1]):
            for w in range(out.shape[2]):
                for c in range(np.uint64(out.shape[3])):
                    a, b = x[n, top[h], left[w], c], x[n, top[h], right[w], c]
                    upper = a + (b - a) * across[w]
                    a, b = x[n, bottom[h], left[w], c], x[n, bottom[h], right[w], c]
                    lower = a + (b - a) * across[w]
                    out[n, h, w, c] = upper + (lower - upper) * down[h]


@between.otherwise
def _(
    x: Any, top: Any, bottom: Any, down: Any, left: Any, right: Any, across: Any, out: Any, start: Any, stop: Any
) -> None:
    out[start:stop] = interpolated(x[start:stop], top, bottom, down, left, right, across)


def interpolated(x: Any, top: Any, bottom: Any, down: Any, left: Any, right: Any, across: Any) -> Any:
    """The same of whole arrays, numpy's or cupy's."""
    rows = (x[:, top], x[:, bottom])
    upper, lower = (r[:, :, left] + (r[:, :, right] - r[:, :, left]) * across[:, None] for r in rows)
    return upper + (lower - upper) * down[:, None, None]
