"""tf.contrib.learn's models and tf.contrib.layers' columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

learn, layers = tf.contrib.learn, tf.contrib.layers
X = np.vstack([np.random.default_rng(0).normal(c, 0.3, (40, 2)) for c in (-2, 0, 2)])
Y = np.repeat([0, 1, 2], 40)


def test_a_network_is_fitted_to_arrays() -> None:
    model = learn.DNNClassifier(
        feature_columns=learn.infer_real_valued_columns_from_input(X), hidden_units=[8], n_classes=3
    )
    model.fit(x=X, y=Y, steps=150)
    assert model.evaluate(x=X, y=Y)["accuracy"] > 0.95
    classes = list(model.predict(X[[0, 60, 100]], as_iterable=True))
    assert classes == [0, 1, 2] == model.predict_classes(X[[0, 60, 100]], as_iterable=False).tolist()
    np.testing.assert_allclose(model.predict_proba(X[:5], as_iterable=False).sum(1), 1, 1e-5)
    with pytest.raises(ValueError, match="Either x or input_fn"):
        model.fit(steps=1)


def test_a_regressor_of_an_input_fn() -> None:
    def input_fn() -> Any:
        return {"a": tf.constant(X[:, 0], tf.float32)}, tf.constant(3 * X[:, 0], tf.float32)

    (column,) = learn.infer_real_valued_columns_from_input_fn(input_fn)
    model = learn.LinearRegressor([column], optimizer=tf.train.GradientDescentOptimizer(0.1))
    model.fit(input_fn=input_fn, steps=100)
    assert model.evaluate(input_fn=input_fn, steps=1)["loss"] < 1


def test_columns_by_their_first_names() -> None:
    color = layers.sparse_column_with_hash_bucket("color", 10)
    size = layers.sparse_column_with_integerized_feature("size", 4)
    kind = layers.sparse_column_with_keys("kind", ["a", "b"])
    age = layers.real_valued_column("age", dimension=2)
    cross = layers.crossed_column([color, kind], 20)
    spec = layers.create_feature_spec_for_parsing([color, size, kind, age, cross])
    assert set(spec) == {"color", "size", "kind", "age"} and spec["age"].shape == (2,)
    with tf.Graph().as_default(), tf.Session() as session:
        given = {"color": [["x"], ["y"]], "kind": [["a"], ["b"]], "size": [[1], [3]], "age": [[1.0, 2.0], [3.0, 4.0]]}
        features = {k: tf.constant(v, tf.int64 if k == "size" else None) for k, v in given.items()}
        dense = [age, *(layers.one_hot_column(c) for c in (size, kind, cross))]
        found = layers.input_from_feature_columns(features, dense)
        session.run(tf.tables_initializer())
        assert session.run(found).shape == (2, 2 + 4 + 2 + 20)


def _rows() -> Any:
    named = {"a": tf.constant(X[:, 0], tf.float32), "b": tf.constant([["u"], ["v"], ["u"]] * 40)}
    return named, tf.constant(Y)


def test_wide_and_deep() -> None:
    """The names of what is trained are those of tf.estimator's model, which it is."""
    wide, deep = [layers.sparse_column_with_hash_bucket("b", 10)], [layers.real_valued_column("a")]
    model = learn.DNNLinearCombinedClassifier(
        linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[8], n_classes=3,
        label_keys=None, gradient_clip_norm=5.0, fix_global_step_increment_bug=True,
    )  # fmt: skip
    model.fit(input_fn=_rows, steps=150)
    assert model.evaluate(input_fn=_rows, steps=1)["accuracy"] > 0.9
    assert "linear/linear_model/b/weights" in model.get_variable_names()
    regressor = learn.DNNLinearCombinedRegressor(linear_feature_columns=deep[0], dnn_feature_columns=deep,
                                                 dnn_hidden_units=[4])  # fmt: skip
    regressor.fit(input_fn=_rows, steps=2)
    assert regressor.evaluate(input_fn=_rows, steps=1)["loss"] > 0


@pytest.mark.parametrize("given", [None, tf.train.GradientDescentOptimizer(1.0), "made"])
def test_gradients_are_clipped(given: Any) -> None:
    """One step of gradient descent goes no further than the norm; the caller's optimizer stays as it is."""
    optimizer = (lambda: tf.train.GradientDescentOptimizer(1.0)) if given == "made" else given
    model = learn.LinearRegressor([layers.real_valued_column("a")], optimizer=optimizer, gradient_clip_norm=0.25)
    model.fit(input_fn=lambda: ({"a": tf.constant(X[:, 0], tf.float32)}, tf.constant(X[:, 0] * 50 + 9)), steps=1)
    moved = [model.get_variable_value(n) for n in model.get_variable_names() if n.endswith(("weights", "bias_weights"))]
    length = np.linalg.norm(np.concatenate([m.ravel() for m in moved]))
    assert length > 0 and (given is None or length == pytest.approx(0.25, rel=1e-4))
    assert not hasattr(given, "__dict__") or "apply_gradients" not in vars(given)


def test_what_is_not_supported_is_said() -> None:
    column = layers.real_valued_column("a")
    with pytest.raises(ValueError, match="enable_centered_bias=True is not supported here"):
        learn.LinearClassifier([column], enable_centered_bias=True)
    with pytest.raises(ValueError, match="input_layer_min_slice_size=5"):
        learn.DNNRegressor([2], [column], input_layer_min_slice_size=5)
    with pytest.raises(TypeError, match="hiden_units"):
        learn.DNNClassifier([2], [column], hiden_units=3)
    model = learn.LinearRegressor([column])
    with pytest.raises(ValueError, match=r"feed_fn=.* is not supported here"):
        model.evaluate(X, Y, feed_fn=len)
    with pytest.raises(ValueError, match="gradient_clip_norm needs an optimizer's instance, got 'Adam'"):
        learn.LinearRegressor([column], optimizer="Adam", gradient_clip_norm=1.0).fit(input_fn=_rows, steps=1)
