"""Linear operators: matrices by what they are, so that products and solutions cost no more than they must."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Tensor
from sparkflow.framework.shapes import Dimension, TensorShape
from sparkflow.ops import array, checks, linalg, linalg_parts, math, math_reduce
from sparkflow.ops.array_join import concat
from sparkflow.ops.broadcasting import broadcast_dynamic_shape
from sparkflow.ops.linalg import eye
from sparkflow_runtime.wire.dtypes import as_dtype, float32


class LinearOperator:
    """A batch of matrices [..., rows, columns]. A subclass gives `_dense()`, and what it can do in a better way.

    The hints is_non_singular, is_self_adjoint, is_positive_definite and is_square are the caller's word, None where it
    says nothing.
    """

    def __init__(
        self, dtype: Any, *, name: str | None = None, is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None, is_square: bool | None = None,
        **_others: Any,
    ):  # fmt: skip
        self._dtype, self._name = as_dtype(dtype), name or type(self).__name__
        self._non_singular, self._self_adjoint = is_non_singular, is_self_adjoint
        self._positive, self._square = is_positive_definite, is_square

    dtype = property(lambda self: self._dtype)
    name = property(lambda self: self._name)
    is_self_adjoint = property(lambda self: self._self_adjoint)
    is_positive_definite = property(lambda self: self._positive)

    @property
    def is_non_singular(self) -> bool | None:
        return True if self._non_singular is None and self._positive else self._non_singular

    @property
    def is_square(self) -> bool | None:
        """Known of the shape, or said."""
        rows, columns = self.range_dimension.value, self.domain_dimension.value
        return self._square if rows is None or columns is None else rows == columns

    def _dense(self) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not say its matrix: define _dense()")

    def to_dense(self, name: str = "to_dense") -> Tensor:
        """The matrices."""
        return array.identity(self._dense(), name=name)

    # ------------------------------------------------------------------ sizes

    @property
    def shape(self) -> TensorShape:
        return self._dense().shape

    batch_shape = property(lambda self: self.shape[:-2])
    tensor_rank = property(lambda self: self.shape.ndims)

    @property
    def domain_dimension(self) -> Dimension:
        """How many columns there are."""
        return self.shape[-1]

    @property
    def range_dimension(self) -> Dimension:
        """How many rows there are."""
        return self.shape[-2]

    def shape_tensor(self, name: str = "shape_tensor") -> Tensor:
        return array.shape(self._dense(), name=name)

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        return array.identity(self.shape_tensor()[:-2], name=name)

    def domain_dimension_tensor(self, name: str = "domain_dimension_tensor") -> Tensor:
        return array.identity(self.shape_tensor()[-1], name=name)

    def range_dimension_tensor(self, name: str = "range_dimension_tensor") -> Tensor:
        return array.identity(self.shape_tensor()[-2], name=name)

    def tensor_rank_tensor(self, name: str = "tensor_rank_tensor") -> Tensor:
        return array.size(self.shape_tensor(), name=name)

    # ------------------------------------------------------------------ products and solutions

    def _argument(self, x: Any, adjoint: bool) -> Tensor:
        x = convert_to_tensor(x, self._dtype)
        return linalg_parts.matrix_transpose(x, conjugate=True) if adjoint else x

    def _product(self, x: Tensor, adjoint: bool) -> Tensor:
        return math.matmul(self._dense(), x, adjoint_a=adjoint)

    def _solved(self, rhs: Tensor, adjoint: bool) -> Tensor:
        matrix, rhs = same_batch(self._dense(), rhs)
        return linalg.matrix_solve(matrix, rhs, adjoint=adjoint)

    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Any:
        """Its product with matrices [..., columns, n], or with another operator, which is an operator."""
        if isinstance(x, LinearOperator):
            return _composed(self.adjoint() if adjoint else self, x.adjoint() if adjoint_arg else x)
        return array.identity(self._product(self._argument(x, adjoint_arg), adjoint), name=name)

    __matmul__ = matmul

    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Tensor:
        """Its product with vectors [..., columns]."""
        x = convert_to_tensor(x, self._dtype)
        return array.squeeze(self._product(array.expand_dims(x, -1), adjoint), [-1], name=name)

    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Any:
        """The matrices X of operator X = rhs; of an operator rhs, an operator."""
        if self.is_square is False or self.is_non_singular is False:
            raise NotImplementedError(f"{self._name}: solve needs square matrices that are not singular")
        if isinstance(rhs, LinearOperator):
            inverse = (self.adjoint() if adjoint else self).inverse()
            return _composed(inverse, rhs.adjoint() if adjoint_arg else rhs)
        return array.identity(self._solved(self._argument(rhs, adjoint_arg), adjoint), name=name)

    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Tensor:
        """The vectors x of operator x = rhs."""
        rhs = convert_to_tensor(rhs, self._dtype)
        return array.squeeze(self.solve(array.expand_dims(rhs, -1), adjoint), [-1], name=name)

    def adjoint(self, name: str = "adjoint") -> LinearOperator:
        """The operator of the conjugate transposes."""
        from sparkflow.ops.linear_operators_composed import LinearOperatorAdjoint

        return self if self.is_self_adjoint else LinearOperatorAdjoint(self)

    H = property(lambda self: self.adjoint())

    def inverse(self, name: str = "inverse") -> LinearOperator:
        """The operator that solves. Raises ValueError where the matrices are said to be singular, or are not square."""
        if self.is_square is False or self.is_non_singular is False:
            raise ValueError(f"Cannot take the inverse of {self._name}: this operator is not square, or is singular")
        from sparkflow.ops.linear_operators_composed import LinearOperatorInversion

        return LinearOperatorInversion(self)

    def cholesky(self, name: str = "cholesky") -> LinearOperator:
        """Its Cholesky factor. Raises ValueError unless it is said to be positive definite and self-adjoint."""
        if not (self.is_positive_definite and self.is_self_adjoint):
            raise ValueError("Cannot take the Cholesky decomposition: Not a positive definite self adjoint matrix.")
        return LinearOperatorLowerTriangular(linalg.cholesky(self._dense()), is_non_singular=True)

    # ------------------------------------------------------------------ what is known of the matrices

    def diag_part(self, name: str = "diag_part") -> Tensor:
        return array.identity(linalg_parts.matrix_diag_part(self._dense()), name=name)

    def trace(self, name: str = "trace") -> Tensor:
        return math_reduce.reduce_sum(self.diag_part(), -1, name=name)

    def determinant(self, name: str = "det") -> Tensor:
        return linalg.matrix_determinant(self._dense(), name=name)

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        return math.log(math.abs(self.determinant()), name=name)

    def eigvals(self, name: str = "eigvals") -> Tensor:
        """Raises NotImplementedError unless it is said to be self-adjoint."""
        if not self.is_self_adjoint:
            raise NotImplementedError("Only self-adjoint matrices are supported.")
        return array.identity(linalg.self_adjoint_eigvals(self._dense()), name=name)

    def cond(self, name: str = "cond") -> Tensor:
        """The largest singular value by the smallest."""
        values = linalg.svd(self._dense(), compute_uv=False)
        return math.divide(math_reduce.reduce_max(values, -1), math_reduce.reduce_min(values, -1), name=name)

    def add_to_tensor(self, x: Any, name: str = "add_to_tensor") -> Tensor:
        """x plus the matrices."""
        return math.add(self._dense(), convert_to_tensor(x, self._dtype), name=name)

    def assert_non_singular(self, name: str = "assert_non_singular") -> Any:
        """An op that fails where a condition number is beyond the digits of the type."""
        limit = 1 / float(np.finfo(self._dtype.real_dtype.np).eps)
        return checks.assert_less(math.cast(self.cond(), "float64"), np.float64(limit),
                                  message="Singular matrix up to precision epsilon.")  # fmt: skip

    def assert_positive_definite(self, name: str = "assert_positive_definite") -> Any:
        """An op that fails where Cholesky's decomposition does."""
        if self.is_self_adjoint:
            return linalg.cholesky(self._dense()).op
        raise ValueError("assert_positive_definite: the operator must be said to be self-adjoint")

    def assert_self_adjoint(self, name: str = "assert_self_adjoint") -> Any:
        """An op that fails where a matrix is not its conjugate transpose."""
        matrix = self._dense()
        other = linalg_parts.matrix_transpose(matrix, conjugate=True)
        return checks.assert_equal(matrix, other, message="Matrix was not equal to its adjoint.")


def _composed(first: LinearOperator, second: LinearOperator) -> LinearOperator:
    """Their product. Raises ValueError where the sizes do not fit."""
    from sparkflow.ops.linear_operators_composed import LinearOperatorComposition

    return LinearOperatorComposition([first, second])


def same_batch(matrix: Tensor, rhs: Tensor) -> tuple[Tensor, Tensor]:
    """Both with the batch that they have together."""
    if matrix.shape[:-2].is_fully_defined() and matrix.shape[:-2] == rhs.shape[:-2]:
        return matrix, rhs
    batch = broadcast_dynamic_shape(array.shape(matrix)[:-2], array.shape(rhs)[:-2])
    wide = [array.broadcast_to(x, concat([batch, array.shape(x)[-2:]], 0)) for x in (matrix, rhs)]
    return wide[0], wide[1]


class LinearOperatorFullMatrix(LinearOperator):
    """Any matrices."""

    def __init__(self, matrix: Any, *, name: str = "LinearOperatorFullMatrix", **hints: Any):
        self._matrix = convert_to_tensor(matrix)
        super().__init__(self._matrix.dtype.base_dtype, name=name, **hints)

    def _dense(self) -> Tensor:
        return self._matrix


class _KnownDiagonal(LinearOperator):
    """The product of the diagonal is the determinant."""

    def determinant(self, name: str = "det") -> Tensor:
        return math_reduce.reduce_prod(self.diag_part(), -1, name=name)

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        return math_reduce.reduce_sum(math.log(math.abs(self.diag_part())), -1, name=name)


class LinearOperatorLowerTriangular(_KnownDiagonal):
    """The lower triangles of tril [..., n, n], whatever stands above."""

    def __init__(self, tril: Any, *, name: str = "LinearOperatorLowerTriangular", **hints: Any):
        self._tril = convert_to_tensor(tril)
        super().__init__(self._tril.dtype.base_dtype, name=name, **hints)

    def _dense(self) -> Tensor:
        return linalg_parts.matrix_band_part(self._tril, -1, 0)

    def _solved(self, rhs: Tensor, adjoint: bool) -> Tensor:
        tril, rhs = same_batch(self._tril, rhs)
        return linalg.matrix_triangular_solve(tril, rhs, lower=True, adjoint=adjoint)

    def eigvals(self, name: str = "eigvals") -> Tensor:
        return self.diag_part(name)


class LinearOperatorDiag(_KnownDiagonal):
    """Diagonal matrices, of diag [..., n]."""

    def __init__(self, diag: Any, *, name: str = "LinearOperatorDiag", **hints: Any):
        self._diag = convert_to_tensor(diag)
        if not self._diag.dtype.is_complex:
            hints["is_self_adjoint"] = True
        super().__init__(self._diag.dtype.base_dtype, name=name, **hints)

    diag = property(lambda self: self._diag)

    def _dense(self) -> Tensor:
        return linalg_parts.matrix_diag(self._diag)

    def diag_part(self, name: str = "diag_part") -> Tensor:
        return array.identity(self._diag, name=name)

    def _factors(self, adjoint: bool) -> Tensor:
        return array.expand_dims(math.conj(self._diag) if adjoint else self._diag, -1)

    def _product(self, x: Tensor, adjoint: bool) -> Tensor:
        return math.multiply(self._factors(adjoint), x)

    def _solved(self, rhs: Tensor, adjoint: bool) -> Tensor:
        return math.divide(rhs, self._factors(adjoint))

    def eigvals(self, name: str = "eigvals") -> Tensor:
        return array.identity(self._diag, name=name)

    def adjoint(self, name: str = "adjoint") -> LinearOperator:
        return LinearOperatorDiag(math.conj(self._diag), **self._hints())

    def inverse(self, name: str = "inverse") -> LinearOperator:
        return LinearOperatorDiag(math.reciprocal(self._diag), **self._hints())

    def cholesky(self, name: str = "cholesky") -> LinearOperator:
        super().cholesky()
        return LinearOperatorDiag(math.sqrt(self._diag), **self._hints())

    def _hints(self) -> dict[str, Any]:
        return {
            "is_non_singular": self._non_singular,
            "is_self_adjoint": self._self_adjoint,
            "is_positive_definite": self._positive,
        }


class LinearOperatorScaledIdentity(LinearOperatorDiag):
    """multiplier [...] times the identity of num_rows."""

    def __init__(self, num_rows: Any, multiplier: Any, *, name: str = "LinearOperatorScaledIdentity", **hints: Any):
        self._multiplier = convert_to_tensor(multiplier)
        count = convert_to_tensor(num_rows)
        sizes = concat([array.shape(self._multiplier), array.expand_dims(count, 0)], 0)
        kind = self._multiplier.dtype.base_dtype
        diag = math.multiply(array.expand_dims(self._multiplier, -1), array.ones(sizes, kind))
        diag.set_shape(self._multiplier.shape.concatenate([constant_value(count)]))
        super().__init__(diag, name=name, **hints)

    multiplier = property(lambda self: self._multiplier)


class LinearOperatorIdentity(LinearOperatorDiag):
    """The identity of num_rows, for each of a batch."""

    def __init__(
        self, num_rows: Any, batch_shape: Any = None, dtype: Any = None, *,
        name: str = "LinearOperatorIdentity",
        **hints: Any,
    ):  # fmt: skip
        super().__init__(
            linalg_parts.matrix_diag_part(eye(num_rows, batch_shape=batch_shape, dtype=as_dtype(dtype or float32))),
            name=name, **hints,
        )  # fmt: skip
