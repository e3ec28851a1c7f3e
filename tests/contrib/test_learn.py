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
    model = learn.LinearRegressor([column], optimizer=tf.train.GradientDescentOptimizer(0.001))
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
