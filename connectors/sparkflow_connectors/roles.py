"""The one function body that every cluster runs: a worker, and beside the first ones a parameter server."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

from sparkflow.session.server import Server
from sparkflow.train.cluster_resolver import TF_CONFIG, tf_config
from sparkflow_connectors import directory
from sparkflow_connectors.control import TaskControl
from sparkflow_connectors.job import Announcement, Job
from sparkflow_connectors.ledger import saved_position
from sparkflow_connectors.limits import exhausted
from sparkflow_connectors.partition import Partition
from sparkflow_connectors.processes import START_TIMEOUT_S, Child
from sparkflow_connectors.training import Trainer
from sparkflow_runtime.wire.errors import OpError, UnavailableError

Gather = Callable[[str], list[str]]
_DRIVER_GONE = 74  # EX_IOERR

_log = logging.getLogger(__name__)


def role(
    job: Job, partition: Partition, rank: int, host: str, gather: Gather | None = None, begun_ps: Child | None = None
) -> dict[str, Any]:
    """Train as worker `rank`; the figures of the training.

    partition: the worker's rows, closed here. host: the interface by which peers reach this
    task. gather: an all-gather of short strings over all ranks, in rank order; called once. Without it the driver
    hands them out.
    begun_ps: the process of a parameter server that waits for its first line; without it one is started here, if
    this rank has one.
    Every error goes to the driver before it is raised.
    """
    # The line is inside: what ends a worker is told before anything is closed, as that may wait for rows to come.
    with ExitStack() as stack, _line_to_driver(job, rank) as control:
        stack.callback(partition.close)
        ps = _start_ps(job, rank, host, stack, begun_ps)
        server = Server.bound("worker", rank, host, job.secret, job.keepalive_s)
        stack.callback(server.stop)
        # Once: a process of an earlier attempt, late to hear of its end, may write another one meanwhile.
        checkpoint = directory.latest(job.checkpoint_dir) if rank == 0 else None
        where = ps.address if ps else None
        mine = Announcement(job.run_id, rank, server.address, where, saved_position(checkpoint))
        everyone = Announcement.decode_all(_gathered(gather or control.gather, mine), job.run_id)
        cluster = job.cluster([a.ps for a in everyone if a.ps], [a.worker for a in everyone])
        if ps is not None:
            ps.join(cluster)
        server.join_cluster(cluster)
        stack.enter_context(_told_the_environment(cluster, rank))
        result = Trainer(job, rank, server.target, cluster, partition, everyone, control, checkpoint).run()
        control.done(result, job.step_timeout_s)
        return result


@contextmanager
def _told_the_environment(cluster: dict[str, Any], rank: int) -> Iterator[None]:
    """TF_CONFIG says where this process is, to a model function that looks there; the process may outlive the job."""
    before = os.environ.get(TF_CONFIG)
    os.environ[TF_CONFIG] = tf_config(cluster, "worker", rank)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(TF_CONFIG, None)  # the model's own code may have removed it
        else:
            os.environ[TF_CONFIG] = before


@contextmanager
def _line_to_driver(job: Job, rank: int) -> Iterator[TaskControl]:
    def driver_gone(error: OpError) -> None:
        _log.error("worker %d ends, as its line to the driver did: %s", rank, error)
        os._exit(_DRIVER_GONE)

    control = TaskControl(job.driver_url, job.secret, rank, driver_gone, job.keepalive_s)
    try:
        yield control
    except BaseException as error:
        limit = exhausted(error)
        control.error(limit or error)
        if limit is not None:
            raise limit from error
        raise


def _gathered(gather: Gather, mine: Announcement) -> list[str]:
    """Everybody's announcement. What the cluster raises here, whatever its class, means that another task is lost."""
    try:
        return gather(mine.encode())
    except OpError:
        raise
    except Exception as error:
        raise UnavailableError(
            f"Worker {mine.rank} could not gather all addresses ({type(error).__name__}: {error}): a task was lost"
        ) from error


class _ParameterServer:
    """A parameter server as a child of this process."""

    def __init__(self, child: Child, job: Job, rank: int, host: str):
        self._child = child
        child.send({"index": rank, "host": host, "keepalive_s": job.keepalive_s}, job.secret)

    @cached_property
    def address(self) -> str:
        return str(self._child.receive(START_TIMEOUT_S)["address"])

    def join(self, cluster: dict[str, Any]) -> None:
        self._child.send({"cluster": cluster})
        self._child.receive(START_TIMEOUT_S)


def _start_ps(job: Job, rank: int, host: str, stack: ExitStack, child: Child | None = None) -> _ParameterServer | None:
    """It gets ready while this process does."""
    if rank >= job.ps:
        return None
    if child is None:
        child = Child("sparkflow_connectors.ps_process", server_name(rank), job.threads, gpus=False)
    stack.callback(child.stop)
    return _ParameterServer(child, job, rank, host)


def server_name(rank: int) -> str:
    return f"parameter server {rank}"
