"""Update rules between synchronous and asynchronous: bounded staleness, and dense together but sparse at once."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.session.server import Server
from sparkflow.train import bounded_staleness

ROWS, WIDTH = 6, 2


def threads_of(workers: int, work: Callable[[int], None]) -> None:
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            work(rank)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors
    assert not any(t.is_alive() for t in threads)


def model(rank: int, wrap: Callable[[], Any]) -> dict[str, Any]:
    setter = tf.train.replica_device_setter(2, worker_device=f"/job:worker/task:{rank}")
    with tf.Graph().as_default() as graph, tf.device(setter):
        step = tf.train.get_or_create_global_step()
        table = tf.Variable(np.ones((ROWS, WIDTH), np.float32), name="table")
        w = tf.Variable(np.ones((WIDTH, 1), np.float32), name="w")
        ids = tf.placeholder(tf.int64, [None])
        loss = tf.reduce_sum(tf.matmul(tf.nn.embedding_lookup(table, ids), w))
        optimizer = wrap()
        train = optimizer.minimize(loss, global_step=step)
    return {"graph": graph, "train": train, "ids": ids, "table": table, "w": w, "step": step, "optimizer": optimizer}


def sgd(rate: float = 0.01) -> Any:
    return tf.train.GradientDescentOptimizer(rate)


@pytest.mark.parametrize("staleness", [0, 2])
def test_nobody_is_far_ahead_of_the_slowest(cluster: Any, staleness: int) -> None:
    servers: dict[str, Server] = cluster(ps=2, worker=3)
    steps, done, leads, final = 12, [0, 0, 0], [0, 0, 0], []

    def work(rank: int) -> None:
        parts = model(rank, lambda: tf.train.BoundedStalenessOptimizer(sgd(), staleness, 3, rank))
        hook = parts["optimizer"].make_session_run_hook(rank == 0)
        with (
            parts["graph"].as_default(),
            tf.train.MonitoredTrainingSession(
                servers[f"worker{rank}"].target, rank == 0, hooks=[hook], max_wait_secs=30
            ) as session,
        ):
            for _ in range(steps):
                if rank == 2:
                    time.sleep(0.02)
                    until = time.monotonic() + 30  # one of the others is ahead first, however busy the machine is
                    while max(leads) < staleness and time.monotonic() < until:
                        time.sleep(0.001)
                leads[rank] = max(leads[rank], done[rank] - min(done))
                session.run(parts["train"], {parts["ids"]: [rank]})
                done[rank] += 1
            if rank == 0:
                while min(done) < steps:
                    time.sleep(0.01)
                final.append(session.run([parts["step"], parts["w"]]))

    threads_of(3, work)
    assert done == [steps] * 3
    # A step that has ended at the others may be counted here a moment later, hence the 1.
    assert max(leads) <= staleness + 1
    if staleness:
        assert max(leads) >= staleness, "and it is not synchronous either"
    assert final[0][0] == 3 * steps, "no update is lost"


@contextlib.contextmanager
def one_of_two(servers: dict[str, Server], rank: int) -> Iterator[Callable[[], Any]]:
    """A replica that may be a step ahead of the other: what makes a step."""
    parts = model(rank, lambda: tf.train.BoundedStalenessOptimizer(sgd(), 1, 2, rank))
    hook, target = parts["optimizer"].make_session_run_hook(rank == 0), servers[f"worker{rank}"].target
    with (
        parts["graph"].as_default(),
        tf.train.MonitoredTrainingSession(target, rank == 0, hooks=[hook], max_wait_secs=30) as session,
    ):
        yield lambda: session.run(parts["train"], {parts["ids"]: [rank]})


@pytest.mark.parametrize("steps", [(10, 3), (3, 10)])
def test_one_that_ends_holds_up_nobody(cluster: Any, steps: tuple[int, int]) -> None:
    """Be it the chief, who goes on counting."""
    servers: dict[str, Server] = cluster(ps=2, worker=2)
    done = [0, 0]

    def work(rank: int) -> None:
        with one_of_two(servers, rank) as step:
            for _ in range(steps[rank]):
                step()
                done[rank] += 1

    threads_of(2, work)
    assert done == list(steps)


def test_a_chief_leaves_one_that_never_ends(cluster: Any, caplog: Any) -> None:
    servers: dict[str, Server] = cluster(ps=2, worker=1)
    parts = model(0, lambda: tf.train.BoundedStalenessOptimizer(sgd(), 3, 2, 0))
    hook = parts["optimizer"].make_session_run_hook(True, end_patience_s=0.05)
    target = servers["worker0"].target
    with parts["graph"].as_default(), tf.train.MonitoredTrainingSession(target, hooks=[hook]) as session:
        session.run(parts["train"], {parts["ids"]: [0]})
    assert "replicas 1 have not, which ended no step in 0.05 s" in caplog.text


def test_who_waits_for_whom(cluster: Any, caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One replica has ended a step and no more: the chief may be one ahead of it."""
    monkeypatch.setattr(bounded_staleness, "_LATE_S", 0.3)
    servers: dict[str, Server] = cluster(ps=2, worker=2)
    slow = threading.Event()

    def work(rank: int) -> None:
        with one_of_two(servers, rank) as step:
            for done in range(4):
                if rank and done:
                    slow.wait(30)
                step()

    def said() -> None:
        while "Replicas 0 wait for 1, of which none has ended a step in 0.3 s" not in caplog.text:
            time.sleep(0.05)
        slow.set()

    threading.Thread(target=said, daemon=True).start()
    threads_of(2, work)
    assert slow.is_set()
    assert "it stands at step 1, and they may be 1 ahead" in caplog.text


@pytest.mark.parametrize(
    ("before", "clocks"),
    [
        ([], [3, 0]),
        ([3, 0], [3, 1]),
        ([1, 0], [2, 0]),
        ([bounded_staleness._GONE, 4], [bounded_staleness._GONE, 4]),
        ([bounded_staleness._GONE] * 2, [bounded_staleness._GONE] * 2),
    ],
)
def test_nobody_waits(before: list[int], clocks: list[int]) -> None:
    assert bounded_staleness.late(before, clocks, 2) == ""


def test_a_chief_that_is_back_gives_no_second_allowance(graph: Any, cluster: Any) -> None:
    servers: dict[str, Server] = cluster(ps=1, worker=1)
    with tf.device(tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")):
        step, w = tf.train.get_or_create_global_step(), tf.Variable(1.0)
        optimizer = tf.train.BoundedStalenessOptimizer(sgd(), 3, 2, 0)
        train = optimizer.minimize(tf.square(w.value()), step)
    target = servers["worker0"].target
    taken = 0
    for _ in range(2):
        hook = optimizer.make_session_run_hook(True, end_patience_s=0)
        with tf.train.SingularMonitoredSession([hook], master=target) as session:
            raw = session.raw_session()
            try:
                while taken < 10:
                    raw.run(train, options=tf.RunOptions(timeout_in_ms=2000))
                    taken += 1
            except tf.errors.DeadlineExceededError:
                pass
            raw.run(step)
        graph._unsafe_unfinalize()
    assert taken == 3, "the other replica has not begun"


def test_what_a_step_runs_first_the_counting_does_not(graph: Any) -> None:
    """As batch normalization has it: under control_dependencies(UPDATE_OPS), which need a batch."""
    x, seen, w = tf.placeholder(tf.float32, []), tf.Variable(0.0, trainable=False), tf.Variable(1.0)
    optimizer = tf.train.BoundedStalenessOptimizer(sgd(), 1, 1, 0)
    with tf.control_dependencies([tf.assign_add(seen, x)]):
        train = optimizer.minimize(w * x, tf.train.get_or_create_global_step())
    with tf.train.SingularMonitoredSession([optimizer.make_session_run_hook(True)]) as session:
        for _ in range(5):
            session.run(train, {x: 1.0})
        assert session.run(seen) == 5


def test_semi_synchronous(cluster: Any) -> None:
    """The dense weights change when both have sent, the table as soon as one has."""
    servers: dict[str, Server] = cluster(ps=2, worker=2)
    parts = [
        model(
            rank,
            lambda: tf.train.SyncReplicasOptimizer(sgd(0.5), 2, sparse_opt=tf.train.AdagradOptimizer(0.1)),
        )
        for rank in range(2)
    ]
    sparse = [op for op in parts[0]["graph"].get_operations() if op.type == "SparseConditionalAccumulator"]
    assert not sparse, "rows travel to no accumulator"
    seen: list[Any] = []
    go = threading.Event()

    def work(rank: int) -> None:
        mine = parts[rank]
        with mine["graph"].as_default():
            hook = mine["optimizer"].make_session_run_hook(rank == 0, num_tokens=0)
            with tf.train.MonitoredTrainingSession(
                servers[f"worker{rank}"].target, rank == 0, hooks=[hook], max_wait_secs=30
            ) as session:
                if rank == 1:
                    assert go.wait(30)
                session.run(mine["train"], {mine["ids"]: [rank]})

    def watch() -> None:
        mine = parts[1]
        with tf.Session(servers["worker1"].target, graph=mine["graph"]) as session:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                try:
                    table, w = session.run([mine["table"], mine["w"]])
                except tf.errors.FailedPreconditionError:
                    time.sleep(0.01)
                    continue
                if table[0, 0] != 1.0:
                    seen.append((table, w))
                    break
                time.sleep(0.01)
        go.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    threads_of(2, work)
    watcher.join(30)
    with tf.Session(servers["worker1"].target, graph=parts[1]["graph"]) as session:
        late = session.run([parts[1]["table"], parts[1]["w"]])
    (early,) = seen
    assert early[0][0, 0] < 1.0 and early[0][1, 0] == 1.0, "one replica's rows are updated at once"
    assert early[1].tolist() == [[1.0], [1.0]], "its dense gradient waits for the other's"
    assert (late[1] < 1.0).all() and (late[0][:2] < 1.0).all()


def test_a_backup_workers_late_gradient_is_dropped(cluster: Any) -> None:
    """Two of three replicas are enough. What the third one sends of a step long past changes nothing."""
    servers: dict[str, Server] = cluster(ps=2, worker=3)
    begun, trained, checked = (threading.Barrier(3) for _ in range(3))
    started, enough, seen = threading.Event(), threading.Event(), []

    def work(rank: int) -> None:
        mine = model(rank, lambda: tf.train.SyncReplicasOptimizer(sgd(), 2, total_num_replicas=3))
        hook = mine["optimizer"].make_session_run_hook(rank == 0)
        if rank:  # one that comes before the chief is ready looks again after 30 s only
            assert started.wait(30)
        with (
            mine["graph"].as_default(),
            tf.train.MonitoredTrainingSession(
                servers[f"worker{rank}"].target, rank == 0, hooks=[hook], max_wait_secs=30
            ) as session,
        ):
            started.set()
            begun.wait(30)  # the late one's local step is 0
            while rank < 2 and not enough.is_set():
                with contextlib.suppress(tf.errors.DeadlineExceededError):  # at the end one may wait for the other
                    session.run(mine["train"], {mine["ids"]: [0]}, options=tf.RunOptions(timeout_in_ms=2000))
            while rank == 2 and session.run(mine["step"]) < 3:
                time.sleep(0.01)
            enough.set()
            trained.wait(30)
            if rank == 2:
                values = [mine["table"], mine["w"], mine["step"]]
                seen.append(_settled(session, values))
                with contextlib.suppress(tf.errors.DeadlineExceededError):  # the others may have taken all tokens
                    session.run(mine["train"], {mine["ids"]: [1] * 1000}, options=tf.RunOptions(timeout_in_ms=2000))
                seen.append(_settled(session, values))
            checked.wait(30)

    threads_of(3, work)
    for before, after in zip(*seen):
        np.testing.assert_array_equal(after, before)


def _settled(session: Any, values: list[Any]) -> list[Any]:
    """The values, global step last, when the chief's last update is done."""
    found, before = session.run(values), -1
    while found[-1] != before:
        before = found[-1]
        time.sleep(0.2)
        found = session.run(values)
    return found


def test_refusals(graph: Any) -> None:
    with pytest.raises(ValueError, match="staleness must be 0 or more"):
        tf.train.BoundedStalenessOptimizer(sgd(), -1, 2, 0)
    with pytest.raises(ValueError, match="replica one of the 2"):
        tf.train.BoundedStalenessOptimizer(sgd(), 1, 2, 2)
    bounded = tf.train.BoundedStalenessOptimizer(sgd(), 1, 1, 0)
    with pytest.raises(ValueError, match="before using the hook"):
        bounded.make_session_run_hook(True).begin()
    v = tf.Variable(1.0)
    with pytest.raises(ValueError, match="Global step is required"):
        bounded.apply_gradients([(tf.constant(1.0), v)])
    same = sgd()
    with pytest.raises(ValueError, match="another optimizer than opt"):
        tf.train.SyncReplicasOptimizer(same, 2, sparse_opt=same)
