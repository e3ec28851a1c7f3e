"""Rows that travel once: the same bits as without, what takes whose place, and what stays as it is."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.master.passes import Optimizer
from sparkflow_runtime.master.passes.distinct_rows import distinct_rows
from sparkflow_runtime.master.passes.fuse_embeddings import fuse_embeddings
from sparkflow_runtime.master.passes.joint_takes import joint_takes
from sparkflow_runtime.master.passes.settings import Settings
from sparkflow_runtime.master.place import place
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.wire.edges import verify
from sparkflow_runtime.wire.protos import GraphDef, RewriterConfig

SIZES = [(7, 4), (50, 4), (3, 2)]
PS, WORKER = (f"/job:{job}/replica:0/task:0/device:CPU:0" for job in ("ps", "worker"))
SETTER: dict[str, Any] = {"worker_device": "/job:worker/task:0"}


def model(optimizer: Any, ps: int = 1, sizes: Any = SIZES, ids: Any = None, loop: bool = False) -> tuple[Any, Any, Any]:
    """(ids placeholder [None, slots], train op, hooks' optimizer): tables on servers, a line on a worker. loop: which
    is given the rows by a loop."""
    with tf.device(tf.train.replica_device_setter(ps_tasks=ps, **SETTER)):
        step = tf.train.get_or_create_global_step()
        ids = tf.placeholder(tf.int64, [None, len(sizes)], "ids") if ids is None else ids
        rows = []
        for i, (column, (count, width)) in enumerate(zip(tf.unstack(ids, axis=1), sizes)):
            start = np.random.default_rng(i).standard_normal((count, width)).astype(np.float32)
            rows.append(tf.nn.embedding_lookup(tf.get_variable(f"t{i}", initializer=start), column))
        joined = tf.concat(rows, 1)
        if loop:
            shapes = [tf.TensorShape([]), joined.shape]
            body = lambda k, x: (k + 1, tf.tanh(x) + 0.5 * joined)  # noqa: E731
            joined = tf.while_loop(lambda k, _: k < 3, body, (0, joined), shape_invariants=shapes)[1]
        w = tf.get_variable("w", initializer=np.linspace(-1, 1, joined.shape[1].value, dtype=np.float32)[:, None])
        loss = tf.reduce_mean(tf.square(tf.matmul(joined, w) - 1.0))
        return ids, optimizer.minimize(loss, global_step=step), optimizer


def config(on: bool) -> Any:
    made = tf.ConfigProto()
    made.graph_options.rewrite_options.remapping = RewriterConfig.ON if on else RewriterConfig.OFF
    return made


OPTIMIZERS = {
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "sync": lambda: tf.train.SyncReplicasOptimizer(tf.train.AdagradOptimizer(0.1), 1, 1),
    "sync adam": lambda: tf.train.SyncReplicasOptimizer(tf.train.AdamOptimizer(0.1), 1, 1),
}


@pytest.mark.parametrize(
    ("kind", "ps", "loop"),
    [*((kind, ps, False) for kind in OPTIMIZERS for ps in (1, 2)), ("adagrad", 2, True), ("sync", 1, True)],
)
def test_training_gives_the_same_bits(cluster: Any, kind: str, ps: int, loop: bool) -> None:
    """A batch of none, one in which every id repeats, and others."""
    results: dict[bool, list[np.ndarray]] = {}
    for on in (True, False):
        servers, rng = cluster(ps=ps, worker=1), np.random.default_rng(8)
        batches = [np.stack([rng.integers(0, rows, n) for rows, _ in SIZES], 1) for n in (40, 1, 0, 60)]
        with tf.Graph().as_default():
            ids, train, optimizer = model(OPTIMIZERS[kind](), ps, loop=loop)
            hooks = [optimizer.make_session_run_hook(True, num_tokens=0)] if "sync" in kind else []
            # Without passes the slots' decay does not wait for an update's gradients, nor in TensorFlow.
            held = tf.trainable_variables() if kind == "sync adam" else tf.global_variables()
            variables = [v.value() for v in held]
            target = servers["worker0"].target
            with tf.train.MonitoredTrainingSession(target, True, hooks=hooks, config=config(on)) as session:
                for batch in batches:
                    session.run(train, {ids: batch})
                results[on] = session.run(variables)
    for one, other in zip(results[True], results[False], strict=True):
        if kind == "sgd":  # rows of one id are subtracted at once, not one by one
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        else:
            assert one.tobytes() == other.tobytes()


def placed(fetches: list[str], targets: list[str]) -> GraphDef:
    graph = tf.get_default_graph().as_graph_def(add_shapes=True)
    nodes = {n.name: n for n in graph.node}
    return place(prune(nodes, ["ids:0"] if "ids" in nodes else [], fetches, targets), [PS, WORKER], WORKER)


def moved(fetches: list[str], targets: list[str]) -> GraphDef:
    given = placed(fetches, targets)
    before = given.SerializeToString(deterministic=True)
    kept = {*targets, *(f.partition(":")[0] for f in fetches)}
    out = verify(distinct_rows(given, ["ids:0"], kept), ["ids"])
    assert given.SerializeToString(deterministic=True) == before, "a pass leaves its input alone"
    return out


def ops(graph: GraphDef, device: str) -> Counter[str]:
    return Counter(n.op for n in graph.node if n.device == device)


@pytest.mark.parametrize("loop", [False, True])
def test_what_moves_and_what_travels(graph: Any, loop: bool) -> None:
    """Behind a loop too, as the gradients of a recurrent net are."""
    _, train, _ = model(tf.train.AdagradOptimizer(0.1), loop=loop)
    found = moved([], [train.name])
    on_ps, on_worker = ops(found, PS), ops(found, WORKER)
    assert (on_ps["_GatherDistinct"], on_ps["_SplitIds"], on_ps["_SplitRows"]) == (1, 1, 1)
    assert (on_worker["_DistinctIds"], on_worker["_SumToDistinct"], on_worker["GatherV2"]) == (1, 1, 3)
    assert not {"Unique", "UnsortedSegmentSum", "GatherV2"} & on_ps.keys()
    assert list(found.node) == list(moved([], [train.name]).node)


@pytest.mark.parametrize("on_server", [False, True])
def test_what_a_loop_leads_to_stays_behind_it(cluster: Any, graph: Any, on_server: bool) -> None:
    """Rows that each iteration takes, and others that are looked up by what the loop ends with: by no edge but the one
    that leads back."""
    servers = cluster(ps=1, worker=1)
    with tf.device("/job:ps/task:0" if on_server else "/job:worker/task:0"):
        tables = [tf.get_variable(f"t{k}", initializer=np.arange(40, dtype=np.float32).reshape(10, 4)) for k in (0, 1)]
    with tf.device("/job:worker/task:0"):
        ids = tf.placeholder(tf.int64, [None])
        rows = tf.nn.embedding_lookup(tables[0], ids)
        shapes = [tf.TensorShape([]), tf.TensorShape([None])]
        body = lambda k, _: (k + 1, tf.reduce_sum(rows, 1) + tf.cast(k, tf.float32))  # noqa: E731
        start = (0, tf.zeros(tf.shape(ids)))
        found = tf.while_loop(lambda k, _: k < 3, body, start, shape_invariants=shapes)[1]
        behind = tf.nn.embedding_lookup(tables[1], tf.cast(found, tf.int64) % 10)
        train = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(behind) + tf.reduce_sum(rows))
    with tf.Session(servers["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        patient = tf.RunOptions(timeout_in_ms=30_000)
        got, _ = session.run([behind, train], {ids: [1, 2, 1]}, options=patient)
    wanted = np.arange(40).reshape(10, 4)[[4, 0, 4]]  # 4 + 5 + 6 + 7 + 2 is 24, 8 + ... + 11 + 2 is 40
    np.testing.assert_array_equal(got, wanted)


def test_an_update_takes_the_sums_as_they_came(graph: Any) -> None:
    """Without a view for each table; but not where an id is asked for besides."""
    _, train, _ = model(tf.train.AdagradOptimizer(0.1))
    found = ops(verify(fuse_embeddings(moved([], [train.name]), ["ids:0"], [train.name]), ["ids"]), PS)
    assert found["_ApplyDistinct"] == 1, found
    assert not {"_SplitIds", "_SplitRows", "_FusedSparseApply", "SparseApplyAdagrad"} & found.keys()
    asked = ["Adagrad/update_t1/Unique:0"]
    found = ops(fuse_embeddings(moved(asked, [train.name]), ["ids:0"], [train.name, *asked]), PS)
    assert found["_ApplyDistinct"] + found["_FusedSparseApply"] and found["Unique"] == 1


def test_adam_takes_the_sums_as_they_came(graph: Any) -> None:
    """One node for the tables' decay and rows, for whose products with keep1 and keep2 there is none left."""
    tf.Session().run(tf.constant(0))  # kernels, by which passes know what an op may do
    _, train, _ = model(tf.train.AdamOptimizer(0.1))
    nodes = {n.name: n for n in tf.get_default_graph().as_graph_def(add_shapes=True).node}
    optimizer = Optimizer(Settings())
    given = optimizer.optimize(prune(nodes, ["ids:0"], [], [train.name]), ["ids:0"], [], [train.name], False, nodes)
    spread = place(given, [PS, WORKER], WORKER)
    found = ops(verify(optimizer.optimize_placed(spread, ["ids:0"], [], [train.name]), ["ids"]), PS)
    assert found["_ApplyDistinct"] == 1
    assert not {"_FusedSparseApply", "_SplitRows", "_Fused", "UnsortedSegmentSum"} & found.keys()
    assert not [op for op in found if "DecayedAdam" in op]


def test_tables_with_the_same_ids_send_them_once(graph: Any) -> None:
    with tf.device(WORKER):
        column = tf.placeholder(tf.int64, [None], "ids")
    _, train, _ = model(tf.train.AdagradOptimizer(0.1), ids=tf.stack([column] * 3, 1))
    assert ops(moved([], [train.name]), WORKER)["_DistinctIds"] == 1


def test_ids_that_are_all_different_need_no_look_up(cluster: Any, graph: Any) -> None:
    """Their rows come in their order: a model's own Unique, or that of embedding_lookup_sparse."""
    server = cluster(ps=1, worker=1)["worker0"]
    with tf.device(WORKER):
        ids = tf.placeholder(tf.int64, [None], "ids")
        own, back = tf.unique(ids)
    with tf.device(PS):
        table = tf.Variable(np.arange(20.0, dtype=np.float32).reshape(10, 2))
        rows = tf.gather(table, own)
    with tf.device(WORKER):
        out = tf.identity(tf.gather(rows, back))
    found = ops(moved([out.name], []), WORKER)
    assert (found["_DistinctIds"], found["_SplitRows"], found["GatherV2"]) == (1, 1, 1)
    with tf.Session(server.target) as session:
        session.run(tf.global_variables_initializer())
        for batch in ([7, 2, 7, 9, 2, 0], [3], []):
            wanted = [[2.0 * n, 2.0 * n + 1] for n in batch]
            assert session.run(out, {ids: batch}).tolist() == wanted


def test_what_is_asked_for_by_name_stays(graph: Any) -> None:
    _, train, _ = model(tf.train.AdagradOptimizer(0.1))
    found = moved(["embedding_lookup:0", "Adagrad/update_t1/UnsortedSegmentSum:0"], [train.name])
    on_ps = ops(found, PS)
    assert (on_ps["GatherV2"], on_ps["UnsortedSegmentSum"], on_ps["Unique"]) == (1, 1, 1)


def test_rows_for_their_own_task_stay(graph: Any) -> None:
    with tf.device(PS):
        table, ids = tf.Variable(np.ones((4, 2), np.float32)), tf.placeholder(tf.int64, [None], "ids")
        out = tf.identity(tf.gather(table, ids) * 2.0)
    assert ops(moved([out.name], []), PS)["GatherV2"] == 1


def test_one_accumulator_is_given_its_rows_as_many_are(graph: Any) -> None:
    """They have been added up by id, and nothing looks for ids that repeat again."""
    _, train, _ = model(OPTIMIZERS["sync"](), sizes=[(50, 4)])
    found = ops(moved([], [train.name]), PS)
    assert found["_AccumulateDistinct"] == 1 and not found["SparseAccumulatorApplyGradient"]


def test_accumulators_are_given_and_taken_together(graph: Any) -> None:
    _, train, optimizer = model(OPTIMIZERS["sync"]())
    found = moved([], [train.name])
    assert ops(found, PS)["_AccumulateDistinct"] == 1
    assert not ops(found, PS)["SparseAccumulatorApplyGradient"]
    (update,) = optimizer.get_chief_queue_runner().enqueue_ops
    given = placed([], [update.name])
    assert ops(given, PS)["SparseAccumulatorTakeGradient"] == 3
    joined = ops(verify(joint_takes(fuse_embeddings(given, [], [update.name]), [], [update.name])), PS)
    assert joined["_JointTake"] == 1 and not {o for o in joined if o.endswith("TakeGradient")}
    assert joined["_ApplyDistinct"] == 1 and not joined["_FusedSparseApply"], "rows of two widths, in one array"


def test_accumulators_of_any_shape_get_their_rows_one_by_one(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=1, worker=1)
    with tf.device(PS):
        held = [tf.SparseConditionalAccumulator(tf.float32, shape=(), shared_name=f"a{i}") for i in range(2)]
        taken = [a.take_indexed_slices_grad(1) for a in held]
    with tf.device(WORKER):
        ids = tf.placeholder(tf.int64, [None], "ids")
        rows = tf.ones_like(ids, tf.float32)
    with tf.device(PS):
        given = tf.group(*(a.apply_grad(ids, rows, local_step=0) for a in held))
    assert ops(moved([], [given.name]), PS)["SparseAccumulatorApplyGradient"] == 2
    with tf.Session(servers["worker0"].target, config=tf.ConfigProto(operation_timeout_in_ms=20_000)) as session:
        session.run(given, {ids: [7, 3, 7]})
        for one in session.run(taken):
            assert dict(zip(one.indices.tolist(), one.values.tolist())) == {3: 1, 7: 2}


def test_averages_that_others_take_too_are_arrays_of_their_own(graph: Any) -> None:
    _, _, optimizer = model(OPTIMIZERS["sync"]())
    (update,) = optimizer.get_chief_queue_runner().enqueue_ops
    besides = "sync_replicas/SparseAccumulatorTakeGradient_1"
    given = fuse_embeddings(placed([f"{besides}:1"], [update.name]), [], [update.name, besides])
    joined = ops(verify(joint_takes(given, [], [update.name, besides])), PS)
    assert joined["_JointTake"] == 1 and not joined["_ApplyDistinct"]
    assert joined["SparseAccumulatorTakeGradient"] == 1


def test_takes_that_are_used_one_by_one_stay(graph: Any) -> None:
    with tf.device(PS):
        takes = [tf.ConditionalAccumulator(tf.float32, shape=[2], shared_name=f"a{i}").take_grad(1) for i in range(2)]
        out = [tf.identity(t) for t in takes]
    given = placed([o.name for o in out], [])
    assert joint_takes(given, [], [o.op.name for o in out]) is given


def test_an_index_out_of_range_names_its_look_up(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=1, worker=1)
    ids, train, _ = model(tf.train.AdagradOptimizer(0.1))
    with tf.Session(servers["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        variables = [v.value() for v in tf.global_variables()]
        before = session.run(variables)
        for wrong in (3, -1):
            expected = rf"GatherV2 'embedding_lookup_2': index {wrong} is not in \[0, 3\)"
            with pytest.raises(tf.errors.InvalidArgumentError, match=expected):
                session.run(train, {ids: [[0, 0, 0], [6, 49, wrong]]})
        for old, new in zip(before, session.run(variables)):
            np.testing.assert_array_equal(old, new)


def test_steps_that_fetch_other_things_update_the_same_tables(cluster: Any) -> None:
    """The loss takes one more table than the update changes, and the ids of all travel together."""
    results: dict[bool, list[bytes]] = {}
    for on in (True, False):
        target, batch = cluster(ps=1, worker=1)["worker0"].target, [[3, 1, 5], [1, 0, 2]]
        with tf.Graph().as_default(), tf.Session(target, config=config(on)) as session:
            with tf.device(PS):
                tables = [tf.Variable(tf.ones([60, 8]) * (i + 1.0), trainable=i != 1) for i in range(3)]
            with tf.device(WORKER):
                ids = tf.placeholder(tf.int64, [None, 3], "ids")
                rows = [tf.nn.embedding_lookup(table, ids[:, i]) for i, table in enumerate(tables)]
                loss = tf.add_n([tf.reduce_sum(tf.square(r)) for r in rows])
                train = tf.train.AdagradOptimizer(0.1).minimize(loss)
            session.run(tf.global_variables_initializer())
            for fetches in (train, [train, loss], train):
                session.run(fetches, {ids: batch})
            results[on] = [v.tobytes() for v in session.run(tables)]
    assert results[True] == results[False]


@pytest.mark.parametrize("widths", [(0, 0), (0, 2)])
def test_tables_without_columns(cluster: Any, graph: Any, widths: tuple[int, int]) -> None:
    target = cluster(ps=1, worker=1)["worker0"].target
    with tf.device(PS):
        tables = [tf.Variable(tf.ones([60, width]), trainable=False) for width in widths]
    with tf.device(WORKER):
        ids = tf.placeholder(tf.int64, [None, 2], "ids")
        thin = [tf.nn.embedding_lookup(t, ids[:, k : k + 1]) for k, t in enumerate(tables)]
        flat = [tf.nn.embedding_lookup(t, ids[:, k]) for k, t in enumerate(tables)]
        out = [tf.concat(flat, 1), tf.concat(thin, 2)] + ([] if any(widths) else [tf.concat(thin, 1)])
    wanted = [(3, sum(widths)), (3, 1, sum(widths)), (3, 2, 0)]
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())
        for one, shape in zip(out, wanted):
            assert session.run(one, {ids: [[1, 2], [3, 4], [1, 0]]}).shape == shape
