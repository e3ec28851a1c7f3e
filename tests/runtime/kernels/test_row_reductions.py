"""Reductions of short rows and narrow columns: the bits of both versions agree, the values are numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import row_reductions as rows

LOOPS = [("sum", rows.short_sums, k) for k in ("float32", "float64")] + [("sum", rows.long_sums, "float32")]
for _name in ("max", "min"):
    LOOPS += [(_name, rows.short_maxima, k) for k in ("float32", "float64")] + [(_name, rows.long_maxima, "float32")]


def values(kind: str, *shape: int) -> Any:
    rng = np.random.default_rng(sum(shape))
    x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(kind)
    if x.size > 20:
        flat = x.reshape(-1)
        flat[5 :: x.size // 3], flat[::17], flat[1::17] = np.nan, 0.0, -0.0
        flat[2], flat[9] = np.inf, -np.inf
    return x


@pytest.mark.parametrize(("name", "loop", "kind"), LOOPS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (700, 7), (5, 24), (9, 33), (1030, 8), (4, 159)])
def test_both_versions(name: str, loop: Any, kind: str, shape: tuple[int, int]) -> None:
    x, made = values(kind, *shape), []
    signs = [] if name == "sum" else [np.full(1, 1 if name == "max" else -1, kind)]
    for version in (loop.compile(), loop.numpy):
        out = np.zeros(len(x), kind)
        with np.errstate(all="ignore"):
            version(x, *signs, out, 0, len(x) // 2)
            version(x, *signs, out, len(x) // 2, len(x))
        made.append(out)
    one, other = made
    np.testing.assert_array_equal(one, other)
    assert one[one == one].tobytes() == other[one == one].tobytes()
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x.astype(np.float64), 1)
        near = 1e-5 * np.abs(x).astype(np.float64).sum(1) if name == "sum" else np.zeros(len(x))
    fine = np.isfinite(wanted)
    np.testing.assert_array_equal(one[~fine], wanted[~fine])
    assert (np.abs(one[fine] - wanted[fine]) <= near[fine]).all()


@pytest.mark.parametrize("name", ["sum", "max", "min"])
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 5), (31, 12, 12), (5, 63, 40), (4, 7, 127)])
def test_both_versions_of_columns(name: str, kind: str, shape: tuple[int, ...]) -> None:
    x, made = values(kind, *shape), []
    loop: Any = rows.column_sums if name == "sum" else rows.column_maxima
    signs = [] if name == "sum" else [np.full(1, 1 if name == "max" else -1, kind)]
    for version in (loop.compile(), loop.numpy):
        out = np.zeros((shape[0], shape[2]), kind)
        with np.errstate(all="ignore"):
            version(x, *signs, out, 0, shape[0] // 2)
            version(x, *signs, out, shape[0] // 2, shape[0])
        made.append(out)
    one, other = made
    np.testing.assert_array_equal(one, other)
    assert one[one == one].tobytes() == other[one == one].tobytes()
    with np.errstate(all="ignore"):  # numpy adds up columns in the same order
        np.testing.assert_array_equal(one, getattr(np, name)(x, 1))


SHAPES = [((400, 5, 4), (1, 2)), ((400, 5, 4), (2,)), ((99, 50), (1,)), ((5000, 3), (0,)), ((70, 30, 4), (0, 1))]
SHAPES += [
    ((64, 64, 1), (0,)),
    ((4097,), (0,)),
    ((4097, 1), (1,)),
    ((4097, 1), (0,)),
    ((3, 2000, 2), (1,)),
    ((4, 65, 64, 3), (1, 2)),
    ((40, 12, 12), (1,)),
    ((9, 63, 20), (1,)),
    ((20, 7, 5, 12), (1, 2)),
    ((2, 64, 127), (0,)),
    ((700, 60, 30), (1,)),
    ((32, 9, 9), (1,)),
    ((32, 9, 9), (2,)),
    ((130, 2), (1,)),
    ((2, 3, 4), (1,)),
    ((0, 4), (1,)),
    ((8197, 130), (0,)),
    ((33, 7, 600), (0, 1)),
]


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
@pytest.mark.parametrize("name", ["sum", "max", "min"])
@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "float16"])
@pytest.mark.parametrize("keep", [False, True])
def test_any_shape(shape: tuple[int, ...], axes: tuple[int, ...], name: str, kind: str, keep: bool) -> None:
    x = np.random.default_rng(0).integers(-50, 50, shape).astype(kind)
    wanted = getattr(np, name)(x, axes, keepdims=keep)
    found = rows.reduced(name, x, tuple(a - len(shape) for a in axes), keep)
    if found is not None:
        assert found.dtype == kind and found.shape == wanted.shape
        np.testing.assert_array_equal(found, wanted)
    assert found is None or kind.startswith("float")


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(2, 700), (128, 1030)])
def test_both_versions_of_wide_rows(kind: str, shape: tuple[int, int]) -> None:
    x, made = values(kind, *shape), []
    for version in (rows.wide_sums.compile(), rows.wide_sums.numpy):
        out = np.zeros(shape[1], kind)
        with np.errstate(all="ignore"):
            version(x, out, 0, shape[1] // 2)
            version(x, out, shape[1] // 2, shape[1])
        made.append(out)
    np.testing.assert_array_equal(*made)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(made[0], np.add.reduce(x, 0))
        found = rows.reduced("sum", x, (0,), keep=True)
    assert (found is not None) == (x.size >= 1 << 14)
    if found is not None:
        np.testing.assert_array_equal(found, made[0][None])


@pytest.mark.parametrize("shape", [(8197, 130), (1 << 13, 136)])
def test_sums_of_high_columns_keep_digits_and_bits(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).random(shape, np.float32)
    found = rows.reduced("sum", x, (0,), False)
    exact = x.astype(np.float64).sum(0)
    assert np.abs(found - exact).max() < np.abs(np.add.reduce(x, 0) - exact).max() / 4
    one = rows.column_sums.compile()
    for loop in (one, rows.column_sums.numpy):
        monkeypatch.setattr(rows, "in_parts", lambda _, count, __, *arrays, loop=loop: loop(*arrays, 0, count))
        assert rows.reduced("sum", x, (0,), False).tobytes() == found.tobytes()
