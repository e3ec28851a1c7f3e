"""Cross entropies."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, array_select, math, rules
from sparkflow.ops.nn import relu
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _dense_rule(op: Operation) -> list[Dims]:
    both = shapes.broadcast(op.inputs[0]._shape, op.inputs[1]._shape, op.type)
    if both is not None and len(both) != 2:
        raise InvalidArgumentError(f"{op.type}: logits and labels must be matrices, got {shapes.show(both)}")
    both = both or (None, None)
    return [both[:1], both]


def _sparse_rule(op: Operation) -> list[Dims]:
    rows, classes = rules.require_matrix(op, "logits", op.inputs[0])
    loss = shapes.merge((rows,), rules.require_rank(op, "labels", op.inputs[1], 1)) or (None,)
    return [loss, (*loss, classes)]


op("SoftmaxCrossEntropyWithLogits", "features: T, labels: T -> loss: T, backprop: T", _dense_rule)
op(
    "SparseSoftmaxCrossEntropyWithLogits",
    "features: T, labels: Tlabels -> loss: T, backprop: T",
    _sparse_rule,
    Tlabels=dtypes.int64,
)


def _same_shape(what: str, logits: Tensor, labels: Tensor) -> None:
    if not shapes.compatible(logits._shape, labels._shape):
        raise InvalidArgumentError(
            f"{what}: logits and labels must have the same shape, "
            f"got {shapes.show(logits._shape)} and {shapes.show(labels._shape)}"
        )


def sigmoid_cross_entropy_with_logits(labels: Any = None, logits: Any = None, name: str | None = None) -> Tensor:
    """Elementwise -z log(sigmoid(x)) - (1 - z) log(1 - sigmoid(x)) for logits x and labels z, without overflow.

    Computed as max(x, 0) - x z + log(1 + exp(-|x|)). Raises InvalidArgumentError where the shapes differ.
    """
    _named("sigmoid_cross_entropy_with_logits", labels, logits)
    with get_default_graph().name_scope(name or "logistic_loss") as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, logits.dtype.base_dtype, "labels")
        _same_shape("sigmoid_cross_entropy_with_logits", logits, labels)
        zeros = array.zeros_like(logits)
        positive = math.greater_equal(logits, zeros)
        above = array_select.where(positive, logits, zeros)
        minus_abs = array_select.where(positive, math.negative(logits), logits)
        return math.add(
            math.subtract(above, math.multiply(logits, labels, "mul"), "sub"),
            math.log1p(math.exp(minus_abs)),
            name=scope,
        )


def weighted_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, pos_weight: Any = None, name: str | None = None, targets: Any = None
) -> Tensor:
    """As sigmoid_cross_entropy_with_logits, with the term of the positive labels multiplied by pos_weight."""
    labels = targets if labels is None else labels
    _named("weighted_cross_entropy_with_logits", labels, logits)
    with get_default_graph().name_scope(name or "logistic_loss") as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, logits.dtype.base_dtype, "targets")
        _same_shape("weighted_cross_entropy_with_logits", logits, labels)
        one = convert_to_tensor(1, logits.dtype.base_dtype)
        weight = math.add(one, math.multiply(math.subtract(pos_weight, one), labels))
        tail = math.add(math.log1p(math.exp(math.negative(math.abs(logits)))), relu(math.negative(logits)))
        return math.add(math.multiply(math.subtract(one, labels), logits), math.multiply(weight, tail), name=scope)


def _named(what: str, labels: Any, logits: Any) -> None:
    if labels is None or logits is None:
        raise ValueError(f"{what}: give both labels=... and logits=... by name")


def softmax_cross_entropy_with_logits_v2(
    labels: Any, logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Tensor:
    """-sum(labels * log(softmax(logits))) along one axis (the last, when None); gradients flow into labels too."""
    along = next((a for a in (axis, dim) if a is not None), -1)
    with get_default_graph().name_scope(name or "softmax_cross_entropy_with_logits") as scope:
        logits = convert_to_tensor(logits, name="logits")
        narrow = logits.dtype.base_dtype in (dtypes.float16, dtypes.bfloat16)
        x = math.to_float(logits) if narrow else logits
        z = math.cast(convert_to_tensor(labels, name="labels"), x.dtype.base_dtype)
        if not (rules.rank_of(x) == rules.rank_of(z) == 2 and along in (-1, 1)):  # of two matrices one may be repeated
            _same_shape("softmax_cross_entropy_with_logits", x, z)
        loss = _loss_along(x, z, along, None if narrow else scope)
        return math.cast(loss, logits.dtype) if narrow else loss


def _loss_along(x: Tensor, z: Tensor, axis: int, scope: str | None) -> Tensor:
    rank = rules.rank_of(x)
    if rank is not None and not -rank <= axis < rank:
        raise InvalidArgumentError(
            f"softmax_cross_entropy_with_logits: axis {axis} is out of range for logits {shapes.show(x._shape)}"
        )
    if rank == 2 and axis in (-1, 1):
        return apply_op("SoftmaxCrossEntropyWithLogits", [x, z])[0]
    if axis != -1 and rank is None:
        raise ValueError(f"softmax_cross_entropy_with_logits: axis {axis} needs logits of a known rank, got {x}")
    if rank is not None and axis % rank != rank - 1:
        perm = [i for i in range(rank) if i != axis % rank] + [axis % rank]
        x, z = array.transpose(x, perm), array.transpose(z, perm)
    sizes = array.shape(x)
    classes = apply_op("Pack", [[-1, sizes[-1]]])
    loss = apply_op("SoftmaxCrossEntropyWithLogits", [array.reshape(x, classes), array.reshape(z, classes)])[0]
    out = array.reshape(loss, sizes[:-1], name=scope)
    out.set_shape(None if x._shape is None else x._shape[:-1])
    return out


def softmax_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, dim: int = -1, name: str | None = None, axis: int | None = None
) -> Tensor:
    """As softmax_cross_entropy_with_logits_v2, with labels taken as constants by gradients()."""
    _named("softmax_cross_entropy_with_logits", labels, logits)
    with get_default_graph().name_scope(name or "softmax_cross_entropy_with_logits_sg") as scope:
        labels = array.stop_gradient(labels, name="labels_stop_gradient")
        return softmax_cross_entropy_with_logits_v2(labels, logits, dim if axis is None else axis, scope)


def sparse_softmax_cross_entropy_with_logits(labels: Any = None, logits: Any = None, name: str | None = None) -> Tensor:
    """-log(softmax(logits))[..., labels]; labels (int32, int64) have logits' shape without its last axis.

    A label outside [0, classes) is an InvalidArgumentError when it runs.
    """
    _named("sparse_softmax_cross_entropy_with_logits", labels, logits)
    with get_default_graph().name_scope(name or "SparseSoftmaxCrossEntropyWithLogits") as scope:
        logits, labels = convert_to_tensor(logits, name="logits"), convert_to_tensor(labels, name="labels")
        narrow = logits.dtype.base_dtype in (dtypes.float16, dtypes.bfloat16)
        x = math.to_float(logits) if narrow else logits
        if x._shape is not None and not shapes.compatible(x._shape[:-1], labels._shape):
            raise InvalidArgumentError(
                "sparse_softmax_cross_entropy_with_logits: labels must have logits' shape without its last axis, "
                f"got {shapes.show(labels._shape)} for logits {shapes.show(x._shape)}"
            )
        if rules.rank_of(x) == 2:
            loss = apply_op("SparseSoftmaxCrossEntropyWithLogits", [x, labels])[0]
        else:
            flat = array.reshape(x, apply_op("Pack", [[-1, array.shape(x)[-1]]]))
            loss = apply_op("SparseSoftmaxCrossEntropyWithLogits", [flat, array.reshape(labels, [-1])])[0]
            loss = array.reshape(loss, array.shape(labels), name=None if narrow else scope)
            loss.set_shape(labels._shape)
        return math.cast(loss, logits.dtype) if narrow else loss
