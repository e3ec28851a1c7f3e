"""Linear operators of few numbers: circulant, Toeplitz, tridiagonal, Householder, permutations and zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.framework.shapes import TensorShape
from sparkflow.ops import array, array_join, array_select, array_slice, fourier, linalg_functions, math, math_reduce
from sparkflow.ops.linalg_parts import matrix_diag, matrix_diag_part, matrix_transpose
from sparkflow.ops.linear_operators import LinearOperator, LinearOperatorIdentity, _KnownDiagonal
from sparkflow.ops.math_special import real
from sparkflow_runtime.wire.dtypes import as_dtype, complex64, complex128, float32, float64

_FFT = {1: (fourier.fft, fourier.ifft), 2: (fourier.fft2d, fourier.ifft2d), 3: (fourier.fft3d, fourier.ifft3d)}


def _like(x: Tensor, dtype: Any) -> Tensor:
    """x in another type; the real part in a real one."""
    return math.cast(real(x) if x.dtype.is_complex and not dtype.is_complex else x, dtype)


class _Circulant(LinearOperator):
    """F^H diag(spectrum) F, with F the discrete Fourier transform of `block_depth` axes.

    spectrum: [..., n], [..., n0, n1] or [..., n0, n1, n2]. input_output_dtype: what it acts on; of a real type it
    gives the real parts.
    """

    _depth = 1

    def __init__(self, spectrum: Any, input_output_dtype: Any = complex64, *, name: str | None = None, **hints: Any):
        given = convert_to_tensor(spectrum)
        wide = complex128 if given.dtype.base_dtype in (float64, complex128) else complex64
        self._spectrum = math.cast(given, wide)
        if not given.dtype.is_complex:
            hints.setdefault("is_self_adjoint", True)
        super().__init__(input_output_dtype, name=name or type(self).__name__, **hints)

    spectrum = property(lambda self: self._spectrum)
    block_depth = property(lambda self: self._depth)

    @property
    def block_shape(self) -> TensorShape:
        return self._spectrum.shape[-self._depth :]

    def block_shape_tensor(self) -> Tensor:
        return array.shape(self._spectrum)[-self._depth :]

    @property
    def shape(self) -> TensorShape:
        n = self.block_shape.num_elements()
        return self._spectrum.shape[: -self._depth].concatenate([n, n])

    def shape_tensor(self, name: str = "shape_tensor") -> Tensor:
        sizes = array.shape(self._spectrum)
        n = math_reduce.reduce_prod(sizes[-self._depth :], keepdims=True)
        return array_join.concat([sizes[: -self._depth], n, n], 0, name=name)

    def _flat_spectrum(self) -> Tensor:
        batch = array.shape(self._spectrum)[: -self._depth]
        found = array.reshape(self._spectrum, array_join.concat([batch, [-1]], 0))
        found.set_shape(self.shape[:-1])
        return found

    def convolution_kernel(self, name: str = "convolution_kernel") -> Tensor:
        """What it convolves with: the inverse transform of the spectrum."""
        return _like(_FFT[self._depth][1](self._spectrum), self._dtype)

    def _dense(self) -> Tensor:
        n = self.shape[-1].value
        size = self.shape_tensor()[-1] if n is None else n
        found = self._product(LinearOperatorIdentity(size, dtype=self._dtype)._dense(), False)
        found.set_shape(self.shape)
        return found

    def _through(self, x: Tensor, factors: Tensor) -> Tensor:
        """factors times what the transform makes of each column of x, back again."""
        forth, back = _FFT[self._depth]
        columns = math.cast(matrix_transpose(x), self._spectrum.dtype)
        blocks = array.reshape(columns, array_join.concat([array.shape(columns)[:-1], self.block_shape_tensor()], 0))
        done = back(forth(blocks) * array.expand_dims(factors, -self._depth - 1))
        flat = array.reshape(done, array_join.concat([array.shape(done)[: -self._depth], [-1]], 0))
        found = matrix_transpose(_like(flat, self._dtype))
        if x.shape.ndims:
            known = self._spectrum.shape[: -self._depth]
            batch = x.shape[:-2] if known == x.shape[:-2] or not known.ndims else known if x.shape.ndims == 2 else None
            if batch is not None:
                found.set_shape(batch.concatenate(x.shape[-2:]))
        return found

    def _product(self, x: Tensor, adjoint: bool) -> Tensor:
        return self._through(x, math.conj(self._spectrum) if adjoint else self._spectrum)

    def _solved(self, rhs: Tensor, adjoint: bool) -> Tensor:
        return self._through(rhs, math.reciprocal(math.conj(self._spectrum) if adjoint else self._spectrum))

    def determinant(self, name: str = "det") -> Tensor:
        return array.identity(_like(math_reduce.reduce_prod(self._flat_spectrum(), -1), self._dtype), name=name)

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        found = math_reduce.reduce_sum(math.log(math.abs(self._flat_spectrum())), -1)
        return math.cast(found, self._dtype.real_dtype if not self._dtype.is_complex else self._dtype, name=name)

    def diag_part(self, name: str = "diag_part") -> Tensor:
        spread = array.ones([self.shape_tensor()[-1]], self._dtype)
        mean = math_reduce.reduce_mean(self._flat_spectrum(), -1, keepdims=True)
        found = math.multiply(_like(mean, self._dtype), spread, name=name)
        found.set_shape(self.shape[:-1])
        return found

    def trace(self, name: str = "trace") -> Tensor:
        return array.identity(_like(math_reduce.reduce_sum(self._flat_spectrum(), -1), self._dtype), name=name)

    def eigvals(self, name: str = "eigvals") -> Tensor:
        return array.identity(self._flat_spectrum(), name=name)

    def cond(self, name: str = "cond") -> Tensor:
        sizes = math.abs(self._flat_spectrum())
        found = math_reduce.reduce_max(sizes, -1) / math_reduce.reduce_min(sizes, -1)
        return math.cast(found, self._dtype.real_dtype, name=name)

    def adjoint(self, name: str = "adjoint") -> LinearOperator:
        return self if self.is_self_adjoint else type(self)(math.conj(self._spectrum), self._dtype)

    def inverse(self, name: str = "inverse") -> LinearOperator:
        return type(self)(math.reciprocal(self._spectrum), self._dtype, is_self_adjoint=self.is_self_adjoint)


class LinearOperatorCirculant(_Circulant):
    __doc__ = _Circulant.__doc__


class LinearOperatorCirculant2D(_Circulant):
    __doc__, _depth = _Circulant.__doc__, 2


class LinearOperatorCirculant3D(_Circulant):
    __doc__, _depth = _Circulant.__doc__, 3


class LinearOperatorToeplitz(LinearOperator):
    """One number on each diagonal: col [..., n] is the first column, row [..., n] the first row; col[0] is row[0]."""

    def __init__(self, col: Any, row: Any, *, name: str = "LinearOperatorToeplitz", **hints: Any):
        self._col = convert_to_tensor(col)
        self._row = convert_to_tensor(row, self._col.dtype.base_dtype)
        super().__init__(self._col.dtype.base_dtype, name=name, **hints)

    col = property(lambda self: self._col)
    row = property(lambda self: self._row)

    def _dense(self) -> Tensor:
        """The numbers from the last of the column to the last of the row; row i begins i places before the middle."""
        n = self._col.shape[-1].value or self._row.shape[-1].value
        size = array.shape(self._col)[-1] if n is None else n
        both = array_join.concat([array.reverse_v2(self._col, [-1]), self._row[..., 1:]], -1)
        places = math.range(size)[None, :] - math.range(size)[:, None] + size - 1
        found = array_slice.gather(both, places, axis=-1)
        if n is not None:
            found.set_shape(both.shape[:-1].concatenate([n, n]))
        return found

    def diag_part(self, name: str = "diag_part") -> Tensor:
        return math.multiply(self._col[..., :1], array.ones_like(self._col), name=name)


class LinearOperatorTridiag(LinearOperator):
    """Three diagonals. diagonals_format: "compact" [..., 3, n] (above, main, below, as tridiagonal_matmul has them),
    "sequence" (those three apart), or "matrix" [..., n, n]."""

    def __init__(
        self, diagonals: Any, diagonals_format: str = "compact", *, name: str = "LinearOperatorTridiag", **hints: Any
    ):  # fmt: skip
        self._diagonals: Any
        if diagonals_format == "sequence":
            parts = [convert_to_tensor(d) for d in diagonals]
            if len(parts) != 3:
                raise ValueError(f"LinearOperatorTridiag: expected three diagonals, got {len(parts)}")
            self._diagonals = array_join.stack([self._whole(parts, at) for at in range(3)], -2)
        elif diagonals_format in ("compact", "matrix"):
            given = convert_to_tensor(diagonals)
            self._diagonals = given if diagonals_format == "compact" else _of_matrix(given)
        else:
            raise ValueError(
                f"LinearOperatorTridiag: the formats are compact, matrix and sequence: {diagonals_format!r}"
            )
        super().__init__(self._diagonals.dtype.base_dtype, name=name, **hints)

    diagonals = property(lambda self: self._diagonals)

    @staticmethod
    def _whole(diagonals: list[Tensor], at: int) -> Tensor:
        """Of [..., n]: a diagonal that is given with n - 1 values gets the one that is not read."""
        part, n = diagonals[at], diagonals[1].shape[-1].value
        if at == 1 or part.shape[-1].value == n:
            return part
        zero = array.zeros_like(part[..., :1])
        return array_join.concat([part, zero] if at == 0 else [zero, part], -1)

    def _dense(self) -> Tensor:
        n = self._diagonals.shape[-1].value
        above, main, below = (self._diagonals[..., i, :] for i in range(3))
        if n == 1:
            return matrix_diag(main)
        found = matrix_diag(main) + _shifted(above, 1) + _shifted(below, -1)
        return found

    def _turned(self) -> Tensor:
        """The diagonals of the conjugate transpose."""
        above, main, below = (math.conj(self._diagonals[..., i, :]) for i in range(3))
        zero = array.zeros_like(above[..., :1])
        up = array_join.concat([below[..., 1:], zero], -1)
        return array_join.stack([up, main, array_join.concat([zero, above[..., :-1]], -1)], -2)

    def _product(self, x: Tensor, adjoint: bool) -> Tensor:
        diagonals = self._turned() if adjoint else self._diagonals
        above, main, below = (array.expand_dims(diagonals[..., i, :], -1) for i in range(3))
        zero = array.zeros_like(x[..., :1, :])
        following = array_join.concat([x[..., 1:, :], zero], -2)
        before = array_join.concat([zero, x[..., :-1, :]], -2)
        return main * x + above * following + below * before

    def _solved(self, rhs: Tensor, adjoint: bool) -> Tensor:
        diagonals = self._turned() if adjoint else self._diagonals
        if not (diagonals.shape[:-2].is_fully_defined() and diagonals.shape[:-2] == rhs.shape[:-2]):
            return super()._solved(rhs, adjoint)
        return linalg_functions.tridiagonal_solve(diagonals, rhs)

    def diag_part(self, name: str = "diag_part") -> Tensor:
        return array.identity(self._diagonals[..., 1, :], name=name)


def _shifted(values: Tensor, by: int) -> Tensor:
    """[..., n, n] with the first (by > 0) or last n - 1 values beside the main diagonal."""
    square = matrix_diag(values)
    zeros = array.zeros_like(square[..., :1])
    return array_join.concat([zeros, square[..., :-1]] if by > 0 else [square[..., 1:], zeros], -1)


def _of_matrix(matrix: Tensor) -> Tensor:
    """The three diagonals of square matrices, compact."""
    zero = array.zeros_like(matrix[..., :1, 0])
    main = matrix_diag_part(matrix)
    above, below = matrix_diag_part(matrix[..., :-1, 1:]), matrix_diag_part(matrix[..., 1:, :-1])
    return array_join.stack([array_join.concat([above, zero], -1), main, array_join.concat([zero, below], -1)], -2)


class LinearOperatorHouseholder(LinearOperator):
    """The reflection at the hyperplane that reflection_axis [..., n] is the normal of."""

    def __init__(self, reflection_axis: Any, *, name: str = "LinearOperatorHouseholder", **hints: Any):
        self._axis = convert_to_tensor(reflection_axis)
        hints |= {"is_self_adjoint": True, "is_non_singular": True, "is_positive_definite": False}
        super().__init__(self._axis.dtype.base_dtype, name=name, **hints)

    reflection_axis = property(lambda self: self._axis)

    def _unit(self) -> Tensor:
        length = math.sqrt(math_reduce.reduce_sum(math.square(math.abs(self._axis)), -1, keepdims=True))
        return self._axis / math.cast(length, self._dtype)

    def _dense(self) -> Tensor:
        v = array.expand_dims(self._unit(), -1)
        n = self._axis.shape[-1].value
        eye = LinearOperatorIdentity(array.shape(self._axis)[-1] if n is None else n, dtype=self._dtype)
        return eye._dense() - 2 * math.matmul(v, v, adjoint_b=True)

    def _product(self, x: Tensor, adjoint: bool) -> Tensor:
        v = array.expand_dims(self._unit(), -1)
        return x - 2 * math.matmul(v, math.matmul(v, x, adjoint_a=True))

    def _solved(self, rhs: Tensor, adjoint: bool) -> Tensor:
        return self._product(rhs, adjoint)

    def determinant(self, name: str = "det") -> Tensor:
        return math.negative(array.ones_like(self._axis[..., 0]), name=name)

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        return array.zeros_like(self._axis[..., 0], name=name)

    def inverse(self, name: str = "inverse") -> LinearOperator:
        return self


class LinearOperatorPermutation(LinearOperator):
    """perm [..., n]: row i of a product is row perm[i] of what it acts on."""

    def __init__(self, perm: Any, dtype: Any = float32, *, name: str = "LinearOperatorPermutation", **hints: Any):
        self._perm = convert_to_tensor(perm)
        if not self._perm.dtype.is_integer:
            raise TypeError(f"LinearOperatorPermutation: perm must be integers, got {self._perm.dtype.name}")
        super().__init__(dtype, name=name, **{**hints, "is_non_singular": True})

    perm = property(lambda self: self._perm)

    def _dense(self) -> Tensor:
        n = self._perm.shape[-1].value
        return array_select.one_hot(self._perm, array.shape(self._perm)[-1] if n is None else n, dtype=self._dtype)

    def _solved(self, rhs: Tensor, adjoint: bool) -> Tensor:
        return self._product(rhs, not adjoint)

    def determinant(self, name: str = "det") -> Tensor:
        """1 or -1, as the pairs that are out of order are an even or odd number."""
        later = self._perm[..., :, None] > self._perm[..., None, :]
        place = math.range(array.shape(self._perm)[-1])
        pairs = math.logical_and(later, place[:, None] < place[None, :])
        odd = math_reduce.reduce_sum(math.cast(pairs, "int32"), [-2, -1]) % 2
        return math.cast(1 - 2 * odd, self._dtype, name=name)

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        return math.cast(array.zeros_like(self._perm[..., 0]), self._dtype, name=name)

    def cond(self, name: str = "cond") -> Tensor:
        return math.cast(array.ones_like(self._perm[..., 0]), self._dtype, name=name)


class LinearOperatorZeros(_KnownDiagonal):
    """Matrices of zeros: num_rows, num_columns (as many where None), for each of a batch."""

    def __init__(
        self, num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: Any = None, *,
        name: str = "LinearOperatorZeros", **hints: Any,
    ):  # fmt: skip
        kind = as_dtype(dtype or float32)
        sizes = [num_rows, num_rows if num_columns is None else num_columns]
        if any(isinstance(s, (int, np.integer)) and s < 0 for s in sizes):
            raise ValueError(f"LinearOperatorZeros: sizes must not be negative, got {sizes}")
        batch = [] if batch_shape is None else batch_shape
        self._zeros = array.zeros(array_join.concat([math.cast(convert_to_tensor(batch), "int32"), sizes], 0), kind)
        self._is_square = num_columns is None or num_columns is num_rows or num_columns == num_rows
        hints.setdefault("is_self_adjoint", self._is_square)
        super().__init__(kind, name=name, **{**hints, "is_non_singular": False, "is_positive_definite": False})

    def _dense(self) -> Tensor:
        return self._zeros

    def determinant(self, name: str = "det") -> Tensor:
        """Raises NotImplementedError unless the matrices are square."""
        if not self._is_square:
            raise NotImplementedError("LinearOperatorZeros: determinant needs square matrices")
        return super().determinant(name)

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        self.determinant()
        return super().log_abs_determinant(name)
