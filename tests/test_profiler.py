"""tf.profiler: parameters, operations, time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sparkflow as tf

Build = tf.profiler.ProfileOptionBuilder


@pytest.fixture
def model(graph: Any) -> Any:
    x = tf.ones([4, 10])
    with tf.variable_scope("net"):
        tf.Variable(0, trainable=False, name="steps")
        y = tf.layers.dense(tf.layers.dense(x, 5, name="first"), 2, name="second")
    return y


def test_parameters_of_scopes(model: Any, capsys: Any) -> None:
    found = tf.profiler.profile(tf.get_default_graph(), options=Build.trainable_variables_parameter())
    assert found.total_parameters == 10 * 5 + 5 + 5 * 2 + 2
    (net,) = found.children
    assert {c.name: c.total_parameters for c in net.children} == {"net/first": 55, "net/second": 12}
    assert "  net (67 params)\n    net/first (55 params)\n" in capsys.readouterr().out


def test_float_operations(model: Any, tmp_path: Path) -> None:
    options = Build(Build.float_operation()).with_file_output(str(tmp_path / "out")).build()
    found = tf.profiler.profile(cmd="op", options=options)
    by_type = {c.name: c.total_float_ops for c in found.children}
    assert by_type["MatMul"] == 2 * 4 * 10 * 5 + 2 * 4 * 5 * 2 and by_type["BiasAdd"] == 4 * 5 + 4 * 2
    assert (tmp_path / "out").read_text().splitlines()[1].strip().startswith("MatMul (480 float_ops)")
    with pytest.raises(ValueError, match="cmd"):
        tf.profiler.profile(cmd="else")


def test_time_of_a_traced_step(model: Any) -> None:
    meta = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(model, options=options, run_metadata=meta)
    profiler = tf.profiler.Profiler(tf.get_default_graph())
    profiler.add_step(1, meta)
    quiet = Build(Build.time_and_memory()).with_empty_output().build()
    assert profiler.profile_name_scope(quiet).total_exec_micros > 0
    assert {c.name for c in profiler.profile_operations(quiet).children} >= {"MatMul"}
