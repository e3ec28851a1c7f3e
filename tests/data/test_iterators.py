"""What stands for an iterator in the graph."""

from __future__ import annotations

from typing import Any

import sparkflow as tf


def test_libraries_ask_for_the_name_of_an_iterators_resource(graph: Any) -> None:
    iterator = tf.data.Dataset.range(2).make_initializable_iterator()
    resource = iterator._iterator_resource
    assert resource is iterator._iterator_resource and graph.get_tensor_by_name(resource.name) is resource
    other = tf.data.Iterator.from_string_handle(resource, iterator.output_types, iterator.output_shapes).get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        assert [session.run(other), session.run(iterator.get_next())] == [0, 1]
