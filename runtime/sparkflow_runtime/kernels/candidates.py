"""Candidate samplers: classes drawn by a distribution, and how often each was to be expected.

unique: drawn again until all differ; a class of probability p is then expected 1 - (1 - p) ** tries times. For a seed
they are TensorFlow's, but for one in 2**32 / n of a learned or given distribution of n classes, which it draws again so
that all are equally likely to the last digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import philox, philox_loops
from sparkflow_runtime.kernels.distinct_loops import distinct_of
from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.random import draws
from sparkflow_runtime.kernels.registry import Function, Node, bound, kernel
from sparkflow_runtime.kernels.row_numbers import places_of_set
from sparkflow_runtime.wire.errors import InvalidArgumentError, NotFoundError

_RESERVED = 512  # blocks of words that a run keeps for each class that it draws


class _Distribution:
    """draw(words, n) -> classes; probability(classes) -> their probabilities; learn(true classes)."""

    def __init__(self, draw: Callable[[philox.Words, int], Any], probability: Callable[[Any], Any]):
        self.draw, self.probability = draw, probability

    def learn(self, classes: Any) -> None:
        """Nothing, but for one that learns."""


def _log_uniform(node: Node, size: int) -> _Distribution:
    whole = math.log1p(size)

    def draw(words: philox.Words, n: int) -> Any:
        return (np.exp(words.doubles(n) * whole).astype(np.int64) - 1) % size

    return _Distribution(draw, lambda c: np.log((c + 2.0) / (c + 1.0)) / whole)


def _uniform(node: Node, size: int) -> _Distribution:
    def draw(words: philox.Words, n: int) -> Any:
        return (words.longs(n) % np.uint64(size)).astype(np.int64)

    return _Distribution(draw, lambda c: np.full(np.shape(c), 1.0 / size))


def _weighted(weights: np.ndarray) -> _Distribution:
    """By Walker's alias method: a place is drawn evenly, and either its own class or that which fills up its share."""
    share, alias = _aliases(weights)

    def draw(words: philox.Words, n: int) -> Any:
        drawn = words.take(2 * n)
        even, place = philox_loops.unit(drawn[0::2].view(np.int32)), drawn[1::2] % np.uint32(len(weights))
        return np.where(even < share[place], place, alias[place])

    total = weights.sum(dtype=np.float64)
    return _Distribution(draw, lambda c: weights[c] / total)


def _aliases(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each place the share of its own class (float32), and the other class. Pairs are made from the last ones on."""
    shares = ((weights * np.float32(len(weights))).astype(np.float64) / weights.sum(dtype=np.float64)).tolist()
    alias = list(range(len(weights)))
    low, high = ([i for i, p in enumerate(shares) if (p < 1) is below] for below in (True, False))
    while low and high:
        few, many = low.pop(), high.pop()
        alias[few] = many
        shares[many] -= 1 - shares[few]
        (low if shares[many] < 1 else high).append(many)
    for i in low + high:  # of rounding
        shares[i] = 1.0
    return np.array(shares, np.float32), np.array(alias, np.int64)


def _fixed(node: Node, size: int) -> _Distribution:
    counts = node.attr("unigrams") or _counts_of(node.attr("vocab_file"))
    reserved = [0.0] * node.attr("num_reserved_ids", 0)
    weights = np.array([*reserved, *counts], np.float32) ** np.float32(node.attr("distortion", 1.0))
    weights[: len(reserved)] = 0.0
    if len(weights) != size:
        raise InvalidArgumentError(f"{node.op} {node.name!r}: {len(weights)} counts for range_max {size}")
    kept = np.arange(size) % node.attr("num_shards", 1) == node.attr("shard", 0)
    return _weighted(np.where(kept, weights, np.float32(0)))


def _counts_of(path: str) -> list[float]:
    try:
        return [float(line.rsplit(",", 1)[-1]) for line in Path(path).read_text().splitlines() if line.strip()]
    except OSError as error:
        raise NotFoundError(f"FixedUnigramCandidateSampler: cannot read vocab_file {path!r}: {error}") from None


class _Learned(_Distribution):
    """Every class counts once to begin with, and once more each time it is true."""

    def __init__(self, node: Node, size: int):
        self._weights = np.ones(size, np.int64)
        super().__init__(self._draw, lambda c: self._weights[c] / self._weights.sum())

    def _draw(self, words: philox.Words, n: int) -> Any:
        sums = np.cumsum(self._weights)
        drawn = words.take(n) if sums[-1] < 1 << 32 else words.longs(n)
        return np.searchsorted(sums, (drawn % drawn.dtype.type(sums[-1])).astype(np.int64), side="right")

    def learn(self, classes: Any) -> None:
        np.add.at(self._weights, classes.reshape(-1), 1)


def _sampler(op: str, make: Callable[[Node, int], _Distribution]) -> None:
    def factory(node: Node) -> Function:
        stream, n, unique = draws(node), node.attrs["num_sampled"], node.attrs["unique"]
        size = node.attrs["range_max"]
        if unique and n > size:
            raise InvalidArgumentError(f"{op} {node.name!r}: cannot draw {n} different classes of {size}")
        distribution = make(node, size)

        def run(true_classes: Any) -> Any:
            true = host(true_classes)
            if true.ndim != 2 or true.shape[1] != node.attrs["num_true"]:
                raise InvalidArgumentError(f"true_classes must have {node.attrs['num_true']} columns, got {true.shape}")
            if true.size and (true.min() < 0 or true.max() >= size):
                raise InvalidArgumentError(f"{op}: true classes must lie in [0, {size})")
            drawn, tries = _draws(distribution, philox.Words(stream.skip(_RESERVED * n)), n, unique)
            classes = np.concatenate([true.reshape(-1), drawn])
            expected = _expected(distribution.probability(classes), n, tries, unique)
            distribution.learn(true)
            parts = drawn.astype(np.int64), expected[: true.size].reshape(true.shape), expected[true.size :]
            return [node.xp.asarray(v) for v in parts]

        return run

    bound(op, multi=True)(factory)


def _draws(distribution: _Distribution, words: philox.Words, n: int, unique: bool) -> tuple[np.ndarray, int]:
    """(the classes, how many draws it took)."""
    if not unique:
        return np.asarray(distribution.draw(words, n)), n
    drawn = np.asarray(distribution.draw(words, max(16, n)))
    while True:
        distinct, places = distinct_of(drawn)
        if len(distinct) >= n:
            return distinct[:n].astype(np.int64), int(np.argmax(places == n - 1)) + 1
        drawn = np.concatenate([drawn, distribution.draw(words, max(16, n))])


def _expected(p: np.ndarray, n: int, tries: int, unique: bool) -> np.ndarray:
    return np.asarray(-np.expm1(tries * np.log1p(-p)) if unique and tries != n else p * n, np.float32)


_sampler("LogUniformCandidateSampler", _log_uniform)
_sampler("UniformCandidateSampler", _uniform)
_sampler("LearnedUnigramCandidateSampler", _Learned)
_sampler("FixedUnigramCandidateSampler", _fixed)


@kernel("AllCandidateSampler", multi=True)
def _all(xp: Any, true_classes: Any, *, num_sampled: int) -> Any:
    ones = xp.ones(true_classes.shape, xp.float32)
    return xp.arange(num_sampled, dtype=xp.int64), ones, xp.ones(num_sampled, xp.float32)


@kernel("ComputeAccidentalHits", multi=True)
def _hits(xp: Any, true_classes: Any, sampled: Any) -> Any:
    if xp is np and true_classes.shape[1:] == (1,):
        rows, ids = places_of_set(true_classes == sampled).T
    else:
        rows, _, ids = xp.nonzero(true_classes[:, :, None] == sampled[None, None, :])
    weights = xp.full(len(rows), -np.finfo(np.float32).max, xp.float32)
    return rows.astype(xp.int32), ids.astype(xp.int64), weights
