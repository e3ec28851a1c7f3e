"""Random kernels: a Philox generator for each node, which goes on from step to step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import host, ints, one_int
from sparkflow_runtime.kernels.parallel import runs, share
from sparkflow_runtime.kernels.registry import Function, Node, bound
from sparkflow_runtime.wire.errors import InvalidArgumentError

_WORD = 2**64


def _unseeded() -> np.random.Philox:
    return np.random.Philox()


def generator(node: Node) -> np.random.Generator:
    """Keyed by the node's two seeds; (0, 0) is seeded afresh from the system."""
    seeds = node.attr("seed", 0), node.attr("seed2", 0)
    if seeds == (0, 0):
        return np.random.Generator(_unseeded())
    return np.random.Generator(np.random.Philox(key=[s % _WORD for s in seeds]))


def _drawn(node: Node, draw: Callable[[np.random.Generator, tuple[int, ...], Any], Any]) -> Function:
    """draw(generator, shape, float32 or float64); narrower types are drawn as float32 and rounded."""
    rng, dtype = generator(node), node.attr("dtype").np
    wide = np.float64 if dtype == np.float64 else np.float32

    def run(shape: Any) -> Any:
        sizes = ints(shape)
        if any(s < 0 for s in sizes):
            raise InvalidArgumentError(f"{node.op} {node.name!r}: sizes must not be negative, got {sizes}")
        return node.xp.asarray(narrowed(draw(rng, sizes, wide), dtype))

    return run


def narrowed(values: np.ndarray, dtype: Any) -> np.ndarray:
    """In a type of fewer digits; what would round up to 1 stays below it."""
    narrow = np.asarray(values).astype(dtype, copy=False)
    if dtype.itemsize < 4:
        below = np.nextafter(dtype.type(1), dtype.type(0))
        narrow = np.where((values < 1) & (narrow >= dtype.type(1)), below, narrow)
    return narrow


@bound("RandomUniform")
def _uniform(node: Node) -> Function:
    return _drawn(node, uniform)


_SHARED_BYTES = 1 << 20  # of a block, and of values from where a second thread pays
_DRAWN_BYTES = 32  # what Philox makes at once


def uniform(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """What rng.random gives, in several threads where there is much to draw: Philox counts, so each can begin at its
    block, and the generator goes on behind the last."""
    size, step = prod(shape), _DRAWN_BYTES // np.dtype(dtype).itemsize
    state = rng.bit_generator.state
    if size * np.dtype(dtype).itemsize <= _SHARED_BYTES or not _between_draws(state):
        return rng.random(shape, dtype)
    out = np.empty(shape, dtype)
    flat, whole = out.reshape(-1), size // step

    def work(blocks: Sequence[tuple[int, int]]) -> None:
        bits = np.random.Philox(key=0)
        for first, count in blocks:
            bits.state = state  # type: ignore[assignment]
            np.random.Generator(bits.advance(first)).random(
                out=flat[first * step : (first + count) * step], dtype=dtype
            )

    share(work, runs(whole, _SHARED_BYTES // _DRAWN_BYTES), multiplies=False)
    rng.bit_generator.advance(whole)  # type: ignore[attr-defined]
    rng.random(out=flat[whole * step :], dtype=dtype)
    return out


def _between_draws(state: Any) -> bool:
    """Whether all that Philox made at once has been used."""
    return bool(state["bit_generator"] == "Philox" and state["buffer_pos"] == 4 and not state["has_uint32"])


@bound("RandomStandardNormal")
def _standard_normal(node: Node) -> Function:
    return _drawn(node, lambda rng, shape, dtype: rng.standard_normal(shape, dtype))


@bound("TruncatedNormal")
def _truncated_normal(node: Node) -> Function:
    return _drawn(node, within_two)


def within_two(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Normal values; those beyond two standard deviations (1 in 22) are drawn again."""
    values = np.asarray(rng.standard_normal(shape, dtype))
    flat = values.reshape(-1)
    outside = np.flatnonzero(np.abs(flat) > 2)
    while outside.size:
        flat[outside] = rng.standard_normal(outside.size, dtype)
        outside = outside[np.abs(flat[outside]) > 2]
    return values


@bound("RandomUniformInt")
def _uniform_int(node: Node) -> Function:
    rng = generator(node)

    def run(shape: Any, low: Any, high: Any) -> Any:
        if low >= high:
            raise InvalidArgumentError(f"RandomUniformInt {node.name!r}: need minval < maxval, got {low} and {high}")
        return node.xp.asarray(rng.integers(int(low), int(high), ints(shape), dtype=low.dtype))

    return run


@bound("RandomShuffle")
def _shuffle(node: Node) -> Function:
    rng = generator(node)
    return lambda value: value[node.xp.asarray(rng.permutation(len(value)))] if value.ndim else value


# ---------------------------------------------------------------------- classes, gamma, Poisson


_FEW = 1 << 12  # samples times classes


def drawn_classes(what: str, rng: np.random.Generator, logits: Any, num_samples: Any, dtype: Any) -> np.ndarray:
    """A class is where a uniform value falls among the running sums of the probabilities."""
    scores, count = host(logits).astype(np.float64), one_int(num_samples)
    if scores.ndim != 2 or count < 0 or (not scores.shape[1] and scores.size + count):
        raise InvalidArgumentError(
            f"{what}: logits must be a matrix with classes and num_samples at least 0, got {list(scores.shape)} and "
            f"{count}"
        )
    with np.errstate(invalid="ignore"):
        top = np.where(np.isfinite(scores), scores, -np.inf).max(1, keepdims=True, initial=-np.inf)
        sums = np.cumsum(np.where(np.isfinite(scores), np.exp(scores - top), 0), 1)
    drawn = rng.random((len(scores), count))
    out, last = np.empty(drawn.shape, dtype), scores.shape[1] - 1
    if count * scores.shape[1] <= _FEW:  # comparing with all sums takes less than a search's call a row
        for k in range(count):
            out[:, k] = (sums <= drawn[:, k : k + 1] * sums[:, -1:]).sum(1).clip(0, last)
        return out
    for row, line, values in zip(out, sums, drawn):
        row[...] = np.searchsorted(line, values * line[-1], "right").clip(0, last)
    return out


@bound("Multinomial")
def _multinomial(node: Node) -> Function:
    rng, dtype, what = generator(node), node.attr("output_dtype").np, f"Multinomial {node.name!r}"
    return lambda logits, num_samples: node.xp.asarray(drawn_classes(what, rng, logits, num_samples, dtype))


def _of_parameter(node: Node, dtype: Any, draw: Callable[[np.random.Generator, Any, tuple[int, ...]], Any]) -> Function:
    """draw(generator, parameter, shape + parameter.shape), as `dtype`."""
    rng = generator(node)

    def run(shape: Any, parameter: Any) -> Any:
        values, sizes = host(parameter), ints(shape)
        if any(s < 0 for s in sizes) or (values < 0).any():
            raise InvalidArgumentError(
                f"{node.op} {node.name!r}: neither sizes {sizes} nor the parameter may be negative"
            )
        drawn = draw(rng, values.astype(np.float64), sizes + values.shape)
        return node.xp.asarray(np.asarray(drawn).astype(dtype or values.dtype))

    return run


@bound("RandomGamma")
def _gamma(node: Node) -> Function:
    return _of_parameter(node, None, lambda rng, alpha, shape: rng.standard_gamma(alpha, shape))


@bound("RandomPoissonV2")
def _poisson(node: Node) -> Function:
    return _of_parameter(node, node.attr("dtype").np, lambda rng, rate, shape: rng.poisson(rate, shape))
