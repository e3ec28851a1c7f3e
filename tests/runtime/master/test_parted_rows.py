"""Tables in shards that travel as whole ones: the same bits as by TensorFlow's nodes, and what stays with these."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels.parted_rows import cut, scatter_rows
from sparkflow_runtime.master.passes import Optimizer
from sparkflow_runtime.master.passes.distinct_rows import distinct_rows
from sparkflow_runtime.master.place import place
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.wire.edges import data_inputs, node_name, verify
from sparkflow_runtime.wire.protos import GraphDef, RewriterConfig

SIZES = [(7, 4), (50, 4), (8, 2)]
SERVERS = [f"/job:ps/replica:0/task:{i}/device:CPU:0" for i in range(2)]
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
PARTED = {"_PartIds", "_JoinRows", "_PartRows"}


def on_worker(ps: int = 2) -> Any:
    return tf.device(tf.train.replica_device_setter(ps_tasks=ps, worker_device="/job:worker/task:0"))


def table(name: str, rows: int, width: int, shards: int, dtype: Any = np.float32) -> Any:
    start = np.random.default_rng(rows).standard_normal((rows, width)).astype(dtype)
    return tf.get_variable(name, initializer=start, partitioner=tf.fixed_size_partitioner(shards))


def model(optimizer: Any, strategy: str = "mod", shards: int = 2, ps: int = 2, dtype: Any = np.float32) -> Any:
    """(ids placeholder [None, slots], train op): a wide product, so that rows are multiplied once where that is asked
    for, of tables in shards and one that is whole."""
    with on_worker(ps):
        ids, rows = tf.placeholder(tf.int64, [None, len(SIZES) + 1], "ids"), []
        columns = tf.unstack(ids, axis=1)
        for i, (count, width) in enumerate(SIZES):
            shard_list = table(f"t{i}", count, width, shards, dtype)
            rows.append(tf.nn.embedding_lookup(shard_list, columns[i], partition_strategy=strategy))
        whole = tf.get_variable("whole", initializer=np.linspace(-1, 1, 24).reshape(6, 4).astype(dtype))
        rows.append(tf.nn.embedding_lookup(whole, columns[-1]))
        joined = tf.cast(tf.concat(rows, 1), tf.float32)
        w = tf.get_variable("w", initializer=np.linspace(-1, 1, joined.shape[1].value, dtype=np.float32)[:, None])
        loss = tf.reduce_mean(tf.square(tf.matmul(joined, w) - 1.0))
        return ids, optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step()), optimizer


def config(on: bool) -> Any:
    made = tf.ConfigProto()
    made.graph_options.rewrite_options.remapping = RewriterConfig.ON if on else RewriterConfig.OFF
    return made


def trained(cluster: Any, on: bool, make: Any, ps: int, **about: Any) -> list[np.ndarray]:
    """All variables after a batch of none, one in which every id repeats, and others."""
    servers, rng = cluster(ps=ps, worker=1), np.random.default_rng(8)
    counts = [*(rows for rows, _ in SIZES), 6]
    batches = [np.stack([rng.integers(0, rows, n) for rows in counts], 1) for n in (40, 1, 0, 60)]
    with tf.Graph().as_default():
        ids, train, optimizer = model(make(), ps=ps, **about)
        is_sync = isinstance(optimizer, tf.train.SyncReplicasOptimizer)
        hooks = [optimizer.make_session_run_hook(True, num_tokens=0)] if is_sync else []
        variables = [v.value() for v in tf.global_variables()]
        target = servers["worker0"].target
        with tf.train.MonitoredTrainingSession(target, True, hooks=hooks, config=config(on)) as session:
            for batch in batches:
                session.run(train, {ids: batch})
            found: list[np.ndarray] = session.run(variables)
            return found


def same_bits(made: list[list[np.ndarray]]) -> bool:
    return [v.tobytes() for v in made[0]] == [v.tobytes() for v in made[1]]


def near(made: list[list[np.ndarray]], rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """As where rows of one id are subtracted at once, not one by one."""
    for one, other in zip(*made, strict=True):
        np.testing.assert_allclose(one, other, rtol, atol)


OPTIMIZERS = {
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "sync": lambda: tf.train.SyncReplicasOptimizer(tf.train.AdagradOptimizer(0.1), 1, 1),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_training_gives_the_same_bits(cluster: Any, kind: str, strategy: str) -> None:
    made = [trained(cluster, on, OPTIMIZERS[kind], 2, strategy=strategy) for on in (True, False)]
    near(made)
    assert kind == "sgd" or same_bits(made)


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize(("shards", "ps"), [(3, 2), (5, 1), (3, 3)])
def test_a_task_may_have_several_shards(cluster: Any, strategy: str, shards: int, ps: int) -> None:
    """7 rows in 3 or 5 shards: they are not equal."""
    about = {"strategy": strategy, "shards": shards}
    made = [trained(cluster, on, OPTIMIZERS["adagrad"], ps, **about) for on in (True, False)]
    assert same_bits(made)


@pytest.mark.parametrize(("dtype", "rtol", "atol"), [(np.float64, 1e-5, 1e-6), (np.float16, 5e-3, 2e-3)])
def test_rows_of_any_width_of_number(cluster: Any, dtype: Any, rtol: float, atol: float) -> None:
    """Of float16 sums are rounded once; ScatterSub rounds with each row."""
    near([trained(cluster, on, OPTIMIZERS["sgd"], 2, dtype=dtype) for on in (True, False)], rtol, atol)


def placed(fetches: list[str], targets: list[str], feeds: tuple[str, ...] = ("ids:0",)) -> GraphDef:
    """As the pass gets it: after the passes before it, which fuse some of the arithmetic of ids."""
    graph = tf.get_default_graph().as_graph_def(add_shapes=True)
    pruned = prune({n.name: n for n in graph.node}, feeds, fetches, targets)
    pruned = Optimizer().optimize(pruned, feeds, fetches, targets, one_device=False)
    return place(pruned, [*SERVERS, WORKER], WORKER)


def moved(fetches: list[str], targets: list[str], feeds: tuple[str, ...] = ("ids:0",)) -> GraphDef:
    kept = {*targets, *(f.partition(":")[0] for f in fetches)}
    return verify(distinct_rows(placed(fetches, targets, feeds), feeds, kept), [f.partition(":")[0] for f in feeds])


def ops(graph: GraphDef) -> Counter[str]:
    return Counter(n.op for n in graph.node)


@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_what_becomes_of_a_model(graph: Any, strategy: str) -> None:
    _, train, _ = model(tf.train.AdagradOptimizer(0.1), strategy, shards=3)
    found = ops(moved([], [train.name]))
    assert all(found[op] == 1 for op in PARTED), found
    assert not {"DynamicPartition", "DynamicStitch", "FloorMod", "FloorDiv"} & found.keys()
    assert found["_GatherDistinct"] == 3, "one for each server, and the whole table's"
    assert found["_SumToDistinct"] == 2
    assert list(moved([], [train.name]).node) == list(moved([], [train.name]).node)


def test_tables_of_the_same_ids_may_be_cut_differently(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=2, worker=1)
    with on_worker():
        ids = tf.placeholder(tf.int64, [None], "ids")
        held = [table(f"t{k}", rows, 4, shards) for k, (rows, shards) in enumerate([(9, 2), (9, 3), (11, 2)])]
        rows = [tf.nn.embedding_lookup(t, ids, "div") for t in held] + [tf.nn.embedding_lookup(held[0], ids)]
        out = tf.concat(rows, 1)
    found = ops(moved([out.name], []))
    assert found["_DistinctIds"] == found["_PartIds"] == 1, "two shards and three"
    assert len({n.name for n in moved([out.name], []).node}) == sum(found.values())
    batch = np.array([8, 0, 3, 8, 5, 5, 1])
    with tf.Session(servers["worker0"].target, config=config(True)) as session:
        session.run(tf.global_variables_initializer())
        starts = [np.random.default_rng(n).standard_normal((n, 4)).astype(np.float32) for n in (9, 9, 11)]
        by_mod = starts[0][[4 * 0 + k // 2 if k % 2 == 0 else 5 + k // 2 for k in range(9)]]
        expected = np.concatenate([*(s[batch] for s in starts), by_mod[batch]], 1)
        np.testing.assert_array_equal(session.run(out, {ids: batch}), expected)


def test_tables_of_the_same_ids_are_both_learned(cluster: Any) -> None:
    """As a factorization machine's two: their gradients travel by the same ids."""
    results = []
    for on in (True, False):
        servers = cluster(ps=2, worker=1)
        with tf.Graph().as_default():
            with on_worker():
                ids = tf.placeholder(tf.int64, [None], "ids")
                rows = [tf.nn.embedding_lookup(table(f"t{k}", 9, w, 2), ids) for k, w in enumerate((4, 1, 4))]
                loss = tf.add_n([tf.reduce_sum(r * r * r) for r in rows])
                train = tf.train.AdagradOptimizer(0.1).minimize(loss)
            if on:
                found = ops(moved([], [train.name]))
                assert found["_PartRows"] == found["_PartIds"] == 1 and not found["DynamicPartition"]
            with tf.Session(servers["worker0"].target, config=config(on)) as session:
                session.run(tf.global_variables_initializer())
                for batch in ([0, 8, 3, 3, 0], [7]):
                    session.run(train, {ids: batch})
                results.append([v.tobytes() for v in session.run([v.value() for v in tf.global_variables()])])
    assert results[0] == results[1]


@pytest.mark.parametrize("kind", ["products", "sums", "biases"])
def test_tables_of_the_same_ids_may_lie_the_other_way_round(cluster: Any, kind: str) -> None:
    """A variable between two tables puts the first shard of the second one beside the other shard of the first: sums go
    straight to the task of their own table, also where both have one gradient, and numbers in shards, which have no
    width, go by themselves."""
    results, batches = [], [np.random.default_rng(2).integers(0, 60, n) for n in (50, 500)]
    start = np.linspace(-1.0, 1.0, 60, dtype=np.float32)
    for on in (True, False):
        servers = cluster(ps=2, worker=1)
        with tf.Graph().as_default():
            with on_worker():
                ids = tf.placeholder(tf.int64, [None], "ids")
                first, between = table("a", 60, 4, 2), tf.get_variable("between", initializer=0.5)
                second, third = table("b", 60, 4, 2), start if kind == "biases" else start[:, None]
                third = tf.get_variable("c", initializer=third, partitioner=tf.fixed_size_partitioner(2))
                a, b, c = (tf.nn.embedding_lookup(t, ids) for t in (first, second, third))
                out = a + b if kind == "sums" else tf.concat([a * a, b * between], 1)
                loss = tf.reduce_sum(tf.square(out)) + tf.reduce_sum(tf.square(c))
                train = tf.train.AdagradOptimizer(0.1).minimize(loss)
            if on:
                graph = moved([], [train.name])
                at = {n.name: n.device for n in graph.node}
                edges = [{at.get(node_name(e)), n.device} for n in graph.node for e in data_inputs(n)]
                assert ops(graph)["_PartRows"] and {*SERVERS} not in edges
            with tf.Session(servers["worker0"].target, config=config(on)) as session:
                session.run(tf.global_variables_initializer())
                for batch in batches:
                    session.run(train, {ids: batch})
                results.append([v.tobytes() for v in session.run([v.value() for v in tf.global_variables()])])
    assert results[0] == results[1]


def test_ids_may_be_worked_out(cluster: Any, graph: Any) -> None:
    """What comes before the ids is no part of how they are cut, even if it is a FloorMod as well: two that become one
    id are one row to the optimizer."""
    servers = cluster(ps=2, worker=1)
    with on_worker():
        given = tf.placeholder(tf.int64, [None], "ids")
        tables = (table("a", 6, 2, 2), tf.floormod(given, 6)), (table("b", 12, 2, 2), given - 1)
        out = tf.concat([tf.nn.embedding_lookup(t, ids) for t, ids in tables], 1)
        train = tf.train.AdagradOptimizer(0.5).minimize(tf.reduce_sum(out * out))
    found = ops(moved([], [train.name]))
    assert found["_PartIds"] == 1 and found["FloorMod"] == 1 and not found["DynamicPartition"]
    with tf.Session(servers["worker0"].target, config=config(True)) as session:
        session.run(tf.global_variables_initializer())
        before = session.run(out, {given: [1, 7]})
        session.run(train, {given: [1, 7, 7]})
        grad = 2 * before[0, :2] * 3  # of the one row
        np.testing.assert_allclose(
            session.run(out, {given: [7]})[0, :2], before[0, :2] - 0.5 * grad / np.sqrt(0.1 + grad**2), rtol=1e-6
        )


def _stays(graph: GraphDef) -> bool:
    found = ops(graph)
    return not PARTED & found.keys() and found["DynamicPartition"] > 0


def test_what_others_take_too_stays(graph: Any) -> None:
    with on_worker():
        ids, t = tf.placeholder(tf.int64, [None], "ids"), table("t", 8, 2, 2)
        out = tf.nn.embedding_lookup(t, ids)
        clipped = tf.nn.embedding_lookup(t, ids, max_norm=1.0)
    assert _stays(moved([out.name, "embedding_lookup/GatherV2:0"], []))
    assert _stays(moved([clipped.name], [])), "each shard's rows are clipped beside it"
    assert not _stays(moved([out.name], []))
    stitched = next(n.name for n in graph.as_graph_def().node if n.op == "DynamicStitch")
    assert not _stays(moved([f"{stitched}:0"], [])), "it keeps its name"


def _by_hand(local: Any, shard: Any, places: Any, after: Any = ()) -> Any:
    """A look-up in two shards, put together after these operations."""
    shards, shard = list(table("t", 8, 2, 2)), tf.cast(shard, tf.int32)
    parts, where = (tf.dynamic_partition(x, shard, 2) for x in (local, places))
    found = []
    for one, part in zip(shards, parts):
        with tf.device(one.device):
            found.append(tf.gather(one, part))
    with tf.control_dependencies(after):
        stitched = tf.dynamic_stitch(where, found)
    return tf.identity(stitched)


@pytest.mark.parametrize(
    ("cut_by", "stays"),
    [
        (lambda ids: (ids // 2, ids % 2), False),
        (lambda ids: (ids // 2, tf.minimum(ids % 3, 1)), True),
        (lambda ids: (ids // 4, ids % 2), True),
        (lambda ids: (ids % 2, ids // 2), True),
        (lambda ids: ((ids + 1) // 2, ids % 2), True),
    ],
)
def test_other_arithmetic_stays(graph: Any, cut_by: Any, stays: bool) -> None:
    """Shards by anything that may send two ids to one row."""
    with on_worker():
        ids = tf.placeholder(tf.int64, [None], "ids")
        out = _by_hand(*cut_by(ids), tf.range(0, tf.size(ids), 1))
    assert _stays(moved([out.name], [])) is stays


@pytest.mark.parametrize("size", [4, None])
def test_places_may_be_known(graph: Any, size: int | None) -> None:
    """Of a batch of a known size, and of that alone: of others they may be too few."""
    with on_worker():
        ids = tf.placeholder(tf.int64, [size], "ids")
        out = _by_hand(ids // 2, ids % 2, tf.constant([0, 1, 2, 3]))
    assert _stays(moved([out.name], [])) is (size is None)


def test_what_a_stitch_waits_for_it_still_waits_for(graph: Any) -> None:
    with on_worker():
        ids, seen = tf.placeholder(tf.int64, [None], "ids"), tf.Variable(0, name="seen")
        after = tf.assign_add(seen, 1, name="after").op
        out = _by_hand(ids // 2, ids % 2, tf.range(0, tf.size(ids), 1), [after])
    made = next(n for n in moved([out.name], []).node if n.name == "DynamicStitch")
    assert made.op == "GatherV2" and "^after" in made.input


def test_rows_may_be_put_back_in_another_order(graph: Any) -> None:
    """Then the stitch is not the look-up of the ids."""
    with on_worker():
        ids = tf.placeholder(tf.int64, [4], "ids")
        out = _by_hand(ids // 2, ids % 2, tf.constant([3, 2, 1, 0]))
    assert _stays(moved([out.name], []))


def test_shards_of_the_reader_stay(graph: Any) -> None:
    with tf.device(WORKER):
        ids, t = tf.placeholder(tf.int64, [None], "ids"), table("t", 8, 2, 2)
        out = tf.nn.embedding_lookup(t, ids)
    assert not PARTED & ops(moved([out.name], [])).keys()


def test_an_id_that_no_shard_has_is_named(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=2, worker=1)
    with on_worker():
        ids, t = tf.placeholder(tf.int64, [None], "ids"), table("t", 7, 2, 2)
        by_div, by_mod = (tf.nn.embedding_lookup(t, ids, strategy) for strategy in ("div", "mod"))
    with tf.Session(servers["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        for wrong in (9, -2):
            expected = rf"DynamicPartition 'embedding_lookup/DynamicPartition': id {wrong} is a row of none of the 2"
            with pytest.raises(tf.errors.InvalidArgumentError, match=expected):
                session.run(by_div, {ids: [0, wrong, 1]})
        for wrong, row, rows in ((8, 4, 4), (-2, -1, 4), (7, 3, 3)):
            expected = rf"GatherV2 'embedding_lookup_1/GatherV2(_1)?': index {row} is not in \[0, {rows}\)"
            with pytest.raises(tf.errors.InvalidArgumentError, match=expected):
                session.run(by_mod, {ids: [0, wrong, 1]})
        assert session.run(by_mod, {ids: [0]}).shape == (1, 2)


def test_gradients_of_two_uses_of_a_table(cluster: Any) -> None:
    """Looked up twice, each with ids of its own, and once more for a whole that only predicts."""
    results = []
    for on in (True, False):
        servers = cluster(ps=2, worker=1)
        with tf.Graph().as_default():
            with on_worker():
                ids, t = tf.placeholder(tf.int64, [None, 2], "ids"), table("t", 9, 4, 2)
                a, b = (tf.nn.embedding_lookup(t, column) for column in tf.unstack(ids, axis=1))
                loss = tf.reduce_sum(a * b) + tf.reduce_sum(tf.nn.embedding_lookup(t, ids))
                train = tf.train.AdagradOptimizer(0.1).minimize(loss)
            with tf.Session(servers["worker0"].target, config=config(on)) as session:
                session.run(tf.global_variables_initializer())
                for batch in ([[0, 8], [3, 3], [8, 0]], [[1, 1]]):
                    session.run(train, {ids: batch})
                results.append([v.tobytes() for v in session.run([v.value() for v in tf.global_variables()])])
    assert results[0] == results[1]


@pytest.mark.parametrize(("each", "extra"), [(0, 0), (3, 0), (3, 2)])
def test_the_loops_and_their_numpy_versions_agree(each: int, extra: int) -> None:
    rng = np.random.default_rng(3)
    ids, ends = rng.integers(-2, 14, 50), np.array([20, 20, 50])
    cuts = np.array([each, each, 1]), np.array([extra, extra, 0]), np.array([4, 4, 2]), np.array([0, 4, 2])
    to = np.arange(8, dtype=np.int32)
    found = [(np.empty(50, np.int64), np.empty(50, np.int32)) for _ in range(2)]
    cut(ids, ends, *cuts, to, *found[0])
    cut.numpy(ids, ends, *cuts, to, *found[1])
    for one, other in zip(*found):
        np.testing.assert_array_equal(one, other)
    total = 4 * each + extra
    own, shard = (column[:20][(ids[:20] >= 0) & (ids[:20] < total)] for column in found[0])
    if each:  # consecutive rows, the first shards' one more
        begins = [k * each + min(k, extra) for k in range(4)]
        valid = ids[:20][(ids[:20] >= 0) & (ids[:20] < total)]
        np.testing.assert_array_equal(np.array(begins)[shard] + own, valid)
    memory = [np.arange(40, dtype=np.int32) for _ in range(2)]
    columns = [np.array(c, np.uint64) for c in ([20, 30], [2, 3], [1, 0, 2, 1, 0], [0, 3], [3, 5], [0, 6], [2, 3])]
    scatter_rows(memory[0], *columns)
    scatter_rows.numpy(memory[1], *columns)
    np.testing.assert_array_equal(*memory)
    np.testing.assert_array_equal(memory[0][20:26], [2, 3, 0, 1, 4, 5])
