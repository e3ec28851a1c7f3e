"""tf.linalg, what came late: eigenvalues of tridiagonal matrices, and conjugate gradients."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, array_join, array_slice, linalg, linalg_functions, linalg_parts, math, math_reduce
from sparkflow.ops.broadcasting import broadcast_dynamic_shape
from sparkflow.ops.control_flow_while import while_loop

CGState = namedtuple("CGState", ["i", "x", "r", "p", "gamma"])


def eigh_tridiagonal(
    alpha: Any, beta: Any, eigvals_only: bool = True, select: str = "a", select_range: Any = None, tol: Any = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """The eigenvalues, upwards, of the Hermitian matrix with `alpha` [n] on its diagonal and `beta` [n - 1] above; with
    the eigenvectors, columns of a matrix, where not eigvals_only.

    select: "a" all, "v" those in the half-open interval (low, high] of select_range, "i" those of the numbers from low
    to high. Of "v", as many as there are. tol is for TensorFlow's sake: they are as exact as self_adjoint_eig's.
    """
    if select not in ("a", "i", "v"):
        raise ValueError(f"eigh_tridiagonal: 'select must be one of a, i and v', got {select!r}")
    if select != "a" and (select_range is None or len(select_range) != 2):
        raise ValueError(f"eigh_tridiagonal: select={select!r} needs a select_range of two, got {select_range!r}")
    with get_default_graph().name_scope(name or "eigh_tridiagonal"):
        main = convert_to_tensor(alpha)
        off = convert_to_tensor(beta, main.dtype.base_dtype)
        if main.shape.ndims != 1 or off.shape.ndims != 1:
            raise ValueError(f"eigh_tridiagonal: alpha and beta must be vectors, got {main.shape} and {off.shape}")
        below = linalg_parts.matrix_diag(off, k=-1) if off.shape[0].value != 0 else 0
        matrix = linalg_parts.matrix_diag(main) + below
        above = linalg_parts.matrix_transpose(below, conjugate=True) if isinstance(below, Tensor) else 0
        values, vectors = linalg.self_adjoint_eig(matrix + above)
        values = math.cast(values, main.dtype.real_dtype)
        if select == "i":
            low, high = (int(n) for n in select_range)
            values, vectors = values[low : high + 1], vectors[:, low : high + 1]
        elif select == "v":
            first, last = (convert_to_tensor(n, values.dtype.base_dtype) for n in select_range)
            inside = math.logical_and(math.greater(values, first), math.less_equal(values, last))
            values = array_slice.boolean_mask(values, inside)
            vectors = array_slice.boolean_mask(vectors, inside, axis=1)
        return values if eigvals_only else (values, vectors)


def conjugate_gradient(
    operator: Any, rhs: Any, preconditioner: Any = None, x: Any = None, tol: float = 1e-5, max_iter: int = 20,
    name: str = "conjugate_gradient",
) -> CGState:  # fmt: skip
    """(i, x, r, p, gamma) after the last step: operator x = rhs [..., n], as near as `tol` times the norm of rhs.

    operator: a LinearOperator that is said to be self-adjoint and positive definite, else ValueError. preconditioner:
    another one, near to its inverse. x: where to begin. Source: Hestenes and Stiefel 1952.
    """
    if not (operator.is_self_adjoint and operator.is_positive_definite):
        raise ValueError("Expected a self-adjoint, positive definite operator.")
    with get_default_graph().name_scope(name):
        rhs = convert_to_tensor(rhs, operator.dtype)
        batch = broadcast_dynamic_shape(array.shape(rhs)[:-1], operator.batch_shape_tensor())
        if preconditioner is not None:
            batch = broadcast_dynamic_shape(batch, preconditioner.batch_shape_tensor())
        sizes = array_join.concat([batch, array.shape(rhs)[-1:]], 0)
        wide = array.broadcast_to(rhs, sizes)
        enough = tol * linalg.norm(wide, axis=-1)
        begin = array.zeros(sizes, rhs.dtype.base_dtype) if x is None else array.broadcast_to(x, sizes)
        left = wide if x is None else wide - operator.matvec(begin)
        towards = left if preconditioner is None else preconditioner.matvec(left)

        def goes_on(i: Tensor, state: CGState) -> Tensor:
            return math.logical_and(i < max_iter, math_reduce.reduce_any(linalg.norm(state.r, axis=-1) > enough))

        def step(i: Tensor, state: CGState) -> tuple[Tensor, CGState]:
            z = operator.matvec(state.p)
            alpha = array.expand_dims(state.gamma / _dot(state.p, z), -1)
            r = state.r - alpha * z
            q = r if preconditioner is None else preconditioner.matvec(r)
            gamma = _dot(r, q)
            p = q + array.expand_dims(gamma / state.gamma, -1) * state.p
            told = [t.set_shape(s.shape) or t for t, s in zip((state.x + alpha * state.p, r, p, gamma), state[1:])]
            return i + 1, CGState(i + 1, *told)

        zero = convert_to_tensor(0)
        state = CGState(zero, begin, left, towards, _dot(left, towards))
        _, found = while_loop(goes_on, step, [zero, state])
        return CGState(*found)


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return array.squeeze(linalg_functions.matvec(array.expand_dims(x, -1), y, adjoint_a=True), [-1])
