"""More wrong programs, in the manner of programs.py: arguments that are refused where the node is made."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.errors.programs import wrong


@wrong("ValueError", "rank|Shape", "Reshape")
def reshape_by_a_matrix(tf: Any) -> Any:
    return tf.reshape(tf.zeros([2, 3]), [[2, 3]])


@wrong("ValueError", ">= 0")
def fill_below_zero(tf: Any) -> Any:
    return tf.fill([-1], 0.0)


@wrong("ValueError", ">= 0")
def zeros_below_zero(tf: Any) -> Any:
    return tf.zeros([2, -1])


@wrong("ValueError", "[Mm]ultiple ellipses")
def two_ellipses(tf: Any) -> Any:
    return tf.zeros([2, 3])[..., ...]


@wrong("ValueError", "3", "4")
def transposed_channels(tf: Any) -> Any:
    return tf.nn.conv2d_transpose(tf.zeros([1, 5, 5, 3]), tf.zeros([3, 3, 3, 4]), [1, 5, 5, 3], [1, 1, 1, 1])


@wrong("ValueError")
def wide_pointwise_filter(tf: Any) -> Any:
    w = tf.zeros([3, 3, 3, 3])
    return tf.nn.separable_conv2d(tf.zeros([1, 5, 5, 3]), w, tf.zeros([3, 3, 9, 4]), [1, 1, 1, 1], "SAME")


@wrong("TypeError", "None")
def placeholder_without_type(tf: Any) -> Any:
    return tf.placeholder(None)


@wrong("TypeError", "tensor")
def constant_of_a_tensor(tf: Any) -> Any:
    return tf.constant(tf.constant(1))


@wrong("TypeError", "[Tt]ensor names", "int")
def tensor_by_number(tf: Any) -> Any:
    return tf.get_default_graph().get_tensor_by_name(3)


@wrong("ValueError", "x:0", "Tensor")
def operation_by_tensor_name(tf: Any) -> Any:
    tf.constant(1, name="x")
    return tf.get_default_graph().get_operation_by_name("x:0")


@wrong("TypeError", "[Oo]peration names", "NoneType")
def operation_without_name(tf: Any) -> Any:
    return tf.get_default_graph().get_operation_by_name(None)


@wrong("ValueError", "same graph")
def gradient_of_another_graph(tf: Any) -> Any:
    with tf.Graph().as_default():
        other = tf.constant(1.0)
    return tf.gradients(tf.constant(1.0) * 2, other)


@wrong("TypeError", "graph_def")
def import_of_a_text(tf: Any) -> Any:
    return tf.import_graph_def("node")


@wrong("ValueError", "nobody")
def import_maps_nobody(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, name="x")
    return tf.import_graph_def(tf.get_default_graph().as_graph_def(), {"nobody:0": x})


@wrong("ValueError", "nobody")
def import_returns_nobody(tf: Any) -> Any:
    tf.placeholder(tf.float32, name="x")
    return tf.import_graph_def(tf.get_default_graph().as_graph_def(), return_elements=["nobody"])


@wrong("ValueError", "int32")
def import_maps_another_type(tf: Any) -> Any:
    tf.negative(tf.placeholder(tf.float32, name="x"))
    return tf.import_graph_def(tf.get_default_graph().as_graph_def(), {"x:0": tf.constant(1)})


@wrong("ValueError", "collections")
def collections_as_a_text(tf: Any) -> Any:
    return tf.get_variable("v", [2], collections="mine", use_resource=False)


@wrong("TypeError", "name_or_scope is required")
def scope_without_name(tf: Any) -> Any:
    with tf.variable_scope(None):
        pass


@wrong("TypeError", "sess")
def save_without_session(tf: Any) -> Any:
    tf.get_variable("v", [2], use_resource=False)
    return tf.train.Saver().save(None, "/nowhere/x")


@wrong("ValueError", "merge|Merge")
def merge_of_nothing(tf: Any) -> Any:
    return tf.summary.merge([])


@wrong("ValueError", "1", "2")
def accuracy_of_different_sizes(tf: Any) -> Any:
    return tf.metrics.accuracy([1, 2], [1])


@wrong("ValueError", "num_buckets")
def no_buckets(tf: Any) -> Any:
    return tf.string_to_hash_bucket_fast(["a"], 0)


@wrong("TypeError", "callable")
def generator_as_a_list(tf: Any) -> Any:
    return tf.data.Dataset.from_generator([1, 2], tf.int32)


@wrong("TypeError", "zip")
def zip_of_a_list(tf: Any) -> Any:
    return tf.data.Dataset.zip([tf.data.Dataset.range(3)])


@wrong("ValueError", "predicate")
def filter_by_a_number(tf: Any) -> Any:
    return tf.data.Dataset.range(3).filter(lambda x: x)


@wrong("TypeError", "transformation_func")
def apply_makes_no_dataset(tf: Any) -> Any:
    return tf.data.Dataset.range(3).apply(lambda dataset: 3)


@wrong("DataLossError", "pad|Pad")
def padded_to_less(tf: Any) -> Any:
    rows = tf.data.Dataset.from_tensor_slices(np.arange(3)).map(lambda n: tf.fill([n + 1], n))
    batch = tf.data.make_one_shot_iterator(rows.padded_batch(3, [2])).get_next()
    with tf.Session() as session:
        return session.run(batch)


@wrong("ValueError", "callable", "None")
def map_of_nothing(tf: Any) -> Any:
    return tf.data.Dataset.range(3).map(None)


@wrong("TypeError", "'a'", "integer or None")
def shape_of_text(tf: Any) -> Any:
    return tf.placeholder(tf.float32, ["a"])


@wrong("ValueError", "partitioner|Partitioner", "3")
def partitioner_is_a_number(tf: Any) -> Any:
    return tf.get_variable("v", [4, 2], partitioner=3)


@wrong("TypeError", "'a'")
def group_of_a_name(tf: Any) -> Any:
    tf.constant(1, name="a")
    return tf.group("a")
