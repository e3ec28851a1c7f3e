"""Functions of matrices and systems of three diagonals, against what undoes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.wire.errors import InvalidArgumentError

RNG = np.random.default_rng(4)
A = RNG.normal(size=(3, 4, 4))


def test_exponential(evaluate: Any) -> None:
    values, vectors = np.linalg.eig(A * 9)
    want = (vectors * np.exp(values)[:, None]) @ np.linalg.inv(vectors)
    np.testing.assert_allclose(evaluate(tf.linalg.expm, A * 9), want.real, rtol=1e-8)
    np.testing.assert_allclose(evaluate(tf.linalg.expm, A * 0, known_shapes=False), np.tile(np.eye(4), (3, 1, 1)))


def test_logarithm_and_root(evaluate: Any) -> None:
    x = (A * 0.4).astype(np.complex128)
    np.testing.assert_allclose(evaluate(lambda t: tf.linalg.logm(tf.linalg.expm(t)), x), x, atol=1e-10)
    jordan = np.array([[4.0, 1], [0, 4]])  # one eigenvector
    root = evaluate(tf.linalg.sqrtm, jordan)
    np.testing.assert_allclose(root @ root, jordan, atol=1e-10)


def test_roots_that_are_not_there(graph: Any) -> None:
    with tf.Session() as session, pytest.raises(InvalidArgumentError, match="root"):
        session.run(tf.linalg.sqrtm(tf.constant([[-1.0, 0], [0, 2]])))
    with tf.Session() as session, pytest.raises(InvalidArgumentError, match="not invertible"):
        session.run(tf.linalg.lu(tf.zeros([2, 2])))


def test_factors(evaluate: Any) -> None:
    def build(x: Any) -> Any:
        lu, p = tf.linalg.lu(x)
        return tf.linalg.lu_reconstruct(lu, p), tf.linalg.lu_matrix_inverse(lu, p), p

    whole, inverse, order = evaluate(build, A)
    np.testing.assert_allclose(whole, A, atol=1e-12)
    np.testing.assert_allclose(inverse, np.linalg.inv(A), rtol=1e-8)
    assert np.array_equal(np.sort(order), np.tile(np.arange(4), (3, 1)))


def test_three_diagonals_need_pivots(evaluate: Any) -> None:
    diagonals, right = np.array([[1.0, 2, 0], [0, 0, 3], [0, 1, 4]]), RNG.normal(size=(3, 2))
    whole = np.array([[0, 1.0, 0], [1, 0, 2], [0, 4, 3]])
    found = evaluate(tf.linalg.tridiagonal_solve, diagonals, right)
    np.testing.assert_allclose(whole @ found, right, atol=1e-12)
    with pytest.raises(InvalidArgumentError, match="zero"):
        evaluate(lambda d, b: tf.linalg.tridiagonal_solve(d, b, partial_pivoting=False), diagonals, right)


def test_by_singular_values(evaluate: Any) -> None:
    np.testing.assert_allclose(evaluate(tf.linalg.pinv, A[:, :, :2]), np.linalg.pinv(A[:, :, :2]), atol=1e-10)
    low = A[:, :, :2] @ A[:, :2]
    assert evaluate(tf.linalg.matrix_rank, low).tolist() == [2, 2, 2]


def test_refusals(graph: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\(3, 4\).*\(5, 2\)"):
        tf.linalg.tridiagonal_solve(tf.zeros([3, 4]), tf.zeros([5, 2]))
    with pytest.raises(InvalidArgumentError, match="square"):
        tf.linalg.expm(tf.zeros([3, 4]))
    with pytest.raises(InvalidArgumentError):
        tf.linalg.lu(tf.zeros([3, 4]))
