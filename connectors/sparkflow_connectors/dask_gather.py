"""How the roles of a Dask training tell each other where they serve."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from distributed import Queue

from sparkflow_connectors.job import Job
from sparkflow_connectors.processes import START_TIMEOUT_S, Child
from sparkflow_connectors.waiting import CLAIM_TIMEOUT_S
from sparkflow_runtime.wire.errors import DeadlineExceededError, UnavailableError

_POLL_S = 0.05
_START_S = CLAIM_TIMEOUT_S + START_TIMEOUT_S


class Gather:
    """An all-gather through the scheduler: everyone puts, rank 0 collects and hands out.

    A role whose thread others still use is waited for, as the driver does, who ends the attempt where one is lost. It
    polls the queues' sizes and its own child: a get() that waits could not be called off when the attempt is over, and
    would hold the Dask worker's thread from the next one.
    """

    def __init__(self, job: Job, rank: int, child: Callable[[], Child]):
        self._job, self._rank, self._child = job, rank, child

    @contextlib.contextmanager
    def _queue(self, name: str) -> Iterator[Queue]:
        """The scheduler keeps a queue for as long as one of those who have opened it has not closed it."""
        queue = Queue(f"sparkflow-{self._job.run_id}-{name}")
        try:
            yield queue
        finally:
            queue.close()

    def __call__(self, text: str) -> list[str]:
        # Its own is open before rank 0 can know of it, and the other until rank 0 has read it: neither goes too soon.
        with self._queue(f"out-{self._rank}") as mine, self._queue("in") as inbox:
            inbox.put([self._rank, text])
            if self._rank == 0:
                self._hand_out(inbox)
            self._wait_for(mine, 1, "worker 0 did not publish the cluster")
            return list(mine.get())

    def _hand_out(self, inbox: Queue) -> None:
        workers = self._job.workers
        self._wait_for(inbox, workers, f"not all of {workers} workers announced themselves")
        texts = [text for _, text in sorted(inbox.get() for _ in range(workers))]
        for rank in range(workers):
            with self._queue(f"out-{rank}") as theirs:
                theirs.put(texts)

    def _wait_for(self, queue: Queue, count: int, missing: str) -> None:
        deadline = time.monotonic() + _START_S
        while queue.qsize() < count:
            if not self._child().alive():
                raise UnavailableError(f"worker {self._rank}: its process ended while it started")
            if time.monotonic() > deadline:
                raise DeadlineExceededError(f"Start: {missing} in {_START_S:g} s")
            time.sleep(_POLL_S)
