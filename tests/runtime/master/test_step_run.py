"""StepRun: a step over several tasks, as its master sees it."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from sparkflow_runtime.master import step_run
from sparkflow_runtime.master.step_run import StepRun
from sparkflow_runtime.wire.errors import CancelledError, UnavailableError


def test_a_step_whose_only_part_is_lost_fails_before_anybody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's thread sees that nobody is waited for as soon as the part is gone: the error must be there too."""
    over = threading.Event()
    threads = []

    def start(handle: int, step_id: int, feeds: list[Any], done: Any, *_: Any) -> None:
        threads.append(threading.Timer(0.05, done, (UnavailableError("the peer closed the connection"), None)))
        threads[-1].start()

    task = SimpleNamespace(start=start, abort=lambda *_: None)
    part = SimpleNamespace(name="/job:ps/task:0", task=task, handle=1, feeds=[])
    compiled: Any = SimpleNamespace(others=[part], own=None, opening=frozenset())
    own: Any = SimpleNamespace(rendezvous=SimpleNamespace(end=lambda _: None))
    monkeypatch.setattr(StepRun, "_tell", staticmethod(lambda _: over.wait(30)))
    try:
        with pytest.raises(UnavailableError, match="the peer closed the connection"):
            StepRun(own, compiled, [], 7).run(None)
    finally:
        over.set()
        threads[-1].join()


def test_a_step_that_is_cancelled_does_not_wait_for_who_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody answers: neither to the run nor to the abort."""
    monkeypatch.setattr(step_run, "_ABORT_GRACE_S", 0.1)
    started = threading.Event()
    task = SimpleNamespace(start=lambda *_: started.set(), abort=lambda *_: None)
    part = SimpleNamespace(name="/job:ps/task:0", task=task, handle=1, feeds=[])
    compiled: Any = SimpleNamespace(others=[part], own=None, opening=frozenset())
    step = StepRun(SimpleNamespace(rendezvous=SimpleNamespace(end=lambda _: None)), compiled, [], 7)  # type: ignore[arg-type]
    threading.Thread(target=lambda: (started.wait(30), time.sleep(0.05), step.abort(CancelledError("closed")))).start()
    begun = time.monotonic()
    with pytest.raises(CancelledError, match="closed"):
        step.run(20)
    assert time.monotonic() - begun < 10
