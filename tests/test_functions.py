"""tf.function and tf.Module in a graph. Values are TensorFlow 2.21's, with resource variables."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf


@pytest.fixture(autouse=True)
def own_graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def _twice(fetches: Any, feeds: Any = None) -> list[Any]:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run(fetches, feeds) for _ in range(2)]


def test_statements_run_in_their_order() -> None:
    v = tf.Variable(1.0)

    @tf.function
    def f(x: Any) -> Any:
        v.assign_add(x)
        y = v.read_value() * 10.0
        v.assign(0.5)
        return y + v

    assert _twice(f(tf.constant(2.0))) == [30.5, 25.5]


def test_branches_and_loops_do_what_they_say() -> None:
    """Nobody asks for what they assign."""
    v, count = tf.Variable(0.0), tf.Variable(0)

    @tf.function
    def f(x: Any) -> Any:
        if x > 0.0:
            v.assign_add(x)
        for _ in tf.range(3):
            v.assign_add(1.0)
        while count < 5:
            count.assign_add(2)
        return v.read_value(), count.read_value()

    assert _twice(f(tf.constant(2.0))) == [(5.0, 6), (10.0, 6)]


def test_tf_cond_and_while_loop_do_too() -> None:
    v = tf.Variable(0.0)

    @tf.function
    def f(x: Any) -> Any:
        def add() -> Any:
            v.assign_add(x)
            return 1

        tf.cond(x > 0.0, add, lambda: 0)
        tf.while_loop(lambda i: i < 3, lambda i: i + tf.cond(i >= 0, add, lambda: 0), [tf.constant(0)])
        return v * 1.0

    assert _twice(f(tf.constant(2.0))) == [8.0, 16.0]


def test_of_nothing_returned_the_operation_runs_all(capfd: pytest.CaptureFixture[str]) -> None:
    v = tf.Variable(1.0)

    @tf.function
    def f() -> None:
        v.assign_add(1.0)
        tf.print("now", v)

    op = f()
    assert isinstance(op, tf.Operation) and _twice(op) == [None, None]
    assert capfd.readouterr().err == "now 2\nnow 3\n"


def test_an_assertion_fails_though_nobody_asks() -> None:
    x = tf.placeholder(tf.float32, [None])

    @tf.function
    def f(x: Any) -> Any:
        assert tf.reduce_all(x > 0.0), "must be positive"
        return x

    with pytest.raises(tf.errors.InvalidArgumentError, match="must be positive"):
        _twice(f(x), {x: [-1.0]})


def test_structures_and_python_values() -> None:
    @tf.function
    def f(x: Any, n: int = 2, *, k: float = 1.0) -> Any:
        return {"a": x * n, "b": (k, None, [x])}

    found = f(np.float32([1, 2]))
    assert found["b"][1] is None and isinstance(found["b"][0], tf.Tensor)
    assert _twice(found["a"])[0].tolist() == [2, 4]
    assert _twice(f(tf.constant(3.0), k=2.0)["b"][0])[0] == 2.0
    with pytest.raises(TypeError, match="must return zero or more Tensors"):
        tf.function(lambda: tf.no_op())()


def test_queues_and_functions_in_functions() -> None:
    q, v = tf.FIFOQueue(10, tf.float32), tf.Variable(1.0)

    @tf.function
    def inner(x: Any) -> Any:
        v.assign_add(x)
        return v * 2.0

    @tf.function
    def outer(x: Any) -> Any:
        for i in tf.range(3):
            q.enqueue(x + tf.cast(i, tf.float32))
        first = q.dequeue()
        return first, q.dequeue(), q.size(), inner(x) + 1.0

    assert _twice(outer(tf.constant(3.0))) == [(3.0, 4.0, 1, 9.0), (5.0, 3.0, 2, 15.0)]


def test_a_signature_is_checked() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def f(x: Any) -> Any:
        return x * 2.0

    assert _twice(f([1.0, 2.0]))[0].tolist() == [2, 4]
    for bad in (1.0, [[1.0]], np.array(["a"])):
        with pytest.raises(TypeError, match="input_signature"):
            f(bad)


def test_traces_are_counted_by_types_shapes_and_python_values() -> None:
    @tf.function
    def f(x: Any, positive: bool = True) -> Any:
        if positive and x > 0.0:
            return x
        return -x

    for given in ((1.0,), (2.0,)):
        f(tf.constant(*given))
    assert f.experimental_get_tracing_count() == 1
    assert _twice(f(tf.constant(1.0), False))[0] == -1.0
    f(tf.constant([1.0])[0:1][0])
    assert f.experimental_get_tracing_count() == 2


def test_variables_are_made_in_the_first_call_only() -> None:
    class Scale(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.v: Any = None

        @tf.function
        def __call__(self, x: Any) -> Any:
            if self.v is None:
                self.v = tf.Variable(3.0)
            return self.v * x

    scale = Scale()
    found = scale(tf.constant(2.0)), scale(tf.constant([1.0, 2.0]))
    assert [v.name for v in scale.variables] == ["Variable:0"] and tf.global_variables() == [scale.v]
    assert _twice(found)[1][0] == 6.0
    again = tf.function(lambda x: tf.Variable(1.0) * x)
    again(tf.constant(1.0))
    with pytest.raises(ValueError, match="only supports singleton"):
        again(tf.constant(1.0))


def test_an_object_of_a_method_may_go() -> None:
    class Holder:
        @tf.function
        def twice(self, x: Any) -> Any:
            return x * 2.0

    holder = Holder()
    assert _twice(holder.twice(tf.constant(2.0)))[0] == 4.0
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


def test_a_concrete_function() -> None:
    v = tf.Variable(1.0)

    @tf.function
    def f(x: Any, n: int) -> Any:
        return {"y": x * v * n}

    concrete = f.get_concrete_function(tf.TensorSpec([], tf.float32, name="given"), 3)
    assert [t.op.type for t in concrete.inputs] == ["Placeholder"] and concrete.variables == (v,)
    assert concrete.structured_outputs["y"].shape == () and concrete.output_dtypes == {"y": tf.float32}
    assert _twice(concrete(tf.constant(2.0)))[0] == {"y": 6.0}
    assert _twice(concrete(given=tf.constant(2.0)))[0] == {"y": 6.0}
    assert _twice(concrete.outputs, {concrete.inputs[0]: 4.0})[0] == [12.0]
    with pytest.raises(TypeError, match="missing the tensors"):
        concrete()
    with pytest.raises(TypeError, match="must have shape"):
        concrete(tf.constant([1.0]))


def test_training_in_a_function() -> None:
    v = tf.Variable(1.0)

    @tf.function
    def train(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = (v * x - 4.0) ** 2
        v.assign_sub(0.1 * tape.gradient(loss, v))
        return loss

    assert _twice(train(tf.constant(2.0))) == pytest.approx([4.0, 0.16])


def test_functions_run_as_python() -> None:
    tf.config.run_functions_eagerly(True)
    try:
        with pytest.raises(TypeError, match="truth value"):
            tf.function(lambda x: 1 if x > 0 else 2)(tf.constant(1))
    finally:
        tf.config.run_functions_eagerly(False)


def test_a_module_knows_its_variables_modules_and_names() -> None:
    class DenseLayer(tf.Module):
        def __init__(self, name: str | None = None):
            super().__init__(name)
            with self.name_scope:
                self.w = tf.Variable(1.0, name="w")
                self.steps = tf.Variable(0, trainable=False, name="steps")

        @tf.Module.with_name_scope
        def apply(self, x: Any) -> Any:
            return tf.identity(x, name="out")

    class Net(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [DenseLayer(), {"b": DenseLayer("other")}]
            self.same = self.layers[0]
            self.b = tf.Variable(2.0, name="b")

    net = Net()
    assert net.name == "net" and [m.name for m in net.submodules] == ["dense_layer", "other"]
    names = ["b", "dense_layer/steps", "dense_layer/w", "other/steps", "other/w"]
    assert [v.op.name for v in net.variables] == names
    assert [v.op.name for v in net.trainable_variables] == [names[0], names[2], names[4]]
    assert [v.op.name for v in net.non_trainable_variables] == [names[1], names[3]]
    assert net.same.apply(1.0).name == "dense_layer/out:0"
    with pytest.raises(ValueError, match="valid module name"):
        tf.Module("no name")


def test_a_method_of_an_object_that_nobody_else_holds() -> None:
    class Doubling:
        @tf.function
        def step(self, x: Any) -> Any:
            return x * 2

    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(Doubling().step(tf.constant(4))) == 8
        one = Doubling()
        one.step(tf.constant(1))
        step = one.step
        assert step.experimental_get_tracing_count() == 1
        gone = weakref.ref(one)
        del one
        assert gone() is not None
        del step
        gc.collect()
        assert gone() is None
