from __future__ import annotations

from typing import Any

import pytest

from sparkflow_runtime.wire import edges
from sparkflow_runtime.wire.edges import both_spellings, parse, topological, verify
from sparkflow_runtime.wire.errors import InvalidArgumentError


def test_parse() -> None:
    assert parse("a") == ("a", 0)
    assert parse("scope/a:2") == ("scope/a", 2)


def test_verify_names_the_bad_edge(node: Any, graph_def: Any) -> None:
    good = graph_def(node("a", "Const"), node("b", "Neg", "a", "^a"))
    assert verify(good) is good
    with pytest.raises(InvalidArgumentError, match="two nodes are called 'a'"):
        verify(graph_def(node("a", "Const"), node("a", "Const")))
    with pytest.raises(InvalidArgumentError, match=r"'b'.*its input 'c:1'"):
        verify(graph_def(node("b", "Neg", "c:1")))
    with pytest.raises(InvalidArgumentError, match="control inputs must follow"):
        verify(graph_def(node("a", "Const"), node("b", "Neg", "^a", "a")))


def test_verify_accepts_inputs_that_were_sent_before(node: Any, graph_def: Any) -> None:
    verify(graph_def(node("b", "Neg", "a")), known={"a"})
    with pytest.raises(InvalidArgumentError, match="two nodes"):
        verify(graph_def(node("a", "Const")), known={"a"})


def test_topological_keeps_order_where_it_may(node: Any) -> None:
    nodes = [node("c", "Add", "a", "b"), node("b", "Const"), node("a", "Neg", "b")]
    assert [n.name for n in topological(nodes)] == ["b", "a", "c"]


def test_topological_cuts_at_feeds_and_finds_cycles(node: Any) -> None:
    ring = [node("a", "Neg", "b"), node("b", "Neg", "a")]
    with pytest.raises(InvalidArgumentError, match="cycle"):
        topological(ring)
    assert [n.name for n in topological(ring, ["b:0"])] == ["a", "b"]


def test_what_is_in_order_is_not_sorted(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    sort_by = edges.sort_by
    monkeypatch.setattr(
        edges, "sort_by", lambda names, waits, what: (asked.append(what), sort_by(names, waits, what))[1]
    )
    nodes = [node("a", "Const"), node("b", "Split", "a:1"), node("c", "Add", "b:2", "fed", "^a")]
    assert topological(nodes, ["fed:0"]) == nodes and not asked
    assert topological(nodes[::-1], ["fed:0"]) == [nodes[0], nodes[1], nodes[2]] and asked


def test_fed_edges_in_both_spellings() -> None:
    assert both_spellings(["a:0", "b:1"]) == {"a:0", "a", "b:1"}
