"""What only Dask does: threads that two trainings want, drivers that die with a claim, workers that are stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import distributed
import psutil
import pyarrow as pa
import pytest
from distributed import Client

import sparkflow as tf
from sparkflow_connectors import dask_slots
from sparkflow_connectors.dask_slots import Slots, workers_now
from sparkflow_connectors.processes import Child
from sparkflow_runtime.transport.addresses import is_here
from tests.cluster.conftest import small_model


class Story(logging.Handler):
    """What the job's log said."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.changed = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self.changed:
            self.lines.append(record.getMessage())
            self.changed.notify_all()

    def find(self, pattern: str) -> re.Match[str] | None:
        return next((m for line in list(self.lines) if (m := re.search(pattern, line))), None)

    def wait_for(self, pattern: str, timeout_s: float = 120.0) -> re.Match[str]:
        with self.changed:
            assert self.changed.wait_for(lambda: self.find(pattern), timeout_s), f"{pattern!r}: {self.lines}"
        found = self.find(pattern)
        assert found is not None
        return found


@pytest.fixture
def story() -> Iterator[Story]:
    logger, handler = logging.getLogger("sparkflow"), Story()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def _later(act: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


HOLDER = """
import sys, time
from distributed import Client
from sparkflow_connectors.dask_slots import Slots
with Client(sys.argv[1]) as client:
    Slots(client).take("run", 2, "the training of a driver that dies", 30.0)
    print("held", flush=True)
    time.sleep(100)
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["ended", "killed"])
def test_a_claim_dies_with_its_driver(clusters: Any, how: int, story: Story) -> None:
    address = clusters.dask.scheduler.address
    with subprocess.Popen([sys.executable, "-c", HOLDER, address], stdout=subprocess.PIPE, text=True) as driver:
        try:
            assert driver.stdout is not None and driver.stdout.readline() == "held\n"

            def end() -> None:
                story.wait_for("waiting for 2 of 2")
                driver.send_signal(how)

            killer = _later(end)
            slots = Slots(clusters.dask)
            assert len(slots.take("mine", 2, "a training", 30.0).addresses) == 2
            slots.release("mine")
            killer.join()
        finally:
            driver.kill()
    said = rf"waiting for 2 of 2 Dask worker threads, held by the training of a driver that dies \(process {driver.pid}"
    assert story.find(said)


@pytest.mark.soak
def test_two_trainings_at_once_follow_each_other(
    clusters: Any, table: pa.Table, tmp_path: Path, story: Story, none_left: Any
) -> None:
    """Each needs both of the cluster's threads."""
    models = {}

    def train(name: str) -> None:
        models[name] = clusters.train("dask", table, tmp_path / name, epochs=4)

    clusters.frame("dask", table)
    threads = [_later(lambda name=name: train(name)) for name in ("a", "b")]  # type: ignore[misc]
    for thread in threads:
        thread.join(140)
    assert [models[name].figures["attempts"] for name in ("a", "b")] == [1, 1]
    assert story.find(r"waiting for 2 of 2 Dask worker threads, held by the training into .*/(a|b) \(process")
    ends = [i for i, line in enumerate(story.lines) if "epoch 4: validation" in line]
    starts = [i for i, line in enumerate(story.lines) if re.search(r"worker \d started", line)]
    assert starts[1] < ends[0] < starts[2], story.lines
    none_left()


@pytest.mark.slow
def test_trainings_that_fit_wait_for_nobody(
    clusters: Any, table: pa.Table, tmp_path: Path, story: Story, none_left: Any
) -> None:
    """A table is not computed behind the other training's role, either."""
    slots = Slots(clusters.dask)
    taken = slots.take("another", 1, "another training", 30.0)
    holder = clusters.dask.submit(time.sleep, 250, workers=taken.addresses, pure=False)
    try:
        model = clusters.train("dask", table, tmp_path, workers=1, ps=1, epochs=4)
        assert not holder.done()
    finally:
        slots.release("another")
        clusters.dask.cancel(holder, force=True)
        clusters.dask.restart_workers(taken.addresses)
    assert model.figures["attempts"] == 1
    assert not story.find(r"waiting for .* Dask worker threads")
    none_left()


@pytest.mark.slow
def test_a_stopped_child_is_ended(
    clusters: Any, table: pa.Table, tmp_path: Path, story: Story, none_left: Any, capfd: Any
) -> None:
    """It answers to nothing but a kill, and the Dask thread that hosts it waits for its words."""

    def stop() -> None:
        pid = int(story.wait_for(r"worker 1 started \(pid (\d+) ")[1])
        story.wait_for("worker 0: epoch 1: validation")
        os.kill(pid, signal.SIGSTOP)

    _later(stop)
    model = clusters.train("dask", table, tmp_path, epochs=12, keepalive_s=2.0)
    story.wait_for("attempt 1 of 4 failed: worker 1 .*silent for 2")
    assert model.figures["attempts"] == 2
    none_left()
    assert "Combination not supported" not in capfd.readouterr().err


def test_a_child_that_comes_too_late_is_ended(clusters: Any, none_left: Any) -> None:
    """Its attempt was cancelled while its task was still writing the spool."""

    def late(run_id: str) -> str:
        import asyncio

        from sparkflow_connectors import dask

        asyncio.run(dask._end_children(run_id))
        child = Child("sparkflow_connectors.worker_process", "worker 0", 1)
        dask._host(run_id, child)
        return "alive" if child.alive() else "ended"

    assert clusters.dask.submit(late, "a run", pure=False).result(60) == "ended"
    none_left()


@pytest.mark.slow
def test_a_stopped_dask_worker_is_left_out_of_the_next_attempt(
    clusters: Any, table: pa.Table, tmp_path: Path, story: Story, none_left: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its role trains on, but the end of its task would never be heard."""
    monkeypatch.setattr("sparkflow_connectors.dask.silence_s", lambda keepalive_s, workers: 3.0)
    stopped: list[int] = []

    def stop() -> None:
        child = int(story.wait_for(r"worker 0 started \(pid (\d+) ")[1])
        hosts = psutil.Process(child).parents()  # the fork server, and the Dask worker
        stopped.append(next(p.pid for p in hosts if "sparkflow_connectors" not in " ".join(p.cmdline())))
        os.kill(stopped[0], signal.SIGSTOP)

    stopper = _later(stop)
    try:
        model = clusters.train("dask", table, tmp_path, workers=1, ps=1, epochs=6)
        stopper.join(10)
        story.wait_for(r"attempt 1 of 4 failed: The Dask worker tcp://\S+ of worker 0 has been silent for \d+ s")
        assert model.figures["attempts"] == 2
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    none_left()


def test_too_few_threads_for_a_while_are_waited_for(
    clusters: Any, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed worker's nanny needs some seconds; no attempt starts with fewer roles than it was asked for."""
    pids = clusters.dask.run(os.getpid)
    before = set(pids)
    monkeypatch.setattr(dask_slots, "_FIRST_WORD_S", 0.0)
    os.kill(next(iter(pids.values())), signal.SIGKILL)
    while set(workers_now(clusters.dask)) == before:
        time.sleep(0.01)
    slots = Slots(clusters.dask)
    found = slots.take("run", 2, "a training", 30.0).addresses
    slots.release("run")
    assert len(set(found)) == 2 and set(found) != before
    assert story.find("waiting for Dask workers: 1 threads are there, 2 are needed")


@pytest.mark.slow
def test_a_cluster_that_grows_is_waited_for(clusters: Any, table: pa.Table, tmp_path: Path) -> None:
    """As in a notebook: a training right after the call that scales the cluster. It was refused."""
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        cluster.scale(2)
        model = clusters.train("dask", table, tmp_path / "out", client=client)
        assert model.figures["attempts"] == 1


@pytest.mark.slow
@pytest.mark.skipif(not is_here(socket.AF_INET6, ("::1", 0)), reason="this host has no IPv6")
def test_a_cluster_with_addresses_of_ipv6(clusters: Any, table: pa.Table, tmp_path: Path) -> None:
    with (
        distributed.LocalCluster(2, host="[::1]", threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        assert cluster.scheduler_address.startswith("tcp://[::1]:")
        assert clusters.train("dask", table, tmp_path / "out", client=client).figures["attempts"] == 1


def test_no_worker_is_missed_while_the_client_refreshes_its_own_view(clusters: Any) -> None:
    over = threading.Event()

    def refresh() -> None:
        while not over.is_set():
            clusters.dask.scheduler_info(n_workers=0)

    busy = _later(refresh)
    try:
        assert {len(workers_now(clusters.dask)) for _ in range(300)} == {2}
    finally:
        over.set()
        busy.join()


@pytest.mark.slow
def test_the_scheduler_keeps_no_queue_of_a_training(
    clusters: Any, table: pa.Table, tmp_path: Path, none_left: Any
) -> None:
    """One that somebody has opened and not closed it keeps for ever: three were left by each training."""

    def queues(dask_scheduler: Any) -> list[str]:
        return [name for name in dask_scheduler.extensions["queues"].queues if name.startswith("sparkflow-")]

    before = set(clusters.dask.run_on_scheduler(queues))
    clusters.train("dask", table, tmp_path / "out", epochs=1)
    deadline = time.monotonic() + 10
    while (left := set(clusters.dask.run_on_scheduler(queues)) - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left
    none_left()


def test_nulls_in_the_order_of_rows_are_refused(clusters: Any, table: pa.Table, tmp_path: Path, none_left: Any) -> None:
    when = [None if row == 7 else float(row) for row in range(table.num_rows)]
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="Partition 0 of the table: order_by: column 'when' is null at row 7"
    ):
        clusters.train("dask", table.append_column("when", pa.array(when)), tmp_path, order_by="when")
    none_left()


def test_a_client_that_is_closed_ends_its_training(
    clusters: Any, table: pa.Table, tmp_path: Path, story: Story, none_left: Any
) -> None:
    """Whose threads are another client's at once, to go on from the checkpoint."""
    client = Client(clusters.dask.scheduler.address, set_as_default=False)

    def close() -> None:
        story.wait_for("epoch 2: validation")
        client.close()

    closer = _later(close)
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"client is closed: .*Train again by a new one"):
        clusters.train("dask", table, tmp_path, client=client, epochs=400)
    closer.join(20)
    none_left()
    with pytest.raises(tf.errors.FailedPreconditionError, match="The Dask client is closed"):
        clusters.train("dask", table, tmp_path, client=client)
    model = clusters.train("dask", table, tmp_path, epochs=8)
    assert story.find(r"resumed from .*at epoch \d+") and model.figures["attempts"] == 1
    assert not story.find("could not be told to clear up")


@pytest.mark.parametrize("force", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_task_that_is_cancelled_ends_its_training(
    clusters: Any, table: pa.Table, tmp_path: Path, story: Story, none_left: Any, force: bool
) -> None:
    """Somebody's wish, as a job that is cancelled in Spark; it was begun anew."""

    def cancel() -> None:
        story.wait_for("worker 0: epoch 1: validation")
        keys = [key for key in clusters.dask.run_on_scheduler(_keys) if str(key).startswith("_host_role")]
        clusters.dask.cancel([distributed.Future(key, clusters.dask) for key in keys], force=force)

    thread = _later(cancel)
    with pytest.raises(tf.errors.CancelledError, match=r"A task of the training was cancelled in Dask \(_host_role-"):
        clusters.train("dask", table, tmp_path, epochs=400)
    thread.join(10)
    none_left()
    assert clusters.train("dask", table, tmp_path, epochs=2).figures["attempts"] == 1


def _keys(dask_scheduler: Any = None) -> list[Any]:
    return list(dask_scheduler.tasks)


@pytest.mark.slow
def test_a_restarted_cluster_costs_an_attempt(
    clusters: Any, table: pa.Table, tmp_path: Path, story: Story, none_left: Any
) -> None:
    """Others may share it, and restart it for their own reasons."""

    def restart() -> None:
        story.wait_for("worker 0: epoch 1: validation")
        clusters.dask.restart()

    thread = _later(restart)
    model = clusters.train("dask", table, tmp_path, epochs=30, checkpoint_s=0.3)
    thread.join(60)
    assert model.figures["attempts"] == 2, story.lines
    none_left()


def test_a_client_of_asynchronous_calls_is_refused(table: pa.Table, tmp_path: Path, clusters: Any) -> None:
    async def train() -> None:
        async with Client(clusters.dask.scheduler.address, asynchronous=True, set_as_default=False) as client:
            clusters.train("dask", table, tmp_path / "out", client=client)

    with pytest.raises(tf.errors.InvalidArgumentError, match="this Dask client is for asynchronous calls"):
        asyncio.run(train())
    assert not (tmp_path / "out").exists()


@pytest.mark.soak
def test_threads_that_other_tasks_use_are_waited_for(
    clusters: Any, table: pa.Table, tmp_path: Path, story: Story, none_left: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of other trainings are; the roles that have begun wait with them, and no attempt is spent on it."""
    monkeypatch.setattr(dask_slots, "_FIRST_BUSY_WORD_S", 0.0)
    client, free = clusters.dask, distributed.Event("free", clusters.dask)
    address = next(iter(workers_now(client)))
    busy = client.submit(lambda: distributed.Event("free").wait(100), workers=[address], pure=False)

    def let_go() -> None:
        story.wait_for(rf"waiting for the threads of workers \d: Dask has 1 other task on {address}")
        free.set()

    letting = _later(let_go)
    try:
        model = clusters.train("dask", table, tmp_path)
    finally:
        free.set()
        letting.join(10)
    assert busy.result(10) and model.figures["attempts"] == 1
    free.clear()
    none_left()


def test_threads_that_other_tasks_never_give_back(
    clusters: Any, table: pa.Table, tmp_path: Path, none_left: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_slots, "CLAIM_TIMEOUT_S", 2.0)
    client, free = clusters.dask, distributed.Event("free", clusters.dask)
    address = next(iter(workers_now(client)))
    busy = client.submit(lambda: distributed.Event("free").wait(100), workers=[address], pure=False)
    try:
        with pytest.raises(
            tf.errors.FailedPreconditionError, match=rf"no free thread in \d+ s: Dask runs 1 .*{address}"
        ):
            clusters.train("dask", table, tmp_path / "out")
    finally:
        free.set()
    assert busy.result(20) and not (tmp_path / "out").exists()
    free.clear()
    none_left()


def test_partitions_are_dealt_by_their_rows(clusters: Any, tmp_path: Path, none_left: Any) -> None:
    """Half of them are empty after a filter, as days without an event are; dealt by number, one worker had all rows."""
    table, rows = clusters.table().to_pandas(), 64 * 16
    frame = dd.from_pandas(table[: 2 * rows].reset_index(drop=True), npartitions=8)
    assert clusters.dask is not None
    model = tf.dask.train(
        frame[frame["row"] < rows], small_model(), label="late", features=["user", "x"], checkpoint_dir=str(tmp_path),
        workers=2, ps=1, sync=True, epochs=1, batch_size=64, validation=0.0, params={"sync": True},
    )  # fmt: skip
    assert tf.train.load_variable(model.checkpoint, "global_step") == 8
    none_left()
