"""Names, sharing and defaults of get_variable; the expected names are TensorFlow 1's."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph


def test_names(graph: Graph) -> None:
    with tf.variable_scope("a") as a:
        assert tf.get_variable("w", [1]).name == "a/w:0"
        with tf.variable_scope("b"):
            assert tf.get_variable("w", [1]).name == "a/b/w:0"
            assert tf.identity(1.0).name == "a/b/Identity:0"
        with tf.name_scope("n"):
            assert tf.get_variable("v", [1]).name == "a/v:0"
    with tf.variable_scope("a"):
        assert tf.identity(1.0).name == "a_1/Identity:0"
        assert tf.get_variable("u", [1]).name == "a/u:0"
    with tf.variable_scope("c"), tf.variable_scope(a) as again:
        assert again.name == "a" and again.original_name_scope == "a/"
        assert tf.get_variable("x", [1]).name == "a/x:0"
        assert tf.identity(1.0).name == "c/a/Identity:0"
    with tf.variable_scope("d", auxiliary_name_scope=False):
        assert tf.identity(1.0).name == "Identity:0"
        assert tf.get_variable("w", [1]).name == "d/w:0"
    assert tf.get_variable_scope().name == ""


def test_default_names_are_made_unique(graph: Graph) -> None:
    names = []
    for _ in range(3):
        with tf.variable_scope(None, "layer") as scope:
            names.append(scope.name)
            with tf.variable_scope(None, "inner") as inner:
                names.append(inner.name)
    assert names == ["layer", "layer/inner", "layer_1", "layer_1/inner", "layer_2", "layer_2/inner"]
    with (
        pytest.raises(ValueError, match="reuse=True cannot be used without a name_or_scope"),
        tf.variable_scope(None, "x", reuse=True),
    ):
        pass
    with pytest.raises(TypeError, match="name_or_scope is required"), tf.variable_scope(None):
        pass


def test_sharing(graph: Graph) -> None:
    with tf.variable_scope("s"):
        w = tf.get_variable("w", [2])
    assert tf.get_variable_scope().reuse is False and tf.VariableScope(None).reuse is False
    with tf.variable_scope("s", reuse=True):
        assert tf.get_variable("w", [2]) is w
        with tf.variable_scope("inner", reuse=False) as inner:  # sharing is inherited
            assert inner.reuse
    with tf.variable_scope("s") as scope:
        scope.reuse_variables()
        assert tf.get_variable("w") is w
    for _ in range(2):
        with tf.variable_scope("auto", reuse=tf.AUTO_REUSE):
            tf.get_variable("v", [1])
    assert [v.name for v in tf.global_variables()] == ["s/w:0", "auto/v:0"]


def test_a_second_one_is_refused_and_told_where_the_first_was_made(graph: Graph) -> None:
    frame = inspect.currentframe()
    assert frame is not None
    tf.get_variable("w", [2])
    line = frame.f_lineno - 1
    with pytest.raises(
        ValueError, match=r"Variable w already exists, disallowed\. Did you mean to set reuse=True"
    ) as error:
        tf.get_variable("w", [2])
    assert f'test_variable_scope.py", line {line}' in str(error.value)


def test_one_that_is_not_there_cannot_be_shared(graph: Graph) -> None:
    tf.Variable(1.0, name="s/w")
    with (
        tf.variable_scope("s", reuse=True),
        pytest.raises(ValueError, match=r"Variable s/w does not exist, or was not created with tf.get_variable\(\)"),
    ):
        tf.get_variable("w", [1])


def test_shared_variables_keep_shape_and_dtype(graph: Graph) -> None:
    tf.get_variable("w", [2, 3])
    tf.get_variable_scope().reuse_variables()
    with pytest.raises(
        ValueError, match=r"Trying to share variable w, but specified shape \(3, 2\) and found shape \(2, 3\)"
    ):
        tf.get_variable("w", [3, 2])
    with pytest.raises(ValueError, match="specified dtype int32 and found dtype float32"):
        tf.get_variable("w", [2, 3], dtype=tf.int32)


def test_initializers(graph: Graph) -> None:
    with tf.Session() as sess:
        made: list[Any] = [
            tf.get_variable("i", [2], dtype=tf.int32),
            tf.get_variable("ones", [2], initializer=tf.ones_initializer),
            tf.get_variable("constant", initializer=np.array([1.0, 2.0], np.float32)),
            tf.get_variable("function", initializer=lambda: tf.fill([2], 3.0)),
            tf.get_variable("shaped", [2], initializer=lambda shape, dtype: tf.fill(shape, tf.cast(4, dtype))),
            tf.get_variable("values", [2], initializer=tf.constant_initializer([5, 6])),
            tf.get_variable("half", [2], dtype=tf.float16, initializer=tf.zeros_initializer()),
        ]
        glorot = tf.get_variable("glorot", [30, 20])
        sess.run(tf.global_variables_initializer())
        values = sess.run(made)
        assert [v.tolist() for v in values] == [[0, 0], [1, 1], [1, 2], [3, 3], [4, 4], [5, 6], [0, 0]]
        assert values[-1].dtype == np.float16
        g = sess.run(glorot)
        limit = np.sqrt(6 / 50)
        assert 0.9 * limit < np.abs(g).max() <= limit and abs(g.mean()) < 0.05
    with pytest.raises(
        ValueError, match=r"Shape of a new variable \(open\) must be fully defined, but instead was \(\?, 2\)"
    ):
        tf.get_variable("open", [None, 2])
    with pytest.raises(ValueError, match="if initializer is a constant, do not specify shape"):
        tf.get_variable("both", [2], initializer=tf.constant([1.0, 2.0]))
    with pytest.raises(ValueError, match="An initializer for variable text of"):
        tf.get_variable("text", [2], dtype=tf.complex64)


@pytest.mark.parametrize(
    ("mode", "distribution", "variance"),
    [
        ("fan_in", "uniform", 1 / 200),
        ("fan_out", "truncated_normal", 1 / 100),
        ("fan_avg", "untruncated_normal", 1 / 150),
    ],
)
def test_variance_scaling(graph: Graph, mode: str, distribution: str, variance: float) -> None:
    init = tf.variance_scaling_initializer(1.0, mode, distribution, seed=3)
    with tf.Session() as sess:
        value = sess.run(init([200, 100]))
    assert value.dtype == np.float32
    assert abs(value.var() / variance - 1) < 0.05 and abs(value.mean()) < 0.01


def test_scope_settings_are_inherited(graph: Graph) -> None:
    with tf.variable_scope("s", initializer=tf.ones_initializer(), dtype=tf.float64, regularizer=tf.reduce_sum):
        with tf.variable_scope("t"):
            w = tf.get_variable("w", [2])
            tf.get_variable("free", [2], regularizer=tf.no_regularizer)
        assert w.dtype.base_dtype == tf.float64
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    assert len(losses) == 1 and losses[0].name.startswith("s/t/w/Regularizer/")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(losses[0]) == 2


def test_custom_getter(graph: Graph) -> None:
    seen = []

    def getter(get: Any, name: str, **kwargs: Any) -> Any:
        seen.append(name)
        return get(name=name, **kwargs)

    with tf.variable_scope("s", custom_getter=getter):
        assert tf.get_variable("w", [1]).name == "s/w:0"
    assert seen == ["s/w"]


def test_a_custom_getter_is_told_what_is_trained(graph: Graph) -> None:
    """Getters sort variables by it, and None would be neither."""
    seen = {}

    def getter(get: Any, name: str, **kwargs: Any) -> Any:
        seen[name] = kwargs["trainable"], kwargs["synchronization"], kwargs["aggregation"]
        return get(name=name, **kwargs)

    on_read = tf.VariableSynchronization.ON_READ
    with tf.variable_scope("s", custom_getter=getter):
        tf.get_variable("a", [1])
        tf.get_variable("b", [1], trainable=False)
        tf.get_variable("c", [1], synchronization=on_read, aggregation=tf.VariableAggregation.SUM)
    plain = tf.VariableSynchronization.AUTO, tf.VariableAggregation.NONE
    assert seen == {
        "s/a": (True, *plain), "s/b": (False, *plain), "s/c": (False, on_read, tf.VariableAggregation.SUM),
    }  # fmt: skip
    assert [v.op.name for v in tf.trainable_variables()] == ["s/a"]


def test_custom_getter_may_say_less_or_more(graph: Graph) -> None:
    """The getter that it calls has TensorFlow's defaults, and takes what has no effect here."""

    def getter(getter: Any, name: str, shape: Any, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        assert {"use_resource", "synchronization", "aggregation", "reuse", "partitioner"} <= kwargs.keys()
        return getter(f"{name}_own", shape, dtype, tf.ones_initializer(), trainable=False, use_resource=False)

    with tf.variable_scope("s", custom_getter=getter):
        made, again = (tf.get_variable("x", [2]) for _ in range(2))
    assert made is again and made.op.name == "s/x_own" and not tf.trainable_variables()


def test_local_variable(graph: Graph) -> None:
    v = tf.get_local_variable("v", [1])
    assert tf.local_variables() == [v] and tf.global_variables() == [] and tf.trainable_variables() == []


def test_partitions(graph: Graph) -> None:
    with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(3)):
        w = tf.get_variable("w", [7, 2], initializer=tf.ones_initializer())
    assert [v.name for v in w] == ["s/w/part_0:0", "s/w/part_1:0", "s/w/part_2:0"]
    assert [v.shape.as_list() for v in w] == [[3, 2], [2, 2], [2, 2]]
    assert [v._get_save_slice_info().spec for v in w] == ["7 2 0,3:0,2", "7 2 3,2:0,2", "7 2 5,2:0,2"]
    with tf.variable_scope("s", reuse=True, partitioner=tf.fixed_size_partitioner(3)):
        assert tf.get_variable("w", [7, 2]) is w
    with tf.variable_scope("s", reuse=True), pytest.raises(ValueError, match="a partitioned version"):
        tf.get_variable("w", [7, 2])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(sess.run(w + 0.0), np.concatenate(sess.run(list(w))))
        assert sess.run(w).shape == (7, 2)


def test_scalars_have_no_partitions(graph: Graph) -> None:
    """As a global step that is made in such a scope."""
    for reuse in (False, True):
        with tf.variable_scope("s", reuse=reuse, partitioner=tf.fixed_size_partitioner(3)):
            assert tf.get_variable("rate", []).op.name == "s/rate"
    with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(3)):
        assert tf.train.get_or_create_global_step().shape == ()


def test_partitions_of_a_constant(graph: Graph) -> None:
    table = np.arange(10, dtype=np.float32).reshape(5, 2)
    w = tf.get_variable("w", initializer=table, partitioner=tf.fixed_size_partitioner(2))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(sess.run(w), table)
        sess.run(w.assign(table * 2))
        np.testing.assert_array_equal(sess.run(w), table * 2)


def test_partitioners(graph: Graph) -> None:
    by_size = tf.variable_axis_size_partitioner(max_shard_bytes=80)
    assert by_size(shape=[10, 4], dtype=tf.float32) == [2, 1]  # 5 rows of 16 bytes each
    assert tf.variable_axis_size_partitioner(1, max_shards=3)(shape=[10, 4], dtype=tf.float32) == [3, 1]
    assert tf.fixed_size_partitioner(4, axis=1)(shape=[10, 3], dtype=tf.float32) == [1, 3]
    with pytest.raises(ValueError, match="more than one dimension"):
        tf.get_variable("w", [4, 4], partitioner=lambda shape, dtype: [2, 2])


def test_a_constant_initializer_says_the_type(graph: Any) -> None:
    for i, (value, name) in enumerate(((3, "int32"), ([1.5], "float32"), (True, "bool"), ("x", "string"))):
        assert tf.get_variable(f"v{i}", initializer=value).dtype.base_dtype.name == name
    assert tf.get_variable("w", initializer=np.zeros(2)).dtype.base_dtype == tf.float64


def test_strings_begin_empty(graph: Graph) -> None:
    names = tf.get_variable("names", [2], tf.string)
    with tf.Session() as session:
        session.run(names.initializer)
        assert session.run(names).tolist() == [b"", b""]


def test_a_scope_may_be_entered_several_times(graph: Graph) -> None:
    """As TensorFlow: the same variables' scope, and a new name scope each time."""
    shared, named = tf.variable_scope("a", reuse=tf.AUTO_REUSE), tf.name_scope("n")
    made = tf.variable_scope(None, "made")
    found = []
    for _ in range(2):
        with shared as scope:
            found.append((scope.name, tf.get_variable("v", [1]).name, tf.constant(1).name))
        with named as prefix:
            found.append(prefix)
        with made as scope:
            found.append((scope.name, tf.constant(1).name))
    assert found == [
        ("a", "a/v:0", "a/Const:0"), "n/", ("made", "made/Const:0"),
        ("a", "a/v:0", "a_1/Const:0"), "n_1/", ("made", "made_1/Const:0"),
    ]  # fmt: skip
    with tf.variable_scope("outer"), made as scope, shared:
        assert scope.name == "outer/made" and tf.get_variable_scope().name == "outer/made/a"
        with shared:
            assert tf.get_variable_scope().name == "outer/made/a/a"
    assert tf.get_variable_scope().name == "" and graph.get_name_scope() == "" and named.name == "n"


def test_a_regularizer_stands_outside_of_the_loop_that_asks_first(graph: tf.Graph) -> None:
    """As cells of dynamic_rnn do in a scope with one."""

    def body(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return i + 1, total + tf.reduce_sum(tf.get_variable("w", [4]))

    rate = tf.placeholder_with_default(0.5, [])
    with tf.variable_scope("a", regularizer=tf.contrib.layers.l2_regularizer(rate), initializer=tf.ones_initializer()):
        _, total = tf.while_loop(lambda i, _: i < 3, body, [0, 0.0])
        tf.cond(total > 0, lambda: tf.get_variable("c", [2]) * 1.0, lambda: tf.zeros([2]))
    penalties = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    assert [p.name for p in penalties] == ["a/w/Regularizer/l2_regularizer:0", "a/c/Regularizer/l2_regularizer:0"]
    (slope,) = tf.gradients(tf.losses.get_regularization_loss() + total, tf.trainable_variables()[:1])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(penalties) == [1.0, 0.5] and session.run(penalties, {rate: 1.0}) == [2.0, 1.0]
        assert session.run(slope).tolist() == [3.5] * 4
