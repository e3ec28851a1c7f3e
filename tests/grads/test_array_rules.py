"""Gradients of blocks, rolls, scatters into copies, and the n-th element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


_AT = [[0, 1], [2, 0], [0, 1]]
CASES = [
    ("space_to_batch", lambda x: tf.space_to_batch_nd(x, [2, 3], [[1, 1], [0, 0]]), (normal(1, 4, 6, 2),)),
    ("batch_to_space", lambda x: tf.batch_to_space_nd(x, [2, 3], [[1, 0], [0, 2]]), (normal(6, 2, 2, 1),)),
    ("space_to_depth", lambda x: tf.space_to_depth(x, 2), (normal(1, 4, 2, 3),)),
    ("depth_to_space", lambda x: tf.depth_to_space(x, 2), (normal(1, 2, 2, 4),)),
    ("space_to_depth first", lambda x: tf.space_to_depth(x, 2, data_format="NCHW"), (normal(1, 3, 4, 2),)),
    ("depth_to_space first", lambda x: tf.depth_to_space(x, 2, data_format="NCHW"), (normal(1, 4, 2, 2),)),
    ("roll", lambda x: tf.roll(x, [1, -2], [0, 1]), (normal(3, 4),)),
    ("scatter update", lambda x, u: tf.tensor_scatter_update(x, _AT[:2], u), (normal(3, 2), normal(2))),
    ("scatter add", lambda x, u: tf.tensor_scatter_add(x, _AT, u), (normal(3, 2), normal(3))),
    ("scatter sub", lambda x, u: tf.tensor_scatter_sub(x, [[2], [0]], u), (normal(3, 2), normal(2, 2))),
    ("scatter max", lambda x, u: tf.tensor_scatter_max(x, _AT[:2], u), (normal(3, 2), normal(2))),
    ("scatter min", lambda x, u: tf.tensor_scatter_min(x, _AT[:2], u), (normal(3, 2), normal(2))),
    ("nth_element", lambda x: tf.nn.nth_element(x, 2), (normal(3, 5),)),
    ("nth_element reverse", lambda x: tf.nn.nth_element(x, 1, reverse=True), (normal(3, 5),)),
]


@pytest.mark.parametrize("known_shapes", [True, False])
@pytest.mark.parametrize("name, build, values", CASES, ids=[c[0] for c in CASES])
def test_gradient(check_gradient: Any, name: str, build: Any, values: Any, known_shapes: bool) -> None:
    check_gradient(build, *values, known_shapes=known_shapes)
