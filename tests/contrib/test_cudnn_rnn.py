"""tf.contrib.cudnn_rnn: Keras' layers have cuDNN's equations too, and its checkpoints have the cells' variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

CUDNN = tf.contrib.cudnn_rnn
X = np.random.default_rng(0).normal(size=(5, 3, 4)).astype(np.float32)
LENGTHS = [5, 2, 4]


def started(fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


def test_the_cells_equations(graph: Any) -> None:
    h = np.random.default_rng(1).normal(size=(3, 6)).astype("f")
    cell = CUDNN.CudnnCompatibleGRUCell(6, kernel_initializer=tf.random_normal_initializer())
    out, _ = cell(tf.constant(X[0]), tf.constant(h))
    variables = {v.op.name: v for v in tf.trainable_variables()}
    got, w = started([out, variables])
    scope = "cudnn_compatible_gru_cell"
    assert {name.removeprefix(f"{scope}/") for name in w} == {
        "gates/kernel", "gates/bias", "candidate/input_projection/kernel", "candidate/input_projection/bias",
        "candidate/hidden_projection/kernel", "candidate/hidden_projection/bias",
    }  # fmt: skip
    gates = 1 / (1 + np.exp(-(np.hstack([X[0], h]) @ w[f"{scope}/gates/kernel"] + 1)))
    r, u = np.split(gates, 2, axis=1)
    c = np.tanh(X[0] @ w[f"{scope}/candidate/input_projection/kernel"]
                + r * (h @ w[f"{scope}/candidate/hidden_projection/kernel"]))  # fmt: skip
    np.testing.assert_allclose(got, (1 - u) * c + u * h, atol=1e-5)


def test_the_lstms_equations(graph: Any) -> None:
    h = np.random.default_rng(1).normal(size=(3, 6)).astype("f")
    lstm = CUDNN.CudnnCompatibleLSTMCell(6)
    state = tf.nn.rnn_cell.LSTMStateTuple(tf.constant(h), tf.constant(h / 2))
    ours, _ = lstm(tf.constant(X[0]), state)
    kernel = tf.trainable_variables()[0]
    assert kernel.op.name == "cudnn_compatible_lstm_cell/kernel"
    same = tf.nn.rnn_cell.BasicLSTMCell(6, forget_bias=0.0)
    theirs, _ = same(tf.constant(X[0]), state)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.assign(same.trainable_variables[0], kernel))
        np.testing.assert_array_equal(*session.run([ours, theirs]))


@pytest.mark.parametrize("make, states", [(CUDNN.CudnnLSTM, 2), (CUDNN.CudnnGRU, 1), (CUDNN.CudnnRNNTanh, 1),
                                          (CUDNN.CudnnRNNRelu, 1)])  # fmt: skip
@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
def test_layers(graph: Any, make: Any, states: int, direction: str) -> None:
    layer = make(2, 6, direction=direction)
    dirs = layer.num_dirs
    out, last = layer(X, sequence_lengths=LENGTHS)
    assert (
        [s.shape.as_list() for s in last] == [[2 * dirs, 3, 6]] * states == [s.as_list() for s in layer.state_shape(3)]
    )
    count = len(layer.trainable_variables)
    again, end = layer(X, initial_state=last, sequence_lengths=LENGTHS)
    other, _ = layer(X.transpose(1, 0, 2), sequence_lengths=LENGTHS, time_major=False)
    assert len(layer.trainable_variables) == count == len(tf.trainable_variables())
    assert None not in tf.gradients(again, [*layer.trainable_variables, *last])
    values = started([out, other, last, again, end])
    assert values[0].shape == (5, 3, 6 * dirs)
    np.testing.assert_array_equal(values[0], values[1].transpose(1, 0, 2))
    top = values[2][0][-dirs]  # the forward state of the second layer is its output at each sequence's end
    np.testing.assert_array_equal(top, [values[0][n - 1, i, :6] for i, n in enumerate(LENGTHS)])
    assert (values[3] != values[0])[:, 0].any()


@pytest.mark.parametrize("direction, below", [
    ("unidirectional", "rnn/multi_rnn_cell/cell_1/cudnn_compatible_lstm_cell/kernel"),
    ("bidirectional", "stack_bidirectional_rnn/cell_1/bidirectional_rnn/bw/cudnn_compatible_lstm_cell/kernel"),
])  # fmt: skip
def test_variables_have_the_names_of_checkpoints(graph: Any, direction: str, below: str) -> None:
    with tf.variable_scope("model"):
        layer = CUDNN.CudnnLSTM(2, 6, direction=direction, dropout=0.5)
        layer(X)
        assert f"model/cudnn_lstm/{below}" in {v.op.name for v in layer.variables}
        assert layer.name == "cudnn_lstm" and CUDNN.CudnnLSTM(1, 3, name="mine").name == "mine"


def test_dropout_in_training_alone(graph: Any) -> None:
    layer = CUDNN.CudnnGRU(2, 6, dropout=0.9, seed=1)
    (train, _), (still, _) = layer(X, training=True), layer(X, training=False)
    plain = CUDNN.CudnnGRU(2, 6)
    values = started([train, still])
    assert (values[0] != values[1]).any() and plain.variables == []


def test_refusals() -> None:
    with pytest.raises(ValueError, match="direction must be 'unidirectional' or 'bidirectional', got 'both'"):
        CUDNN.CudnnLSTM(1, 2, direction="both")
    with pytest.raises(ValueError, match="input_mode must be 'linear_input'"):
        CUDNN.CudnnGRU(1, 2, input_mode="skip_input")
