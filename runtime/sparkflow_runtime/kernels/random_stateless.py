"""Random values that depend on a seed, or on a key and a counter, alone, in TensorFlow's bits."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import philox
from sparkflow_runtime.kernels.host import host, ints, one_int
from sparkflow_runtime.kernels.philox_loops import swapped
from sparkflow_runtime.kernels.random import drawn_classes
from sparkflow_runtime.kernels.random_between import between
from sparkflow_runtime.kernels.random_binomial import binomial
from sparkflow_runtime.kernels.random_rejection import gamma, poisson
from sparkflow_runtime.kernels.registry import Node, bound, kernel
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnimplementedError

_WORD = 2**64
_STATE = 3  # numbers that a generator of Philox keeps: its counter, low and high, and its key
_PHILOX = (1, 3)  # its number, and that of "as the device has it"


def _stream(op: str, seed: Any) -> philox.Stream:
    """That of two seeds."""
    two = ints(seed)
    if len(two) != 2:
        raise InvalidArgumentError(f"{op}: seed must have shape [2], got {len(two)} numbers")
    return philox.of_seed((two[0], two[1]))


def _stream_at(op: str, key: Any, counter: Any, alg: Any) -> philox.Stream:
    """That of a key and a counter."""
    keys, counts, number = ints(key), ints(counter), one_int(alg)
    if number not in _PHILOX:
        raise UnimplementedError(f"{op}: draws by algorithm {number}; Philox (1) is here")
    if len(keys) != 1 or len(counts) < 2:
        raise InvalidArgumentError(f"{op}: key must have shape [1] and counter [2], got {len(keys)} and {len(counts)}")
    low, high = (c % _WORD for c in counts[:2])
    return philox.Stream(keys[0] % _WORD, low | high << 64)


def _sizes(op: str, shape: Any) -> tuple[int, ...]:
    sizes = ints(shape)
    if any(s < 0 for s in sizes):
        raise InvalidArgumentError(f"{op}: sizes must not be negative, got {sizes}")
    return sizes


def _values(name: str, draw: Any) -> None:
    @kernel(name)
    def of_seed(xp: Any, shape: Any, seed: Any, *, dtype: DType) -> Any:
        return xp.asarray(draw(_stream(name, seed), _sizes(name, shape), dtype.np))

    second = f"{name}V2"

    @kernel(second)
    def of_key(xp: Any, shape: Any, key: Any, counter: Any, alg: Any, *, dtype: DType) -> Any:
        return xp.asarray(draw(_stream_at(second, key, counter, alg), _sizes(second, shape), dtype.np))


for _op, _draw in {
    "StatelessRandomUniform": philox.uniform,
    "StatelessRandomNormal": philox.normal,
    "StatelessTruncatedNormal": philox.truncated,
    "StatelessRandomUniformFullInt": philox.full_range,
}.items():
    _values(_op, _draw)


def _between(op: str, stream: philox.Stream, shape: Any, low: Any, high: Any) -> Any:
    first, behind = one_int(low), one_int(high)
    if first >= behind:
        raise InvalidArgumentError(f"{op}: need minval < maxval, got {first} and {behind}")
    return philox.integers(stream, _sizes(op, shape), first, behind, low.dtype)


@kernel("StatelessRandomUniformInt")
def _integers(xp: Any, shape: Any, seed: Any, low: Any, high: Any) -> Any:
    op = "StatelessRandomUniformInt"
    return xp.asarray(_between(op, _stream(op, seed), shape, low, high))


@kernel("StatelessRandomUniformIntV2")
def _integers_of_key(xp: Any, shape: Any, key: Any, counter: Any, alg: Any, low: Any, high: Any) -> Any:
    op = "StatelessRandomUniformIntV2"
    return xp.asarray(_between(op, _stream_at(op, key, counter, alg), shape, low, high))


@kernel("StatelessRandomGetKeyCounter", multi=True)
def _key_and_counter(xp: Any, seed: Any) -> Any:
    stream = _stream("StatelessRandomGetKeyCounter", seed)
    counter = [stream.counter % _WORD, stream.counter >> 64]
    return xp.asarray(np.array([stream.key], np.uint64)), xp.asarray(np.array(counter, np.uint64))


@bound("RefRngReadAndSkip", refs=(0,))
def _read_and_skip(node: Node) -> Any:
    """The state [counter, counter, key] as it was; the counter goes on by `delta` values. Nobody reads in between."""

    def run(ref: Variable, alg: Any, delta: Any) -> Any:
        with ref.lock:
            now = ref.read()
            before = host(now).copy()
            if before.size != _STATE:
                raise InvalidArgumentError(f"RefRngReadAndSkip: a state has {_STATE} numbers, got {before.size}")
            stream = _stream_at("RefRngReadAndSkip", before[2:], before[:2], alg).at(one_int(delta) * philox.RESERVED)
            counter = np.array([stream.counter % _WORD, stream.counter >> 64], np.uint64).view(np.int64)
            now[:2] = node.xp.asarray(counter)
        return node.xp.asarray(before)

    return run


@kernel("StatelessRandomGetAlg")
def _algorithm(xp: Any) -> Any:
    return xp.asarray(np.int32(_PHILOX[0]))


@kernel("StatelessShuffle")
def _shuffle(xp: Any, value: Any, key: Any, counter: Any, alg: Any) -> Any:
    stream = _stream_at("StatelessShuffle", key, counter, alg)
    if not value.ndim or len(value) < 2 or not value.size:
        return value
    order = np.arange(len(value))
    swapped(order, philox.words(stream, (len(value) + 2) // 4).reshape(-1))
    return value[xp.asarray(order)]


# ---------------------------------------------------------------------- other distributions


def _each(op: str, sizes: tuple[int, ...], *given: Any) -> tuple[list[np.ndarray], int]:
    """What the values are told, broadcast, flat and float64, and how many values each of it has. Of parameters whose
    shape ends `sizes`, those of the first come first."""
    arrays = [host(x).astype(np.float64) for x in given]
    try:
        shape = np.broadcast_shapes(*(x.shape for x in arrays))
        if sizes[len(sizes) - len(shape) :] != shape:
            shape = np.broadcast_shapes(shape, sizes)
            if shape != sizes:
                raise ValueError
    except ValueError as error:
        shapes = [list(x.shape) for x in arrays]
        raise InvalidArgumentError(f"{op}: parameters of shapes {shapes} do not broadcast to {list(sizes)}") from error
    return [np.broadcast_to(x, shape).reshape(-1) for x in arrays], prod(sizes[: len(sizes) - len(shape)])


@kernel("StatelessRandomGammaV2")
def _gamma(xp: Any, shape: Any, seed: Any, alpha: Any) -> Any:
    op = "StatelessRandomGammaV2"
    sizes = _sizes(op, shape)
    (alphas,), count = _each(op, sizes, alpha)
    drawn = gamma(_stream(op, seed), alphas, count).reshape(sizes)
    return xp.asarray(np.maximum(drawn.astype(alpha.dtype), np.finfo(np.float32).tiny))


@kernel("StatelessRandomPoisson")
def _poisson(xp: Any, shape: Any, seed: Any, lam: Any, *, dtype: DType) -> Any:
    op = "StatelessRandomPoisson"
    sizes = _sizes(op, shape)
    (rates,), count = _each(op, sizes, lam)
    if not (rates >= 0).all():
        raise InvalidArgumentError(f"{op}: rates must not be negative, got {rates.min()}")
    return xp.asarray(poisson(_stream(op, seed), rates, count).reshape(sizes).astype(dtype.np))


@kernel("StatelessRandomBinomial")
def _binomial(xp: Any, shape: Any, seed: Any, counts: Any, probs: Any, *, dtype: DType) -> Any:
    op = "StatelessRandomBinomial"
    sizes = _sizes(op, shape)
    (several, chances), count = _each(op, sizes, counts, probs)
    if not ((several >= 0) & np.isfinite(several)).all() or not ((chances >= 0) & (chances <= 1)).all():
        raise InvalidArgumentError(f"{op}: counts must be finite and not negative, and probs lie in [0, 1]")
    drawn = binomial(_stream(op, seed), several, chances, count, counts.dtype).reshape(sizes)
    return xp.asarray(drawn.astype(dtype.np))


@kernel("StatelessParameterizedTruncatedNormal")
def _between_limits(
    xp: Any, shape: Any, seed: Any, means: Any, stddevs: Any, minvals: Any, maxvals: Any
) -> Any:  # fmt: skip
    op, sizes = "StatelessParameterizedTruncatedNormal", _sizes("StatelessParameterizedTruncatedNormal", shape)
    given, count = _each(op, sizes, means, stddevs, minvals, maxvals)
    mean, deviation, low, high = given
    usable = np.isfinite(mean) & (deviation > 0) & np.isfinite(deviation)
    if not (usable & (low < high) & (np.isfinite(low) | np.isfinite(high))).all():
        raise InvalidArgumentError(
            f"{op}: means and stddevs must be finite, stddevs positive, minvals below maxvals and one of both finite"
        )
    return xp.asarray(between(_stream(op, seed), given, count, means.dtype).reshape(sizes))


@kernel("StatelessMultinomial")
def _classes(xp: Any, logits: Any, num_samples: Any, seed: Any, *, output_dtype: DType | None = None) -> Any:
    op = "StatelessMultinomial"
    kind = np.int64 if output_dtype is None else output_dtype.np
    return xp.asarray(drawn_classes(op, lambda _: _stream(op, seed), logits, num_samples, kind))
