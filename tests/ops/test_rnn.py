"""Cells and nets: variables, states, wrappers, refusals. Values: test_control_flow_programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow_runtime.wire.errors import InvalidArgumentError

cells = tf.nn.rnn_cell


def _names() -> list[str]:
    return [v.op.name for v in tf.trainable_variables()]


def test_a_cell_has_one_set_of_variables(graph: Graph) -> None:
    cell = cells.BasicLSTMCell(3)
    outs, state = tf.nn.static_rnn(cell, [tf.zeros([2, 4])] * 3, dtype=tf.float32)
    assert _names() == ["rnn/basic_lstm_cell/kernel", "rnn/basic_lstm_cell/bias"]
    assert [o.shape.as_list() for o in outs] == [[2, 3]] * 3 and isinstance(state, cells.LSTMStateTuple)
    assert [v.op.name for v in cell.trainable_variables] == _names()


def test_layers_of_one_cell_share_its_weights(graph: Graph, caplog: pytest.LogCaptureFixture) -> None:
    """[cell] * n, as many scripts have it; another size of inputs does not fit its weights."""
    cell, own = cells.GRUCell(3), cells.GRUCell(3)
    x = tf.constant(np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32))
    deep = cells.MultiRNNCell([cell] * 2)
    assert "share its weights" in caplog.text
    out, (first, second) = deep(x, deep.zero_state(2, tf.float32))
    assert _names()[0] == "multi_rnn_cell/cell_0/gru_cell/gates/kernel" and len(_names()) == 4
    low = cell(x, tf.zeros([2, 3]))[0]
    high = cell(low, tf.zeros([2, 3]))[0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for a, b in zip(session.run([out, first, second]), session.run([high, low, high])):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(InvalidArgumentError), tf.variable_scope("other"):
        cells.MultiRNNCell([own] * 2)(tf.zeros([2, 4]), (tf.zeros([2, 3]),) * 2)


def test_what_a_cell_says_of_itself(graph: Graph) -> None:
    """As layers do: cells of the user's own ask for it in their constructors."""
    cell = cells.GRUCell(3)
    assert cell.dtype is None and cell.trainable and cells.GRUCell(3, dtype=tf.float16).dtype == "float16"
    for asked in (lambda: cell.scope_name, cell.count_params):
        with pytest.raises(ValueError, match="gru_cell"):
            asked()
    with tf.variable_scope("a"):
        cell(tf.zeros([2, 3]), tf.zeros([2, 3]))
    assert (cell.dtype, cell.scope_name, cell.count_params()) == ("float32", "a/gru_cell", 63)
    fixed = cells.GRUCell(3)
    fixed.trainable = False
    fixed(tf.zeros([2, 3]), tf.zeros([2, 3]))
    assert len(tf.trainable_variables()) == 4 and len(tf.global_variables()) == 8


def test_scopes_share_and_part_variables(graph: Graph) -> None:
    x = tf.zeros([2, 3, 4])
    with tf.variable_scope("a"):
        tf.nn.dynamic_rnn(cells.GRUCell(2), x, dtype=tf.float32)
    with tf.variable_scope("a", reuse=True):
        tf.nn.dynamic_rnn(cells.GRUCell(2), x, dtype=tf.float32)
    with tf.variable_scope("b"):
        tf.nn.dynamic_rnn(cells.GRUCell(2, name="mine"), x, dtype=tf.float32)
    parts = [f"{gate}/{kind}" for gate in ("gates", "candidate") for kind in ("kernel", "bias")]
    assert _names() == [f"{scope}/{part}" for scope in ("a/rnn/gru_cell", "b/rnn/mine") for part in parts]


def test_static_shapes_of_unknown_batch_and_time(graph: Graph) -> None:
    x = tf.placeholder(tf.float32, [None, None, 4])
    cell = cells.MultiRNNCell([cells.LSTMCell(3), cells.BasicRNNCell(2)])
    out, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    assert out.shape.as_list() == [None, None, 2]
    assert cell.state_size == (cells.LSTMStateTuple(3, 3), 2) and state[1].shape.as_list() == [None, 2]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got = session.run([out, state[1]], {x: np.ones([5, 6, 4])})
    np.testing.assert_array_equal(got[0][:, -1], got[1])


def test_zero_state(graph: Graph) -> None:
    cell = cells.LSTMCell(3, num_proj=2)
    state = cell.zero_state(tf.constant(5), tf.float32)
    assert cell.output_size == 2 and [s.shape.as_list() for s in state] == [[5, 3], [5, 2]]
    assert cell.get_initial_state(tf.zeros([4, 1])).h.shape.as_list() == [4, 2]


def test_dropout_wrapper(graph: Graph) -> None:
    cell = cells.DropoutWrapper(cells.BasicRNNCell(200), output_keep_prob=0.5, state_keep_prob=0.5, seed=1)
    out, state = cell(tf.ones([1, 2]), tf.ones([1, 200]))
    lstm = cells.DropoutWrapper(cells.BasicLSTMCell(200), state_keep_prob=0.5)
    _, (c, h) = lstm(tf.ones([1, 2]), lstm.zero_state(1, tf.float32))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        dropped = [float((v == 0).mean()) for v in session.run([out, state, c, h])]
    assert 0.3 < dropped[0] < 0.7 and 0.3 < dropped[1] < 0.7 and dropped[2] == 0 and 0.3 < dropped[3] < 0.7


def test_residual_and_device_wrappers(graph: Graph) -> None:
    inner = cells.DeviceWrapper(cells.BasicRNNCell(2), "/cpu:0")
    out, _ = cells.ResidualWrapper(inner)(tf.ones([1, 2]), tf.zeros([1, 2]))
    assert out.op.type == "AddV2" and out.op.inputs[1].device.lower().endswith("cpu:0")


def test_a_cell_of_ones_own(graph: Graph) -> None:
    class Sum(cells.RNNCell):
        state_size = output_size = 2  # type: ignore[assignment]

        def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
            return inputs + state, inputs + state

    out, _ = tf.nn.dynamic_rnn(Sum(), tf.ones([1, 3, 2]), dtype=tf.float32)
    with tf.Session() as session:
        assert session.run(out)[0, :, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "name, scope",
    [("Time4LSTMCell", "time4lstm_cell"), ("NASCell2", "nas_cell2"), ("Conv2D", "conv2d"), ("_Own", "private__own")],
)
def test_the_scope_of_a_class(graph: Graph, name: str, scope: str) -> None:
    """As TensorFlow spells it, so that checkpoints of such cells and layers can be read."""

    def call(self: Any, inputs: Any, state: Any = None) -> Any:
        weight = tf.get_variable("w", [])
        return (inputs * weight, state) if isinstance(self, cells.RNNCell) else inputs * weight

    for base, arguments in ((cells.RNNCell, [0.0]), (tf.layers.Layer, [])):
        with tf.variable_scope(base.__name__):
            type(name, (base,), {"call": call, "state_size": 1, "output_size": 1})()(tf.ones([1, 1]), *arguments)
    assert [v.op.name for v in tf.global_variables()] == [f"RNNCell/{scope}/w", f"Layer/{scope}/w"]


def test_a_users_cell_makes_variables_as_a_layer_does(graph: Graph) -> None:
    class Cell(cells.RNNCell):
        def __init__(self, units: int, reuse: Any = None):
            super().__init__(_reuse=reuse, name="mine")
            self.units = units

        state_size = output_size = property(lambda self: self.units)

        def build(self, inputs_shape: Any) -> None:
            penalty = tf.contrib.layers.l2_regularizer(0.5)
            size = [inputs_shape[1].value + self.units, self.units]
            self.kernel = self.add_variable("kernel", shape=size, regularizer=penalty)
            self.bias = self.add_weight("bias", [self.units], initializer=tf.zeros_initializer(), trainable=False)

        def call(self, inputs: Any, state: Any) -> Any:
            out = tf.tanh(tf.matmul(tf.concat([inputs, state], 1), self.kernel) + self.bias)
            return out, out

    cell = Cell(2)
    tf.nn.dynamic_rnn(cell, tf.zeros([4, 3, 5]), dtype=tf.float32)
    assert _names() == ["rnn/mine/kernel"] and cell.kernel.shape.as_list() == [7, 2]
    assert [v.op.name for v in cell.non_trainable_weights] == ["rnn/mine/bias"]
    assert len(cell.losses) == 1 and cell.losses == tf.losses.get_regularization_losses()


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda x: tf.nn.dynamic_rnn(cells.GRUCell(2), x), ValueError, "you must give a dtype"),
        (lambda x: tf.nn.dynamic_rnn(cells.GRUCell(2), x[0, 0], dtype=tf.float32), ValueError, "batch, time"),
        (lambda x: tf.nn.static_rnn(cells.GRUCell(2), x, dtype=tf.float32), TypeError, "must be a list"),
        (lambda x: tf.nn.static_rnn(cells.GRUCell(2), [], dtype=tf.float32), ValueError, "must not be empty"),
        (lambda x: cells.MultiRNNCell([]), ValueError, "at least one cell"),
        (lambda x: cells.DropoutWrapper(cells.GRUCell(2), 1.5), ValueError, "between 0 and 1"),
        (lambda x: cells.GRUCell(2)(tf.placeholder(tf.float32), x), ValueError, "to be known"),
    ],
)
def test_refusals(graph: Graph, make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make(tf.zeros([2, 3, 4]))


def test_reverse_sequence(graph: Graph) -> None:
    x = np.arange(12).reshape(2, 3, 2)
    out = tf.reverse_sequence(x, [2, 3], seq_axis=1)
    turned = tf.reverse_sequence(x.transpose(1, 0, 2), [2, 3], seq_axis=0, batch_axis=1)
    want = np.stack([x[0][[1, 0, 2]], x[1][::-1]])
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(out), want)
        np.testing.assert_array_equal(session.run(turned), want.transpose(1, 0, 2))
        with pytest.raises(tf.errors.InvalidArgumentError, match="numbers from 0 to 3"):
            session.run(tf.reverse_sequence(x, tf.placeholder_with_default([4, 0], [2]), seq_axis=1))


class Saver:
    """State in variables, as a queue of sequences would keep it."""

    def __init__(self, **sizes: int):
        self.held = {name: tf.get_variable(f"held_{name}", [2, n], trainable=False) for name, n in sizes.items()}
        self.asked: list[str] = []

    def state(self, name: str) -> Any:
        self.asked.append(name)
        return self.held[name] + 0.0

    def save_state(self, name: str, value: Any) -> Any:
        return self.held[name].assign(value)


@pytest.mark.parametrize("cell", [tf.nn.rnn_cell.GRUCell, tf.nn.rnn_cell.LSTMCell])
def test_state_that_is_saved_between_steps(graph: Any, cell: Any) -> None:
    """Two halves of a sequence, one step of the session each, are the whole of it."""
    names = "h" if cell is tf.nn.rnn_cell.GRUCell else ("c", "h")
    saver, made = Saver(c=3, h=3), cell(3, name="shared", reuse=tf.AUTO_REUSE)
    x = np.random.default_rng(0).normal(size=(4, 2, 5)).astype(np.float32)
    half = tf.placeholder(tf.float32, [2, 2, 5])
    outputs, state = tf.nn.static_state_saving_rnn(made, tf.unstack(half), saver, names)
    wanted, last = tf.nn.static_rnn(made, list(map(tf.constant, x)), dtype=tf.float32)
    assert saver.asked == list(names)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([v.assign(tf.zeros_like(v)) for v in saver.held.values()])
        found = [session.run([outputs, state], {half: part}) for part in (x[:2], x[2:])]
        whole, end = session.run([wanted, last])
        np.testing.assert_allclose(np.concatenate([found[0][0], found[1][0]]), whole, rtol=1e-5)
        np.testing.assert_allclose(np.array(found[1][1]), np.array(end), rtol=1e-5)
        held = [session.run(saver.held[name]) for name in names]
        np.testing.assert_array_equal(np.squeeze(held), np.squeeze(np.array(found[1][1])))


def test_state_names_must_fit(graph: Any) -> None:
    x, saver = [tf.zeros([2, 5])], Saver(c=3, h=3)
    with pytest.raises(ValueError, match=r"same type as cell.state_size"):
        tf.nn.static_state_saving_rnn(tf.nn.rnn_cell.LSTMCell(3), x, saver, "h")
    with pytest.raises(ValueError, match=r"3 vs. 2"):
        tf.nn.static_state_saving_rnn(tf.nn.rnn_cell.LSTMCell(3), x, saver, ("c", "h", "h"))
    with pytest.raises(ValueError, match="rank at least 2"):
        tf.contrib.rnn.transpose_batch_time(tf.zeros([3]))
