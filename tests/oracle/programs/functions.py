"""Public functions of tf.linalg that are made of several nodes."""

from __future__ import annotations

import numpy as np

from tests.oracle.cases.values import noise
from tests.oracle.compare import Tolerance
from tests.oracle.programs.api import D, expression

_SUMS = Tolerance(1 << 16, scaled=True)
_A = noise(D, 2, 4, 4)
expression(
    "exponentials", [_A], lambda tf, x: [tf.linalg.expm(x * s) for s in (0.01, 1.0, 10.0)][:2], True, tolerance=_SUMS
)
expression("triangular-factors", [_A, noise(D, 2, 4, 3)], lambda tf, x, b: [
    f for x in [tf.ensure_shape(x, [2, 4, 4])] for lu, p in [tf.linalg.lu(x)] for f in [
        tf.linalg.lu_reconstruct(lu, p), tf.linalg.lu_solve(lu, p, tf.ensure_shape(b, [2, 4, 3])),
        tf.linalg.lu_matrix_inverse(lu, p),
    ]
], tolerance=_SUMS)  # fmt: skip
expression("by-singular-values", [noise(D, 2, 5, 3), noise(D, 2, 3)], lambda tf, x, v: [
    f for x in [tf.ensure_shape(x, [2, 5, 3])] for v in [tf.ensure_shape(v, [2, 3])] for f in [
        tf.linalg.matrix_rank(x), tf.linalg.matrix_rank(tf.matmul(x, x, transpose_b=True)), tf.linalg.pinv(x),
        tf.linalg.matvec(x, v), *tf.linalg.normalize(x), *tf.linalg.normalize(x, 1, axis=-1), tf.linalg.transpose(x),
    ]
], tolerance=_SUMS)  # fmt: skip
_WHOLE = np.diag([3.0, 4, 5, 6]) + np.diag([1.0, 2, 1], 1) + np.diag([-1.0, 1, 2], -1)
expression("three-diagonals", [noise(D, 4, 2), _WHOLE], lambda tf, b, a: [
    f for b in [tf.ensure_shape(b, [4, 2])] for a in [tf.ensure_shape(a, [4, 4])] for f in [
        tf.linalg.tridiagonal_solve(a, b, "matrix"), tf.linalg.tridiagonal_matmul(a, b, "matrix"),
        tf.linalg.tridiagonal_solve(a, b[:, 0], "matrix"),
        tf.linalg.tridiagonal_solve(a, tf.transpose(b), "matrix", transpose_rhs=True),
    ]
], tolerance=_SUMS)  # fmt: skip
