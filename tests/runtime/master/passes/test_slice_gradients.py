"""Gradients of slices added up where they belong: the same bits as by zeros and sums, and what stays."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.master.passes import Optimizer
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.wire.protos import GraphDef, RewriterConfig


def optimized(fetches: list[str], one_device: bool = True) -> GraphDef:
    graph = tf.get_default_graph().as_graph_def(add_shapes=True)
    pruned = prune({n.name: n for n in graph.node}, ["x:0"], fetches, [])
    return Optimizer().optimize(pruned, ["x:0"], fetches, one_device=one_device)


def ops(graph: GraphDef) -> Counter[str]:
    return Counter(n.op for n in graph.node)


def placeholder(*shape: int | None, dtype: Any = tf.float32) -> Any:
    return tf.placeholder(dtype, shape, "x")


SLICES: dict[str, Any] = {
    "columns": lambda x: [x[:, k] for k in range(4)],
    "pairs": lambda x: [x[:, i, j] * x[:, j, i] for i in range(3) for j in range(i + 1, 3)],
    "beside a whole": lambda x: [x * x, x[:, 1], x[..., 0], x * 3.0, x[1:, :, 2]],
    "whole last": lambda x: [x[0], x[-1], x],
    "steps and axes": lambda x: [x[::2], x[::-1, 0], x[:, None, 1:3, ..., 2], x[1, 2, 0], x[1, 2, 0]],
}


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16])
@pytest.mark.parametrize("kind", SLICES)
@pytest.mark.parametrize("size", [None, 5])
def test_the_same_bits(graph: Any, kind: str, dtype: Any, size: int | None) -> None:
    """Of a known size the gradients of a product wait for one another."""
    x, found = placeholder(size, 4, 3, dtype=dtype), []
    loss = tf.add_n([tf.reduce_sum(part * part * (k + 1)) for k, part in enumerate(SLICES[kind](x))])
    (grad,) = tf.gradients(loss, x)
    made = ops(optimized([grad.name]))
    assert made["_AddSlices"] == 1 and not made["StridedSliceGrad"], made
    values = np.random.default_rng(1).standard_normal((5, 4, 3)).astype(dtype.as_numpy_dtype)
    for on in (RewriterConfig.ON, RewriterConfig.OFF):
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.remapping = on
        with tf.Session(config=config) as session:
            found.append(session.run([grad, grad], {x: values})[1])
    assert found[0].dtype == found[1].dtype and found[0].tobytes() == found[1].tobytes()


def test_in_a_loop(graph: Any) -> None:
    x = placeholder(None, 4, 3)
    step = lambda k, y: (k + 1, y + tf.gradients(tf.reduce_sum(y[:, 0] * y[:, 1] + y[:, 2]), y)[0])  # noqa: E731
    _, out = tf.while_loop(lambda k, _: k < 3, step, [0, x])
    (grad,) = tf.gradients(out, x)
    found, values = [], np.random.default_rng(1).standard_normal((5, 4, 3)).astype(np.float32)
    for on in (RewriterConfig.ON, RewriterConfig.OFF):
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.remapping = on
        with tf.Session(config=config) as session:
            found.append(session.run([out, grad], {x: values}))
    for one, other in zip(*found):
        np.testing.assert_array_equal(one, other)


def column(x: Any, k: int, dy: Any) -> Any:
    """The gradient of x[:, k]."""
    about = {"begin": [0, k], "end": [0, k + 1], "strides": [1, 1], "begin_mask": 1, "end_mask": 1}
    return tf.raw_ops.StridedSliceGrad(shape=tf.shape(x), dy=dy, shrink_axis_mask=2, name=f"column{k}", **about)


def test_what_stays(graph: Any) -> None:
    """What is fetched, what two sums take, and what is on another device."""
    x = placeholder(None, 4)
    parts = [column(x, k, x[:, 0]) for k in range(2)]
    total = tf.add_n(parts)
    assert ops(optimized([total.name]))["_AddSlices"] == 1
    assert not ops(optimized([total.name, parts[0].name]))["_AddSlices"]
    assert not ops(optimized([total.name, tf.add_n([parts[0], x, parts[1]]).name]))["_AddSlices"]
    with tf.device("/job:ps/task:0"):
        elsewhere = column(x, 2, x[:, 0])
    with tf.device("/job:worker/task:0"):
        total = tf.add_n([elsewhere, column(x, 3, x[:, 0])])
    assert not ops(optimized([total.name], one_device=False))["_AddSlices"]


def test_a_gradient_that_does_not_fit_is_named(graph: Any) -> None:
    """As where a shape that the graph could not know is not what was said of it."""
    x, given = placeholder(None, 4), tf.placeholder(tf.float32, None, "given")
    out = tf.add_n([column(x, 0, given), column(x, 1, x[:, 2])])
    with tf.Session() as session:
        feeds = {x: np.ones((3, 4), np.float32), given: np.ones(3, np.float32)}
        np.testing.assert_array_equal(session.run(out, feeds), [[1, 1, 0, 0]] * 3)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"dy must have shape \(3,\), got \(2,\)") as caught:
            session.run(out, {**feeds, given: np.ones(2, np.float32)})
    assert caught.value.node_def.name == "column0"
