"""Random kernels: a stream of Philox for each node, which goes on from step to step, with TensorFlow's bits for the
node's seeds but where an op says otherwise. Shuffling goes by TensorFlow's swaps, classes by its one thread."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import philox
from sparkflow_runtime.kernels.host import host, ints, one_int
from sparkflow_runtime.kernels.philox_loops import swapped
from sparkflow_runtime.kernels.random_rejection import gamma, poisson
from sparkflow_runtime.kernels.registry import Function, Node, bound
from sparkflow_runtime.wire.errors import InvalidArgumentError


def stream_of(node: Node) -> philox.Stream:
    return philox.of_op((node.attr("seed", 0), node.attr("seed2", 0)))


def draws(node: Node) -> philox.Draws:
    return philox.Draws(stream_of(node))


def _drawn(op: str, draw: Callable[[philox.Stream, tuple[int, ...], Any], Any]) -> None:
    def factory(node: Node) -> Function:
        stream, dtype = draws(node), node.attr("dtype").np

        def run(shape: Any) -> Any:
            sizes = ints(shape)
            if any(s < 0 for s in sizes):
                raise InvalidArgumentError(f"{op} {node.name!r}: sizes must not be negative, got {sizes}")
            return node.xp.asarray(draw(stream.take(prod(sizes)), sizes, dtype))

        return run

    bound(op)(factory)


_drawn("RandomUniform", philox.uniform)
_drawn("RandomStandardNormal", philox.normal)
_drawn("TruncatedNormal", philox.truncated)


@bound("RandomUniformInt")
def _uniform_int(node: Node) -> Function:
    stream = draws(node)

    def run(shape: Any, low: Any, high: Any) -> Any:
        if low >= high:
            raise InvalidArgumentError(f"RandomUniformInt {node.name!r}: need minval < maxval, got {low} and {high}")
        sizes = ints(shape)
        return node.xp.asarray(philox.integers(stream.take(prod(sizes)), sizes, int(low), int(high), low.dtype))

    return run


@bound("RandomShuffle")
def _shuffle(node: Node) -> Function:
    stream = draws(node)

    def run(value: Any) -> Any:
        if not value.ndim or len(value) < 2 or not value.size:
            return value
        drawn = philox.words(stream.skip((len(value) + 2) // 4), (len(value) + 2) // 4).reshape(-1)
        order = np.arange(len(value))
        swapped(order, drawn)
        return value[node.xp.asarray(order)]

    return run


# ---------------------------------------------------------------------- classes, gamma, Poisson


_FEW = 1 << 12  # samples times classes


def drawn_classes(what: str, stream: Callable[[int], philox.Stream], logits: Any, num_samples: Any, dtype: Any) -> Any:
    """A class is where a uniform value falls among the running sums of the probabilities. stream(values): where to
    draw them."""
    scores, count = host(logits).astype(np.float64), one_int(num_samples)
    if scores.ndim != 2 or count < 0 or (not scores.shape[1] and scores.size + count):
        raise InvalidArgumentError(
            f"{what}: logits must be a matrix with classes and num_samples at least 0, got {list(scores.shape)} and "
            f"{count}"
        )
    sums = _running_sums(scores)
    reserved = len(scores) * -(-count // 4) * 4 * 2
    drawn = philox.uniform(stream(reserved), (len(scores), count), np.dtype(np.float64))
    out, last = np.empty(drawn.shape, dtype), scores.shape[1] - 1
    if count * scores.shape[1] <= _FEW:  # comparing with all sums takes less than a search's call a row
        for k in range(count):
            out[:, k] = np.minimum((sums <= drawn[:, k : k + 1] * sums[:, -1:]).sum(1), last)
        return out
    for row, line, values in zip(out, sums, drawn):
        row[...] = np.searchsorted(line, values * line[-1], "right").clip(0, last)
    return out


def _running_sums(scores: np.ndarray) -> np.ndarray:
    """Of the probabilities, but for a factor; of a score that is none it is 0."""
    finite = np.isfinite(scores)
    if finite.all() and scores.size:
        return np.asarray(np.exp(scores - scores.max(1, keepdims=True)).cumsum(1))
    with np.errstate(invalid="ignore"):
        top = np.where(finite, scores, -np.inf).max(1, keepdims=True, initial=-np.inf)
        return np.cumsum(np.where(finite, np.exp(scores - top), 0), 1)


@bound("Multinomial")
def _multinomial(node: Node) -> Function:
    stream, dtype, what = draws(node), node.attr("output_dtype").np, f"Multinomial {node.name!r}"
    return lambda logits, num_samples: node.xp.asarray(drawn_classes(what, stream.take, logits, num_samples, dtype))


def _of_parameter(op: str, draw: Callable[[philox.Stream, np.ndarray, int], np.ndarray], typed: bool) -> None:
    """draw(stream, parameters, count) -> float64 [count, parameters]. typed: whether an attribute says the type."""

    def factory(node: Node) -> Function:
        stream, dtype = draws(node), node.attr("dtype").np if typed else None

        def run(shape: Any, parameter: Any) -> Any:
            values, sizes = host(parameter), ints(shape)
            if any(s < 0 for s in sizes) or (values < 0).any():
                raise InvalidArgumentError(
                    f"{op} {node.name!r}: neither sizes {sizes} nor the parameter may be negative"
                )
            if dtype is not None and dtype.kind in "iu" and not (values < np.iinfo(dtype).max / 2).all():
                raise InvalidArgumentError(
                    f"{op} {node.name!r}: the parameter must be below half of what {dtype} holds, got {values.max()}"
                )
            count = prod(sizes)
            drawn = draw(stream.take(count * values.size), values.reshape(-1), count)
            return node.xp.asarray(drawn.reshape((*sizes, *values.shape)).astype(dtype or values.dtype))

        return run

    bound(op)(factory)


_of_parameter("RandomGamma", gamma, typed=False)
_of_parameter("RandomPoissonV2", poisson, typed=True)
