"""What a person sees of a training, on a terminal, in a log, and where nothing is configured."""

from __future__ import annotations

import io
import logging
import sys
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


def test_a_training_is_heard_to_its_end_where_another_one_ends_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two threads of a notebook: the later one's words, warnings too, went nowhere once the first had ended."""
    _console(monkeypatch, terminal=False)
    first, second = progress.display("first"), progress.display("second")
    with first:
        second.__enter__()
    progress.log.info("epoch 7")
    second.__exit__(None, None, None)
    progress.log.info("afterwards")
    said = capsys.readouterr().err
    assert "epoch 7" in said and "afterwards" not in said


def test_handlers_keep_their_stream_where_bars_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    _console(monkeypatch, terminal=True)
    handler = logging.StreamHandler(sys.stderr)
    logging.getLogger().addHandler(handler)
    first, second = progress.display("first"), progress.display("second")
    with first:
        second.__enter__()
    second.__exit__(None, None, None)
    assert handler.stream is sys.stderr and not hasattr(sys.stderr, "rich_proxied_file")


class _Notebook(Console):
    """A console in a notebook, in which each state of the bar is shown anew."""

    is_jupyter = property(lambda self: True, lambda self, value: None)  # type: ignore[assignment]


@pytest.mark.parametrize("widgets", [True, False])
def test_a_notebook_without_widgets_gets_lines(
    widgets: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It got no word of its progress, and a warning of rich's."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(progress, "Console", lambda stderr: _Notebook(file=io.StringIO()))
    monkeypatch.setattr(progress, "find_spec", lambda name: object() if widgets else None)
    bars: list[Any] = []
    monkeypatch.setattr(progress, "_Bar", lambda *_: bars.append(1) or progress._Lines("a bar"))
    with progress.display("training on local") as shown:
        shown.update(500, 1000, 99.0, 0.25, 0)
    assert len(bars) == widgets
    assert ("training on local: epoch 1, 500 examples" in capsys.readouterr().err) is not widgets


def test_the_bar_of_a_notebook_ends_with_the_last_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """rich refreshes none there when it stops: the bar stood where it was up to a fifth of a second before."""
    shown: list[Any] = []
    monkeypatch.setattr(progress.Progress, "refresh", lambda self: shown.append(self.tasks[0].completed))
    monkeypatch.setattr(progress.Progress, "start", lambda self: None)
    bar = progress._Bar(_Notebook(file=io.StringIO()), "training on dask")
    bar.update(36_096, 36_096, 1.0, 0.1, 1)
    bar.close()
    assert shown[-1] == 36_096
