"""The hot loops of CTC's loss: sums over all alignments of each sequence, in single precision.

LEAST stands for the logarithm of 0. Logarithms are added by arithmetic alone, so that loops and numpy have the same
bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.exp_loops import exp32, exp_inside, exp_of

F = np.float32
LEAST = F(-1e30)
_ONE, _HALF, _FAR, _LN2, _ZERO = F(1), F(0.5), F(1.5), F(0.6931471805599453), F(0)
# log(v) = 2 artanh(z) with z = (v - 1) / (v + 1), |z| <= 0.2: its series
_L0, _L1, _L2, _L3, _L4 = F(2), F(2 / 3), F(2 / 5), F(2 / 7), F(2 / 9)


def log_up_to_3(x: Any) -> Any:
    """The logarithm of one number from 1 to 3."""
    v = x * _HALF if x > _FAR else x
    z = (v - _ONE) / (v + _ONE)
    s = z * z
    made = ((((_L4 * s + _L3) * s + _L2) * s + _L1) * s + _L0) * z
    return made + (_LN2 if x > _FAR else _ZERO)


def step(score: Any, stay: Any, skip: Any, before: Any, row: Any) -> None:
    """The next row of `walk`. As a function of its own, since LLVM then sees that its arrays may be told apart."""
    for s in range(np.uint64(score.shape[0])):
        # No function adds the logarithms: LLVM pairs the exponentials of that, so the loop could not go by the vector.
        a, b, c = before[s + 2] + stay[s], before[s + 1], before[s] + skip[s]
        most = a if a >= b else b
        most = most if most >= c else c
        total = (exp32(a - most) + exp32(b - most)) + exp32(c - most)
        made = (most + log_up_to_3(total)) + score[s]
        row[s + 2] = LEAST if made < LEAST else made


@compiled(
    ["void(Array(float32, 3, 'C', readonly=True), Array(int64, 2, 'C', readonly=True), float32[:,:,::1], int64, int64)"]
)
def spread(logs: Any, classes: Any, scores: Any, start: Any, stop: Any) -> None:
    """scores [batch, time, states] of logs [time, batch, classes]: a state's are those of its class."""
    for b in range(start, stop):
        for t in range(np.uint64(scores.shape[1])):
            for s in range(np.uint64(scores.shape[2])):
                scores[b, t, s] = logs[t, b, classes[b, s]]


@spread.otherwise
def _(logs: Any, classes: Any, scores: Any, start: Any, stop: Any) -> None:
    for b in range(start, stop):
        scores[b] = logs[:, b][:, classes[b]]


@compiled(
    [
        "void(Array(float32, 3, 'C', readonly=True), Array(float32, 2, 'C', readonly=True), "
        "Array(float32, 2, 'C', readonly=True), Array(float32, 2, 'C', readonly=True), "
        "Array(int64, 1, 'C', readonly=True), float32[:,:,::1], int64, int64)"
    ],
    parts=[exp_inside, exp32, log_up_to_3, step],
)
def walk(scores: Any, begins: Any, stays: Any, skips: Any, lengths: Any, out: Any, start: Any, stop: Any) -> None:
    """out[i, t, 2 + s] = log P(state s at step t, and what was emitted until then); two places before hold LEAST.

    begins, stays, skips: 0 where a sequence may begin in a state, stay in it, come to it from two before; else LEAST.
    """
    for i in range(start, stop):
        stay, skip, begin = stays[i], skips[i], begins[i]
        for t in range(lengths[i]):
            score, row = scores[i, t], out[i, t]
            row[0] = row[1] = LEAST
            if t == 0:
                for s in range(np.uint64(score.shape[0])):
                    made = begin[s] + score[s]
                    row[s + 2] = LEAST if made < LEAST else made
            else:
                step(score, stay, skip, out[i, t - 1], row)


@walk.otherwise
@np.errstate(all="ignore")
def _(scores: Any, begins: Any, stays: Any, skips: Any, lengths: Any, out: Any, start: Any, stop: Any) -> None:
    part = slice(start, stop)
    score, row, length = scores[part], out[part], lengths[part]
    row[:, :, :2] = LEAST
    for t in range(int(length.max(initial=0))):
        some = t < length
        if t == 0:
            made = begins[part][some] + score[some, 0]
        else:
            before = row[some, t - 1]
            made = _added(before[:, 2:] + stays[part][some], before[:, 1:-1], before[:, :-2] + skips[part][some])
            made = made + score[some, t]
        row[some, t, 2:] = np.where(made < LEAST, LEAST, made)


def _added(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    most = np.where(a >= b, a, b)
    most = np.where(most >= c, most, c)
    x = (exp_of(a - most) + exp_of(b - most)) + exp_of(c - most)
    v = np.where(x > _FAR, x * _HALF, x)
    z = (v - _ONE) / (v + _ONE)
    s = z * z
    made = ((((_L4 * s + _L3) * s + _L2) * s + _L1) * s + _L0) * z
    return most + (made + np.where(x > _FAR, _LN2, _ZERO))


@compiled(
    [
        "void(Array(float32, 3, 'C', readonly=True), Array(int64, 2, 'C', readonly=True), "
        "Array(int64, 1, 'C', readonly=True), float32[:,:,::1], int64, int64)"
    ]
)
def take(shares: Any, classes: Any, lengths: Any, gradient: Any, start: Any, stop: Any) -> None:
    """gradient [time, batch, classes] less the shares [batch, time, states] of each class's states; 0 after the end."""
    for b in range(start, stop):
        for t in range(lengths[b]):
            for s in range(np.uint64(classes.shape[1])):
                gradient[t, b, classes[b, s]] -= shares[b, t, s]
        for t in range(lengths[b], gradient.shape[0]):
            for c in range(np.uint64(gradient.shape[2])):
                gradient[t, b, c] = _ZERO


@take.otherwise
def _(shares: Any, classes: Any, lengths: Any, gradient: Any, start: Any, stop: Any) -> None:
    for b in range(start, stop):
        for s in range(classes.shape[1]):
            gradient[: lengths[b], b, classes[b, s]] -= shares[b, : lengths[b], s]
        gradient[lengths[b] :, b] = 0
