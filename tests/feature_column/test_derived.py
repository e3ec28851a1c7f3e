"""Columns of libraries, which derive from the classes that TensorFlow 1's file of columns has."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest

import sparkflow as tf
from sparkflow.python.feature_column import feature_column as fc

pytestmark = pytest.mark.usefixtures("graph")


class Scaled(fc._DenseColumn, namedtuple("Scaled", ["key", "inner"])):
    """A feature times a weight, beside what another column makes."""

    @property
    def name(self) -> str:
        return f"{self.key}_scaled"

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        return {self.key: tf.FixedLenFeature([1], tf.float32), **self.inner._parse_example_spec}

    def _transform_feature(self, inputs: Any) -> Any:
        return inputs.get(self.key)

    @property
    def _variable_shape(self) -> Any:
        return tf.TensorShape([1 + self.inner._variable_shape.num_elements()])

    def _get_dense_tensor(self, inputs: Any, weight_collections: Any = None, trainable: Any = None) -> Any:
        weight = tf.get_variable("weight", [], initializer=tf.constant_initializer(2.0), trainable=trainable)
        rest = self.inner._get_dense_tensor(inputs, weight_collections=weight_collections, trainable=trainable)
        return tf.concat([inputs.get(self) * weight, rest], 1)


class Modulo(fc._CategoricalColumn, namedtuple("Modulo", ["inner", "n"])):
    """The ids of another column modulo n."""

    name = property(lambda self: f"{self.inner.name}_mod")
    _parse_example_spec = property(lambda self: self.inner._parse_example_spec)
    _num_buckets = property(lambda self: self.n)

    def _transform_feature(self, inputs: Any) -> Any:
        ids = self.inner._get_sparse_tensors(inputs).id_tensor
        return tf.SparseTensor(ids.indices, ids.values % self.n, ids.dense_shape)

    def _get_sparse_tensors(self, inputs: Any, weight_collections: Any = None, trainable: Any = None) -> Any:
        return fc._IdWeightPair(inputs.get(self), None)


def test_a_dense_column_of_ones_own() -> None:
    ids = tf.feature_column.categorical_column_with_identity("i", 3)
    column = Scaled("x", tf.feature_column.indicator_column(ids))
    features = {"x": tf.constant([1.0, 3.0]), "i": tf.constant([2, 0], tf.int64)}
    made = tf.feature_column.input_layer(features, [column])
    assert [v.name for v in tf.trainable_variables()] == ["input_layer/x_scaled/weight:0"]
    assert sorted(tf.feature_column.make_parse_example_spec([column])) == ["i", "x"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(made).tolist() == [[2, 0, 0, 1], [6, 1, 0, 0]]


def test_a_categorical_column_of_ones_own() -> None:
    column = Modulo(tf.feature_column.categorical_column_with_identity("i", 100), 3)
    made = tf.feature_column.input_layer(
        {"i": tf.constant([5, 9], tf.int64)}, tf.feature_column.indicator_column(column)
    )
    with tf.Session() as session:
        assert session.run(made).tolist() == [[0, 0, 1], [1, 0, 0]]


def test_all_columns_of_a_kind_are_instances() -> None:
    ids = tf.feature_column.categorical_column_with_identity("i", 3)
    number = tf.feature_column.numeric_column("x")
    assert isinstance(ids, fc._CategoricalColumn) and isinstance(number, fc._DenseColumn)
    assert not isinstance(ids, fc._DenseColumn) and not isinstance(number, Scaled)
    assert isinstance(number, fc._FeatureColumn) and isinstance(fc._LazyBuilder({}), fc._LazyBuilder)


def test_what_it_does_not_define_is_said() -> None:
    class Half(fc._DenseColumn):
        name = "half"

    with pytest.raises(NotImplementedError, match="Half derives from a feature column and must define"):
        tf.feature_column.input_layer({"x": tf.constant([1.0])}, [Half()])
