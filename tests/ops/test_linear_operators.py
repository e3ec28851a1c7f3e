"""Linear operators against the matrices that they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

RNG = np.random.default_rng(0)
FULL, DIAG = RNG.normal(size=(2, 3, 3)) + 4 * np.eye(3), RNG.random((2, 3)) + 1
L = tf.linalg

CASES = {
    "full": (lambda: L.LinearOperatorFullMatrix(FULL), FULL),
    "lower": (lambda: L.LinearOperatorLowerTriangular(FULL), np.tril(FULL)),
    "diag": (lambda: L.LinearOperatorDiag(DIAG), np.array([np.diag(d) for d in DIAG])),
    "scaled": (lambda: L.LinearOperatorScaledIdentity(3, [2.0, -3.0]), np.array([2 * np.eye(3), -3 * np.eye(3)])),
    "identity": (lambda: L.LinearOperatorIdentity(3, [2], tf.float64), np.array([np.eye(3)] * 2)),
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
def test_operators_are_their_matrices(graph: Any, kind: str) -> None:
    make, matrix = CASES[kind]
    operator, x, v = make(), RNG.normal(size=(2, 3, 2)), RNG.normal(size=(2, 3))
    adjoint = matrix.transpose(0, 2, 1)
    expected = {
        operator.to_dense(): matrix,
        operator.matmul(x): matrix @ x,
        operator.matmul(x, adjoint=True): adjoint @ x,
        operator.matmul(x.transpose(0, 2, 1), adjoint_arg=True): matrix @ x,
        operator.matvec(v): (matrix @ v[..., None])[..., 0],
        operator.solve(x): np.linalg.solve(matrix, x),
        operator.solve(x, adjoint=True): np.linalg.solve(adjoint, x),
        operator.solvevec(v): np.linalg.solve(matrix, v[..., None])[..., 0],
        operator.diag_part(): matrix.diagonal(0, 1, 2),
        operator.trace(): matrix.trace(0, 1, 2),
        operator.determinant(): np.linalg.det(matrix),
        operator.log_abs_determinant(): np.log(abs(np.linalg.det(matrix))),
        operator.add_to_tensor(np.ones((2, 3, 3))): matrix + 1,
        operator.shape_tensor(): [2, 3, 3],
    }
    assert operator.shape.as_list() == [2, 3, 3] and operator.batch_shape.as_list() == [2]
    assert operator.dtype is (tf.float32 if kind == "scaled" else tf.float64) and operator.tensor_rank == 3
    assert operator.domain_dimension == operator.range_dimension == 3
    with tf.Session() as session:
        for tensor, value in expected.items():
            np.testing.assert_allclose(session.run(tensor), value, rtol=1e-5, err_msg=tensor.name)
