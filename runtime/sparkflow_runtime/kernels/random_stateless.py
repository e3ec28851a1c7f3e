"""Random values that depend on a seed tensor alone: a Philox generator for each call."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import ints, one_int
from sparkflow_runtime.kernels.random import drawn_classes, narrowed, within_two
from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError

_WORD = 2**64


def _generator(op: str, seed: Any) -> np.random.Generator:
    two = ints(seed)
    if len(two) != 2:
        raise InvalidArgumentError(f"{op}: seed must have shape [2], got {len(two)} numbers")
    return np.random.Generator(np.random.Philox(key=[s % _WORD for s in two]))


_DRAWS: dict[str, Any] = {
    "StatelessRandomUniform": lambda rng, shape, dtype: rng.random(shape, dtype),
    "StatelessRandomNormal": lambda rng, shape, dtype: rng.standard_normal(shape, dtype),
    "StatelessTruncatedNormal": within_two,
}


def _values(op: str, draw: Any) -> None:
    @kernel(op)
    def run(xp: Any, shape: Any, seed: Any, *, dtype: DType) -> Any:
        sizes = ints(shape)
        if any(s < 0 for s in sizes):
            raise InvalidArgumentError(f"{op}: sizes must not be negative, got {sizes}")
        wide = np.float64 if dtype.np == np.float64 else np.float32
        return xp.asarray(narrowed(draw(_generator(op, seed), sizes, wide), dtype.np))


for _op, _draw in _DRAWS.items():
    _values(_op, _draw)


@kernel("StatelessRandomUniformInt")
def _integers(xp: Any, shape: Any, seed: Any, low: Any, high: Any) -> Any:
    first, behind = one_int(low), one_int(high)
    if first >= behind:
        raise InvalidArgumentError(f"StatelessRandomUniformInt: need minval < maxval, got {first} and {behind}")
    rng = _generator("StatelessRandomUniformInt", seed)
    return xp.asarray(rng.integers(first, behind, ints(shape), dtype=low.dtype))


@kernel("StatelessMultinomial")
def _classes(xp: Any, logits: Any, num_samples: Any, seed: Any, *, output_dtype: DType | None = None) -> Any:
    op = "StatelessMultinomial"
    kind = np.int64 if output_dtype is None else output_dtype.np
    return xp.asarray(drawn_classes(op, _generator(op, seed), logits, num_samples, kind))
