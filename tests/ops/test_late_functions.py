"""Functions that tf.compat.v1 got late. Values are numpy's, or TensorFlow 2.21's where they are numbers here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 4))
Z = X + 1j * RNG.normal(size=(2, 3, 4))
_ANY = RNG.normal(size=(4, 4))
MATRIX = _ANY @ _ANY.T + 4 * np.eye(4)


def _run(fetches: Any) -> Any:
    with tf.Session() as session:
        return session.run(fetches)


TRANSFORMS = {
    "all axes": (lambda s: s.fftnd(tf.constant(Z)), np.fft.fftn(Z)),
    "lengths": (lambda s: s.fftnd(tf.constant(Z), [2, 5], [0, 2]), np.fft.fftn(Z, [2, 5], [0, 2])),
    "inverse": (lambda s: s.ifftnd(tf.constant(Z), axes=[0, 1]), np.fft.ifftn(Z, axes=[0, 1])),
    "ortho": (lambda s: s.fftnd(tf.constant(Z), norm="ortho"), np.fft.fftn(Z, norm="ortho")),
    "forward": (lambda s: s.ifftnd(tf.constant(Z), norm="forward"), np.fft.ifftn(Z, norm="forward")),
    "real": (lambda s: s.rfftnd(tf.constant(X)), np.fft.rfftn(X)),
    "real lengths": (lambda s: s.rfftnd(tf.constant(X), [4, 2], [1, 2]), np.fft.rfftn(X, [4, 2], [1, 2])),
    "real ortho": (lambda s: s.rfftnd(tf.constant(X), axes=[0, 1], norm="ortho"),
                   np.fft.rfftn(X, axes=[0, 1], norm="ortho")),
    "back": (lambda s: s.irfftnd(tf.constant(np.fft.rfftn(X)), [2, 3, 4]), X),
    "back of odd": (lambda s: s.irfftnd(tf.constant(Z), [3, 5], [0, 1]), np.fft.irfftn(Z, [3, 5], [0, 1])),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_over_any_axes(graph: Any, name: str) -> None:
    make, wanted = TRANSFORMS[name]
    made = make(tf.signal)
    np.testing.assert_allclose(_run(made), wanted, rtol=1e-8, atol=1e-10)
    assert made.shape.as_list() == list(wanted.shape)


def test_transforms_have_gradients_and_refusals(graph: Any) -> None:
    x = tf.constant(X)
    power = tf.reduce_sum(tf.abs(tf.signal.fftnd(tf.cast(x, tf.complex128))) ** 2)
    np.testing.assert_allclose(_run(tf.gradients(power, x)[0]), 2 * X.size * X, rtol=1e-8)  # Parseval
    for wrong in ({"axes": [0, 0]}, {"fft_length": [2], "axes": [0, 1]}, {"norm": "some"}):
        with pytest.raises(ValueError, match="fftnd"):
            tf.signal.fftnd(tf.constant(Z), **wrong)


def test_eigenvalues_of_tridiagonal_matrices(graph: Any) -> None:
    alpha, beta = RNG.normal(size=5), RNG.normal(size=4) + 1j * RNG.normal(size=4)
    matrix = np.diag(alpha).astype(complex) + np.diag(beta, -1) + np.diag(beta.conj(), 1)
    values = np.linalg.eigvalsh(matrix)
    a, b = tf.constant(alpha.astype(complex)), tf.constant(beta)
    eigh = tf.linalg.eigh_tridiagonal
    np.testing.assert_allclose(_run(eigh(a, b)), values, atol=1e-10)
    np.testing.assert_allclose(_run(eigh(a, b, select="i", select_range=(1, 3))), values[1:4], atol=1e-10)
    inside = values[(values > -1) & (values <= 1)]
    np.testing.assert_allclose(_run(eigh(a, b, select="v", select_range=(-1.0, 1.0))), inside, atol=1e-10)
    found, vectors = _run(eigh(a, b, eigvals_only=False))
    np.testing.assert_allclose(matrix @ vectors, vectors * found, atol=1e-10)
    for wrong in ({"select": "x"}, {"select": "i"}):
        with pytest.raises(ValueError, match="eigh_tridiagonal"):
            eigh(a, b, **wrong)


def test_conjugate_gradients(graph: Any) -> None:
    operator = tf.linalg.LinearOperatorFullMatrix(MATRIX, is_self_adjoint=True, is_positive_definite=True)
    near = tf.linalg.LinearOperatorDiag(1 / np.diag(MATRIX), is_positive_definite=True)
    rhs = np.stack([np.arange(1.0, 5), np.ones(4)])
    solve = tf.linalg.experimental.conjugate_gradient
    for state in (solve(operator, rhs, tol=1e-9), solve(operator, rhs, preconditioner=near, tol=1e-9)):
        steps, found = _run([state.i, state.x])
        assert steps <= 5
        np.testing.assert_allclose(found, np.linalg.solve(MATRIX, rhs.T).T, rtol=1e-7)
    assert _run(solve(operator, rhs[0], max_iter=2).i) == 2
    with pytest.raises(ValueError, match="positive definite operator"):
        solve(tf.linalg.LinearOperatorFullMatrix(MATRIX), rhs)


def test_convolutions_dropout_and_largest_values(graph: Any) -> None:
    made = tf.nn.conv_transpose(tf.ones([1, 2, 2, 1]), tf.ones([2, 2, 1, 1]), [1, 4, 4, 1], [2, 2])
    assert _run(made).tolist() == np.ones((1, 4, 4, 1)).tolist()
    assert _run(tf.nn.conv_transpose(tf.ones([1, 3, 1]), tf.ones([2, 1, 1]), [1, 6, 1], 2)).shape == (1, 6, 1)
    with pytest.raises(ValueError, match="3, 4 or 5"):
        tf.nn.conv_transpose(tf.ones([1, 2]), tf.ones([1, 1]), [1, 2], 1)
    dropped = _run(tf.nn.experimental.stateless_dropout(tf.ones([3, 4]), 0.4, [1, 2]))
    drawn = _run(tf.random.stateless_uniform([3, 4], [1, 2]))
    np.testing.assert_allclose(dropped, np.where(drawn >= np.float32(0.4), 1 / 0.6, 0), rtol=1e-6)
    with pytest.raises(ValueError, match="range"):
        tf.nn.experimental.stateless_dropout(tf.ones([3]), 1.0, [1, 2])
    most, places = _run(tf.nn.approx_max_k(tf.constant(X), 2))
    least, low = _run(tf.math.approx_min_k(tf.constant(X), 2, reduction_dimension=1))
    assert (most == np.sort(X, -1)[..., :-3:-1]).all() and (np.take_along_axis(X, places, -1) == most).all()
    assert (least == np.sort(X, 1)[:, :2]).all() and (np.take_along_axis(X, low, 1) == least).all()


def test_labels_and_partitions(graph: Any) -> None:
    values, places = _run(tf.nn.ctc_unique_labels(tf.constant([[3, 4, 4, 3], [1, 2, 3, 0]])))
    assert values.tolist() == [[3, 4, 0, 0], [1, 2, 3, 0]] and places.tolist() == [[0, 1, 1, 0], [0, 1, 2, 3]]
    stack = tf.ragged.stack_dynamic_partitions
    found = _run(stack(["a", "b", "c", "d"], [2, 0, 2, 1], 4))
    assert found.to_list() == [[b"b"], [b"d"], [b"a", b"c"], []]
    rows = tf.ragged.constant([[1, 2], [3], [4, 5, 6]])
    assert _run(stack(rows, [1, 0, 1], 2)).to_list() == [[[3]], [[1, 2], [4, 5, 6]]]
    assert _run(stack(tf.constant([[1, 2], [3, 4]]), tf.constant([[0, 1], [1, 0]]), 2)).to_list() == [[1, 4], [2, 3]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="less than num_partitions"):
        _run(stack([1, 2], [0, 5], 2).to_tensor())


def test_transforms_by_the_names_of_their_ops(graph: Any) -> None:
    """tf.fftnd and the others beside tf.signal's: all arguments said, and the type of what comes."""
    real = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    made = tf.rfftnd(real, [3, 4], [0, 1])
    back = tf.irfftnd(made, [3, 4], [0, 1], Treal=tf.float64)
    both = tf.ifftnd(tf.fftnd(tf.constant(Z), [2, 5], [0, 2]), fft_length=[2, 5], axes=[0, 2])
    assert (made.dtype, back.dtype) == (tf.complex64, tf.float64)
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(made), np.fft.rfftn(real), rtol=1e-5)
        np.testing.assert_allclose(session.run(back), real, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(session.run(both), np.fft.ifftn(np.fft.fftn(Z, [2, 5], [0, 2]), [2, 5], [0, 2]))
