"""Prices of houses."""

from __future__ import annotations

import numpy as np

from sparkflow.keras.datasets.mnist import ORIGIN, Split
from sparkflow.keras.utils import get_file

_SHA256 = "f553886a1f8d56431e820c5b82552d9d95cfcb96d1e678153f8839538947dff5"


def load_data(path: str = "boston_housing.npz", test_split: float = 0.2, seed: int = 113) -> tuple[Split, Split]:
    """(13 numbers [404, 13], prices [404]), and test_split of all for tests, in the order that `seed` gives."""
    if not 0 <= test_split < 1:
        raise ValueError(f"test_split must be in [0, 1), got {test_split}")
    with np.load(get_file(path, ORIGIN + "boston_housing.npz", file_hash=_SHA256)) as found:
        x, y = found["x"], found["y"]
    order = np.random.RandomState(seed).permutation(len(x))
    kept = int(len(x) * (1 - test_split))
    return (x[order[:kept]], y[order[:kept]]), (x[order[kept:]], y[order[kept:]])
