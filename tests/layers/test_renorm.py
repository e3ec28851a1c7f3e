"""Batch renormalisation, against its rules written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

X = np.random.default_rng(5).normal(2.0, 3.0, (6, 8, 3)).astype(np.float32)


def _by_hand(batches: list[np.ndarray]) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """(what each batch becomes, the variables after it): momentum 0.9, renorm_momentum 0.8, rmax 1.5, dmax 0.3."""
    moving, moving_dev, mean, dev = np.zeros(3), np.ones(3), np.zeros(3), np.ones(3)
    out = []
    for x in batches:
        mu, sigma = x.mean(0), np.sqrt(x.var(0) + 1e-3)
        r, d = np.minimum(sigma / dev, 1.5), np.clip((mu - mean) / dev, -0.3, 0.3)
        out.append((x - mu) / sigma * r + d)
        mean, dev = mean + 0.2 * (mu - mean), dev + 0.2 * (sigma - dev)
        moving, moving_dev = moving + 0.1 * (mu - moving), moving_dev + 0.1 * (sigma - moving_dev)
    variance = moving_dev**2 - 1e-3
    return out, {"moving_mean": moving, "moving_variance": variance, "renorm_mean": mean, "renorm_stddev": dev}


@pytest.mark.parametrize("of_tensor", [False, True])
def test_training_and_not(graph: Any, of_tensor: bool) -> None:
    x, training = tf.placeholder(tf.float32, [None, 3]), tf.placeholder_with_default(True, [])
    y = tf.layers.batch_normalization(
        x, momentum=0.9, renorm=True, renorm_clipping={"rmax": 1.5, "dmax": 0.3}, renorm_momentum=0.8,
        training=training if of_tensor else True,
    )  # fmt: skip
    with graph.control_dependencies(graph.get_collection(tf.GraphKeys.UPDATE_OPS)):
        out = tf.identity(y)
    expected, after = _by_hand(list(X))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for batch, wanted in zip(X, expected):
            np.testing.assert_allclose(session.run(out, {x: batch}), wanted, rtol=1e-4, atol=1e-4)
        found = {v.op.name.rpartition("/")[2]: session.run(v) for v in tf.global_variables()}
        for name, value in after.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-4)
        if of_tensor:
            still = session.run(out, {x: X[0], training: False})
            wanted = (X[0] - after["moving_mean"]) / np.sqrt(after["moving_variance"] + 1e-3)
            np.testing.assert_allclose(still, wanted, rtol=1e-4, atol=1e-4)
            np.testing.assert_array_equal(session.run("batch_normalization/renorm_mean:0"), found["renorm_mean"])


def test_what_it_refuses(graph: Any) -> None:
    with pytest.raises(ValueError, match="invalid keys for `renorm_clipping`"):
        tf.layers.batch_normalization(tf.ones([2, 3]), renorm=True, renorm_clipping={"max": 1})
    with pytest.raises(ValueError, match="`fused=True` and `renorm=True`"):
        tf.layers.batch_normalization(tf.ones([2, 3, 3, 1]), renorm=True, fused=True)
