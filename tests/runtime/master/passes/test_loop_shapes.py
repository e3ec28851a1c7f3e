"""Names of sizes through loops, stacks and TensorArrays: what is known holds, and gradients ask less."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow_runtime.kernels.table  # noqa: F401  (what passes know of ops)
from sparkflow_runtime.master.passes.view import View
from sparkflow_runtime.wire.protos import RewriterConfig

Made = tuple[Any, dict[Any, Any]]  # what to run, what to feed
OPEN = [tf.TensorShape([None, 3])]


def loop(body: Callable[..., Any], steps: Any, *variables: Any, **options: Any) -> Any:
    def counted(t: Any, *given: Any) -> Any:
        made = body(t, *given)
        return (t + 1, *(made if isinstance(made, tuple) else (made,)))

    shapes = options.pop("shapes", None)
    invariants = None if shapes is None else [tf.TensorShape([]), *shapes]
    made = tf.while_loop(lambda t, *_: t < steps, counted, [tf.constant(0), *variables], invariants, **options)
    return made[1] if len(variables) == 1 else made[1:]


def shapes_of(*tensors: Any, feeds: tuple[str, ...] = ("x",)) -> list[str]:
    """Written with n for the rows of the fed tensor x, ? for another size that is open."""
    view = View.of(tf.get_default_graph().as_graph_def(add_shapes=True), feeds, [t.name for t in tensors])
    found = [view.shapes.of(t.name.removesuffix(":0")) for t in tensors]
    short = lambda d: d if isinstance(d, int) else "n" if d == "x:0/0" else "?"  # noqa: E731
    return ["none" if shape is None else ",".join(str(short(d)) for d in shape) for shape in found]


def x_of() -> Any:
    return tf.placeholder(tf.float32, [None, 3], "x")


def normal(*sizes: int) -> Any:
    return np.random.default_rng(5).normal(size=sizes).astype(np.float32)


# ---------------------------------------------------------------------- what is known


def test_a_variable_keeps_the_size_it_comes_in_with() -> None:
    x = x_of()
    assert shapes_of(loop(lambda t, y: tf.tanh(y) * x, 3, x)) == ["n,3"]


def test_one_that_grows_has_a_size_of_its_own() -> None:
    x = x_of()
    grown, other = loop(lambda t, y, z: (tf.concat([y, x], 0), z * 2.0), 3, x, x, shapes=OPEN * 2)
    assert shapes_of(grown, other) == ["?,3", "n,3"]


def test_one_that_takes_another_ones_place() -> None:
    x, seen = x_of(), []

    def body(t: Any, y: Any, z: Any) -> Any:
        seen.extend([y, z])
        return z, z[1:]

    first, second = loop(body, 2, x, x, shapes=OPEN * 2)
    assert shapes_of(first, second, *seen) == ["?,3"] * 4


def test_loops_in_a_loop() -> None:
    x = x_of()

    def outer(t: Any, y: Any, z: Any) -> Any:
        y = loop(lambda u, v: v * 0.5 + y, 2, y)
        return y, loop(lambda u, v: tf.concat([v, y], 0), 2, z, shapes=OPEN)

    assert shapes_of(*loop(outer, 2, x, x, shapes=OPEN * 2)) == ["n,3", "?,3"]


def test_sides_of_a_cond() -> None:
    x = x_of()
    like = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.exp(x), lambda: -x)
    other = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.exp(x), lambda: x[1:])
    assert shapes_of(like, other) == ["n,3", "?,3"]


def test_a_state_beside_an_input_of_another_placeholder() -> None:
    """Side by side both have the same rows, or the kernel raises."""
    x, other = x_of(), tf.placeholder(tf.float32, [None, 2], "other")
    weight = tf.ones([5, 3])
    y = loop(lambda t, y: tf.tanh(tf.matmul(tf.concat([other, y], 1), weight)), 2, x)
    assert shapes_of(y, feeds=("x", "other")) == ["n,3"]
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError):
        session.run(y, {x: np.ones((2, 3)), other: np.ones((3, 2))})


@pytest.mark.parametrize(("part", "expected"), [(0, "n,3"), (1, "?,3")])
def test_elements_of_an_array(part: int, expected: str) -> None:
    """Of one that holds tensors of other rows too nothing is known."""
    x = x_of()
    array = tf.TensorArray(tf.float32, 2, clear_after_read=False, infer_shape=False).write(0, x)
    array = array.write(1, x[part:])
    read, stacked = array.read(0), array.stack()
    read.set_shape([None, 3]), stacked.set_shape([2, None, 3])
    assert shapes_of(read, stacked) == [expected, f"2,{expected}"]


def test_an_array_that_is_written_in_a_loop() -> None:
    x = x_of()
    arrays = [tf.TensorArray(tf.float32, 3, infer_shape=False) for _ in range(2)]

    def body(t: Any, first: Any, second: Any) -> Any:
        return first.write(t, x * 2.0), second.write(t, x[t:])

    first, second = loop(body, 3, *arrays)
    reads = [first.read(0), second.read(2)]
    for read in reads:
        read.set_shape([None, 3])
    assert shapes_of(*reads) == ["n,3", "?,3"]


def test_what_a_shape_vector_holds_behind_a_sum() -> None:
    x = x_of()
    kept = tf.dynamic_stitch([[0, 1], [1]], [tf.shape(x), [1]])
    assert shapes_of(tf.reshape(tf.reduce_sum(x, 1), kept)) == ["n,1"]


# ---------------------------------------------------------------------- gradients


def cell() -> Made:
    """A cell by dynamic_rnn, of sequences of several lengths, whose rows are open."""
    x, lengths = tf.placeholder(tf.float32, [None, 4, 5]), tf.placeholder(tf.int32, [None])
    made = tf.nn.rnn_cell.GRUCell(6, kernel_initializer=tf.random_uniform_initializer(-0.5, 0.5, seed=1))
    out, state = tf.nn.dynamic_rnn(made, x, lengths, dtype=tf.float32)
    loss = tf.reduce_mean(tf.square(state)) + tf.reduce_mean(out * out)
    values = normal(7, 4, 5)
    return tf.gradients(loss, [x, *tf.trainable_variables()]), {x: values, lengths: [4, 0, 1, 2, 3, 4, 1]}


def attention() -> Made:
    """Scores of what a first loop has stacked, in each step of a second one; another placeholder's rows beside it."""
    x, inputs = tf.placeholder(tf.float32, [None, 3, 5]), tf.placeholder(tf.float32, [4, None, 5])
    w = tf.get_variable("w", [10, 5], initializer=tf.random_uniform_initializer(-0.5, 0.5, seed=2))
    v = tf.get_variable("v", [5], initializer=tf.random_uniform_initializer(-0.5, 0.5, seed=3))
    memory = tf.transpose(tf.scan(lambda h, a: tf.tanh(h + a), tf.transpose(x, [1, 0, 2])), [1, 0, 2])

    def body(t: Any, h: Any, out: Any) -> Any:
        h = tf.tanh(tf.matmul(tf.concat([inputs[t], h], 1), w))
        scores = tf.nn.softmax(tf.reduce_sum(v * tf.tanh(memory + tf.expand_dims(h, 1)), 2))
        h = h + tf.reduce_sum(tf.expand_dims(scores, 2) * memory, 1)
        return h, out.write(t, h)

    _, out = loop(body, 4, memory[:, -1], tf.TensorArray(tf.float32, 4))
    loss = tf.reduce_sum(tf.square(out.stack()))
    values = [normal(6, 3, 5), normal(4, 6, 5)]
    return tf.gradients(loss, [x, inputs, w, v]), dict(zip((x, inputs), values))


def growing() -> Made:
    """A state of more rows in each iteration, by which one of one row is repeated."""
    x = tf.placeholder(tf.float32, [None, 3])

    def body(t: Any, y: Any, z: Any) -> Any:
        return tf.concat([y, y[:1] * z[:1]], 0), tf.tanh(y * 0.5 + z[:1])

    y, z = loop(body, 3, x, x, shapes=OPEN * 2)
    loss = tf.reduce_sum(y * y) + tf.reduce_sum(z * z)
    return [y, z, *tf.gradients(loss, [x])], {x: normal(1, 3)}


def spread() -> Made:
    """Rows that only turn out to be one, and are repeated in each iteration."""
    x, row = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 3])
    y, z = loop(lambda t, y, z: (tf.tanh(y * z + z), tf.sin(z)), 3, x, row)
    loss = tf.reduce_sum(y * y) + tf.reduce_sum(z)
    values = [normal(4, 3), normal(1, 3)]
    return [y, *tf.gradients(loss, [x, row])], dict(zip((x, row), values))


def no_iteration() -> Made:
    x, steps = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.int32, [])
    y = loop(lambda t, y: tf.tanh(y) * x, steps, x)
    return [y, *tf.gradients(tf.reduce_sum(y * y), [x])], {x: np.ones((4, 3), np.float32), steps: 0}


def other_sizes_of_each_iteration() -> Made:
    """Stacks and arrays that hold tensors of another size each time."""
    x = tf.placeholder(tf.float32, [None, 3])

    def body(t: Any, total: Any, out: Any) -> Any:
        some = tf.tanh(x[t:]) * tf.sigmoid(x[t:])
        return total + tf.reduce_sum(some * some), out.write(t, some * 2.0)

    total, out = loop(body, 3, tf.constant(0.0), tf.TensorArray(tf.float32, 3, infer_shape=False))
    what = [total, *tf.gradients(total + tf.reduce_sum(out.concat()), [x])]
    return what, {x: normal(4, 3)}


CASES = [cell, attention, growing, spread, no_iteration, other_sizes_of_each_iteration]


def outcomes(make: Callable[[], Made], off: bool = False) -> tuple[list[bytes], dict[str, int]]:
    """The results' bits, and how many nodes of each op the step has."""
    config, counts = tf.ConfigProto(), dict[str, int]()
    if off:
        config.graph_options.rewrite_options.arithmetic_optimization = RewriterConfig.OFF
        config.graph_options.rewrite_options.constant_folding = RewriterConfig.OFF
        config.graph_options.rewrite_options.dependency_optimization = RewriterConfig.OFF
    with tf.Graph().as_default():
        what, feed = make()
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            metadata, options = tf.RunMetadata(), tf.RunOptions(output_partition_graphs=True)
            values = session.run(what, feed, options, metadata)
    for node in (n for part in metadata.partition_graphs for n in part.node):
        counts[node.op] = counts.get(node.op, 0) + 1
    return [np.asarray(v).tobytes() for v in values], counts


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_gradients_keep_their_bits(make: Callable[[], Made]) -> None:
    assert outcomes(make)[0] == outcomes(make, off=True)[0]


def test_a_cell_of_open_rows_asks_for_no_shapes() -> None:
    counts, before = outcomes(cell)[1], outcomes(cell, off=True)[1]
    assert "BroadcastGradientArgs" not in counts and before["BroadcastGradientArgs"] >= 4
    assert counts["StackPushV2"] == counts["StackPopV2"] <= before["StackPushV2"] - 2


def test_attention_of_open_rows_asks_for_few() -> None:
    counts, before = outcomes(attention)[1], outcomes(attention, off=True)[1]
    assert counts.get("BroadcastGradientArgs", 0) == 0 < before["BroadcastGradientArgs"]
