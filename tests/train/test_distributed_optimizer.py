"""DistributedOptimizer: workers of this process, each with its own variables, end with the bits of one that saw all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow import distribute
from sparkflow.train import distributed_optimizer
from sparkflow_runtime.master.passes import Optimizer
from sparkflow_runtime.master.prune import prune
from tests.session.test_collectives import workers  # noqa: F401 - a fixture

ROWS, STEPS, BATCH = 50, 5, 8
RNG = np.random.default_rng(0)
IDS = RNG.integers(0, ROWS, (2, STEPS, BATCH))
LABELS = RNG.normal(size=(2, STEPS, BATCH)).astype(np.float32)


def loss_of(ids: Any, labels: Any, seed: int) -> Any:
    tf.set_random_seed(seed)
    start = tf.random_uniform_initializer(-1, 1)
    table = tf.get_variable("table", [ROWS, 4], initializer=start)
    other = tf.get_variable("other", [ROWS, 2], initializer=start)
    x = tf.concat([tf.nn.embedding_lookup(table, ids), tf.nn.embedding_lookup(other, ids)], 1)
    hidden = tf.nn.relu(tf.matmul(x, tf.get_variable("w", [6, 16], initializer=start)))
    out = tf.matmul(hidden, tf.get_variable("v", [16, 1], initializer=start)) + tf.get_variable(
        "b", [1], initializer=start
    )
    return tf.reduce_mean(tf.square(out[:, 0] - labels))


def train(rank: int, optimizer: Any, target: str = "", size: int = 2, **options: Any) -> dict[str, np.ndarray]:
    """STEPS of worker `rank`; of all workers' rows at once where size is 1."""
    graph = tf.Graph()
    with graph.as_default(), tf.device(f"/job:worker/task:{rank}" if target else ""):
        batch = BATCH * (1 if size > 1 else 2)
        ids, labels = tf.placeholder(tf.int64, [batch]), tf.placeholder(tf.float32, [batch])
        opt = distribute.DistributedOptimizer(optimizer, size, **options) if size > 1 else optimizer
        step = tf.train.get_or_create_global_step()
        train_op = opt.minimize(loss_of(ids, labels, seed=1 + rank), global_step=step)
        hooks = [distribute.BroadcastGlobalVariablesHook(rank == 0, size)] if size > 1 else []
        with tf.train.MonitoredSession(tf.train.ChiefSessionCreator(master=target), hooks) as session:
            for i in range(STEPS):
                rows = slice(rank, rank + 1) if size > 1 else slice(None)
                session.run(train_op, {ids: IDS[rows, i].ravel(), labels: LABELS[rows, i].ravel()})
            names = [*tf.trainable_variables(), step]
            return dict(zip([v.op.name for v in names], session.run(names)))


@pytest.mark.parametrize("options", [{}, {"sparse_as_dense": True}])
@pytest.mark.parametrize("make", [lambda: tf.train.GradientDescentOptimizer(0.1), lambda: tf.train.AdamOptimizer(0.01)])
def test_two_workers_are_one_with_their_rows(workers: Any, make: Any, options: Any) -> None:  # noqa: F811
    servers = workers(2)
    with ThreadPoolExecutor(2) as threads:
        both = list(threads.map(lambda r: train(r, make(), servers[r].target, **options), range(2)))
    alone = train(0, make(), size=1)
    assert set(both[0]) == {"table", "other", "w", "v", "b", "global_step"} == set(alone)
    for name, value in both[0].items():
        assert value.tobytes() == both[1][name].tobytes(), name
        np.testing.assert_allclose(value, alone[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("batch", [BATCH, None])
def test_one_message_for_all_small_gradients(batch: int | None) -> None:
    with tf.Graph().as_default() as graph:
        ids, labels = tf.placeholder(tf.int64, [batch], "ids"), tf.placeholder(tf.float32, [batch], "labels")
        opt = distribute.DistributedOptimizer(tf.train.AdagradOptimizer(0.1), 2)
        train_op = opt.minimize(loss_of(ids, labels, 1))
        types = [op.type for op in graph.get_operations()]
        nodes = {n.name: n for n in graph.as_graph_def(add_shapes=True).node}
    assert types.count("CollectiveReduce") == 1
    assert types.count("CollectiveGather") == 2, "indices of both tables, and their rows"
    feeds = ["ids:0", "labels:0"]
    pruned = prune(nodes, feeds, [], [train_op.name])
    made = {n.op for n in Optimizer().optimize_placed(pruned, feeds, [], [train_op.name]).node}
    assert "_ApplyDistinct" in made
    assert not made & {"_SplitRows", "_SplitIds", "Unique", "_FusedSparseApply"}, "the rows go to it as they came"


def test_who_takes_gradients_gets_all_workers_rows(workers: Any) -> None:  # noqa: F811
    """As they are, one worker's after the other's: clipping by their norm is as of all rows in one batch."""

    def run(rank: int, target: str) -> list[Any]:
        table, other = tf.Variable(np.ones((4, 2), "f")), tf.Variable(np.ones((5, 3), "f"))
        opt = distribute.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0), 2, timeout_s=20)
        ids = tf.placeholder(tf.int32, [None])
        losses = [tf.reduce_sum(tf.nn.embedding_lookup(t, i)) for t, i in ((table, ids), (other, [[3, 3], [0, 1]]))]
        grads = [g for g, _ in opt.compute_gradients(tf.add_n(losses))]
        norm = tf.global_norm(grads)
        with tf.Session(target) as session:
            session.run(tf.global_variables_initializer())
            return session.run([grads[0].indices, grads[0].values, grads[1].indices, norm], {ids: [2] * (rank + 1)})

    for first, rows, second, norm in _on_both(workers, run):
        assert (first.tolist(), rows.tolist()) == ([2, 2, 2], [[0.5, 0.5]] * 3)
        assert second.tolist() == [3, 3, 0, 1] * 2
        assert norm == pytest.approx(np.sqrt((3 * 2 + 8 * 3) * 0.25))


def test_buckets() -> None:
    with tf.Graph().as_default():
        sizes = [10, 1 << 20, 100, None, 900_000, 200_000, 30_000]
        tensors = {i: tf.placeholder(tf.float32, [n]) for i, n in enumerate(sizes)}
        tensors[7] = tf.placeholder(tf.float64, [5])
        assert distributed_optimizer._buckets(tensors) == [[1], [3], [4], [0, 2, 5, 6], [7]]


def test_refusals() -> None:
    with pytest.raises(ValueError, match="num_replicas"):
        distribute.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1), 0)


def test_rows_whose_number_differs(workers: Any) -> None:  # noqa: F811
    """Worker r looks up r + 1 rows, and row 0 of both workers' adds up."""
    servers = workers(2)

    def run(rank: int) -> np.ndarray:
        with tf.Graph().as_default(), tf.device(f"/job:worker/task:{rank}"):
            table = tf.Variable(np.ones((4, 2), np.float32))
            ids = tf.placeholder(tf.int64, [None])
            opt = distribute.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0), 2, timeout_s=20)
            update = opt.minimize(tf.reduce_sum(tf.nn.embedding_lookup(table, ids)))
            with tf.Session(servers[rank].target) as session:
                session.run(tf.global_variables_initializer())
                session.run(update, {ids: np.arange(rank + 1)})
                return session.run(table)

    with ThreadPoolExecutor(2) as threads:
        for table in threads.map(run, range(2)):
            assert table[:, 0].tolist() == [0, 0.5, 1, 1]


def test_an_optimizer_that_clips_gets_the_rows_as_they_are() -> None:
    class Clips(tf.train.GradientDescentOptimizer):
        def apply_gradients(self, pairs: Any, *args: Any, **kwargs: Any) -> Any:
            grads, variables = zip(*pairs)
            return super().apply_gradients(zip(tf.clip_by_global_norm(grads, 1.0)[0], variables), *args, **kwargs)

    class ClipsAll(distribute.DistributedOptimizer):
        def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
            grads, variables = zip(*super().compute_gradients(*args, **kwargs))
            return [*zip(tf.clip_by_global_norm(grads, 1.0)[0], variables)]

    def taken(optimizer: Any, made: Any = distribute.DistributedOptimizer) -> set[bool]:
        with tf.Graph().as_default() as graph:
            ids, labels = tf.placeholder(tf.int64, [BATCH]), tf.placeholder(tf.float32, [BATCH])
            made(optimizer, 2).minimize(loss_of(ids, labels, 1))
            return {op.get_attr("distinct") for op in graph.get_operations() if op.type == "_GatheredRows"}

    assert taken(tf.train.GradientDescentOptimizer(0.1)) == {True}
    assert taken(Clips(0.1)) == {False}
    assert taken(tf.train.GradientDescentOptimizer(0.1), ClipsAll) == {False}


def _on_both(make: Any, run: Any) -> list[Any]:
    servers = make(2)

    def one(rank: int) -> Any:
        with tf.Graph().as_default(), tf.device(f"/job:worker/task:{rank}"):
            return run(rank, servers[rank].target)

    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(one, range(2)))


BROADCAST = {
    "bfloat16": 1.5, "float16": 1.5, "int8": -3, "int16": -300, "uint8": 200, "uint16": 60_000, "uint32": 2**32 - 1,
    "uint64": 2**64 - 1, "bool": True, "complex64": 1 - 2j, "complex128": 1 - 2j,
}  # fmt: skip


def test_variables_of_every_type_are_broadcast(workers: Any) -> None:  # noqa: F811
    def run(rank: int, target: str) -> list[np.ndarray]:
        kinds = [(tf.as_dtype(name), x) for name, x in BROADCAST.items()]
        made = [tf.Variable(np.full([2, 1], 0 if rank else x, t.as_numpy_dtype), name=t.name) for t, x in kinds]
        given = distribute.broadcast_global_variables(rank == 0, 2, timeout_s=20)
        with tf.Session(target) as session:
            session.run(tf.global_variables_initializer())
            session.run(given)
            return session.run(made)

    for values in _on_both(workers, run):
        assert {v.dtype.name: v.item(1) for v in values} == BROADCAST


def test_strings_are_not_broadcast() -> None:
    with tf.Graph().as_default():
        tf.Variable(["a"], name="words")
        with pytest.raises(tf.errors.InvalidArgumentError, match="'words' holds strings"):
            distribute.broadcast_global_variables(True, 2)


def test_gradients_of_bfloat16(workers: Any) -> None:  # noqa: F811
    """Of rows, which are gathered, and dense ones."""

    def run(rank: int, target: str) -> list[np.ndarray]:
        table = tf.Variable(np.ones((4, 2), tf.bfloat16.as_numpy_dtype))
        opt = distribute.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0), 2, timeout_s=20)
        rows = opt.compute_gradients(tf.reduce_sum(tf.nn.embedding_lookup(table, [rank, 2])))[0][0]
        dense = opt.compute_gradients(tf.reduce_sum(table * tf.cast(rank, tf.bfloat16)))[0][0]
        with tf.Session(target) as session:
            session.run(tf.global_variables_initializer())
            return session.run([rows.indices, rows.values, dense])

    for ids, rows, dense in _on_both(workers, run):
        assert ids.tolist() == [0, 2, 1, 2]
        assert (np.concatenate([rows, dense]).astype(np.float32) == 0.5).all()


@pytest.mark.parametrize("clip", [False, True])
def test_gradients_of_one_worker_alone_are_told(graph: Any, caplog: pytest.LogCaptureFixture, clip: bool) -> None:
    """Workers that clip tf.gradients' went on with variables of their own, and nothing said so."""
    table, w = tf.get_variable("table", [4, 2]), tf.get_variable("w", [2])
    loss = tf.reduce_sum(tf.gather(table, [1, 1, 2]) * w)
    opt = distribute.DistributedOptimizer(tf.train.AdagradOptimizer(0.1), 2)
    both = [gradient for gradient, _ in opt.compute_gradients(loss, [table, w])]
    if clip:
        both, _ = tf.clip_by_global_norm(both, 1.0)
    opt.apply_gradients(zip(both, [table, w]))
    opt.minimize(loss)
    distribute.DistributedOptimizer(tf.train.AdagradOptimizer(0.1), 1).apply_gradients([(tf.ones([2]), w)])
    assert not caplog.records
    own = tf.gradients(loss, [table, w])
    if clip:
        own, _ = tf.clip_by_global_norm(own, 1.0)
    opt.apply_gradients(zip(own, [table, w]))
    assert "none of the gradients of table, w is of all workers' rows" in caplog.text
    assert "from this optimizer's compute_gradients, not from tf.gradients" in caplog.text
