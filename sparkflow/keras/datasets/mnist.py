"""Digits written by hand."""

from __future__ import annotations

import numpy as np

from sparkflow.keras.utils import get_file

ORIGIN = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"
_SHA256 = "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"
Split = tuple[np.ndarray, np.ndarray]


def load_data(path: str = "mnist.npz") -> tuple[Split, Split]:
    """(images uint8 [60000, 28, 28], digits uint8 [60000]), and 10000 of each for tests. path: in ~/.keras/datasets."""
    with np.load(get_file(path, ORIGIN + "mnist.npz", file_hash=_SHA256)) as found:
        return (found["x_train"], found["y_train"]), (found["x_test"], found["y_test"])
