"""Branches, loops and tensor arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

import sparkflow
from tests.oracle.cases.values import noise
from tests.oracle.compare import EXACT, Tolerance
from tests.oracle.program import program

_LOOSE = Tolerance(64, scaled=True)
HAVE_COND, HAVE_LOOPS = hasattr(sparkflow, "cond"), hasattr(sparkflow, "while_loop")
HAVE_ARRAYS = hasattr(sparkflow, "TensorArray")


def branches(tf: Any) -> list[Any]:
    p, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [3])
    y = tf.cond(p, lambda: tf.square(x), lambda: -x)
    nested = tf.cond(
        p, lambda: tf.cond(x[0] > 0, lambda: x * 2.0, lambda: x * 3.0), lambda: tf.constant([1.0, 2.0, 3.0])
    )
    several = tf.cond(p, lambda: [x, x + 1.0], lambda: [x - 1.0, x * 0.5])
    (grad,) = tf.gradients([y, nested, *several], x)
    (second,) = tf.gradients(tf.gradients(y, x)[0] * x, x)
    return [([y, nested, *several, grad, second], {p: np.bool_(b), x: noise("float32", 3)}) for b in (True, False)]


def untaken_side_effects(tf: Any) -> list[Any]:
    p = tf.placeholder(tf.bool, [])
    v = tf.Variable(1.0)
    y = tf.cond(p, lambda: tf.assign_add(v, 10.0) * 1.0, lambda: v + 0.5)
    bad = tf.cond(p, lambda: tf.constant(1.0), lambda: tf.check_numerics(tf.log(-v * 0 - 1.0), "bad"))
    yes, no = {p: np.bool_(True)}, {p: np.bool_(False)}
    return [[v.initializer], ([y], no), ([y], yes), [v.read_value()], ([bad], yes), ([bad], no)]


def cases_of(tf: Any) -> list[Any]:
    i = tf.placeholder(tf.int32, [])
    y = tf.case(
        [(tf.equal(i, 0), lambda: tf.constant(10.0)), (i > 5, lambda: tf.cast(i, tf.float32))],
        lambda: tf.constant(-1.0),
    )
    return [([y], {i: np.int32(n)}) for n in (0, 7, 3)]


def loops(tf: Any) -> list[Any]:
    n, x = tf.placeholder(tf.int32, []), tf.placeholder(tf.float32, [3])
    i, y = tf.while_loop(lambda i, y: i < n, lambda i, y: [i + 1, y * y * 0.5 + x], [0, x])
    feeds = [{n: np.int32(k), x: 0.3 * noise("float32", 3)} for k in (0, 1, 5)]
    return [([i, y, *tf.gradients(y, x)], feed) for feed in feeds]  # TensorFlow has no second derivatives of loops


def nested_loops(tf: Any) -> list[Any]:
    n, x = tf.placeholder(tf.int32, []), tf.placeholder(tf.float32, [])

    def outer(i: Any, total: Any) -> Any:
        _, inner = tf.while_loop(lambda j, s: j <= i, lambda j, s: [j + 1, s * 0.9 + x], [0, total])
        return i + 1, inner

    _, total = tf.while_loop(lambda i, t: i < n, outer, [0, tf.constant(1.0)])
    return [([total, *tf.gradients(total, x)], {n: np.int32(k), x: np.float32(0.7)}) for k in (0, 1, 4)]


def loop_with_branch(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [2])

    def body(i: Any, y: Any) -> Any:
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: y + x, lambda: y * 0.5)

    _, y = tf.while_loop(lambda i, y: i < 7, body, [0, tf.zeros([2])])
    return [([y, *tf.gradients(y, x)], {x: noise("float32", 2)})]


def growing_loop(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [1])
    _, y = tf.while_loop(
        lambda i, y: i < 4,
        lambda i, y: [i + 1, tf.concat([y, y * 2.0], 0)],
        [0, x],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
    )
    (grad,) = tf.gradients(y, x)
    return [([y, tf.reshape(grad, [1])], {x: np.array([1.5], np.float32)})]


def arrays(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [4, 2])
    ta = tf.TensorArray(tf.float32, 4, clear_after_read=False).unstack(x)
    _, out = tf.while_loop(
        lambda i, acc: i < 4,
        lambda i, acc: [i + 1, acc.write(i, ta.read(i) * tf.cast(i + 1, tf.float32))],
        [0, tf.TensorArray(tf.float32, 4)],
    )
    y, closed = out.stack(), tf.TensorArray(tf.float32, 2).close()
    return [([y, *tf.gradients(y * y, x)], {x: noise("float32", 4, 2)}), [closed]]


def array_parts(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [6, 2])
    ta = tf.TensorArray(tf.float32, 3, infer_shape=False).split(x, [1, 3, 2])
    joined = ta.concat()
    chosen = tf.TensorArray(tf.float32, 6).unstack(x).gather([4, 0])
    spread = tf.TensorArray(tf.float32, 6).scatter([5, 1, 0, 2, 3, 4], x).stack()
    return [
        (
            [joined, chosen, spread, ta.size(), *tf.gradients([joined * 2.0, spread * spread], x)],
            {x: noise("float32", 6, 2)},
        )
    ]


def array_misuse(tf: Any) -> list[Any]:
    i = tf.placeholder(tf.int32, [])
    ta = tf.TensorArray(tf.float32, 3)
    twice = ta.write(0, 1.0).write(0, 2.0)
    return [([ta.write(i, 1.0).flow], {i: np.int32(5)}), ([ta.read(i)], {i: np.int32(0)}), [twice.flow]]


def functional(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [5, 2])
    mapped = tf.map_fn(lambda row: tf.reduce_sum(row * row) * row, x)
    folded, back = tf.foldl(lambda a, r: a * 0.5 + r, x), tf.foldr(lambda a, r: a * 0.5 + r, x)
    scanned = tf.scan(lambda a, r: a * 0.5 + r, x)
    grads = tf.gradients([mapped, folded, back, scanned], x)
    return [([mapped, folded, back, scanned, *grads], {x: noise("float32", 5, 2)})]


def divergence(tf: Any) -> list[Any]:
    """Of a loop whose number of steps its data decide."""
    x = tf.placeholder(tf.float32, [])
    i, y = tf.while_loop(lambda i, y: tf.logical_and(y < 100.0, i < 50), lambda i, y: [i + 1, y * 1.5], [0, x])
    return [([i, y, *tf.gradients(y, x)], {x: np.float32(v)}) for v in (1, 200, -1)]


_SWITCHES = ("Switch", "Merge")
_FRAMES = ("Enter", "Exit", "NextIteration", "LoopCond", *_SWITCHES)
if HAVE_COND:
    program(*_SWITCHES, tolerance=_LOOSE)(branches)
    program("RefSwitch", tolerance=EXACT)(untaken_side_effects)
    if hasattr(sparkflow, "case"):
        program(*_SWITCHES, tolerance=EXACT)(cases_of)
if HAVE_LOOPS:
    for _build in (loops, nested_loops, growing_loop, divergence):
        program(*_FRAMES, "StackV2", "StackPushV2", "StackPopV2", tolerance=_LOOSE)(_build)
if HAVE_LOOPS and HAVE_COND:
    program(*_FRAMES, tolerance=_LOOSE)(loop_with_branch)
if HAVE_ARRAYS and HAVE_LOOPS:
    _MADE = ("TensorArrayV3", "TensorArrayReadV3", "TensorArrayWriteV3", "TensorArrayGradV3", "TensorArraySizeV3")
    _PARTS = ("TensorArrayGatherV3", "TensorArrayScatterV3", "TensorArraySplitV3", "TensorArrayConcatV3")
    program(*_MADE, "TensorArrayCloseV3", tolerance=_LOOSE)(arrays)
    program(*_MADE, *_PARTS, tolerance=_LOOSE)(array_parts)
    program("TensorArrayV3", tolerance=EXACT)(array_misuse)
if hasattr(sparkflow, "map_fn"):
    program(tolerance=_LOOSE)(functional)
