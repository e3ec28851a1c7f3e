"""A matrix of ids of one table, whose rows lie side by side: the same training, and what becomes of the nodes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.master.passes import Optimizer
from sparkflow_runtime.master.passes.distinct_rows import distinct_rows
from sparkflow_runtime.master.passes.fuse_embeddings import fuse_embeddings
from sparkflow_runtime.master.passes.spread_products import spread_products
from sparkflow_runtime.master.passes.wide_rows import wide_rows
from sparkflow_runtime.master.place import place
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.wire.edges import verify
from sparkflow_runtime.wire.protos import GraphDef, RewriterConfig

ROWS, COLUMNS = 30, 5
DEVICES = [f"/job:{job}/replica:0/task:{task}/device:CPU:0" for job, task in (("worker", 0), ("ps", 0), ("ps", 1))]
FEEDS = ["ids:0", "dense:0"]


class Model:
    """One table on servers, looked up by a matrix of ids; layers on a worker."""

    def __init__(
        self,
        ps: int = 1,
        shards: int = 0,
        width: int = 8,
        units: int = 32,
        dense: bool = True,
        flat: bool = True,
        weights: bool = False,
        dtype: Any = np.float32,
        besides: bool = False,
    ):
        """flat: ids are a vector when they are looked up. weights: a table of one number for each id too, by the same
        ids. besides: the rows go into a product of their own as well."""
        with tf.device(tf.train.replica_device_setter(ps_tasks=ps, worker_device="/job:worker/task:0")):
            self.step = tf.train.get_or_create_global_step()
            self.ids = tf.placeholder(tf.int64, [None, COLUMNS], "ids")
            self.dense = tf.placeholder(tf.float32, [None, 3], "dense")
            ids = tf.reshape(self.ids, [-1]) if flat else self.ids
            rows = self.rows = tf.nn.embedding_lookup(self.table("t", width, shards, dtype), ids)
            wide = tf.cast(tf.reshape(rows, [-1, COLUMNS * width]), tf.float32)
            x = self.x = tf.concat([self.dense, wide], 1) if dense else wide
            start = 0.1 * np.random.default_rng(1).standard_normal((x.shape[1].value, units)).astype(np.float32)
            self.layer = tf.nn.relu(tf.matmul(x, tf.get_variable("w", initializer=start)))
            self.loss = tf.reduce_mean(tf.square(tf.reduce_sum(self.layer, 1) - 1.0))
            if weights:
                line = tf.nn.embedding_lookup(self.table("line", 1, shards, dtype), ids)
                self.loss += tf.reduce_mean(tf.square(tf.reduce_sum(tf.reshape(line, [-1, COLUMNS]), 1)))
            if besides:
                self.loss += tf.reduce_mean(tf.square(rows))

    @staticmethod
    def table(name: str, width: int, shards: int, dtype: Any) -> Any:
        start = np.random.default_rng(len(name)).standard_normal((ROWS, width)).astype(dtype)
        partitioner = tf.fixed_size_partitioner(shards) if shards else None
        return tf.get_variable(name, initializer=start, partitioner=partitioner)

    def train(self, optimizer: Any = None) -> Any:
        made = optimizer or tf.train.AdagradOptimizer(0.1)
        return made.minimize(self.loss, global_step=self.step)


def config(on: bool) -> Any:
    made = tf.ConfigProto()
    made.graph_options.rewrite_options.remapping = RewriterConfig.ON if on else RewriterConfig.OFF
    return made


KINDS: dict[str, dict[str, Any]] = {
    "beside dense columns": {},
    "alone": {"dense": False},
    "a matrix of ids": {"flat": False},
    "with weights by the same ids": {"weights": True},
    "in shards": {"ps": 2, "shards": 3, "weights": True, "flat": False},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sync", [False, True])
def test_training_is_the_same(cluster: Any, kind: str, sync: bool) -> None:
    """Ids that several columns have, batches of one and of none."""
    found: dict[bool, list[np.ndarray]] = {}
    for on in (True, False):
        about, rng = KINDS[kind], np.random.default_rng(8)
        servers = cluster(ps=about.get("ps", 1), worker=1)
        with tf.Graph().as_default():
            model, optimizer = Model(**about), tf.train.AdagradOptimizer(0.1)
            hooks = []
            if sync:
                optimizer = tf.train.SyncReplicasOptimizer(optimizer, 1, 1)
            train = model.train(optimizer)
            if sync:
                hooks.append(optimizer.make_session_run_hook(True, num_tokens=0))
            variables = [v.value() for v in tf.global_variables()]
            target = servers["worker0"].target
            with tf.train.MonitoredTrainingSession(target, True, hooks=hooks, config=config(on)) as session:
                for n in (300, 1, 0, 200):
                    feed = {model.ids: rng.integers(0, ROWS, (n, COLUMNS)), model.dense: rng.standard_normal((n, 3))}
                    session.run(train, feed)
                found[on] = [np.asarray(v) for v in session.run(variables)]
                rows = rng.integers(0, ROWS, (250, COLUMNS)), rng.standard_normal((250, 3))
                found[on].append(session.run(model.layer, dict(zip((model.ids, model.dense), rows))))
    for one, other in zip(found[True], found[False], strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def spread(fetches: list[Any], feeds: Any = FEEDS) -> Counter[str]:
    """How many nodes of each op the worker has."""
    names = [f.name for f in fetches]
    graph = tf.get_default_graph().as_graph_def(add_shapes=True)
    nodes = {n.name: n for n in graph.node}
    kept = {f.partition(":")[0] for f in names}
    tensors, targets = [n for n in names if ":" in n], [n for n in names if ":" not in n]
    pruned = Optimizer().optimize(prune(nodes, feeds, tensors, targets), feeds, tensors, targets, False, nodes)
    given: GraphDef = distinct_rows(place(pruned, DEVICES, DEVICES[0]), feeds, kept)
    before = given.SerializeToString(deterministic=True) if isinstance(given, GraphDef) else list(given.node)
    made = verify(wide_rows(given, feeds, kept), [f.partition(":")[0] for f in feeds])
    after = given.SerializeToString(deterministic=True) if isinstance(given, GraphDef) else list(given.node)
    assert after == before, "a pass leaves its input alone"
    assert list(made.node) == list(wide_rows(given, feeds, kept).node)
    out = spread_products(fuse_embeddings(made, feeds, kept), feeds, kept)
    return Counter(n.op for n in out.node if n.device == DEVICES[0])


@pytest.mark.parametrize("kind", KINDS)
def test_its_rows_are_multiplied_once(graph: Any, kind: str) -> None:
    found = spread([Model(**KINDS[kind]).train()])
    assert (found["_SpreadMatMul"], found["_SpreadMatMulGrad"], found["_FoldRows"]) == (1, 1, 1)
    assert found["_DistinctIds"] == 2 and not found["MatMul"] + found["_SpreadConcat"]
    assert found["_SumToDistinct"] == ("weights" in KINDS[kind])


def test_so_are_those_of_what_only_predicts(graph: Any) -> None:
    found = spread([Model().layer])
    assert found["_SpreadMatMul"] == 1 and not found["_SumToDistinct"] + found["_FoldRows"] + found["MatMul"]


@pytest.mark.parametrize(
    "about",
    [{"width": 4}, {"units": 16}, {"besides": True}, {"dtype": np.float64}],
    ids=lambda about: next(iter(about)),
)
def test_what_stays_as_it_is(graph: Any, about: dict[str, Any]) -> None:
    found = spread([Model(**about).train()])
    assert not found["_FoldRows"] + found["_RowsAt"] + found["_SpreadMatMul"]


def test_what_is_asked_for_stays(graph: Any) -> None:
    model = Model()
    train = model.train()
    assert not spread([train, model.x])["_RowsAt"]
    assert not spread([train], [*FEEDS, model.x.name])["_RowsAt"]
    with tf.device("/job:worker/task:0"):
        total = tf.reduce_sum(model.rows)
    found = spread([train, total])
    assert (found["_FoldRows"], found["_SpreadMatMul"], found["GatherV2"]) == (1, 1, 1), "beside what the layer takes"


def test_sums_of_one_matrix_are_told_apart(cluster: Any) -> None:
    """Two tables of the same ids beside each other, each learned by an optimizer of its own, one after the other."""
    results = []
    for on in (True, False):
        servers, rng = cluster(ps=1, worker=1), np.random.default_rng(3)
        with tf.Graph().as_default():
            with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")):
                ids = tf.placeholder(tf.int64, [None, COLUMNS], "ids")
                rows = [tf.nn.embedding_lookup(Model.table(name, 8, 0, np.float32), ids) for name in ("t", "two")]
                x = tf.concat([tf.reshape(r, [-1, COLUMNS * 8]) for r in rows], 1)
                start = np.random.default_rng(1).standard_normal((COLUMNS * 16, 64)).astype(np.float32)
                out = tf.nn.tanh(tf.matmul(x, tf.get_variable("w", initializer=0.1 * start)))
                first, second = tf.trainable_variables()[:2]
                grads = tf.gradients(tf.reduce_sum(out), [first, second])
                train = tf.train.AdagradOptimizer(0.1).apply_gradients([(grads[0], first)])
                with tf.control_dependencies([train]):
                    train = tf.train.AdagradOptimizer(0.2).apply_gradients([(grads[1], second)])
            with tf.Session(servers["worker0"].target, config=config(on)) as session:
                session.run(tf.global_variables_initializer())
                for _ in range(3):
                    session.run(train, {ids: rng.integers(0, ROWS, (300, COLUMNS))})
                results.append(session.run([first, second]))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def test_rows_and_their_sums() -> None:
    def bind(op: str, **attrs: Any) -> Any:
        return find(op, "CPU").factory(Node("n", op, attrs, "CPU", np, ResourceManager()))

    rows, at = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([2, 0, 2], np.int32)
    np.testing.assert_array_equal(bind("_RowsAt")(rows, at), [6, 7, 8, 0, 1, 2, 6, 7, 8])
    np.testing.assert_array_equal(bind("_RowsAt")(np.asfortranarray(rows), at), [6, 7, 8, 0, 1, 2, 6, 7, 8])
    folded = bind("_FoldRows", of=1, width=2)(np.arange(6, dtype=np.float32), at, np.array([9, 4]))
    np.testing.assert_array_equal(folded, [2, 3, 0, 0, 4, 6, 0, 0])
