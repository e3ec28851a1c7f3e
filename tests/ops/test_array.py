"""Shapes, layouts, joining and splitting, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow.ops import array, array_join, operators  # noqa: F401 - x[0] on tensors
from sparkflow.session.session import Session
from sparkflow_runtime.wire.errors import InvalidArgumentError

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

LAYOUTS = [
    ("reshape", lambda x: array.reshape(x, [-1, 6]), lambda x: x.reshape(-1, 6)),
    ("expand_dims", lambda x: array.expand_dims(x, 1), lambda x: x[:, None]),
    ("expand_dims last", lambda x: array.expand_dims(x, -1), lambda x: x[..., None]),
    ("squeeze", lambda x: array.squeeze(x[:, :1]), lambda x: x[:, 0]),
    ("squeeze one", lambda x: array.squeeze(x[:, :1, :1], [1]), lambda x: x[:, 0, :1]),
    ("transpose", array.transpose, np.transpose),
    ("transpose perm", lambda x: array.transpose(x, [1, 2, 0]), lambda x: x.transpose(1, 2, 0)),
    ("tile", lambda x: array.tile(x, [1, 2, 3]), lambda x: np.tile(x, [1, 2, 3])),
    ("reverse", lambda x: array.reverse(x, [0, -1]), lambda x: x[::-1, :, ::-1]),
    ("pad", lambda x: array.pad(x, [[0, 1], [2, 0], [0, 0]]), lambda x: np.pad(x, [[0, 1], [2, 0], [0, 0]])),
    (
        "pad 7",
        lambda x: array.pad(x, [[0, 1], [2, 0], [0, 0]], constant_values=7),
        lambda x: np.pad(x, [[0, 1], [2, 0], [0, 0]], constant_values=7),
    ),
    (
        "pad reflect",
        lambda x: array.pad(x, [[1, 1], [2, 0], [0, 3]], "reflect"),
        lambda x: np.pad(x, [[1, 1], [2, 0], [0, 3]], mode="reflect"),
    ),
    ("broadcast_to", lambda x: array.broadcast_to(x, [5, 2, 3, 4]), lambda x: np.broadcast_to(x, [5, 2, 3, 4])),
    ("identity", array.identity, lambda x: x),
    ("stop_gradient", array.stop_gradient, lambda x: x),
    ("zeros_like", array.zeros_like, np.zeros_like),
    ("ones_like", array.ones_like, np.ones_like),
    ("shape", array.shape, lambda x: np.array(x.shape, np.int32)),
    ("size", array.size, lambda x: np.int32(x.size)),
    ("rank", array.rank, lambda x: np.int32(x.ndim)),
    ("stack", lambda x: array_join.stack([x, x], 1), lambda x: np.stack([x, x], 1)),
    ("concat", lambda x: array_join.concat([x, x[:1]], 0), lambda x: np.concatenate([x, x[:1]])),
    ("concat one", lambda x: array_join.concat([x], 0), lambda x: x),
]


@pytest.mark.parametrize("known_shapes", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, np.complex64])
@pytest.mark.parametrize("name, build, expected", LAYOUTS, ids=[row[0] for row in LAYOUTS])
def test_layouts(evaluate: Any, name: str, build: Any, expected: Any, dtype: Any, known_shapes: bool) -> None:
    if name == "pad 7" and dtype == np.bool_:
        pytest.skip("7 is no bool")
    x = X.astype(dtype)
    got, want = evaluate(build, x, known_shapes=known_shapes), expected(x)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_strings_move_too(evaluate: Any) -> None:
    x = np.array([b"a", b"b", b"c"], object)
    got = evaluate(lambda t: array.pad(array.reverse(t, [0]), [[1, 0]]), x)
    assert got.tolist() == [b"", b"c", b"b", b"a"]
    assert evaluate(array.zeros_like, x).tolist() == [b"", b"", b""]


@pytest.mark.parametrize("shape", [[2, 3], [40, 50], []])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "string"])
def test_filling(evaluate: Any, shape: Any, dtype: str) -> None:
    zeros = evaluate(lambda: array.zeros(shape, dtype))
    assert np.shape(zeros) == tuple(shape) and not np.any(zeros)
    if dtype != "string":
        assert zeros.dtype == dtype and np.all(evaluate(lambda: array.ones(shape, dtype)))
    assert evaluate(lambda s: array.fill(s, 3.0), np.array([2, 2], np.int32)).tolist() == [[3, 3], [3, 3]]


def test_size_type(evaluate: Any) -> None:
    assert evaluate(lambda t: array.shape(t, out_type="int64"), X, known_shapes=False).dtype == np.int64
    assert evaluate(lambda t: array.size(t, out_type="int64"), X).dtype == np.int64


def test_shape_of_known_shape_is_a_constant(graph: Graph) -> None:
    assert array.shape(array.placeholder("float32", [2, 3])).op.type == "Const"
    assert array.shape(array.placeholder("float32", [2, None])).op.type == "Shape"


def test_placeholders(graph: Graph) -> None:
    x = array.placeholder("float32", [None, 2], name="x")
    y = array.placeholder_with_default([1.0, 2.0], [None])
    with Session(graph=graph) as session:
        with pytest.raises(InvalidArgumentError, match="must feed a value for placeholder tensor 'x' with dtype float"):
            session.run(array.identity(x))
        assert session.run(y).tolist() == [1, 2]
        assert session.run(y, {y: [3]}).tolist() == [3]


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda x: array.reshape(x, [5, -1]), r"\(2, 3, 4\).*\(5, \?\)"),
        (lambda x: array.reshape(x, [5]), r"\(2, 3, 4\).*\(5,\)"),
        (lambda x: array.squeeze(x, [1]), r"axis 1 of \(2, 3, 4\)"),
        (lambda x: array.expand_dims(x, 5), "axis 5"),
        (lambda x: array.transpose(x, [0, 0, 1]), r"perm \[0, 0, 1\].*\(2, 3, 4\)"),
        (lambda x: array.tile(x, [2]), r"\(2,\).*\(2, 3, 4\)"),
        (lambda x: array.pad(x, [[1, 1]]), r"\(3, 2\).*\(1, 2\)"),
        (lambda x: array.broadcast_to(x, [2, 3, 5]), r"\(2, 3, 4\).*\(2, 3, 5\)"),
        (lambda x: array_join.concat([x, array.zeros([2, 2, 2])], 2), r"\(2, 3, 4\), \(2, 2, 2\)"),
        (lambda x: array_join.stack([x, array.zeros([2])]), r"\(2, 3, 4\).*\(2,\)"),
        (lambda x: array_join.split(x, 2, axis=1), "size 3, no multiple of 2"),
        (lambda x: array_join.split(x, [1, 1], axis=1), r"\[1, 1\].*3"),
        (lambda x: array_join.split(x, 2**40, axis=1), f"Number of outputs is too big: num_split is {2**40}"),
        (lambda x: array_join.unstack(x, 2**40), f"Number of outputs is too big: num is {2**40}"),
        (lambda x: array_join.unstack(x, 5), "size 2, not 5"),
    ],
)
def test_shape_rules_name_both_sides(graph: Graph, build: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        build(array.placeholder("float32", [2, 3, 4]))


def test_the_same_mistakes_at_run_time(evaluate: Any) -> None:
    mistakes = [
        lambda x: array.reshape(x, [5, -1]),
        lambda x: array.squeeze(x, [1]),
        lambda x: array.broadcast_to(x, [2, 3, 5]),
        lambda x: array_join.concat([x, array.zeros([2, 2, 2])], 2),
        lambda x: array_join.split(x, 2, axis=1)[0],
        lambda x: array_join.split(x, [1, 1], axis=1)[0],
        lambda x: array_join.unstack(x, 5)[0],
    ]
    for build in mistakes:
        with pytest.raises(InvalidArgumentError):
            evaluate(build, X, known_shapes=False)


def test_splitting(evaluate: Any) -> None:
    for got, want in zip(evaluate(lambda x: array_join.split(x, 2, axis=2), X), np.split(X, 2, 2), strict=True):
        np.testing.assert_array_equal(got, want)
    first, second = evaluate(lambda x: array_join.split(x, [1, -1], axis=1), X)
    np.testing.assert_array_equal(first, X[:, :1])
    np.testing.assert_array_equal(second, X[:, 1:])
    for i, got in enumerate(evaluate(lambda x: array_join.unstack(x, axis=-1), X)):
        np.testing.assert_array_equal(got, X[..., i])
    with pytest.raises(ValueError, match="give num"):
        array_join.unstack(array.placeholder("float32"))


def test_partition_and_stitch_are_inverse(evaluate: Any) -> None:
    parts = np.array([2, 0, 2, 1, 0, 2], np.int32)
    data = np.arange(12).reshape(6, 2)

    def there_and_back(d: Any, p: Any) -> Any:
        where = array_join.dynamic_partition(list(range(6)), p, 3)
        return array_join.dynamic_stitch(where, array_join.dynamic_partition(d, p, 3))

    np.testing.assert_array_equal(evaluate(there_and_back, data, parts), data)
    with pytest.raises(InvalidArgumentError, match=r"indices\[0\] = 2 is not in \[0, 2\)"):
        evaluate(lambda d, p: array_join.dynamic_partition(d, p, 2)[0], data, parts)


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid(evaluate: Any, indexing: str) -> None:
    got = evaluate(lambda x, y: array_join.meshgrid(x, y, indexing=indexing), np.arange(3), np.arange(2.0))
    for g, w in zip(got, np.meshgrid(np.arange(3), np.arange(2.0), indexing=indexing), strict=True):
        np.testing.assert_array_equal(g, w)


def test_invert_permutation(evaluate: Any) -> None:
    assert evaluate(array.invert_permutation, np.array([2, 0, 1], np.int32)).tolist() == [1, 2, 0]
    with pytest.raises(InvalidArgumentError, match="no permutation"):
        evaluate(array.invert_permutation, np.array([2, 2, 1], np.int32))


def test_a_list_with_a_tensor_has_its_type(graph: Any) -> None:
    """[n, 3] where sizes may be int32 or int64."""
    n = tf.placeholder(tf.int64, [])
    outputs = [tf.fill([n, 3], 1.0), tf.reshape(tf.range(6), [n, -1]), tf.random_uniform([n, 2])]
    with tf.Session() as session:
        assert [x.shape for x in session.run(outputs, {n: 2})] == [(2, 3), (2, 3), (2, 2)]


def test_lists_of_numbers_and_tensors(graph: Any) -> None:
    """As constants where no tensor is among them; else what is beside a tensor is of its type."""
    one = tf.constant(1.0)
    outputs = [tf.stack([1, 2.5]), tf.stack([]), tf.convert_to_tensor([[one, 2], [3, 4]]), tf.stack([2, one])]
    with tf.Session() as session:
        assert [x.tolist() for x in session.run(outputs)] == [[1, 2.5], [], [[1, 2], [3, 4]], [2, 1]]
    assert tf.stack([1, 2]).op.type == "Const" and all(x.dtype == tf.float32 for x in outputs)
    with pytest.raises(TypeError):
        tf.stack([1, "a"])


def test_programs_may_mark_tensors_and_operations(graph: Any) -> None:
    """As layer libraries do, which keep a layer's weights on its output."""
    made = array.identity([1.0])
    made.scope, made.op.layer = "layer", 3
    assert graph.get_tensor_by_name(made.name).scope == "layer" and made.op.layer == 3


def test_reshape_of_no_rows_of_unknown_size(graph: Graph) -> None:
    x = tf.placeholder(tf.float32, [0, None])
    flat = tf.reshape(x, [-1])
    assert flat.shape.as_list() == [0]
    with Session(graph=graph) as session:
        assert session.run(flat, {x: np.zeros((0, 3))}).shape == (0,)
    with pytest.raises(InvalidArgumentError, match="with 0 elements"):
        tf.reshape(x, [2, 3])


def test_a_tensor_stacked_is_itself_and_dimensions_count(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [2, 3])
    assert tf.stack(x) is x
    assert [y.shape.as_list() for y in tf.unstack(x, num=x.shape[0])] == [[3], [3]]
    assert [y.shape.as_list() for y in tf.split(x, x.shape[1], axis=1)] == [[2, 1]] * 3


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_condition_of_rows_has_one_for_each(graph: Any, count: int) -> None:
    """Also inside of a fused node, and where numpy would broadcast it."""
    flags, x = tf.placeholder(tf.bool, [None]), tf.placeholder(tf.float32, [None, None])
    y = tf.tanh(tf.where(flags, x + 1.0, x) * 2.0)
    with tf.Session() as session:
        value = np.ones((4, 5), np.float32)
        chosen = session.run(y, {flags: [True, False, True, False], x: value})
        np.testing.assert_allclose(chosen[:2], np.tanh([[4.0] * 5, [2.0] * 5]), rtol=1e-6)
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"must have 4 elements .*got {count}"):
            session.run(y, {flags: [True] * count, x: value})
