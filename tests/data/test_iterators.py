"""What stands for an iterator in the graph."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf


def test_libraries_ask_for_the_name_of_an_iterators_resource(graph: Any) -> None:
    iterator = tf.data.Dataset.range(2).make_initializable_iterator()
    resource = iterator._iterator_resource
    assert resource is iterator._iterator_resource and graph.get_tensor_by_name(resource.name) is resource
    other = tf.data.Iterator.from_string_handle(resource, iterator.output_types, iterator.output_shapes).get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        assert [session.run(other), session.run(iterator.get_next())] == [0, 1]


def test_another_iterator_of_the_same_elements(graph: Any) -> None:
    first = tf.data.Iterator.from_structure(tf.int64, [])
    start = first.make_initializer(tf.data.Dataset.range(5, 9))
    second = tf.data.Iterator(first._iterator_resource, start, tf.int64, tf.TensorShape([]), tf.Tensor)
    both, again = [i.get_next() for i in (first, second)], second.make_initializer(tf.data.Dataset.range(2))
    handle = tf.data.Iterator.from_string_handle(second.string_handle(), tf.int64, []).get_next()
    with tf.Session() as session:
        session.run(second.initializer)
        assert [session.run(t) for t in (both[0], both[1], handle, both[1])] == [5, 6, 7, 8]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(both[0])
        session.run(again)
        assert [session.run(both[0]), session.run(handle)] == [0, 1]
    with pytest.raises(ValueError, match="_iterator_resource"):
        tf.data.Iterator(tf.constant(""), None, tf.int64, [])
    with pytest.raises(TypeError, match="int64"):
        tf.data.Iterator(first._iterator_resource, start, tf.string, [])
