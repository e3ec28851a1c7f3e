"""Hooks around the runs of a session that its caller holds, under the names by which libraries import them."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf
from sparkflow.python.ops.array_ops import rank_internal, shape_internal, size_internal
from sparkflow.python.training.monitored_session import _HookedSession as HookedSession


class _Adds(tf.train.SessionRunHook):
    def __init__(self, fetch: Any, feed: Any):
        self.fetch, self.feed, self.seen = fetch, feed, []

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs(self.fetch, self.feed)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen.append(run_values.results)
        assert run_values.options == tf.RunOptions() and run_values.run_metadata == tf.RunMetadata()
        if len(self.seen) == 2:
            run_context.request_stop()


def test_hooks_add_to_a_run(graph: Any) -> None:
    x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    hook = _Adds([x * 2], {y: 5.0})
    with tf.Session() as session:
        hooked = HookedSession(session, [hook])
        assert hooked.graph is graph and hooked.run({"sum": x + y}, {x: 1.0}) == {"sum": 6.0}
        with pytest.raises(RuntimeError, match="fed by two hooks"):
            hooked.run(x, {x: 1.0, y: 2.0})
        hooked.run(x, {x: 3.0})
        assert hook.seen == [[2.0], [6.0]] and hooked.should_stop()
        with pytest.raises(RuntimeError, match="after should_stop"):
            hooked.run(x, {x: 1.0})


def test_names_inside_array_ops(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    with tf.Session() as session:
        found = session.run(
            [shape_internal(x, optimize=False), size_internal(x, out_type=tf.int64), rank_internal(x)],
            {x: [[1, 2, 3], [4, 5, 6]]},
        )
    assert found[0].tolist() == [2, 3] and found[1] == 6 and found[2] == 2
