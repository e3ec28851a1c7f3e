"""Variables as graph objects, and what they do when a session runs them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow_runtime.wire.errors import FailedPreconditionError, InvalidArgumentError


def test_its_nodes(graph: Graph) -> None:
    w = tf.Variable(tf.zeros([2, 3]), name="w")
    assert [(op.name, op.type) for op in graph.get_operations()[1:]] == [
        ("w", "VariableV2"),
        ("w/Assign", "Assign"),
        ("w/read", "Identity"),
    ]
    assert graph.get_operation_by_name("w/Assign").get_attr("_class") == [b"loc:@w"]
    assert (w.name, w.op.name, w.shape.as_list(), w.dtype.name) == ("w:0", "w", [2, 3], "float32_ref")
    assert graph.get_collection("variables") == graph.get_collection("trainable_variables") == [w]
    assert tf.Variable(1.0, name="w").name == "w_1:0"
    assert tf.Variable(1.0).name == "Variable:0"


def test_collections(graph: Graph) -> None:
    kept = tf.Variable(1.0, trainable=False)
    local = tf.Variable(1.0, trainable=False, collections=["local_variables"])
    assert tf.global_variables() == [kept] and tf.local_variables() == [local] and tf.trainable_variables() == []


def test_initializers_follow_the_variable_to_its_device(graph: Graph) -> None:
    with tf.device("/job:ps/task:1"):
        w = tf.Variable(lambda: tf.random_uniform([2]), name="w")
    inside = [op for op in graph.get_operations() if op.name.startswith("w/Initializer")]
    assert inside and all(op.device == "/job:ps/task:1" for op in inside)
    assert w.initializer.device == w.value().device == "/job:ps/task:1"


def test_no_control_input_delays_an_initializer(graph: Graph) -> None:
    with tf.control_dependencies([tf.no_op()]):
        w = tf.Variable(1.0)
    assert w.initializer.control_inputs == [] and w.initial_value.op.control_inputs == []


def test_refusals(graph: Graph) -> None:
    with pytest.raises(ValueError, match="initial_value must be specified"):
        tf.Variable()
    unknown = tf.placeholder(tf.float32)
    with pytest.raises(ValueError, match="must have a shape specified"):
        tf.Variable(unknown)
    assert tf.Variable(unknown, validate_shape=False).shape.ndims is None
    with pytest.raises(TypeError, match="not iterable"):
        list(tf.Variable([1.0, 2.0]))
    with pytest.raises(ValueError, match="float32"):
        tf.convert_to_tensor(tf.Variable(1.0), tf.int32)
    with pytest.raises(InvalidArgumentError, match="not compatible"):
        tf.assign(tf.Variable([1.0, 2.0]), [1.0])
    with pytest.raises(TypeError, match="mutable"):
        tf.assign(tf.constant(1.0), 2.0)


def test_run(graph: Graph) -> None:
    w = tf.Variable([1.0, 2.0])
    total = 2 * w + w[0] - 1
    step = w.assign_add([1.0, 1.0])
    with tf.Session() as sess:
        with pytest.raises(FailedPreconditionError, match="uninitialized value Variable"):
            sess.run(w)
        sess.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(sess.run(total), [2, 4])
        np.testing.assert_array_equal(sess.run(step), [2, 3])
        before = sess.run(w)
        sess.run(w.assign_sub([1.0, 1.0]))
        np.testing.assert_array_equal(before, [2, 3])  # a fetch does not change later
        np.testing.assert_array_equal(w.eval(), [1, 2])
        w.load([5.0, 6.0])
        np.testing.assert_array_equal(sess.run(w.read_value()), [5, 6])
        assert sess.run(w.assign([7.0, 7.0], read_value=False)) is None
        np.testing.assert_array_equal(sess.run(w), [7, 7])


def test_reads_after_writes(graph: Graph) -> None:
    w = tf.Variable(0.0)
    with tf.control_dependencies([w.assign(3.0)]):
        after = w.read_value()
    with tf.Session() as sess:
        sess.run(w.initializer)
        assert sess.run(after) == 3


def test_variables_made_of_others_initialize_together(graph: Graph) -> None:
    a = tf.Variable(tf.random_uniform([4]), name="a")
    b = tf.Variable(tf.square(a) + 1.0, name="b")
    c = tf.Variable(b.initialized_value() * 2.0, name="c")
    init = tf.global_variables_initializer()
    for _ in range(5):
        with tf.Session() as sess:
            sess.run(init)
            va, vb, vc = sess.run([a, b, c])
            np.testing.assert_array_equal(vb, va * va + 1)
            np.testing.assert_array_equal(vc, 2 * vb)


def test_a_variable_made_of_another_leaves_that_as_it_is(graph: Graph) -> None:
    a = tf.Variable(tf.random_uniform([4]), name="a")
    b = tf.Variable(a * 2.0, name="b")
    with tf.Session() as sess:
        sess.run(a.initializer)
        sess.run(a.assign([1.0, 2.0, 3.0, 4.0]))
        sess.run(b.initializer)
        assert sess.run([a, b])[1].tolist() == [2, 4, 6, 8]
        assert sess.run(a).tolist() == [1, 2, 3, 4]


def test_scatter_methods(graph: Graph) -> None:
    w = tf.Variable(tf.zeros([3, 2]))
    rows = tf.IndexedSlices(tf.ones([3, 2]), tf.constant([1, 1, 2]))
    with tf.Session() as sess:
        sess.run(w.initializer)
        np.testing.assert_array_equal(sess.run(w.scatter_add(rows)), [[0, 0], [2, 2], [1, 1]])
        np.testing.assert_array_equal(sess.run(w.scatter_update(rows)), [[0, 0], [1, 1], [1, 1]])
        bad = tf.scatter_sub(w, tf.placeholder_with_default([3], [1]), tf.ones([1, 2]))
        with pytest.raises(InvalidArgumentError, match=r"indices\[0\] = 3 is not in \[0, 3\)"):
            sess.run(bad)
    with pytest.raises(InvalidArgumentError, match="updates must have shape"):
        tf.scatter_add(w, [0, 1], tf.ones([2, 3]))


def test_report_uninitialized(graph: Graph) -> None:
    a, b = tf.Variable(1.0, name="a"), tf.Variable(1.0, name="b")
    report, ready = tf.report_uninitialized_variables(), tf.is_variable_initialized(a)
    with tf.Session() as sess:
        assert list(sess.run(report)) == [b"a", b"b"]
        sess.run(a.initializer)
        assert list(sess.run(report)) == [b"b"] and sess.run(ready)
        sess.run(b.initializer)
        assert len(sess.run(report)) == 0


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_variable_says_whether_it_is_initialized(graph: Graph, use_resource: bool) -> None:
    v = tf.Variable(1.0, name="v", use_resource=use_resource)
    told = v.is_initialized(name="told")
    assert told.name == "told:0"
    with tf.Session() as sess:
        assert not sess.run(told)
        sess.run(v.initializer)
        assert sess.run(told)


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64", "bool", "float16", "complex64"])
def test_dtypes_stay(graph: Graph, dtype: str) -> None:
    w: Any = tf.Variable(np.ones(3, dtype))
    with tf.Session() as sess:
        sess.run(w.initializer)
        assert sess.run(w).dtype == dtype


def test_a_variable_may_change_shape_when_told_so(graph: Graph) -> None:
    w = tf.Variable([1.0], validate_shape=False)
    grown = tf.assign(w, [1.0, 2.0], validate_shape=False)
    with tf.Session() as sess:
        sess.run(w.initializer)
        sess.run(grown)
        assert sess.run(w).shape == (2,)


@pytest.mark.parametrize("use_resource", [False, True])
def test_variables_of_text_are_joined(use_resource: bool) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=tf.constant(["a", "b"]), use_resource=use_resource)
        session.run(v.initializer)
        assert session.run(v + "x").tolist() == [b"ax", b"bx"]
        assert session.run("x" + v).tolist() == [b"xa", b"xb"]


def test_a_control_dependency_shows_what_was_assigned(graph: Any) -> None:
    """Though the read itself waits for nothing: it gives the variable's memory."""
    count, table = tf.Variable(1.0), tf.Variable(tf.ones([2, 2]))
    fetched = table + 0.0
    with tf.control_dependencies([count.assign(count * 2), table.assign(table + 3)]):
        seen = [tf.identity(count), count + 0.5, table * 2.0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        held = session.run([table, fetched, count])
        for n in (1, 2, 3):
            one, more, twice = session.run(seen)
            assert (one, more) == (2**n, 2**n + 0.5) and (twice == 2 * (1 + 3 * n)).all()
        assert (held[0] == 1).all() and (held[1] == 1).all() and held[2] == 1, "what was fetched is the user's"


def test_a_part_of_a_variable_is_assigned_to(graph: Any) -> None:
    v = tf.Variable(tf.zeros([3, 2]))
    with tf.control_dependencies([v[1].assign([5.0, 6.0]), tf.assign(v[:1, 1], [7.0])]):
        after = v + 0.0
    wrong = v[1].assign(tf.placeholder_with_default([1.0, 2.0, 3.0], None))
    assert not hasattr(tf.zeros([2])[0], "assign")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(after).tolist() == [[0, 7], [5, 6], [0, 0]]
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"slice of variable 'Variable' has shape \(2,\)"):
            session.run(wrong)


def test_as_a_message(graph: Graph) -> None:
    """A VariableDef names the nodes of a variable, with or without the scope it stands in."""
    with tf.name_scope("a"):
        v = tf.Variable([1.0, 2.0], trainable=False, name="v")
    whole, inside = v.to_proto(), v.to_proto("a")
    assert (whole.variable_name, whole.snapshot_name, whole.initializer_name) == ("a/v:0", "a/v/read:0", "a/v/Assign")
    assert (inside.variable_name, inside.initial_value_name) == ("v:0", "v/initial_value:0")
    assert v.to_proto("b") is None
    made = len(graph.get_operations())
    for again in (tf.Variable.from_proto(inside, import_scope="a/"), tf.Variable(variable_def=whole)):
        assert (again.op, again.initializer, again.value()) == (v.op, v.initializer, v.value())
        assert not again.trainable and again.initial_value is v.initial_value
    assert len(graph.get_operations()) == made and tf.global_variables() == [v]
    with pytest.raises(KeyError, match="zz/a/v"):
        tf.Variable.from_proto(whole, import_scope="zz")
    with pytest.raises(ValueError, match="mutually exclusive"):
        tf.Variable(1.0, variable_def=whole)
    with pytest.raises(TypeError, match="VariableDef, got str"):
        tf.Variable(variable_def="a/v:0")


def test_parts_as_messages(graph: Graph) -> None:
    parts = tf.get_variable("p", [4, 2], partitioner=tf.fixed_size_partitioner(2))
    proto = list(parts)[1].to_proto()
    info = tf.Variable.from_proto(proto)._get_save_slice_info()
    assert (info.full_name, info.spec) == ("p", "4 2 2,2:0,2")
    assert info.to_proto("q") is None and info.to_proto("p").full_name == "p"
    with pytest.raises(ValueError, match="each of its 2 parts, got 1"):
        parts.assign([tf.zeros([2, 2])])


def test_modes_of_replicas(graph: Graph) -> None:
    """They are kept, also in a graph's file; what is for reading alone is not trained."""
    kinds, sums = tf.VariableSynchronization, tf.VariableAggregation
    plain, read = tf.Variable(1.0), tf.Variable(1.0, synchronization=kinds.ON_READ)
    assert (plain.synchronization, plain.aggregation, plain.trainable) == (kinds.AUTO, sums.NONE, True)
    assert not read.trainable and tf.Variable(1.0, True, synchronization=kinds.ON_READ).trainable
    assert read not in tf.trainable_variables()
    shared = tf.get_variable("shared", [1], aggregation=sums.SUM, synchronization=kinds.ON_WRITE)
    again = tf.Variable.from_proto(shared.to_proto())
    for v in (shared, again):
        assert (v.aggregation, v.synchronization, v.aggregation.value) == (sums.SUM, kinds.ON_WRITE, 1)
    assert [m.name for m in sums] == ["NONE", "SUM", "MEAN", "ONLY_FIRST_REPLICA"]
    with pytest.raises(ValueError, match=r"Invalid variable aggregation mode: 'SUM'; there are Var"):
        tf.Variable(1.0, aggregation="SUM")
    with pytest.raises(ValueError, match="Invalid variable synchronization mode: 7"):
        tf.get_variable("bad", [1], synchronization=7)
