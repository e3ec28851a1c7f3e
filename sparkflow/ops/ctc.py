"""Labels of sequences without alignment: connectionist temporal classification (CTC), and edit distances.

Source: Graves et al. 2006 (the loss), Hannun et al. 2014 (the beams over prefixes).
"""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value_as_shape
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import (
    array,
    array_join,
    array_made,
    array_select,
    math,
    math_reduce,
    nn,
    operators,  # noqa: F401 - x - y on tensors
    rules,
)
from sparkflow.ops.array_slice import gather, gather_nd, scatter_nd
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _batch(op: Operation, length: Tensor) -> tuple[Dims, int | None]:
    """(the shape of inputs [time, batch, classes], the batch size, of which sequence_length has one each)."""
    dims = rules.require_rank(op, "inputs", op.inputs[0], 3) or (None,) * 3
    lengths = rules.require_rank(op, "sequence_length", length, 1) or (None,)
    try:
        (size,) = shapes.merge(dims[1:2], lengths) or (None,)
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"{op.type}: sequence_length must have one value for each of the batch, got shape {shapes.show(lengths)} "
            f"and inputs [time, batch, classes] of shape {shapes.show(dims)}"
        ) from None
    return dims, size


def _loss_rule(op: Operation) -> list[Dims]:
    dims, size = _batch(op, op.inputs[3])
    indices = rules.require_rank(op, "labels_indices", op.inputs[1], 2) or (None, None)
    values = rules.require_rank(op, "labels_values", op.inputs[2], 1)
    if not shapes.compatible(indices[:1], values):
        raise InvalidArgumentError(
            f"{op.type}: labels need one index for each value, got shapes {shapes.show(indices)} and "
            f"{shapes.show(values)}"
        )
    return [(size,), (dims[0], size, dims[2])]  # type: ignore[index]


def _greedy_rule(op: Operation) -> list[Dims]:
    return [(None, 2), (None,), (2,), (_batch(op, op.inputs[1])[1], 1)]


def _beam_rule(op: Operation) -> list[Dims]:
    _, size = _batch(op, op.inputs[1])
    paths = op.attrs["top_paths"]
    one: list[Dims] = [(None, 2), (None,), (2,)]
    return [dims for dims in one for _ in range(paths)] + [(size, paths)]


def _distance_rule(op: Operation) -> list[Dims]:
    first, second = (constant_value_as_shape(op.inputs[i]) for i in (2, 5))
    if first is None or second is None:
        return [None]
    if len(first) != len(second):
        raise InvalidArgumentError(
            f"EditDistance: hypothesis and truth must have one rank, got shapes {shapes.show(first)} and "
            f"{shapes.show(second)}"
        )
    pairs = zip(first[:-1], second[:-1], strict=True)
    return [tuple(None if a is None or b is None else max(a, b) for a, b in pairs)]


op(
    "CTCLoss",
    "inputs: T, labels_indices: int64, labels_values: int32, sequence_length: int32 -> loss: T, gradient: T",
    _loss_rule,
    preprocess_collapse_repeated=False,
    ctc_merge_repeated=True,
    ignore_longer_outputs_than_inputs=False,
    T=dtypes.float32,
)
op(
    "CTCGreedyDecoder",
    "inputs: T, sequence_length: int32 -> decoded_indices: int64, decoded_values: int64, decoded_shape: int64, "
    "log_probability: T",
    _greedy_rule,
    merge_repeated=False,
    blank_index=-1,
    T=dtypes.float32,
)
op(
    "CTCBeamSearchDecoder",
    "inputs: T, sequence_length: int32 -> decoded_indices: top_paths * int64, decoded_values: top_paths * int64, "
    "decoded_shape: top_paths * int64, log_probability: T",
    _beam_rule,
    merge_repeated=True,
    T=dtypes.float32,
)
op(
    "EditDistance",
    "hypothesis_indices: int64, hypothesis_values: T, hypothesis_shape: int64, truth_indices: int64, truth_values: T, "
    "truth_shape: int64 -> output: float32",
    _distance_rule,
    normalize=True,
)


def ctc_loss(
    labels: Any,
    inputs: Any = None,
    sequence_length: Any = None,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    logits: Any = None,
) -> Tensor:
    """[batch]: -log of the probability that logits [time, batch, classes] give to labels, over all alignments.

    labels: a SparseTensor [batch, longest] of int32; the last class is the blank. time_major=False: logits are
    [batch, time, classes]. Raises TypeError where labels are not sparse, InvalidArgumentError when it runs where a
    sequence has no labels, or more of them than steps (unless ignore_longer_outputs_than_inputs: its loss is 0 then).
    """
    if not isinstance(labels, SparseTensor):
        raise TypeError(f"Expected labels (first argument) to be a SparseTensor, got {labels!r}")
    scores = convert_to_tensor(inputs if logits is None else logits, name="inputs")
    if not time_major:
        scores = array.transpose(scores, [1, 0, 2])
    attrs = {
        "preprocess_collapse_repeated": preprocess_collapse_repeated,
        "ctc_merge_repeated": ctc_merge_repeated,
        "ignore_longer_outputs_than_inputs": ignore_longer_outputs_than_inputs,
    }
    loss, _ = apply_op("CTCLoss", [scores, labels.indices, labels.values, sequence_length], attrs)
    return loss


def ctc_loss_v2(
    labels: Any, logits: Any, label_length: Any, logit_length: Any, logits_time_major: bool = True, unique: Any = None,
    blank_index: int | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """As ctc_loss, of labels [batch, longest], of which label_length [batch] count (none, too), and with the blank at
    blank_index: class 0 by default.

    labels may be a SparseTensor, without label_length; then blank_index must be given (-1 is the last class), or
    ValueError is raised. unique: taken for TensorFlow's sake.
    """
    with get_default_graph().name_scope(name or "ctc_loss"):
        logits = convert_to_tensor(logits, name="logits")
        if not logits_time_major:
            logits = array.transpose(logits, [1, 0, 2])
        sparse = isinstance(labels, SparseTensor)
        if sparse and blank_index is None:
            raise ValueError("Argument `blank_index` must be provided when labels is a SparseTensor.")
        dims = logits._shape
        if dims is None or len(dims) != 3 or dims[2] is None:
            raise ValueError(f"ctc_loss_v2: the number of classes must be known, got logits of {shapes.show(dims)}")
        blank = (blank_index or 0) % dims[2]
        ordered = [c for c in range(dims[2]) if c != blank] + [blank]
        last = logits if blank == dims[2] - 1 else gather(logits, ordered, axis=2)
        if sparse:
            moved = labels.with_values(math.cast(_without_blank(labels.values, blank), dtypes.int32))
            return ctc_loss(moved, last, logit_length)
        return _dense_loss(convert_to_tensor(labels), last, label_length, logit_length, blank)


def _without_blank(labels: Tensor, blank: int) -> Tensor:
    """The numbers of classes once the blank is the last one."""
    return labels - math.cast(math.greater(labels, blank), labels.dtype.base_dtype)


def _dense_loss(labels: Tensor, logits: Tensor, label_length: Any, logit_length: Any, blank: int) -> Tensor:
    """logits: with the blank behind. A sequence without labels is all blanks."""
    counts = convert_to_tensor(label_length, name="label_length")
    empty = math.equal(counts, 0)
    held = array_made.sequence_mask(math.maximum(counts, 1), array.shape(labels)[1])
    places = array_select.where(held)
    known = math.cast(_without_blank(math.cast(gather_nd(labels, places), dtypes.int32), blank), dtypes.int32)
    none = gather(empty, places[:, 0])
    known = array_select.where(none, array.zeros_like(known), known)
    sizes = array.shape(labels, out_type=dtypes.int64)
    loss = ctc_loss(SparseTensor(places, known, sizes), logits, math.cast(logit_length, dtypes.int32))
    steps = array_made.sequence_mask(logit_length, array.shape(logits)[0], logits.dtype.base_dtype)
    blanks = array.transpose(nn.log_softmax(logits)[:, :, -1])
    return array_select.where(empty, -math_reduce.reduce_sum(blanks * steps, 1), loss)


def collapse_repeated(labels: Any, seq_length: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(labels [batch, longest] with one of equal ones in a row, filled up with 0; how many each row has)."""
    with get_default_graph().name_scope(name or "collapse_repeated_labels"):
        labels, lengths = convert_to_tensor(labels, name="labels"), convert_to_tensor(seq_length, name="seq_length")
        first = array.ones_like(labels[:, :1], dtype=dtypes.bool_)
        differs = array_join.concat([first, math.not_equal(labels[:, 1:], labels[:, :-1])], 1)
        kept = math.logical_and(differs, array_made.sequence_mask(lengths, array.shape(labels)[1]))
        counts = math_reduce.reduce_sum(math.cast(kept, lengths.dtype.base_dtype), 1)
        longest = math_reduce.reduce_max(counts)
        where = array_select.where(array_made.sequence_mask(counts, longest))
        flat = gather_nd(labels, array_select.where(kept))
        sizes = array_join.stack([array.shape(labels, out_type=dtypes.int64)[0], math.cast(longest, dtypes.int64)])
        return scatter_nd(where, flat, sizes), counts


def ctc_greedy_decoder(
    inputs: Any, sequence_length: Any, merge_repeated: bool = True, blank_index: int | None = None
) -> tuple[list[SparseTensor], Tensor]:
    """([the likeliest class of each step without blanks, as a SparseTensor [batch, longest]], minus the sums of the
    largest logits [batch, 1]). merge_repeated: of equal classes in a row one stays. blank_index: the last class."""
    attrs = {"merge_repeated": merge_repeated, "blank_index": -1 if blank_index is None else blank_index}
    *parts, score = apply_op("CTCGreedyDecoder", [inputs, sequence_length], attrs)
    return [SparseTensor(*parts)], score


def ctc_beam_search_decoder(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1, merge_repeated: bool = True
) -> tuple[list[SparseTensor], Tensor]:
    """(the top_paths likeliest label sequences, each a SparseTensor [batch, longest], their log-probabilities
    [batch, top_paths]), by a search that keeps beam_width prefixes a step. The last class is the blank.

    merge_repeated: of equal labels in a row, blanks between them left out, one stays.
    """
    attrs = {"beam_width": beam_width, "top_paths": top_paths, "merge_repeated": merge_repeated}
    found = apply_op("CTCBeamSearchDecoder", [inputs, sequence_length], attrs)
    where, what, sizes = (found[i * top_paths : (i + 1) * top_paths] for i in range(3))
    return [SparseTensor(*parts) for parts in zip(where, what, sizes, strict=True)], found[-1]


def ctc_beam_search_decoder_v2(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseTensor], Tensor]:
    """As ctc_beam_search_decoder, without merging labels."""
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, merge_repeated=False)


def edit_distance(hypothesis: Any, truth: Any, normalize: bool = True, name: str = "edit_distance") -> Tensor:
    """How many insertions, deletions and replacements turn the last axis of truth into that of hypothesis, for two
    SparseTensors [..., longest]; normalize: divided by the truth's length (infinite where that is 0).

    Raises TypeError where either is not sparse.
    """
    both = [SparseTensor.from_value(value) for value in (hypothesis, truth)]
    with get_default_graph().name_scope(name) as scope:
        parts = [part for value in both for part in (value.indices, value.values, value.dense_shape)]
        return apply_op("EditDistance", parts, {"normalize": normalize}, scope)
