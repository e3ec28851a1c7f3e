"""Nodes that hand on what they get are no calls in generated code, but in a trace."""

from typing import Any

import pytest

import sparkflow as tf
from sparkflow_runtime.worker import adapt
from sparkflow_runtime.worker.codegen import Call


def test_what_is_handed_on_is_no_call(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    whole = adapt.compile_segment

    def compile_segment(calls: list[Call], *rest: Any) -> Any:
        seen.update({call.node: call.function for call in calls})
        return whole(calls, *rest)

    monkeypatch.setattr(adapt, "compile_segment", compile_segment)
    v = tf.Variable([1.0, 2.0], name="v")
    default = tf.placeholder_with_default(tf.constant([3.0, 4.0]) * v, [2], name="default")
    fetches = [tf.identity(v, "own"), tf.stop_gradient(v + default, "stopped")]
    with tf.Session() as session:
        session.run(v.initializer)
        for _ in range(4):
            own, stopped = session.run(fetches)
            assert own.tolist() == [1, 2] and stopped.tolist() == [4, 10]
        assert session.run(fetches, {default: [0.0, 0.0]})[1].tolist() == [1, 2]
        own[:] = 7  # the caller's
        assert session.run(v).tolist() == [1, 2]
        metadata = tf.RunMetadata()
        session.run(fetches, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
    assert {seen[name] for name in ("own", "stopped", "v/read", "default")} == {"{}"}
    traced = {node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats}
    assert {"own", "stopped", "v/read", "default"} <= traced
