"""What a person sees of a training, on a terminal, in a log, and where nothing is configured."""

from __future__ import annotations

import io
import logging
from typing import Any

import pytest
from rich.console import Console

from sparkflow_connectors import progress


def _console(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> io.StringIO:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # pytest listens, too
    text = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda stderr: Console(file=text, force_terminal=terminal, width=80, _environ={})
    )
    return text


def test_stderr_hears_it_when_nobody_configured_logging(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _console(monkeypatch, terminal=False)
    with progress.display("training on local") as shown:
        progress.log.info("worker 0 started")
        shown.update(500, 1000, 99.0, 0.25, 0)
        shown.update(1000, 1000, 99.0, 0.125, 1)
    said = capsys.readouterr().err
    assert "worker 0 started" in said
    assert "training on local: epoch 2, 1000 examples (100 %), 99/s, loss 0.1250" in said, "the last word is kept"
    progress.log.info("afterwards")
    assert "afterwards" not in capsys.readouterr().err


def test_a_configured_logger_is_left_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _console(monkeypatch, terminal=False)
    heard: list[Any] = []
    handler = logging.Handler()
    handler.emit = heard.append  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    with progress.display("t"):
        progress.log.warning("once")
    assert [r.getMessage() for r in heard] == ["once"]
    assert "once" not in capsys.readouterr().err


def test_the_bar_ends_with_the_last_figures_and_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    text = _console(monkeypatch, terminal=True)
    with progress.display("training on spark") as shown:
        shown.update(1_000_000, 1_000_000, 123_456.0, 0.4321, 9)
    lines = [line for line in text.getvalue().split("\n") if "0.4321" in line]
    assert "epoch 10 1,000,000 rows 123,456/s loss 0.4321" in lines[-1]
    assert "0:00:0" in lines[-1], "nothing is cut off at 80 columns"
