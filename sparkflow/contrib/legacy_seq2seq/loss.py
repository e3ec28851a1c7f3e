"""Cross entropies of lists of logits, and one model for each of several lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, math, math_reduce, nn_loss
from sparkflow.ops.variable_scope import get_variable_scope, variable_scope

_TINY = 1e-12  # a sum of weights may be 0


def sequence_loss_by_example(
    logits: Sequence[Any], targets: Sequence[Any], weights: Sequence[Any], average_across_timesteps: bool = True,
    softmax_loss_function: Callable[..., Any] | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """[batch]: the weighted cross entropies of all steps, over the sum of the weights if average_across_timesteps.

    logits: a [batch, classes] tensor a step; targets and weights: [batch] ones. softmax_loss_function: of labels and
    logits. Raises ValueError where the lists are not of one length.
    """
    if not len(logits) == len(targets) == len(weights):
        raise ValueError(
            f"Lengths of logits, weights, and targets must be the same {len(logits)}, {len(weights)}, {len(targets)}."
        )
    with get_default_graph().name_scope(name or "sequence_loss_by_example"):
        losses = []
        for logit, target, weight in zip(logits, targets, weights):
            if softmax_loss_function is None:
                flat = array.reshape(target, [-1])
                loss = nn_loss.sparse_softmax_cross_entropy_with_logits(labels=flat, logits=logit)
            else:
                loss = softmax_loss_function(labels=target, logits=logit)
            losses.append(math.multiply(loss, weight))
        total = math.add_n(losses)
        if not average_across_timesteps:
            return total
        return math.divide(total, math.add(math.add_n(list(weights)), _TINY))


def sequence_loss(
    logits: Sequence[Any], targets: Sequence[Any], weights: Sequence[Any], average_across_timesteps: bool = True,
    average_across_batch: bool = True, softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """The sum of sequence_loss_by_example over the batch, or its mean."""
    with get_default_graph().name_scope(name or "sequence_loss"):
        losses = sequence_loss_by_example(
            logits, targets, weights, average_across_timesteps, softmax_loss_function=softmax_loss_function
        )
        cost = math_reduce.reduce_sum(losses)
        if not average_across_batch:
            return cost
        return math.divide(cost, math.cast(array.shape(targets[0])[0], cost.dtype))


def model_with_buckets(
    encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], targets: Sequence[Any], weights: Sequence[Any],
    buckets: Sequence[tuple[int, int]], seq2seq: Callable[[Any, Any], tuple[Any, Any]],
    softmax_loss_function: Callable[..., Any] | None = None, per_example_loss: bool = False, name: str | None = None,
) -> tuple[list[Any], list[Tensor]]:  # fmt: skip
    """(outputs, losses), one of each a bucket (steps of the input, steps of the output), all of one set of variables.

    seq2seq: of lists of inputs to the encoder and the decoder; gives outputs and a state. The last bucket is the
    largest. Raises ValueError where a list is shorter than it.
    """
    for label, given, axis in (
        ("encoder_inputs", encoder_inputs, 0), ("targets", targets, 1), ("weights", weights, 1),
    ):  # fmt: skip
        if len(given) < buckets[-1][axis]:
            raise ValueError(
                f"Length of {label} ({len(given)}) must be at least that of last bucket ({buckets[-1][axis]})."
            )
    measure = sequence_loss_by_example if per_example_loss else sequence_loss
    outputs, losses = [], []
    with get_default_graph().name_scope(name or "model_with_buckets"):
        for number, (read, written) in enumerate(buckets):
            with variable_scope(get_variable_scope(), reuse=True if number else None):
                made, _ = seq2seq(encoder_inputs[:read], decoder_inputs[:written])
                outputs.append(made)
                losses.append(
                    measure(made, targets[:written], weights[:written], softmax_loss_function=softmax_loss_function)
                )
    return outputs, losses
