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


def test_many_fetches_of_all_kinds(graph: Any) -> None:
    """Taken at once where all are arrays; variables, constants and numbers among them are what they are."""
    variables = [tf.Variable([float(k)], name=f"v{k}") for k in range(12)]
    reads = [tf.identity(v) for v in variables]
    constant, count = tf.constant(2.5), tf.size(variables[0])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            found = session.run(reads)
            assert [f.tolist() for f in found] == [[k] for k in range(12)]
            found[3][:] = 100  # the caller's own
            mixed = session.run([*variables, constant, count, *reads])
            assert [m.tolist() for m in mixed] == [*([k] for k in range(12)), 2.5, 1, *([k] for k in range(12))]
