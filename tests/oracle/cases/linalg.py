"""Linear algebra: solving, decomposing, determinants, diagonals, products by index names.

What is unique up to a sign alone (the factors of qr, svd, eigenvectors) is compared through what it is made into, in
tests/grads and tests/ops; here the parts that are unique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.oracle.cases.table import cases
from tests.oracle.cases.values import COMPLEX, NUMBERS, REAL, WIDE, i32, noise, np_dtype, ramp, s32
from tests.oracle.compare import EXACT, Tolerance

FIELDS = (*WIDE, *COMPLEX)
_SOLVED = Tolerance(512, scaled=True)
_GOOD = {"grad": True, "tolerance": Tolerance(2048, scaled=True)}


def _square(dtype: str, *shape: int) -> np.ndarray:
    """Well conditioned."""
    return (noise(dtype, *shape) + 3 * np.eye(shape[-1])).astype(np_dtype(dtype))


def _positive(dtype: str, *shape: int) -> np.ndarray:
    x = _square(dtype, *shape)
    return (x @ np.conj(np.swapaxes(x, -1, -2))).astype(np_dtype(dtype))


def _of_square(make: Callable[..., np.ndarray], attrs: tuple[dict[str, Any], ...] = ({},), errors: bool = True) -> Any:
    def rows(dtype: str) -> Iterator[Any]:
        for i, own in enumerate(attrs):
            yield f"matrix{i}", [make(dtype, 3, 3)], own, _GOOD
            yield f"batch{i}", [make(dtype, 2, 4, 4)], own, _GOOD
            yield f"one{i}", [make(dtype, 1, 1)], own
        yield "not-square", [noise(dtype, 2, 3)], attrs[0]
        yield "vector", [noise(dtype, 3)], attrs[0]
        if errors:
            yield "singular", [np.zeros((2, 2), np_dtype(dtype))], attrs[0]

    return rows


cases("MatrixInverse", FIELDS, _of_square(_square, ({"adjoint": False}, {"adjoint": True})), _SOLVED)
cases("MatrixDeterminant", FIELDS, _of_square(_square, errors=False), _SOLVED)
cases("LogMatrixDeterminant", FIELDS, _of_square(_square, errors=False), _SOLVED)
cases("Cholesky", FIELDS, _of_square(_positive, errors=False), _SOLVED)


def _solves(dtype: str) -> Iterator[Any]:
    for adjoint in (False, True):
        own = {"adjoint": adjoint}
        yield f"matrix{adjoint}", [_square(dtype, 3, 3), noise(dtype, 3, 2)], own, _GOOD
        yield f"batch{adjoint}", [_square(dtype, 2, 4, 4), noise(dtype, 2, 4, 1)], own, _GOOD
    yield "mismatch", [_square(dtype, 3, 3), noise(dtype, 2, 2)], {"adjoint": False}
    yield "singular", [np.zeros((2, 2), np_dtype(dtype)), noise(dtype, 2, 1)], {"adjoint": False}


def _triangles(dtype: str) -> Iterator[Any]:
    for lower in (True, False):
        for adjoint in (False, True):
            own = {"lower": lower, "adjoint": adjoint}
            yield f"matrix{lower}{adjoint}", [_square(dtype, 3, 3), noise(dtype, 3, 2)], own, _GOOD
    own = {"lower": True, "adjoint": False}
    yield "batch", [_square(dtype, 2, 4, 4), noise(dtype, 2, 4, 3)], own, _GOOD
    yield "broadcast", [_square(dtype, 4, 4), noise(dtype, 2, 4, 3)], own, _GOOD
    yield "large", [(noise(dtype, 90, 90) * 0.05 + np.eye(90)).astype(np_dtype(dtype)), noise(dtype, 90, 2)], own
    yield "zero-on-diagonal", [np.zeros((2, 2), np_dtype(dtype)), noise(dtype, 2, 1)], own


def _least_squares(dtype: str) -> Iterator[Any]:
    for label, shape in (("tall", (5, 3)), ("wide", (3, 5)), ("batch", (2, 5, 3))):
        for l2 in (0.0, 0.5):
            right = noise(dtype, *shape[:-1], 2)
            own = _GOOD if l2 and dtype in WIDE else {}
            yield f"{label}{l2}", [noise(dtype, *shape), right, np.array(l2)], {"fast": True}, own
    yield "slow", [noise(dtype, 5, 3), noise(dtype, 5, 2), np.array(0.0)], {"fast": False}


cases("MatrixSolve", FIELDS, _solves, _SOLVED)
cases("MatrixTriangularSolve", FIELDS, _triangles, Tolerance(4096, scaled=True))
cases("MatrixSolveLs", WIDE, _least_squares, Tolerance(8192, scaled=True))


def _factored(dtype: str) -> Iterator[Any]:
    for label, shape in (("square", (4, 4)), ("tall", (5, 3)), ("wide", (3, 5)), ("batch", (2, 4, 3))):
        for full in (False, True):
            yield f"{label}{full}", [noise(dtype, *shape)], {"compute_uv": True, "full_matrices": full}
    yield "values-alone", [noise(dtype, 4, 3)], {"compute_uv": False, "full_matrices": False}, {"grad": dtype in WIDE}


def _eigen(dtype: str) -> Iterator[Any]:
    for vectors in (True, False):
        own = {"grad": not vectors, "tolerance": Tolerance(2048, scaled=True)}
        yield f"matrix{vectors}", [_positive(dtype, 4, 4)], {"compute_v": vectors}, own
        yield f"batch{vectors}", [_positive(dtype, 2, 3, 3)], {"compute_v": vectors}


cases("Svd", FIELDS, _factored, _SOLVED, outputs=(0,))
cases("SelfAdjointEigV2", FIELDS, _eigen, _SOLVED, outputs=(0,))

# ---------------------------------------------------------------------- products


def _crosses(dtype: str) -> Iterator[Any]:
    yield "rows", [ramp(dtype, 2, 3), ramp(dtype, 2, 3, seed=9)]
    yield "vector", [ramp(dtype, 3), ramp(dtype, 3, seed=9)]
    yield "mismatch", [ramp(dtype, 2, 3), ramp(dtype, 3)]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 2, 3), noise(dtype, 2, 3, seed=9)], {}, {"grad": True, "second": True}


def _einsums(dtype: str) -> Iterator[Any]:
    a, b, c = noise(dtype, 2, 3), noise(dtype, 3, 4), noise(dtype, 5, 2, 3)
    for equation, inputs in {
        "ij,jk->ik": [a, b], "ij,jk->ki": [a, b], "ij,ij->": [a, a], "ij->ji": [a], "ij->i": [a], "ij->": [a],
        "ii->i": [_square(dtype, 3, 3)], "ii->": [_square(dtype, 3, 3)], "bij,jk->bik": [c, b], "i,j->ij": [a[0], b[0]],
        "bij,bij->b": [c, c], "ij,k->i": [a, b[0]],
    }.items():  # fmt: skip
        yield equation, [inputs], {"equation": equation}, {"grad": True, "tolerance": Tolerance(128, scaled=True)}
    for equation, inputs in {"...ij,...jk->...ik": [c, b], "i...->...": [a], "i->ii": [a[0]]}.items():
        yield equation, [inputs], {"equation": equation}
    yield "mismatch", [[a, a]], {"equation": "ij,jk->ik"}


cases("Cross", REAL, _crosses, Tolerance(4, scaled=True))
cases("Einsum", FIELDS, _einsums, Tolerance(64, scaled=True))

# ---------------------------------------------------------------------- diagonals and bands

_PLAIN = {"grad": True}


def _grads(dtype: str) -> dict[str, Any]:
    return _PLAIN if dtype in WIDE else {}


def _diags(dtype: str) -> Iterator[Any]:
    yield "vector", [ramp(dtype, 3)], {}, _grads(dtype)
    yield "matrix", [ramp(dtype, 2, 3)], {}, _grads(dtype)
    yield "empty", [ramp(dtype, 0)]
    yield "scalar", [ramp(dtype, 1).reshape(())]


def _diag_parts(dtype: str) -> Iterator[Any]:
    yield "matrix", [ramp(dtype, 3, 3)], {}, _grads(dtype)
    yield "deep", [ramp(dtype, 2, 3, 2, 3)], {}, _grads(dtype)
    yield "not-square", [ramp(dtype, 2, 3)]


def _matrix_diag_parts(dtype: str) -> Iterator[Any]:
    for shape in ((3, 3), (2, 4), (4, 2), (2, 3, 4)):
        yield str(shape), [ramp(dtype, *shape)], {}, _grads(dtype)
    yield "vector", [ramp(dtype, 3)]


def _set_diags(dtype: str) -> Iterator[Any]:
    for shape, diagonal in (((3, 3), (3,)), ((2, 4), (2,)), ((2, 3, 4), (2, 3))):
        yield str(shape), [ramp(dtype, *shape), ramp(dtype, *diagonal, seed=7)], {}, _grads(dtype)
    yield "mismatch", [ramp(dtype, 3, 3), ramp(dtype, 2)]


_ALIGNS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")
_FEW = ("float32", "float64", "int32", "complex64", "bool", "string")


def _value(dtype: str) -> np.ndarray:
    return ramp(dtype, 9)[4].reshape(()) if dtype != "string" else np.array(b"p", object)


def _diags_v3(dtype: str) -> Iterator[Any]:
    for k in (0, 1, -2):
        yield (
            f"k{k}",
            [ramp(dtype, 2, 3), s32(k), s32(-1), s32(-1), _value(dtype)],
            {"align": _ALIGNS[0]},
            _grads(dtype),
        )
    for align in _ALIGNS:
        yield f"band-{align}", [ramp(dtype, 3, 3), i32(-1, 1), s32(-1), s32(-1), _value(dtype)], {"align": align}
    yield "wide", [ramp(dtype, 3), s32(0), s32(3), s32(5), _value(dtype)], {"align": _ALIGNS[0]}


def _diag_parts_v3(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 2, 3, 4)
    for k in (0, 1, -2, 3):
        yield f"k{k}", [x, s32(k), _value(dtype)], {"align": _ALIGNS[0]}, _grads(dtype)
    for align in _ALIGNS:
        yield f"band-{align}", [x, i32(-1, 2), _value(dtype)], {"align": align}, _grads(dtype)
    yield "outside", [x, s32(5), _value(dtype)], {"align": _ALIGNS[0]}


def _set_diags_v3(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 2, 3, 4)
    for k, length in ((0, 3), (1, 3), (-2, 1)):
        yield f"k{k}", [x, ramp(dtype, 2, length, seed=7), s32(k)], {"align": _ALIGNS[0]}, _grads(dtype)
    for align in _ALIGNS:
        yield f"band-{align}", [x, ramp(dtype, 2, 3, 3, seed=7), i32(-1, 1)], {"align": align}, _grads(dtype)


def _bands(dtype: str) -> Iterator[Any]:
    for lower, upper in ((0, 0), (1, 0), (-1, 0), (0, -1), (1, 2), (-1, -1)):
        yield f"{lower},{upper}", [ramp(dtype, 2, 3, 4), np.array(lower), np.array(upper)], {}, _grads(dtype)
    yield "int32", [ramp(dtype, 3, 3), s32(1), s32(1)]
    yield "outside", [ramp(dtype, 3, 3), s32(4), s32(1)]
    yield "vector", [ramp(dtype, 3), s32(1), s32(1)]


cases("Diag", NUMBERS, _diags)
cases("DiagPart", NUMBERS, _diag_parts)
cases("MatrixDiag", _FEW, lambda d: list(_diags(d))[:2])
cases("MatrixDiagPart", _FEW, _matrix_diag_parts)
cases("MatrixSetDiag", _FEW, _set_diags)
cases("MatrixDiagV3", _FEW, _diags_v3)
cases("MatrixDiagPartV3", _FEW, _diag_parts_v3)
cases("MatrixSetDiagV3", _FEW, _set_diags_v3)
cases("MatrixBandPart", (*NUMBERS, "bool"), _bands, EXACT)
