"""A worker in a process of its own, for clusters whose task processes must stay responsive (Dask), and for local runs.

`run_child` is the parent's side; `python -m sparkflow_connectors.worker_process` is the child's.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

import cloudpickle

from sparkflow_connectors import fork_server, ps_process
from sparkflow_connectors.job import Job
from sparkflow_connectors.layout import Piece
from sparkflow_connectors.partition import FollowedPartition, Handover
from sparkflow_connectors.processes import Child, ForkedChild, Parent, call_itself, may_fork
from sparkflow_connectors.roles import Gather, role, server_name
from sparkflow_connectors.unshipped import not_in_child, unread
from sparkflow_runtime.wire.errors import OpError, from_dict, to_dict


def run_child(
    job: Job,
    pieces: Iterable[Piece],
    rank: int,
    host: str,
    gather: Gather,
    started: Any = None,
    over: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Run a worker as a child of this thread and relay its gathers; its figures. Raises its error as itself.

    pieces: the worker's rows, read in a thread of their own while it trains.
    started(child): told of the child, so that another thread may kill it. over: whether none is to be started any more.
    """
    handover = Handover(job.plan(rank), job.layout)
    try:
        child = fork_server.child(f"{__package__}.worker_process", f"worker {rank}", job.threads, handover.fds, over)
    except BaseException:
        handover.close()
        raise
    finally:
        handover.given()
    reader = threading.Thread(target=handover.run, args=(pieces,), name=f"rows of worker {rank}", daemon=True)
    try:
        if started is not None:
            started(child)
        fields = {"rank": rank, "host": host, "rows": child.fds, "serves": rank < job.ps}
        child.send(fields, cloudpickle.dumps(job))
        reader.start()
        while True:
            said = child.receive()
            if "gather" in said:
                child.send({"gathered": gather(said["gather"])})
            elif "unread" in said:
                raise not_in_child(said["unread"])
            elif "error" in said:
                raise from_dict(said["error"])
            else:
                return dict(said["result"])
    finally:
        child.stop()
        handover.stop()
        if reader.ident is not None:
            reader.join()
        handover.close()


def main() -> None:
    parent = Parent()
    sys.setswitchinterval(5e-4)
    fields, body = parent.receive()
    server = _forked_server(parent, fields) if fields["serves"] else None  # before anything of the user's is here
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        job: Job = cloudpickle.loads(body)  # from the parent's pipe, never from the network
    except Exception as error:  # the user's modules may raise anything
        parent.send({"unread": unread(error)})
        os._exit(1)

    def gather(text: str) -> list[str]:
        parent.send({"gather": text})
        answer, _ = parent.receive()
        parent.watch(lambda: os._exit(1))
        return list(answer["gathered"])

    try:
        partition = FollowedPartition(job.layout, tuple(fields["rows"]))
        result = role(job, partition, fields["rank"], fields["host"], gather, server)
    except Exception as error:
        logging.getLogger(__name__).error(
            "worker %d: %s", fields["rank"], error, exc_info=not isinstance(error, OpError)
        )
        parent.send({"error": to_dict(error)})
        os._exit(1)
    parent.send({"result": result})
    sys.stdout.flush()
    os._exit(0)  # daemon threads and native libraries have nothing left to do


def _forked_server(parent: Parent, fields: dict[str, Any]) -> Child | None:
    """A process for the parameter server of this rank, in the time of a fork: another start of Python with its imports
    takes as long as this worker took. None where there can be none, and `role` is to start one."""

    def serve() -> None:
        parent.leave()
        for fd in fields["rows"]:  # who writes them is to see when their reader dies
            os.close(fd)
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        call_itself(ps_process.__name__, f"{__package__}.worker_process")
        ps_process.serve(Parent())

    try:
        return ForkedChild(serve, server_name(fields["rank"])) if may_fork() else None
    except OSError:  # no more processes, or files: `role` tells the driver of it, where it has none either
        return None


if __name__ == "__main__":
    main()
