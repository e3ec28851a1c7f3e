"""CTC's loss and its gradient of single precision on a CPU: the sums over all alignments, by loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels import ctc_sum_loops as loops
from sparkflow_runtime.kernels.exp_loops import in_parts
from sparkflow_runtime.kernels.registry import prepares

_DEAD = np.float32(-1e29)  # what is less is the logarithm of 0


def takes(inputs: Any) -> bool:
    return isinstance(inputs, np.ndarray) and inputs.dtype == np.float32


def _prepare() -> None:
    for loop in (loops.spread, loops.walk, loops.take):
        loop.prepare()


prepares(_prepare, "CTCLoss")


def _allowed(where: np.ndarray) -> np.ndarray:
    return np.where(where, np.float32(0), loops.LEAST)


def _walked(scores: np.ndarray, begins: Any, stays: Any, skips: Any, lengths: np.ndarray) -> np.ndarray:
    batch, steps, states = scores.shape
    out = np.full((batch, steps, states + 2), loops.LEAST, np.float32)
    arrays = (scores, *map(_allowed, (begins, stays, skips)), lengths, out)
    in_parts(loops.walk, batch, 8 * steps * states, *arrays)
    return out[:, :, 2:]


def _backwards(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[batch, time, states] from each sequence's end, and from its last state."""
    turned = np.full(x.shape, loops.LEAST, np.float32)
    for b, length in enumerate(lengths.tolist()):
        turned[b, :length] = x[b, :length][::-1, ::-1]
    return turned


@np.errstate(all="ignore")
def fill(logs: np.ndarray, paths: Any, lengths: np.ndarray, loss: np.ndarray, gradient: np.ndarray) -> None:
    """gradient = exp(logs) minus how probable each class is at each step, given the labels.

    logs: [time, batch, classes]. lengths: 0 where a sequence is left out.
    """
    steps, batch, _ = logs.shape
    lengths = lengths.astype(np.int64)
    logs, classes = np.ascontiguousarray(logs), np.ascontiguousarray(paths.classes)
    scores = np.empty((batch, steps, paths.states), np.float32)
    in_parts(loops.spread, batch, steps * paths.states, logs, classes, scores)
    first = np.arange(paths.states) < 2
    forth = _walked(scores, first & paths.exists, paths.stays, paths.skips & paths.exists, lengths)
    late = np.zeros(paths.skips.shape, bool)
    late[:, 2:] = paths.skips[:, :1:-1]  # towards the front a state is come to from two behind, where that one skips
    back = _walked(_backwards(scores, lengths), paths.last[:, ::-1], paths.stays[:, ::-1], late, lengths)
    back = _backwards(back, lengths)

    rows, seen = np.arange(batch), lengths > 0
    final = np.where(paths.last, forth[rows, np.maximum(lengths - 1, 0)], loops.LEAST)
    most = final.max(1)
    total = most + np.log(np.exp(final - most[:, None]).sum(1))
    possible = (total > _DEAD) | np.isnan(total)
    loss[...] = np.where(seen, np.where(possible, -total, np.inf), 0)
    dead = (forth < _DEAD) | (back < _DEAD) | ~possible[:, None, None]
    shares = np.where(dead, 0, np.exp(forth + back - scores - total[:, None, None])).astype(np.float32, copy=False)
    np.exp(logs, out=gradient)
    in_parts(loops.take, batch, steps * paths.states, np.ascontiguousarray(shares), classes, lengths, gradient)
