"""Loops with two versions: which one runs when, and that a failed compile is said and harmless."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels.compiled import Compiled


def _double(out: Any, x: Any) -> None:
    for i in range(x.shape[0]):
        out[i] = 2 * x[i]


def _numpy_double(out: Any, x: Any) -> None:
    np.multiply(x, 2, out=out)


def _loop() -> Compiled:
    return Compiled(_double, ["void(float32[::1], float32[::1])"]).otherwise(_numpy_double)


def test_the_first_call_does_not_wait_and_later_ones_run_machine_code() -> None:
    loop, x, out = _loop(), np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    loop(out, x)
    assert (out == 2 * x).all()
    assert loop.wait(120)
    assert loop._call not in (loop._first, loop.numpy)
    out[:] = 0
    loop(out, x)
    assert (out == 2 * x).all()


def test_a_switch_keeps_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKFLOW_NUMBA", "0")
    loop = _loop()
    loop.prepare()
    assert loop._call is _numpy_double


def test_a_switch_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKFLOW_NUMBA", "wait")
    loop = _loop()
    loop(np.zeros(1, np.float32), np.ones(1, np.float32))
    assert loop.wait(0)


def test_a_loop_that_does_not_compile_is_said(caplog: pytest.LogCaptureFixture) -> None:
    broken = Compiled(lambda x: x.no_such_thing(), ["void(float32[::1])"]).otherwise(lambda x: 7)
    with caplog.at_level(logging.ERROR):
        assert broken(np.zeros(1, np.float32)) == 7
        after = _loop()
        assert after.wait(120), "the thread goes on with the next"
    assert "could not be compiled" in caplog.text
    assert broken(np.zeros(1, np.float32)) == 7


def test_importing_sparkflow_does_not_import_numba() -> None:
    code = "import sys, sparkflow; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
