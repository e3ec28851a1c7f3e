"""TF_CONFIG, read and written."""

from __future__ import annotations

import json

import pytest

import sparkflow as tf
from sparkflow.train.cluster_resolver import tf_config

CLUSTER = {"chief": ["c:1"], "ps": ["p:1", "p:2"], "worker": ["w:1", "w:2"]}


def told(monkeypatch: pytest.MonkeyPatch, job: str, index: int, cluster: object = CLUSTER) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": job, "index": index}}))


def test_the_resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, "worker", 1)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    assert (resolver.task_type, resolver.task_id) == ("worker", 1)
    assert resolver.cluster_spec().as_dict() == CLUSTER
    assert resolver.master() == "sparkflow://w:2" and resolver.master("ps", 0, "grpc") == "grpc://p:1"
    other = tf.distribute.cluster_resolver.TFConfigClusterResolver(task_type="ps", task_id=0)
    assert other.master() == "sparkflow://p:1"


def test_without_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    assert resolver.master() == "" and resolver.task_type is None and not resolver.cluster_spec()
    config = tf.estimator.RunConfig(model_dir="/m")
    assert (config.task_type, config.task_id, config.is_chief, config.master) == ("worker", 0, True, "")
    assert (config.num_ps_replicas, config.num_worker_replicas, config.global_id_in_cluster) == (0, 1, 0)


def test_the_simple_resolver() -> None:
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(CLUSTER, task_type="ps", task_id=1)
    assert resolver.master() == "sparkflow://p:2" and resolver.master("worker", 0) == "sparkflow://w:1"
    assert tf.distribute.cluster_resolver.SimpleClusterResolver(CLUSTER, "grpc://m:1").master() == "grpc://m:1"


@pytest.mark.parametrize(
    "job, index, chief, number",
    [("chief", 0, True, 0), ("worker", 0, False, 1), ("worker", 1, False, 2), ("ps", 1, False, 4)],
)
def test_run_config(monkeypatch: pytest.MonkeyPatch, job: str, index: int, chief: bool, number: int) -> None:
    told(monkeypatch, job, index)
    config = tf.estimator.RunConfig(save_checkpoints_steps=10)
    assert (config.task_type, config.task_id, config.is_chief) == (job, index, chief)
    assert (config.num_ps_replicas, config.num_worker_replicas, config.global_id_in_cluster) == (2, 3, number)
    assert config.master == f"sparkflow://{CLUSTER[job][index]}"
    assert (config.save_checkpoints_steps, config.save_checkpoints_secs) == (10, None)
    other = config.replace(save_checkpoints_secs=5, model_dir="/m")
    assert (other.save_checkpoints_steps, other.save_checkpoints_secs, other.model_dir) == (None, 5, "/m")
    assert config.model_dir is None


def test_what_is_written_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    sparse = {"ps": ["p:1"], "worker": {0: "w:1", 4: "w:5"}}
    monkeypatch.setenv("TF_CONFIG", tf_config(sparse, "worker", 4))
    config = tf.estimator.RunConfig()
    assert config.cluster_spec == tf.train.ClusterSpec(sparse) and config.master == "sparkflow://w:5"
    assert not config.is_chief and config.num_worker_replicas == 2
    assert tf.train.ClusterSpec(sparse).job_tasks("worker") == ["w:1", None, None, None, "w:5"]


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, what in (
        ("{", "is no JSON"),
        ("[1]", "expected"),
        ('{"task": 3}', "expected"),
        ('{"task": {"index": "zero"}}', "TF_CONFIG: the task's index should be a number, got 'zero'"),
        ('{"task": {"type": "evaluator", "index": null}}', "a number, got None"),
    ):
        monkeypatch.setenv("TF_CONFIG", text)
        with pytest.raises(tf.errors.InvalidArgumentError, match=what):
            tf.estimator.RunConfig()
    told(monkeypatch, "worker", 9)
    with pytest.raises(tf.errors.InvalidArgumentError, match="has no task 9"):
        tf.distribute.cluster_resolver.TFConfigClusterResolver()
    monkeypatch.delenv("TF_CONFIG")
    with pytest.raises(ValueError, match="not both"):
        tf.estimator.RunConfig(save_checkpoints_secs=1, save_checkpoints_steps=1)
    with pytest.raises(ValueError, match="task_id cannot be replaced"):
        tf.estimator.RunConfig().replace(task_id=3)


@pytest.mark.parametrize("chiefs", [{"chief": ["a:1", "a:2"]}, {"chief": ["a:1"], "master": ["a:2"]}])
def test_two_chiefs_are_refused(chiefs: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would initialize the variables, and save to the same files."""
    told(monkeypatch, "worker", 0, {**chiefs, "worker": ["b:1"]})
    with pytest.raises(ValueError, match="a cluster has one chief"):
        tf.estimator.RunConfig()


def test_a_target_in_tf_config_goes_before_the_address_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {
        "cluster": {"chief": ["h:1"], "worker": ["h:2"]},
        "session_master": "grpc://x:1",
        "eval_session_master": "e",
    }
    for kind, master, evaluating in (("worker", "grpc://x:1", "e"), ("evaluator", "", "")):
        monkeypatch.setenv("TF_CONFIG", json.dumps({**fields, "task": {"type": kind, "index": 0}}))
        config = tf.estimator.RunConfig()
        assert (config.master, config.evaluation_master) == (master, evaluating)
    monkeypatch.setenv("TF_CONFIG", json.dumps({**fields, "task": {"type": "worker", "index": 0}}))
    assert tf.distribute.cluster_resolver.TFConfigClusterResolver().master() == "grpc://x:1"
    monkeypatch.setenv("TF_CONFIG", json.dumps({"session_master": "grpc://x:1"}))
    assert tf.estimator.RunConfig().master == "grpc://x:1"


def test_addresses_are_strings() -> None:
    for tasks in ([1], [None], {0: b"h:1"}, ["h:1", ("h", 2)]):
        with pytest.raises(TypeError, match="Job 'ps': an address is a string"):
            tf.train.ClusterSpec({"ps": tasks})
