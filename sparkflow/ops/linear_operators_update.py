"""Linear operators that others are but for a product of thin matrices."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.ops import array, linalg, linalg_parts, math, math_reduce
from sparkflow.ops.linear_operators import LinearOperator, LinearOperatorDiag, LinearOperatorIdentity, same_batch


class LinearOperatorLowRankUpdate(LinearOperator):
    """base_operator + u diag(diag_update) v^H, with u and v of few columns: [..., rows, k]. v: u where it is None.

    Solutions are by the Woodbury formula, determinants by the matrix determinant lemma.
    """

    def __init__(
        self, base_operator: LinearOperator, u: Any, diag_update: Any = None, v: Any = None, *,
        is_diag_update_positive: bool | None = None, name: str = "LinearOperatorLowRankUpdate", **hints: Any,
    ):  # fmt: skip
        kind = base_operator.dtype
        self._base, self._u = base_operator, convert_to_tensor(u, kind)
        self._v = self._u if v is None else convert_to_tensor(v, kind)
        self._diag = None if diag_update is None else convert_to_tensor(diag_update, kind)
        self._is_diag_positive = diag_update is None or is_diag_update_positive
        if v is None and base_operator.is_self_adjoint and (self._diag is None or not kind.is_complex):
            hints["is_self_adjoint"] = True
            if base_operator.is_positive_definite and self._is_diag_positive:
                hints |= {"is_positive_definite": True, "is_non_singular": True}
        super().__init__(kind, name=name, **hints)

    base_operator = property(lambda self: self._base)
    u = property(lambda self: self._u)
    v = property(lambda self: self._v)
    diag_update = property(lambda self: self._diag)
    is_diag_update_positive = property(lambda self: self._is_diag_positive)

    @property
    def diag_operator(self) -> LinearOperator:
        if self._diag is not None:
            return LinearOperatorDiag(self._diag)
        return LinearOperatorIdentity(self._u.shape[-1].value, dtype=self._dtype)

    def _dense(self) -> Tensor:
        return self._base._dense() + math.matmul(self._scaled(self._u, False), self._v, adjoint_b=True)

    def _scaled(self, x: Tensor, adjoint: bool) -> Tensor:
        if self._diag is None:
            return x
        return x * array.expand_dims(math.conj(self._diag) if adjoint else self._diag, -2)

    def _product(self, x: Tensor, adjoint: bool) -> Tensor:
        left, right = (self._v, self._u) if adjoint else (self._u, self._v)
        few = math.matmul(right, x, adjoint_a=True)
        return self._base._product(x, adjoint) + math.matmul(self._scaled(left, adjoint), few)

    def _solved(self, rhs: Tensor, adjoint: bool) -> Tensor:
        left, right = (self._v, self._u) if adjoint else (self._u, self._v)
        direct = self._base._solved(rhs, adjoint)
        through = self._base._solved(left, adjoint)
        few, needed = same_batch(self._capacitance(adjoint, through), math.matmul(right, direct, adjoint_a=True))
        return direct - math.matmul(through, linalg.matrix_solve(few, needed))

    def _capacitance(self, adjoint: bool, through: Tensor) -> Tensor:
        """D^-1 + V^H L^-1 U."""
        right = self._u if adjoint else self._v
        inner = math.matmul(right, through, adjoint_a=True)
        diag = array.ones_like(self._u[..., 0, :]) if self._diag is None else self._diag
        return inner + linalg_parts.matrix_diag(math.reciprocal(math.conj(diag) if adjoint else diag))

    def determinant(self, name: str = "det") -> Tensor:
        few = linalg.matrix_determinant(self._capacitance(False, self._base._solved(self._u, False)))
        scale = few if self._diag is None else few * math_reduce.reduce_prod(self._diag, -1)
        return math.multiply(scale, self._base.determinant(), name=name)

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        few = linalg.matrix_determinant(self._capacitance(False, self._base._solved(self._u, False)))
        found = math.log(math.abs(few)) + self._base.log_abs_determinant()
        if self._diag is not None:
            found = found + math_reduce.reduce_sum(math.log(math.abs(self._diag)), -1)
        return array.identity(found, name=name)
