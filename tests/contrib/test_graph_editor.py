"""tf.contrib.graph_editor: walks along the edges of a graph."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf

pytestmark = pytest.mark.usefixtures("graph")


def _diamond() -> dict[str, Any]:
    """a -> b, c -> d; w waits for b."""
    a = tf.constant(1.0, name="a")
    b, c = tf.negative(a, name="b"), tf.square(a, name="c")
    d = tf.add(b, c, name="d")
    with tf.control_dependencies([b]):
        w = tf.constant(2.0, name="w")
    return {"a": a, "b": b, "c": c, "d": d, "w": w}


def _names(ops: list[Any]) -> list[str]:
    return [op.name for op in ops]


def test_what_something_is_computed_from() -> None:
    t, walk = _diamond(), tf.contrib.graph_editor.get_backward_walk_ops
    assert _names(walk(t["d"])) == ["d", "b", "c", "a"] == _names(walk([t["d"].op]))
    assert _names(walk(t["d"], inclusive=False)) == ["b", "c", "a"]
    assert _names(walk(t["d"], stop_at_ts=[t["b"], t["c"]])) == ["d"]
    assert _names(walk(t["d"], within_ops=[t["d"].op, t["b"].op])) == ["d", "b"]
    assert walk(t["d"], within_ops=[t["b"].op]) == []  # nor are seeds
    assert _names(walk(t["d"], within_ops_fn=lambda op: op.type != "Neg")) == ["d", "c", "a"]
    assert _names(walk(t["w"])) == ["w"]
    assert _names(walk(t["w"], control_inputs=True)) == ["w", "b", "a"]
    assert walk([]) == []


def test_what_is_computed_from_something() -> None:
    t, walk = _diamond(), tf.contrib.graph_editor.get_forward_walk_ops
    assert _names(walk(t["a"].op)) == ["a", "b", "c", "d"]
    assert _names(walk(t["a"])) == ["b", "c", "d"]  # of a tensor, what takes it
    assert _names(walk(t["a"], inclusive=False)) == ["d"]
    assert _names(walk(t["a"].op, stop_at_ts=[t["b"], t["c"]])) == ["a", "b", "c"]
    assert _names(walk(t["b"].op, control_outputs=True)) == ["b", "d", "w"]
    assert _names(walk(t["c"].op, within_ops=[t["c"].op])) == ["c"]
    assert walk([]) == []


def test_loops_end_a_walk_once_around() -> None:
    i = tf.while_loop(lambda i: i < 5, lambda i: i + 1, [tf.constant(0)])
    found = tf.contrib.graph_editor.get_backward_walk_ops(i)
    assert len(found) == len(set(found)) and {op.type for op in found} >= {"Exit", "Merge", "Enter", "NextIteration"}


def test_other_seeds_are_refused() -> None:
    for walk in (tf.contrib.graph_editor.get_backward_walk_ops, tf.contrib.graph_editor.get_forward_walk_ops):
        with pytest.raises(TypeError, match="seed_ops must be operations or tensors of a graph, got 'a'"):
            walk("a")
