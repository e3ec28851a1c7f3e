"""What a cluster's jobs, indices and addresses must be, said where the Server is made."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf

TWO = {"ps": ["127.0.0.1:0"], "worker": ["127.0.0.1:0", "127.0.0.1:0"]}


@pytest.mark.parametrize("index", ["0", 0.0])  # the first as sys.argv has it
def test_an_index_is_a_number(index: Any) -> None:
    with pytest.raises(TypeError, match=f"'ps': a task's index is a whole number, got {index!r}"):
        tf.train.Server(TWO, "ps", index)


def test_tasks_are_numbered() -> None:
    with pytest.raises(ValueError, match=r"'ps': tasks are numbered, got the indices \['first'\]"):
        tf.train.ClusterSpec({"ps": {"first": "127.0.0.1:0"}})
    assert tf.train.ClusterSpec({"ps": {"3": "127.0.0.1:0"}}).task_indices("ps") == [3]  # as JSON has them


@pytest.mark.parametrize("name", ["p s", "9ps", "", "a:b", "a/b", "ps/task:1"])
def test_a_job_that_no_device_can_name(name: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="cannot be part of a device's name"):
        tf.train.Server({name: ["127.0.0.1:0"]})


def test_without_a_secret_it_says_where_one_is_set() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="SPARKFLOW_SECRET"):
        tf.train.Server({"ps": ["0.0.0.0:0"]})


def test_a_session_asks_for_its_servers_own_cluster_or_none() -> None:
    """In TensorFlow `cluster_def` tells a cluster to servers that were begun without."""
    server, other = tf.train.Server.create_local_server(), tf.train.Server.create_local_server()
    asked = tf.train.ClusterSpec({"worker": [server.address, other.address]})
    with tf.Graph().as_default():
        x = tf.constant(1)
        for target in (server.target, server.target.replace("127.0.0.1", "localhost")):
            with pytest.raises(tf.errors.UnimplementedError, match=r"begin each task by .* with the whole"):
                tf.Session(target, config=tf.ConfigProto(cluster_def=asked.as_cluster_def()))
        own = tf.train.ClusterSpec({"localhost": [server.address.replace("127.0.0.1", "localhost")]})
        for target, spec in (("", asked), (server.target, own)):
            with tf.Session(target, config=tf.ConfigProto(cluster_def=spec.as_cluster_def())) as session:
                assert session.run(x) == 1
    server.stop()
    other.stop()
