"""Updates of small variables in one call: the same bits, and only where nobody can tell."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.master.passes.fuse_embeddings import _SMALL, fuse_embeddings
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.wire.protos import RewriterConfig

OPTIMIZERS = {
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "rms_prop": lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(0.1),
    "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
}
SHAPES = [(3, 4), (), (0, 2), (5,), (_SMALL,)]


def variables(dtype: Any = tf.float32) -> list[Any]:
    rng = np.random.default_rng(1)
    given = [rng.standard_normal(s).astype(dtype.as_numpy_dtype) for s in SHAPES]
    return [tf.get_variable(f"v{i}", initializer=value) for i, value in enumerate(given)]


def loss_of(held: list[Any]) -> Any:
    return tf.add_n([tf.reduce_sum(tf.square(v) * (i + 1)) for i, v in enumerate(held)])


def joined(fetches: list[str], targets: list[str]) -> Counter[str]:
    nodes = {n.name: n for n in tf.get_default_graph().as_graph_def().node}
    kept = {f.split(":")[0] for f in (*fetches, *targets)}
    return Counter(n.op for n in fuse_embeddings(prune(nodes, [], fetches, targets), kept=kept).node)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_gives_the_same_bits(optimizer: str, dtype: Any) -> None:
    results = []
    for remapping in (RewriterConfig.ON, RewriterConfig.OFF):
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.remapping = remapping
        with tf.Graph().as_default(), tf.Session(config=config) as session:
            loss = loss_of(variables(dtype))
            train = OPTIMIZERS[optimizer]().minimize(loss)
            session.run(tf.global_variables_initializer())
            losses = [session.run([loss, train])[0].tobytes() for _ in range(4)]
            results.append(losses + [v.tobytes() for v in session.run(tf.global_variables())])
    assert results[0] == results[1]


def test_what_is_joined() -> None:
    with tf.Graph().as_default():
        train = tf.train.AdamOptimizer(0.1).minimize(loss_of(variables()))
        found = joined([], [train.name])
        assert (found["_FusedApply"], found["ApplyAdam"]) == (1, 1), "the large one stays by itself"
        own = next(op for op in tf.get_default_graph().get_operations() if op.type == "ApplyAdam")
        found = joined([], [train.name, own.name])
        assert (found["_FusedApply"], found["ApplyAdam"]) == (1, 2), "one that is run by name, too"


def test_updates_in_turn_stay_in_turn() -> None:
    """The second loss is of what the first update has left."""
    with tf.Graph().as_default(), tf.Session() as session:
        held = [tf.get_variable(f"v{i}", initializer=np.float32([1, 2])) for i in range(4)]
        first = tf.train.GradientDescentOptimizer(0.5).minimize(loss_of(held[:2]), var_list=held[:2])
        with tf.control_dependencies([first]):
            later = tf.reduce_sum(held[2] * held[0].read_value()) + tf.reduce_sum(held[3] * held[1].read_value())
            second = tf.train.GradientDescentOptimizer(0.5).minimize(later, var_list=held[2:])
        assert joined([], [second.name])["_FusedApply"] == 2
        session.run(tf.global_variables_initializer())
        session.run(second)
        assert [v.tolist() for v in session.run(held)] == [[0, 0], [-1, -2], [1, 2], [1.5, 3]]


def test_a_gradient_of_another_shape_names_its_variable() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        held = [tf.get_variable(f"v{i}", initializer=np.float32([1, 2])) for i in range(2)]
        wrong = tf.placeholder(tf.float32, None)
        train = tf.train.GradientDescentOptimizer(0.5).apply_gradients([(wrong, v) for v in held])
        session.run(tf.global_variables_initializer())
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"ApplyGradientDescent: var 'v0' and grad .* \[2\] \[3\]"
        ):
            session.run(train, {wrong: [1.0, 2.0, 3.0]})
