"""tf.contrib.nn: of it, dropout for self-normalizing networks."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, math
from sparkflow.ops.random import random_uniform

_DROPPED = -1.7580993408473766  # what selu comes to far below zero: its scale times its alpha


def alpha_dropout(
    x: Any, keep_prob: float, noise_shape: Any = None, seed: int | None = None, name: str | None = None
) -> Tensor:
    """x with some values set to selu's least, then scaled and moved so that a mean of 0 and a variance of 1 stay.

    noise_shape: the shape of the choices, broadcast to x's. Raises ValueError unless 0 < keep_prob <= 1.
    Source: Klambauer, Unterthiner, Mayr and Hochreiter 2017, Self-Normalizing Neural Networks.
    """
    if not 0 < keep_prob <= 1:
        raise ValueError(f"alpha_dropout: keep_prob must be in (0, 1], got {keep_prob}")
    with get_default_graph().name_scope(name or "alpha_dropout"):
        x = convert_to_tensor(x)
        if keep_prob == 1:
            return x
        shape = array.shape(x) if noise_shape is None else noise_shape
        kept = math.cast(math.greater_equal(random_uniform(shape, dtype=x.dtype, seed=seed), 1 - keep_prob), x.dtype)
        scale = (keep_prob + keep_prob * (1 - keep_prob) * _DROPPED**2) ** -0.5
        found = scale * (x * kept + _DROPPED * (1 - kept)) - scale * _DROPPED * (1 - keep_prob)
        found.set_shape(x.shape)
        return found
