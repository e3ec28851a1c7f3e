"""What is waited for is said, and to everybody where it lasts."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

from sparkflow_connectors import waiting
from sparkflow_connectors.waiting import Patience


def test_the_second_word_is_a_warning(caplog: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(waiting, "_WORD_EVERY_S", 0.0)
    with caplog.at_level("INFO", "sparkflow"):
        for patience in (Patience(0.0), Patience(0.0, later=logging.INFO)):
            for number in range(3):
                patience.say("waiting for %d", number)
        Patience(100.0).say("too soon")
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in said] == ["INFO", "WARNING", "WARNING", "INFO", "INFO", "INFO"]
    assert [text for _, text in said[:3]] == ["waiting for 0", "waiting for 1", "waiting for 2"]


def test_a_wait_is_counted_anew_for_something_else(monkeypatch: Any) -> None:
    clock = [10.0]
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    patience, waited = Patience(), []
    for what in ("a", "a", "b", "a"):
        waited.append(patience.waited_s(what))
        clock[0] += 5.0
    assert waited == [0.0, 5.0, 0.0, 0.0]
