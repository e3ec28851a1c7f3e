"""Synchronous replicas: as one big batch, the same bits whatever the timing, and nobody waits for ever."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.session.server import Server
from sparkflow.train import sync_agreement
from sparkflow.train.sync_replicas import SyncReplicasOptimizer
from sparkflow_runtime.resources.row_means import merged

ROWS, WIDTH = 12, 3


@pytest.fixture
def servers() -> Iterator[Callable[..., dict[str, Server]]]:
    made: list[Server] = []

    def make(**counts: int) -> dict[str, Server]:
        tasks = [(job, i) for job, n in counts.items() for i in range(n)]
        servers = {f"{job}{i}": Server.bound(job, i, "127.0.0.1", b"secret") for job, i in tasks}
        for server in servers.values():
            server.join_cluster({job: [servers[f"{job}{i}"].address for i in range(n)] for job, n in counts.items()})
        made.extend(servers.values())
        return servers

    yield make
    for server in made:
        server.stop()


class Late(tf.train.SessionRunHook):
    """Begins each step a little later, at random."""

    def __init__(self, longest_s: float):
        self._longest_s = longest_s

    def before_run(self, run_context: Any) -> None:
        time.sleep(random.uniform(0, self._longest_s))


def batch(rank: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([rank, step])
    return rng.integers(0, ROWS, size=8), (rng.normal(size=(8, WIDTH)) * 10.0**rank).astype(np.float32)


def build(
    rank: int, workers: int, make_optimizer: Callable[[], Any], ps: int = 2, job: str = "worker", **options: Any
) -> dict[str, Any]:
    """A table, read sparsely, and two dense layers, over so many parameter servers."""
    with tf.Graph().as_default() as graph:
        worker = f"/job:{job}/task:{rank}"
        with tf.device(tf.train.replica_device_setter(ps, worker_device=worker)):
            step = tf.train.get_or_create_global_step()
            rng = np.random.default_rng(1)
            table = tf.Variable(rng.normal(size=(ROWS, WIDTH)).astype(np.float32), name="table")
            w1 = tf.Variable(rng.normal(size=(WIDTH, 4)).astype(np.float32), name="w1")
            w2 = tf.Variable(rng.normal(size=(4, 1)).astype(np.float32), name="w2")
            ids, x = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None, WIDTH])
            hidden = tf.tanh(tf.matmul(tf.nn.embedding_lookup(table, ids) + x, w1))
            loss = tf.reduce_mean(tf.square(tf.matmul(hidden, w2) - 1.0))
            optimizer = SyncReplicasOptimizer(make_optimizer(), workers, **options)
            train_op = optimizer.minimize(loss, global_step=step)
    names = {"graph": graph, "ids": ids, "x": x, "train": train_op, "loss": loss, "optimizer": optimizer}
    return {**names, "step": step, "variables": [table, w1, w2]}


def train(
    servers: dict[str, Server], workers: int, steps: int, longest_s: float, make_optimizer: Callable[[], Any]
) -> Any:
    """Variables after `steps` synchronous steps, and how many steps each worker took."""
    counts, results, errors = [0] * workers, [], []

    def work(rank: int) -> None:
        try:
            parts = build(rank, workers, make_optimizer, sum(name.startswith("ps") for name in servers))
            with parts["graph"].as_default():
                hooks = [
                    parts["optimizer"].make_session_run_hook(rank == 0, num_tokens=0),
                    tf.train.StopAtStepHook(last_step=steps),
                    Late(longest_s),
                ]
                values = tf.train.FinalOpsHook(parts["variables"])
                with tf.train.MonitoredTrainingSession(
                    servers[f"worker{rank}"].target, rank == 0, hooks=[*hooks, values], max_wait_secs=30
                ) as session:
                    while not session.should_stop():
                        ids, x = batch(rank, counts[rank])
                        session.run(parts["train"], {parts["ids"]: ids, parts["x"]: x})
                        counts[rank] += 1
                results.append(values.final_ops_values)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors
    assert not any(t.is_alive() for t in threads)
    return results, counts


def sgd() -> Any:
    return tf.train.GradientDescentOptimizer(0.1)


class Composite:
    """Two optimizers as one: what SyncReplicasOptimizer may be given is anything with these methods."""

    def __init__(self) -> None:
        self._deep, self._wide = tf.train.AdagradOptimizer(0.1), tf.train.FtrlOptimizer(0.1)

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        return self._deep.compute_gradients(*args, **kwargs)

    def apply_gradients(self, pairs: Any, global_step: Any = None, name: str | None = None) -> Any:
        pairs = list(pairs)
        first = self._wide.apply_gradients(pairs[:1])
        with tf.control_dependencies([first]):
            return self._deep.apply_gradients(pairs[1:], global_step=global_step)

    def get_slot(self, var: Any, name: str) -> Any:
        return self._deep.get_slot(var, name) or self._wide.get_slot(var, name)

    def variables(self) -> list[Any]:
        return self._deep.variables() + self._wide.variables()


@pytest.mark.parametrize("make_optimizer", [sgd, Composite])
def test_the_bits_do_not_depend_on_timing(servers: Any, make_optimizer: Callable[[], Any]) -> None:
    bits = set()
    for ps, longest_s in ((2, 0.0), (2, 0.004), (4, 0.004)):
        results, counts = train(servers(ps=ps, worker=3), 3, 12, longest_s, make_optimizer)
        assert counts == [12, 12, 12]
        for values in results:
            bits.add(b"".join(v.tobytes() for v in values))
    assert len(bits) == 1


def test_three_replicas_step_as_their_gradients_average(servers: Any) -> None:
    """Against the same model by numpy: dense means over replicas, a row's over those of them that it meets."""
    results, _ = train(servers(ps=2, worker=3), 3, 5, 0.0, sgd)
    rng = np.random.default_rng(1)
    shapes = ((ROWS, WIDTH), (WIDTH, 4), (4, 1))
    table, w1, w2 = (rng.normal(size=s).astype(np.float32).astype(np.float64) for s in shapes)
    for step in range(5):
        rows, d1, d2 = np.zeros_like(table), np.zeros_like(w1), np.zeros_like(w2)
        firsts = [list(dict.fromkeys(batch(rank, step)[0].tolist())) for rank in range(3)]
        over = [dict(zip(first, by)) for first, by in zip(firsts, merged(firsts))]
        for rank in range(3):
            ids, x = batch(rank, step)
            inputs = table[ids] + x
            hidden = np.tanh(inputs @ w1)
            dy = 2 * (hidden @ w2 - 1) / len(ids)
            dh = dy @ w2.T * (1 - hidden**2)
            d2 += hidden.T @ dy / 3
            d1 += inputs.T @ dh / 3
            np.add.at(rows, ids, dh @ w1.T / np.array([over[rank][i] for i in ids.tolist()])[:, None])
        table -= 0.1 * rows
        w1, w2 = w1 - 0.1 * d1, w2 - 0.1 * d2
    for found, want in zip(results[0], (table, w1, w2), strict=True):
        np.testing.assert_allclose(found, want, rtol=2e-3, atol=2e-3)


def test_in_one_process_no_read_meets_an_update(graph: Any) -> None:
    """The last layer's gradient is there first; its update must wait until the one below has read the layer."""
    layers, x = [], tf.placeholder(tf.float32, [4, 8])
    y = x
    for k in range(6):
        layers.append(tf.Variable(np.random.default_rng(k).normal(size=(8, 8)).astype(np.float32) / 3))
        y = tf.tanh(tf.matmul(y, layers[-1]))
    loss, step = tf.reduce_sum(y), tf.train.get_or_create_global_step()
    sync = SyncReplicasOptimizer(sgd(), 1)
    sync_op = sync.minimize(loss, step)
    hook = sync.make_session_run_hook(True, num_tokens=0)
    feed = {x: np.random.default_rng(9).normal(size=(4, 8)).astype(np.float32)}
    with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
        for _ in range(30):
            session.run(sync_op, feed)
        found = session.run(layers)
    with tf.Graph().as_default():
        layers, x2 = [], tf.placeholder(tf.float32, [4, 8])
        y = x2
        for k in range(6):
            layers.append(tf.Variable(np.random.default_rng(k).normal(size=(8, 8)).astype(np.float32) / 3))
            y = tf.tanh(tf.matmul(y, layers[-1]))
        grads = tf.gradients(tf.reduce_sum(y), layers)
        with tf.Session() as plain:
            plain.run(tf.global_variables_initializer())
            for _ in range(30):
                values, slopes = plain.run([layers, grads], {x2: feed[x]})
                for layer, value, slope in zip(layers, values, slopes, strict=True):
                    layer.load(value - np.float32(0.1) * slope, plain)
            want = plain.run(layers)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("semi", [False, True])
def test_what_a_step_runs_first_the_update_does_not(graph: Any, semi: bool) -> None:
    """As batch normalization has it: under control_dependencies(UPDATE_OPS), which need a batch. The chief's update
    would take one, and the last steps wait for it."""
    x = tf.placeholder(tf.float32, [])
    seen, table, w = tf.Variable(0.0, trainable=False), tf.Variable(tf.ones([3, 1])), tf.Variable(1.0)
    sync = SyncReplicasOptimizer(sgd(), 1, sparse_opt=sgd() if semi else None)
    loss = tf.reduce_sum(tf.gather(table, [1])) * x + w * x
    with tf.control_dependencies([tf.assign_add(seen, x)]):
        train = sync.minimize(loss, tf.train.get_or_create_global_step())
    with tf.train.MonitoredTrainingSession(hooks=[sync.make_session_run_hook(True, num_tokens=0)]) as session:
        for k in range(1, 6):
            session.run(train, {x: 1.0})
            assert session.run(seen) == k
        assert session.run(w) == pytest.approx(0.5)


def test_a_quick_replica_takes_no_token_of_another(graph: Any) -> None:
    """Each replica has its own queue where all are waited for; one for all where that could miss one."""

    def queues(device: str, *counts: int) -> list[str]:
        with tf.Graph().as_default() as g:
            v, step = tf.Variable(1.0), tf.train.get_or_create_global_step()
            with tf.device(device or None):
                SyncReplicasOptimizer(sgd(), *counts).apply_gradients([(tf.constant(1.0), v)], step)
            names = [op.attrs["shared_name"] for op in g.get_operations() if op.type == "FIFOQueueV2"]
            return [n.removeprefix("sync_replicas/") for n in names if "token" in n]

    together = ["sync_token_q_shared", "sync_token_mark"]
    assert queues("/job:worker/task:1", 2) == ["sync_token_q_0", "sync_token_q_1", *together]
    assert queues("/job:chief/task:0", 2) == ["sync_token_q_-1", "sync_token_q_0", *together]
    assert queues("/job:worker/task:0", 1) == ["sync_token_q_0"]
    assert queues("/job:worker/task:1", 2, 3) == queues("", 2) == ["sync_token_q"]


def test_a_backup_worker_lets_the_others_go_on(servers: Any) -> None:
    """Two of three gradients make an update: a replica that never comes does not stop the other two."""
    cluster, done = servers(ps=2, worker=3), []

    def work(rank: int) -> None:
        parts = build(rank, 2, sgd, total_num_replicas=3)
        with parts["graph"].as_default():
            hook = parts["optimizer"].make_session_run_hook(rank == 0)
            stop = tf.train.StopAtStepHook(last_step=6)
            with tf.train.MonitoredTrainingSession(
                cluster[f"worker{rank}"].target, rank == 0, hooks=[hook, stop], max_wait_secs=30
            ) as session:
                while not session.should_stop():
                    ids, x = batch(rank, 0)
                    session.run(parts["train"], {parts["ids"]: ids, parts["x"]: x})
            done.append(rank)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(done) == [0, 1]


def test_others_make_up_for_a_replica_that_does_not_come(servers: Any) -> None:
    """With tokens at the start, as by default, one replica takes those of both and gives both gradients."""
    cluster = servers(ps=1, worker=2)
    parts, seen = build(0, 2, sgd, ps=1), []
    with parts["graph"].as_default():
        hooks = [parts["optimizer"].make_session_run_hook(True), tf.train.StopAtStepHook(last_step=4)]
        options = tf.RunOptions(timeout_in_ms=20_000)
        with tf.train.MonitoredTrainingSession(cluster["worker0"].target, hooks=hooks) as session:
            while not session.should_stop():
                ids, x = batch(0, 0)
                fetched = session.run([parts["step"], parts["train"]], {parts["ids"]: ids, parts["x"]: x}, options)
                seen.append(int(fetched[0]))
    assert seen[-1] >= 3 and len(seen) >= 8  # two gradients an update


def test_no_first_tokens_take_the_mark_away(graph: Any) -> None:
    """A chief that begins without tokens where servers kept the mark of one that gave some: each has its own again."""
    v, step = tf.Variable(1.0), tf.train.get_or_create_global_step()
    with tf.device("/job:localhost/task:0"):
        optimizer = SyncReplicasOptimizer(sgd(), 2)
        optimizer.apply_gradients([(tf.constant(1.0), v)], step)
    some, none = optimizer.get_init_tokens_op(), optimizer.get_init_tokens_op(0)
    mark = next(
        op for op in graph.get_operations() if op.attrs.get("shared_name", "") == "sync_replicas/sync_token_mark"
    )
    size = tf.raw_ops.QueueSizeV2(handle=mark.outputs[0])
    with tf.Session(graph=graph) as session:
        session.run(step.initializer)
        sizes = []
        for op in (some, some, none, none):
            session.run(op)
            sizes.append(session.run(size))
    assert sizes == [1, 2, 0, 0]


def test_a_resumed_training_ends_with_the_same_bits(tmp_path: Any) -> None:
    def run(directory: Any, *stops: int) -> list[np.ndarray]:
        for stop in stops:
            with tf.Graph().as_default():
                step, w = tf.train.get_or_create_global_step(), tf.Variable(np.ones((3, 2), np.float32), name="w")
                x = tf.placeholder(tf.float32, [5, 3])
                sync = SyncReplicasOptimizer(tf.train.AdamOptimizer(0.1), 1)
                train_op = sync.minimize(tf.reduce_sum(tf.square(tf.matmul(x, w) - 1.0)), step)
                final = tf.train.FinalOpsHook([w, step])
                hooks = [sync.make_session_run_hook(True, 0), tf.train.StopAtStepHook(last_step=stop), final]
                with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=str(directory), hooks=hooks, save_checkpoint_steps=3
                ) as session:
                    k = int(session.run(step))
                    while not session.should_stop():
                        data = np.random.default_rng(k).normal(size=(5, 3)).astype(np.float32)
                        session.run(train_op, {x: data})
                        k += 1
        return final.final_ops_values

    (once, n), (twice, m) = run(tmp_path / "a", 9), run(tmp_path / "b", 4, 9)
    assert n == m == 9 and once.tobytes() == twice.tobytes()


@pytest.mark.parametrize(
    "chiefs, others, gets_none",
    [((2, 2), (3, 3), True), ((2, 2), (1, 2), True), ((1, 2), (3, 3), True), ((3, 3), (4, 4), False)],
)
def test_a_replica_of_other_numbers_than_the_chiefs(
    servers: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any, chiefs: Any, others: Any, gets_none: bool
) -> None:
    """It is told, and does not wait for a token that nobody puts where it takes one."""
    monkeypatch.setattr(sync_agreement, "_STALE_S", 0.3)
    at, rank = servers(ps=2, worker=3), 2
    made = {r: build(r, n, sgd, total_num_replicas=total) for r, (n, total) in ((0, chiefs), (rank, others))}

    def session(rank: int) -> Any:
        hooks = [made[rank]["optimizer"].make_session_run_hook(rank == 0, num_tokens=1)]
        return tf.train.MonitoredTrainingSession(at[f"worker{rank}"].target, rank == 0, hooks=hooks, max_wait_secs=30)

    with made[0]["graph"].as_default():
        chief = session(0)
    told = (f"replicas_to_aggregate={n} and total_num_replicas={total}" for n, total in (chiefs, others))
    told = f"the chief has {next(told)}, this replica (task {rank}) {next(told)}"
    with made[rank]["graph"].as_default():
        if gets_none:
            with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(told) + ".*wait for a token for ever"):
                session(rank)
        else:
            session(rank).close()
            assert any(told in text for text in caplog.messages)
    chief.close()


# ---------------------------------------------------------------------- the graph, and refusals


def test_the_graph_places_and_ranks_its_ops() -> None:
    parts = build(2, 3, sgd)
    ops = parts["graph"].get_operations()
    sent = [op for op in ops if op.type.endswith("AccumulatorApplyGradient")]
    assert len(sent) == 3 and all(op.attrs["_replica"] == 2 for op in sent)
    for op in ops:
        if op.type in ("ConditionalAccumulator", "SparseConditionalAccumulator"):
            variable = op.attrs["shared_name"].partition(":")[0]
            assert op.device == parts["graph"].get_operation_by_name(variable).device
        if op.type == "FIFOQueueV2":
            assert op.device == parts["step"].device
    local = [v for v in parts["graph"].get_collection(tf.GraphKeys.LOCAL_VARIABLES) if "local_step" in v.name]
    assert [v.device for v in local] == ["/job:worker/task:2"]


@pytest.mark.parametrize("scope", [None, "outer"])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda adam: SyncReplicasOptimizer(adam, 2),
        lambda adam: SyncReplicasOptimizer(sgd(), 2, sparse_opt=adam),
        lambda adam: tf.train.BoundedStalenessOptimizer(adam, 1, 2, 0),
    ],
)
def test_variables_are_called_as_without_it(wrap: Callable[[Any], Any], scope: str | None) -> None:
    def names(wrap: Callable[[Any], Any]) -> set[str]:
        with tf.Graph().as_default(), tf.name_scope(scope):
            step = tf.train.get_or_create_global_step()
            table = tf.get_variable("table", [4, 2])
            loss = tf.reduce_sum(tf.nn.embedding_lookup(table, [1]) * tf.get_variable("w", [2]))
            wrap(tf.train.AdamOptimizer()).minimize(loss, step)
            return {v.op.name for v in tf.global_variables()}

    assert {n for n in names(lambda adam: adam) if "w/" not in n} == {n for n in names(wrap) if "w/" not in n}


@pytest.mark.parametrize(
    "device, rank", [("", 0), ("/job:worker/task:4", 4), ("/job:chief/task:0", -1), ("/job:master/task:0", -1)]
)
def test_ranks(device: str, rank: int, graph: Any) -> None:
    with tf.device("/job:ps/task:0"):
        v, step = tf.Variable(1.0), tf.train.get_or_create_global_step()
    with tf.device(device or None):
        loss = tf.square(v.value())
        SyncReplicasOptimizer(sgd(), 5).minimize(loss, step)
    found = [op.attrs["_replica"] for op in graph.get_operations() if op.type == "AccumulatorApplyGradient"]
    assert found == [rank]


def test_refusals(graph: Any) -> None:
    v, step = tf.Variable(1.0), tf.train.get_or_create_global_step()
    sync = SyncReplicasOptimizer(sgd(), 3, 2)
    with pytest.raises(ValueError, match="at least one variable"):
        sync.apply_gradients([], step)
    with pytest.raises(ValueError, match="Global step is required"):
        sync.apply_gradients([(tf.constant(1.0), v)])
    with pytest.raises(ValueError, match=r"after apply_gradients\(\)"):
        sync.get_init_tokens_op()
    with pytest.raises(ValueError, match=r"after apply_gradients\(\)"):
        sync.get_chief_queue_runner()
    with pytest.raises(ValueError, match="before using the hook"):
        sync.make_session_run_hook(True).begin()
    sync.apply_gradients([(tf.constant(1.0), v)], step)
    with pytest.raises(ValueError, match=r"0 \(given\) vs 1 \(needed\)"):
        sync.get_init_tokens_op(0)
    with tf.device("/job:worker/task:2"), pytest.raises(ValueError, match="this replica is /job:worker/task:2, but"):
        SyncReplicasOptimizer(sgd(), 2).apply_gradients([(tf.constant(1.0), v)], step)
    with pytest.raises(ValueError, match="1 or more"):
        SyncReplicasOptimizer(sgd(), 0)


def test_an_accumulator_of_rows_of_any_shape(graph: Any) -> None:
    """() stands for any, as where TensorFlow's own optimizer makes one."""
    found = []
    for values in ([[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0]):
        held = tf.SparseConditionalAccumulator(tf.float32, shape=())
        put = held.apply_grad(np.array([1, 3]), np.array(values, np.float32), local_step=0)
        with tf.Session() as session:
            session.run(put)
            found.append(session.run(held.take_indexed_slices_grad(1)))
    assert [(f.indices.tolist(), f.values.tolist(), f.dense_shape.tolist()) for f in found] == [
        ([1, 3], [[1, 2], [3, 4]], [-1, 2]),
        ([1, 3], [1, 2], [-1]),
    ]
