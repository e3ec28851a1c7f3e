"""Linear operators made of others: products, inverses, blocks, Kronecker products and updates of low rank."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.graph import Tensor
from sparkflow.framework.shapes import TensorShape
from sparkflow.ops import array, array_join, linalg_parts, math, math_reduce
from sparkflow.ops.broadcasting import broadcast_dynamic_shape
from sparkflow.ops.linear_operators import LinearOperator, LinearOperatorIdentity


def _all(values: Sequence[Any]) -> bool | None:
    """True where all are, None where one is not known to be."""
    return True if all(values) else None


class LinearOperatorAdjoint(LinearOperator):
    """The conjugate transposes of another operator's matrices."""

    def __init__(self, operator: LinearOperator, *, name: str | None = None, **hints: Any):
        self._operator = operator
        given = {"is_non_singular": operator.is_non_singular, "is_self_adjoint": operator.is_self_adjoint}
        given |= {"is_positive_definite": operator.is_positive_definite, **hints}
        super().__init__(operator.dtype, name=name or f"{operator.name}_adjoint", **given)

    operator = property(lambda self: self._operator)

    def _dense(self) -> Tensor:
        return linalg_parts.matrix_transpose(self._operator._dense(), conjugate=True)

    def _product(self, x: Tensor, adjoint: bool) -> Tensor:
        return self._operator._product(x, not adjoint)

    def _solved(self, rhs: Tensor, adjoint: bool) -> Tensor:
        return self._operator._solved(rhs, not adjoint)

    def adjoint(self, name: str = "adjoint") -> LinearOperator:
        return self._operator

    def determinant(self, name: str = "det") -> Tensor:
        return math.conj(self._operator.determinant(), name=name)

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        return self._operator.log_abs_determinant(name)


class LinearOperatorInversion(LinearOperator):
    """The inverses of another operator's matrices."""

    def __init__(self, operator: LinearOperator, *, name: str | None = None, **hints: Any):
        self._operator = operator
        given = {"is_non_singular": True, "is_self_adjoint": operator.is_self_adjoint}
        given |= {"is_positive_definite": operator.is_positive_definite, **hints}
        super().__init__(operator.dtype, name=name or f"{operator.name}_inv", **given)

    operator = property(lambda self: self._operator)
    shape = property(lambda self: self._operator.shape)

    def shape_tensor(self, name: str = "shape_tensor") -> Tensor:
        return self._operator.shape_tensor(name)

    def _dense(self) -> Tensor:
        return self._operator._solved(LinearOperatorIdentity(self._rows(), dtype=self._dtype)._dense(), False)

    def _rows(self) -> Any:
        known = self._operator.range_dimension.value
        return self._operator.range_dimension_tensor() if known is None else known

    def _product(self, x: Tensor, adjoint: bool) -> Tensor:
        return self._operator._solved(x, adjoint)

    def _solved(self, rhs: Tensor, adjoint: bool) -> Tensor:
        return self._operator._product(rhs, adjoint)

    def inverse(self, name: str = "inverse") -> LinearOperator:
        return self._operator

    def determinant(self, name: str = "det") -> Tensor:
        return math.reciprocal(self._operator.determinant(), name=name)

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        return math.negative(self._operator.log_abs_determinant(), name=name)


class _Several(LinearOperator):
    """Made of a list of operators of one type. Raises ValueError on none, TypeError where types differ."""

    def __init__(self, operators: Sequence[LinearOperator], name: str | None, joint: str, **hints: Any):
        self._operators = list(operators)
        if not self._operators:
            raise ValueError(f"{type(self).__name__}: expected a non-empty list of operators, got {operators!r}")
        kinds = {op.dtype for op in self._operators}
        if len(kinds) > 1:
            raise TypeError(
                f"{type(self).__name__}: operators must have one dtype, got {sorted(k.name for k in kinds)}"
            )
        hints.setdefault("is_non_singular", _all([op.is_non_singular for op in self._operators]))
        if hints["is_non_singular"] is None:
            hints["is_non_singular"] = _all([op.is_non_singular for op in self._operators])
        name = name or joint.join(op.name for op in self._operators)
        super().__init__(self._operators[0].dtype, name=name, **hints)

    operators = property(lambda self: list(self._operators))


class LinearOperatorComposition(_Several):
    """The product of operators, the last of which acts first."""

    def __init__(self, operators: Sequence[LinearOperator], *, name: str | None = None, **hints: Any):
        super().__init__(operators, name, "_o_", **hints)
        for first, second in zip(self._operators, self._operators[1:]):
            if not first.domain_dimension.is_compatible_with(second.range_dimension):
                raise ValueError(f"Operators are incompatible: shapes {first.shape} and {second.shape}")

    def _dense(self) -> Tensor:
        *others, last = self._operators
        return reduce(lambda x, op: op._product(x, False), reversed(others), last._dense())

    def _product(self, x: Tensor, adjoint: bool) -> Tensor:
        order = self._operators if adjoint else reversed(self._operators)
        return reduce(lambda y, op: op._product(y, adjoint), order, x)

    def _solved(self, rhs: Tensor, adjoint: bool) -> Tensor:
        order = reversed(self._operators) if adjoint else self._operators
        return reduce(lambda y, op: op._solved(y, adjoint), order, rhs)

    def determinant(self, name: str = "det") -> Tensor:
        if not all(op.is_square for op in self._operators):
            return super().determinant(name)
        return array.identity(reduce(math.multiply, [op.determinant() for op in self._operators]), name=name)

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        if not all(op.is_square for op in self._operators):
            return super().log_abs_determinant(name)
        return array.identity(reduce(math.add, [op.log_abs_determinant() for op in self._operators]), name=name)


class LinearOperatorKronecker(_Several):
    """The Kronecker product of operators."""

    def __init__(self, operators: Sequence[LinearOperator], *, name: str | None = None, **hints: Any):
        hints.setdefault("is_self_adjoint", _all([op.is_self_adjoint for op in operators]))
        hints.setdefault("is_positive_definite", _all([op.is_positive_definite for op in operators]))
        super().__init__(operators, name, "_x_", **hints)

    def _dense(self) -> Tensor:
        return reduce(_kronecker, [op._dense() for op in self._operators])

    def _each(self, x: Tensor, act: Any, sizes: Sequence[Any]) -> Tensor:
        """act(operator, matrices), along the axis of each operator. sizes: how many columns each takes."""
        wide, n = x, array.shape(x)[-1]
        batch = array.shape(x)[:-2]
        for op, size in zip(reversed(self._operators), reversed(sizes)):
            # The axis of the last operator not yet applied lies behind; its results go to the front.
            count = array.size(wide) // (math_reduce.reduce_prod(batch) * n * size)
            folded = array.reshape(wide, array_join.concat([batch, [count, size, n]], 0))
            rank = folded.shape.ndims
            if rank is None:
                raise ValueError("LinearOperatorKronecker: the rank of the argument must be known")
            lead = list(range(rank - 3))
            columns = array.transpose(folded, [*lead, rank - 2, rank - 3, rank - 1])
            columns = array.reshape(columns, array_join.concat([batch, [size, count * n]], 0))
            done = act(op, columns)
            batch = array.shape(done)[:-2]
            rows = array.shape(done)[-2]
            parts = array.reshape(done, array_join.concat([batch, [rows, count, n]], 0))
            wide = array.reshape(parts, array_join.concat([batch, [rows * count, n]], 0))
        return wide

    def _product(self, x: Tensor, adjoint: bool) -> Tensor:
        sizes = [op.range_dimension_tensor() if adjoint else op.domain_dimension_tensor() for op in self._operators]
        found = self._each(x, lambda op, part: op._product(part, adjoint), sizes)
        return self._told(found, x, self.shape[-1 if adjoint else -2])

    def _solved(self, rhs: Tensor, adjoint: bool) -> Tensor:
        sizes = [op.range_dimension_tensor() for op in self._operators]
        found = self._each(rhs, lambda op, part: op._solved(part, adjoint), sizes)
        return self._told(found, rhs, self.shape[-1])

    def _told(self, found: Tensor, x: Tensor, rows: Any) -> Tensor:
        """With its static shape, as far as the batches are known."""
        mine, others = self.batch_shape, x.shape[:-2]
        if mine.is_fully_defined() and others.is_fully_defined():
            batch = shapes.broadcast(tuple(mine.as_list()), tuple(others.as_list()))
            found.set_shape(TensorShape(batch).concatenate([rows, x.shape[-1]]))
        return found

    def determinant(self, name: str = "det") -> Tensor:
        """That of each to the power of the others' sizes."""
        rows = self.range_dimension_tensor()
        powers = [math.cast(rows // op.range_dimension_tensor(), self._dtype) for op in self._operators]
        dets = [math.pow(op.determinant(), p) for op, p in zip(self._operators, powers)]
        return array.identity(reduce(math.multiply, dets), name=name)

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        rows = self.range_dimension_tensor()
        parts = []
        for op in self._operators:
            log = op.log_abs_determinant()
            parts.append(math.multiply(log, math.cast(rows // op.range_dimension_tensor(), log.dtype)))
        return array.identity(reduce(math.add, parts), name=name)

    def trace(self, name: str = "trace") -> Tensor:
        return array.identity(reduce(math.multiply, [op.trace() for op in self._operators]), name=name)


def _kronecker(a: Tensor, b: Tensor) -> Tensor:
    wide = a[..., :, None, :, None] * b[..., None, :, None, :]
    sizes = array.shape(wide)
    batch, (m, p, n, q) = sizes[:-4], [sizes[i] for i in (-4, -3, -2, -1)]
    found = array.reshape(wide, array_join.concat([batch, [m * p, n * q]], 0))
    rows, columns = (a.shape[i].value and b.shape[i].value and a.shape[i].value * b.shape[i].value for i in (-2, -1))
    found.set_shape([*wide.shape[:-4].as_list(), rows, columns])
    return found


class LinearOperatorBlockLowerTriangular(LinearOperator):
    """operators: rows of operators, the i-th row of i + 1 of them; those on the diagonal are square."""

    def __init__(self, operators: Sequence[Sequence[LinearOperator]], *, name: str | None = None, **hints: Any):
        self._operators = [list(row) for row in operators]
        for i, row in enumerate(self._operators):
            if len(row) != i + 1:
                raise ValueError(f"The i-th row of `operators` must have i + 1 of them, row {i} has {len(row)}")
            if row[i].is_square is False:
                raise ValueError("All operators on the diagonal must be square")
        if not self._operators:
            raise ValueError("Expected a non-empty list of operators")
        diagonal = [row[-1] for row in self._operators]
        hints.setdefault("is_non_singular", _all([op.is_non_singular for op in diagonal]))
        super().__init__(diagonal[0].dtype, name=name or "LinearOperatorBlockLowerTriangular", **hints)

    operators = property(lambda self: self._operators)

    def _sizes(self) -> list[Any]:
        return [_rows_of(row[-1]) for row in self._operators]

    def _dense(self) -> Tensor:
        sizes, rows = self._sizes(), []
        blocks = [[op._dense() for op in row] for row in self._operators]
        batch = reduce(broadcast_dynamic_shape, [array.shape(b)[:-2] for row in blocks for b in row])
        for i, row in enumerate(blocks):
            zeros = [array.zeros([sizes[i], size], self._dtype) for size in sizes[i + 1 :]]
            wide = [array.broadcast_to(b, array_join.concat([batch, array.shape(b)[-2:]], 0)) for b in [*row, *zeros]]
            rows.append(array_join.concat(wide, -1))
        found = array_join.concat(rows, -2)
        count = sum(sizes) if all(isinstance(s, int) for s in sizes) else None
        known = [b.shape[:-2] for row in blocks for b in row]
        if all(s == known[0] for s in known) and known[0].is_fully_defined():
            found.set_shape([*known[0].as_list(), count, count])
        return found

    def _split(self, x: Tensor) -> list[Tensor]:
        return list(array_join.split(x, self._sizes(), -2))

    def _product(self, x: Tensor, adjoint: bool) -> Tensor:
        parts, n = self._split(x), len(self._operators)
        out: list[Any] = []
        for i in range(n):
            used = range(i, n) if adjoint else range(i + 1)
            terms = [
                self._operators[j][i]._product(parts[j], True)
                if adjoint
                else self._operators[i][j]._product(parts[j], False)
                for j in used
            ]
            out.append(reduce(math.add, terms))
        return _below(out)

    def _solved(self, rhs: Tensor, adjoint: bool) -> Tensor:
        """By substitution, from the top, or of the adjoint from the bottom."""
        parts, n = self._split(rhs), len(self._operators)
        found: dict[int, Tensor] = {}
        for i in reversed(range(n)) if adjoint else range(n):
            left = parts[i]
            for j in sorted(found):
                op = self._operators[j][i] if adjoint else self._operators[i][j]
                left = left - op._product(found[j], adjoint)
            found[i] = self._operators[i][i]._solved(left, adjoint)
        return _below([found[i] for i in range(n)])

    def determinant(self, name: str = "det") -> Tensor:
        return array.identity(reduce(math.multiply, [row[-1].determinant() for row in self._operators]), name=name)

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        return array.identity(reduce(math.add, [row[-1].log_abs_determinant() for row in self._operators]), name=name)


class LinearOperatorBlockDiag(_Several):
    """Operators along the diagonal; they need not be square."""

    def __init__(self, operators: Sequence[LinearOperator], *, name: str | None = None, **hints: Any):
        hints.setdefault("is_self_adjoint", _all([op.is_self_adjoint for op in operators]))
        hints.setdefault("is_positive_definite", _all([op.is_positive_definite for op in operators]))
        super().__init__(operators, name, "_ds_", **hints)

    def _dense(self) -> Tensor:
        blocks = [op._dense() for op in self._operators]
        batch = reduce(broadcast_dynamic_shape, [array.shape(b)[:-2] for b in blocks])
        rows = []
        for i, block in enumerate(blocks):
            height = _rows_of(self._operators[i])
            line = [
                block if i == j else array.zeros([height, _columns_of(op)], self._dtype)
                for j, op in enumerate(self._operators)
            ]
            wide = [array.broadcast_to(b, array_join.concat([batch, array.shape(b)[-2:]], 0)) for b in line]
            rows.append(array_join.concat(wide, -1))
        found = array_join.concat(rows, -2)
        heights, widths = ([f(op) for op in self._operators] for f in (_rows_of, _columns_of))
        known = [b.shape[:-2] for b in blocks]
        if all(isinstance(s, int) for s in (*heights, *widths)) and all(s == known[0] for s in known):
            found.set_shape([*known[0].as_list(), sum(heights), sum(widths)])
        return found

    def _each(self, x: Tensor, sizes: list[Any], act: Any) -> Tensor:
        parts = array_join.split(x, sizes, -2)
        return _below([act(op, part) for op, part in zip(self._operators, parts)])

    def _product(self, x: Tensor, adjoint: bool) -> Tensor:
        sizes = [_rows_of(op) if adjoint else _columns_of(op) for op in self._operators]
        return self._each(x, sizes, lambda op, part: op._product(part, adjoint))

    def _solved(self, rhs: Tensor, adjoint: bool) -> Tensor:
        return self._each(rhs, [_rows_of(op) for op in self._operators], lambda op, part: op._solved(part, adjoint))

    def determinant(self, name: str = "det") -> Tensor:
        return array.identity(reduce(math.multiply, [op.determinant() for op in self._operators]), name=name)

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        return array.identity(reduce(math.add, [op.log_abs_determinant() for op in self._operators]), name=name)


def _rows_of(op: LinearOperator) -> Any:
    known = op.range_dimension.value
    return op.range_dimension_tensor() if known is None else known


def _columns_of(op: LinearOperator) -> Any:
    known = op.domain_dimension.value
    return op.domain_dimension_tensor() if known is None else known


def _below(parts: Sequence[Tensor]) -> Tensor:
    """One below the other, with the batch that they have together."""
    known = [p.shape[:-2] for p in parts]
    if known[0].is_fully_defined() and all(s == known[0] for s in known):
        return array_join.concat(list(parts), -2)
    batch = reduce(broadcast_dynamic_shape, [array.shape(p)[:-2] for p in parts])
    wide = [array.broadcast_to(p, array_join.concat([batch, array.shape(p)[-2:]], 0)) for p in parts]
    return array_join.concat(wide, -2)
