"""Segments of many calls have a frame that Python puts into memory of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sparkflow_runtime.worker import codegen
from sparkflow_runtime.worker.codegen import Call, compile_segment, with_room


def _words(run: Callable[..., Any]) -> int:
    code = run.__code__
    return len(code.co_varnames) + len(code.co_cellvars) + len(code.co_freevars) + code.co_stacksize


@pytest.mark.parametrize(("count", "own"), [(3, False), (codegen.WORTH_ROOM, True), (5000, True)])
def test_a_segment(count: int, own: bool) -> None:
    """Each call adds one to what the call before gave."""
    calls = [Call("first", lambda: 0, [])]
    calls += [Call(f"n{i}", lambda x: x + 1, [("local", i - 1)]) for i in range(1, count)]
    calls[-1] = Call("last", lambda x: x + 1, [("local", count - 2)], stores=[(0, None)])
    segment, values = compile_segment(calls), [None]
    segment.run(values)
    assert values == [count - 1]
    assert (_words(segment.run) > codegen._CHUNK_WORDS) == own


def test_what_is_large_already_stays() -> None:
    def run(x: int) -> int:
        return x

    with_room(run, codegen.WORTH_ROOM)
    found = run.__code__
    assert with_room(run, codegen.WORTH_ROOM).__code__ is found
    assert run(3) == 3
