"""Monitored sessions over processes that die: what is lost comes back from the checkpoint, and nobody else stops."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sparkflow as tf
from tests.session.processes import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARKFLOW_SECRET", "secret")
        cluster = Cluster(ps=1, worker=2)
        yield cluster
        cluster.stop()


@pytest.fixture
def tasks(cluster: Cluster) -> Iterator[Cluster]:
    yield cluster
    tf.Session.reset(cluster["worker0"].target)


def model(rank: int, synchronous: bool = False) -> dict[str, Any]:
    """A number on the parameter server, trained by way of a worker; synchronous: one of two gradients is enough."""
    setter = tf.train.replica_device_setter(1, worker_device=f"/job:worker/task:{rank}")
    with tf.Graph().as_default() as graph, tf.device(setter):
        step = tf.train.get_or_create_global_step()
        w = tf.Variable(0.0, name="w")
        loss = tf.square(w.value() - 1.0)
        optimizer: Any = tf.train.GradientDescentOptimizer(0.1)
        hooks = []
        if synchronous:
            optimizer = tf.train.SyncReplicasOptimizer(optimizer, 1, total_num_replicas=2)
        train = optimizer.minimize(loss, global_step=step)
        if synchronous:
            hooks.append(optimizer.make_session_run_hook(rank == 0))
    return {"graph": graph, "train": train, "step": step, "hooks": hooks}


class Opened(tf.train.SessionRunHook):
    """How many sessions there were."""

    def __init__(self) -> None:
        self.times = 0

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.times += 1


@pytest.mark.parametrize("lost", ["ps0", "worker0"])
def test_a_lost_task_and_a_remote_master(tasks: Cluster, tmp_path: Path, lost: str) -> None:
    parts, opened = model(0), Opened()
    with (
        parts["graph"].as_default(),
        tf.train.MonitoredTrainingSession(
            tasks["worker0"].target, True, str(tmp_path), hooks=[opened], save_checkpoint_steps=2
        ) as session,
    ):
        for _ in range(5):
            session.run(parts["train"])
        tasks.restart(lost)
        assert session.run(parts["step"]) >= 4, "of the checkpoint, or as the parameter server still has it"
        for _ in range(5):
            session.run(parts["train"])
        assert session.run(parts["step"]) >= 9
    assert opened.times == 2


class Two:
    """Two clients that train, each with a master of its own; `steps` of each."""

    def __init__(self, tasks: Cluster, directory: Path, synchronous: bool):
        self._tasks, self._directory, self._synchronous = tasks, directory, synchronous
        self.steps, self._stop, self.errors = [0, 0], threading.Event(), list[BaseException]()
        self._threads = [threading.Thread(target=self._work, args=(rank,)) for rank in range(2)]

    def __enter__(self) -> Two:
        for thread in self._threads:
            thread.start()
        self.until(lambda: min(self.steps) > 5)
        return self

    def __exit__(self, *error: Any) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        assert not self.errors

    def until(self, true: Any) -> None:
        _until(lambda: true() or bool(self.errors))

    def _work(self, rank: int) -> None:
        parts = model(rank, self._synchronous)
        try:
            with (
                parts["graph"].as_default(),
                tf.train.MonitoredTrainingSession(
                    self._tasks[f"worker{rank}"].target,
                    rank == 0,
                    str(self._directory),
                    hooks=parts["hooks"],
                    max_wait_secs=30,
                ) as session,
            ):
                while not self._stop.is_set():
                    session.run(parts["train"])
                    self.steps[rank] += 1
                    time.sleep(0.005)
        except BaseException as error:
            self.errors.append(error)


@pytest.mark.parametrize("synchronous", [False, True], ids=["async", "backup"])
def test_a_worker_is_lost_and_back_while_the_other_goes_on(tasks: Cluster, tmp_path: Path, synchronous: bool) -> None:
    with Two(tasks, tmp_path, synchronous) as two:
        tasks["worker1"].stop()
        at_loss = two.steps[0]
        two.until(lambda: two.steps[0] > at_loss + 20)
        tasks.restart("worker1")
        back = two.steps[1]
        two.until(lambda: two.steps[1] > back + 5)


def test_a_worker_that_stands_still_holds_up_nobody_where_one_is_a_backup(tasks: Cluster, tmp_path: Path) -> None:
    with Two(tasks, tmp_path, True) as two:
        os.kill(tasks["worker1"].process.pid, signal.SIGSTOP)
        try:
            then = two.steps[0]
            two.until(lambda: two.steps[0] > then + 20)
        finally:
            os.kill(tasks["worker1"].process.pid, signal.SIGCONT)
        again = two.steps[1]
        two.until(lambda: two.steps[1] > again + 5)


def test_a_stopped_task_is_named_at_the_deadline(tasks: Cluster) -> None:
    """SIGSTOP: it neither answers nor closes its connection."""
    parts = model(0)
    with tf.Session(tasks["worker0"].target, graph=parts["graph"]) as session:
        with parts["graph"].as_default():
            session.run(tf.global_variables_initializer())
        session.run(parts["train"])
        os.kill(tasks["ps0"].process.pid, signal.SIGSTOP)
        os.waitpid(tasks["ps0"].process.pid, os.WUNTRACED)  # it may answer until it stands
        try:
            with pytest.raises(tf.errors.DeadlineExceededError) as caught:
                session.run(parts["train"], options=tf.RunOptions(timeout_in_ms=500))
        finally:
            os.kill(tasks["ps0"].process.pid, signal.SIGCONT)
    assert "/job:ps/replica:0/task:0 does not answer: it is stopped, or gone" in caught.value.message


def _until(true: Any, within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)
