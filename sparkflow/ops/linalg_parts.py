"""Diagonals, bands and transposes of matrices."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, math, rules
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _range_of(tensor: Tensor) -> tuple[int, int] | None:
    """(lowest, highest) diagonal, None where it is not known yet."""
    k = constant_value(tensor)
    if k is None or not k.size:
        return None
    low, high = int(k.ravel()[0]), int(k.ravel()[-1])
    if low > high:
        raise InvalidArgumentError(f"lower_diag_index must not be larger than upper_diag_index: {low} > {high}")
    return low, high


def _diag_rule(op: Operation) -> list[Dims]:
    dims = rules.require_rank(op, "diagonal", op.inputs[0], 1, at_least=True)
    if dims is None:
        return [None]
    if op.type == "MatrixDiag":
        return [(*dims, dims[-1])]
    between = _range_of(op.inputs[1])
    if between is None:
        return [None]
    low, high = between
    batch = dims[:-1] if low == high else dims[:-2]
    rows, columns = (_size(t) for t in op.inputs[2:4])
    length = dims[-1]
    if length is not None:
        least_rows, least_columns = length - min(high, 0), length + max(low, 0)
        if rows is None and columns is None:
            rows = columns = max(least_rows, least_columns)
        rows = least_rows if rows is None else rows
        columns = least_columns if columns is None else columns
    return [(*batch, rows, columns)]


def _size(tensor: Tensor) -> int | None:
    value = constant_value(tensor)
    return None if value is None or int(value) < 0 else int(value)


def _diag_part_rule(op: Operation) -> list[Dims]:
    dims = rules.require_rank(op, "input", op.inputs[0], 2, at_least=True)
    if dims is None:
        return [None]
    between = (0, 0) if op.type == "MatrixDiagPart" else _range_of(op.inputs[1])
    if between is None:
        return [None]
    (low, high), (*batch, m, n) = between, dims
    longest = None if m is None or n is None else min(m + min(high, 0), n - max(low, 0))
    if longest is not None and (longest <= 0 and m and n):
        raise InvalidArgumentError(f"{op.type}: diagonals {low} ... {high} lie outside matrices [{m}, {n}]")
    return [(*batch, *(() if low == high else (high - low + 1,)), longest)]


def _set_diag_rule(op: Operation) -> list[Dims]:
    dims = rules.require_rank(op, "input", op.inputs[0], 2, at_least=True)
    between = (0, 0) if op.type == "MatrixSetDiag" else _range_of(op.inputs[2])
    given = op.inputs[1]._shape
    if dims is not None and given is not None and between is not None and between[0] == between[1]:
        m, n = dims[-2:]
        wanted = None if m is None or n is None else min(m + min(between[1], 0), n - max(between[0], 0))
        shapes.merge((*dims[:-2], wanted), given)
    return [dims]


def _doubled(op: Operation) -> list[Dims]:
    dims = op.inputs[0]._shape
    return [None if dims is None else dims + dims]


def _halved(op: Operation) -> list[Dims]:
    dims = op.inputs[0]._shape
    if dims is None:
        return [None]
    if not dims or len(dims) % 2:
        raise InvalidArgumentError(f"DiagPart: the rank must be even and above 0, got shape {shapes.show(dims)}")
    return [shapes.merge(dims[: len(dims) // 2], dims[len(dims) // 2 :])]


op("Diag", "diagonal: T -> output: T", _doubled)
op("DiagPart", "input: T -> diagonal: T", _halved)
op("MatrixDiag", "diagonal: T -> output: T", _diag_rule)
op("MatrixDiagPart", "input: T -> diagonal: T", _diag_part_rule)
op("MatrixSetDiag", "input: T, diagonal: T -> output: T", _set_diag_rule)
op(
    "MatrixDiagV3",
    "diagonal: T, k: int32, num_rows: int32, num_cols: int32, padding_value: T -> output: T",
    _diag_rule,
    align="RIGHT_LEFT",
)
op(
    "MatrixDiagPartV3",
    "input: T, k: int32, padding_value: T -> diagonal: T",
    _diag_part_rule,
    align="RIGHT_LEFT",
)
op("MatrixSetDiagV3", "input: T, diagonal: T, k: int32 -> output: T", _set_diag_rule, align="RIGHT_LEFT")
op(
    "MatrixBandPart",
    "input: T, num_lower: Tindex, num_upper: Tindex -> band: T",
    lambda op: [rules.require_rank(op, "input", op.inputs[0], 2, at_least=True)],
    Tindex=dtypes.int64,
)


def _padding(value: Any, like: Tensor) -> Tensor:
    kind = like.dtype.base_dtype
    empty = "" if kind is dtypes.string else False if kind is dtypes.bool_ else value
    return convert_to_tensor(empty, kind, "padding_value")


def diag(diagonal: Any, name: str | None = None) -> Tensor:
    """[a, ..., z] -> [a, ..., z, a, ..., z] with the values where both halves of the index agree."""
    return apply_op("Diag", [diagonal], name=name)


def diag_part(input: Any, name: str | None = None) -> Tensor:
    """[a, ..., z, a, ..., z] -> [a, ..., z], the values where both halves of the index agree."""
    return apply_op("DiagPart", [input], name=name)


def matrix_diag(
    diagonal: Any, name: str = "diag", k: Any = 0, num_rows: Any = -1, num_cols: Any = -1, padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:  # fmt: skip
    """Matrices with these diagonals: [..., n] -> [..., n, n] with the main one; k: another one, or a pair (lowest,
    highest) of which diagonal's next to last axis has one row each, highest first, aligned as `align` says."""
    diagonal = convert_to_tensor(diagonal)
    inputs = [diagonal, k, num_rows, num_cols, _padding(padding_value, diagonal)]
    return apply_op("MatrixDiagV3", inputs, {"align": align}, name)


def matrix_diag_part(
    input: Any, name: str = "diag_part", k: Any = 0, padding_value: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """The main diagonals of [..., m, n], or the diagonals k, or a band of them as matrix_diag takes it."""
    input = convert_to_tensor(input)
    return apply_op("MatrixDiagPartV3", [input, k, _padding(padding_value, input)], {"align": align}, name)


def matrix_set_diag(input: Any, diagonal: Any, name: str = "set_diag", k: Any = 0, align: str = "RIGHT_LEFT") -> Tensor:
    """input with these diagonals in place of its own."""
    return apply_op("MatrixSetDiagV3", [input, diagonal, k], {"align": align}, name)


def matrix_band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Tensor:
    """The matrices with zeros but for num_lower diagonals below the main one and num_upper above; -1 keeps all."""
    return apply_op("MatrixBandPart", [input, num_lower, num_upper], name=name)


def matrix_transpose(a: Any, name: str = "matrix_transpose", conjugate: bool = False) -> Tensor:
    """The last two axes swapped, of conjugates where asked."""
    with get_default_graph().name_scope(name):
        a = convert_to_tensor(a, name="a")
        rank = rules.rank_of(a)
        if rank is not None:
            if rank < 2:
                raise ValueError(f"Argument 'a' should be a (batch) matrix with rank >= 2, got shape {a.shape}")
            return array.transpose(a, [*range(rank - 2), rank - 1, rank - 2], conjugate=conjugate)
        count = array.rank(a)
        order = [math.range(0, count - 2, 1), apply_op("Pack", [[count - 1, count - 2]])]
        return array.transpose(a, apply_op("ConcatV2", [order, 0]), conjugate=conjugate)
