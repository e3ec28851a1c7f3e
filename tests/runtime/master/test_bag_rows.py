"""Sums of bags that a layer takes: the same training with and without them, and what becomes of the nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.kernels.segments import gradients_of_picked, sums_of_picked
from sparkflow_runtime.master.passes import Optimizer
from sparkflow_runtime.master.passes.bag_rows import bag_rows
from sparkflow_runtime.master.passes.distinct_rows import distinct_rows
from sparkflow_runtime.master.passes.fuse_embeddings import fuse_embeddings
from sparkflow_runtime.master.passes.spread_products import spread_products
from sparkflow_runtime.master.place import place
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.wire.edges import verify
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import RewriterConfig

ROWS, COLUMNS = 30, 4
DEVICES = [f"/job:{job}/replica:0/task:{task}/device:CPU:0" for job, task in (("worker", 0), ("ps", 0), ("ps", 1))]


class Model:
    """Feature columns of numbers, a layer above them, and a linear model of the same."""

    def __init__(
        self, ps: int = 1, width: int = 8, units: int = 32, dense: bool = True, linear: bool = True,
        combiner: str = "mean", shared: bool = False, shards: int = 0, besides: str = "",
    ):  # fmt: skip
        """shared: one table for all columns. besides: "sum": something else takes a column's sums too, "stop": no
        gradient comes to the layer's input."""
        fc, parted = tf.feature_column, tf.fixed_size_partitioner(shards) if shards else None
        setter = tf.train.replica_device_setter(ps_tasks=ps, worker_device="/job:worker/task:0")
        with tf.device(setter), tf.variable_scope("model", partitioner=parted):
            self.step = tf.train.get_or_create_global_step()
            self.ids = [tf.placeholder(tf.int64, [None, None], f"ids{k}") for k in range(COLUMNS)]
            self.dense = tf.placeholder(tf.float32, [None, 3], "dense")
            features = {f"c{k}": x for k, x in enumerate(self.ids)} | {"dense": self.dense}
            kinds = [fc.categorical_column_with_identity(f"c{k}", ROWS) for k in range(COLUMNS)]
            start = tf.random_uniform_initializer(-1, 1, seed=3)
            if shared:
                columns = fc.shared_embedding_columns(kinds, width, combiner, start)
            else:
                columns = [fc.embedding_column(c, width, combiner, start) for c in kinds]
            x = fc.input_layer(features, [*columns, *([fc.numeric_column("dense", [3])] if dense else [])])
            self.x = tf.stop_gradient(x) if besides == "stop" else x
            start = tf.random_normal_initializer(0, 0.1, seed=1)
            with tf.variable_scope("layer", partitioner=None):
                tf.get_variable_scope().set_partitioner(None)
                w = tf.get_variable("w", [self.x.shape[1], units], initializer=start)
            self.layer = tf.nn.relu(tf.matmul(self.x, w))
            self.loss = tf.reduce_mean(tf.square(tf.reduce_sum(self.layer, 1) - 1.0))
            if linear:
                self.loss += tf.reduce_mean(tf.square(fc.linear_model(features, kinds, sparse_combiner=combiner)))
            if besides == "sum":
                self.loss += tf.reduce_mean(tf.square(x))
        self.feeds = [*(i.name for i in self.ids), self.dense.name]

    def fed(self, ids: list[np.ndarray], rng: Any) -> dict[Any, Any]:
        return {**dict(zip(self.ids, ids)), self.dense: rng.standard_normal((len(ids[0]), 3))}


def batches(rng: Any) -> list[list[np.ndarray]]:
    """One value each; some missing; several in one of the columns; one example, none; a column without any."""
    one = [rng.integers(0, ROWS, (300, 1)) for _ in range(COLUMNS)]
    some = [np.where(rng.random((200, 1)) < 0.2, -1, rng.integers(0, ROWS, (200, 1))) for _ in range(COLUMNS)]
    several = [*some[:3], np.where(rng.random((200, 3)) < 0.5, -1, rng.integers(0, ROWS, (200, 3)))]
    without = [np.full((200, 1), -1), *some[1:]]
    return [one, some, several, [c[:1] for c in some], [c[:0] for c in one], without]


KINDS: dict[str, dict[str, Any]] = {
    "beside dense columns": {},
    "alone, summed": {"dense": False, "linear": False, "combiner": "sum"},
    "on two servers": {"ps": 2, "combiner": "sqrtn"},
    "of one table": {"shared": True},
    "in shards": {"ps": 2, "shards": 3, "linear": False},
    "whose sums are wanted": {"besides": "sum"},
    "without gradient": {"besides": "stop"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sync", [False, True])
def test_training_is_the_same(cluster: Any, kind: str, sync: bool) -> None:
    found: dict[bool, list[np.ndarray]] = {}
    for on in (True, False):
        about, rng, config = KINDS[kind], np.random.default_rng(8), tf.ConfigProto()
        config.graph_options.rewrite_options.remapping = RewriterConfig.ON if on else RewriterConfig.OFF
        servers = cluster(ps=about.get("ps", 1), worker=1)
        with tf.Graph().as_default():
            model, hooks, optimizer = Model(**about), [], tf.train.AdagradOptimizer(0.1)
            if sync:
                optimizer = tf.train.SyncReplicasOptimizer(optimizer, 1, 1)
            train = optimizer.minimize(model.loss, global_step=model.step)
            if sync:
                hooks.append(optimizer.make_session_run_hook(True, num_tokens=0))
            variables, target = [v.value() for v in tf.global_variables()], servers["worker0"].target
            with tf.train.MonitoredTrainingSession(target, True, hooks=hooks, config=config) as session:
                for ids in batches(rng):
                    session.run(train, model.fed(ids, rng))
                found[on] = [np.asarray(v) for v in session.run(variables)]
                found[on] += [session.run(model.layer, model.fed(ids, rng)) for ids in batches(rng)]
    for one, other in zip(found[True], found[False], strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def rewritten(model: Model, fetches: list[str], targets: list[str] = []) -> Counter[str]:  # noqa: B006
    """How many nodes of each op the worker has."""
    nodes = {n.name: n for n in tf.get_default_graph().as_graph_def(add_shapes=True).node}
    feeds, kept = model.feeds, {*targets, *(f.partition(":")[0] for f in fetches)}
    pruned = Optimizer().optimize(prune(nodes, feeds, fetches, targets), feeds, fetches, targets, False, nodes)
    given = distinct_rows(place(pruned, DEVICES, DEVICES[0]), feeds, kept)
    before = [n.SerializeToString(deterministic=True) for n in given.node]
    made = verify(bag_rows(given, feeds, kept), [f.partition(":")[0] for f in feeds])
    assert [n.SerializeToString(deterministic=True) for n in given.node] == before, "a pass leaves its input alone"
    assert list(made.node) == list(bag_rows(given, feeds, kept).node)
    out = spread_products(fuse_embeddings(made, feeds, kept), feeds, kept)
    return Counter(n.op for n in out.node if n.device == DEVICES[0])


def trained(model: Model) -> list[str]:
    return [tf.train.AdagradOptimizer(0.1).minimize(model.loss, global_step=model.step).name]


@pytest.mark.parametrize(
    ("kind", "servers"), [("beside dense columns", 1), ("alone, summed", 1), ("on two servers", 2), ("in shards", 1)]
)
def test_their_rows_are_multiplied_once(kind: str, servers: int) -> None:
    with tf.Graph().as_default():
        model = Model(**KINDS[kind])
        found = rewritten(model, [], trained(model))
        assert (found["_BagRows"], found["_BagsBack"]) == (servers, servers)
        assert (found["_SpreadMatMul"], found["_SpreadMatMulGrad"]) == (1, 1)
        assert not found["_SpreadConcat"] + found["Slice"]
        left = COLUMNS if KINDS[kind].get("linear", True) else 0
        assert found["_BagSums"] == found["_BagGradients"] == left, "those of the linear model"


def test_tables_of_the_same_ids_are_updated_as_their_rows_came() -> None:
    """An embedding and a line of each column: they assert the same, so they are looked up by one array of ids."""
    with tf.Graph().as_default():
        model = Model()
        (train,) = trained(model)
        nodes = {n.name: n for n in tf.get_default_graph().as_graph_def(add_shapes=True).node}
        pruned = Optimizer().optimize(prune(nodes, model.feeds, [], [train]), model.feeds, [], [train], False, nodes)
        assert sum(n.op == "_BagIds" for n in pruned.node) == COLUMNS
        moved = distinct_rows(place(pruned, DEVICES, DEVICES[0]), model.feeds, {train})
        found = Counter(n.op for n in fuse_embeddings(moved, model.feeds, {train}).node if n.device == DEVICES[1])
        assert found["_ApplyDistinct"] == 1 and not found["_FusedSparseApply"] + found["_SplitIds"]


def test_prediction_alone() -> None:
    with tf.Graph().as_default():
        model = Model(linear=False)
        found = rewritten(model, [model.layer.name])
        assert (found["_BagRows"], found["_SpreadMatMul"], found["_BagSums"], found["_BagsBack"]) == (1, 1, 0, 0)


@pytest.mark.parametrize("about", [{"units": 16}, {"width": 4}], ids=str)
def test_where_little_is_gained_they_stay(about: dict[str, Any]) -> None:
    with tf.Graph().as_default():
        model = Model(**about)
        found = rewritten(model, [], trained(model))
        assert not found["_SpreadMatMul"] and not found["_BagRows"]


def test_a_layer_beside_something_else() -> None:
    """The sums are made, and multiplied row by row all the same."""
    with tf.Graph().as_default():
        model = Model(besides="sum")
        found = rewritten(model, [], trained(model))
        assert (found["_BagRows"], found["_SpreadMatMul"]) == (1, 1)


def test_sums_that_are_fetched_stay() -> None:
    with tf.Graph().as_default() as graph:
        model = Model(linear=False)
        (sums, *_) = [op for op in graph.get_operations() if op.type == "Select"]
        found = rewritten(model, [model.layer.name, sums.outputs[0].name])
        assert found["_BagSums"] + found["Select"] == 1


# ---------------------------------------------------------------------- kernels


def kernel(op: str, **attrs: Any) -> Callable[..., Any]:
    return find(op, "CPU").factory(Node(op, op, attrs, "", np, None))  # type: ignore[arg-type]


def column(places: list[int], of: list[int], empty: list[int], rows: int, width: int) -> tuple[np.ndarray, ...]:
    held = np.random.default_rng(width).standard_normal((rows, width)).astype(np.float32)
    return held, np.array(places, np.int32), np.array(of, np.int32), np.array(empty, bool)


HOLED = column([0, 1, 2, 0, 3], [0, 1, 2, 3, 4], [0, 1, 0, 1, 0], 4, 3)  # row 0 stands for what is not there, too
PLAIN = column([0, 1, 0, 2, 1], [0, 1, 2, 3, 4], [0] * 5, 3, 2)
MANY = column([0, 1, 1, 2, 0, 3, 3], [0, 0, 1, 2, 2, 3, 4], [0, 1, 0, 0, 1], 4, 2)


@pytest.mark.parametrize("given", [[PLAIN], [HOLED], [PLAIN, HOLED], [MANY, PLAIN], [HOLED, PLAIN, MANY]])
@pytest.mark.parametrize("kind", ["Sum", "Mean", "SqrtN"])
def test_rows_and_the_way_back(given: list[tuple[np.ndarray, ...]], kind: str) -> None:
    n, inputs = len(given), [x for same in zip(*given) for x in same]
    flat, counts, at, sizes, *own, forms, which = kernel("_BagRows", N=n, kind=kind)(*inputs)
    assert (at.dtype, counts.dtype, sizes.tolist(), len(own)) == (np.int64, np.int64, [5] * n, n)
    widths = [held.shape[1] for held, *_ in given]
    ends = np.cumsum([0, *(counts * widths)])
    assert flat.shape == (ends[-1],) and [o.tolist() for o in own] == at.reshape(n, 5).tolist()
    rng, parts, wanted = np.random.default_rng(0), list[np.ndarray](), list[np.ndarray]()
    for k, (held, places, of, empty) in enumerate(given):
        rows = flat[ends[k] : ends[k + 1]].reshape(-1, widths[k])
        sums = sums_of_picked(np, kind, held, places, of, hidden=empty)
        np.testing.assert_array_equal(rows[own[k]], sums)
        assert list(dict.fromkeys(own[k].tolist())) == [*range(len(rows))], "in the order in which they are named"
        grad = rng.standard_normal(sums.shape).astype(np.float32)
        total = np.zeros_like(rows)
        np.add.at(total, own[k], grad)
        parts.append(total.reshape(-1))
        wanted.append(gradients_of_picked(np, kind, grad, places, of, len(held), empty).reshape(-1))
    back = kernel("_BagsBack", N=n, kind=kind, widths=widths)(np.concatenate(parts), counts, forms, which, *inputs)
    np.testing.assert_array_equal(back, np.concatenate(wanted))


def test_rows_that_lie_side_by_side_are_not_copied() -> None:
    whole = np.arange(20, dtype=np.float32)
    rows = [whole[2:8].reshape(2, 3), whole[8:12].reshape(2, 2)]
    places, of, empty = np.array([1, 0]), np.array([0, 1]), np.zeros(2, bool)
    run = kernel("_BagRows", N=2, kind="Sum")
    flat = run(*rows, places, places, of, of, empty, empty)[0]
    assert flat.base is whole and flat.tolist() == whole[2:12].tolist()
    apart = run(rows[1], rows[0], places, places, of, of, empty, empty)[0]
    assert apart.tolist() == [*range(8, 12), *range(2, 8)]


def test_bags_that_are_not_all_there() -> None:
    held, places, of, empty = MANY
    with pytest.raises(InvalidArgumentError, match="6 rows that may be empty do not fit 5 segments"):
        kernel("_BagRows", N=1, kind="Sum")(held, places, of, np.append(empty, True))
