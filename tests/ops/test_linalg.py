"""Linear algebra, segments and functions against numpy's own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

RNG = np.random.default_rng(5)
A, B = RNG.normal(size=(2, 4, 4)) + 3 * np.eye(4), RNG.normal(size=(2, 4, 3))
SPD = A @ np.swapaxes(A, -1, -2)
TALL = RNG.normal(size=(5, 3))


def _by_svd(a: Any) -> Any:
    s, u, v = tf.svd(a)
    return tf.matmul(u * s, v, adjoint_b=True)


def _by_eig(a: Any) -> Any:
    e, v = tf.self_adjoint_eig(a)
    return tf.matmul(v * e[:, None, :], v, adjoint_b=True)


# name, expression, inputs, what numpy says
CASES: list[tuple[str, Any, tuple[Any, ...], Any]] = [
    ("inverse", tf.matrix_inverse, (A,), np.linalg.inv(A)),
    ("solve", tf.matrix_solve, (A, B), np.linalg.solve(A, B)),
    ("cholesky_solve", lambda a, b: tf.cholesky_solve(tf.cholesky(a), b), (SPD, B), np.linalg.solve(SPD, B)),
    ("least squares", tf.matrix_solve_ls, (TALL, TALL[:, :1]), np.linalg.lstsq(TALL, TALL[:, :1])[0]),
    ("determinant", tf.matrix_determinant, (A,), np.linalg.det(A)),
    ("logdet", tf.linalg.logdet, (SPD,), np.linalg.slogdet(SPD)[1]),
    ("qr", lambda a: tf.matmul(*tf.qr(a)), (TALL,), TALL),
    ("svd", _by_svd, (TALL,), TALL),
    (
        "eig",
        _by_eig,
        (SPD,),
        SPD,
    ),
    ("eigvals", tf.self_adjoint_eigvals, (SPD,), np.linalg.eigvalsh(SPD)),
    ("trace", tf.trace, (A,), np.trace(A, axis1=1, axis2=2)),
    ("eye", lambda: tf.eye(3, 4, [2], tf.float64), (), np.broadcast_to(np.eye(3, 4), (2, 3, 4))),
    ("tensordot 1", lambda a, b: tf.tensordot(a, b, 1), (TALL, TALL.T), TALL @ TALL.T),
    (
        "tensordot",
        lambda a, b: tf.tensordot(a, b, [[1, 0], [0, 1]]),
        (A, B.swapaxes(0, 1)),
        np.tensordot(A, B.swapaxes(0, 1), [[1, 0], [0, 1]]),
    ),
    ("tensordot 0", lambda a, b: tf.tensordot(a, b, 0), (TALL, B[0]), np.tensordot(TALL, B[0], 0)),
    ("tensordot of the last", lambda a, b: tf.tensordot(a, b, [[-1], [-1]]), (A, A), np.tensordot(A, A, [[-1], [-1]])),
    (
        "tensordot, axes of a tensor",
        lambda a, b: tf.tensordot(a, b, tf.placeholder_with_default([[1, 0], [0, 1]], None)),
        (A, B.swapaxes(0, 1)),
        np.tensordot(A, B.swapaxes(0, 1), [[1, 0], [0, 1]]),
    ),
    (
        "tensordot, a count of a tensor",
        lambda a, b: tf.tensordot(a, b, tf.placeholder_with_default(2, [])),
        (A, np.moveaxis(SPD, 0, 2)),
        np.tensordot(A, np.moveaxis(SPD, 0, 2), 2),
    ),
    ("tensordot with itself", lambda a: tf.tensordot(a, a, [[0], [0]]), (TALL,), TALL.T @ TALL),
    ("tensordot of nothing", lambda a, b: tf.tensordot(a, b, 1), (TALL[:, :0], TALL.T[:0]), np.zeros((5, 5))),
    (
        "einsum",
        lambda a, b, c: tf.einsum("bij,bjk,ck->bic", a, b, c),
        (A, B, TALL),
        np.einsum("bij,bjk,ck->bic", A, B, TALL),
    ),
    ("norm", tf.norm, (TALL,), np.linalg.norm(TALL)),
    *(
        (f"norm {p}", lambda x, p=p: tf.norm(x, p, axis=1), (TALL,), np.linalg.norm(TALL, p, axis=1))
        for p in (1, 2, 3, np.inf)
    ),
    *(
        (f"norm {p} of matrices", lambda x, p=p: tf.norm(x, p, axis=[1, 2]), (A,), np.linalg.norm(A, p, axis=(1, 2)))
        for p in (1, 2, "fro", np.inf)
    ),
    ("transpose", tf.matrix_transpose, (A,), np.swapaxes(A, -1, -2)),
    ("set_diag", lambda x: tf.matrix_set_diag(x, tf.zeros([2, 4], tf.float64)), (A,), A * (1 - np.eye(4))),
    ("fft", lambda x: tf.abs(tf.spectral.rfft(x)), (TALL,), np.abs(np.fft.rfft(TALL))),
    ("irfft", lambda x: tf.spectral.irfft(tf.spectral.rfft(x), [3]), (TALL,), TALL),
    (
        "lbeta",
        tf.lbeta,
        (np.array([1.0, 2.0, 3.0]),),
        math.log(math.gamma(1) * math.gamma(2) * math.gamma(3) / math.gamma(6)),
    ),
    ("lgamma", tf.lgamma, (np.array([0.5, 7.0, -1.5]),), [math.lgamma(v) for v in (0.5, 7.0, -1.5)]),
    ("digamma", tf.digamma, (np.array([1.0, 0.25]),), [-0.5772156649015329, -4.2274535333762654]),
    ("log_sigmoid", tf.log_sigmoid, (np.array([-800.0, 0.0]),), [-800.0, -math.log(2)]),
    (
        "segment means",
        lambda x: tf.unsorted_segment_mean(x, [1, 1, 0, 3, -1], 4),
        (TALL,),
        [TALL[2], TALL[:2].mean(0), [0] * 3, TALL[3]],
    ),
    (
        "segment sqrt n",
        lambda x: tf.unsorted_segment_sqrt_n(x, [1, 1, 0, 0, 0], 2),
        (TALL,),
        [TALL[2:].sum(0) / 3**0.5, TALL[:2].sum(0) / 2**0.5],
    ),
]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name, build, inputs, expected", CASES, ids=[c[0] for c in CASES])
def test_value(evaluate: Any, name: str, build: Any, inputs: Any, expected: Any, known: bool) -> None:
    if not known and name == "norm 2 of matrices":
        pytest.skip("the rank must be known")
    np.testing.assert_allclose(evaluate(build, *inputs, known_shapes=known), expected, rtol=1e-9, atol=1e-9)


def test_refusals(graph: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="not compatible"):
        tf.matrix_inverse(tf.ones([2, 3]))
    with pytest.raises(ValueError, match="incorrect format"):
        tf.einsum("ij-jk", tf.ones([2, 3]))
    with pytest.raises(ValueError, match="arguments for equation"):
        tf.einsum("ij,jk", tf.ones([2, 3]))
    with pytest.raises(ValueError, match="ord"):
        tf.norm(tf.ones([2, 3]), "nobody")
    with pytest.raises(TypeError, match="incorrect types"):
        tf.complex(tf.ones([2]), tf.ones([2], tf.float64))
    singular = tf.matrix_inverse(tf.zeros([2, 2]))
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="not invertible"):
        session.run(singular)


def test_bits(evaluate: Any) -> None:
    x = np.array([1, 6, 255], np.uint8)
    found = evaluate(lambda v: [tf.bitwise.bitwise_and(v, 7), tf.bitwise.left_shift(v, 1), tf.bitwise.invert(v)], x)
    np.testing.assert_array_equal(found, [x & 7, x << 1, ~x])
    np.testing.assert_array_equal(
        evaluate(lambda v: tf.bitcast(v, tf.float32), np.array([1065353216], np.int32)), [1.0]
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize(("n", "columns"), [(1, 1), (32, 40), (33, 40), (150, 17), (150, 2), (130, 300)])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_triangular_systems_of_any_size(n: int, columns: int, lower: bool, adjoint: bool, dtype: Any) -> None:
    """Of the triangle alone: what stands on its other side is not read. The distances of a Gaussian process, which are
    far from being independent."""
    rng = np.random.default_rng(0)
    points = rng.random((n, 2))
    kernel = np.exp(-((points[:, None] - points) ** 2).sum(2)) + 1e-3 * np.eye(n)
    triangle = np.linalg.cholesky(kernel) if lower else np.linalg.cholesky(kernel).T
    given, wanted = triangle.astype(dtype), rng.random((n, columns)).astype(dtype)
    inside = given.conj().T if adjoint else given
    given = given + (np.triu if lower else np.tril)(np.full((n, n), np.nan), 1 if lower else -1).astype(dtype)
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(tf.matrix_triangular_solve(given, wanted, lower=lower, adjoint=adjoint))
    left = np.abs(inside @ found - wanted).max() / (np.abs(inside) @ np.abs(found)).max()
    assert left < 8 * np.finfo(dtype).eps and found.dtype == dtype


def test_a_triangle_with_a_zero_on_its_diagonal() -> None:
    triangle = np.tril(np.ones((40, 40), np.float32))
    triangle[3, 3] = 0
    with tf.Graph().as_default(), tf.Session() as session, np.errstate(all="ignore"):
        found = session.run(tf.matrix_triangular_solve(triangle, np.arange(80, dtype=np.float32).reshape(40, 2)))
    assert np.isfinite(found[:3]).all() and np.isinf(found[3]).all() and not np.isfinite(found[4:]).any()
