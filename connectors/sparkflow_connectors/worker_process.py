"""A worker in a process of its own, for clusters whose task processes must stay responsive (Dask), and for local runs.

`run_child` is the parent's side; `python -m sparkflow_connectors.worker_process` is the child's.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from typing import Any

import cloudpickle
import pyarrow as pa

from sparkflow_connectors import spool
from sparkflow_connectors.job import Job
from sparkflow_connectors.processes import Child, Parent
from sparkflow_connectors.roles import Gather, role
from sparkflow_runtime.wire.errors import OpError, from_dict, to_dict


def run_child(
    job: Job, batches: Iterable[pa.RecordBatch], rank: int, host: str, gather: Gather, started: Any = None
) -> dict[str, Any]:
    """Run a worker as a child of this thread and relay its gathers; its figures. Raises its error as itself.

    started(child): told of the child, so that another thread may kill it.
    """
    rows = spool.write(batches, job.columns)
    try:
        child = Child("sparkflow_connectors.worker_process", f"worker {rank}", job.threads, (rows,))
    finally:
        os.close(rows)  # the child has its own
    try:
        if started is not None:
            started(child)
        child.send({"rank": rank, "host": host, "rows": rows}, cloudpickle.dumps(job))
        while True:
            said = child.receive()
            if "gather" in said:
                child.send({"gathered": gather(said["gather"])})
            elif "error" in said:
                raise from_dict(said["error"])
            else:
                return dict(said["result"])
    finally:
        child.stop()


def main() -> None:
    parent = Parent()
    sys.setswitchinterval(5e-4)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    fields, body = parent.receive()
    job: Job = cloudpickle.loads(body)  # from the parent's pipe, never from the network

    def gather(text: str) -> list[str]:
        parent.send({"gather": text})
        answer, _ = parent.receive()
        parent.watch(lambda: os._exit(1))
        return list(answer["gathered"])

    try:
        result = role(job, fields["rows"], fields["rank"], fields["host"], gather)
    except Exception as error:
        logging.getLogger(__name__).error(
            "worker %d: %s", fields["rank"], error, exc_info=not isinstance(error, OpError)
        )
        parent.send({"error": to_dict(error)})
        os._exit(1)
    parent.send({"result": result})
    sys.stdout.flush()
    os._exit(0)  # daemon threads and native libraries have nothing left to do


if __name__ == "__main__":
    main()
