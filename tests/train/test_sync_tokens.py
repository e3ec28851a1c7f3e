"""The tokens of synchronous replicas where servers kept those of an earlier training."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import sparkflow as tf
from sparkflow.train.sync_replicas import SyncReplicasOptimizer


def test_a_replica_that_believed_a_kept_mark_is_sent_on(graph: Any) -> None:
    """It came before the chief, which gives no tokens where an earlier training gave some; it gets the update's."""
    v, step = tf.Variable(1.0), tf.train.get_or_create_global_step()
    with tf.device("/job:localhost/task:0"):
        optimizer = SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 2)
        optimizer.apply_gradients([(tf.constant(1.0), v)], step)
        tokens = optimizer._tokens
        assert tokens is not None and tokens._shared is not None
        takes, put = [tokens.take(rank) for rank in range(2)], tokens.put(step.read_value(), 2)
    some, none = optimizer.get_init_tokens_op(), optimizer.get_init_tokens_op(0)
    queues = [tokens._shared, *tokens._own.values()]
    with tf.Session(graph=graph) as session:
        session.run(step.initializer)
        session.run(some)
        session.run(tokens._shared.dequeue_many(2))  # the earlier training's, but for those in their own queues
        found: list[int] = []
        early = threading.Thread(target=lambda: found.append(session.run(takes[1])))
        early.start()
        time.sleep(0.2)  # most likely it waits by now; where it does not, it is not led astray
        session.run(none)
        session.run(step.assign(7))
        session.run(put)
        early.join(20)
        assert found == [7]
        assert session.run(takes[0]) == 7
        session.run(some)
        # Nothing is left that would send a replica to its own queue, but for the one token that is there for each
        assert session.run([queue.size() for queue in queues]) == [2, 1, 1]


@pytest.mark.parametrize("number", [-1, 0])
def test_a_chief_that_begins_anew_need_not_wait_for_who_waits_for_it(graph: Any, number: int) -> None:
    """It was killed, say, and replicas wait for the tokens of an update that only it makes."""
    v, step = tf.Variable(1.0), tf.train.get_or_create_global_step()
    with tf.device("/job:localhost/task:0"):
        optimizer = SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 2)
        optimizer.apply_gradients([(tf.constant(1.0), v)], step)
        tokens = optimizer._tokens
        assert tokens is not None
        takes, put = [tokens.take(rank) for rank in range(2)], tokens.put(step.read_value(), 2)
    begin = optimizer.get_init_tokens_op(number)
    with tf.Session(graph=graph) as session:
        session.run([step.initializer, v.initializer])
        session.run(begin)
        for take in takes if number else ():
            session.run(take)
        replica = threading.Thread(target=lambda: session.run(takes[1]))
        replica.start()
        time.sleep(0.2)  # most likely it waits by now
        session.run(begin, options=tf.RunOptions(timeout_in_ms=20_000))
        session.run(put)
        replica.join(20)
        assert not replica.is_alive()
