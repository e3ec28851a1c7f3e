"""Boxes in images, (y1, x1, y2, x2) as parts of height and width: cut out, drawn, chosen among many."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value, constant_value_as_shape
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.random_seed import get_seed
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import rules
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

# ---------------------------------------------------------------------- static shapes


def _box_count(op: Operation, boxes: Tensor, others: dict[str, Tensor]) -> int | None:
    """How many boxes [n, 4] there are; others: name -> what has one value for each."""
    n, four = rules.require_matrix(op, "boxes", boxes)
    if four not in (None, 4):
        raise InvalidArgumentError(f"{op.type}: boxes must be [n, 4], got shape {shapes.show(boxes._shape)}")
    for name, tensor in others.items():
        own = rules.require_rank(op, name, tensor, 1)
        if not shapes.compatible((n,), own):
            raise InvalidArgumentError(
                f"{op.type}: {name} must have one value for each box, got shape {shapes.show(own)} for boxes "
                f"{shapes.show(boxes._shape)}"
            )
        n = own[0] if n is None and own is not None else n
    return n


def _kept_rule(op: Operation) -> list[Dims]:
    """Indices of boxes; padded ones are as many as asked for."""
    if op.type == "NonMaxSuppressionWithOverlaps":
        rows, columns = rules.require_matrix(op, "overlaps", op.inputs[0])
        shapes.merge((rows,), (columns,))
        shapes.merge((rows,), rules.require_rank(op, "scores", op.inputs[1], 1))
    else:
        _box_count(op, op.inputs[0], {"scores": op.inputs[1]})
    for tensor, arg in zip(op.inputs[2:], op.spec.inputs[2:], strict=True):
        rules.require_rank(op, arg.name, tensor, 0)
    most = constant_value(op.inputs[2]) if op.attrs.get("pad_to_max_output_size") else None
    count = None if most is None else int(most)
    return [() if arg.name == "valid_outputs" else (count,) for arg in op.spec.outputs]


def _combined_rule(op: Operation) -> list[Dims]:
    boxes = rules.require_rank(op, "boxes", op.inputs[0], 4) or (None,) * 4
    scores = rules.require_rank(op, "scores", op.inputs[1], 3) or (None,) * 3
    shapes.merge(boxes[:2], scores[:2])
    shapes.merge(boxes[3:], (4,))
    batch = boxes[0] if scores[0] is None else scores[0]
    each, total = (constant_value(t) for t in op.inputs[2:4])
    most = None if total is None else int(total)
    if most is not None and op.attrs["pad_per_class"]:
        classes = scores[2]
        most = None if each is None or classes is None else min(most, int(each) * classes)
    return [(batch, most, 4), (batch, most), (batch, most), (batch,)]


def _cut_rule(op: Operation) -> list[Dims]:
    image = rules.require_rank(op, "image", op.inputs[0], 4) or (None,) * 4
    count = _box_count(op, op.inputs[1], {"box_ind": op.inputs[2]})
    size = constant_value_as_shape(op.inputs[3]) or (None, None)
    if len(size) != 2:
        raise InvalidArgumentError(f"CropAndResize: crop_size must be two numbers, got {shapes.show(size)}")
    return [(count, *size, image[3])]


def _drawn_rule(op: Operation) -> list[Dims]:
    rules.require_rank(op, "boxes", op.inputs[1], 3)
    return [rules.require_rank(op, "images", op.inputs[0], 4)]


def _glimpse_rule(op: Operation) -> list[Dims]:
    image = rules.require_rank(op, "input", op.inputs[0], 4) or (None,) * 4
    offsets = rules.require_rank(op, "offsets", op.inputs[2], 2) or (None, None)
    if offsets[1] not in (None, 2):
        raise InvalidArgumentError(f"{op.type}: offsets must be [batch, 2], got shape {shapes.show(offsets)}")
    size = constant_value_as_shape(op.inputs[1]) or (None, None)
    return [(*(shapes.merge(image[:1], offsets[:1]) or (None,)), *size, image[3])]


# ---------------------------------------------------------------------- rows

_F: dict[str, Any] = {"T": dtypes.float32}
_LIMITS = "iou_threshold: {0}, score_threshold: {0}"
_BOTH: dict[str, Any] = {"T": dtypes.float32, "T_threshold": dtypes.float32}
op(
    "NonMaxSuppression",
    "boxes: float32, scores: float32, max_output_size: int32 -> selected_indices: int32",
    _kept_rule,
    iou_threshold=0.5,
)
op(
    "NonMaxSuppressionV2",
    "boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold -> selected_indices: int32",
    _kept_rule,
    **_BOTH,
)
op(
    "NonMaxSuppressionV3",
    f"boxes: T, scores: T, max_output_size: int32, {_LIMITS.format('T_threshold')} -> selected_indices: int32",
    _kept_rule,
    **_BOTH,
)
op(
    "NonMaxSuppressionV4",
    f"boxes: T, scores: T, max_output_size: int32, {_LIMITS.format('T_threshold')} -> selected_indices: int32, "
    "valid_outputs: int32",
    _kept_rule,
    pad_to_max_output_size=False,
    **_BOTH,
)
op(
    "NonMaxSuppressionV5",
    f"boxes: T, scores: T, max_output_size: int32, {_LIMITS.format('T')}, soft_nms_sigma: T -> "
    "selected_indices: int32, selected_scores: T, valid_outputs: int32",
    _kept_rule,
    pad_to_max_output_size=False,
    **_F,
)
op(
    "NonMaxSuppressionWithOverlaps",
    "overlaps: float32, scores: float32, max_output_size: int32, overlap_threshold: float32, score_threshold: float32"
    " -> selected_indices: int32",
    _kept_rule,
)
op(
    "CombinedNonMaxSuppression",
    "boxes: float32, scores: float32, max_output_size_per_class: int32, max_total_size: int32, "
    f"{_LIMITS.format('float32')} -> nmsed_boxes: float32, nmsed_scores: float32, nmsed_classes: float32, "
    "valid_detections: int32",
    _combined_rule,
    pad_per_class=False,
    clip_boxes=True,
)
op("DrawBoundingBoxes", "images: T, boxes: float32 -> output: T", _drawn_rule, **_F)
op("DrawBoundingBoxesV2", "images: T, boxes: float32, colors: float32 -> output: T", _drawn_rule, **_F)
op(
    "CropAndResize",
    "image: T, boxes: float32, box_ind: int32, crop_size: int32 -> crops: float32",
    _cut_rule,
    method="bilinear",
    extrapolation_value=0.0,
)
op(
    "CropAndResizeGradImage",
    "grads: float32, boxes: float32, box_ind: int32, image_size: int32 -> output: T",
    lambda op: [shapes.merge(constant_value_as_shape(op.inputs[3]), (None,) * 4)],
    method="bilinear",
)
op(
    "CropAndResizeGradBoxes",
    "grads: float32, image: T, boxes: float32, box_ind: int32 -> output: float32",
    lambda op: [shapes.merge(op.inputs[2]._shape, (None, 4))],
    method="bilinear",
)
op(
    "ExtractGlimpse",
    "input: float32, size: int32, offsets: float32 -> glimpse: float32",
    _glimpse_rule,
    centered=True,
    normalized=True,
    uniform_noise=True,
    noise="uniform",
)
op(
    "SampleDistortedBoundingBoxV2",
    "image_size: T, bounding_boxes: float32, min_object_covered: float32 -> begin: T, size: T, bboxes: float32",
    lambda op: [(3,), (3,), (1, 1, 4)],
    stateful=True,
    seed=0,
    seed2=0,
    aspect_ratio_range=[0.75, 1.3300000429153442],
    area_range=[0.05000000074505806, 1.0],
    max_attempts=100,
    use_image_if_no_bounding_boxes=False,
)

# ---------------------------------------------------------------------- choosing


def non_max_suppression(
    boxes: Any, scores: Any, max_output_size: Any, iou_threshold: float = 0.5, score_threshold: float = float("-inf"),
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """The indices of boxes [n, 4] (y1, x1, y2, x2), best score first, without those that overlap a better one by more
    than iou_threshold (intersection over union)."""
    inputs = [boxes, scores, max_output_size, iou_threshold, score_threshold]
    return apply_op("NonMaxSuppressionV3", inputs, name=name or "non_max_suppression")


def non_max_suppression_with_scores(
    boxes: Any, scores: Any, max_output_size: Any, iou_threshold: float = 0.5, score_threshold: float = float("-inf"),
    soft_nms_sigma: float = 0.0, name: str | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(indices as of non_max_suppression, their scores). soft_nms_sigma above 0: overlaps lower the other's score by
    exp(-overlap^2 / (2 sigma)) (Bodla et al. 2017)."""
    inputs = [boxes, scores, max_output_size, iou_threshold, score_threshold, soft_nms_sigma]
    indices, left, _ = apply_op("NonMaxSuppressionV5", inputs, name=name or "non_max_suppression_with_scores")
    return indices, left


def non_max_suppression_padded(
    boxes: Any, scores: Any, max_output_size: Any, iou_threshold: float = 0.5, score_threshold: float = float("-inf"),
    pad_to_max_output_size: bool = False, name: str | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(indices as of non_max_suppression, filled up with zeros to max_output_size where asked; how many count)."""
    inputs = [boxes, scores, max_output_size, iou_threshold, score_threshold]
    attrs = {"pad_to_max_output_size": pad_to_max_output_size}
    return apply_op("NonMaxSuppressionV4", inputs, attrs, name or "non_max_suppression_padded")


def non_max_suppression_overlaps(
    overlaps: Any, scores: Any, max_output_size: Any, overlap_threshold: float = 0.5,
    score_threshold: float = float("-inf"), name: str | None = None,
) -> Tensor:  # fmt: skip
    """As non_max_suppression, of overlaps [n, n] that are given."""
    inputs = [overlaps, scores, max_output_size, overlap_threshold, score_threshold]
    return apply_op("NonMaxSuppressionWithOverlaps", inputs, name=name or "non_max_suppression_overlaps")


def combined_non_max_suppression(
    boxes: Any, scores: Any, max_output_size_per_class: Any, max_total_size: Any, iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"), pad_per_class: bool = False, clip_boxes: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """(boxes [batch, k, 4], scores, classes, how many count [batch]): non_max_suppression of each class, and the best
    of all classes. boxes: [batch, n, 1 or classes, 4], scores: [batch, n, classes]; what is left of k is zeros."""
    total = convert_to_tensor(max_total_size, dtypes.int32, "max_total_size")
    inputs = [boxes, scores, max_output_size_per_class, total, iou_threshold, score_threshold]
    attrs = {"pad_per_class": pad_per_class, "clip_boxes": clip_boxes}
    return apply_op("CombinedNonMaxSuppression", inputs, attrs, name or "combined_non_max_suppression")


def sample_distorted_bounding_box(
    image_size: Any, bounding_boxes: Any, seed: int | None = None, seed2: int | None = None,
    min_object_covered: Any = 0.1, aspect_ratio_range: Any = None, area_range: Any = None, max_attempts: int = 100,
    use_image_if_no_bounding_boxes: bool = False, name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(begin, size, box [1, 1, 4]) of a random part of the image, that covers at least min_object_covered of one of the
    boxes [batch, n, 4], for slice and draw_bounding_boxes. The whole image after max_attempts failures."""
    seed_a, seed_b = get_seed(seed) if not seed2 else (seed or 0, seed2)
    attrs = {
        "seed": seed_a, "seed2": seed_b, "max_attempts": max_attempts,
        "aspect_ratio_range": list(aspect_ratio_range or [0.75, 1.33]), "area_range": list(area_range or [0.05, 1.0]),
        "use_image_if_no_bounding_boxes": use_image_if_no_bounding_boxes,
    }  # fmt: skip
    inputs = [image_size, bounding_boxes, min_object_covered]
    return apply_op("SampleDistortedBoundingBoxV2", inputs, attrs, name)


# ---------------------------------------------------------------------- cutting and drawing


def crop_and_resize(
    image: Any, boxes: Any, box_ind: Any = None, crop_size: Any = None, method: str = "bilinear",
    extrapolation_value: float = 0, name: str | None = None, box_indices: Any = None,
) -> Tensor:  # fmt: skip
    """[n, *crop_size, channels] of float32: box i of image box_ind[i] of a batch, resized; extrapolation_value where a
    box lies outside. method: "bilinear" or "nearest". Both the image and the boxes get gradients.

    Raises InvalidArgumentError when it runs on a box_ind that is not in the batch.
    """
    attrs = {"method": method, "extrapolation_value": float(extrapolation_value)}
    return apply_op(
        "CropAndResize", [image, boxes, box_indices if box_ind is None else box_ind, crop_size], attrs, name
    )


def draw_bounding_boxes(images: Any, boxes: Any, name: str | None = None, colors: Any = None) -> Tensor:
    """images [batch, h, w, depth] with frames of boxes [batch, n, 4] (y1, x1, y2, x2 in [0, 1]), in `colors`
    [k, depth] one after the other, or in ten of their own."""
    if colors is None:
        return apply_op("DrawBoundingBoxes", [images, boxes], name=name)
    return apply_op("DrawBoundingBoxesV2", [images, boxes, colors], name=name)


def extract_glimpse(
    input: Any, size: Any, offsets: Any, centered: bool = True, normalized: bool = True, uniform_noise: bool = True,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """[batch, *size, channels]: windows of images around offsets [batch, 2] (y, x).

    centered: offsets count from the middle of the image. normalized: a side is 1 long (2, with centered). What lies
    outside is noise: uniform between the image's extremes, or normal.
    """
    attrs = {"centered": centered, "normalized": normalized, "uniform_noise": uniform_noise}
    noise = "uniform" if uniform_noise else "gaussian"
    return apply_op("ExtractGlimpse", [input, size, offsets], {**attrs, "noise": noise}, name)
