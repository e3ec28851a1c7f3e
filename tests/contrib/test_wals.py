"""WALSModel: each update is the solution of its equations, and the loss that it tells is the loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

WALSModel = tf.contrib.factorization.WALSModel
RNG = np.random.default_rng(0)
ROWS, COLS, SIZE, PENALTY, UNOBSERVED = 7, 5, 3, 0.2, 0.1
A = np.where(RNG.random((ROWS, COLS)) < 0.6, RNG.integers(1, 6, (ROWS, COLS)), 0).astype(np.float32)
A[A.sum(1) == 0, 0] = 1
U, V = (RNG.normal(size=(n, SIZE)).astype(np.float32) for n in (ROWS, COLS))
ROW_WEIGHTS, COL_WEIGHTS = (RNG.random(n).astype(np.float32) + 0.5 for n in (ROWS, COLS))


def sparse(a: np.ndarray, of: Any = None) -> tf.SparseTensor:
    where = np.argwhere(a != 0)
    if of is not None:
        where = where[np.isin(where[:, 0], of)]
        RNG.shuffle(where)
    return tf.SparseTensor(where, a[tuple(where.T)], a.shape)


def weights_of(row_weights: Any, col_weights: Any) -> np.ndarray:
    more = 0 if row_weights is None else np.outer(np.ones(ROWS) * row_weights, np.ones(COLS) * col_weights)
    return UNOBSERVED + (A != 0) * more


def solved(a: np.ndarray, w: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Row by row."""
    eye = PENALTY * np.eye(SIZE)
    return np.stack([np.linalg.solve((v.T * wi) @ v + eye, (v.T * wi) @ ai) for ai, wi in zip(a, w)])


def model(row_weights: Any = 1, col_weights: Any = 1, **options: Any) -> Any:
    return WALSModel(ROWS, COLS, SIZE, UNOBSERVED, PENALTY, U, V, row_weights=row_weights, col_weights=col_weights,
                     **options)  # fmt: skip


WEIGHTS = [(1, 1), (None, None), (2.0, COL_WEIGHTS), (ROW_WEIGHTS, COL_WEIGHTS), ([ROW_WEIGHTS.tolist()], 0.5)]


@pytest.mark.parametrize("row_weights, col_weights", WEIGHTS)
def test_rows_and_columns_in_turn(graph: Any, row_weights: Any, col_weights: Any) -> None:
    made = model(row_weights, col_weights)
    flat = np.ravel(row_weights) if isinstance(row_weights, list) else row_weights
    w, u, v = weights_of(flat, col_weights), U.astype(np.float64), V.astype(np.float64)
    rows, cols = made.update_row_factors(sparse(A)), made.update_col_factors(sparse(A))
    with tf.Session() as session:
        session.run(made.initialize_op)
        session.run(made.worker_init)
        for _ in range(3):
            session.run(made.row_update_prep_gramian_op)
            session.run(made.initialize_row_update_op)
            new, _, loss, penalty, total = session.run(rows)
            u = solved(A, w, v)
            np.testing.assert_allclose(session.run(made.row_factors[0]), u, rtol=2e-3, atol=1e-4)
            np.testing.assert_allclose(new, u, rtol=2e-3, atol=1e-4)
            np.testing.assert_allclose(loss, (w * (A - u @ v.T) ** 2).sum(), rtol=2e-3)
            np.testing.assert_allclose(penalty, PENALTY * ((u**2).sum() + (v**2).sum()), rtol=2e-3)
            np.testing.assert_allclose(total, w.sum(), rtol=1e-4)
            session.run(made.col_update_prep_gramian_op)
            session.run(made.initialize_col_update_op)
            after = session.run(cols)[2]
            v = solved(A.T, w.T, u)
            np.testing.assert_allclose(session.run(made.col_factors[0]), v, rtol=2e-3, atol=1e-4)
            np.testing.assert_allclose(after, (w * (A - u @ v.T) ** 2).sum(), rtol=2e-3)


def test_some_rows_in_shards(graph: Any) -> None:
    """In any order; the others stay. What is told is as if these were all rows."""
    parts = [ROW_WEIGHTS[:4].tolist(), ROW_WEIGHTS[4:].tolist()]
    made = model(parts, COL_WEIGHTS, num_row_shards=2, num_col_shards=1)
    some = [1, 5, 6]
    _, update, loss, _, _ = made.update_row_factors(sparse(A, some))
    turned = made.update_row_factors(tf.sparse.transpose(sparse(A, some)), transpose_input=True)
    w = weights_of(ROW_WEIGHTS, COL_WEIGHTS)
    wanted = solved(A, w, V)
    with tf.Session() as session:
        session.run(made.initialize_op)
        assert [f.shape.as_list() for f in made.row_factors] == [[4, SIZE], [3, SIZE]]
        session.run(made.row_update_prep_gramian_op)
        for op in (update, turned[1]):
            session.run(made.initialize_op)
            session.run(made.row_update_prep_gramian_op)
            session.run(op)
            found = np.concatenate(session.run(made.row_factors))
            expected = np.where(np.isin(np.arange(ROWS), some)[:, None], wanted, U)
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-4)
        expected_loss = (w * (A - wanted @ V.T) ** 2)[some].sum() * ROWS / len(some)
        np.testing.assert_allclose(session.run(loss), expected_loss, rtol=2e-3)


def test_other_rows_and_columns(graph: Any) -> None:
    made = model(ROW_WEIGHTS, COL_WEIGHTS)
    others = np.where(RNG.random((4, COLS)) < 0.7, RNG.random((4, COLS)), 0).astype(np.float32)
    own = RNG.random(4).astype(np.float32)
    rows = made.project_row_factors(sparse(others), projection_weights=own)
    plain = made.project_row_factors(tf.sparse.transpose(sparse(others)), transpose_input=True)
    cols = made.project_col_factors(sparse(A), projection_weights=COL_WEIGHTS)
    with tf.Session() as session:
        session.run(made.initialize_op)
        session.run([made.row_update_prep_gramian_op, made.col_update_prep_gramian_op])
        for found, weights in ((rows, own), (plain, np.ones(4))):
            w = UNOBSERVED + (others != 0) * np.outer(weights, COL_WEIGHTS)
            np.testing.assert_allclose(session.run(found), solved(others, w, V), rtol=2e-3, atol=1e-4)
        w = weights_of(ROW_WEIGHTS, COL_WEIGHTS)
        np.testing.assert_allclose(session.run(cols), solved(A.T, w.T, U), rtol=2e-3, atol=1e-4)


def test_refusals(graph: Any) -> None:
    with pytest.raises(ValueError, match="must both be None, or neither"):
        model(None, 1)
    with pytest.raises(ValueError, match=r"row_weights must be None, a number from 0, .*of \[7\] of them"):
        model([1.0, 2.0], 1)
    with pytest.raises(ValueError, match="col_weights must be"):
        model(1, -1)
    with pytest.raises(ValueError, match="num_row_shards must be from 1 to the 7 rows, got 8"):
        model(num_row_shards=8)
    with pytest.raises(ValueError, match="row_init must be 'random' or the factors"):
        WALSModel(3, 3, 2, row_init="zeros")
    with pytest.raises(TypeError, match="sp_input must be a SparseTensor, got ndarray"):
        model().update_row_factors(A)
    assert len(WALSModel(3, 4, 2, num_col_shards=3).col_factors) == 3
