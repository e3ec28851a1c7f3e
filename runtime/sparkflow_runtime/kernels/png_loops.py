"""The hot loop of reading PNG files: rows out of what is stored of them, the difference to what stands around."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled


def _nearest(left: Any, above: Any, corner: Any) -> Any:
    """Paeth's predictor: that of the three which is nearest to left + above - corner."""
    to_left, to_above = abs(above - corner), abs(left - corner)
    to_corner = abs(left + above - corner - corner)
    other = above if to_above <= to_corner else corner
    return left if (to_left <= to_above and to_left <= to_corner) else other


@compiled(["int64(Array(uint8, 1, 'C', readonly=True), uint8[:,::1], int64)"], parts=[_nearest])
def unfiltered(stored: Any, out: Any, pixel: Any) -> Any:
    """1, and out [rows + 1, bytes of a row] filled from row 1 on (row 0 is all 0); 0 on a filter that there is not.

    stored: for each row a byte that says its filter, and its bytes. pixel: bytes of one pixel, 1 to 4.
    """
    length, step = np.uint64(out.shape[1]), np.uint64(pixel)
    for r in range(np.uint64(1), np.uint64(out.shape[0])):
        first = (r - np.uint64(1)) * (length + np.uint64(1)) + np.uint64(1)
        kind = stored[first - np.uint64(1)]
        up, row = out[r - np.uint64(1)], out[r]
        if kind == 0:
            for i in range(length):
                row[i] = stored[first + i]
        elif kind == 1:
            for i in range(step):
                row[i] = stored[first + i]
            for i in range(step, length):
                row[i] = np.uint8(stored[first + i] + row[i - step])
        elif kind == 2:
            for i in range(length):
                row[i] = np.uint8(stored[first + i] + up[i])
        elif kind == 3:
            for i in range(step):
                row[i] = np.uint8(stored[first + i] + (np.int64(up[i]) >> 1))
            for i in range(step, length):
                row[i] = np.uint8(stored[first + i] + ((np.int64(row[i - step]) + np.int64(up[i])) >> 1))
        elif kind == 4 and pixel == 3:
            a0 = a1 = a2 = c0 = c1 = c2 = np.int64(0)
            for i in range(np.uint64(0), length, np.uint64(3)):
                j, k = i + np.uint64(1), i + np.uint64(2)
                b0, b1, b2 = np.int64(up[i]), np.int64(up[j]), np.int64(up[k])
                a0 = (np.int64(stored[first + i]) + _nearest(a0, b0, c0)) & 255
                a1 = (np.int64(stored[first + j]) + _nearest(a1, b1, c1)) & 255
                a2 = (np.int64(stored[first + k]) + _nearest(a2, b2, c2)) & 255
                row[i], row[j], row[k] = np.uint8(a0), np.uint8(a1), np.uint8(a2)
                c0, c1, c2 = b0, b1, b2
        elif kind == 4:
            for i in range(step):
                row[i] = np.uint8(stored[first + i] + up[i])
            for i in range(step, length):
                found = _nearest(np.int64(row[i - step]), np.int64(up[i]), np.int64(up[i - step]))
                row[i] = np.uint8((np.int64(stored[first + i]) + found) & 255)
        else:
            return 0
    return 1


@unfiltered.otherwise
def _(stored: Any, out: Any, pixel: Any) -> Any:
    """Row by row it would be slower than Pillow, which is then asked instead."""
    return 0
