"""Look-ups and updates of many tables: groups of tables and several threads change no bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import embedding, row_loops, updates
from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.kernels.updates import Updater
from sparkflow_runtime.resources.manager import ResourceManager

TABLES, ROWS, WIDTH, BATCH = 9, 40, 6, 50


def given() -> tuple[list[Any], list[Any], list[Any]]:
    """(tables with a slot each, gradients as columns of one matrix, ids that repeat; one table has none)."""
    rng = np.random.default_rng(0)
    tables = [[rng.random((ROWS, WIDTH), np.float32), np.ones((ROWS, WIDTH), np.float32)] for _ in range(TABLES)]
    counts = [BATCH if t != 3 else 0 for t in range(TABLES)]
    matrix = rng.standard_normal((BATCH, TABLES * WIDTH)).astype(np.float32)
    grads = [matrix[:n, t * WIDTH : (t + 1) * WIDTH] for t, n in enumerate(counts)]
    return tables, grads, [rng.integers(0, ROWS, n) for n in counts]


@pytest.mark.parametrize("shared", [0, 1 << 40])
@pytest.mark.parametrize("chunk", [1, 700, 1 << 17])
def test_sums_by_id_in_groups_of_tables(shared: int, chunk: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(updates, "_SHARED", shared)
    monkeypatch.setattr(updates, "_CHUNK", chunk)
    tables, grads, ids = given()
    expected = [[held.copy() for held in mine] for mine in tables]
    for (table, slot), grad, mine in zip(expected, grads, ids):
        sums = np.zeros_like(table)
        for row, part in zip(mine, grad):
            sums[row] += part
        touched = np.unique(mine)
        slot[touched] += sums[touched] * sums[touched]
        table[touched] -= np.float32(0.1) * sums[touched] / np.sqrt(slot[touched])
    updater = Updater(np, "SparseApplyAdagrad", {"update_slots": True})
    updater.sparse(tables, grads, ids, [np.float32(0.1)], "summed", [f"t{t}" for t in range(TABLES)])
    for mine, theirs in zip(tables, expected, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shared", [0, 1 << 40])
def test_look_ups_side_by_side(shared: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(embedding, "_SHARED", shared)
    tables = [held for held, _ in given()[0]]
    ids = [np.random.default_rng(t).integers(0, ROWS, BATCH) for t in range(TABLES)]
    attrs = {"N": TABLES, "order": list(range(TABLES))}
    node = Node("n", "_FusedGatherConcat", attrs, "CPU", np, ResourceManager())
    joined, *columns = find(node.op, "CPU").factory(node)(*tables, *ids)
    np.testing.assert_array_equal(joined, np.concatenate([t[i] for t, i in zip(tables, ids)], 1))
    for part, table, mine in zip(columns, tables, ids, strict=True):
        np.testing.assert_array_equal(part, table[mine])


def test_rows_whose_bits_differ_in_the_sign_alone() -> None:
    """0.0 beside -0.0, as an optimizer with a penalty leaves them: no value of a row is an error."""
    tables = [np.array([[0.0, -0.0], [0.0, 1.0]]), np.array([[2.0]])]
    row_loops.gather_rows.wait(60)
    node = Node("n", "_FusedGather", {"N": 2}, "CPU", np, ResourceManager())
    rows, others = find(node.op, "CPU").factory(node)(*tables, np.array([0]), np.array([0, 0]))
    assert rows.tolist() == [[0, 0]] and np.signbit(rows).tolist() == [[False, True]]
    assert others.tolist() == [[2], [2]]
