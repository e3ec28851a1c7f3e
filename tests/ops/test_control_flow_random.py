"""Random programs of branches, loops and arrays, and their derivatives, against exact ones that no graph computes."""

from __future__ import annotations

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph
from tests.control_flow_random import build, evaluate, generate, gradients

# (seed, size, orders): small ones, larger ones, and those that once went wrong
PROGRAMS = [
    *((seed, 5, 2) for seed in range(10)),
    *((1000 + seed, 14, 1) for seed in range(3)),
    *((seed, 4, 3) for seed in (6016, 6340, 6454)),
]


@pytest.mark.parametrize("native", [True, False], ids=["native", "frames"])
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_random_program(program: tuple[int, int, int], native: bool, graph: Graph) -> None:
    seed, size, orders = program
    made = generate(seed, size)
    feeds, loss, xs = build(tf, made)
    wanted = evaluate(made, orders)
    fetches = gradients(tf, loss, xs, orders)
    with tf.Session() as session:
        session._runtime._master._own.native_loops = native  # type: ignore[attr-defined]
        found = iter(session.run([f for f in fetches if f is not None], feeds))
    np.testing.assert_allclose([0.0 if f is None else next(found) for f in fetches], wanted, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("native", [True, False], ids=["native", "frames"])
def test_second_derivatives_that_leave_a_loop_directly(native: bool, graph: Graph) -> None:
    """The next value of a variable does not need the one before, so that an iteration may end after the next one."""
    x, w, p = (tf.placeholder(t, []) for t in (tf.float64, tf.float64, tf.bool))
    _, a, b = tf.while_loop(lambda i, *_: i < 1, lambda i, a, b: (i + 1, a, a), [0, x, w])
    u, v = tf.cond(p, lambda: (a, b), lambda: (b, b))
    dx, dw = tf.gradients(u * u * v, [x, w])
    ddx, ddw = tf.gradients(dx * dx, [x, w])
    with tf.Session() as session:
        session._runtime._master._own.native_loops = native  # type: ignore[attr-defined]
        for way in (True, False):
            found = session.run([dx, dw, ddx, ddw], {x: 0.3, w: 0.7, p: way})
            np.testing.assert_allclose(found, [3 * 0.3**2, 0, 36 * 0.3**3, 0], rtol=1e-12)
