"""Optimizers of tf.contrib.opt that leave updates out, those that go by signs, and LARS."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

opt = tf.contrib.opt
START = np.arange(1.0, 7).reshape(3, 2)


def _trained(optimizer: Any, grads: list[Any], start: Any = START) -> np.ndarray:
    """A variable after a step with each of the gradients, by the global step."""
    w, step = tf.Variable(start, dtype=tf.float64, name="w"), tf.train.create_global_step()
    given = tf.placeholder(tf.float64, start.shape)
    train = optimizer.apply_gradients([(given, w)], step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for grad in grads:
            session.run(train, {given: grad})
        return session.run(w)


@pytest.mark.parametrize("power", [False, True])
def test_signs_that_agree_make_larger_steps(graph: Any, power: bool) -> None:
    grads = [np.full((3, 2), 0.5), -np.full((3, 2), 0.25), np.zeros((3, 2)), START - 3]
    decay = opt.get_linear_decay_fn(8)
    made = opt.PowerSignOptimizer(0.1, base=2.0) if power else opt.AddSignOptimizer(0.1, alpha=1.5, sign_decay_fn=decay)
    w, m = START, np.zeros((3, 2))
    for step, g in enumerate(grads):
        m = 0.9 * m + 0.1 * g
        agreement = np.sign(g) * np.sign(m)
        w = w - 0.1 * g * (2.0**agreement if power else 1.5 + (1 - step / 8) * agreement)
    np.testing.assert_allclose(_trained(made, grads), w, rtol=1e-6)


@pytest.mark.parametrize("name", ["PowerSignOptimizer", "AddSignOptimizer"])
def test_signs_of_rows(graph: Any, name: str) -> None:
    """Rows of a sparse gradient move as those of a dense one, the others not at all, but their m decays."""
    made = getattr(opt, name)(0.1)
    w = tf.Variable(START, dtype=tf.float64)
    train = made.minimize(tf.reduce_sum(tf.square(tf.gather(w, [2, 0, 2]))))
    dense = tf.Variable(START, dtype=tf.float64)
    other = getattr(opt, name)(0.1).minimize(tf.reduce_sum(tf.square(tf.gather(dense, [2, 0, 2]) + 0 * dense)))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run([train, other])
        np.testing.assert_array_equal(session.run(w)[1], START[1])
        np.testing.assert_allclose(*session.run([w, dense]), rtol=1e-6)
        assert made.get_slot_names() == ["m"]


def test_how_signs_decay(graph: Any) -> None:
    steps = np.array([0, 2, 5, 8, 9])
    done = np.minimum(steps, 8) / 8
    cases = [
        (opt.get_linear_decay_fn(8), 1 - done),
        (opt.get_cosine_decay_fn(8), (1 + np.cos(np.pi * done)) / 2),
        (opt.get_cosine_decay_fn(8, num_periods=2, zero_after=1), (1 + np.cos(4 * np.pi * done)) / 2 * (2 * done < 1)),
        (opt.get_restart_decay_fn(8, num_periods=2), (1 + np.cos(np.pi * (2 * done % 1))) / 2),
        (opt.get_restart_decay_fn(8, 3, 2), (1 + np.cos(np.pi * (3 * done % 1))) / 2 * (3 * done < 2)),
    ]
    with tf.Session() as session:
        for decay, want in cases:
            found = session.run([decay(tf.constant(step)) for step in steps])
            np.testing.assert_allclose(found, want, atol=1e-6)
    with pytest.raises(ValueError, match="global_step is required"):
        opt.get_linear_decay_fn(8)(None)
    with pytest.raises(ValueError, match="zero_after must be larger than 0, got 0"):
        opt.get_cosine_decay_fn(8, zero_after=0)


def test_lars(graph: Any) -> None:
    g, w, m = np.cos(START), START, 0.0
    for _ in range(3):
        ratio = 0.01 * np.linalg.norm(w) / (np.linalg.norm(g) + 0.1 * np.linalg.norm(w))
        m = 0.9 * m + 0.5 * ratio * (g + 0.1 * w)
        w = w - m
    made = opt.LARSOptimizer(0.5, weight_decay=0.1, eeta=0.01)
    np.testing.assert_allclose(_trained(made, [g] * 3), w, rtol=1e-6)


def test_lars_leaves_alone_what_it_is_told_to(graph: Any) -> None:
    found = _trained(opt.LARSOptimizer(0.5, momentum=0.0, skip_list=["w"]), [START])
    np.testing.assert_allclose(found, START / 2)


def test_old_gradients_are_dropped(graph: Any) -> None:
    """The step that a gradient is of is fed, as if others had made steps meanwhile."""
    w, step = tf.Variable(10.0), tf.train.create_global_step()
    made = opt.DropStaleGradientOptimizer(tf.train.MomentumOptimizer(1.0, 0.0), 2)
    with pytest.raises(ValueError, match="compute_gradients before it"):
        made.apply_gradients([(tf.constant(1.0), w)], step)
    train = made.minimize(2 * w, step)
    begun = made._local_step
    assert begun is not None
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(train)
        session.run(train, {begun: 0})  # three steps ago
        counter = next(v for v in tf.global_variables() if v.op.name == "stale_counter")
        assert session.run([w, step, counter]) == [4, 3, 1]
        session.run(train, {begun: 1})
        assert session.run([w, step, counter]) == [2, 4, 1]
        summary = tf.Summary.FromString(session.run(tf.summary.merge_all()))
        assert summary.value[0].simple_value == pytest.approx(1 / 5)
    assert made.get_slot_names() == ["momentum"] and tf.train.get_global_step() is step


def test_stale_gradients_need_a_global_step(graph: Any) -> None:
    made = opt.DropStaleGradientOptimizer(tf.train.GradientDescentOptimizer(1.0), 0)
    with pytest.raises(ValueError, match="no global step"):
        made.compute_gradients(tf.Variable(1.0) * 2)


def test_workers_drop_what_others_overtook(cluster: Any, graph: Any) -> None:
    """A worker that computes slowly, while another one makes two steps."""
    overtake: list[Any] = []

    def slow(x: Any) -> Any:
        for move in overtake:
            move()
        return x

    with tf.device("/job:ps/task:0"):
        w, step = tf.Variable(10.0, name="w"), tf.train.create_global_step()
    with tf.device("/job:worker/task:0"):
        made = opt.DropStaleGradientOptimizer(tf.train.GradientDescentOptimizer(1.0), 1)
        loss = w * 3
        pairs = made.compute_gradients(loss)
        late = tf.py_func(slow, [pairs[0][0]], tf.float32)
        late.set_shape(())
        train = made.apply_gradients([(late, w)], step)
        other = tf.group(w.assign_sub(1.0), step.assign_add(1))
    servers = cluster(ps=1, worker=2)
    with tf.Session(servers["worker0"].target) as session, tf.Session(servers["worker1"].target) as second:
        session.run(tf.global_variables_initializer())
        overtake.append(lambda: second.run(other))
        session.run(train)
        assert session.run([w, step]) == [6, 2]  # one other step: taken
        overtake.append(lambda: second.run(other))
        session.run(train)
        assert session.run([w, step]) == [4, 4]  # two: dropped


@pytest.mark.parametrize("sparse", [False, True])
def test_tasks_that_a_batch_is_not_of_are_left_alone(graph: Any, sparse: bool) -> None:
    """Adam would move them still, by what its slots remember."""
    w, mask = tf.Variable(START, dtype=tf.float64), tf.placeholder(tf.float64, ())
    made = opt.MultitaskOptimizerWrapper(tf.train.AdamOptimizer(0.1))
    read = tf.gather(w, [0, 1]) if sparse else w
    train = made.minimize(mask * tf.reduce_sum(read))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train, {mask: 1})
        before = session.run([w, made.get_slot(w, "m")])
        session.run(train, {mask: 0})
        np.testing.assert_array_equal(before, session.run([w, made.get_slot(w, "m")]))
        session.run(train, {mask: 1})
        assert (session.run(w) < before[0]).any()
    with pytest.raises(TypeError, match=r"instance of tf\.train\.Optimizer"):
        opt.MultitaskOptimizerWrapper(made)


def test_gradients_of_tasks_are_clipped(graph: Any) -> None:
    pairs = [(tf.constant([3.0, 4.0]), "v"), (None, "w"), (tf.zeros([2]), "x")]
    clipped, norm = opt.clip_gradients_by_global_norm(pairs, 1.0)
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(clipped[0][0]), [0.6, 0.8], rtol=1e-6)
        np.testing.assert_array_equal(session.run(clipped[2][0]), [0, 0])
        assert session.run(norm) == 5 and clipped[1] == (None, "w")


@pytest.mark.parametrize("sparse", [False, True])
def test_late_gradients_are_corrected(graph: Any, sparse: bool) -> None:
    """Of two workers; each has a shadow, of the rows that it moved."""
    w, given = tf.Variable(START, dtype=tf.float64), tf.placeholder(tf.float64, (2, 2))
    grad = (
        tf.IndexedSlices(given, tf.constant([2, 0]), tf.constant([3, 2]))
        if sparse
        else tf.scatter_nd([[2], [0]], given, [3, 2])
    )
    made = opt.DelayCompensatedGradientDescentOptimizer(0.1, 2.0, num_workers=2)
    trains = [made.apply_gradients([(grad, w)], worker_index=i) for i in range(2)]
    want, shadows = START.copy(), [START.copy(), START.copy()]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for i, g in ((0, 1.0), (1, -2.0), (1, 0.5), (0, 3.0)):
            session.run(trains[i], {given: np.full((2, 2), g)})
            rows = [2, 0]
            want[rows] -= 0.1 * (g + 2 * g * g * (want[rows] - shadows[i][rows]))
            shadows[i][rows] = want[rows]
            np.testing.assert_allclose(session.run(w), want, rtol=1e-6)
        np.testing.assert_allclose(session.run(made.get_slot(w, "shadow_1"))[rows], shadows[1][rows], rtol=1e-6)
    with pytest.raises(ValueError, match=r"in the range \[0, 2\), got 2"):
        made.minimize(w * 2, worker_index=2)
    with pytest.raises(ValueError, match="num_workers must be positive: 0"):
        opt.DelayCompensatedGradientDescentOptimizer(0.1, 2.0, 0)
