"""Passes within loops and branches: what is fused there, and that values, gradients and effects keep their bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparkflow as tf
from sparkflow_runtime.kernels import fused_machine
from sparkflow_runtime.master.passes import loop_products
from sparkflow_runtime.wire.protos import RewriterConfig

TOGGLES = [
    "dependency_optimization",
    "constant_folding",
    "arithmetic_optimization",
    "common_subgraph_elimination",
    "layout_optimizer",
    "remapping",
]
ROWS, HIDDEN = 160, 112  # large enough that fusing pays


def config(*off: str) -> Any:
    found = tf.ConfigProto()
    for name in off:
        setattr(found.graph_options.rewrite_options, name, RewriterConfig.OFF)
    return found


def lstm(steps: int = 4) -> tuple[Any, dict[Any, Any]]:
    """Training of an LSTM over a TensorArray: (what to run, what to feed)."""
    x = tf.placeholder(tf.float32, [steps, ROWS, 8])
    w = tf.get_variable("w", [8 + HIDDEN, 4 * HIDDEN], initializer=tf.random_uniform_initializer(-0.1, 0.1, seed=1))
    b = tf.get_variable("b", [4 * HIDDEN], initializer=tf.random_uniform_initializer(-0.1, 0.1, seed=2))
    xs = tf.TensorArray(tf.float32, size=steps).unstack(x)

    def body(t: Any, h: Any, c: Any) -> Any:
        i, g, f, o = tf.split(tf.matmul(tf.concat([xs.read(t), h], 1), w) + b, 4, axis=1)
        c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(g)
        return t + 1, tf.sigmoid(o) * tf.tanh(c), c

    zero = tf.zeros([ROWS, HIDDEN])
    _, h, _ = tf.while_loop(lambda t, h, c: t < steps, body, [tf.constant(0), zero, zero])
    loss = tf.reduce_mean(tf.square(h - 0.5))
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    with tf.control_dependencies([train]):
        after = [tf.identity(v.read_value()) for v in (w, b)]
    return [loss, *after], {x: np.random.default_rng(0).normal(size=(steps, ROWS, 8)).astype(np.float32)}


def branches() -> tuple[Any, dict[Any, Any]]:
    """A cond in a loop, and the gradient of what it gives."""
    x = tf.placeholder(tf.float32, [ROWS, HIDDEN])

    def body(t: Any, v: Any) -> Any:
        on = lambda: tf.sigmoid(tf.tanh(v) * 0.5 + v) * tf.exp(-v) - 0.1  # noqa: E731
        off = lambda: tf.square(v) * 0.25 + tf.nn.relu(v) - v * 0.5  # noqa: E731
        return t + 1, tf.cond(tf.equal(t % 2, 0), on, off)

    _, y = tf.while_loop(lambda t, v: t < 5, body, [tf.constant(0), x])
    (g,) = tf.gradients(tf.reduce_sum(y), x)
    (gg,) = tf.gradients(tf.reduce_sum(g * g), x)
    return [y, g, gg], {x: np.random.default_rng(1).normal(size=(ROWS, HIDDEN)).astype(np.float32)}


def changing_variable() -> tuple[Any, dict[Any, Any]]:
    """A loop that reads a variable, keeps what it read for the gradient, and changes it."""
    x = tf.placeholder(tf.float32, [ROWS, HIDDEN])
    v = tf.get_variable("v", [ROWS, HIDDEN], initializer=tf.random_uniform_initializer(-1, 1, seed=3))

    def body(t: Any, y: Any) -> Any:
        seen = tf.identity(v)
        out = tf.tanh(y * seen + seen) * seen - y
        with tf.control_dependencies([out]):
            changed = tf.assign_add(v, tf.ones_like(seen))
        with tf.control_dependencies([changed]):
            return t + 1, tf.identity(out)

    _, y = tf.while_loop(lambda t, y: t < 3, body, [tf.constant(0), x], parallel_iterations=1)
    (g,) = tf.gradients(tf.reduce_sum(y), x)
    with tf.control_dependencies([g]):
        after = tf.identity(v.read_value())
    return [y, g, after], {x: np.random.default_rng(2).normal(size=(ROWS, HIDDEN)).astype(np.float32)}


CASES = {"lstm": lstm, "branches": branches, "changing variable": changing_variable}


def results(make: Callable[[], Any], *off: str) -> list[bytes]:
    with tf.Graph().as_default():
        what, feed = make()
        with tf.Session(config=config(*off)) as session:
            session.run(tf.global_variables_initializer())
            return [v.tobytes() for _ in range(3) for v in session.run(what, feed)]


@pytest.fixture(scope="module", autouse=True)
def machine() -> None:
    assert fused_machine.wait(120)


@cache
def without_passes(case: str) -> list[bytes]:
    return results(CASES[case], *TOGGLES)


@pytest.mark.parametrize("off", [(name,) for name in TOGGLES] + [()], ids=lambda off: off[0] if off else "none")
@pytest.mark.parametrize("case", CASES)
def test_bits(case: str, off: tuple[str, ...]) -> None:
    assert results(CASES[case], *off) == without_passes(case)


FUNCTIONS = [
    tf.tanh, tf.sigmoid, tf.square, lambda v: tf.exp(-tf.abs(v)), lambda v: v * 0.5 - 1.0, tf.nn.relu, tf.identity,
    lambda v: tf.tanh(v) * tf.tanh(v) + 0.0, lambda v: v * (tf.constant(2.0) / 4.0) * 1.0,
    lambda v: tf.cond(tf.reduce_sum(v) > 0, lambda: v * (tf.constant(1.0) + 2.0) + v * 3.0, lambda: tf.zeros([1]) - v),
    lambda v: v + tf.reduce_mean(v), lambda v: tf.matmul(v, v, transpose_b=True) * 0.01 + tf.reduce_sum(v, 1),
]  # fmt: skip


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(FUNCTIONS) - 1), st.integers(0, 9)), min_size=2, max_size=9))
def test_random_bodies(steps: list[tuple[int, int]]) -> None:
    def make() -> Any:
        x = tf.placeholder(tf.float32, [130, 130])

        def body(t: Any, y: Any) -> Any:
            made = [y, x]
            for function, other in steps:
                made.append(FUNCTIONS[function](made[-1]) * 0.5 + made[other % len(made)] * 0.25)
            return t + 1, made[-1]

        _, y = tf.while_loop(lambda t, y: t < 3, body, [tf.constant(0), x])
        return [y, *tf.gradients(tf.reduce_sum(y), x)], {x: np.random.default_rng(3).normal(size=(130, 130))}

    assert results(make) == results(make, *TOGGLES)


def _ops_run(make: Callable[[], Any]) -> dict[str, int]:
    """How often each op ran in a step."""
    with tf.Graph().as_default():
        what, feed = make()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            found = tf.RunMetadata()
            session.run(what, feed, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), found)
    counts: dict[str, int] = {}
    for device in found.step_stats.dev_stats:
        for node in device.node_stats:
            op = node.timeline_label.partition(" = ")[2].partition("(")[0]
            counts[op] = counts.get(op, 0) + 1
    return counts


def test_an_lstm_is_fused_forwards_and_backwards() -> None:
    counts = _ops_run(lstm)
    assert counts["_FusedMatMul"] == 4 and counts["_Fused"] >= 8
    assert not counts.keys() & {"Sigmoid", "SigmoidGrad", "TanhGrad"}
    assert counts["AddV2"] >= 8, "sums over iterations are added up in place"


def test_what_is_the_same_in_all_iterations_is_computed_once() -> None:
    def make() -> Any:
        x = tf.placeholder(tf.float32, [ROWS, HIDDEN])

        def body(t: Any, y: Any) -> Any:
            return t + 1, tf.tanh(y) * tf.exp(tf.square(x)) - tf.sigmoid(y) + tf.square(y)

        _, y = tf.while_loop(lambda t, y: t < 5, body, [tf.constant(0), x])
        return y, {x: np.ones((ROWS, HIDDEN), np.float32)}

    counts = _ops_run(make)
    assert counts["Exp"] == 1 and counts["_Fused"] == 5


def _nested_products() -> tuple[Any, dict[Any, Any]]:
    """One matrix, transposed, in two products of an inner loop and one of the outer, and another on the left."""
    x, w = tf.placeholder(tf.float32, [24, 40]), tf.placeholder(tf.float32, [40, 40])

    def outer(t: Any, y: Any) -> Any:
        def inner(u: Any, z: Any) -> Any:
            z = tf.tanh(tf.matmul(z, w, transpose_b=True) - tf.matmul(tf.sin(z), w, transpose_b=True))
            return u + 1, tf.transpose(tf.matmul(w, z, transpose_a=True, transpose_b=True))

        _, y = tf.while_loop(lambda u, z: u < 2, inner, [tf.constant(0), y])
        return t + 1, tf.matmul(y, w, transpose_b=True)

    _, y = tf.while_loop(lambda t, y: t < 3, outer, [tf.constant(0), x])
    rng = np.random.default_rng(4)
    return [y], {x: rng.normal(size=(24, 40)), w: rng.normal(size=(40, 40)) * 0.2}


def test_a_matrix_that_stays_is_laid_out_once_a_loop() -> None:
    counts = _ops_run(lstm)
    assert counts["_ColumnsTogether"] == 1, "the gradient's product with the weights"
    cut = loop_products.keeps_bits_of_columns()
    assert ("Slice" not in counts) is cut, "which is only made for the state, where BLAS lets us"
    counts = _ops_run(_nested_products)
    assert counts["MatMul"] == 3 + 2 * 9 and 1 <= counts["_ColumnsTogether"] <= 1 + 2 * 3
    laid, not_laid = (np.frombuffer(results(_nested_products, *off)[0], np.float32) for off in ([], TOGGLES))
    np.testing.assert_allclose(laid, not_laid, rtol=1e-4, atol=1e-4)  # BLAS may add up in another order


@pytest.mark.parametrize(("rows", "laid"), [(2, 0), (20, 1), (None, 1)])
def test_products_with_few_vectors_stay(rows: int | None, laid: int) -> None:
    def make() -> Any:
        x, w = tf.placeholder(tf.float32, [rows, 40]), tf.placeholder(tf.float64, [40, 40])
        turned = tf.cast(w, tf.float32)
        _, y = tf.while_loop(
            lambda t, y: t < 3, lambda t, y: (t + 1, tf.matmul(y, turned, transpose_b=True)), [tf.constant(0), x]
        )
        return y, {x: np.ones((rows or 9, 40)), w: np.ones((40, 40))}

    assert _ops_run(make).get("_ColumnsTogether", 0) == laid


def _written_out(steps: int) -> tuple[Any, dict[Any, Any]]:
    """A cell step by step, whose weight changes after all have read it."""
    x = tf.placeholder(tf.float32, [None, steps, 24])
    w = tf.get_variable("w", [124, 100], initializer=tf.random_uniform_initializer(-0.3, 0.3, seed=1))
    h = tf.zeros_like(x[:, 0, :1]) + tf.zeros([100])
    for t in range(steps):
        h = tf.tanh(tf.matmul(tf.concat([x[:, t], h], 1), w))
    loss = tf.reduce_mean(tf.square(h - 0.1))
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    with tf.control_dependencies([train]):
        after = tf.identity(loss)
    rng = np.random.default_rng(0)
    return [after, w], {x: rng.normal(size=(20, steps, 24)).astype(np.float32)}


@pytest.mark.parametrize(("steps", "laid"), [(4, 0), (8, 1)])
def test_so_is_one_that_many_products_have_in_common(steps: int, laid: int) -> None:
    counts = _ops_run(lambda: _written_out(steps))
    assert counts.get("_ColumnsTogether", 0) == laid, "the weight, for the gradient of the state alone"
    assert counts["_FusedSum"] == 1
    a, b = ([np.frombuffer(v, np.float32) for v in results(lambda: _written_out(steps), *off)] for off in ([], TOGGLES))
    for one, other in zip(a, b):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
