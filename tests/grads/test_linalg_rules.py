"""Gradients of linear algebra, segments, transforms and special functions, by random directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.apply import apply_op
from sparkflow.ops.math_special import xdivy, xlogy

RNG = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def square(*shape: int) -> np.ndarray:
    return normal(*shape) + 3 * np.eye(shape[-1])


def positive(*shape: int) -> np.ndarray:
    return RNG.uniform(0.3, 0.9, shape)


def made_symmetric(x: Any) -> Any:
    return tf.matmul(x, x, transpose_b=True)


def _complex(x: Any) -> Any:
    return tf.complex(x, x * x)


def squared(x: Any) -> Any:
    s, u, v = tf.svd(x)
    return tf.matmul(u * tf.square(s), v, transpose_b=True)


CASES: list[tuple[str, Any, tuple[np.ndarray, ...]]] = [
    ("inverse", tf.matrix_inverse, (square(2, 3, 3),)),
    ("inverse adjoint", lambda x: tf.matrix_inverse(x, adjoint=True), (square(3, 3),)),
    ("determinant", tf.matrix_determinant, (square(2, 3, 3),)),
    ("slogdet", lambda x: tf.linalg.slogdet(x)[1], (square(3, 3),)),
    ("solve", tf.matrix_solve, (square(2, 3, 3), normal(2, 3, 2))),
    ("triangular", tf.matrix_triangular_solve, (square(3, 3), normal(3, 2))),
    ("triangular upper", lambda a, b: tf.matrix_triangular_solve(a, b, False, True), (square(3, 3), normal(3, 2))),
    ("triangular broadcast", tf.matrix_triangular_solve, (square(3, 3), normal(2, 3, 2))),
    ("least squares", lambda a, b: tf.matrix_solve_ls(a, b, 0.3), (normal(5, 3), normal(5, 2))),
    ("least squares, wide", lambda a, b: tf.matrix_solve_ls(a, b, 0.3), (normal(3, 5), normal(3, 2))),
    ("cholesky", lambda x: tf.cholesky(made_symmetric(x)), (square(2, 3, 3),)),
    ("qr q", lambda x: tf.qr(x)[0], (normal(5, 3),)),
    ("qr r", lambda x: tf.qr(x)[1], (normal(5, 3),)),
    ("svd s", lambda x: tf.svd(x, compute_uv=False), (normal(4, 3),)),
    ("svd", squared, (normal(4, 3),)),
    ("svd u", lambda x: tf.square(tf.svd(x)[1]), (normal(4, 3),)),
    ("svd v", lambda x: tf.square(tf.svd(x)[2]), (normal(3, 4),)),
    ("eig", lambda x: tf.square(tf.self_adjoint_eig(made_symmetric(x))[1]), (square(3, 3),)),
    ("eigvals", lambda x: tf.self_adjoint_eigvals(made_symmetric(x)), (square(3, 3),)),
    ("cross", tf.cross, (normal(2, 3), normal(2, 3))),
    ("tensordot", lambda a, b: tf.tensordot(a, b, [[0], [1]]), (normal(3, 2), normal(4, 3))),
    ("einsum", lambda a, b: tf.einsum("bij,jk->bk", a, b), (normal(2, 3, 4), normal(4, 5))),
    ("einsum ...", lambda a, b: tf.einsum("...ij,...kj->...ik", a, b), (normal(2, 3, 4), normal(2, 5, 4))),
    ("einsum ... broadcast", lambda a, b: tf.einsum("...ij,...jk->...ik", a, b), (normal(1, 3, 4), normal(5, 4, 2))),
    ("einsum ... of one", lambda a, b: tf.einsum("...ij,jk->...ik", a, b), (normal(2, 6, 3, 4), normal(4, 2))),
    ("einsum ... between", lambda a, b: tf.einsum("i...j,...jk->k...i", a, b), (normal(3, 1, 4), normal(2, 4, 5))),
    ("einsum ... of fewer axes", lambda a, b: tf.einsum("...a,...b->...ab", a, b), (normal(3), normal(2, 4))),
    ("einsum ... lone", lambda a, b: tf.einsum("...ij,...k->...i", a, b), (normal(2, 3, 4), normal(2, 5))),
    ("einsum ... diagonal", lambda a: tf.einsum("...ii->...i", a), (normal(2, 3, 3),)),
    ("einsum diagonal", lambda a: tf.einsum("iij->j", a), (normal(3, 3, 2),)),
    ("norm", lambda x: tf.norm(x, axis=1), (normal(3, 4),)),
    ("diag", tf.diag, (normal(2, 3),)),
    ("diag_part", tf.diag_part, (normal(2, 3, 2, 3),)),
    ("matrix_diag", lambda x: tf.matrix_diag(x, k=1), (normal(2, 3),)),
    ("matrix_diag_part", lambda x: tf.matrix_diag_part(x, k=(-1, 1)), (normal(2, 3, 4),)),
    ("matrix_set_diag", tf.matrix_set_diag, (normal(2, 3, 4), normal(2, 3))),
    ("MatrixDiag", lambda x: apply_op("MatrixDiag", [x]), (normal(2, 3),)),
    ("MatrixDiagPart", lambda x: apply_op("MatrixDiagPart", [x]), (normal(2, 3, 4),)),
    ("MatrixSetDiag", lambda x, y: apply_op("MatrixSetDiag", [x, y]), (normal(2, 3, 4), normal(2, 3))),
    ("band", lambda x: tf.matrix_band_part(x, 1, 0), (normal(3, 4),)),
    *(
        (f"segment_{k}", lambda x, k=k: getattr(tf, f"segment_{k}")(x, [0, 0, 2, 2]), (normal(4, 3),))
        for k in ("mean", "prod", "max", "min")
    ),
    *(
        (f"unsorted_{k}", lambda x, k=k: getattr(tf, f"unsorted_segment_{k}")(x, [2, 0, -1, 2], 3), (normal(4, 3),))
        for k in ("mean", "prod", "sqrt_n")
    ),
    *(
        (f"unsorted_{k}", lambda x, k=k: getattr(tf, f"unsorted_segment_{k}")(x, [1, 0, -1, 1], 2), (normal(4, 3),))
        for k in ("max", "min")
    ),
    *(
        (f"sparse_{k}", lambda x, k=k: getattr(tf, f"sparse_segment_{k}")(x, [3, 0, 3], [0, 0, 2]), (normal(4, 3),))
        for k in ("sum", "mean", "sqrt_n")
    ),
    *(
        (f.__name__, f, (positive(3, 4),))
        for f in (
            tf.tan,
            tf.asin,
            tf.acos,
            tf.atan,
            tf.sinh,
            tf.cosh,
            tf.asinh,
            tf.atanh,
            tf.erfc,
            tf.lgamma,
            tf.digamma,
            tf.log_sigmoid,
        )
    ),
    ("acosh", lambda x: tf.acosh(x + 1.0), (positive(4),)),
    *((f.__name__, f, (positive(3, 1) + 1, positive(4) + 1)) for f in (tf.atan2, tf.igamma, tf.igammac, xlogy, xdivy)),
    ("zeta", lambda q: tf.zeta(tf.constant(2.5, tf.float64), q), (positive(4),)),
    ("polygamma", lambda x: tf.polygamma(tf.constant(1.0, tf.float64), x), (positive(4),)),
    ("betainc", lambda x: tf.betainc(tf.constant(2.0, tf.float64), tf.constant(3.0, tf.float64), x), (positive(4),)),
    ("complex", lambda x: tf.abs(_complex(x)), (normal(4),)),
    ("angle", lambda x: tf.angle(_complex(x)), (positive(4),)),
    ("fft", lambda x: tf.abs(tf.fft(_complex(x))), (normal(2, 5),)),
    ("ifft2d", lambda x: tf.real(tf.ifft2d(_complex(x))), (normal(2, 5),)),
    *((f"rfft {n}", lambda x, n=n: tf.abs(tf.spectral.rfft(x, [n])), (normal(2, 7),)) for n in (6, 7)),
    *((f"irfft {n}", lambda x, n=n: tf.spectral.irfft(_complex(x), [n]), (normal(2, 4),)) for n in (6, 7)),
    ("rfft2d", lambda x: tf.abs(tf.spectral.rfft2d(x)), (normal(4, 5),)),
]
NEEDS_SHAPES = {"qr q", "qr r", "least squares", "least squares, wide"}


@pytest.mark.parametrize("known_shapes", [True, False])
@pytest.mark.parametrize("name, build, values", CASES, ids=[c[0] for c in CASES])
def test_gradient(check_gradient: Any, name: str, build: Any, values: Any, known_shapes: bool) -> None:
    if not known_shapes and name in NEEDS_SHAPES:
        pytest.skip("this op must know the shape of its input")
    check_gradient(build, *values, known_shapes=known_shapes)


def test_an_ellipsis_that_is_summed_has_no_gradient() -> None:
    a = tf.placeholder(tf.float32, [2, 3])
    with pytest.raises((LookupError, ValueError), match="needs it in the result too"):
        tf.gradients(tf.einsum("i...->i", a), a)
