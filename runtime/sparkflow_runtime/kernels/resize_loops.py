"""The hot loops that read images at places between their cells: bilinear resizing, and boxes cut out."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled

_RUN = 12  # numbers side by side from which taking them as they lie pays
_INTS, _FLOATS = "Array(int64, {0}, 'C', readonly=True)", "Array(float32, {0}, 'C', readonly=True)"
_BYTES = "Array(uint8, {0}, 'C', readonly=True)"


def _along(row: Any, left: Any, right: Any, across: Any, made: Any, run: Any) -> None:
    """One row of the original, at the places of the new one."""
    length, few = np.uint64(made.shape[0]), np.uint64(run)
    if run < _RUN:
        for j in range(length):
            a, b = np.float32(row[left[j]]), np.float32(row[right[j]])
            made[j] = a + (b - a) * across[j]
        return
    for first in range(np.uint64(0), length, few):
        begin, end, part = np.uint64(left[first]), np.uint64(right[first]), across[first]
        for c in range(few):
            a, b = np.float32(row[begin + c]), np.float32(row[end + c])
            made[first + c] = a + (b - a) * part


@compiled(
    [
        f"void({images.format(3)}, {_INTS.format(1)}, {_INTS.format(1)}, {_FLOATS.format(1)}, "
        f"Array(uint32, 1, 'C', readonly=True), Array(uint32, 1, 'C', readonly=True), {_FLOATS.format(1)}, "
        "float32[:,:,::1], float32[:,::1], int64, int64, int64)"
        for images in (_FLOATS, _BYTES)
    ],
    parts=[_along],
)
def between(
    x: Any, top: Any, bottom: Any, down: Any, left: Any, right: Any, across: Any, out: Any, room: Any, run: Any,
    start: Any, stop: Any,
) -> None:  # fmt: skip
    """Each cell of the images from `start` to `stop` between the four cells of the original around it.

    x (float32 or uint8), out: [images, rows, cells of a row and their channels]; left, right, across: for each of the
    latter in out. A row of the original that two rows need is read once; room: two rows of out. run: how many of a row
    lie side by side in the original too.
    """
    length = np.uint64(out.shape[2])
    for n in range(np.uint64(start), np.uint64(stop)):
        held0 = held1 = -1  # the rows of the original that stand in room
        for h in range(np.uint64(out.shape[1])):
            above, below = top[h], bottom[h]
            if held0 != above:
                if held1 == above:  # the lower one of the row before
                    for j in range(length):
                        room[0, j] = room[1, j]
                else:
                    _along(x[n, np.uint64(above)], left, right, across, room[0], run)
                held0 = above
            if held1 != below:
                if held0 == below:
                    for j in range(length):
                        room[1, j] = room[0, j]
                else:
                    _along(x[n, np.uint64(below)], left, right, across, room[1], run)
                held1 = below
            part = down[h]
            for j in range(length):
                upper, lower = room[0, j], room[1, j]
                out[n, h, j] = upper + (lower - upper) * part


@between.otherwise
def _(
    x: Any, top: Any, bottom: Any, down: Any, left: Any, right: Any, across: Any, out: Any, room: Any, run: Any,
    start: Any, stop: Any,
) -> None:  # fmt: skip
    rows = (x[start:stop, side].astype(np.float32, copy=False) for side in (top, bottom))
    upper, lower = (r[:, :, left] + (r[:, :, right] - r[:, :, left]) * across for r in rows)
    out[start:stop] = upper + (lower - upper) * down[:, None]


def interpolated(x: Any, top: Any, bottom: Any, down: Any, left: Any, right: Any, across: Any) -> Any:
    """The same of whole arrays [images, rows, cells, channels], numpy's or cupy's."""
    rows = (x[:, top], x[:, bottom])
    upper, lower = (r[:, :, left] + (r[:, :, right] - r[:, :, left]) * across[:, None] for r in rows)
    return upper + (lower - upper) * down[:, None, None]


_PLACES = ", ".join([_INTS.format(2), _INTS.format(2), _FLOATS.format(2), "Array(uint8, 2, 'C', readonly=True)"])


@compiled(
    [
        f"void({_FLOATS.format(4)}, {_INTS.format(1)}, {_PLACES}, {_PLACES}, float32[:,:,:,::1], "
        f"{_FLOATS.format(1)}, int64, int64)"
    ]
)
def cut(
    image: Any, which: Any, top: Any, bottom: Any, down: Any, row_inside: Any, left: Any, right: Any, across: Any,
    column_inside: Any, out: Any, outside: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """Crops from `start` to `stop`: of each box the places of its rows and columns, and whether they are inside."""
    channels = np.uint64(image.shape[3])
    for n in range(np.uint64(start), np.uint64(stop)):
        of = np.uint64(which[n])
        for h in range(np.uint64(out.shape[1])):
            upper_row, lower_row = image[of, np.uint64(top[n, h])], image[of, np.uint64(bottom[n, h])]
            for w in range(np.uint64(out.shape[2])):
                cell = out[n, h, w]
                if row_inside[n, h] == 0 or column_inside[n, w] == 0:
                    for c in range(channels):
                        cell[c] = outside[0]
                    continue
                a, b = upper_row[np.uint64(left[n, w])], upper_row[np.uint64(right[n, w])]
                d, e = lower_row[np.uint64(left[n, w])], lower_row[np.uint64(right[n, w])]
                x, y = across[n, w], down[n, h]
                for c in range(channels):
                    upper, lower = a[c] + (b[c] - a[c]) * x, d[c] + (e[c] - d[c]) * x
                    cell[c] = upper + (lower - upper) * y


@cut.otherwise
def _(
    image: Any, which: Any, top: Any, bottom: Any, down: Any, row_inside: Any, left: Any, right: Any, across: Any,
    column_inside: Any, out: Any, outside: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    part = slice(start, stop)
    of, x, y = which[part, None, None], across[part, None, :, None], down[part, :, None, None]
    rows, columns = (top[part, :, None], bottom[part, :, None]), (left[part, None, :], right[part, None, :])
    sides = [[image[of, row, column] for column in columns] for row in rows]
    upper, lower = (a + (b - a) * x for a, b in sides)
    inside = (row_inside[part, :, None, None] != 0) & (column_inside[part, None, :, None] != 0)
    out[part] = np.where(inside, upper + (lower - upper) * y, outside[0])


_ROWS, _VECTOR = "Array({0}, 3, 'C', readonly=True)", "Array({0}, 1, 'C', readonly=True)"


@compiled(
    [
        f"void({_ROWS}, {_INTS.format(1)}, {_INTS.format(1)}, {_VECTOR}, {{0}}[:,:,::1], int64, int64)".format(kind)
        for kind in ("float32", "float64")
    ]
)
def share_rows(x: Any, cells: Any, targets: Any, shares: Any, out: Any, start: Any, stop: Any) -> None:
    """out[n, targets[i]] += shares[i] * x[n, cells[i]], of zeros, for the images from `start` to `stop`."""
    for n in range(np.uint64(start), np.uint64(stop)):
        for i in range(np.uint64(cells.shape[0])):
            of, to, share = np.uint64(cells[i]), np.uint64(targets[i]), shares[i]
            for k in range(np.uint64(x.shape[2])):
                out[n, to, k] += x[n, of, k] * share


@share_rows.otherwise
def _(x: Any, cells: Any, targets: Any, shares: Any, out: Any, start: Any, stop: Any) -> None:
    for of, to, share in zip(cells.tolist(), targets.tolist(), shares):
        out[start:stop, to] += x[start:stop, of] * share
