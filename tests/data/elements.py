"""What a dataset gives, element by element."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

import sparkflow as tf


def values(dataset: Any, most: int = 1000) -> list[Any]:
    element, found = dataset.make_one_shot_iterator().get_next(), []
    with tf.Session() as session, contextlib.suppress(tf.errors.OutOfRangeError):
        while len(found) < most:
            found.append(session.run(element))
    return [f.tolist() if isinstance(f, (np.ndarray, np.generic)) else f for f in found]
