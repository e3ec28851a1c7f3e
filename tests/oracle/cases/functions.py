"""Functions of matrices, triangular factors, tridiagonal systems. The gradients of complex ones and of lu, which
TensorFlow lacks or conjugates otherwise, are held against small steps in tests/grads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.oracle.cases.table import cases
from tests.oracle.cases.values import COMPLEX, WIDE, noise
from tests.oracle.compare import SUM, Tolerance

_SYSTEMS = Tolerance(4096, scaled=True)


def _well(dtype: str, *batch: int) -> np.ndarray:
    x = noise(dtype, *batch, 4, 4)
    return (x @ x.conj().swapaxes(-1, -2) + np.eye(4)).astype(dtype)


def _lu(dtype: str) -> Iterator[Any]:
    for batch in ((), (2,), (2, 3)):
        yield f"batch{len(batch)}", [noise(dtype, *batch, 4, 4)]
    yield "singular", [np.zeros((3, 3), dtype)]
    yield "uneven", [noise(dtype, 3, 4)]


def _roots(dtype: str) -> Iterator[Any]:
    for batch in ((), (2,)):
        yield f"batch{len(batch)}", [_well(dtype, *batch)], {}, {"grad": dtype in WIDE}
    yield "uneven", [noise(dtype, 3, 4)]


def _logarithms(dtype: str) -> Iterator[Any]:
    for batch in ((), (2,)):
        yield f"batch{len(batch)}", [_well(dtype, *batch)]
    yield "near", [(np.eye(3) + 0.01 * noise(dtype, 3, 3)).astype(dtype)]
    yield "uneven", [noise(dtype, 3, 4)]


def _solves(dtype: str) -> Iterator[Any]:
    for pivoting in (True, False):
        for batch in ((), (2,)):
            inputs = [noise(dtype, *batch, 3, 5) + np.array([0, 4, 0], dtype)[:, None], noise(dtype, *batch, 5, 2)]
            yield f"{pivoting}{len(batch)}", inputs, {"partial_pivoting": pivoting}, {"grad": dtype in WIDE}
    yield "pivots", [noise(dtype, 3, 6), noise(dtype, 6, 2)]
    yield "one", [np.full((3, 1), 2, dtype), noise(dtype, 1, 2)]
    yield "few", [noise(dtype, 3, 4), noise(dtype, 5, 2)]


def _products(dtype: str) -> Iterator[Any]:
    for batch in ((), (2,)):
        diagonals = [noise(dtype, *batch, 1, 5, seed=i) for i in range(3)]
        yield f"batch{len(batch)}", [*diagonals, noise(dtype, *batch, 5, 2)], {}, {"grad": True}


cases("Lu", (*WIDE, *COMPLEX), _lu, _SYSTEMS)
cases("MatrixSquareRoot", (*WIDE, *COMPLEX), _roots, _SYSTEMS)
cases("MatrixLogarithm", COMPLEX, _logarithms, _SYSTEMS)
cases("TridiagonalSolve", (*WIDE, *COMPLEX), _solves, _SYSTEMS)
cases("TridiagonalMatMul", (*WIDE, *COMPLEX), _products, SUM)
