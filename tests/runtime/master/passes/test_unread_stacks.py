"""Stacks that nobody reads go, with what was computed for them alone; all others stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.wire.dtypes import float32, int32

F = {"T": float32}
Made = Any


def pushed(node: Made, size: int = -1) -> list[Any]:
    return [
        node("x", "Placeholder", dtype=float32),
        node("made", "Exp", "x", **F),
        node("first", "Neg", "x", **F),
        node("size", "Const", value=np.array(size, np.int32), dtype=int32),
        node("stack", "StackV2", "size", elem_type=float32),
        node("push", "StackPushV2", "stack", "made", "^first", **F),
        node("pop", "StackPopV2", "stack", "^push", elem_type=float32),
        node("gate", "NoOp", "^pop"),
        node("out", "Assert", "x", "x", "^gate"),
    ]


def left(found: dict[str, Any]) -> set[str]:
    return {n.name for n in found.values() if n.op.startswith("Stack")}


def test_one_that_nobody_reads(node: Made, graph_def: Made, optimized: Made) -> None:
    found = optimized(graph_def(*pushed(node)), "dependencies", targets=["out"])
    assert not left(found) and "made" not in found
    assert "first" in found, "whoever waited for the push waits for what it waited for"


@pytest.mark.parametrize("fetched", ["push:0", "pop:0"])
def test_one_that_is_fetched(node: Made, graph_def: Made, optimized: Made, fetched: str) -> None:
    found = optimized(graph_def(*pushed(node)), "dependencies", fetches=[fetched], targets=["out"])
    assert left(found) == {"stack", "push", "pop"}


def test_one_that_may_be_full(node: Made, graph_def: Made, optimized: Made) -> None:
    found = optimized(graph_def(*pushed(node, size=0)), "dependencies", targets=["out"])
    assert left(found) == {"stack", "push", "pop"}


@pytest.mark.parametrize("reader", ["Neg", "StackCloseV2"])
def test_one_that_is_read_or_closed(node: Made, graph_def: Made, optimized: Made, reader: str) -> None:
    last = node("last", reader, *(["pop"] if reader == "Neg" else ["stack", "^out"]))
    found = optimized(graph_def(*pushed(node), last), "dependencies", targets=["last", "out"])
    assert left(found) >= {"stack", "push", "pop"}
