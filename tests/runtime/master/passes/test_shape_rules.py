"""Shapes whose unknown sizes have names: what the names say holds of the arrays that come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow_runtime.kernels.table  # noqa: F401  (what passes know of ops)
from sparkflow_runtime.master.passes.shape_rules import factors
from sparkflow_runtime.master.passes.view import View
from sparkflow_runtime.wire.protos import RewriterConfig

# x: [n, m, 6]; what is made of it, and the shapes that are known of that
CASES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "columns": (lambda x: tf.unstack(x, axis=2), " ".join(["n,m"] * 6)),
    "columns from the end": (lambda x: tf.unstack(x[:, :, :3], axis=-1), "n,m n,m n,m"),
    "parts": (lambda x: tf.split(x, 3, axis=2), "n,m,2 n,m,2 n,m,2"),
    "parts of sizes": (lambda x: tf.split(x, [1, 5], axis=-1), "n,m,1 n,m,5"),
    "heads": (lambda x: tf.split(tf.concat(tf.split(x, 2, axis=2), 0), 2, axis=0), "n,m,3 n,m,3"),
    "put together": (lambda x: tf.stack([x, x + 1], axis=1), "n,2,m,6"),
    "put together last": (lambda x: tf.stack([x, x + 1], axis=-1), "n,m,6,2"),
    "sums": (lambda x: [tf.reduce_sum(x, 1), tf.reduce_mean(x, [0, -1]), tf.reduce_max(x)], "n,6 m "),
    "sums that keep axes": (lambda x: tf.reduce_sum(x, [1, 2], keepdims=True), "n,1,1"),
    "positions": (lambda x: [tf.argmax(x, 2), tf.argmin(x, -2)], "n,m n,6"),
    "parts of axes": (
        lambda x: [x[:, 0], x[..., :2], x[:, :, None], x[1:], x[:, ::-1], x[0, ..., 0], x[: tf.shape(x)[0]]],
        "n,6 n,m,2 n,m,1,6 ?,m,6 n,m,6 m n,m,6",
    ),
    "slices": (lambda x: [tf.slice(x, [0, 0, 2], [-1, -1, 3]), tf.slice(x, [0, 0, 0], [1, -1, 6])], "n,m,3 1,m,6"),
    "tiled": (lambda x: tf.tile(x, [1, 3, 2]), "n,3*m,12"),
    "side by side": (lambda x: [tf.concat([x, x], 1), tf.concat([x, x[1:]], 0)], "n,2*m,6 ?,m,6"),
    "turned": (lambda x: tf.transpose(x, [2, 0, 1]), "6,n,m"),
    "products": (
        lambda x: [tf.matmul(x, x, transpose_b=True), tf.matmul(x, x, transpose_a=True), tf.matmul(x[:1], x)],
        "n,m,m n,6,6",
    ),
    "flat": (lambda x: [tf.reshape(x, [-1, 6]), tf.reshape(x, [-1]), tf.reshape(x, [-1, 3])], "m*n,6 6*m*n 2*m*n,3"),
    "flat and back": (lambda x: tf.reshape(tf.reshape(x, [-1, 3]) * 2, tf.shape(x)) + 1, "n,m,6"),
    "flat but for one": (lambda x: tf.reshape(tf.transpose(x, [1, 0, 2]), [tf.shape(x)[1], -1]), "m,6*n"),
    "of a computed size": (
        lambda x: [
            tf.fill([tf.shape(x)[0] * tf.shape(x)[1], 2], 1.0),
            tf.random_uniform(tf.stack(tf.unstack(tf.shape(x))[:2])),
            tf.zeros(tf.expand_dims(tf.size(x), 0)),
            tf.ones(tf.cast(tf.shape(x, out_type=tf.int64)[:2], tf.int32)),
        ],
        "m*n,2 n,m 6*m*n n,m",
    ),
    "rows": (lambda x: tf.gather(tf.ones([9, 4]), tf.cast(x[:, :, 0], tf.int32)), "n,m,4"),
    "columns by number": (lambda x: tf.gather(x, [1, 3], axis=2), "n,m,2"),
    "padded": (
        lambda x: [tf.pad(x, [[0, 0], [0, 0], [1, 2]]), tf.pad(x, [[0, 0], [2, 0], [0, 0]], constant_values=1.0)],
        "n,m,9 n,?,6",
    ),
    "padded by a tensor": (lambda x: tf.pad(x, tf.cast(x[:3, :2, 0] * 0.0, tf.int32)), "?,?,?"),
    "one of many": (
        lambda x: [tf.one_hot(tf.cast(x[:, :, 0], tf.int32), 4), tf.one_hot(tf.cast(x[:, 0], tf.int32), 4, axis=0)],
        "n,m,4 4,n,6",
    ),
    "places": (lambda x: [tf.range(tf.shape(x)[0]), tf.range(1, tf.shape(x)[0] + 1)], "n ?"),
    "sums so far": (lambda x: [tf.cumsum(x, 1), tf.reverse(x, [0])], "n,m,6 n,m,6"),
    "losses": (
        lambda x: [
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.cast(x[:, 0, 0], tf.int32), logits=x[:, 0]),
            tf.nn.softmax_cross_entropy_with_logits_v2(labels=x[:, 0], logits=x[:, 0]),
        ],
        "n n",
    ),
    "one of two": (lambda x: tf.where_v2(x[:, :, :1] > 0, x, 0.0), "n,m,6"),
    "text": (lambda x: tf.string_to_hash_bucket_fast(tf.as_string(x), 9), "n,m,6"),
}


def without_arithmetic() -> Any:
    made = tf.ConfigProto()
    made.graph_options.rewrite_options.arithmetic_optimization = RewriterConfig.OFF
    return made


SIZES = [(2, 3), (1, 1), (3, 0), (0, 2), (5, 5)]


@pytest.mark.parametrize("case", CASES)
def test_names_say_what_comes_out(case: str) -> None:
    make, expected = CASES[case]
    x = tf.placeholder(tf.float32, [None, None, 6], "x")
    made = make(x)
    tensors = list(made) if isinstance(made, (list, tuple)) else [made]
    view = View.of(tf.get_default_graph().as_graph_def(add_shapes=True), ["x"], [t.name for t in tensors])
    found = [view.shapes.of(t.name.removesuffix(":0")) for t in tensors]
    written = [",".join(_plain(d) for d in (("none",) if shape is None else shape)) for shape in found]
    assert written[: len(expected.split(" "))] == expected.split(" ")
    for n, m in SIZES:
        values = {"x:0/0": n, "x:0/1": m}
        with tf.Session(config=without_arithmetic()) as session:
            try:
                arrays = session.run(tensors, {x: np.ones((n, m, 6), np.float32)})
            except tf.errors.InvalidArgumentError:
                continue  # x[:, 0] of no column
        for shape, array in zip(found, arrays):
            assert shape is not None and len(shape) == array.ndim
            for size, length in zip(shape, array.shape):
                number, names = factors(size)
                if all(name in values for name in names):
                    assert number * int(np.prod([values[name] for name in names])) == length
                else:
                    values[names[0]] = length  # a name of its own; the same wherever it is


def _plain(size: int | str) -> str:
    number, names = factors(size)
    short = [{"x:0/0": "n", "x:0/1": "m"}.get(name, "?") for name in names]
    return "*".join([*([str(number)] if number != 1 or not names else []), *sorted(short)])


def test_components_of_a_queue_have_as_many_elements() -> None:
    queue = tf.FIFOQueue(9, [tf.float32, tf.int64], [[3], []])
    x, y = queue.dequeue_up_to(5)
    view = View.of(tf.get_default_graph().as_graph_def(add_shapes=True), [], [x.name, y.name])
    (first, width), other = (view.shapes.of(t.name.removesuffix(":0")) for t in (x, y))  # type: ignore[misc]
    assert (first, width) == (*other, 3) and isinstance(first, str)


@pytest.mark.parametrize("rows", [0, 1, 4])
@pytest.mark.parametrize(("axis", "left"), [(0, 1), (1, 0), ([0, 1], 0)])
def test_the_gradient_of_a_mean_is_divided_by_a_number(rows: int, axis: Any, left: int) -> None:
    x = tf.placeholder(tf.float32, [None, 6])
    columns = tf.unstack(x, axis=1)
    loss = tf.reduce_sum(tf.square(tf.reduce_mean(tf.stack(columns, 1), axis)))
    (grad,) = tf.gradients(loss, [x])
    given = np.random.default_rng(0).standard_normal((rows, 6)).astype(np.float32)
    values, divisions = [], []
    for how in (without_arithmetic(), None):
        with tf.Session(config=how) as session:
            metadata = tf.RunMetadata()
            options = tf.RunOptions(output_partition_graphs=True)
            values.append(session.run(grad, {x: given}, options=options, run_metadata=metadata))
            divisions.append(sum(n.op == "FloorDiv" for part in metadata.partition_graphs for n in part.node))
    np.testing.assert_array_equal(*values)
    assert divisions == [1, left]  # of an unknown number of rows it stays


def test_a_size_at_the_end_of_a_long_chain() -> None:
    x = tf.placeholder(tf.float32, [None])
    size = tf.shape(x)[0]
    for _ in range(3000):
        size = tf.identity(size) * 1
    with tf.Session(config=without_arithmetic()) as session:
        assert session.run(tf.reshape(x, tf.stack([size, 1])), {x: [1.0, 2.0]}).shape == (2, 1)
