"""Variables by name, values for them, conditions that may be known, structures; old homes of names."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import framework

nest = framework.nest


def two_layers() -> tuple[Any, Any]:
    made = []
    for scope in ("a", "b"):
        with tf.variable_scope(scope):
            made.append(framework.model_variable("weights", [2, 3], initializer=tf.zeros_initializer()))
    return made[0], made[1]


def test_variables_are_found_by_name(graph: Any) -> None:
    a, b = two_layers()
    other = framework.global_variable(1.0, name="heavyweights")
    assert framework.get_variables_by_name("weights") == [a, b] == framework.get_variables_by_suffix("/weights")
    assert framework.get_variables_by_name("weights", "b") == framework.get_variables_by_name("b/weights") == [b]
    assert framework.filter_variables([a, b, other], ["weights"], ["^a/"]) == [b, other]
    assert framework.filter_variables([a, b, other], ["weights"], reg_search=False) == []
    framework.add_model_variable(a)
    framework.add_model_variable(other)
    assert framework.get_model_variables() == [a, b, other] and not other.trainable
    assert framework.get_variable_full_name(b) == "b/weights"


def test_values_are_assigned_by_name(graph: Any) -> None:
    a, b = two_layers()
    assign = framework.assign_from_values_fn({"a/weights": np.arange(6.0), "b/weights": np.ones([2, 3])})
    with tf.Session() as session:
        assign(session)
        np.testing.assert_array_equal(session.run([a, b]), [[[0, 1, 2], [3, 4, 5]], np.ones([2, 3])])
    with pytest.raises(ValueError, match="uniquely identify"):
        framework.assign_from_values({"c/weights": np.ones(6)})


def test_values_are_assigned_from_a_checkpoint(graph: Any, tmp_path: Path) -> None:
    a, b = two_layers()
    parts = tf.get_variable("table", [4, 2], partitioner=tf.fixed_size_partitioner(2))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([a.assign(np.ones([2, 3])), *(p.assign(i * tf.ones([2, 2])) for i, p in enumerate(parts))])
        path = tf.train.Saver([a, *parts]).save(session, str(tmp_path / "m"))
        op, feeds = framework.assign_from_checkpoint(path, {"a/weights": b, "table": list(parts)})
        session.run(tf.global_variables_initializer())
        session.run(op, feeds)
        np.testing.assert_array_equal(session.run(b), np.ones([2, 3]))
        np.testing.assert_array_equal(session.run(list(parts)), [np.zeros([2, 2]), np.ones([2, 2])])
    with pytest.raises(ValueError, match=r"missing variable \[b/weights\]"):
        framework.assign_from_checkpoint(path, [a, b])
    framework.assign_from_checkpoint(path, [a, b, *parts], ignore_missing_vars=True)
    with pytest.raises(ValueError, match=r"is \[2, 3\] in .*, the variable \[4\]"):
        framework.assign_from_checkpoint(path, {"a/weights": tf.get_variable("v", [4])})


def test_only_the_branch_of_a_known_condition_is_made(graph: Any) -> None:
    for pred, expected in ((True, "yes"), (0, "no"), (tf.constant(True), "yes")):
        assert framework.smart_cond(pred, lambda: "yes", lambda: "no") == expected
    given = tf.placeholder(tf.bool, [])
    either = framework.smart_cond(given, lambda: tf.constant(1), lambda: tf.constant(2))
    with tf.Session() as session:
        assert [session.run(either, {given: g}) for g in (True, False)] == [1, 2]
    assert framework.smart_constant_value(given) is None
    with pytest.raises(TypeError, match="must be callable"):
        framework.smart_cond(True, 1, 2)
    with pytest.raises(TypeError, match="Found instead: 'x'"):
        framework.smart_constant_value("x")


def test_small_ones(graph: Any) -> None:
    with tf.name_scope("outer"), tf.name_scope("inner"):
        assert framework.get_name_scope() == "outer/inner"
    step = tf.train.get_or_create_global_step()
    assert framework.assert_or_get_global_step() is step is framework.assert_or_get_global_step(None, step)
    with pytest.raises(ValueError, match="Expected integer type"):
        framework.assert_scalar_int(tf.constant(1.0))
    assert "num_outputs" not in framework.arg_scoped_arguments(tf.contrib.layers.conv2d)
    assert "padding" in framework.arg_scoped_arguments(tf.contrib.layers.conv2d)
    with framework.arg_scope([tf.contrib.layers.conv2d], padding="VALID") as scope:
        assert framework.current_arg_scope() is scope


def test_structures_part_of_the_way() -> None:
    shallow, deep = {"a": 0, "b": [0, 0]}, {"a": (1, 2), "b": [3, {"c": 4}]}
    assert nest.flatten_up_to(shallow, deep) == [(1, 2), 3, {"c": 4}]
    assert nest.map_structure_up_to([0, 0], lambda x, y: (x, y), [1, [2]], [3, 4]) == [(1, 3), ([2], 4)]
    assert nest.flatten_dict_items({"a": 1, ("b", ("c",)): (2, (3,))}) == {"a": 1, "b": 2, "c": 3}
    assert nest.flatten_with_joined_string_paths(deep) == [("a/0", 1), ("a/1", 2), ("b/0", 3), ("b/1/c", 4)]
    assert nest.is_sequence([]) and not nest.is_sequence("text")
    for one, other, error, text in (
        ([0], 1, TypeError, "must also be a sequence"), ([0], (1,), TypeError, "a list and a tuple"),
        ([0], [1, 2], ValueError, "1 and 2 parts"), ({"a": 0}, {"b": 0}, ValueError, "keys"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            nest.assert_shallow_structure(one, other)
    with pytest.raises(ValueError, match="not unique"):
        nest.flatten_dict_items({("a", "b"): (1, 2), "a": 3})


def test_names_in_the_files_where_tensorflow_keeps_them() -> None:
    from sparkflow.python import HOMES
    from sparkflow.python.client import device_lib
    from sparkflow.python.framework import ops
    from sparkflow.python.ops import array_ops, control_flow_ops, rnn_cell_impl, tensor_array_ops
    from sparkflow.python.platform import gfile

    assert ops.Tensor is tf.Tensor and array_ops.reshape is tf.reshape and gfile.Exists is tf.gfile.Exists
    assert control_flow_ops.while_loop is tf.while_loop and tensor_array_ops.TensorArray is tf.TensorArray
    assert rnn_cell_impl.RNNCell is tf.nn.rnn_cell.RNNCell
    assert device_lib.list_local_devices()[0].name == "/device:CPU:0"
    with pytest.raises(AttributeError, match=r"sparkflow\.python\.framework\.ops has no 'nothing' here"):
        _ = ops.nothing
    for path, homes in HOMES.items():
        for home in homes:
            assert import_module(home), path


def test_a_program_of_tests() -> None:
    program = """
        import sparkflow as tf

        class SquareTest(tf.test.TestCase):
            def testSquare(self):
                with self.test_session():
                    self.assertAllEqual(tf.square([2, 3]).eval(), [4, 9])

        if __name__ == "__main__":
            tf.test.main()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "OK" in done.stderr, done.stderr


def test_a_cluster_in_this_process(graph: Any) -> None:
    workers, servers = tf.test.create_local_cluster(num_workers=2, num_ps=1)
    try:
        with tf.device("/job:ps/task:0"):
            v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
        with tf.device("/job:worker/task:1"):
            added = tf.assign_add(v, 2.0)
        with tf.Session(workers[0].target) as session:
            session.run(v.initializer)
            assert session.run(added) == 2
    finally:
        for server in (*workers, *servers):
            server.stop()


def test_variables_go_to_tasks_in_turn(graph: Any) -> None:
    chooser = framework.VariableDeviceChooser(num_tasks=2, replica=1)
    found = [framework.variable(f"v{i}", [2], device=chooser).device for i in range(3)]
    assert found == [f"/job:ps/replica:1/task:{i}/device:CPU:0" for i in (0, 1, 0)]
    alone = framework.VariableDeviceChooser(job_name="worker", device_type="GPU", device_index=3)
    with tf.device(alone):
        assert tf.get_variable("alone", [2]).device == "/job:worker/device:GPU:3"
