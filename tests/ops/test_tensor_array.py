"""What TensorArray knows of its shapes, and what it refuses. Values: test_control_flow_programs."""

from __future__ import annotations

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph


def test_shapes_are_learned_from_what_is_written(graph: Graph) -> None:
    ta = tf.TensorArray(tf.float32, size=3)
    assert ta.element_shape.ndims is None and ta.dtype is tf.float32 and not ta.dynamic_size
    later = ta.write(0, tf.zeros([2]))
    assert ta.element_shape.as_list() == [2] and later.read(0).shape.as_list() == [2]
    assert later.stack().shape.as_list() == [3, 2] and later.gather([0, 1]).shape.as_list() == [2, 2]
    with pytest.raises(ValueError, match=r"Inconsistent shapes: saw \(3,\) but expected \(2,\)"):
        later.write(1, tf.zeros([3]))
    assert tf.TensorArray(tf.float32, size=2, infer_shape=False).write(0, [1.0]).read(0).shape.ndims is None


def test_a_loop_teaches_the_list_outside(graph: Graph) -> None:
    ta = tf.TensorArray(tf.float32, size=4)
    _, ta = tf.while_loop(lambda i, _: i < 4, lambda i, ta: (i + 1, ta.write(i, tf.zeros([2]))), [0, ta])
    assert ta.stack().shape.as_list() == [4, 2]


def test_parts(graph: Graph) -> None:
    ta = tf.TensorArray(tf.float32, size=2, element_shape=[2, 3], clear_after_read=False).split(
        tf.zeros([4, 3]), [2, 2]
    )
    assert ta.concat().shape.as_list() == [4, 3] and ta.element_shape.as_list() == [2, 3]
    with tf.control_dependencies([ta.concat()]):
        again = ta.identity()
    size, last = again.size(), again.read(1)
    with tf.control_dependencies([size, last]):
        closed = ta.close()
    with tf.Session() as session:
        assert session.run([size, last, closed])[1].shape == (2, 3)


def test_it_lives_beside_its_first_value(graph: Graph) -> None:
    value = tf.zeros([2], name="value")
    ta = tf.TensorArray(tf.float32, size=2).write(0, value).write(1, tf.ones([2]))
    assert ta.flow.op.attrs["_class"] == ["loc:@value"]
    alone = tf.TensorArray(tf.float32, size=2, colocate_with_first_write_call=False).write(0, value)
    assert "_class" not in alone.flow.op.attrs


def test_the_gradients_of_one_source_meet(graph: Graph) -> None:
    ta = tf.TensorArray(tf.float32, size=2, clear_after_read=False).unstack(tf.zeros([2]))
    first = ta.grad("g").write(0, 2.0)
    with tf.control_dependencies([first.flow]):
        second = ta.grad("g").write(0, 3.0)
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(second.stack()), [5, 0])


def test_refusals(graph: Graph) -> None:
    with pytest.raises(ValueError, match="one of size, for a new list, and handle"):
        tf.TensorArray(tf.float32)
    ta = tf.TensorArray(tf.float32, size=1)
    with pytest.raises(ValueError, match="cannot be set with handle"):
        tf.TensorArray(tf.float32, handle=ta.handle, dynamic_size=True)
    with pytest.raises(ValueError, match="float32"):
        ta.write(0, tf.constant(1))


def test_elements_can_be_read_once(graph: Graph) -> None:
    ta = tf.TensorArray(tf.float32, size=2).unstack([1.0, 2.0])
    once = ta.read(0)
    with tf.control_dependencies([once]):
        twice = ta.read(0)
    with tf.Session() as session:
        assert session.run(once) == 1
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(twice)
        with pytest.raises(tf.errors.OpError):
            session.run(ta.read(5))


def test_strings(graph: Graph) -> None:
    """Of arrays, and of single ones that a loop makes; what was not written is empty."""
    words = tf.constant(["a", "b"])
    whole = tf.TensorArray(tf.string, 2).unstack(words).stack()
    some = tf.TensorArray(tf.string, 3).write(1, "x").stack()
    mapped = tf.map_fn(lambda word: word + "z", words)
    pairs = tf.map_fn(lambda word: tf.stack([word, word]), words)
    with tf.Session() as session:
        found = session.run([whole, some, mapped, pairs, tf.scan(lambda a, b: a + b, words)])
    assert [f.tolist() for f in found] == [
        [b"a", b"b"], [b"", b"x", b""], [b"az", b"bz"], [[b"a", b"a"], [b"b", b"b"]], [b"a", b"ab"],
    ]  # fmt: skip


def test_what_was_not_written_is_zero_where_the_shape_was_learned(graph: Graph) -> None:
    with tf.Session() as session:
        found = session.run(tf.TensorArray(tf.float32, 3).write(1, [1.0, 2.0]).stack())
        assert found.tolist() == [[0, 0], [1, 2], [0, 0]]
        value = tf.placeholder_with_default([1.0], None)
        assert session.run(tf.TensorArray(tf.float32, 2).write(0, value).stack()).tolist() == [[1], [0]]  # when it runs
        unknown = tf.TensorArray(tf.float32, 2, infer_shape=False).write(0, value)
        with pytest.raises(tf.errors.InvalidArgumentError, match="was not written"):
            session.run(unknown.stack())
        assert session.run(unknown.write(1, tf.concat([value, value], 0)).concat()).tolist() == [1, 1, 1]
        other = tf.TensorArray(tf.float32, 2).write(0, value).write(1, tf.concat([value, value], 0))
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"shape \(2,\), its elements have shape \[1\]"):
            session.run(other.concat())


@pytest.mark.parametrize(("element", "want"), [([1], (0,)), ([None, 2], (0, 2)), ([3, 2], (0, 2)), ([], (0,))])
def test_joining_no_elements_gives_what_is_behind_their_first_axis(
    graph: tf.Graph, element: list[int | None], want: tuple[int, ...]
) -> None:
    joined = tf.TensorArray(tf.int32, size=0, element_shape=element, infer_shape=False).concat()
    with tf.Session() as session:
        assert session.run(joined).shape == want
