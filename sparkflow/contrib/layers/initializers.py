"""Initializers that keep the size of what flows through a network, under tf.contrib's names."""

from __future__ import annotations

from typing import Any

from sparkflow.ops import init_ops
from sparkflow_runtime.wire import dtypes


def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: Any = dtypes.float32) -> Any:
    """Variance 2 / (ways in + ways out). Source: Glorot and Bengio 2010."""
    kind = init_ops.glorot_uniform_initializer if uniform else init_ops.glorot_normal_initializer
    return kind(seed=seed, dtype=dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: Any = dtypes.float32,
) -> Any:
    """Variance factor / n, where n is the number of ways in, out, or their mean. Source: He et al. 2015."""
    return init_ops.variance_scaling_initializer(
        scale=factor,
        mode=mode.lower(),
        distribution="uniform" if uniform else "truncated_normal",
        seed=seed,
        dtype=dtype,
    )
