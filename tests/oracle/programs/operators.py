"""Python's operators on tensors, and identities of what stands for several of them."""

from __future__ import annotations

from typing import Any

from tests.oracle.program import program


@program("Invert", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bits_of_integers_and_truth_values(tf: Any) -> list[Any]:
    i, b = tf.constant([1, 2]), tf.constant([True, False])
    of_integers = [~i, i & 3, i | 4, i ^ 3, 1 & i, 4 | i, 7 ^ i]
    v = tf.Variable([5, 6])
    return [[v.initializer], [*of_integers, ~b, b & True, b | True, b ^ b, True & b, ~v, v & 4, i.__div__(2)]]


@program()
def refused_bits(tf: Any) -> list[Any]:
    return [[~tf.constant(1.0)]]


@program()
def identities_of_several(tf: Any) -> list[Any]:
    sparse = tf.identity(tf.SparseTensor([[0, 1]], [1.0], [2, 2]))
    rows = tf.identity(tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([0]), tf.constant([3, 1])), "rows")
    lost = -tf.identity(tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([0])))
    shapes = tf.constant([str(rows.shape), str(lost.shape)])
    parts = [sparse.indices, sparse.values, sparse.dense_shape, rows.values, rows.indices, rows.dense_shape]
    return [[*parts, lost.values, lost.indices, tf.convert_to_tensor(rows), shapes]]


@program()
def what_is_printed(tf: Any) -> list[Any]:
    x, v = tf.placeholder(tf.float32, [4, 3], "x"), tf.get_variable("v", [2])
    with tf.device("/cpu:0"):
        y = tf.constant(1.0)
    unknown = tf.placeholder(tf.int32)
    texts = [str(x), str(y), f"{unknown}", "%s" % v, str(x.dtype), repr(x.dtype)]  # noqa: UP031
    return [[tf.constant(texts)]]


@program("Pad")
def pads_of_less_than_nothing(tf: Any) -> list[Any]:
    return [[tf.pad(tf.ones([1, 2]), [[0, 0], [-1, 1]])]]


@program()
def what_shapes_say(tf: Any) -> list[Any]:
    three = tf.TensorShape([3, 3])
    asked = [
        lambda: three.assert_is_compatible_with([5, 3]), lambda: tf.Dimension(3).merge_with(4),
        lambda: tf.Dimension(3).assert_is_compatible_with(4), lambda: three.merge_with([4, 3]),
    ]  # fmt: skip
    said = []
    for ask in asked:
        try:
            ask()
        except ValueError as error:
            said.append(str(error))
    return [[tf.constant(said)]]
