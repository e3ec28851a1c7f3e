"""tf.DeviceSpec: what device functions of scripts for several GPUs do with it."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf


def test_parts() -> None:
    spec = tf.DeviceSpec(job="ps", task="1", device_type="gpu", device_index=0)
    assert spec.to_string() == "/job:ps/task:1/device:GPU:0" and spec.task == 1
    spec.task, spec.replica, spec.device_type = None, 2, "cpu"
    assert spec.to_string() == "/job:ps/replica:2/device:CPU:0"
    assert spec == tf.DeviceSpec("ps", 2, None, "CPU", 0) != tf.DeviceSpec("ps")
    assert hash(spec) == hash(tf.DeviceSpec("ps", 2, None, "CPU", 0)) and "job='ps'" in repr(spec)
    assert spec.parse_from_string("/job:worker/task:3") is spec
    assert spec.to_string() == "/job:worker/task:3", "no part of before"
    with pytest.raises(AttributeError, match="no part 'jobs'; it has job, replica"):
        spec.jobs = "worker"
    with pytest.raises(ValueError, match="invalid literal"):
        tf.DeviceSpec(task="x")


def test_merging() -> None:
    """The other's parts come first, as in TensorFlow."""
    spec = tf.DeviceSpec.from_string("/gpu:0")
    spec.merge_from(tf.DeviceSpec.from_string("/job:worker/task:3/cpu:1"))
    assert spec.to_string() == "/job:worker/task:3/device:CPU:1"
    spec.merge_from(tf.DeviceSpec(job="ps"))
    assert spec.to_string() == "/job:ps/task:3/device:CPU:1"
    other = tf.DeviceSpec(job="a").make_merged_spec(tf.DeviceSpec(task=1))
    assert (other.to_string(), other.replace(task=2).to_string()) == ("/job:a/task:1", "/job:a/task:2")
    assert other.task == 1


@pytest.mark.parametrize("returned", [lambda spec: spec, lambda spec: spec.to_string()])
def test_towers_that_keep_variables_on_the_cpu(graph: Any, returned: Any) -> None:
    """The device function of TensorFlow's CIFAR-10 example for several GPUs."""
    from sparkflow.python.framework import device as pydev

    def chosen(op: Any) -> Any:
        on_server = op.node_def.op in ("Variable", "VariableV2", "VarHandleOp")
        spec = pydev.DeviceSpec.from_string("/cpu:0" if on_server else "/gpu:1")
        spec.merge_from(pydev.DeviceSpec.from_string(op.device or ""))
        return returned(spec)

    with tf.device("/job:worker"), tf.device(chosen):
        variable = tf.get_variable("v", [2])
        twice = 2.0 * variable
        with tf.device(tf.DeviceSpec(device_type="gpu", device_index=3)):
            other = tf.constant(1)
    assert variable.op.device == "/job:worker/device:CPU:0"
    assert twice.device == "/job:worker/device:GPU:1" and other.device == "/job:worker/device:GPU:3"
    with tf.device(lambda op: None):
        assert tf.constant(1).device == ""
