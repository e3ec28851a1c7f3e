"""Windows laid out as columns, grey-scale morphology, and pools whose windows have changing sizes.

Source: Graham 2014 (fractional pooling).
"""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value_as_shape
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.random_seed import get_seed
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, math, rules
from sparkflow.ops.nn_window import space_sizes
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _patches_rule(op: Operation) -> list[Dims]:
    ksizes = op.attrs["ksizes"]
    dims = rules.require_rank(op, op.spec.inputs[0].name, op.inputs[0], len(ksizes)) or (None,) * len(ksizes)
    if ksizes[0] != 1 or ksizes[-1] != 1 or min(ksizes) < 1:
        raise InvalidArgumentError(f"{op.type}: ksizes must be above 0, and 1 for batch and channels, got {ksizes}")
    space = space_sizes(op, dims, ksizes[1:-1]) or ()
    channels = dims[-1]
    return [(dims[0], *space, None if channels is None else channels * shapes.product(ksizes))]


def _dilation_rule(op: Operation) -> list[Dims]:
    dims = rules.require_rank(op, "input", op.inputs[0], 4) or (None,) * 4
    taps = rules.require_rank(op, "filter", op.inputs[1], 3) or (None,) * 3
    if not shapes.compatible(dims[-1:], taps[-1:]):
        raise InvalidArgumentError(
            f"Dilation2D: input {shapes.show(dims)} and filter {shapes.show(taps)} must have the same channels"
        )
    return [(dims[0], *(space_sizes(op, dims, taps[:2]) or ()), dims[3] if taps[2] is None else taps[2])]


def _fractional_rule(op: Operation) -> list[Dims]:
    dims = rules.require_rank(op, "value", op.inputs[0], 4) or (None,) * 4
    ratios = op.attrs["pooling_ratio"]
    if len(ratios) != 4 or ratios[0] != 1 or ratios[3] != 1 or min(ratios) < 1:
        raise InvalidArgumentError(
            f"{op.type}: pooling_ratio must be 4 numbers of at least 1, and 1 for batch and channels, got {ratios}"
        )
    out = tuple(None if d is None else int(d / r) for d, r in zip(dims, ratios, strict=True))
    return [out, *((None if n is None else n + 1,) for n in out[1:3])]


op("ExtractImagePatches", "images: T -> patches: T", _patches_rule)
op("ExtractVolumePatches", "input: T -> patches: T", _patches_rule)
op("Dilation2D", "input: T, filter: T -> output: T", _dilation_rule)
_BACK = "input: T, filter: T, out_backprop: T -> {0}_backprop: T"
op("Dilation2DBackpropInput", _BACK.format("in"), lambda op: [op.inputs[0]._shape])
op("Dilation2DBackpropFilter", _BACK.format("filter"), lambda op: [op.inputs[1]._shape])
for _kind in ("Avg", "Max"):
    op(
        f"Fractional{_kind}Pool",
        "value: T -> output: T, row_pooling_sequence: int64, col_pooling_sequence: int64",
        _fractional_rule,
        pseudo_random=False,
        overlapping=False,
        deterministic=False,
        seed=0,
        seed2=0,
    )
_SEQUENCES = "out_backprop: T, row_pooling_sequence: int64, col_pooling_sequence: int64 -> output: T"
op(
    "FractionalMaxPoolGrad",
    f"orig_input: T, orig_output: T, {_SEQUENCES}",
    lambda op: [rules.require_rank(op, "orig_input", op.inputs[0], 4)],
    overlapping=False,
)
op(
    "FractionalAvgPoolGrad",
    f"orig_input_tensor_shape: int64, {_SEQUENCES}",
    lambda op: [shapes.merge(constant_value_as_shape(op.inputs[0]), (None,) * 4)],
    overlapping=False,
)


def extract_image_patches(
    images: Any, ksizes: Any = None, strides: Any = None, rates: Any = None, padding: str | None = None,
    name: str | None = None, sizes: Any = None,
) -> Tensor:  # fmt: skip
    """[batch, rows, columns, height * width * channels]: what a window [1, height, width, 1] sees at each place of
    images [batch, h, w, channels]. rates: cells between its taps. Outside of the image there are zeros."""
    attrs = {
        "ksizes": [int(k) for k in (sizes if ksizes is None else ksizes)], "strides": [int(s) for s in strides],
        "rates": [int(r) for r in rates], "padding": padding,
    }  # fmt: skip
    return apply_op("ExtractImagePatches", [images], attrs, name)


def extract_patches(images: Any, sizes: Any, strides: Any, rates: Any, padding: str, name: str | None = None) -> Tensor:
    """As extract_image_patches."""
    return extract_image_patches(images, sizes, strides, rates, padding, name)


def extract_volume_patches(input: Any, ksizes: Any, strides: Any, padding: str, name: str | None = None) -> Tensor:
    """As extract_image_patches, over [batch, depth, height, width, channels]."""
    attrs = {"ksizes": [int(k) for k in ksizes], "strides": [int(s) for s in strides], "padding": padding}
    return apply_op("ExtractVolumePatches", [input], attrs, name)


def dilation2d(
    input: Any, filter: Any = None, strides: Any = None, rates: Any = None, padding: str | None = None,
    name: str | None = None, filters: Any = None, dilations: Any = None,
) -> Tensor:  # fmt: skip
    """The largest of input + filter in each window: [batch, h, w, channels] and [height, width, channels]. strides,
    rates: 4 numbers, 1 for batch and channels."""
    attrs = {
        "strides": [int(s) for s in strides], "padding": padding,
        "rates": [int(r) for r in (dilations if rates is None else rates)],
    }  # fmt: skip
    return apply_op("Dilation2D", [input, filters if filter is None else filter], attrs, name)


def erosion2d(value: Any, kernel: Any, strides: Any, rates: Any, padding: str, name: str | None = None) -> Tensor:
    """The smallest of value - kernel, turned by 180 degrees, in each window."""
    with get_default_graph().name_scope(name or "erosion2d") as scope:
        turned = array.reverse(convert_to_tensor(kernel, name="kernel"), [0, 1])
        widest = dilation2d(math.negative(convert_to_tensor(value, name="value")), turned, strides, rates, padding)
        return math.negative(widest, name=scope)


def _fractional(
    op_type: str, value: Any, ratio: Any, pseudo: bool, overlapping: bool, deterministic: bool, seed: int | None,
    seed2: int | None, name: str | None,
) -> Any:  # fmt: skip
    one, two = (seed or 0, seed2 or 0) if deterministic or seed2 else get_seed(seed) if seed else (0, 0)
    attrs = {
        "pooling_ratio": [float(r) for r in ratio], "pseudo_random": pseudo, "overlapping": overlapping,
        "deterministic": deterministic, "seed": one, "seed2": two,
    }  # fmt: skip
    return apply_op(op_type, [value], attrs, name)


def fractional_max_pool(
    value: Any, pooling_ratio: Any, pseudo_random: bool = False, overlapping: bool = False, deterministic: bool = False,
    seed: int = 0, seed2: int = 0, name: str | None = None,
) -> Any:  # fmt: skip
    """(output, row_pooling_sequence, col_pooling_sequence): the largest cells of windows of two sizes in random order,
    so that the output is `pooling_ratio` [1, r, c, 1] times smaller.

    pseudo_random: the sizes alternate as evenly as they can. overlapping: a window's last row is the next one's first.
    deterministic: the same windows in every run.
    """
    found = pooling_ratio, pseudo_random, overlapping, deterministic, seed, seed2, name
    return _fractional("FractionalMaxPool", value, *found)


def fractional_avg_pool(
    value: Any, pooling_ratio: Any, pseudo_random: bool = False, overlapping: bool = False, deterministic: bool = False,
    seed: int = 0, seed2: int = 0, name: str | None = None,
) -> Any:  # fmt: skip
    """As fractional_max_pool, with the windows' means."""
    found = pooling_ratio, pseudo_random, overlapping, deterministic, seed, seed2, name
    return _fractional("FractionalAvgPool", value, *found)
