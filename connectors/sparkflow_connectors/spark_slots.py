"""Whether a Spark job gets task slots, and its tasks begin: Spark itself waits for both without a word, or an end.

It checks a barrier stage against the slots of all executors, busy or not, and then starts its tasks when enough of them
are free at once: behind another training, a streaming query, or executors that never come, that may be never.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import Any

from sparkflow_connectors.waiting import CLAIM_TIMEOUT_S, RETURN_TIMEOUT_S, Patience
from sparkflow_runtime.wire.errors import FailedPreconditionError, UnavailableError

_LOOK_EVERY_S = 1.0
_FIRST_WORD_S = 15.0  # what Spark counts may be as old as a heartbeat of its executors (10 s)
_BEGIN_S, _BEGIN_SORTED_S = 600.0, 3600.0
_WAITING, _LOST = "waiting", "lost"

log = logging.getLogger("sparkflow")


class SlotWatch:
    """Looks at a job, once a second at the most."""

    def __init__(self, held_by: Callable[[], str | None], workers: int, slots: Callable[[], int | None] = lambda: None):
        """held_by: says what may hold the task slots that the job's tasks wait for; None where they wait for none.
        slots: how many the executors have that run, busy or not, where that is known."""
        self._held_by, self._workers, self._slots = held_by, workers, slots
        self._next_s, self._patience = 0.0, Patience(_FIRST_WORD_S)

    def look(self) -> None:
        """Raises FailedPreconditionError where none of the job's tasks ran for 600 s though some are to, or so few
        executors are left for 300 s that they cannot: Spark has found out late that one was lost."""
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + _LOOK_EVERY_S
        held_by = self._held_by()
        if held_by is None:
            self._patience = Patience(_FIRST_WORD_S)
            return
        slots, what, limit_s = self._slots(), _WAITING, CLAIM_TIMEOUT_S
        if slots is not None and slots < self._workers:
            held_by, what, limit_s = f"the executors that run have {slots}: others were lost", _LOST, RETURN_TIMEOUT_S
        waited_s = self._patience.waited_s(what)
        if waited_s > limit_s:
            raise FailedPreconditionError(
                f"Spark ran no task of this training in {waited_s:.0f} s: its {self._workers} tasks need as many free "
                f"task slots at once; {held_by}. End what holds them, use fewer workers, or give the application "
                "more cores; see its executors and stages in Spark's UI"
            )
        self._patience.say("waiting for %d free task slots of Spark; %s", self._workers, held_by)


class TrackedStages:
    """The stages of a job group of classic Spark. tracker: a pyspark.StatusTracker."""

    def __init__(self, tracker: Any, group: str):
        self._tracker, self._group = tracker, group

    def held_by(self) -> str | None:
        """As SlotWatch asks it."""
        if not waits(self._tracker, self._group):
            return None
        others = len(set(self._tracker.getActiveJobsIds()) - set(self._tracker.getJobIdsForGroup(self._group)))
        return f"other jobs of this application that run now: {others}"


class ToldStages:
    """The stages of a thread's job over Spark Connect: every two seconds its client calls this in that thread, as a
    progress handler."""

    def __init__(self) -> None:
        self._thread, self._waits = 0, False

    def begin(self) -> None:
        """From that thread."""
        self._thread = threading.get_ident()

    def __call__(self, *, stages: Any = None, inflight_tasks: int = 0, done: bool = False, **others: Any) -> None:
        if threading.get_ident() == self._thread:  # a client tells its handlers of all threads' jobs
            unfinished = any(stage.num_completed_tasks < stage.num_tasks for stage in stages or ())
            self._waits = unfinished and not inflight_tasks and not done

    def held_by(self) -> str | None:
        """As SlotWatch asks it."""
        return "other jobs of the Spark Connect server may hold them" if self._waits else None


def waits(tracker: Any, group: str) -> bool:
    """Whether the group has stages whose tasks are to run, and none of them runs. tracker: a pyspark.StatusTracker."""
    active = set(tracker.getActiveJobsIds()) & set(tracker.getJobIdsForGroup(group))
    jobs = [job for i in active if (job := tracker.getJobInfo(i)) is not None]
    ids = {int(i) for job in jobs for i in job.stageIds}
    stages = [stage for i in ids if (stage := tracker.getStageInfo(i)) is not None]
    unfinished = [stage for stage in stages if stage.numCompletedTasks < stage.numTasks]
    return bool(unfinished) and not any(stage.numActiveTasks for stage in unfinished)


class LateTasks:
    """Looks at tasks of a barrier stage that have said no word though others have. Spark starts them all at once, and
    each speaks before it reads a row; but one whose Python stands still it would wait for as long as it may take."""

    def __init__(self, sorts: bool):
        """sorts: each task sorts its rows, which Spark may do before it calls for Python."""
        self._limit_s, self._patience = _BEGIN_SORTED_S if sorts else _BEGIN_S, Patience(_FIRST_WORD_S)

    def look(self, late: Collection[int]) -> None:
        """late: their ranks. Raises UnavailableError where they stay so for 600 s, or an hour where tasks sort."""
        waited_s, ranks = self._patience.waited_s(_WAITING), ", ".join(map(str, sorted(late)))
        if waited_s > self._limit_s:
            raise UnavailableError(
                f"Start: workers {ranks} did not begin within {waited_s:.0f} s of the others in their barrier stage: "
                "their Python did not start, or stands still. See their executors' logs"
            )
        self._patience.say("waiting for workers %s: Spark runs their tasks, and their Python says nothing yet", ranks)
