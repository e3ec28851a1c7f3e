"""Normalisation: over a batch (FusedBatchNorm and its gradient), over neighbouring channels (LRN)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import norm_batches, norm_loops
from sparkflow_runtime.kernels.parallel import runs, share
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.wire.errors import InvalidArgumentError

Function = Callable[..., Any]
_LARGE, _BLOCK = 1 << 15, 1 << 13  # elements from which rows are taken by blocks, and of a block

# ---------------------------------------------------------------------- over a batch


def _rows(xp: Any, x: Any, channel: int, dtype: Any) -> Any:
    """x as [cells, channels] of that dtype."""
    last = x if channel == x.ndim - 1 else xp.moveaxis(x, channel, -1)
    return xp.ascontiguousarray(last).reshape(-1, last.shape[-1]).astype(dtype, copy=False)


def _shaped(xp: Any, rows: Any, like: Any, channel: int) -> Any:
    """What `_rows` undid, of like's shape and dtype."""
    order = [*like.shape[:channel], *like.shape[channel + 1 :], like.shape[channel]]
    out = rows.reshape(order).astype(like.dtype, copy=False)
    return out if channel == like.ndim - 1 else xp.ascontiguousarray(xp.moveaxis(out, -1, channel))


def _column_sums(xp: Any, rows: Any) -> Any:
    """As a product with ones: BLAS adds in blocks, which is faster and loses less than row after row."""
    return xp.matmul(xp.ones((1, len(rows)), rows.dtype), rows)[0]


def _channel_of(node: Node, x: Any) -> int:
    if x.ndim not in (4, 5):
        raise InvalidArgumentError(f"{node.op}: x must be of rank 4 or 5, got shape {x.shape}")
    return 1 if str(node.attr("data_format", "NHWC")).startswith("NC") else x.ndim - 1


def _check_vectors(node: Node, channels: int, **vectors: Any) -> None:
    for name, vector in vectors.items():
        if vector.shape != (channels,):
            raise InvalidArgumentError(f"{node.op}: {name} must have shape ({channels},), got {vector.shape}")


def _moments(xp: Any, rows: Any) -> tuple[Any, Any]:
    """Mean and variance (of the batch itself) of each column."""
    if norm_loops.takes(rows):
        return norm_loops.moments(rows)
    count = rows.dtype.type(max(1, len(rows)))
    mean = _column_sums(xp, rows) / count
    return mean, _column_sums(xp, xp.square(rows - mean)) / count


def _scaled(xp: Any, rows: Any, mean: Any, inverse: Any, offset: Any) -> Any:
    if norm_loops.takes(rows, mean, inverse, offset):
        return norm_loops.normalised(rows, mean, inverse, offset)
    y = (rows - mean) * inverse
    y += offset
    return y


@bound("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", stateful=False, multi=True)
def _fused_batch_norm(node: Node) -> Function:
    """Returns (y, mean, variance, and the same as the gradient wants them).

    In training the statistics are the batch's, and what is handed out for a running average is the variance divided by
    n - 1, mixed into the given one by exponential_avg_factor.
    """
    xp, epsilon, training = node.xp, node.attr("epsilon", 1e-4), node.attr("is_training", True)
    factor = node.attr("exponential_avg_factor", 1.0)
    if xp is np:
        norm_batches.prepare()

    def run(x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
        channel = _channel_of(node, x)
        _check_vectors(node, x.shape[channel], scale=scale, offset=offset)
        rows, kind = _rows(xp, x, channel, scale.dtype), scale.dtype.type
        y = None
        if training:
            ratio = kind(len(rows) / max(1, len(rows) - 1))
            if norm_loops.takes(rows, scale, offset) and norm_batches.takes(rows):
                y, used_mean, used_variance, unbiased = norm_batches.normalised(
                    rows, scale, offset, kind(epsilon), ratio
                )
            else:
                used_mean, used_variance = _moments(xp, rows)
                unbiased = used_variance * ratio
            out = [used_mean, unbiased]
            if factor != 1.0:
                _check_vectors(node, x.shape[channel], mean=mean, variance=variance)
                out = [old * kind(1 - factor) + new * kind(factor) for old, new in zip((mean, variance), out)]
        else:
            _check_vectors(node, x.shape[channel], mean=mean, variance=variance)
            used_mean, used_variance = mean, variance
            out = [mean.copy(), variance.copy()]
        if y is None:
            y = _scaled(xp, rows, used_mean, scale / xp.sqrt(used_variance + kind(epsilon)), offset)
        kept = [used_mean.copy(), used_variance.copy()]
        if not x.size:  # as in TensorFlow, also in inference
            out = [xp.full_like(scale, np.nan)] * 2
        extra = [xp.zeros((), scale.dtype)] if node.op.endswith("V3") else []
        return [_shaped(xp, y, x, channel), *out, *kept, *extra]

    return run


@bound("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3", stateful=False, multi=True)
def _fused_batch_norm_grad(node: Node) -> Function:
    """dx = s/r (dy - mean(dy) - x^ mean(dy x^)), x^ = (x - mean) / r, r = sqrt(variance + epsilon); in inference, where
    the statistics are constants, s/r dy. Source: Ioffe and Szegedy 2015, s. 3."""
    xp, epsilon, training = node.xp, node.attr("epsilon", 1e-4), node.attr("is_training", True)

    if xp is np:
        norm_batches.prepare()

    def run(dy: Any, x: Any, scale: Any, mean: Any, variance: Any, *_: Any) -> Any:
        channel = _channel_of(node, x)
        if dy.shape != x.shape:
            raise InvalidArgumentError(f"{node.op}: y_backprop {dy.shape} must have the shape of x {x.shape}")
        _check_vectors(node, x.shape[channel], scale=scale, reserve_space_1=mean, reserve_space_2=variance)
        # the type of the statistics, not of scale: that is always float32 in the later versions of this op
        rows, up, kind = (*(_rows(xp, t, channel, mean.dtype) for t in (x, dy)), mean.dtype.type)
        unused = xp.zeros(0, mean.dtype)
        if training and norm_loops.takes(rows, up, scale, mean, variance) and norm_batches.takes(rows, up):
            dx, *more = norm_batches.gradients(up, rows, scale, mean, variance, kind(epsilon))
            return [_shaped(xp, dx, x, channel), *more, unused, unused]
        inverse = kind(1) / xp.sqrt(variance + kind(epsilon))
        factor = scale.astype(mean.dtype, copy=False) * inverse
        count = kind(max(1, len(rows)))
        if norm_loops.takes(rows, up, mean, inverse):
            doffset, dscale = norm_loops.gradient_sums(up, rows, mean, inverse)
            held = (mean, dscale / count * inverse, doffset / count, factor)
            dx = norm_loops.gradient(up, rows, *held) if training else up * factor
        else:
            normal = (rows - mean) * inverse
            doffset, dscale = _column_sums(xp, up), _column_sums(xp, up * normal)
            dx = up - (normal * (dscale / count) + doffset / count) if training else up
            dx = dx * factor
        return [_shaped(xp, dx, x, channel), dscale, doffset, unused, unused]

    return run


# ---------------------------------------------------------------------- over neighbouring channels


def _window_sums(xp: Any, x: Any, radius: int) -> Any:
    """The sum over the channels from c - radius to c + radius."""
    if norm_loops.takes(x) and x.ndim == 2 and x.flags.c_contiguous:
        out = np.empty_like(x)
        norm_loops.window_sums(x, out, radius)
        return out
    total = x.copy()
    for shift in range(1, min(radius, x.shape[-1] - 1) + 1):
        total[..., shift:] += x[..., :-shift]
        total[..., :-shift] += x[..., shift:]
    return total


def _lrn_settings(node: Node, dtype: Any) -> tuple[int, Any, Any, Any]:
    numbers = [dtype.type(node.attr(name, value)) for name, value in (("bias", 1.0), ("alpha", 1.0), ("beta", 0.5))]
    return (node.attr("depth_radius", 5), *numbers)


def _wide(x: Any) -> Any:
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def _power(xp: Any, norm: Any, beta: Any) -> Any:
    """norm ** -beta; by roots where that is possible, since numpy's powers take ten times as long."""
    if beta == 1:
        return 1 / norm
    if beta not in (0.5, 0.75):
        return norm**-beta
    root = 1 / xp.sqrt(norm)
    return root if beta == 0.5 else root * xp.sqrt(root)


def _by_rows(xp: Any, compute: Function, *arrays: Any) -> Any:
    """compute(*arrays) of arrays of one shape, whose last axis it works along: so many rows at a time as stay in the
    cache, shared out over threads."""
    shape, dtype = arrays[0].shape, arrays[0].dtype
    if xp is not np or arrays[0].size < _LARGE:
        return compute(*arrays).astype(dtype, copy=False)
    rows = [np.ascontiguousarray(a).reshape(-1, shape[-1]) for a in arrays]
    out = np.empty_like(rows[0])

    def each(blocks: Sequence[tuple[int, int]]) -> None:
        for first, count in blocks:
            part = slice(first, first + count)
            out[part] = compute(*(a[part] for a in rows))

    share(each, runs(len(out), max(1, _BLOCK // shape[-1])))
    return out.reshape(shape)


@bound("LRN", stateful=False)
def _lrn(node: Node) -> Function:
    """x / (bias + alpha * sum of squares of the neighbours) ** beta. Source: Krizhevsky et al. 2012, s. 3.3."""
    xp = node.xp
    norm_loops.window_sums.prepare()

    def run(x: Any) -> Any:
        if x.ndim != 4:
            raise InvalidArgumentError(f"LRN: input must be of rank 4, got shape {x.shape}")
        return _by_rows(xp, normalised, x)

    def normalised(x: Any) -> Any:
        wide = _wide(x)
        radius, bias, alpha, beta = _lrn_settings(node, wide.dtype)
        norm = bias + alpha * _window_sums(xp, xp.square(wide), radius)
        return wide * _power(xp, norm, beta)

    return run


@bound("LRNGrad", stateful=False)
def _lrn_grad(node: Node) -> Function:
    """dx = dy n ** -beta - 2 alpha beta x sum over the neighbours of dy y / n."""
    xp = node.xp
    norm_loops.window_sums.prepare()

    def run(dy: Any, x: Any, y: Any) -> Any:
        if not dy.shape == x.shape == y.shape or x.ndim != 4:
            raise InvalidArgumentError(
                f"LRNGrad: input_grads {dy.shape}, input_image {x.shape} and output_image {y.shape} must have one "
                "shape of rank 4"
            )
        return _by_rows(xp, gradient, dy, x, y)

    def gradient(dy: Any, x: Any, y: Any) -> Any:
        up, wide, out = _wide(dy), _wide(x), _wide(y)
        radius, bias, alpha, beta = _lrn_settings(node, wide.dtype)
        norm = bias + alpha * _window_sums(xp, xp.square(wide), radius)
        shared = _window_sums(xp, up * out / norm, radius)
        return up * _power(xp, norm, beta) - wide.dtype.type(2) * alpha * beta * wide * shared

    return run
