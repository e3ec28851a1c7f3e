"""Products of a matrix that rows are spread over: what the matrix itself would give, to the last digits but one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import NodeDef

Array = np.ndarray
WIDTHS = [[8, 33, 16], [24, 10]]  # of the tables of each task; the first task's second table is not wanted
OF = [[0, 1, 0], [0, 1]]  # two tables of the first one are looked up by the same ids
MEMBERS, ORDER, OTHERS = [3, 0, 4, 2], [4, 0, 5, 1, 2, 3], [5, 2]
FLAT_WIDTHS, FLAT_OF = [w for some in WIDTHS for w in some], [k for some in OF for k in some]
ATTRS: dict[str, Any] = {"N": 4, "order": ORDER, "tables": [3, 2], "of": FLAT_OF, "widths": FLAT_WIDTHS}
ATTRS |= {"members": MEMBERS, "alone": True}


def bind(op: str, **attrs: Any) -> Callable[..., Any]:
    return find(op, "CPU").factory(Node("n", op, attrs, "CPU", np, ResourceManager()))


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def case(batch: int, ids: int) -> tuple[list[Array], Array]:
    """(the first inputs, the matrix), of a batch that names ids below a number."""
    rng, inputs, rows = np.random.default_rng(batch), list[Array](), list[Array]()
    for t, (widths, of) in enumerate(zip(WIDTHS, OF)):
        tables = [normal(ids, width, seed=7 * t + i) for i, width in enumerate(widths)]
        mine = [rng.integers(0, ids, batch) for _ in range(max(of) + 1)]
        rows += [table[mine[k]] for table, k in zip(tables, of)]
        distinct, counts, places, sizes, *_ = bind("_DistinctIds", N=len(mine))(*mine)
        flat = bind("_GatherDistinct", N=len(tables), of=of)(*tables, distinct, counts)
        inputs += [flat, counts, places, sizes]
    others = [normal(batch, width, seed=width) for width in OTHERS]
    parts = [*(rows[m] for m in MEMBERS), *others]
    return [*inputs, *others], np.concatenate([parts[k] for k in ORDER], 1)


def begins() -> dict[int, int]:
    """Of each wanted table the first column of the matrix."""
    widths = [*(FLAT_WIDTHS[m] for m in MEMBERS), *OTHERS]
    ends = np.cumsum([0, *(widths[k] for k in ORDER)])
    return {MEMBERS[k]: int(ends[i]) for i, k in enumerate(ORDER) if k < len(MEMBERS)}


def near(found: Any, expected: Any) -> None:
    """expected: in float64."""
    assert found.dtype == np.float32 and found.flags.c_contiguous
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-6 * max(1.0, np.abs(expected).max(initial=0)))


def product(**attrs: Any) -> Callable[..., Any]:
    return bind("_SpreadMatMul", product="MatMul", T=1, transpose_a=False, transpose_b=False, **ATTRS, **attrs)


def fused(activation: str | None) -> Callable[..., Any]:
    nodes = [NodeDef(name="p", op="MatMul", input=["x", "w"]), NodeDef(name="b", op="AddV2", input=["p", "v"])]
    nodes += [NodeDef(name="a", op=activation, input=["b"])] if activation else []
    about = {"product_nodes": [n.SerializeToString() for n in nodes], "product_inputs": ["x", "w", "v"]}
    return bind("_SpreadMatMul", product="_FusedMatMul", product_outputs=[nodes[-1].name], **about, **ATTRS)


SUMS: dict[str, Any] = {"sum_sources": [1, 0], "sum_tables": [2, 2], "sum_of": [0, 1, 0, 0]}
SUMS |= {"sum_widths": [24, 10, 16, 8], "sum_columns": [begins()[m] for m in (3, 4, 2, 0)]}


def expected_sums(inputs: Sequence[Array], dx: Array, sums: dict[str, Any]) -> list[Array]:
    found, at = [], 0
    for source, count in zip(sums["sum_sources"], sums["sum_tables"]):
        _, counts, places, sizes = inputs[4 * source : 4 * source + 4]
        parts = []
        for k in range(at, at + count):
            of, width, column = (sums[f"sum_{name}"][k] for name in ("of", "widths", "columns"))
            total = np.zeros((counts[of], width))
            np.add.at(total, places[sizes[:of].sum() :][: sizes[of]], dx[:, column : column + width])
            parts.append(total.ravel())
        found.append(np.concatenate(parts))
        at += count
    return found


@pytest.mark.parametrize("columns", [32, 100, 256])
@pytest.mark.parametrize(("batch", "ids"), [(1, 1), (9, 2), (129, 40), (200, 100)])
def test_without_the_matrix(spread_products: Any, batch: int, ids: int, columns: int) -> None:
    if batch == 1:
        pytest.skip("no id of one row can repeat") if ids > 1 else None
    inputs, x = case(batch, ids)
    w, dz = normal(x.shape[1], columns), normal(batch, columns, seed=1)
    z, matrix = product()(*inputs, w)
    near(z, x.astype(np.float64) @ w)
    assert (matrix.size == 0) == (batch > 1), "made where no id repeats, and only there"
    slices = {"slice_columns": [0, 3], "slice_widths": [5, 40]}
    dw, *found, first, second = bind("_SpreadMatMulGrad", **ATTRS, **SUMS, **slices)(*inputs, matrix, dz, w)
    near(dw, x.T.astype(np.float64) @ dz)
    dx = dz.astype(np.float64) @ w.T
    for one, expected in zip(found, expected_sums(inputs, dx, SUMS), strict=True):
        near(one, expected)
    near(first, dx[:, :5])
    near(second, dx[:, 3:43])


@pytest.mark.parametrize("width", [1, 2, 3, 7])
def test_a_narrow_table_beside_a_wide_one(spread_products: Any, width: int) -> None:
    rng, tables = np.random.default_rng(width), [normal(40, width), normal(40, 32, seed=1)]
    ids = [rng.integers(0, 40, 200) for _ in tables]
    distinct, counts, places, sizes, *_ = bind("_DistinctIds", N=2)(*ids)
    flat = bind("_GatherDistinct", N=2, of=[0, 1])(*tables, distinct, counts)
    about: dict[str, Any] = {"N": 2, "order": [0, 1], "tables": [2], "of": [0, 1], "widths": [width, 32]}
    about |= {"members": [0, 1], "alone": True}
    x = np.concatenate([t[i] for t, i in zip(tables, ids)], 1)
    w, dz, given = normal(width + 32, 256), normal(200, 256, seed=1), (flat, counts, places, sizes)
    z, matrix = bind("_SpreadMatMul", product="MatMul", T=1, **about)(*given, w)
    assert not matrix.size
    near(z, x.astype(np.float64) @ w)
    sums: dict[str, Any] = {"sum_sources": [0], "sum_tables": [2], "sum_of": [0, 1]}
    sums |= {"sum_widths": [width, 32], "sum_columns": [0, width]}
    dw, found = bind("_SpreadMatMulGrad", **about, **sums)(*given, matrix, dz, w)
    near(dw, x.T.astype(np.float64) @ dz)
    near(found, expected_sums(given, dz.astype(np.float64) @ w.T, sums)[0])


@pytest.mark.parametrize("ids", [20, 1 << 40])
def test_rows_that_nobody_learns(spread_products: Any, ids: int) -> None:
    """Sums of one task's tables alone, then of none; where ids repeat and where they do not."""
    inputs, x = case(90, min(ids, 9000))
    w, dz = normal(x.shape[1], 64), normal(90, 64, seed=1)
    matrix = product()(*inputs, w)[1]
    assert (matrix.size > 0) == (ids > 90)
    some = {"sum_sources": [0], "sum_tables": [1], "sum_of": [0], "sum_widths": [8], "sum_columns": [begins()[0]]}
    for sums in (some, {}):
        dw, *found = bind("_SpreadMatMulGrad", **ATTRS, **sums)(*inputs, matrix, dz, w)
        near(dw, x.T.astype(np.float64) @ dz)
        expected = expected_sums(inputs, dz.astype(np.float64) @ w.T, sums) if sums else []
        for one, other in zip(found, expected, strict=True):
            near(one, other)


@pytest.mark.parametrize("activation", [None, "Relu", "Tanh", "Relu6"])
def test_bias_and_activation(spread_products: Any, activation: str | None) -> None:
    inputs, x = case(100, 20)
    w, bias = normal(x.shape[1], 96), normal(96, seed=3)
    z, matrix = fused(activation)(*inputs, w, bias)
    expected = x.astype(np.float64) @ w + bias
    ends = {None: (-np.inf, np.inf), "Relu": (0, np.inf), "Relu6": (0, 6)}
    near(z, np.tanh(expected) if activation == "Tanh" else expected.clip(*ends[activation]))
    assert matrix.size == 0
    z, matrix = fused(activation)(*inputs, w, bias[:1])
    assert z.shape == (100, 96) and matrix.size, "a bias that is spread is for the nodes as they are"


def test_parts_for_threads_have_the_same_bits(spread_products: Any, crew: Any, monkeypatch: Any) -> None:
    inputs, x = case(300, 60)
    w, dz = normal(x.shape[1], 320), normal(300, 320, seed=1)
    gradient = bind("_SpreadMatMulGrad", **ATTRS, **SUMS)
    asked = list[int]()
    found = []
    for mates in (None, crew):
        monkeypatch.setattr(spread_products, "crew_for", lambda work, mates=mates: asked.append(work) or mates)
        monkeypatch.setattr(spread_products, "crew", crew)
        z, matrix = product()(*inputs, w)
        found.append([a.tobytes() for a in (z, *gradient(*inputs, matrix, dz, w))])
    assert found[0] == found[1] and len(asked) == 4 and min(asked) > 0


def test_what_is_no_number_stays_where_it_is(spread_products: Any) -> None:
    inputs, x = case(64, 10)
    w = normal(x.shape[1], 64)
    w[:, 5], w[3, 7] = np.nan, np.inf
    z = product()(*inputs, w)[0]
    with np.errstate(invalid="ignore"):
        expected = x @ w
    np.testing.assert_array_equal(np.isnan(z), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(z), np.isinf(expected))


@pytest.mark.parametrize("code", [True, False])
def test_a_batch_of_none(spread_products: Any, monkeypatch: Any, code: bool) -> None:
    if not code:
        monkeypatch.setattr(spread_products.products, "functions", [])
    inputs, x = case(0, 5)
    w = normal(x.shape[1], 64)
    z, matrix = product()(*inputs, w)
    dw, *sums = bind("_SpreadMatMulGrad", **ATTRS, **SUMS)(*inputs, matrix, normal(0, 64), w)
    assert z.shape == (0, 64) and dw.shape == w.shape and not dw.any() and not any(s.size for s in sums)


def test_without_machine_code_the_matrix_is_made(spread_products: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(spread_products.products, "functions", [])
    inputs, x = case(50, 10)
    w, dz = normal(x.shape[1], 64), normal(50, 64, seed=1)
    z, matrix = product()(*inputs, w)
    np.testing.assert_array_equal(matrix, x)
    near(z, bind("MatMul")(x, w))  # BLAS may sum in another order elsewhere in memory, or with other threads
    dw, *sums = bind("_SpreadMatMulGrad", **ATTRS, **SUMS)(*inputs, matrix, dz, w)
    near(dw, bind("MatMul", transpose_a=True)(x, dz))
    for found, expected in zip(sums, expected_sums(inputs, dz.astype(np.float64) @ w.T, SUMS), strict=True):
        near(found, expected)


def test_what_does_not_fit_is_refused(spread_products: Any) -> None:
    inputs, x = case(60, 10)
    w = normal(x.shape[1], 64)
    with pytest.raises(InvalidArgumentError, match="rows of shape"):
        product()(inputs[0][:-1], *inputs[1:], w)
    with pytest.raises(InvalidArgumentError, match="sizes must agree"):
        product()(*inputs[:-1], inputs[-1][:-1], w)
    with pytest.raises(InvalidArgumentError, match="matrix sizes do not match"):
        product()(*inputs, w[:-1])
    fewer, _ = case(59, 10)
    with pytest.raises(InvalidArgumentError, match="sizes must agree"):
        product()(*inputs[:4], *fewer[4:8], *inputs[8:], w)


@pytest.mark.parametrize("sums", ["twice", "another's", "narrower"])
def test_sums_that_are_not_the_tables_own_come_of_the_matrix(spread_products: Any, sums: str) -> None:
    inputs, x = case(60, 10)
    w, dz = normal(x.shape[1], 64), normal(60, 64, seed=1)
    asked = {
        "twice": {k: v * 2 for k, v in SUMS.items()},
        "another's": SUMS | {"sum_of": [0, 1, 1, 0]},
        "narrower": SUMS | {"sum_widths": [24, 10, 16, 7]},
    }[sums]
    dw, *found = bind("_SpreadMatMulGrad", **ATTRS, **asked)(*inputs, np.empty((0, 0), np.float32), dz, w)
    near(dw, x.T.astype(np.float64) @ dz)
    for one, expected in zip(found, expected_sums(inputs, dz.astype(np.float64) @ w.T, asked), strict=True):
        near(one, expected)


_NARROW = """
import sparkflow_runtime.kernels.conv_direct_layout as layout
layout.lanes = lambda: 8
import pytest, sys
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-n", "0", *sys.argv[1:]]))
"""


@pytest.mark.soak  # it compiles them
def test_vectors_of_eight(tmp_path: Path) -> None:
    """What processors without AVX-512 run, on one that has it."""
    from sparkflow_runtime.kernels.conv_direct_layout import lanes

    if lanes() != 16:
        pytest.skip("they are this processor's own")
    chosen = f"{__file__}::test_without_the_matrix"
    given = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "SPARKFLOW_NUMBA": "0"}
    done = subprocess.run(
        [sys.executable, "-c", _NARROW, chosen], check=False, capture_output=True, text=True, env=given, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
