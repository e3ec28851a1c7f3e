"""Bytes objects made by loops: what Python's slices and joins give, and no reference too many or too few."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import csv_loops, text_makers
from sparkflow_runtime.kernels.parsing import Examples
from sparkflow_runtime.kernels.text_makers import join_texts, joined, make_texts, texts_of

COUNT = 3000


@pytest.fixture(params=["machine code", "python"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for loop in (make_texts, join_texts):
        monkeypatch.setattr(loop, "_call", loop.compile() if request.param == "machine code" else loop.numpy)
    yield request.param


def drawn() -> tuple[bytes, np.ndarray]:
    rng = np.random.default_rng(0)
    begins = rng.integers(0, 900, COUNT)
    return rng.bytes(1000), np.stack([begins, begins + rng.integers(0, 100, COUNT)], 1)


def test_parts_of_a_buffer(version: str) -> None:
    text, spans = drawn()
    found = texts_of(np.frombuffer(text, np.uint8), spans)
    wanted = [text[a:b] for a, b in spans.tolist()]
    assert (found is None) if version == "python" else (found is not None and found.tolist() == wanted)
    assert texts_of(np.frombuffer(text, np.uint8), spans[:3]) is None  # so few Python cuts sooner


def test_joins(version: str) -> None:
    text, spans = drawn()
    parts = np.fromiter([text[a:b] for a, b in spans.tolist()], object, COUNT)
    one = np.array([b"\0-"], object)
    found = joined([parts, one, parts], [1, 0, 1], COUNT, b"ab")
    wanted = [p + b"ab\0-ab" + p for p in parts]
    assert (found is None) if version == "python" else (found is not None and found.tolist() == wanted)
    parts[COUNT // 2] = "no bytes"
    assert joined([parts, one], [1, 0], COUNT) is None


@pytest.mark.skipif(not text_makers.AS_EXPECTED, reason="CPython's layout")
def test_references_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_texts, "_call", make_texts.compile())
    text, spans = drawn()
    buffer, before = np.frombuffer(text, np.uint8), sys.getrefcount(None)
    for _ in range(5):
        found = texts_of(buffer, np.add(spans, [0, 2]))  # none is short: of those CPython has one each
        assert found is not None
        others = np.fromiter((b"abc%d" % i for i in range(9)), object, 9)
        assert {*map(sys.getrefcount, found)} == {*map(sys.getrefcount, others)}
    assert abs(sys.getrefcount(None) - before) < COUNT // 2


def collections() -> int:
    return sum(stats["collections"] for stats in gc.get_stats())


def test_parts_are_nothing_for_the_collector(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list or a tuple for each value would have Python's collector go through the heap again and again."""
    monkeypatch.setattr(csv_loops.read_lines, "_call", csv_loops.read_lines.compile())
    lines = np.array([b"%d,a%d,b" % (i, i) for i in range(COUNT)] * 3, object)
    text, spans = drawn()
    examples: Any = SimpleNamespace(found=SimpleNamespace(buffer=np.frombuffer(text, np.uint8)))
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.string, [None])
        column = tf.decode_csv(fed, [[0], [""], [""]])[1]
        session.run(column, {fed: lines[:10]})
        before = collections()
        found, parts = session.run(column, {fed: lines}), Examples.strings(examples, np.tile(spans, (3, 1)))
        assert collections() - before <= 3
    assert found.tolist() == [b"a%d" % i for i in range(COUNT)] * 3
    assert parts.tolist() == [text[a:b] for a, b in spans.tolist()] * 3
