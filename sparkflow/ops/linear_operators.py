"""Linear operators: matrices by what they are, so that products and solutions cost no more than they must."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Tensor
from sparkflow.framework.shapes import Dimension, TensorShape
from sparkflow.ops import array, linalg, linalg_parts, math, math_reduce
from sparkflow.ops.array_join import concat
from sparkflow.ops.linalg import eye
from sparkflow_runtime.wire.dtypes import as_dtype, float32


class LinearOperator:
    """A batch of matrices [..., rows, columns]. A subclass gives `_dense()`, and what it can do in a better way."""

    def __init__(self, dtype: Any, *, name: str | None = None, **_hints: Any):
        self._dtype, self._name = as_dtype(dtype), name or type(self).__name__

    dtype = property(lambda self: self._dtype)
    name = property(lambda self: self._name)

    def _dense(self) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not say its matrix: define _dense()")

    def to_dense(self, name: str = "to_dense") -> Tensor:
        """The matrices."""
        return array.identity(self._dense(), name=name)

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

    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Tensor:
        """Its product with matrices [..., columns, n]."""
        x = convert_to_tensor(x, self._dtype)
        return math.matmul(self._dense(), x, adjoint_a=adjoint, adjoint_b=adjoint_arg, name=name)

    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Tensor:
        """Its product with vectors [..., columns]."""
        x = convert_to_tensor(x, self._dtype)
        return array.squeeze(self.matmul(array.expand_dims(x, -1), adjoint), [-1], name=name)

    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Tensor:
        """The matrices X of operator X = rhs."""
        rhs = convert_to_tensor(rhs, self._dtype)
        return self._solved(linalg_parts.matrix_transpose(rhs, conjugate=True) if adjoint_arg else rhs, adjoint)

    def _solved(self, rhs: Tensor, adjoint: bool) -> Tensor:
        return linalg.matrix_solve(self._dense(), rhs, adjoint=adjoint)

    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Tensor:
        """The vectors x of operator x = rhs."""
        rhs = convert_to_tensor(rhs, self._dtype)
        return array.squeeze(self.solve(array.expand_dims(rhs, -1), adjoint), [-1], name=name)

    def diag_part(self, name: str = "diag_part") -> Tensor:
        return array.identity(linalg_parts.matrix_diag_part(self._dense()), name=name)

    def trace(self, name: str = "trace") -> Tensor:
        return math_reduce.reduce_sum(self.diag_part(), -1, name=name)

    def determinant(self, name: str = "det") -> Tensor:
        return linalg.matrix_determinant(self._dense(), name=name)

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        return math.log(math.abs(self.determinant()), name=name)

    def add_to_tensor(self, x: Any, name: str = "add_to_tensor") -> Tensor:
        """x plus the matrices."""
        return math.add(self._dense(), convert_to_tensor(x, self._dtype), name=name)


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
        return linalg.matrix_triangular_solve(self._tril, rhs, lower=True, adjoint=adjoint)


class LinearOperatorDiag(_KnownDiagonal):
    """Diagonal matrices, of diag [..., n]."""

    def __init__(self, diag: Any, *, name: str = "LinearOperatorDiag", **hints: Any):
        self._diag = convert_to_tensor(diag)
        super().__init__(self._diag.dtype.base_dtype, name=name, **hints)

    diag = property(lambda self: self._diag)

    def _dense(self) -> Tensor:
        return linalg_parts.matrix_diag(self._diag)

    def diag_part(self, name: str = "diag_part") -> Tensor:
        return array.identity(self._diag, name=name)

    def _factors(self, adjoint: bool) -> Tensor:
        return array.expand_dims(math.conj(self._diag) if adjoint else self._diag, -1)

    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Tensor:
        x = convert_to_tensor(x, self._dtype)
        x = linalg_parts.matrix_transpose(x, conjugate=True) if adjoint_arg else x
        return math.multiply(self._factors(adjoint), x, name=name)

    def _solved(self, rhs: Tensor, adjoint: bool) -> Tensor:
        return math.divide(rhs, self._factors(adjoint))


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
