"""Small tensors that say how to compute, such as shapes and axes: read on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.wire.errors import InvalidArgumentError


def host(x: Any) -> np.ndarray:
    """x as a numpy array, copied from the device where it lies on one."""
    return x.get() if hasattr(x, "get") else np.asarray(x)


def ints(x: Any) -> tuple[int, ...]:
    """The integers of a tensor, in order."""
    if type(x) is np.ndarray and x.ndim == 1:
        return tuple(x.tolist())
    return tuple(host(x).ravel().tolist())


def one_int(x: Any) -> int:
    return int(x.item()) if isinstance(x, (np.ndarray, np.generic)) and x.size == 1 else int(host(x).ravel()[0])


def check_indices(indices: Any, size: int, what: str) -> None:
    """Raises InvalidArgumentError naming the first index outside [0, size)."""
    if not indices.size or indices.view(f"u{indices.itemsize}").max() < size:  # a negative one is huge when unsigned
        return
    flat = host(indices)
    where = np.argwhere((flat < 0) | (flat >= size))[0]
    at = ",".join(map(str, where))
    raise InvalidArgumentError(f"{what}: indices[{at}] = {flat[tuple(where)]} is not in [0, {size})")
