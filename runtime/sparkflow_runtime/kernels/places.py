"""Positions and counts in the type that was asked for, which may be too narrow for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.wire.errors import InvalidArgumentError


def check_holds(op: str, most: int, dtype: Any, told_by: str) -> None:
    """Raises InvalidArgumentError where positions or counts up to `most` do not fit `dtype`, which the attribute
    `told_by` named."""
    if most > np.iinfo(dtype).max:
        raise InvalidArgumentError(
            f"{op}: the numbers may be up to {most}, which {np.dtype(dtype)} does not hold. Give {told_by}=tf.int64"
        )


def as_places(op: str, places: Any, size: int, dtype: Any, told_by: str) -> Any:
    """Places among `size` values as `dtype`, without a copy where they have it already."""
    check_holds(op, size - 1, dtype, told_by)
    return places.astype(dtype, copy=False)
