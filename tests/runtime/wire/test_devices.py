"""Device names as TensorFlow's DeviceSpec reads and prints them (recorded from 2.21)."""

from __future__ import annotations

import pytest

import sparkflow as tf

READ = {
    "": "",
    "cpu:0": "/device:CPU:0",
    "/cpu:0": "/device:CPU:0",
    "/CPU": "/device:CPU:*",
    "/gpu:*": "/device:GPU:*",
    "/device:GPU:1": "/device:GPU:1",
    "/job:worker/cpu:0": "/job:worker/device:CPU:0",
    "job:ps/task:1": "/job:ps/task:1",
    "/job:ps//GPU": "/job:ps/device:GPU:*",
    "/job:ps/replica:0/task:1/device:cpu:0/": "/job:ps/replica:0/task:1/device:CPU:0",
}


@pytest.mark.parametrize("name", READ)
def test_spellings(name: str, graph: tf.Graph) -> None:
    assert tf.DeviceSpec.from_string(name).to_string() == READ[name]
    with tf.device(name), tf.device(tf.DeviceSpec(job="ps")):
        assert tf.constant(1.0).op.device.startswith("/job:ps")


@pytest.mark.parametrize("name", ["/device:CPU", "/cpux:0", "/job:ps/task:x", "/cpu0", "cpu:0junk", "/task:1x", "/a"])
def test_refusals(name: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="cannot read"):
        tf.DeviceSpec.from_string(name)
