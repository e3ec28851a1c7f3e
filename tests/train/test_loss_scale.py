"""Loss scaling. The numbers are TensorFlow 2.21's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

E = tf.train.experimental


def test_a_fixed_scale_leaves_gradients_as_they_are(graph: Any) -> None:
    v, table = tf.Variable(3.0), tf.Variable(np.ones((3, 2), np.float32))
    loss = v * v + tf.reduce_sum(tf.gather(table, [1, 1]))
    optimizer = E.MixedPrecisionLossScaleOptimizer(tf.train.GradientDescentOptimizer(0.1), 1024)
    pairs = optimizer.compute_gradients(loss)
    step = optimizer.apply_gradients(pairs)
    scaled = [op for op in tf.get_default_graph().get_operations() if op.type == "Mul" and op.outputs[0].shape == ()]
    assert isinstance(pairs[1][0], tf.IndexedSlices) and scaled
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(pairs[0][0]) == 6.0
        session.run(step)
        np.testing.assert_allclose(session.run(v), 2.4, rtol=1e-6)
        np.testing.assert_allclose(session.run(table)[1], [0.8, 0.8], rtol=1e-6)


def test_a_dynamic_scale_follows_the_gradients(graph: Any) -> None:
    x, v = tf.placeholder(tf.float32, []), tf.Variable(1.0)
    scale = E.DynamicLossScale(initial_loss_scale=4.0, increment_period=2, multiplier=2.0)
    optimizer = E.MixedPrecisionLossScaleOptimizer(tf.train.MomentumOptimizer(0.5, 0.0), scale)
    count = tf.train.get_or_create_global_step()
    step = optimizer.minimize(v * x, count)
    seen = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for given in (1.0, 1.0, np.inf, np.nan, np.inf, np.inf, 1.0):
            session.run(step, {x: given})
            seen.append(tuple(float(n) for n in session.run([scale(), v, count])))
    assert seen == [(4, 0.5, 1), (8, 0, 2), (4, 0, 2), (2, 0, 2), (1, 0, 2), (1, 0, 2), (1, -0.5, 3)]
    assert {w.op.name for w in optimizer.variables()} >= {"current_loss_scale", "good_steps", "Variable/Momentum"}
    assert E.DynamicLossScale.from_config(scale.get_config()).increment_period == 2


def test_the_rewrite_scales_and_says_that_it_does_no_more(graph: Any) -> None:
    with pytest.warns(UserWarning, match="ops stay those of float32"):
        optimizer = E.enable_mixed_precision_graph_rewrite(tf.train.AdamOptimizer(), 128.0)
    assert isinstance(optimizer, tf.mixed_precision.MixedPrecisionLossScaleOptimizer)
    assert optimizer.get_slot_names() == []
    with pytest.raises(ValueError, match="must not already be"):
        E.enable_mixed_precision_graph_rewrite(optimizer)
    for wrong, text in (("x", "Could not interpret"), (0.5, "at least 1")):
        with pytest.raises(ValueError, match=text):
            E.MixedPrecisionLossScaleOptimizer(tf.train.AdamOptimizer(), wrong)
    with pytest.raises(ValueError, match="must be an instance of Optimizer"):
        E.MixedPrecisionLossScaleOptimizer(3, 2)
