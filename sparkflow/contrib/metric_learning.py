"""tf.contrib.losses.metric_learning: losses of a batch that put embeddings of one class near one another."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, array_select, math, math_reduce, nn, nn_loss
from sparkflow.ops.control_flow import Print
from sparkflow.ops.linalg import eye
from sparkflow_runtime.wire.dtypes import float32

_NOTHING = -1e30  # below any logarithm of a sum that there is


def contrastive_loss(labels: Any, embeddings_anchor: Any, embeddings_positive: Any, margin: float = 1.0) -> Tensor:
    """The squared distance of pairs that belong together (label 1), and of others what their distance lacks of margin.

    labels: [batch], 0 or 1. Source: Hadsell et al. 2006.
    """
    squared = math_reduce.reduce_sum(math.squared_difference(embeddings_anchor, embeddings_positive), 1)
    lacking = math.maximum(margin - math.sqrt(squared), 0.0)
    together = math.cast(convert_to_tensor(labels), float32)
    losses = together * squared + (1.0 - together) * math.square(lacking)
    return math_reduce.reduce_mean(losses, name="contrastive_loss")


def triplet_semihard_loss(labels: Any, embeddings: Any, margin: float = 1.0) -> Tensor:
    """How much farther by margin the nearest stranger that is beyond a pair should be, over all pairs of one class.

    Where none is beyond, the farthest stranger counts. labels: [batch] whole numbers; embeddings: [batch, size], of
    length 1. Source: Schroff et al. 2015 (FaceNet).
    """
    apart = _distances(embeddings, squared=True)
    same = _same(labels)
    strangers = math.logical_not(same)
    # [anchor, positive, stranger]
    far, wide = array.expand_dims(apart, 1), array.shape(apart)[0]
    beyond = math.logical_and(array.expand_dims(strangers, 1), math.greater(far, array.expand_dims(apart, 2)))
    far = array.tile(far, [1, wide, 1])
    most = math_reduce.reduce_max(far, 2, keepdims=True)
    nearest = math_reduce.reduce_min(array_select.where(beyond, far, array.zeros_like(far) + most), 2)
    least = math_reduce.reduce_min(apart, 1, keepdims=True)
    farthest = math_reduce.reduce_max(array_select.where(strangers, apart, array.zeros_like(apart) + least), 1)
    chosen = array_select.where(
        math_reduce.reduce_any(beyond, 2), nearest, array.zeros_like(apart) + array.expand_dims(farthest, 1)
    )
    pairs = _others(same)
    lacking = math.maximum((margin + apart - chosen) * pairs, 0.0)
    return math.truediv(math_reduce.reduce_sum(lacking), math_reduce.reduce_sum(pairs), name="triplet_semihard_loss")


def npairs_loss(
    labels: Any, embeddings_anchor: Any, embeddings_positive: Any, reg_lambda: float = 0.002, print_losses: bool = False
) -> Tensor:
    """The cross entropy of who of the positives belongs to an anchor, and reg_lambda / 4 times their mean lengths.

    labels: [batch] whole numbers, of both. Source: Sohn 2016.
    """
    anchors, positives = convert_to_tensor(embeddings_anchor), convert_to_tensor(embeddings_positive)
    lengths = [math_reduce.reduce_mean(math_reduce.reduce_sum(math.square(t), 1)) for t in (anchors, positives)]
    shortening = math.multiply(0.25 * reg_lambda, lengths[0] + lengths[1], name="l2loss")
    own = math.cast(_same(labels), float32)
    shares = own / math_reduce.reduce_sum(own, 1, keepdims=True)
    likeness = math.matmul(anchors, positives, transpose_b=True)
    crossed = nn_loss.softmax_cross_entropy_with_logits_v2(labels=shares, logits=likeness)
    entropy = math_reduce.reduce_mean(crossed, name="xentropy")
    if print_losses:
        entropy = Print(entropy, ["cross entropy:", entropy, "l2loss:", shortening])
    return shortening + entropy


def lifted_struct_loss(labels: Any, embeddings: Any, margin: float = 1.0) -> Tensor:
    """Half the mean square of each pair's distance plus how near strangers are to either of it (a soft maximum).

    labels: [batch] whole numbers; embeddings: [batch, size], not of length 1. Source: Song et al. 2016.
    """
    apart, same = _distances(embeddings, squared=False), _same(labels)
    near = array_select.where(same, array.zeros_like(apart) + _NOTHING, margin - apart)
    top = math_reduce.reduce_max(near, 1, keepdims=True)
    softest = top + math.log(math_reduce.reduce_sum(math.exp(near - top), 1, keepdims=True))  # of each anchor
    other = array.transpose(softest)
    higher = math.maximum(softest, other)
    both = higher + math.log(math.exp(softest - higher) + math.exp(other - higher))
    pairs = _others(same)
    losses = math.square(math.maximum((both + apart) * pairs, 0.0))
    count = math_reduce.reduce_sum(pairs) / 2.0
    return math.truediv(0.25 * math_reduce.reduce_sum(losses), count, name="liftedstruct_loss")


def _same(labels: Any) -> Tensor:
    """[batch, batch]: whether two are of one class."""
    column = array.reshape(labels, [-1, 1])
    return math.equal(column, array.transpose(column))


def _others(same: Tensor) -> Tensor:
    """The pairs of one class, but for each with itself, as numbers."""
    return math.cast(same, float32) - eye(array.shape(same)[0])


def _distances(embeddings: Any, squared: bool) -> Tensor:
    """[batch, batch]: those of all pairs. The slope of a root at 0 is none."""
    embeddings = convert_to_tensor(embeddings)
    with get_default_graph().name_scope("pairwise_distance"):
        lengths = math_reduce.reduce_sum(math.square(embeddings), 1, keepdims=True)
        products = math.matmul(embeddings, embeddings, transpose_b=True)
        apart = nn.relu(lengths + array.transpose(lengths) - 2.0 * products)
        if not squared:
            nowhere = math.cast(math.less_equal(apart, 0.0), float32)
            apart = math.sqrt(apart + nowhere * 1e-16) * (1.0 - nowhere)
        return apart * (1.0 - eye(array.shape(apart)[0]))
