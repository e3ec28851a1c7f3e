"""Cells of tf.contrib.rnn: their variables by name, and their steps against equivalent ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

RNN = tf.contrib.rnn
X = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)
LENGTHS = [5, 2, 4]


def started(fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


CELLS = [  # (cell, the variables below rnn/<its scope>), as TensorFlow 1.15 names them
    (lambda: RNN.LSTMBlockCell(6, use_peephole=True), "lstm_cell",
     ["bias", "kernel", "w_f_diag", "w_i_diag", "w_o_diag"]),
    (lambda: RNN.LayerNormBasicLSTMCell(6, layer_norm=False), "layer_norm_basic_lstm_cell", ["bias", "kernel"]),
    (lambda: RNN.UGRNNCell(6), "ugrnn_cell", ["bias", "kernel"]),
    (lambda: RNN.CoupledInputForgetGateLSTMCell(6, True, num_proj=4, num_unit_shards=3),
     "coupled_input_forget_gate_lstm_cell", ["B", "W_0", "W_1", "W_2", "W_F_diag", "W_O_diag", "W_P_0"]),
    (lambda: RNN.InputProjectionWrapper(RNN.UGRNNCell(6), 5), "input_projection_wrapper",
     ["bias", "kernel", "ugrnn_cell/bias", "ugrnn_cell/kernel"]),
    (lambda: RNN.OutputProjectionWrapper(RNN.UGRNNCell(6), 3), "output_projection_wrapper",
     ["bias", "kernel", "ugrnn_cell/bias", "ugrnn_cell/kernel"]),
    (lambda: RNN.AttentionCellWrapper(RNN.UGRNNCell(6), 2), "attention_cell_wrapper",
     ["attention/attn_v", "attention/attn_w", "attention/bias", "attention/kernel", "attn_output_projection/bias",
      "attn_output_projection/kernel", "bias", "kernel", "ugrnn_cell/bias", "ugrnn_cell/kernel"]),
]  # fmt: skip


@pytest.mark.parametrize("make, scope, names", CELLS, ids=[scope for _, scope, _ in CELLS])
def test_variables_and_gradients(graph: Any, make: Any, scope: str, names: list[str]) -> None:
    outputs, _ = tf.nn.dynamic_rnn(make(), X, LENGTHS, dtype=tf.float32)
    variables = tf.trainable_variables()
    assert sorted(v.op.name for v in variables) == [f"rnn/{scope}/{name}" for name in names]
    slopes = tf.gradients(tf.reduce_sum(tf.square(outputs)), variables)
    found, *rest = started([outputs, *slopes])
    assert not found[1, 2:].any() and all(np.isfinite(g).all() and g.any() for g in rest)


def test_raw_rnn_is_dynamic_rnn(graph: Any) -> None:
    cell = RNN.LSTMCell(6, name="shared", reuse=tf.AUTO_REUSE)
    steps = tf.TensorArray(tf.float32, size=5).unstack(X.transpose(1, 0, 2))

    def loop_fn(time: Any, output: Any, state: Any, count: Any) -> Any:
        after = cell.zero_state(3, tf.float32) if output is None else state
        finished = time >= LENGTHS
        over = tf.reduce_all(finished)
        following = tf.cond(over, lambda: tf.zeros([3, 4]), lambda: steps.read(time))
        return finished, following, after, output, tf.constant(0) if output is None else count + 1

    arrays, state, count = tf.nn.raw_rnn(cell, loop_fn, scope="rnn")
    wanted, last = tf.nn.dynamic_rnn(cell, X, LENGTHS, dtype=tf.float32)
    a, b, s, t, n = started([arrays.stack(), wanted, state, last, count])
    np.testing.assert_allclose(a.transpose(1, 0, 2), b, rtol=1e-6)
    np.testing.assert_allclose(s, t, rtol=1e-6)
    assert n == 5


def test_stacked_layers_in_both_directions(graph: Any) -> None:
    cells = [[RNN.GRUCell(3), RNN.GRUCell(2)] for _ in range(2)]
    outputs, forward, backward = RNN.stack_bidirectional_dynamic_rnn(*cells, X, dtype=tf.float32)
    assert outputs.shape.as_list() == [3, 5, 4] and len(forward) == len(backward) == 2
    found, (_, last), (_, first) = started([outputs, forward, backward])
    np.testing.assert_allclose(found[:, -1, :2], last)
    np.testing.assert_allclose(found[:, 0, 2:], first)


def test_a_cell_over_images(graph: Any) -> None:
    cell = RNN.Conv2DLSTMCell(input_shape=[6, 6, 2], output_channels=3, kernel_shape=[3, 3])
    outputs, state = tf.nn.dynamic_rnn(cell, np.ones((2, 4, 6, 6, 2), np.float32), dtype=tf.float32)
    assert outputs.shape.as_list() == [2, 4, 6, 6, 3] and state.c.shape.as_list() == [2, 6, 6, 3]
    assert np.isfinite(started(outputs)).all()


def test_what_a_cell_makes_in_call_is_made_once(graph: Any) -> None:
    class Own(RNN.RNNCell):
        state_size = output_size = 2

        def call(self, inputs: Any, state: Any) -> Any:
            new = tf.matmul(inputs, tf.get_variable("w", [4, 2])) + state
            return new, new

    cell = Own()
    state = cell.zero_state(3, tf.float32)
    for _ in range(2):
        _, state = cell(tf.constant(X[:, 0]), state)
    assert [v.op.name for v in tf.global_variables()] == ["own/w"]


def test_highway() -> None:
    """Inputs that a trained gate carries past the cell; its variables stand beside the cell's scope."""
    with tf.Graph().as_default():
        cells = [RNN.HighwayWrapper(RNN.BasicRNNCell(4), coupled, 0.5) for coupled in (True, False)]
        for i, cell in enumerate(cells):
            with tf.variable_scope(f"r{i}", initializer=tf.zeros_initializer()):
                outs, last = tf.nn.dynamic_rnn(cell, X, dtype=tf.float32)
                assert last.shape.as_list() == [3, 4]
            found = started(outs)
            np.testing.assert_allclose(found, X / (1 + np.exp(-0.5)), rtol=1e-5)  # the cell's own outputs are 0
        names = [v.op.name for v in tf.global_variables()]
        assert [n for n in names if n.endswith("_w")] == ["r0/rnn/carry_w", "r1/rnn/carry_w", "r1/rnn/transform_w"]
        outs, _ = tf.nn.static_rnn(cells[0], tf.unstack(tf.constant(X), axis=1), dtype=tf.float32)
        assert len(tf.global_variables()) == len(names) and len(outs) == 5


def test_dropout_that_all_steps_share() -> None:
    """One mask a run, for all steps and all rows of a batch."""
    with tf.Graph().as_default():

        class Same(tf.nn.rnn_cell.RNNCell):
            state_size, output_size = (4, 4), 4

            def call(self, inputs: Any, state: Any) -> Any:
                return inputs, state

        wrap = tf.nn.rnn_cell.DropoutWrapper
        ones = tf.ones([3, 5, 4])
        for keeps in ({"input_keep_prob": 0.5}, {"output_keep_prob": tf.constant(0.5)}):
            cell = wrap(Same(), variational_recurrent=True, input_size=4, dtype=tf.float32, seed=3, **keeps)
            outs, _ = tf.nn.dynamic_rnn(cell, ones, dtype=tf.float32)
            found, again = started(outs), started(outs)
            assert set(np.unique(found)) <= {0.0, 2.0}
            assert (found == found[:1, :1]).all() and (found == again).all()
        lstm = wrap(
            tf.nn.rnn_cell.LSTMCell(64), state_keep_prob=0.5, variational_recurrent=True, dtype=tf.float32, seed=1
        )
        _, (c, h) = tf.nn.dynamic_rnn(lstm, ones, dtype=tf.float32)
        memory, hidden = started([c, h])
        assert (memory != 0).all() and 10 < (hidden == 0).all(0).sum() < 54
        with pytest.raises(ValueError, match="dtype must be provided"):
            wrap(Same(), 0.5, variational_recurrent=True, input_size=4)
        with pytest.raises(ValueError, match="input_size must be provided"):
            wrap(Same(), 0.5, variational_recurrent=True, dtype=tf.float32)


def test_forgetting_as_much_as_comes_in(graph: Any) -> None:
    """One step by numpy: taggers of Chinese names have these cells."""
    cell = RNN.CoupledInputForgetGateLSTMCell(6, True, num_proj=4, proj_clip=0.05, forget_bias=0.5)
    rng = np.random.default_rng(1)
    c, h = rng.normal(size=(3, 6)).astype("f"), rng.normal(size=(3, 4)).astype("f")
    out, new = cell(tf.constant(X[:, 0]), RNN.LSTMStateTuple(tf.constant(c), tf.constant(h)))
    weights = {v.op.name.rpartition("/")[2]: v for v in tf.trainable_variables()}
    got, (c2, h2), w = started([out, new, weights])

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    j, f, o = np.split(np.hstack([X[:, 0], h]) @ w["W_0"] + w["B"], 3, axis=1)
    kept = sigmoid(f + 0.5 + w["W_F_diag"] * c)
    memory = kept * c + (1 - kept) * np.tanh(j)
    projected = (sigmoid(o + w["W_O_diag"] * memory) * np.tanh(memory)) @ w["W_P_0"]
    np.testing.assert_allclose(c2, memory, atol=1e-6)
    np.testing.assert_allclose(got, projected.clip(-0.05, 0.05), atol=1e-6)
    assert (h2 == got).all()
    flat, state = RNN.CoupledInputForgetGateLSTMCell(6, state_is_tuple=False)(tf.constant(X[:, 0]), tf.zeros([3, 12]))
    assert state.shape.as_list() == [3, 12] and flat.shape.as_list() == [3, 6]
    with pytest.raises(ValueError, match="20 shards are more than the 10 rows of W"):
        RNN.CoupledInputForgetGateLSTMCell(6, num_unit_shards=20)(tf.constant(X[:, 0]), cell.zero_state(3, tf.float32))


def test_both_directions_by_fused_cells(graph: Any) -> None:
    """As bidirectional_dynamic_rnn of their cells, with lengths."""
    x = tf.transpose(X, [1, 0, 2])
    forth, back = RNN.LSTMBlockFusedCell(6), RNN.TimeReversedFusedRNN(RNN.LSTMBlockFusedCell(6))
    assert isinstance(forth, RNN.FusedRNNCell) and isinstance(back, RNN.FusedRNNCell)
    with tf.variable_scope("forth"):
        first, first_state = forth(x, dtype=tf.float32, sequence_length=LENGTHS)
    with tf.variable_scope("back"):
        second, second_state = back(x, dtype=tf.float32, sequence_length=LENGTHS)
    kernels = [v for v in tf.trainable_variables() if v.op.name.endswith("kernel")]
    biases = [v for v in tf.trainable_variables() if v.op.name.endswith("bias")]
    cells = [RNN.BasicLSTMCell(6) for _ in range(2)]
    wanted, states = tf.nn.bidirectional_dynamic_rnn(*cells, x, LENGTHS, dtype=tf.float32, time_major=True, scope="two")
    theirs = tf.trainable_variables("two")
    copies = [tf.assign(v, w) for v, w in zip(theirs, [kernels[0], biases[0], kernels[1], biases[1]])]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(copies)
        ours, reference = session.run([[first, second, first_state, second_state], [*wanted, *states]])
    for a, b in zip(tf.contrib.framework.nest.flatten(ours), tf.contrib.framework.nest.flatten(reference)):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("dynamic", [False, True])
def test_cells_as_fused_ones(graph: Any, dynamic: bool) -> None:
    x = tf.transpose(X, [1, 0, 2])
    adaptor = RNN.TimeReversedFusedRNN(RNN.FusedRNNCellAdaptor(RNN.GRUCell(6), use_dynamic_rnn=dynamic))
    whole, state = adaptor(x, dtype=tf.float32, scope="a")
    tf.get_variable_scope().reuse_variables()
    listed, last = adaptor(tf.unstack(x), dtype=tf.float32, scope="a")
    assert isinstance(listed, list) and len(listed) == 5
    values = started([whole, state, tf.stack(listed), last])
    assert (values[0] == values[2]).all() and (values[1] == values[3]).all()
    assert (values[0][0] == values[1]).all(), "its last step is the first one"


def test_shards_of_before_have_no_effect(graph: Any, caplog: pytest.LogCaptureFixture) -> None:
    tf.nn.rnn_cell.LSTMCell(6, num_unit_shards=2, num_proj_shards=1)(tf.constant(X[:, 0]), (tf.zeros([3, 6]),) * 2)
    assert [v.op.name for v in tf.trainable_variables()] == ["lstm_cell/kernel", "lstm_cell/bias"]
    assert "use a variable_scope's partitioner" in caplog.text


def test_norms_of_coupled_gates(graph: Any) -> None:
    """The bias is there, as in TensorFlow, and has no part in it."""
    cell = RNN.CoupledInputForgetGateLSTMCell(6, layer_norm=True, norm_gain=2.0)
    out, _ = cell(tf.constant(X[:, 0]), cell.zero_state(3, tf.float32))
    scope = "coupled_input_forget_gate_lstm_cell"
    norms = {f"{scope}/{n}/{v}" for n in ("forget", "output", "state", "transform") for v in ("beta", "gamma")}
    variables = {v.op.name: v for v in tf.trainable_variables()}
    assert set(variables) == norms | {f"{scope}/B", f"{scope}/W_0"}
    gradients = dict(zip(variables, tf.gradients(out, [*variables.values()])))
    assert gradients.pop(f"{scope}/B") is None and None not in gradients.values()
    assert (started(variables[f"{scope}/state/gamma"]) == 2).all()
