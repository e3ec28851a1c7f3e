"""The thread of a queue of events outlives whatever it is asked to do."""

from __future__ import annotations

import threading

import pytest

from sparkflow_runtime.resources.events import Events


def test_an_error_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Be it of an event or of a look: who waits for what comes next would wait without end."""
    looks, done, looked = list[int](), threading.Event(), threading.Event()

    def look() -> None:
        looks.append(1)
        if len(looks) < 4:
            raise ValueError(f"look {len(looks)}")
        looked.set()

    def fails() -> None:
        raise ValueError("an event")

    events = Events("events of a test", look, lambda: 0.001 if len(looks) < 4 else None)
    events.put(fails)
    events.put(done.set)
    assert done.wait(20) and looked.wait(20)
    events.close(lambda: None)
    said = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert sorted(said) == ["an event", "look 1", "look 2", "look 3"]
