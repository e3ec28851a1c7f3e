"""Whether variables have values: asked together where nothing is in the way, with the same answers."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf
from sparkflow_runtime.wire.attrs import Shape, node_attrs
from sparkflow_runtime.wire.dtypes import bool_, float32

V = {"dtype": float32, "shape": Shape((2,)), "container": "", "shared_name": ""}


def _graph(node: Any, graph_def: Any, *more: Any, device: str = "", **changed: Any) -> Any:
    asks = {"dtype": float32, "device": device}
    return graph_def(
        node("v", "VariableV2", device=device, **V),
        node("w", "VariableV2", device=changed.get("other", device), **{**V, "shared_name": "W", "container": "box"}),
        node("v_is", "IsVariableInitialized", "v", **asks),
        node("w_is", "IsVariableInitialized", "w", *changed.get("waits", ()), **asks),
        node("both", "Pack", "v_is", "w_is", N=2, T=bool_, axis=0, device=device),
        *more,
    )


def test_variables_are_asked_by_name(node: Any, graph_def: Any, optimized: Any) -> None:
    found = optimized(_graph(node, graph_def), "fusion", fetches=["both:0"])
    assert {name: n.op for name, n in found.items()} == {"both": "_AreInitialized"}
    attrs = node_attrs(found["both"])
    assert attrs["names"] == ["v", "W"] and attrs["containers"] == ["", "box"]


def test_variables_that_others_use_stay(node: Any, graph_def: Any, optimized: Any) -> None:
    more = node("read", "Identity", "v", T=float32)
    found = optimized(_graph(node, graph_def, more), "fusion", fetches=["both:0", "read:0"])
    assert set(found) == {"both", "read", "v"} and found["both"].op == "_AreInitialized"


@pytest.mark.parametrize("why", ["used", "fetched", "fed", "waits", "two places", "place left open"])
def test_others_are_asked_one_by_one(node: Any, graph_def: Any, optimized: Any, why: str) -> None:
    ps, fetches, options = "/job:ps/task:0", ["both:0"], {"one_device": why not in ("two places", "place left open")}
    more, changed, feeds = [], {}, []
    if why == "used":
        more, fetches = [node("not", "LogicalNot", "w_is")], ["both:0", "not:0"]
    elif why == "fetched":
        fetches = ["both:0", "v_is:0"]
    elif why == "fed":
        feeds = ["w_is:0"]
    elif why == "waits":
        more, changed = [node("n", "NoOp")], {"waits": ["^n"]}
    elif why == "two places":
        changed = {"device": ps, "other": "/job:ps/task:1"}
    else:
        changed = {"device": "/job:ps"}
    graph = _graph(node, graph_def, *more, **changed)
    found = optimized(graph, "fusion", fetches=fetches, feeds=feeds, **options)
    assert found["both"].op == "Pack"


def test_on_named_tasks_variables_are_asked_together(node: Any, graph_def: Any, optimized: Any) -> None:
    found = optimized(_graph(node, graph_def, device="/job:ps/task:0"), "fusion", fetches=["both:0"], one_device=False)
    assert found["both"].op == "_AreInitialized" and found["both"].device == "/job:ps/task:0"


def test_the_answers_are_those_of_each_variable(graph: Any) -> None:
    names = [f"v{i}" for i in range(5)]
    made = [tf.Variable(1.0, name=name) for name in names]
    missing = tf.report_uninitialized_variables()
    with tf.Session() as session:
        assert session.run(missing).tolist() == [name.encode() for name in names]
        session.run([made[3].initializer, made[1].initializer])
        assert session.run(missing).tolist() == [b"v0", b"v2", b"v4"]
        assert session.run([missing, made[1]])[0].tolist() == [b"v0", b"v2", b"v4"]
        session.run(tf.global_variables_initializer())
        assert session.run(missing).tolist() == []
