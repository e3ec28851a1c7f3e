"""Boxes in images: the best of many that overlap, frames, random parts."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import philox
from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.host import host, ints, one_int
from sparkflow_runtime.kernels.random import draws
from sparkflow_runtime.kernels.registry import Function, Node, bound, kernel
from sparkflow_runtime.wire.errors import InvalidArgumentError

# ---------------------------------------------------------------------- the best of many


class _Corners:
    """Boxes [n, 4] by any two opposite corners."""

    def __init__(self, boxes: Any):
        corners = host(boxes).astype(np.float32)
        self.low, self.high = np.minimum(corners[:, :2], corners[:, 2:]), np.maximum(corners[:, :2], corners[:, 2:])
        self.area = (self.high - self.low).prod(1)

    def overlaps(self, i: int, others: Any) -> np.ndarray:
        """Intersection over union of box i and others."""
        inner = np.maximum(np.minimum(self.high[i], self.high[others]) - np.maximum(self.low[i], self.low[others]), 0)
        shared = inner.prod(1)
        union = self.area[i] + self.area[others] - shared
        real = (self.area[i] > 0) & (self.area[others] > 0)
        return np.where(real, shared / np.where(union > 0, union, 1), 0)


def _checked(op: str, boxes: Any, scores: Any, overlap: float) -> tuple[_Corners, np.ndarray]:
    ranks = host(scores)
    if boxes.ndim != 2 or boxes.shape[1:] != (4,) or ranks.shape != boxes.shape[:1]:
        raise InvalidArgumentError(
            f"{op}: boxes must be [n, 4] and scores [n], got {list(boxes.shape)}, {list(scores.shape)}"
        )
    if not 0 <= overlap <= 1:
        raise InvalidArgumentError(f"{op}: iou_threshold must be in [0, 1], got {overlap}")
    return _Corners(boxes), ranks


def _by_table(table: np.ndarray, ranks: np.ndarray, most: int, limit: float, least: float) -> list[int]:
    """As `_hard`, with overlaps that somebody else has measured."""
    kept: list[int] = []
    for i in np.argsort(-ranks, kind="stable").tolist():
        if len(kept) >= most or not ranks[i] > least:
            break
        if not (table[i, kept] > limit).any():
            kept.append(i)
    return kept


def _hard(corners: _Corners, ranks: np.ndarray, most: int, limit: float, least: float) -> list[int]:
    """The best first, without those whose overlap with a better one is above the limit."""
    order = np.argsort(-ranks, kind="stable")
    order = order[: int((ranks > least).sum())]  # NaN is above nothing, and last
    kept = np.empty(max(0, min(most, len(order))), np.int64)
    if not kept.size:
        return []
    finite = bool(np.isfinite(corners.low).all() and np.isfinite(corners.high).all())
    choose = best_boxes if finite else best_boxes.numpy
    limits, room = np.array([limit], np.float32), np.empty((5, len(kept)), np.float32)
    count = choose(order.astype(np.int64), corners.low, corners.high, corners.area, limits, kept, room)
    return kept[:count].tolist()


_TWO, _ONE = "Array(float32, 2, 'C', readonly=True)", "Array(float32, 1, 'C', readonly=True)"


@compiled([f"int64(Array(int64, 1, 'C', readonly=True), {_TWO}, {_TWO}, {_ONE}, {_ONE}, int64[::1], float32[:,::1])"])
def best_boxes(order: Any, low: Any, high: Any, area: Any, limit: Any, kept: Any, room: Any) -> int:
    """How many of `order` are kept, as many as `kept` has room for: each whose overlap with none of those kept before
    is above the limit. room: [5, len(kept)], for what is known of those."""
    count = 0
    for i in order:
        at = np.uint64(i)
        y1, x1, y2, x2, own = low[at, 0], low[at, 1], high[at, 0], high[at, 1], area[at]
        free = True
        for first in range(0, count, 64):
            hits = 0
            for k in range(np.uint64(first), np.uint64(min(first + 64, count))):
                height = (y2 if y2 < room[2, k] else room[2, k]) - (y1 if y1 > room[0, k] else room[0, k])
                width = (x2 if x2 < room[3, k] else room[3, k]) - (x1 if x1 > room[1, k] else room[1, k])
                height, width = height if height > 0 else np.float32(0), width if width > 0 else np.float32(0)
                shared = height * width
                union = own + room[4, k] - shared
                share = shared / (union if union > 0 else np.float32(1))
                hits += (own > 0) & (room[4, k] > 0) & (share > limit[0])
            if hits:
                free = False
                break
        if free:
            room[0, count], room[1, count], room[2, count], room[3, count], room[4, count] = y1, x1, y2, x2, own
            kept[count] = i
            count += 1
            if count == kept.shape[0]:
                break
    return count


@best_boxes.otherwise
def _(order: Any, low: Any, high: Any, area: Any, limit: Any, kept: Any, room: Any) -> int:
    corners, count = _Corners(np.concatenate([low, high], 1)), 0
    for i in order.tolist():
        if not count or not (corners.overlaps(i, kept[:count]) > limit[0]).any():
            kept[count] = i
            count += 1
            if count == len(kept):
                break
    return count


def _soft(
    corners: _Corners, ranks: np.ndarray, most: int, limit: float, least: float, sigma: float
) -> tuple[list[int], list[float]]:
    """As `_hard`, and the scores, which overlaps with better boxes have lowered (Bodla et al. 2017)."""
    scale = np.float32(-0.5 / sigma) if sigma > 0 else np.float32(0)
    kept: list[int] = []
    left: list[float] = []
    waiting = [(-score, i, 0) for i, score in enumerate(ranks) if score > least]  # 0: of kept ones, those it has met
    heapify(waiting)
    while waiting and len(kept) < most:
        negative, i, met = heappop(waiting)
        score = before = -negative
        shared = corners.overlaps(i, kept[met:])[::-1] if met < len(kept) else np.empty(0, np.float32)
        for overlap in shared:
            if sigma > 0:
                score = ranks.dtype.type(score * np.exp(scale * overlap * overlap))
            elif overlap > limit:
                score = ranks.dtype.type(-np.inf)
            if not score > least:
                break
        if score == before:
            kept.append(i)
            left.append(score)
        elif score > least:
            heappush(waiting, (-score, i, len(kept)))
    return kept, left


def _padded(xp: Any, values: Any, dtype: Any, size: int | None) -> Any:
    out = np.zeros(len(values) if size is None else size, dtype)
    out[: len(values)] = values
    return xp.asarray(out)


def _of_boxes(
    op: str, xp: Any, boxes: Any, scores: Any, most: Any, overlap: float, least: float = -np.inf
) -> list[int]:
    corners, ranks = _checked(op, boxes, scores, overlap)
    return _hard(corners, ranks, one_int(most), overlap, least)


@kernel("NonMaxSuppression")
def _suppress_v1(xp: Any, boxes: Any, scores: Any, most: Any, *, iou_threshold: float = 0.5) -> Any:
    return _padded(xp, _of_boxes("NonMaxSuppression", xp, boxes, scores, most, iou_threshold), np.int32, None)


@kernel("NonMaxSuppressionV2", "NonMaxSuppressionV3")
def _suppress(xp: Any, boxes: Any, scores: Any, most: Any, overlap: Any, least: Any = -np.inf) -> Any:
    kept = _of_boxes("NonMaxSuppression", xp, boxes, scores, most, float(overlap), float(least))
    return _padded(xp, kept, np.int32, None)


@kernel("NonMaxSuppressionV4", multi=True)
def _suppress_v4(
    xp: Any, boxes: Any, scores: Any, most: Any, overlap: Any, least: Any, *, pad_to_max_output_size: bool = False
) -> Any:
    kept = _of_boxes("NonMaxSuppressionV4", xp, boxes, scores, most, float(overlap), float(least))
    size = one_int(most) if pad_to_max_output_size else None
    return _padded(xp, kept, np.int32, size), xp.asarray(len(kept), xp.int32)


@kernel("NonMaxSuppressionV5", multi=True)
def _suppress_v5(
    xp: Any, boxes: Any, scores: Any, most: Any, overlap: Any, least: Any, sigma: Any, *,
    pad_to_max_output_size: bool = False,
) -> Any:  # fmt: skip
    corners, ranks = _checked("NonMaxSuppressionV5", boxes, scores, float(overlap))
    kept, left = _soft(corners, ranks, one_int(most), float(overlap), float(least), float(sigma))
    size = one_int(most) if pad_to_max_output_size else None
    count = xp.asarray(len(kept), xp.int32)
    return _padded(xp, kept, np.int32, size), _padded(xp, left, ranks.dtype, size), count


@kernel("NonMaxSuppressionWithOverlaps")
def _suppress_overlaps(xp: Any, overlaps: Any, scores: Any, most: Any, limit: Any, least: Any) -> Any:
    table, ranks = host(overlaps), host(scores)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or ranks.shape != table.shape[:1]:
        raise InvalidArgumentError(
            f"NonMaxSuppressionWithOverlaps: overlaps must be [n, n] and scores [n], got {list(table.shape)}, "
            f"{list(ranks.shape)}"
        )
    kept = _by_table(table, ranks, one_int(most), float(limit), float(least))
    return _padded(xp, kept, np.int32, None)


@kernel("CombinedNonMaxSuppression", multi=True)
def _combined(
    xp: Any, boxes: Any, scores: Any, each: Any, total: Any, overlap: Any, least: Any, *,
    pad_per_class: bool = False, clip_boxes: bool = True,
) -> Any:  # fmt: skip
    corners, ranks = host(boxes), host(scores)
    if corners.ndim != 4 or ranks.ndim != 3 or corners.shape[:2] != ranks.shape[:2] or corners.shape[3] != 4:
        raise InvalidArgumentError(
            f"CombinedNonMaxSuppression: boxes must be [batch, n, q, 4] and scores [batch, n, classes], got "
            f"{list(corners.shape)}, {list(ranks.shape)}"
        )
    if corners.shape[2] not in (1, ranks.shape[2]):
        raise InvalidArgumentError(
            f"CombinedNonMaxSuppression: boxes must be of 1 or of {ranks.shape[2]} classes, got {corners.shape[2]}"
        )
    per_class, most = one_int(each), one_int(total)
    if most <= 0 or not 0 <= float(overlap) <= 1:
        raise InvalidArgumentError(
            f"CombinedNonMaxSuppression: max_total_size must be > 0 and iou_threshold in [0, 1], got {most} and "
            f"{float(overlap)}"
        )
    size = min(most, per_class * ranks.shape[2]) if pad_per_class else most
    batch = len(ranks)
    out = [np.zeros((batch, size, 4), np.float32), np.zeros((batch, size), np.float32)]
    classes, counts = np.zeros((batch, size), np.float32), np.zeros(batch, np.int32)
    for b in range(batch):
        chosen = _of_all_classes(corners[b], ranks[b], per_class, float(overlap), float(least))[:size]
        counts[b] = len(chosen)
        for place, (score, kind, box) in enumerate(chosen):
            out[0][b, place], out[1][b, place], classes[b, place] = box, score, kind
    if clip_boxes:
        np.clip(out[0], 0, 1, out=out[0])
    return tuple(map(xp.asarray, (*out, classes, counts)))


def _of_all_classes(boxes: np.ndarray, scores: np.ndarray, most: int, limit: float, least: float) -> list[Any]:
    """(score, class, box) of what each class keeps, best first."""
    found = []
    for kind in range(scores.shape[1]):
        own = boxes[:, min(kind, boxes.shape[1] - 1)]
        ranks = scores[:, kind]
        found += [(ranks[i], kind, own[i]) for i in _hard(_Corners(own), ranks, most, limit, least)]
    return sorted(found, key=lambda one: -one[0])


# ---------------------------------------------------------------------- frames

_COLOURS = np.array(
    [[1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1], [0.5, 0.5, 0, 1], [0.5, 0, 0, 1],
     [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1]], np.float32,
)  # fmt: skip


@kernel("DrawBoundingBoxes")
def _draw(xp: Any, images: Any, boxes: Any) -> Any:
    return _frames(xp, images, boxes, np.ones((1, 1), np.float32) if images.shape[-1:] == (1,) else _COLOURS)


@kernel("DrawBoundingBoxesV2")
def _draw_in_colours(xp: Any, images: Any, boxes: Any, colours: Any) -> Any:
    own = host(colours)
    if own.ndim != 2 or (len(own) and own.shape[1] < images.shape[-1]):
        raise InvalidArgumentError(
            f"DrawBoundingBoxesV2: colors must be [k, {images.shape[-1]}], got shape {list(own.shape)}"
        )
    if images.shape[-1:] == (1,):
        own = np.ones((1, 1), np.float32)
    return _frames(xp, images, boxes, own if len(own) else _COLOURS)


def _frames(xp: Any, images: Any, boxes: Any, colours: np.ndarray) -> Any:
    if images.ndim != 4 or boxes.ndim != 3 or boxes.shape[2] != 4 or len(boxes) != len(images):
        raise InvalidArgumentError(
            f"images must be [n, h, w, depth] and boxes [n, k, 4], got {images.shape}, {boxes.shape}"
        )
    out = images.copy()
    height, width, depth = images.shape[1:]
    for n, own in enumerate(host(boxes)):
        for k, box in enumerate(own):
            colour = colours[k % len(colours)][:depth]
            y1, x1, y2, x2 = (int(v) for v in box * np.array([height - 1, width - 1] * 2, np.float32))
            if y1 > y2 or x1 > x2 or y1 >= height or y2 < 0 or x1 >= width or x2 < 0:
                continue
            rows, columns = slice(max(y1, 0), min(y2, height - 1) + 1), slice(max(x1, 0), min(x2, width - 1) + 1)
            for y in (y1, y2):
                if 0 <= y < height:
                    out[n, y, columns] = xp.asarray(colour)
            for x in (x1, x2):
                if 0 <= x < width:
                    out[n, rows, x] = xp.asarray(colour)
    return out


# ---------------------------------------------------------------------- random parts


class _Tries:
    """Numbers of one run, and crops by them, in TensorFlow's order and in its float32."""

    def __init__(self, stream: philox.Stream):
        self._words = philox.Words(stream)

    def _unit(self) -> np.float32:
        return np.float32((int(self._words.take(1)[0]) & 0x7FFFFF) * 2.0**-23)

    def _below(self, n: int) -> int:
        """Each of n as likely: of what a whole number of n leaves over, none is taken."""
        over = 0 if n & (n - 1) == 0 else (1 << 32) % n
        while (word := int(self._words.take(1)[0])) < over:
            pass
        return word % n

    def crop(
        self, height: int, width: int, ratios: Sequence[float], areas: Sequence[float]
    ) -> tuple[int, int, int, int] | None:
        """(y, x, height, width) of one whose width by its height, and area, lie in the ranges; None where it does not
        come out so. Its height is drawn evenly between the least and the most that the ranges allow."""
        low, high = map(np.float32, ratios)
        ratio = self._unit() * (high - low) + low
        least, most = (np.float32(share) * np.float32(width) * np.float32(height) for share in areas)
        h, tallest = _rounded(np.sqrt(least / ratio)), _rounded(np.sqrt(most / ratio))
        if _rounded(tallest * ratio) > width:
            tallest = int(np.float32(width + 0.5 - 1e-7) / ratio)
            tallest -= _rounded(tallest * ratio) > width
        tallest = min(tallest, height)
        h = h + self._below(tallest - h + 1) if h < tallest else tallest
        w = _rounded(h * ratio)
        if h * w < least:  # by rounding
            h += 1
            w = _rounded(h * ratio)
        if h * w > most:
            h -= 1
            w = _rounded(h * ratio)
        if not (0 < h <= height and 0 < w <= width and least <= h * w <= most):
            return None
        y = self._below(height - h) if h < height else 0
        return y, self._below(width - w) if w < width else 0, h, w


def _rounded(x: Any) -> int:
    return int(np.rint(np.float32(x)))


def _covers(crop: tuple[int, int, int, int], boxes: np.ndarray, share: np.float32) -> bool:
    """Whether it covers that share of one of the boxes (pixels) that have any area."""
    y, x, h, w = crop
    for y1, x1, y2, x2 in boxes.tolist():
        area = (y2 - y1) * (x2 - x1)
        inner = max(0, min(y + h, y2) - max(y, y1)) * max(0, min(x + w, x2) - max(x, x1))
        if area >= 1 and np.float32(inner) / np.float32(area) >= share:
            return True
    return False


def _must(node: Node, holds: Any, what: str, got: Any) -> None:
    if not holds:
        raise InvalidArgumentError(f"{node.op} {node.name!r}: {what}, got {got}")


@bound("SampleDistortedBoundingBoxV2", multi=True)
def _sample(node: Node) -> Function:
    stream, tries = draws(node), node.attrs["max_attempts"]
    ratios, areas = node.attrs["aspect_ratio_range"], node.attrs["area_range"]
    _must(node, min(ratios) > 0, "aspect_ratio_range must be positive", ratios)
    _must(node, min(areas) > 0 and max(areas) <= 1, "area_range must lie in (0, 1]", areas)
    _must(node, tries > 0, "max_attempts must be positive", tries)

    def run(image_size: Any, bounding_boxes: Any, covered: Any) -> Any:
        sizes, boxes = ints(image_size), host(bounding_boxes).reshape(-1, 4)
        _must(node, len(sizes) == 3 and min(sizes[:2]) > 0, "image_size must be [height, width, channels]", sizes)
        _must(node, host(covered) >= 0, "min_object_covered must not be negative", host(covered))
        _must(node, ((boxes >= 0) & (boxes <= 1)).all(), "boxes must lie in [0, 1]", boxes.tolist())
        height, width, _ = sizes
        if not len(boxes):
            if not node.attr("use_image_if_no_bounding_boxes"):
                raise InvalidArgumentError(
                    node, None, "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes"
                )
            boxes = np.array([[0.0, 0.0, 1.0, 1.0]], np.float32)
        pixels = (boxes * np.array([height, width, height, width], np.float32)).astype(np.int64)
        drawn, share = _Tries(stream.skip(tries)), np.float32(host(covered))
        crops = (drawn.crop(height, width, ratios, areas) for _ in range(tries))
        found = next((crop for crop in crops if crop and _covers(crop, pixels, share)), None)
        y, x, h, w = found or (0, 0, height, width)
        xp, kind = node.xp, image_size.dtype
        box = [[[y / height, x / width, (y + h) / height, (x + w) / width]]]
        return xp.asarray([y, x, 0], kind), xp.asarray([h, w, -1], kind), xp.asarray(box, xp.float32)

    return run
