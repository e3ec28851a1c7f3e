"""The strategy of a program that chooses none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

distribute = tf.distribute


def test_what_it_says_of_itself() -> None:
    strategy, replica = distribute.get_strategy(), distribute.get_replica_context()
    assert strategy is distribute.get_strategy() is replica.strategy and strategy.cluster_resolver is None
    assert strategy.num_replicas_in_sync == replica.num_replicas_in_sync == 1 and replica.replica_id_in_sync_group == 0
    assert not distribute.has_strategy() and not distribute.in_cross_replica_context()
    with strategy.scope() as inside:
        assert inside is strategy and not distribute.has_strategy() and distribute.get_replica_context() is replica
    assert distribute.get_loss_reduction() is distribute.ReduceOp.SUM and distribute.Server is tf.train.Server
    with pytest.raises(AttributeError, match=r"no 'extended' here.*replica_device_setter"):
        _ = strategy.extended


def test_values(graph: Any) -> None:
    strategy, replica = distribute.get_strategy(), distribute.get_replica_context()
    x = tf.constant([1.0, 3.0])
    found = {
        "run": strategy.run(lambda a, b: a * b, (x,), {"b": 2.0}),
        "sum": strategy.reduce("sum", x, axis=0),
        "mean": strategy.reduce(distribute.ReduceOp.MEAN, {"x": x}, axis=0)["x"],
        "all": replica.all_reduce("SUM", [x, 2.0]),
        "gathered": replica.all_gather(x, 0),
    }
    assert strategy.reduce("SUM", x) is x and strategy.unwrap(x) == (x,) and strategy.gather(x, 0) is x
    assert replica.merge_call(lambda s, a, b: (s is strategy, a, b), (1,), {"b": 2}) == (True, 1, 2)
    with tf.Session() as session:
        values = session.run(found)
    assert values["run"].tolist() == [2, 6] and (values["sum"], values["mean"]) == (4, 2)
    np.testing.assert_equal(values["all"], [[1, 3], 2])
    assert values["gathered"].tolist() == [1, 3]
    with pytest.raises(ValueError, match="'XX' is not a valid ReduceOp"):
        strategy.reduce("xx", x)


def test_for_all_replicas_together() -> None:
    replica = distribute.get_replica_context()
    together = lambda s: (distribute.in_cross_replica_context(), distribute.get_replica_context())  # noqa: E731
    assert replica.merge_call(together) == (True, None)
    with pytest.raises(RuntimeError, match="not within another merge_call"):
        replica.merge_call(lambda s: replica.merge_call(together))
    assert together(None) == (False, replica)


def test_datasets(graph: Any) -> None:
    strategy, rows = distribute.get_strategy(), tf.data.Dataset.range(2)
    assert strategy.experimental_distribute_dataset(rows) is rows
    one = strategy.make_dataset_iterator(rows)
    other = strategy.make_input_fn_iterator(lambda context: rows.batch(context.get_per_replica_batch_size(2)))
    taken, batch = one.get_next(), strategy.experimental_run(lambda x: x * 10, other)
    with tf.Session() as session:
        session.run([one.initialize(), other.initialize()])
        assert [session.run(taken) for _ in range(2)] == [0, 1] and session.run(batch).tolist() == [0, 10]
    context = distribute.InputContext(2, 1, 4)
    assert context.get_per_replica_batch_size(8) == 2
    assert str(context) == "tf.distribute.InputContext(input pipeline id 1, total: 2)"
    with pytest.raises(ValueError, match="9 is not divisible by `num_replicas_in_sync` 4"):
        context.get_per_replica_batch_size(9)
