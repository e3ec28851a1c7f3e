"""Pictures of clothes, of the sizes of mnist."""

from __future__ import annotations

import gzip
import os

import numpy as np

from sparkflow.keras.datasets.mnist import ORIGIN, Split
from sparkflow.keras.utils import get_file


def load_data() -> tuple[Split, Split]:
    """(images uint8 [60000, 28, 28], kinds uint8 [60000]), and 10000 of each for tests."""
    return _split("train"), _split("t10k")


def _split(name: str) -> Split:
    labels = _bytes(f"{name}-labels-idx1-ubyte.gz")[8:]
    return _bytes(f"{name}-images-idx3-ubyte.gz")[16:].reshape(len(labels), 28, 28), labels


def _bytes(name: str) -> np.ndarray:
    with gzip.open(get_file(name, ORIGIN + name, cache_subdir=os.path.join("datasets", "fashion-mnist"))) as file:
        return np.frombuffer(file.read(), np.uint8)
