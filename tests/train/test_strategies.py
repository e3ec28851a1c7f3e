"""Strategies in one process; workers that train together are in tests/cluster/test_train_and_evaluate.py."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.train.distributed_optimizer import Group, Means

distribute: Any = tf.distribute
experimental, contrib = distribute.experimental, tf.contrib.distribute
MAKE: dict[str, Any] = {
    "mirrored": lambda: distribute.MirroredStrategy(cross_device_ops=distribute.HierarchicalCopyAllReduce(2)),
    "one of a list": lambda: distribute.MirroredStrategy(["/cpu:0"]),
    "one device": lambda: distribute.OneDeviceStrategy("/cpu:0"),
    "central": experimental.CentralStorageStrategy,
    "servers": experimental.ParameterServerStrategy,
    "workers": lambda: experimental.MultiWorkerMirroredStrategy(experimental.CollectiveCommunication.RING),
    "contrib mirrored": lambda: contrib.MirroredStrategy(num_gpus=1),
    "contrib workers": lambda: contrib.CollectiveAllReduceStrategy(num_gpus_per_worker=1),
    "contrib servers": contrib.ParameterServerStrategy,
}
X = np.random.default_rng(0).random((64, 3), np.float32)
Y = X @ np.array([[1.0], [2.0], [3.0]], np.float32)


def _estimator(folder: Any, **settings: Any) -> Any:
    def model(features: Any, labels: Any, mode: str) -> Any:
        assert distribute.has_strategy() == ("train_distribute" in settings and mode == "train")
        loss = tf.losses.mean_squared_error(labels, tf.layers.dense(features, 1, name="line"))
        train_op = tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return tf.estimator.Estimator(model, str(folder), tf.estimator.RunConfig(**settings))


def _rows(input_context: Any) -> Any:
    assert (input_context.num_input_pipelines, input_context.input_pipeline_id) == (1, 0)
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(input_context.get_per_replica_batch_size(16))


@pytest.mark.parametrize("name", MAKE)
def test_one_process_trains_as_without_one(tmp_path: Any, name: str) -> None:
    strategy = MAKE[name]()
    assert isinstance(strategy, distribute.Strategy) and strategy.num_replicas_in_sync == 1
    found = []
    for folder, settings in ((tmp_path / "a", {"train_distribute": strategy}), (tmp_path / "b", {})):
        estimator = _estimator(folder, **settings)
        estimator.train(_rows)
        assert estimator.evaluate(_rows)["global_step"] == 4
        found.append(estimator.get_variable_value("line/kernel"))
    np.testing.assert_array_equal(*found)
    assert not distribute.has_strategy()


def test_the_scope(graph: Any) -> None:
    strategy = distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope() as inside:
        v = tf.get_variable("v", [2])
        assert inside is strategy is distribute.get_strategy() and distribute.has_strategy()
        assert distribute.get_replica_context().strategy is strategy
        with distribute.MirroredStrategy().scope():
            assert distribute.get_strategy() is not strategy
        assert distribute.get_strategy() is strategy
    assert v.device == "/device:CPU:0" and not distribute.has_strategy()


def test_a_cluster_says_how_many_replicas_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}}))
    strategy = experimental.MultiWorkerMirroredStrategy()
    assert strategy.num_replicas_in_sync == 3
    with strategy.scope():
        assert distribute.get_replica_context().num_replicas_in_sync == 3
    assert experimental.ParameterServerStrategy().num_replicas_in_sync == 1


def test_gradients_become_means_once(graph: Any) -> None:
    v = tf.get_variable("v", [3, 2])
    rows = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1]), tf.constant([3, 2]))
    means = Means(Group(2))
    once = means([(tf.ones([3, 2]), v), (rows, v), (None, v)])
    count = sum(op.type.startswith("Collective") for op in graph.get_operations())
    assert count == 3 and once[2] == (None, v)
    assert means(once) is once
    assert sum(op.type.startswith("Collective") for op in graph.get_operations()) == count


def test_what_cannot_be_is_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for make in (
        lambda: distribute.MirroredStrategy(["/gpu:0", "/gpu:1"]),
        lambda: contrib.MirroredStrategy(num_gpus=4),
        lambda: contrib.CollectiveAllReduceStrategy(2),
        lambda: tf.estimator.RunConfig(experimental_distribute=contrib.DistributeConfig(remote_cluster={"ps": ["a"]})),
    ):
        with pytest.raises(tf.errors.UnimplementedError, match=r"process|TF_CONFIG"):
            make()
    with pytest.raises(TypeError, match=r"train_distribute must be a tf.distribute.Strategy, got 'mirrored'"):
        tf.estimator.RunConfig(train_distribute="mirrored")
    told = {"cluster": {"worker": ["a:1", "b:1"], "ps": ["c:1"]}, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(told))
    estimator = _estimator(tmp_path, train_distribute=experimental.MultiWorkerMirroredStrategy())
    with pytest.raises(tf.errors.InvalidArgumentError, match="leave them out"):
        estimator.train(_rows)


def test_a_config_says_its_strategies() -> None:
    strategy = distribute.MirroredStrategy()
    config = tf.estimator.RunConfig(experimental_distribute=contrib.DistributeConfig(strategy, strategy))
    assert config.train_distribute is config.eval_distribute is strategy
    assert tf.estimator.RunConfig().replace(train_distribute=strategy).train_distribute is strategy


def test_statistics_of_a_batch_become_means_where_all_workers_compute_them(
    monkeypatch: pytest.MonkeyPatch, graph: Any
) -> None:
    told = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(told))

    def collectives(training: Any, x: Any = None) -> int:
        before = len(graph.get_operations())
        tf.layers.batch_normalization(tf.zeros([4, 3]) if x is None else x, training=training)
        return sum(op.type.startswith("Collective") for op in graph.get_operations()[before:])

    assert collectives(True) == 0
    with experimental.MultiWorkerMirroredStrategy().scope():
        assert collectives(True) == 1 and collectives(True, tf.zeros([2, 5, 5, 3])) == 1
        assert collectives(False) == collectives(tf.placeholder(tf.bool, [])) == 0
        in_a_branch: list[int] = []
        tf.cond(tf.constant(True), lambda: in_a_branch.append(collectives(True)) or 0, lambda: 1)
        assert in_a_branch == [0]
