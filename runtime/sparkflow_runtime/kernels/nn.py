"""Activations, biases, softmax and its losses, the k largest."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels import exp_loops, norm_loops
from sparkflow_runtime.kernels.fused_steps import SELU_ALPHA, SELU_SCALE, Whole, elu, selu, softplus
from sparkflow_runtime.kernels.host import check_indices, one_int
from sparkflow_runtime.kernels.pick_loops import count_above, handles, largest
from sparkflow_runtime.kernels.places import check_holds
from sparkflow_runtime.kernels.registry import kernel, prepares
from sparkflow_runtime.kernels.row_reductions import extreme, reduced
from sparkflow_runtime.kernels.stepwise import stepwise
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError

for _op, _steps in {"Elu": elu, "Selu": selu, "Softplus": softplus}.items():
    stepwise(_op)(lambda xp, x, steps=_steps: steps(Whole(xp), x))


@stepwise("Softsign")
def _softsign(xp: Any, x: Any) -> Any:
    return x / (x.dtype.type(1) + xp.abs(x))


@stepwise("LeakyRelu")
def _leaky_relu(xp: Any, x: Any, *, alpha: float = 0.2) -> Any:
    if not alpha:
        return xp.where(x > 0, x, x * x.dtype.type(0))  # 0 times an infinity is none
    return (xp.maximum if alpha <= 1 else xp.minimum)(x, x * x.dtype.type(alpha))


@stepwise("EluGrad", 2)
def _elu_grad(xp: Any, dy: Any, y: Any) -> Any:
    return xp.where(y < 0, dy * (y + y.dtype.type(1)), dy)


@stepwise("SeluGrad", 2)
def _selu_grad(xp: Any, dy: Any, y: Any) -> Any:
    kind = y.dtype.type
    return dy * xp.where(y < 0, y + kind(SELU_SCALE * SELU_ALPHA), kind(SELU_SCALE))


@stepwise("SoftplusGrad", 2)
def _softplus_grad(xp: Any, dy: Any, x: Any) -> Any:
    return dy / (x.dtype.type(1) + xp.exp(-x))


@stepwise("SoftsignGrad", 2)
def _softsign_grad(xp: Any, dy: Any, x: Any) -> Any:
    return dy / xp.square(x.dtype.type(1) + xp.abs(x))


@stepwise("LeakyReluGrad", 2)
def _leaky_relu_grad(xp: Any, dy: Any, x: Any, *, alpha: float = 0.2) -> Any:
    return xp.where(x > 0, dy, dy * dy.dtype.type(alpha))


# ---------------------------------------------------------------------- biases


def _channels(xp: Any, bias: Any, rank: int, data_format: str) -> Any:
    return bias.reshape(-1, *(1,) * (rank - 2)) if data_format == "NCHW" else bias


_NARROW, _MANY = 128, 1 << 15  # channels up to which numpy's loops are too short, elements from which that shows


@kernel("BiasAdd", in_place=(0,))
def _bias_add(xp: Any, value: Any, bias: Any, out: Any = None, *, data_format: str = "NHWC") -> Any:
    axis = 1 if data_format == "NCHW" else -1
    if bias.ndim != 1 or value.ndim < 2 or value.shape[axis] != bias.shape[0]:
        raise InvalidArgumentError(f"BiasAdd: bias {bias.shape} must fit axis {axis} of value {value.shape}")
    if axis == -1 and value.size >= _MANY and 1 < bias.size <= _NARROW and norm_loops.takes(value, bias):
        made, whole = np.empty_like(value) if out is None else out, value.flags.c_contiguous
        if whole and made.flags.c_contiguous:
            norm_loops.shifted(value.reshape(-1, bias.size), bias, made.reshape(-1, bias.size))
            return made
    return xp.add(value, _channels(xp, bias, value.ndim, data_format), out=out)


@kernel("BiasAddGrad")
def _bias_add_grad(xp: Any, dy: Any, *, data_format: str = "NHWC") -> Any:
    if dy.ndim < 2:
        raise InvalidArgumentError(f"BiasAddGrad: out_backprop must have at least two axes, got shape {dy.shape}")
    kept = 1 if data_format == "NCHW" else dy.ndim - 1
    axes = tuple(a for a in range(dy.ndim) if a != kept)
    found = reduced("sum", dy, axes, False)
    return xp.sum(dy, axes, dtype=dy.dtype) if found is None else found


# ---------------------------------------------------------------------- softmax


def _require_axis(logits: Any) -> None:
    if not logits.ndim:
        raise InvalidArgumentError("Softmax: logits must have at least one axis, got a scalar")


def _softmax(xp: Any, x: Any) -> tuple[Any, Any, Any]:
    """(softmax, the largest x of each row, the sum of exp(x - largest)): the largest exponent is 0."""
    _require_axis(x)
    if exp_loops.takes(x):
        return exp_loops.softmax(x)
    most = extreme(xp, "max", x, -1, True, -xp.inf)
    exps = xp.exp(x - most)
    total = exps.sum(-1, dtype=x.dtype, keepdims=True)
    return exps / total, most, total


def _log_softmax(xp: Any, x: Any) -> tuple[Any, Any]:
    """(log(softmax), softmax)."""
    made, most, total = _softmax(xp, x)
    return (x - most) - xp.log(total), made


prepares(norm_loops.prepare_shifts, "BiasAdd")
prepares(
    exp_loops.softmax_rows.prepare,
    "Softmax",
    "LogSoftmax",
    "SoftmaxCrossEntropyWithLogits",
    "SparseSoftmaxCrossEntropyWithLogits",
)
kernel("Softmax")(lambda xp, x: _softmax(xp, x)[0])
kernel("LogSoftmax")(lambda xp, x: _log_softmax(xp, x)[0])


@kernel("SoftmaxCrossEntropyWithLogits", multi=True)
def _softmax_cross_entropy(xp: Any, logits: Any, labels: Any) -> Any:
    """(loss of each row, its gradient by the logits)."""
    if max(logits.ndim, labels.ndim) != 2:
        raise InvalidArgumentError(
            f"SoftmaxCrossEntropyWithLogits: logits and labels must be matrices, got {logits.shape} and {labels.shape}"
        )
    made, most, total = _softmax(xp, logits)
    logs, loss = xp.log(total), None
    if xp is np and (logits.shape, logits.dtype) == (labels.shape, labels.dtype) and labels.dtype.char in "fd":
        with np.errstate(invalid="ignore"):
            low = logits - most
            loss = logs[:, 0] * np.vecdot(labels, np.ones_like(labels[:1])) - np.vecdot(labels, low)
    if loss is None or bool(xp.isnan(loss).any()):
        # a label of 0 costs nothing, even where the logit is -inf
        loss = -xp.where(labels == 0, labels.dtype.type(0), labels * (logits - most - logs)).sum(-1, dtype=logits.dtype)
    if made.shape == labels.shape:
        made -= labels
        return loss, made
    return loss, made - labels


@kernel("SparseSoftmaxCrossEntropyWithLogits", multi=True)
def _sparse_softmax_cross_entropy(xp: Any, logits: Any, labels: Any) -> Any:
    if labels.shape != logits.shape[:1]:
        raise InvalidArgumentError(
            f"SparseSoftmaxCrossEntropyWithLogits: labels {labels.shape} must have an entry a row of logits "
            f"{logits.shape}"
        )
    check_indices(labels, logits.shape[1], "SparseSoftmaxCrossEntropyWithLogits (labels)")
    backprop, most, total = _softmax(xp, logits)
    rows = xp.arange(len(labels))
    loss = xp.log(total[:, 0]) - (logits[rows, labels] - most[:, 0])
    backprop[rows, labels] -= 1
    return loss, backprop


# ---------------------------------------------------------------------- the largest


@kernel("TopKV2", multi=True)
def _top_k(xp: Any, x: Any, k: Any, *, index_type: DType | None = None) -> Any:
    """Largest first; of equals, the lower index first: a stable sort from the end, of the array read backwards."""
    if k.ndim:
        raise InvalidArgumentError(f"TopKV2: k must be a scalar, got shape {k.shape}")
    count = one_int(k)
    if not x.ndim or not 0 <= count <= x.shape[-1]:
        raise InvalidArgumentError(f"TopKV2: k = {count} must be between 0 and the columns of input {x.shape}")
    want = index_type.np if index_type else np.int32
    check_holds("TopKV2", x.shape[-1] - 1, want, "index_type")
    if xp is np and handles(x, count):
        values, places = largest(x, count)
        return values, places.astype(want)
    if xp is np and x.shape[-1] >= _WIDE and 2 * count <= x.shape[-1] and bool((x == x).all()):
        values, places = _of_wide_rows(x, count)
        return values, places.astype(want)
    order = x.shape[-1] - 1 - xp.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1][..., :count]
    return xp.take_along_axis(x, order, -1), order.astype(want)


_WIDE = 512


def _of_wide_rows(x: Any, count: int) -> tuple[Any, Any]:
    """What is above the last of the largest, and the first of what is equal to it; only those are sorted."""
    rows = x.reshape(-1, x.shape[-1])
    least = np.partition(rows, rows.shape[1] - count, 1)[:, rows.shape[1] - count]
    places = np.empty((len(rows), count), np.int64)
    for row, end, found in zip(rows, least, places):
        above = np.flatnonzero(row > end)
        own = np.concatenate([above, np.flatnonzero(row == end)[: count - len(above)]])
        own.sort()
        found[:] = own[::-1][np.argsort(row[own[::-1]], kind="stable")][::-1]
    places = places.reshape(*x.shape[:-1], count)
    return np.take_along_axis(x, places, -1), places


@kernel("InTopK")
def _in_top_k_attr(xp: Any, predictions: Any, targets: Any, *, k: int) -> Any:
    return _in_top_k(xp, predictions, targets, k)


@kernel("InTopKV2")
def _in_top_k(xp: Any, predictions: Any, targets: Any, k: Any) -> Any:
    """Fewer than k classes lie above the target's; a target outside the classes, or not finite, is not in."""
    if predictions.ndim != 2 or targets.shape != predictions.shape[:1]:
        raise InvalidArgumentError(
            f"InTopK: predictions must be [batch, classes] and targets [batch], got {predictions.shape} and "
            f"{targets.shape}"
        )
    inside = (targets >= 0) & (targets < predictions.shape[1])
    if xp is np and predictions.dtype in (np.float32, np.float64) and predictions.size:
        counts = np.empty(len(targets), np.int64)
        count_above(np.ascontiguousarray(predictions), np.where(inside, targets, 0).astype(np.int64), counts)
        return inside & (counts >= 0) & (counts < one_int(k))
    if not predictions.size:
        return inside
    own = predictions[xp.arange(len(targets)), xp.where(inside, targets, 0)]
    above = xp.sum(predictions > own[:, None], 1)
    finite = xp.isfinite(own) & xp.isfinite(predictions).all(1)
    return inside & finite & (above < one_int(k))
