"""CTC: the loss with its gradient, by sums over all alignments; the likeliest classes of each step."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import ctc_sums
from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.wire.errors import InvalidArgumentError


def lengths_of(op: str, inputs: Any, sequence_length: Any) -> np.ndarray:
    """The length of each sequence of inputs [time, batch, classes]."""
    lengths = host(sequence_length)
    if inputs.ndim != 3 or lengths.shape != inputs.shape[1:2]:
        raise InvalidArgumentError(
            f"{op}: inputs must be [time, batch, classes] and sequence_length [batch], got {list(inputs.shape)} and "
            f"{list(lengths.shape)}"
        )
    if not inputs.shape[2]:
        raise InvalidArgumentError(f"{op}: there must be at least one class, got inputs {list(inputs.shape)}")
    for b, length in enumerate(lengths.tolist()):
        if not 0 <= length <= inputs.shape[0]:
            raise InvalidArgumentError(f"{op}: sequence_length({b}) <= {inputs.shape[0]} is needed, got {length}")
    return lengths


def log_softmax(xp: Any, x: Any) -> Any:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - xp.log(xp.exp(shifted).sum(-1, keepdims=True))


def sparse_rows(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lists of labels as the parts of a SparseTensor [rows, longest]."""
    counts = [len(row) for row in rows]
    indices = np.array([(i, j) for i, n in enumerate(counts) for j in range(n)], np.int64).reshape(-1, 2)
    values = np.array([label for row in rows for label in row], np.int64)
    return indices, values, np.array([len(rows), max(counts, default=0)], np.int64)


# ---------------------------------------------------------------------- loss


def _labels(indices: Any, values: Any, batch: int, blank: int, collapse: bool) -> list[list[int]]:
    """The labels of each sequence, as the loss wants them."""
    where, what = host(indices), host(values)
    if where.ndim != 2 or where.shape[1] != 2 or what.shape != where.shape[:1]:
        raise InvalidArgumentError(
            f"CTCLoss: labels must be sparse [batch, longest], got indices {list(where.shape)}, values "
            f"{list(what.shape)}"
        )
    rows: list[list[int]] = [[] for _ in range(batch)]
    for (b, _), label in zip(where.tolist(), what.tolist()):
        if not 0 <= b < len(rows):
            raise InvalidArgumentError(f"CTCLoss: labels_indices name sequence {b} of a batch of {len(rows)}")
        rows[b].append(label)
    return [_checked(b, row, blank, collapse) for b, row in enumerate(rows)]


def _checked(b: int, row: list[int], blank: int, collapse: bool) -> list[int]:
    """Without blanks at the end, and where `collapse` says so without repeats."""
    if not row:
        raise InvalidArgumentError(f"Labels length is zero in batch {b}")
    if collapse:
        row = [label for i, label in enumerate(row) if not i or label != row[i - 1]]
    ended = next((i for i, label in enumerate(row) if label >= blank), len(row))
    if any(label < blank for label in row[ended:]):
        raise InvalidArgumentError(
            f"Saw a non-null label (index >= num_classes - 1) following a null label, batch: {b} num_classes: "
            f"{blank + 1} labels: {','.join(map(str, row))}"
        )
    if any(label < 0 for label in row):
        raise InvalidArgumentError(f"All labels must be nonnegative integers, batch: {b} labels: {row}")
    return row[:ended]


class _Paths:
    """The states of each sequence: its labels with blanks before, between and behind; [batch, states]."""

    def __init__(self, xp: Any, labels: list[list[int]], blank: int, merge: bool):
        states = 2 * max(map(len, labels), default=0) + 1
        own = np.full((len(labels), states), blank, np.int64)
        for row, some in zip(own, labels):
            row[1 : 2 * len(some) : 2] = some
        counts = 2 * np.array([len(some) for some in labels], np.int64) + 1
        skips = np.zeros(own.shape, bool)
        skips[:, 2:] = (own[:, 2:] != blank) & ((own[:, 2:] != own[:, :-2]) | (not merge))
        self.classes, self.exists = xp.asarray(own), xp.asarray(np.arange(states) < counts[:, None])
        self.last = xp.asarray(np.arange(states) >= counts[:, None] - 2) & self.exists
        self.stays = xp.asarray(np.full(own.shape, True) if merge else own == blank)
        self.skips = xp.asarray(skips)
        self.states = states


def _kept(xp: Any, values: Any, where: Any) -> Any:
    return xp.where(where, values, -xp.inf).astype(values.dtype, copy=False)


def _later(xp: Any, x: Any, by: int) -> Any:
    """Each state has what the state `by` before it had."""
    out = xp.full_like(x, -xp.inf)
    out[:, by:] = x[:, : x.shape[1] - by]
    return out


def _forward(xp: Any, scores: Any, paths: _Paths, lengths: Any) -> Any:
    """log P(the states so far, and what was emitted) at each step; scores [time, batch, states]."""
    alpha = xp.full_like(scores, -xp.inf)
    alpha[0] = _kept(xp, scores[0], (xp.arange(paths.states) < 2) & paths.exists)
    for t in range(1, len(scores)):
        before = alpha[t - 1]
        total = xp.logaddexp(_kept(xp, before, paths.stays), _later(xp, before, 1))
        total = xp.logaddexp(total, _kept(xp, _later(xp, before, 2), paths.skips))
        alpha[t] = _kept(xp, total + scores[t], paths.exists & (t < lengths)[:, None])
    return alpha


def _backward(xp: Any, scores: Any, paths: _Paths, lengths: Any) -> Any:
    """log P(what is emitted after each step | the state there)."""
    beta = xp.full_like(scores, -xp.inf)
    for t in reversed(range(len(scores))):
        ends = (t == lengths - 1)[:, None]
        beta[t] = xp.where(ends & paths.last, 0, -xp.inf)
        if t + 1 < len(scores):
            after = beta[t + 1] + scores[t + 1]
            skipping = _kept(xp, after, paths.skips)
            total = xp.logaddexp(_kept(xp, after, paths.stays), _later(xp, after[:, ::-1], 1)[:, ::-1])
            total = xp.logaddexp(total, _later(xp, skipping[:, ::-1], 2)[:, ::-1])
            beta[t] = xp.where(ends, beta[t], _kept(xp, total, paths.exists))
    return beta


@kernel("CTCLoss", multi=True)
def _loss(
    xp: Any, inputs: Any, indices: Any, values: Any, sequence_length: Any, *,
    preprocess_collapse_repeated: bool = False, ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
) -> Any:  # fmt: skip
    times = lengths_of("CTCLoss", inputs, sequence_length).copy()
    if not len(times):
        raise InvalidArgumentError(f"CTCLoss: the batch must not be empty, got inputs {list(inputs.shape)}")
    blank = inputs.shape[2] - 1
    labels = _labels(indices, values, len(times), blank, preprocess_collapse_repeated)
    for b, (some, time) in enumerate(zip(labels, times.tolist())):
        if len(some) > time and ignore_longer_outputs_than_inputs:
            times[b] = 0  # as if it were not there
        elif len(some) > time:
            raise InvalidArgumentError(
                f"Not enough time for target transition sequence (required: {len(some)}, available: {time}), batch "
                f"{b}. ignore_longer_outputs_than_inputs leaves such a sequence out: its loss is 0"
            )
    paths, lengths = _Paths(xp, labels, blank, ctc_merge_repeated), xp.asarray(times)
    loss, gradient = xp.zeros(len(times), inputs.dtype), xp.zeros(inputs.shape, inputs.dtype)
    if inputs.shape[0]:
        with np.errstate(divide="ignore", invalid="ignore"):
            _fill(xp, inputs, paths, lengths, loss, gradient)
    return loss, gradient


def _fill(xp: Any, inputs: Any, paths: _Paths, lengths: Any, loss: Any, gradient: Any) -> None:
    """gradient = softmax(inputs) minus how probable each class is at each step, given the labels."""
    logs = log_softmax(xp, inputs)
    if ctc_sums.takes(inputs):
        ctc_sums.fill(logs, paths, lengths, loss, gradient)
        return
    batch = xp.arange(len(lengths))
    scores = logs[:, batch[:, None], paths.classes]
    both = _forward(xp, scores, paths, lengths)
    final = both[xp.maximum(lengths - 1, 0), batch]
    seen = lengths > 0
    total = reduce(xp.logaddexp, _kept(xp, final, paths.last).T)  # cupy has no logaddexp.reduce
    loss[...] = xp.where(seen, -total, 0)
    both += _backward(xp, scores, paths, lengths)
    share = xp.where(xp.isfinite(total)[:, None], xp.exp(both - total[:, None]), 0)
    gradient[...] = xp.exp(logs)
    for state in range(paths.states):  # in one state each sequence has one class: no place is met twice
        gradient[:, batch, paths.classes[:, state]] -= share[:, :, state]
    steps = xp.arange(len(inputs))[:, None] < lengths
    gradient *= steps[:, :, None]


# ---------------------------------------------------------------------- the likeliest classes


@kernel("CTCGreedyDecoder", multi=True)
def _greedy(xp: Any, inputs: Any, sequence_length: Any, *, merge_repeated: bool = False, blank_index: int = -1) -> Any:
    times = lengths_of("CTCGreedyDecoder", inputs, sequence_length)
    classes = inputs.shape[2]
    blank = classes + blank_index if blank_index < 0 else blank_index
    if not 0 <= blank < classes:
        raise InvalidArgumentError(
            f"CTCGreedyDecoder: blank_index must be in [{-classes}, {classes}), got {blank_index}"
        )
    best = host(inputs.argmax(-1))
    steps = xp.arange(inputs.shape[0])[:, None] < xp.asarray(times)
    score = -(inputs.max(-1) * steps if inputs.size else inputs[:, :, 0]).sum(0)
    kept = (best != blank) & host(steps)
    if merge_repeated:
        kept[1:] &= best[1:] != best[:-1]
    parts = sparse_rows([best[kept[:, b], b].tolist() for b in range(len(times))])
    return (*map(xp.asarray, parts), score.astype(inputs.dtype)[:, None])
