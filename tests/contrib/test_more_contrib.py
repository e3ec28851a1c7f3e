"""Vector distributions against numpy, and SavedModels as functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

ds = tf.contrib.distributions


def run(*fetches: Any) -> Any:
    with tf.Session() as session:
        return session.run(fetches)


def test_independent_normals(graph: Any) -> None:
    loc, scale = np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([1.0, 2.0])
    normal, other = ds.MultivariateNormalDiag(loc, scale), ds.MultivariateNormalDiag(loc + 1, scale * 2)
    x = loc + 0.5
    log_prob, entropy, apart, cov, sample = run(
        normal.log_prob(x), normal.entropy(), ds.kl_divergence(normal, other), normal.covariance(),
        normal.sample(4000, seed=1),
    )  # fmt: skip
    each = -0.5 * (0.5 / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(log_prob, [each.sum()] * 2)
    np.testing.assert_allclose(entropy, [(0.5 * (1 + np.log(2 * np.pi)) + np.log(scale)).sum()] * 2)
    np.testing.assert_allclose(apart, [(np.log(2) + (1 + (1 / scale) ** 2) / 8 - 0.5).sum()] * 2)
    np.testing.assert_allclose(cov, [np.diag([1, 4])] * 2)
    np.testing.assert_allclose(sample.mean(0), loc, atol=0.15)
    assert normal.batch_shape.as_list() == [2] and normal.event_shape.as_list() == [2]
    wide = ds.MultivariateNormalDiag(tf.zeros([3, 2]), scale_identity_multiplier=[1.0, 2.0, 3.0])
    np.testing.assert_allclose(run(wide.stddev())[0], [[1, 1], [2, 2], [3, 3]])
    with pytest.raises(ValueError, match="give loc, scale_diag, or both"):
        ds.MultivariateNormalDiag()


def test_classes_as_vectors(graph: Any) -> None:
    probs = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    one, other = ds.OneHotCategorical(probs=probs), ds.OneHotCategorical(probs=probs[::-1])
    log_prob, sample, mode, apart, entropy = run(
        one.log_prob(np.eye(3)[[0, 2]]), one.sample(3000, seed=2), one.mode(), ds.kl_divergence(one, other),
        one.entropy(),
    )  # fmt: skip
    np.testing.assert_allclose(log_prob, np.log([0.2, 0.8]))
    assert sample.dtype == np.int32 and (sample.sum(-1) == 1).all() and mode.tolist() == [[0, 0, 1]] * 2
    np.testing.assert_allclose(sample.mean(0), probs, atol=0.05)
    np.testing.assert_allclose(apart, (probs * np.log(probs / probs[::-1])).sum(1))
    np.testing.assert_allclose(entropy, -(probs * np.log(probs)).sum(1))


def test_a_saved_model_is_a_function(graph: Any, tmp_path: Path) -> None:
    x, v = tf.placeholder(tf.float32, [None]), tf.get_variable("v", [], initializer=tf.constant_initializer(3.0))
    y = x * v
    with tf.Session() as session:
        session.run(v.initializer)
        tf.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x}, {"y": y})
    predict = tf.contrib.predictor.from_saved_model(str(tmp_path / "m"))
    assert predict({"x": [1.0, 2.0]})["y"].tolist() == [3, 6] and list(predict.feed_tensors) == ["x"]
    named = tf.contrib.predictor.from_saved_model(
        str(tmp_path / "m"), input_names={"in": x.name}, output_names={"out": y.name}
    )
    assert named({"in": [2.0]})["out"].tolist() == [6]
    with pytest.raises(ValueError, match=r"unexpected keys in input_dict: \['z'\]"):
        predict({"z": 1})
    with pytest.raises(ValueError, match="Available signatures are"):
        tf.contrib.predictor.from_saved_model(str(tmp_path / "m"), signature_def_key="none")


def test_a_variable_joins_a_collection_once(graph: Any) -> None:
    """As where batch normalisation's are named for TRAINABLE_VARIABLES, in which some are already."""
    wanted = {"beta": ["TRAIN"], "moving_mean": [tf.GraphKeys.TRAINABLE_VARIABLES]}
    wanted["beta"].append(tf.GraphKeys.TRAINABLE_VARIABLES)
    tf.contrib.layers.batch_norm(tf.ones([2, 3]), variables_collections=wanted)
    assert [v.op.name for v in tf.trainable_variables()] == ["BatchNorm/beta", "BatchNorm/moving_mean"]
    assert [v.op.name for v in tf.get_collection("TRAIN")] == ["BatchNorm/beta"]
    tf.train.ExponentialMovingAverage(0.9).apply(tf.trainable_variables())


def test_model_analyzer(graph: Any, capsys: pytest.CaptureFixture[str]) -> None:
    analyzer = tf.contrib.slim.model_analyzer
    tf.get_variable("w", [3, 4])
    tf.get_variable("n", [], tf.float64)
    assert analyzer.analyze_vars(tf.global_variables(), print_info=True) == (13, 56)
    said = capsys.readouterr().out.splitlines()
    assert said[3:] == [
        "w:0 (float32_ref 3x4) [12, bytes: 48]", "n:0 (float64_ref ) [1, bytes: 8]",
        "Total size of variables: 13", "Total bytes of variables: 56",
    ]  # fmt: skip
    with tf.Graph().as_default() as other:
        x = tf.placeholder(tf.float32, [2, None], name="x")
        tf.add_n([tf.ones([2, 5], name="o"), x], name="y")
        assert analyzer.analyze_ops(other, print_info=True) == 20
    assert "x \t-> (float32 2x?) [0]" in capsys.readouterr().out
