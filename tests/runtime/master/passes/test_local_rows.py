"""Tables beside a wide layer: each row is looked up, multiplied and summed once; and what stays as it is."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow_runtime.kernels.table  # noqa: F401 - registers the ops
from sparkflow import distribute
from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.master.passes import Optimizer
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.protos import GraphDef, RewriterConfig
from tests.runtime.kernels.conftest import spread_products as code_in_use  # noqa: F401 - a fixture

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
ROWS, BATCH = 6, 40
RNG = np.random.default_rng(0)
IDS, DENSE = RNG.integers(0, ROWS, (3, BATCH, 3)), RNG.standard_normal((3, BATCH, 2)).astype("f4")


def model(width: int = 8, columns: int = 32, tables: int = 3) -> tuple[Any, Any, Any]:
    """(loss, rows that the layer takes, look-ups)"""
    ids = tf.placeholder(tf.int64, [None, 3], "ids")
    dense = tf.placeholder(tf.float32, [None, 2], "dense")
    start = [np.random.default_rng(k).standard_normal((ROWS, width)).astype("f4") for k in range(tables)]
    held = [tf.get_variable(f"table{k}", initializer=value) for k, value in enumerate(start)]
    found = [tf.nn.embedding_lookup(t, i) for t, i in zip(held, tf.unstack(ids, axis=1))]
    whole = tf.concat([dense, *found], 1)
    start_w = np.random.default_rng(9).standard_normal((2 + tables * width, columns)).astype("f4")
    return tf.reduce_mean(tf.nn.relu(tf.matmul(whole, tf.get_variable("w", initializer=start_w)))), whole, found


def placed(train_op: Any, *fetches: Any) -> GraphDef:
    nodes = {n.name: n for n in tf.get_default_graph().as_graph_def(add_shapes=True).node}
    feeds, names, targets = ["ids:0", "dense:0"], [f.name for f in fetches], [train_op.name] if train_op else []
    graph = Optimizer().optimize(prune(nodes, feeds, names, targets), feeds, names, targets, sources=nodes)
    for node in graph.node:
        node.device = CPU
    return Optimizer().optimize_placed(graph, feeds, names, targets)


def ops(graph: GraphDef) -> Counter[str]:
    return Counter(n.op for n in graph.node)


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "Adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "Adam": lambda: tf.train.AdamOptimizer(0.01),
    "Ftrl": lambda: tf.train.FtrlOptimizer(0.1),
    "Momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "GradientDescent": lambda: tf.train.GradientDescentOptimizer(0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_rows_are_those_of_distinct_ids(graph: Any, name: str) -> None:
    made = ops(placed(OPTIMIZERS[name]().minimize(model()[0])))
    assert [made[op] for op in ("_DistinctIds", "_GatherDistinct", "_SpreadMatMul", "_SpreadMatMulGrad")] == [1] * 4
    assert made["_ApplyDistinct"] == 1
    assert not made.keys() & {"Unique", "UnsortedSegmentSum", "ConcatV2", "Slice", "_FusedGatherConcat"}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_same_values(name: str, code_in_use: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    calls, multiply = Counter[str](), code_in_use._multiply

    def counted(*arguments: Any) -> Any:
        calls["multiply"] += 1
        return multiply(*arguments)

    monkeypatch.setattr(code_in_use, "_multiply", counted)
    found = []
    for setting in (RewriterConfig.ON, RewriterConfig.OFF):
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.remapping = setting
        with tf.Graph().as_default(), tf.Session(config=config) as session:
            loss = model()[0]
            train_op = OPTIMIZERS[name]().minimize(loss)
            session.run(tf.global_variables_initializer())
            losses = [session.run([loss, train_op], {"ids:0": i, "dense:0": d})[0] for i, d in zip(IDS, DENSE)]
            found.append([np.array(losses), *session.run(tf.trainable_variables())])
    assert calls["multiply"] == len(IDS)
    for on, off in zip(*found):
        np.testing.assert_allclose(on, off, rtol=1e-4, atol=1e-5)


class _ByRow(tf.train.GradientDescentOptimizer):
    def _apply_sparse_duplicate_indices(self, grad: Any, var: Any) -> Any:
        return tf.scatter_add(var, grad.indices, -0.1 * grad.values)


STAYS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "tables that are too narrow": lambda: (OPTIMIZERS["Adagrad"]().minimize(model(width=4)[0]),),
    "a layer that is too narrow": lambda: (OPTIMIZERS["Adagrad"]().minimize(model(columns=16)[0]),),
    "a single table": lambda: (OPTIMIZERS["Adagrad"]().minimize(model(tables=1)[0]),),
    "updates row by row": lambda: (_ByRow(0.1).minimize(model()[0]),),
    "what only predicts": lambda: (None, model()[0]),
    "rows that are fetched": lambda: _fetched(),
    "rows that something else takes": lambda: _taken(),
}


def _fetched() -> tuple[Any, ...]:
    loss, _, found = model()
    return OPTIMIZERS["Adagrad"]().minimize(loss), found[1]


def _taken() -> tuple[Any, ...]:
    loss, _, found = model()
    return (OPTIMIZERS["Adagrad"]().minimize(loss + tf.reduce_sum(tf.sin(found[0]))),)


@pytest.mark.parametrize("why", STAYS)
def test_what_stays(graph: Any, why: str) -> None:
    made = ops(placed(*STAYS[why]()))
    assert made["_GatherDistinct"] == made["_DistinctIds"] == 0
    assert made["GatherV2"] + made["_FusedGather"] + made["_FusedGatherConcat"]


@pytest.mark.parametrize("carried", ["float32", "bfloat16"])
@pytest.mark.parametrize("workers", [1, 2])
def test_what_travels_in_half_is_treated_alike(carried: str, workers: int) -> None:
    made = []
    for scope in (contextlib.nullcontext, partial(tf.experimental.carried_as, carried)):
        with tf.Graph().as_default(), scope():
            opt = distribute.DistributedOptimizer(tf.train.AdagradOptimizer(0.1), workers)
            made.append(ops(placed(opt.minimize(model()[0]))))
    assert made[0] == made[1] and made[0]["_SpreadMatMulGrad"] == 1


def test_what_a_ring_exchanges(graph: Any) -> None:
    opt = distribute.DistributedOptimizer(tf.train.AdagradOptimizer(0.1), 2)
    made = ops(placed(opt.minimize(model()[0])))
    assert [made[op] for op in ("_HeadOfRows", "_SpreadMatMulGrad", "_GatheredRows", "_ApplyDistinct")] == [1] * 4
    assert (made["CollectiveGather"], made["CollectiveReduce"], made["_RowsToGather"]) == (2, 1, 0)


@pytest.mark.parametrize("of", [[0, 1, 2], [2, 0, 1, 0]])
def test_the_head_is_that_of_the_rows(of: list[int]) -> None:
    def bind(op: str, **attrs: Any) -> Any:
        return find(op, "CPU").factory(Node("n", op, attrs, "CPU", np, ResourceManager()))

    ids = [np.array([5, 1, 5, 1, 1]), np.array([], np.int64), np.array([7, 7])]
    distinct, counts = bind("_DistinctIds", N=3)(*ids)[:2]
    given = [ids[k] for k in of]
    rows = [np.zeros((len(i), 1), "f4") for i in given]
    head, _ = bind("_RowsToGather", N=len(of), distinct=True, row_shapes=[Shape((1,))] * len(of))(*given, *rows)
    found = bind("_HeadOfRows", of=of)(distinct, counts)
    assert (found.dtype, found.tolist()) == (np.int64, head.tolist())
