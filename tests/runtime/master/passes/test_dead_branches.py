"""Conds whose predicate no step decides: what is left of them, what they give, and what stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow_runtime.kernels.table  # noqa: F401 - registers the ops
from sparkflow_runtime.master.passes import Optimizer
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.wire.edges import verify
from sparkflow_runtime.wire.protos import RewriterConfig

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def ops(fetches: list[Any], feeds: tuple[str, ...] = ("x:0",), targets: tuple[str, ...] = ()) -> Counter[str]:
    nodes = {n.name: n for n in tf.get_default_graph().as_graph_def(add_shapes=True).node}
    names = [f.name for f in fetches]
    pruned = prune(nodes, list(feeds), names, list(targets))
    made = Optimizer().optimize(pruned, list(feeds), names, list(targets), sources=nodes)
    return Counter(n.op for n in verify(made, {f.partition(":")[0] for f in feeds}).node)


def given() -> tuple[Any, Any]:
    return tf.placeholder(tf.float32, [None, 4], "x"), tf.placeholder_with_default(False, [], "training")


def normal(x: Any, training: Any) -> Any:
    return tf.layers.batch_normalization(
        tf.layers.dense(x, 4, kernel_initializer=tf.ones_initializer()), training=training
    )


WRITTEN: dict[str, Callable[[Any, Any], Any]] = {
    "cond": lambda x, t: tf.cond(t, lambda: x * 2.0, lambda: x + 1.0),
    "turned": lambda x, t: tf.cond(tf.logical_not(t), lambda: x * 2.0, lambda: x + 1.0),
    "both": lambda x, t: tf.cond(tf.logical_and(tf.reduce_sum(x) > 0, t), lambda: x * 2.0, lambda: x + 1.0),
    "either": lambda x, t: tf.cond(tf.logical_or(tf.logical_not(t), x[0, 0] > 0), lambda: x * 2.0, lambda: x + 1.0),
    "nested": lambda x, t: tf.cond(
        x[0, 1] > 0,
        lambda: tf.cond(t, lambda: x * 2.0, lambda: x + 1.0),
        lambda: tf.cond(t, lambda: x, lambda: x * 9.0),
    ),
    "inside out": lambda x, t: tf.cond(t, lambda: x, lambda: tf.cond(x[0, 1] > 0, lambda: x * 2.0, lambda: x + 1.0)),
    "a loop in it": lambda x, t: tf.cond(
        t, lambda: x, lambda: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2.0), [0, x])[1]
    ),
    "a loop in what never runs": lambda x, t: tf.cond(
        t, lambda: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2.0), [0, x])[1], lambda: x + 1.0
    ),
    "in a loop": lambda x, t: tf.while_loop(
        lambda i, y: i < 3,
        lambda i, y: (i + 1, tf.cond(t, lambda: y * 2.0, lambda: y + 1.0)),
        [0, x],
    )[1],
    "several outputs": lambda x, t: tf.add_n(tf.cond(t, lambda: [x, x * 2.0], lambda: [x * 3.0, x])),
    "dropout": lambda x, t: tf.layers.dropout(x, 0.5, training=t, seed=3),
    "batch normalization": normal,
    "smart": lambda x, t: tf.case([(t, lambda: x), (x[0, 0] > 5, lambda: x * 2.0)], lambda: x * 3.0),
}


@pytest.mark.parametrize("fed", [None, False, True])
@pytest.mark.parametrize("how", WRITTEN)
def test_the_same_values_and_gradients(how: str, fed: bool | None) -> None:
    found = []
    for on in (RewriterConfig.ON, RewriterConfig.OFF):
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.dependency_optimization = on
        with tf.Graph().as_default(), tf.Session(config=config) as session:
            tf.set_random_seed(1)
            x, training = given()
            out = WRITTEN[how](x, training)
            session.run(tf.global_variables_initializer())
            feed = {x: X} if fed is None else {x: X, training: fed}
            found.append(session.run([out, *tf.gradients(tf.square(out), [x])], feed))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("how", [how for how in WRITTEN if how != "in a loop"])
def test_no_control_flow_is_left_of_it(graph: Any, how: str) -> None:
    x, training = given()
    out = WRITTEN[how](x, training)
    gradient = tf.gradients(tf.square(out), [x])
    left, fed = ops([out, *gradient]), ops([out, *gradient], ("x:0", "training:0"))
    assert left["Switch"] < fed["Switch"] and left["Merge"] < fed["Merge"]
    if how in ("cond", "turned", "both", "either", "several outputs", "dropout", "batch normalization"):
        assert not left["Switch"] and not left["Merge"]
    if "loop" not in how and how not in ("nested", "inside out", "smart"):
        assert not left["Switch"] + left["Merge"]
    if how == "a loop in what never runs":
        assert not left["Enter"] + left["Exit"] + left["NextIteration"]


def test_training_takes_its_side(graph: Any) -> None:
    """Updates that hang on a side that runs are made, and only these."""
    counter = tf.get_variable("counter", initializer=0)
    training = tf.placeholder_with_default(True, [], "training")
    count = tf.cond(training, lambda: tf.assign_add(counter, 1), lambda: tf.assign_add(counter, 100))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(count) == 1 and session.run(count, {training: False}) == 101 and session.run(count) == 102
        session.run(count.op)
        assert session.run(counter) == 103


def test_what_is_asked_of_a_side_that_does_not_run(graph: Any) -> None:
    x, training = given()
    off, on = tf.raw_ops.Switch(data=x, pred=training)
    doubled, more = on * 2.0, off + 1.0
    merged, _ = tf.raw_ops.Merge(inputs=[more, doubled])
    with tf.Session() as session:
        assert session.run([merged, more], {x: X})[0].tolist() == (X + 1).tolist()
        with pytest.raises(tf.errors.InvalidArgumentError, match="does not have a value"):
            session.run([merged, doubled], {x: X})
        assert session.run([merged, doubled], {x: X, training: True})[1].tolist() == (X * 2).tolist()
        assert session.run(merged, {x: X, doubled: -X, training: True}).tolist() == (-X).tolist()


def test_which_input_of_a_merge_came(graph: Any) -> None:
    x, training = given()
    off, on = tf.raw_ops.Switch(data=x, pred=training)
    merged, index = tf.raw_ops.Merge(inputs=[off + 1.0, on * 2.0])
    more = index * 10
    with tf.Session() as session:
        assert session.run([merged, index, more], {x: X, training: True})[1:] == [1, 10]
        assert session.run([merged, more], {x: X})[1] == 0
        assert session.run(more, {x: X}) == 0 and session.run([index, more], {x: X}) == [0, 0]
        assert session.run([on], {x: X, training: True})[0].tolist() == X.tolist()
        with pytest.raises(tf.errors.InvalidArgumentError, match="does not have a value"):
            session.run(on, {x: X})


def test_a_predicate_that_waits(graph: Any) -> None:
    """What it waits for is done all the same."""
    x, training = given()
    with tf.control_dependencies([tf.debugging.assert_positive(x)]):
        asked = tf.identity(training)
    out = tf.cond(asked, lambda: tf.constant(1.0), lambda: tf.constant(2.0))
    with tf.Session() as session:
        assert session.run(out, {x: X + 1}) == 2.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="positive"):
            session.run(out, {x: -X})


def test_conds_of_loops_stay(graph: Any) -> None:
    """Their gradients keep what they decided, iteration by iteration."""
    x, training = given()
    out = WRITTEN["in a loop"](x, training)
    gradient = tf.gradients(tf.square(out), [x])
    assert ops([out, *gradient])["Switch"] == ops([out, *gradient], ("x:0", "training:0"))["Switch"]


@pytest.mark.parametrize("feeds", [{}, {"training:0": False}])
def test_what_only_a_dead_side_takes_still_changes(feeds: dict[str, bool]) -> None:
    """As in TensorFlow, where what is outside of a cond runs whichever side does."""
    with tf.Graph().as_default(), tf.Session() as session:
        training = tf.placeholder_with_default(False, [], name="training")
        count = tf.get_variable("count", initializer=0.0)
        batch = tf.data.Dataset.range(10).make_one_shot_iterator().get_next()
        seen = tf.assign_add(count, 1.0)
        out = tf.cond(
            training, lambda: (tf.identity(batch), tf.identity(seen)), lambda: (tf.constant(-1, tf.int64), 0.0)
        )
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            assert session.run(out, feeds) == (-1, 0.0)
        assert session.run([batch, count]) == [3, 3.0]
