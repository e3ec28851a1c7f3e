"""Parts of images: boxes cut out and resized, with their gradients, and glimpses."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.exp_loops import in_parts
from sparkflow_runtime.kernels.host import host, ints
from sparkflow_runtime.kernels.registry import Function, Node, bound, kernel
from sparkflow_runtime.kernels.resize_loops import cut
from sparkflow_runtime.kernels.sum_loops import add_at
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError, OutOfRangeError


def _owners(op: str, boxes: Any, owner: Any, batch: int) -> Any:
    which = host(owner)
    if boxes.ndim != 2 or boxes.shape[1] != 4 or which.shape != boxes.shape[:1]:
        raise InvalidArgumentError(
            f"{op}: boxes must be [n, 4] and box_ind [n], got {list(boxes.shape)}, {list(which.shape)}"
        )
    if which.size and not (which.min() >= 0 and which.max() < batch):
        raise OutOfRangeError(f"{op}: box_index has values outside [0, {batch}): {which.tolist()[:20]}")
    return owner


class _Places:
    """Where the cells of the crops lie along one axis of the image, [boxes, cells]."""

    def __init__(self, xp: Any, first: Any, last: Any, cells: int, size: int):
        reach = np.float32(size - 1)
        if cells > 1:
            self.steps = xp.arange(cells, dtype=np.float32)
            scale = (last - first) * reach / np.float32(cells - 1)
            self.at = (first * reach)[:, None] + self.steps * scale[:, None]
        else:
            self.at = (np.float32(0.5) * (first + last) * reach)[:, None]
        self.inside = (self.at >= 0) & (self.at <= reach)
        clipped = xp.where(self.inside, self.at, 0)
        self.before, self.behind = xp.floor(clipped).astype(np.int64), xp.ceil(clipped).astype(np.int64)
        self.part = (clipped - self.before).astype(np.float32)
        self.nearest = xp.floor(clipped + np.float32(0.5)).astype(np.int64).clip(0, size - 1)
        self.cells, self.reach = cells, reach

    def to_ends(self, xp: Any, slope: Any) -> tuple[Any, Any]:
        """What the box's two ends get, where slope [boxes, cells] is what each cell's place gets."""
        if self.cells == 1:
            half = (slope * (np.float32(0.5) * self.reach)).sum(1)
            return half, half
        share = self.steps * (self.reach / np.float32(self.cells - 1))
        return (slope * (self.reach - share)).sum(1), (slope * share).sum(1)


def _axes(xp: Any, boxes: Any, crops: tuple[int, int], image: tuple[int, int]) -> tuple[_Places, _Places]:
    y1, x1, y2, x2 = (boxes[:, i] for i in range(4))
    return _Places(xp, y1, y2, crops[0], image[0]), _Places(xp, x1, x2, crops[1], image[1])


def _corners(rows: _Places, columns: _Places) -> Any:
    """((rows, columns), what of the value is theirs) for the four cells around each place."""
    down, across = rows.part[:, :, None, None], columns.part[:, None, :, None]
    for row, of_row in ((rows.before, 1 - down), (rows.behind, down)):
        for column, of_column in ((columns.before, 1 - across), (columns.behind, across)):
            yield (row[:, :, None], column[:, None, :]), of_row * of_column


def _method(op: str, method: Any) -> bool:
    """Whether it is bilinear."""
    text = method.decode() if isinstance(method, bytes) else method
    if text not in ("bilinear", "nearest"):
        raise InvalidArgumentError(f"{op}: method must be bilinear or nearest, got {text!r}")
    return text == "bilinear"


@kernel("CropAndResize")
def _cut(
    xp: Any, image: Any, boxes: Any, box_ind: Any, crop_size: Any, *, method: Any = "bilinear",
    extrapolation_value: float = 0.0,
) -> Any:  # fmt: skip
    size = ints(crop_size)
    if image.ndim != 4 or 0 in image.shape[1:3] or len(size) != 2 or min(size) < 1:
        raise InvalidArgumentError(
            f"CropAndResize: image must be [batch, height, width, depth] and crop_size two numbers above 0, got "
            f"{list(image.shape)}, {list(size)}"
        )
    which = _owners("CropAndResize", boxes, box_ind, image.shape[0])[:, None, None]
    rows, columns = _axes(xp, boxes, (size[0], size[1]), image.shape[1:3])
    inside = rows.inside[:, :, None, None] & columns.inside[:, None, :, None]
    if not _method("CropAndResize", method):
        found = image[which, rows.nearest[:, :, None], columns.nearest[:, None, :]].astype(np.float32)
        return xp.where(inside, found, np.float32(extrapolation_value))
    if xp is np and image.size and len(boxes):
        return _cut_by_loop(image, which.reshape(-1), rows, columns, extrapolation_value)
    cells = [image[(which, *at)].astype(np.float32) for at, _ in _corners(rows, columns)]
    down, across = rows.part[:, :, None, None], columns.part[:, None, :, None]
    top, bottom = (left + (right - left) * across for left, right in (cells[:2], cells[2:]))
    return xp.where(inside, top + (bottom - top) * down, np.float32(extrapolation_value))


def _cut_by_loop(image: Any, which: Any, rows: _Places, columns: _Places, outside: float) -> np.ndarray:
    out = np.empty((len(which), rows.cells, columns.cells, image.shape[3]), np.float32)
    places = [(a.before, a.behind, a.part, a.inside.view(np.uint8)) for a in (rows, columns)]
    ready = [np.ascontiguousarray(v) for axis in places for v in axis]
    whole = np.ascontiguousarray(image, np.float32), np.ascontiguousarray(which, np.int64), *ready
    in_parts(cut, len(out), out[0].size, *whole, out, np.full(1, outside, np.float32))
    return out


@kernel("CropAndResizeGradImage")
def _cut_grad_image(
    xp: Any, grads: Any, boxes: Any, box_ind: Any, image_size: Any, *, T: DType, method: Any = "bilinear"
) -> Any:
    size = ints(image_size)
    if grads.ndim != 4 or len(size) != 4 or min(size[1:3]) < 1:
        raise InvalidArgumentError(
            f"CropAndResizeGradImage: grads must be of rank 4 and image_size four numbers, got {list(grads.shape)}, "
            f"{list(size)}"
        )
    which = _owners("CropAndResizeGradImage", boxes, box_ind, size[0])[:, None, None]
    rows, columns = _axes(xp, boxes, grads.shape[1:3], (size[1], size[2]))
    inside = rows.inside[:, :, None, None] & columns.inside[:, None, :, None]
    kept = xp.where(inside, grads, 0)
    out = xp.zeros(size, np.float64 if T.np == np.float64 else np.float32)
    if _method("CropAndResizeGradImage", method):
        for at, share in _corners(rows, columns):
            _add(xp, out, (which, *at), kept * share)
    else:
        _add(xp, out, (which, rows.nearest[:, :, None], columns.nearest[:, None, :]), kept)
    return out.astype(T.np, copy=False)


def _add(xp: Any, out: Any, at: tuple[Any, Any, Any], values: Any) -> None:
    """out[at] += values, cell after cell."""
    image, row, column = at
    cells = ((image * out.shape[1] + row) * out.shape[2] + column).reshape(-1)
    rows = values.reshape(len(cells), out.shape[3]).astype(out.dtype, copy=False)
    if not (xp is np and add_at(out.reshape(-1, out.shape[3]), cells, rows)):
        xp.add.at(out, at, values)


@kernel("CropAndResizeGradBoxes")
def _cut_grad_boxes(xp: Any, grads: Any, image: Any, boxes: Any, box_ind: Any) -> Any:
    if grads.ndim != 4 or image.ndim != 4 or 0 in grads.shape[1:3] or grads.shape[3:] != image.shape[3:]:
        raise InvalidArgumentError(
            f"CropAndResizeGradBoxes: grads and image must be [.., height, width, depth] of one depth, of sizes above "
            f"0; got {list(grads.shape)} and {list(image.shape)}"
        )
    which = _owners("CropAndResizeGradBoxes", boxes, box_ind, image.shape[0])[:, None, None]
    rows, columns = _axes(xp, boxes, grads.shape[1:3], image.shape[1:3])
    cells = [image[(which, *at)].astype(np.float32) for at, _ in _corners(rows, columns)]
    down, across = rows.part[:, :, None, None], columns.part[:, None, :, None]
    by_y = (1 - across) * (cells[2] - cells[0]) + across * (cells[3] - cells[1])
    by_x = (1 - down) * (cells[1] - cells[0]) + down * (cells[3] - cells[2])
    inside = rows.inside[:, :, None, None] & columns.inside[:, None, :, None]
    kept = xp.where(inside, grads, 0)
    y1, y2 = rows.to_ends(xp, (by_y * kept).sum((2, 3)))
    x1, x2 = columns.to_ends(xp, (by_x * kept).sum((1, 3)))
    return xp.stack([y1, x1, y2, x2], 1).astype(np.float32, copy=False)


# ---------------------------------------------------------------------- glimpses


@bound("ExtractGlimpse", stateful=False)
def _glimpse(node: Node) -> Function:
    xp, centered, normalized = node.xp, node.attr("centered", True), node.attr("normalized", True)
    noise = node.attr("noise", "uniform")
    noise = noise.decode() if isinstance(noise, bytes) else noise
    rng = np.random.default_rng()

    def start(offset: float, size: int, window: int) -> int:
        at = offset * size if normalized else offset
        return int(at / 2 + size / 2 - window / 2 if centered else at - window / 2)  # pixels are halved too

    def background(image: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        if noise == "zero":
            return np.zeros(shape, np.float32)
        if noise == "gaussian":
            return rng.normal(image.mean(), image.std(), shape).astype(np.float32)
        return rng.uniform(image.min(), image.max(), shape).astype(np.float32)

    def run(images: Any, size: Any, offsets: Any) -> Any:
        window, where, cells = ints(size), host(offsets), host(images)
        if cells.ndim != 4 or len(window) != 2 or min(window) < 1 or where.shape != (len(cells), 2):
            raise InvalidArgumentError(
                f"{node.op}: input must be of rank 4, size two numbers above 0 and offsets [batch, 2], got "
                f"{list(cells.shape)}, {list(window)}, {list(where.shape)}"
            )
        out = np.empty((len(cells), *window, cells.shape[3]), np.float32)
        for image, part, offset in zip(cells, out, where.tolist()):
            first = [start(o, s, w) for o, s, w in zip(offset, image.shape, window)]
            inner = [slice(max(0, f), max(0, min(f + w, s))) for f, w, s in zip(first, window, image.shape)]
            outer = [slice(i.start - f, max(i.start, i.stop) - f) for i, f in zip(inner, first)]
            part[...] = background(image, part.shape)
            if all(i.stop > i.start for i in inner):
                part[tuple(outer)] = image[tuple(inner)]
        return xp.asarray(out)

    return run
