"""Optimizers of tf.contrib.opt whose workers train variables of their own, on parameter servers."""

from __future__ import annotations

import time
from threading import Thread
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.session.server import traffic_of

opt = tf.contrib.opt


def _variables(getter: Any, worker: int, **made: Any) -> list[Any]:
    """Variables that a program makes as ever, within the getter's scope and the setter's."""
    setter = tf.train.replica_device_setter(ps_tasks=1, worker_device=f"/job:worker/task:{worker}")
    with tf.variable_scope("", custom_getter=getter), tf.device(setter):
        tf.train.get_or_create_global_step()
        return [tf.get_variable(name, initializer=value) for name, value in made.items()]


def _elastic(worker: int, workers: int, period: int, gradient: float, **settings: Any) -> tuple[Any, Any, list[Any]]:
    """The train op, its hook, and v, its center and the global step."""
    getter = opt.ElasticAverageCustomGetter(f"/job:worker/task:{worker}")
    (v,) = _variables(getter, worker, v=0.0)
    with tf.device(f"/job:worker/task:{worker}"):
        made = opt.ElasticAverageOptimizer(
            tf.train.GradientDescentOptimizer(1.0), workers, getter, period, moving_rate=0.5, **settings
        )
        train = made.apply_gradients([(tf.constant(gradient), v)], tf.train.get_global_step())
    hook = made.make_session_run_hook(worker == 0, worker)
    return train, hook, [v, getter.center_of(v), tf.train.get_global_step()]


def test_a_worker_and_its_center_draw_near(cluster: Any, graph: Any) -> None:
    train, hook, kept = _elastic(0, 1, 2, -1.0)
    v, center, _ = kept
    assert v.device == "/job:worker/task:0" and center.device == "/job:ps/task:0"
    assert v in tf.trainable_variables() and v in tf.local_variables() and v not in tf.global_variables()
    assert center in tf.global_variables() and center not in tf.trainable_variables()
    with tf.train.MonitoredTrainingSession(cluster(ps=1, worker=1)["worker0"].target, hooks=[hook]) as session:
        seen = []
        for _ in range(4):
            session.run(train)
            seen.append(session.run(kept))
    assert seen == [[1, 0, 0], [1, 1, 1], [2, 1, 1], [2, 2, 2]]


def test_two_workers_have_one_center(cluster: Any) -> None:
    """The second one begins where the center is, and moves it too."""
    servers = cluster(ps=1, worker=2)
    parts = []
    for worker in range(2):
        with tf.Graph().as_default():
            train, hook, kept = _elastic(worker, 2, 1, -1.0 - worker)
            target = servers[f"worker{worker}"].target
            session = tf.train.MonitoredTrainingSession(target, is_chief=worker == 0, hooks=[hook])
            parts.append((session, kept))
            session.run(train)
    (first, kept0), (second, kept1) = parts
    assert first.run(kept0) == [0.5, 1.5, 2]  # the center: 0 + 0.5, and then it draws near 0.5 + 2
    assert second.run(kept1) == [1.5, 1.5, 2]
    for session in (first, second):
        session.close()


def _moved(address: str) -> int:
    """Bytes to and from the server, once the threads that send have counted theirs: that may be after the step, which
    waits for an answer alone."""
    before = -1
    while True:
        traffic = traffic_of(address)["/job:ps/replica:0/task:0"]
        now = sum(n for k, n in traffic.items() if k.startswith("bytes"))
        if now == before:
            return now
        before = now
        time.sleep(0.02)


def test_steps_between_exchanges_stay_on_the_worker(cluster: Any, monkeypatch: Any) -> None:
    """Of four steps only the last one moves the variable, of 80 kB, and its center between worker and server."""
    monkeypatch.setenv("SPARKFLOW_SECRET", "secret")
    with tf.Graph().as_default():
        getter, size = opt.ElasticAverageCustomGetter("/job:worker/task:0"), 20_000
        (v,) = _variables(getter, 0, v=np.zeros(size, np.float32))
        with tf.device("/job:worker/task:0"):
            made = opt.ElasticAverageOptimizer(tf.train.GradientDescentOptimizer(1.0), 1, getter, 4, moving_rate=0.5)
            train = made.apply_gradients([(tf.ones([size]), v)], tf.train.get_global_step())
        hook, server = made.make_session_run_hook(True, 0), cluster(ps=1, worker=1)["worker0"]
        seen = []
        with tf.train.MonitoredTrainingSession(server.target, hooks=[hook]) as session:
            for _ in range(9):
                seen.append(_moved(server.address))
                session.run(train)
    moved = np.diff(seen)
    assert (moved[[1, 2, 4, 5, 6]] < 10_000).all() and (moved[[3, 7]] > 80_000).all(), moved


def test_workers_that_begin_together(cluster: Any) -> None:
    servers, begun = cluster(ps=1, worker=2), []

    def work(worker: int) -> None:
        with tf.Graph().as_default():
            _, hook, kept = _elastic(worker, 2, 1, -1.0, synchronous=True)
            target = servers[f"worker{worker}"].target
            with tf.train.MonitoredTrainingSession(target, is_chief=worker == 0, hooks=[hook]) as session:
                begun.append(session.run(kept))

    others = Thread(target=work, args=(1,), daemon=True)
    others.start()
    work(0)
    others.join(30)
    assert begun == [[0, 0, 0]] * 2


def test_the_loss_holds_a_worker_near_the_center(graph: Any) -> None:
    """rho is moving_rate / learning rate by default: 0.5 / 0.25. What Adam keeps is the worker's own as well."""
    getter = opt.ElasticAverageCustomGetter("")
    with tf.variable_scope("", custom_getter=getter):
        v = tf.get_variable("v", initializer=[1.0, 2.0])
    made = opt.ElasticAverageOptimizer(tf.train.AdamOptimizer(0.25), 1, getter, 100, moving_rate=0.5)
    ((grad, _),) = made.compute_gradients(tf.reduce_sum(3 * v))
    train, begin = made.minimize(tf.reduce_sum(3 * v)), made.get_init_op(0)
    assert {"beta1_power", "beta2_power", "v/Adam"} <= {var.op.name for var in tf.local_variables()}
    assert [var.op.name for var in tf.global_variables()] == ["global_center_variable/v"]
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(begin)
        np.testing.assert_allclose(session.run(grad), [3, 3])
        session.run(v.assign_add([0.5, 0.0]))
        np.testing.assert_allclose(session.run(grad), [3 + 0.5 / 0.25 * 0.5, 3])
        session.run(train)
    with pytest.raises(ValueError, match="other:0 has no global_center_variable"):
        made.compute_gradients(2 * tf.Variable(1.0, name="other"))
    with pytest.raises(ValueError, match="give rho"):
        opt.ElasticAverageOptimizer(tf.train.Optimizer(False, "bare"), 1, getter)
    with pytest.raises(ValueError, match="must be 1 or more, got 0"):
        opt.ElasticAverageOptimizer(tf.train.AdamOptimizer(), 1, getter, communication_period=0)


def test_centers_are_saved_as_the_variables(graph: Any, tmp_path: Any) -> None:
    getter = opt.ElasticAverageCustomGetter("")
    with tf.variable_scope("m", custom_getter=getter, partitioner=tf.fixed_size_partitioner(2)):
        w = tf.get_variable("w", [4, 2], initializer=tf.ones_initializer())
    with tf.variable_scope("m", custom_getter=getter):
        b = tf.get_variable("b", initializer=5.0)
    made = opt.ElasticAverageOptimizer(tf.train.GradientDescentOptimizer(1.0), 1, getter, 1, moving_rate=0.5)
    train = made.apply_gradients([(tf.constant(1.0), b), *[(tf.ones([2, 2]), part) for part in w]])
    saver = made.swapping_saver()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(train)
        path = saver.save(session, str(tmp_path / "model"))
    assert tf.train.load_variable(path, "m/b") == 4.5
    np.testing.assert_array_equal(tf.train.load_variable(path, "m/w"), np.full((4, 2), 0.5))
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="no variables that the custom_getter made"):
        made.swapping_saver()


def test_workers_take_their_mean(cluster: Any) -> None:
    """Every second step; none goes on before all have come."""
    servers = cluster(ps=1, worker=2)
    seen: dict[int, list[Any]] = {0: [], 1: []}

    def work(worker: int) -> None:
        with tf.Graph().as_default():
            getter = opt.ModelAverageCustomGetter(f"/job:worker/task:{worker}")
            (v,) = _variables(getter, worker, v=0.0)
            step = tf.train.get_global_step()
            with tf.device(f"/job:worker/task:{worker}"):
                sgd = tf.train.GradientDescentOptimizer(1.0)
                made = opt.ModelAverageOptimizer(sgd, 2, worker == 0, getter, interval_steps=2)
                train = made.apply_gradients([(tf.constant(-1.0 - worker), v)], step)
            hook, target = made.make_session_run_hook(), servers[f"worker{worker}"].target
            kept = [v, getter.center_of(v), step]
            with tf.train.MonitoredTrainingSession(target, is_chief=worker == 0, hooks=[hook]) as session:
                for _ in range(4):
                    session.run(train)
                    seen[worker].append(session.run(kept))

    other = Thread(target=work, args=(1,), daemon=True)
    other.start()
    work(0)
    other.join(30)
    assert [own for own, _, _ in seen[0]] == [1, 3, 4, 6] and [own for own, _, _ in seen[1]] == [2, 3, 5, 6]
    assert all(mine[1] == [3, 3, 1] and mine[3] == [6, 6, 2] for mine in seen.values())


def test_means_need_a_step_and_a_chief(graph: Any) -> None:
    getter = opt.ModelAverageCustomGetter("")
    with tf.variable_scope("", custom_getter=getter):
        v = tf.get_variable("v", initializer=0.0)
    made = opt.ModelAverageOptimizer(tf.train.GradientDescentOptimizer(1.0), 1, True, getter)
    with pytest.raises(ValueError, match="Global step is required"):
        made.apply_gradients([(tf.constant(1.0), v)])
    with pytest.raises(ValueError, match="at least one variable"):
        made.apply_gradients([], tf.train.create_global_step())
    with pytest.raises(ValueError, match="before using the hook"):
        made.make_session_run_hook().begin()
