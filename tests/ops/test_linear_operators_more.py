"""Linear operators made of others, and of few numbers, against the matrices that they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

RNG = np.random.default_rng(0)
L = tf.linalg
A, B = (RNG.normal(size=(2, 3, 3)) + 4 * np.eye(3) for _ in range(2))
C = RNG.normal(size=(2, 2, 2)) + 4 * np.eye(2)
D, U, V, W = RNG.random((2, 3)) + 1, RNG.normal(size=(2, 3, 1)), RNG.normal(size=(2, 3, 1)), RNG.random((2, 1)) + 1
BELOW, AXIS, PERM = RNG.normal(size=(2, 2, 3)), RNG.normal(size=(2, 3)), np.array([[2, 0, 1], [0, 2, 1]])
SPECTRUM = RNG.normal(size=(2, 2, 2, 2)) + 1j * RNG.normal(size=(2, 2, 2, 2)) + 3
TRI = np.tril(np.triu(A, -1), 1)
FULL: Callable[..., Any] = L.LinearOperatorFullMatrix


def _blocks(*matrices: np.ndarray) -> np.ndarray:
    rows, columns = (sum(m.shape[i] for m in matrices) for i in (-2, -1))
    out, i, j = np.zeros((2, rows, columns)), 0, 0
    for m in matrices:
        out[:, i : i + m.shape[1], j : j + m.shape[2]] = m
        i, j = i + m.shape[1], j + m.shape[2]
    return out


def _lower() -> np.ndarray:
    out = _blocks(A, C)
    out[:, 3:, :3] = BELOW
    return out


def _circulant(spectrum: np.ndarray, depth: int) -> np.ndarray:
    """Column by column: the spectrum times the transform of a unit vector, back again."""
    block, axes = spectrum.shape[-depth:], tuple(range(-depth, 0))
    n = int(np.prod(block))
    columns = [np.fft.ifftn(spectrum * np.fft.fftn(e.reshape(block)), axes=axes) for e in np.eye(n)]
    return np.stack([c.reshape(*c.shape[:-depth], n) for c in columns], -1)


def _toeplitz() -> np.ndarray:
    col, row = TOEPLITZ
    return np.array(
        [[[c[i - j] if i >= j else r[j - i] for j in range(3)] for i in range(3)] for c, r in zip(col, row)]
    )


TOEPLITZ = [[4.0, 1, 2], [5, 1, 1]], [[4.0, 0.5, 0.25], [5, 0, 2]]
UPDATED = np.stack([np.diag(d) for d in D]) + U @ (W[..., None] * V.transpose(0, 2, 1))
HOUSE = np.stack([np.eye(3) - 2 * np.outer(v, v) / (v @ v) for v in AXIS])
EVEN = np.array([[3.0, 1, 0.5, 1], [4, 0.2, 0.1, 0.2]])

CASES: dict[str, tuple[Callable[[], Any], np.ndarray]] = {
    "adjoint": (lambda: L.LinearOperatorAdjoint(FULL(A)), A.transpose(0, 2, 1)),
    "inversion": (lambda: L.LinearOperatorInversion(FULL(A)), np.linalg.inv(A)),
    "composition": (lambda: L.LinearOperatorComposition([FULL(A), FULL(B)]), A @ B),
    "kronecker": (lambda: L.LinearOperatorKronecker([FULL(A), FULL(C)]),
                  np.stack([np.kron(a, c) for a, c in zip(A, C)])),
    "kronecker of three": (lambda: L.LinearOperatorKronecker([FULL(A[:1]), FULL(C[:1]), FULL(B[:1])]),
                           reduce(np.kron, [A[0], C[0], B[0]])[None]),
    "block diagonal": (lambda: L.LinearOperatorBlockDiag([FULL(A), FULL(C)]), _blocks(A, C)),
    "block lower": (lambda: L.LinearOperatorBlockLowerTriangular([[FULL(A)], [FULL(BELOW), FULL(C)]]), _lower()),
    "update": (lambda: L.LinearOperatorLowRankUpdate(L.LinearOperatorDiag(D), U, W, V), UPDATED),
    "circulant": (lambda: L.LinearOperatorCirculant(SPECTRUM[:, 0, 0], tf.complex128),
                  _circulant(SPECTRUM[:, 0, 0], 1)),
    "real circulant": (lambda: L.LinearOperatorCirculant(np.fft.fft(EVEN), tf.float64),
                       _circulant(np.fft.fft(EVEN), 1).real),
    "circulant 2D": (lambda: L.LinearOperatorCirculant2D(SPECTRUM[:, 0], tf.complex128), _circulant(SPECTRUM[:, 0], 2)),
    "circulant 3D": (lambda: L.LinearOperatorCirculant3D(SPECTRUM, tf.complex128), _circulant(SPECTRUM, 3)),
    "toeplitz": (lambda: L.LinearOperatorToeplitz(*TOEPLITZ), _toeplitz()),
    "tridiagonal": (lambda: L.LinearOperatorTridiag(TRI, "matrix"), TRI),
    "householder": (lambda: L.LinearOperatorHouseholder(AXIS), HOUSE),
    "permutation": (lambda: L.LinearOperatorPermutation(PERM, tf.float64), np.eye(3)[PERM]),
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
def test_operators_are_their_matrices(graph: Any, kind: str) -> None:
    make, matrix = CASES[kind]
    operator, n = make(), matrix.shape[-1]
    batch = matrix.shape[0]
    x, v, shared = (RNG.normal(size=s).astype(matrix.dtype) for s in ((batch, n, 2), (batch, n), (n, 2)))
    adjoint, log = matrix.conj().swapaxes(-1, -2), np.log(np.abs(np.linalg.det(matrix)))
    expected = {
        operator.to_dense(): matrix,
        operator.matmul(x): matrix @ x,
        operator.matmul(x, adjoint=True): adjoint @ x,
        operator.matmul(x.conj().swapaxes(-1, -2), adjoint_arg=True): matrix @ x,
        operator.matvec(v): (matrix @ v[..., None])[..., 0],
        operator.solve(x): np.linalg.solve(matrix, x),
        operator.solve(x, adjoint=True): np.linalg.solve(adjoint, x),
        operator.solvevec(v): np.linalg.solve(matrix, v[..., None])[..., 0],
        operator.matmul(shared): matrix @ shared,
        operator.solve(shared): np.linalg.solve(matrix, np.broadcast_to(shared, x.shape)),
        operator.H.matmul(x): adjoint @ x,
        operator.inverse().matmul(x): np.linalg.solve(matrix, x),
        operator.matmul(operator.H).to_dense(): matrix @ adjoint,
        operator.diag_part(): matrix.diagonal(0, 1, 2),
        operator.trace(): matrix.trace(0, 1, 2),
        operator.determinant(): np.linalg.det(matrix),
        operator.log_abs_determinant(): log,
        operator.cond(): np.linalg.cond(matrix),
        operator.add_to_tensor(np.ones_like(matrix)): matrix + 1,
        operator.shape_tensor(): [batch, n, n],
        operator.batch_shape_tensor(): [batch],
    }
    assert operator.shape.as_list() == [batch, n, n] and operator.is_square
    with tf.Session() as session:
        tol = 1e-5 if operator.dtype is tf.float32 else 1e-8
        for (tensor, value), found in zip(expected.items(), session.run(list(expected))):
            np.testing.assert_allclose(found, value, rtol=tol, atol=tol, err_msg=tensor.name)


def test_they_have_gradients(graph: Any) -> None:
    u, c = tf.constant(U), tf.constant(EVEN)
    updated = L.LinearOperatorLowRankUpdate(L.LinearOperatorDiag(D), u, W, V)
    circulant = L.LinearOperatorCirculant(tf.fft(tf.cast(c, tf.complex128)), tf.float64)
    found = tf.gradients(updated.log_abs_determinant(), u) + tf.gradients(circulant.matvec(EVEN), c)
    # d log|det M| / du = M^-T v W; the sum of a circular convolution grows with each value of either by the other's sum
    with tf.Session() as session:
        of_u, of_c = session.run(found)
    np.testing.assert_allclose(of_u, np.linalg.inv(UPDATED).transpose(0, 2, 1) @ V * W[:, None], rtol=1e-8)
    np.testing.assert_allclose(of_c, np.broadcast_to(EVEN.sum(1, keepdims=True), EVEN.shape), rtol=1e-8)


def test_hints_forms_and_refusals(graph: Any) -> None:
    diag = L.LinearOperatorDiag(D, is_positive_definite=True)
    symmetric = L.LinearOperatorLowRankUpdate(diag, U)
    assert symmetric.is_positive_definite and symmetric.is_self_adjoint and symmetric.adjoint() is symmetric
    assert L.LinearOperatorInversion(diag).inverse() is diag and L.LinearOperatorAdjoint(FULL(A)).H.is_square
    zeros = L.LinearOperatorZeros(3, 2, [2], tf.float64)
    assert zeros.shape == [2, 3, 2] and zeros.is_square is False
    compact = [[TRI[0, 0, 1], TRI[0, 1, 2], 0], np.diag(TRI[0]), [0, TRI[0, 1, 0], TRI[0, 2, 1]]]
    apart = [np.array(compact[0][:2]), compact[1], np.array(compact[2][1:])]
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(L.LinearOperatorTridiag(compact).to_dense()), TRI[0])
        np.testing.assert_allclose(session.run(L.LinearOperatorTridiag(apart, "sequence").to_dense()), TRI[0])
        lower = session.run(symmetric.cholesky().to_dense())
        np.testing.assert_allclose(lower @ lower.transpose(0, 2, 1), session.run(symmetric.to_dense()), rtol=1e-8)
        assert not session.run(zeros.matmul(np.ones((2, 2, 2)))).any()
        session.run([symmetric.assert_self_adjoint(), diag.assert_non_singular(), symmetric.assert_positive_definite()])
        with pytest.raises(tf.errors.InvalidArgumentError, match="not equal to its adjoint"):
            session.run(FULL(A).assert_self_adjoint())
    for refused, error in (
        (lambda: zeros.determinant(), NotImplementedError),
        (lambda: zeros.solve(np.ones((2, 3, 1))), NotImplementedError),
        (lambda: zeros.inverse(), ValueError), (lambda: FULL(A).cholesky(), ValueError),
        (lambda: L.LinearOperatorBlockDiag([]), ValueError),
        (lambda: L.LinearOperatorTridiag(TRI, "dense"), ValueError),
        (lambda: L.LinearOperatorComposition([FULL(A), FULL(C)]), ValueError),
        (lambda: L.LinearOperatorBlockLowerTriangular([[FULL(A), FULL(A)]]), ValueError),
        (lambda: L.LinearOperatorKronecker([FULL(A), FULL(A.astype(np.float32))]), TypeError),
        (lambda: L.LinearOperatorPermutation([0.5]), TypeError), (lambda: FULL(A).eigvals(), NotImplementedError),
    ):  # fmt: skip
        with pytest.raises(error):
            refused()
