"""Gradients of functions of matrices, of triangular factors and of tridiagonal systems, complex ones too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

RNG = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def _positive(*shape: int) -> np.ndarray:
    x = normal(*shape)
    return x @ x.swapaxes(-1, -2) + np.eye(shape[-1])


def _complex(a: Any, b: Any, function: Any) -> Any:
    z = function(tf.complex(a, b))
    return tf.real(z) + 2 * tf.imag(z)


def _dominant(*batch: int) -> np.ndarray:
    return normal(*batch, 3, 4) + np.array([0, 5, 0])[:, None]


CASES = [
    ("sqrtm", tf.linalg.sqrtm, (_positive(2, 3, 3),)),
    ("sqrtm complex", lambda a, b: _complex(a, b, tf.linalg.sqrtm), (_positive(3, 3), 0.2 * normal(3, 3))),
    ("expm", tf.linalg.expm, (normal(2, 3, 3) * np.array([0.5, 7])[:, None, None],)),
    ("lu", lambda x: tf.linalg.lu(tf.ensure_shape(x, [2, 4, 4]))[0], (normal(2, 4, 4),)),
    ("lu one", lambda x: tf.linalg.lu(tf.ensure_shape(x, [4, 4]))[0], (normal(4, 4),)),
    (
        "lu_solve",
        lambda x, b: tf.linalg.lu_solve(*tf.linalg.lu(tf.ensure_shape(x, [2, 3, 3])), b),
        (normal(2, 3, 3), normal(2, 3, 2)),
    ),
    ("tridiagonal", tf.linalg.tridiagonal_solve, (_dominant(2), normal(2, 4, 3))),
    ("tridiagonal pivots", tf.linalg.tridiagonal_solve, (normal(3, 4), normal(4, 3))),
    (
        "tridiagonal complex",
        lambda a, b, x: _complex(a, b, lambda d: tf.linalg.tridiagonal_solve(d, tf.cast(x, tf.complex128))),
        (_dominant(), normal(3, 4), normal(4, 3)),
    ),
    (
        "tridiagonal product",
        lambda a, b, c, x: tf.linalg.tridiagonal_matmul([a, b, c], x, "sequence"),
        (normal(2, 4), normal(2, 4), normal(2, 4), normal(2, 4, 3)),
    ),
    ("matvec", tf.linalg.matvec, (normal(2, 3, 4), normal(2, 4))),
    ("normalize", lambda x: tf.linalg.normalize(x, axis=-1)[0], (normal(2, 4),)),
    ("pinv", tf.linalg.pinv, (normal(2, 4, 3),)),
]


@pytest.mark.parametrize("name, build, values", CASES, ids=[c[0] for c in CASES])
def test_gradient(check_gradient: Any, name: str, build: Any, values: Any) -> None:
    check_gradient(build, *values)


def test_the_logarithm_has_none(graph: Any) -> None:
    x = tf.placeholder(tf.complex64, [3, 3])
    with pytest.raises(LookupError, match="MatrixLogarithm"):
        tf.gradients(tf.real(tf.linalg.logm(x)), x)
