"""Gradients of CTC and of other families with few ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

RNG = np.random.default_rng(8)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def _ctc(x: Any) -> Any:
    labels = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([1, 1, 0]), [2, 2])
    return tf.nn.ctc_loss(labels, x, [6, 4])


CASES = [
    ("ctc", _ctc, (normal(6, 2, 4),)),
]


@pytest.mark.parametrize("known_shapes", [True, False])
@pytest.mark.parametrize("name, build, values", CASES, ids=[c[0] for c in CASES])
def test_gradient(check_gradient: Any, name: str, build: Any, values: Any, known_shapes: bool) -> None:
    check_gradient(build, *values, known_shapes=known_shapes)


def test_no_second_derivative_of_ctc(graph: Any) -> None:
    x = tf.constant(normal(6, 2, 4))
    (first,) = tf.gradients(_ctc(x), x)
    with pytest.raises(LookupError, match="second derivative"):
        tf.gradients(first, x)
