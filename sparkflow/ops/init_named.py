"""Initializers by name, as tf.keras.initializers has them: layers and cells take such a name for one.

They are those of tf.initializers, with Keras' names and defaults.
"""

from __future__ import annotations

from typing import Any

from sparkflow.ops import init_ops
from sparkflow.ops.init_more import Identity, Orthogonal
from sparkflow.ops.init_ops import (
    Constant,
    GlorotNormal,
    GlorotUniform,
    Initializer,
    Ones,
    Zeros,
)
from sparkflow.ops.init_ops import RandomNormal as _Normal
from sparkflow.ops.init_ops import RandomUniform as _Uniform
from sparkflow.ops.init_ops import TruncatedNormal as _Truncated
from sparkflow_runtime.wire.dtypes import float32


class RandomNormal(_Normal):
    """Of deviation 0.05 by default."""

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None, dtype: Any = float32):
        super().__init__(mean, stddev, seed, dtype)


class TruncatedNormal(_Truncated):
    """Of deviation 0.05 by default."""

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None, dtype: Any = float32):
        super().__init__(mean, stddev, seed, dtype)


class RandomUniform(_Uniform):
    """In [-0.05, 0.05) by default."""

    def __init__(self, minval: float = -0.05, maxval: float = 0.05, seed: int | None = None, dtype: Any = float32):
        super().__init__(minval, maxval, seed, dtype)


constant, identity, ones, orthogonal, zeros = Constant, Identity, Ones, Orthogonal, Zeros
glorot_normal, glorot_uniform = GlorotNormal, GlorotUniform
normal = random_normal = RandomNormal
uniform = random_uniform = RandomUniform
truncated_normal = TruncatedNormal
VarianceScaling, he_normal, he_uniform = init_ops.VarianceScaling, init_ops.he_normal, init_ops.he_uniform
lecun_normal, lecun_uniform = init_ops.lecun_normal, init_ops.lecun_uniform

_NAMED = {
    name: value for name, value in globals().items() if not name.startswith("_") and (
        (isinstance(value, type) and issubclass(value, Initializer)) or name.startswith(("he_", "lecun_"))
    )
}  # fmt: skip


def get(identifier: Any) -> Any:
    """The initializer of that name; itself where it is no name. Raises ValueError on an unknown name."""
    if isinstance(identifier, type):
        return identifier()
    if not isinstance(identifier, str):
        return identifier
    if identifier not in _NAMED:
        raise ValueError(f"Unknown initializer: {identifier!r}; there are {', '.join(sorted(_NAMED))}")
    return _NAMED[identifier]()
