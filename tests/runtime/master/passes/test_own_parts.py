"""Parts that elementwise work takes have memory of their own where they lie in short runs, and the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels.own_parts import owned
from sparkflow_runtime.master.passes.own_parts import own_parts
from sparkflow_runtime.master.place import place
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.wire.protos import RewriterConfig

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
PARTS: dict[str, Any] = {
    "Split": lambda x: tf.split(x, 6, axis=1),
    "SplitV": lambda x: tf.split(x, [1, 2, 3], axis=1),
    "Unpack": lambda x: tf.unstack(x, axis=1),
    "StridedSlice": lambda x: [x[:, 2], x[:, 4]],
    "Slice": lambda x: [tf.slice(x, [0, k, 0], [-1, 2, -1]) for k in (1, 3)],
}


def marked(fetches: list[str]) -> dict[str, int]:
    nodes = {n.name: n for n in tf.get_default_graph().as_graph_def().node}
    placed = place(prune(nodes, ["x:0"], fetches, []), [CPU], CPU)
    before = placed.SerializeToString(deterministic=True)
    out = own_parts(placed, [f.partition(":")[0] for f in fetches])
    assert placed.SerializeToString(deterministic=True) == before, "a pass leaves its input alone"
    return {n.op: n.attr["own_parts"].b for n in out.node if "own_parts" in n.attr}


@pytest.mark.parametrize("kind", PARTS)
def test_which_parts_are_meant(graph: Any, kind: str) -> None:
    """Those that elementwise work takes, and not what is fetched or only multiplied as a matrix."""
    parts = PARTS[kind](tf.placeholder(tf.float32, [None, 6, 4], "x"))
    out = tf.concat([tf.reshape(part * part, [-1, 4]) for part in parts], 0)
    assert marked([out.name]) == {kind: True}
    assert not marked([out.name, *(part.name for part in parts)])
    assert not marked([tf.concat([tf.reshape(part, [-1, 4]) for part in parts], 0).name])


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("width", [4, 200])
def test_the_same_values_and_gradients(graph: Any, kind: str, width: int) -> None:
    x, found = tf.placeholder(tf.float32, [None, 6, width], "x"), []
    parts = PARTS[kind](x)
    out = tf.concat([tf.reshape(tf.tanh(a) * b, [-1, width]) for a in parts for b in parts if a.shape == b.shape], 0)
    (grad,) = tf.gradients(tf.reduce_sum(out * out), x)
    values = np.random.default_rng(3).standard_normal((300, 6, width)).astype(np.float32)
    for on in (RewriterConfig.ON, RewriterConfig.OFF):
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.remapping = on
        with tf.Session(config=config) as session:
            found.append([session.run([out, grad], {x: values}) for _ in range(3)][-1])
    for one, other in zip(*found):
        np.testing.assert_array_equal(one, other)


def test_short_runs_alone_are_copied() -> None:
    x = np.zeros((300, 6, 4), np.float32)
    assert all(p.flags.owndata and p.flags.c_contiguous for p in owned([x[:, k] for k in range(6)]))
    wide, few, texts = np.zeros((300, 6, 200), np.float32), x[:3], np.full((300, 6, 4), b"", object)
    for views in ([x[k] for k in range(6)], [wide[:, 1]], [few[:, 1]], [texts[:, 1]], [x[0, 0, 0]], []):
        assert owned(views) is views
    assert owned([np.broadcast_to(np.float32(1), (300, 4))])[0].flags.owndata
