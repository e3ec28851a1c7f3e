"""Bags whose ids have weights in a node each: the same bits, and only where nobody can tell."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.master.passes import Optimizer
from sparkflow_runtime.master.passes.joint_bags import joint_bags
from sparkflow_runtime.master.place import place
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.wire.edges import verify
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import RewriterConfig

TASK = "/job:localhost/replica:0/task:0/device:CPU:0"
PLACES = np.array([[0, 0], [0, 1], [1, 0], [2, 0], [2, 2], [4, 1]], np.int64)
IDS = np.array([3, 1, 3, 0, 4, -1], np.int64)
WEIGHTS = np.array([0.5, 2.0, 0.0, 1.5, -0.25, 1.0], np.float32)


def looked_up(combiner: str, safe: bool, name: str = "table", width: int = 3) -> Any:
    """Rows of a table for what is fed as ids and weights."""
    ids = tf.SparseTensor(of("places"), of("ids"), tf.constant([5, 3], tf.int64))
    weights = tf.SparseTensor(of("places"), of("weights"), tf.constant([5, 3], tf.int64))
    table = tf.get_variable(name, [6, width], initializer=tf.random_uniform_initializer(-1.0, 1.0, seed=3))
    find = tf.nn.safe_embedding_lookup_sparse if safe else tf.nn.embedding_lookup_sparse
    return find(table, ids, weights, combiner=combiner)


def of(name: str) -> Any:
    return tf.get_default_graph().get_tensor_by_name(f"{name}:0")


def feeds(rows: Any = slice(None), safe: bool = True) -> dict[str, Any]:
    """rows: of those without an id that is not there, unless `safe`."""
    kept = np.arange(len(IDS))[rows] if safe else np.arange(len(IDS) - 1)[rows]
    return {"places:0": PLACES[kept], "ids:0": IDS[kept], "weights:0": WEIGHTS[kept]}


@pytest.fixture
def fed(graph: Any) -> Any:
    tf.placeholder(tf.int64, [None, 2], "places")
    tf.placeholder(tf.int64, [None], "ids")
    tf.placeholder(tf.float32, [None], "weights")
    return graph


def trained(graph: Any, remapping: Any, fetches: list[Any], train: Any, safe: bool) -> list[bytes]:
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.remapping = remapping
    with tf.Session(graph=graph, config=config) as session:
        session.run(tf.global_variables_initializer())
        out = [session.run([fetches, train], feeds(rows, safe))[0] for rows in (slice(None), slice(1, 4), slice(2))]
        return [np.asarray(v).tobytes() for values in (*out, session.run(tf.global_variables())) for v in values]


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize("tables", [1, 3])
def test_training_gives_the_same_bits(fed: Any, combiner: str, safe: bool, tables: int) -> None:
    rows = [looked_up(combiner, safe, f"table{k}", k + 1) for k in range(tables)]
    loss = tf.reduce_sum(tf.square(tf.concat(rows, 1) - 0.3))
    train = tf.train.AdagradOptimizer(0.1).minimize(loss)
    found = [trained(fed, how, [loss], train, safe) for how in (RewriterConfig.ON, RewriterConfig.OFF)]
    assert found[0] == found[1]
    plan = planned([loss.name], train.name)
    if tables == 1:
        assert plan["_WeightedSums"] == plan["_WeightedGradients"] == 1
    else:
        assert plan["_JointWeightedSums"] == plan["_JointWeightedGradients"] == 1
    assert not {"SegmentSum", "DivNoNan", "Select", "BroadcastGradientArgs"} & plan.keys()


@pytest.mark.parametrize("what", ["SegmentSum", "Mul", "DivNoNan", "GatherV2"])
def test_what_is_fetched_is_there(fed: Any, what: str) -> None:
    found = looked_up("mean", True)
    train = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(tf.square(found)))
    asked = [op.outputs[0] for op in fed.get_operations() if op.type == what]
    given = [trained(fed, how, [found, *asked], train, True) for how in (RewriterConfig.ON, RewriterConfig.OFF)]
    assert given[0] == given[1]


def test_weights_that_are_trained(fed: Any) -> None:
    """Their gradient takes the rows one by one, and stays as it is; that of the rows is joined."""
    scale = tf.get_variable("scale", [5], initializer=tf.ones_initializer())
    ids = tf.SparseTensor(of("places"), of("ids"), tf.constant([5, 3], tf.int64))
    weights = tf.SparseTensor(of("places"), tf.gather(scale, of("ids")), tf.constant([5, 3], tf.int64))
    table = tf.get_variable("table", [6, 3], initializer=tf.random_uniform_initializer(-1.0, 1.0, seed=3))
    loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup_sparse(table, ids, weights) - 0.3))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    found = [trained(fed, how, [loss], train, False) for how in (RewriterConfig.ON, RewriterConfig.OFF)]
    assert found[0] == found[1]
    assert planned([loss.name], train.name)["_WeightedGradients"] == 1


def test_other_segments_stay(fed: Any) -> None:
    """Sums of products that are not of rows and their weights."""
    x, at = tf.placeholder(tf.float32, [None, 3], "x"), tf.constant([0, 0, 1])
    by = tf.reshape(of("weights"), [-1, 1])
    sums = [
        tf.segment_sum(x * by, at),  # of no rows that are picked
        tf.segment_sum(tf.gather(x, at) * tf.gather(x, at), at),
        tf.segment_sum(tf.gather(x, at, axis=1)[:, :1] * by, at),
        tf.segment_sum(tf.gather(x, at) * tf.reshape(of("weights"), [1, -1]), at),
    ]
    plan = planned([s.name for s in sums], "", ["x:0", "weights:0"])
    assert plan["SegmentSum"] == 4 and "_WeightedSums" not in plan
    rows = np.arange(9, dtype=np.float32).reshape(3, 3)
    with tf.Session() as session:
        found = session.run(sums, {"x:0": rows, "weights:0": [1.0, 2.0, 3.0]})
    picked = rows[[0, 0, 1]]
    products = rows * [[1], [2], [3]], picked * picked, rows[:, :1] * [[1], [2], [3]], picked * [[1, 2, 3]]
    assert [f.tolist() for f in found] == [[(p[0] + p[1]).tolist(), p[2].tolist()] for p in products]


def test_a_sum_that_waits_stays(fed: Any) -> None:
    with tf.control_dependencies([tf.assert_positive(tf.shape(of("weights"))[0])]):
        found = looked_up("sum", False)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        table = session.run("table:0")
        with pytest.raises(InvalidArgumentError, match="positive"):
            session.run(found, feeds(slice(0), safe=False))
        wanted = [table[3] * 0.5 + table[1] * 2, table[3] * 0, table[0] * 1.5 - table[4] * 0.25]
        np.testing.assert_allclose(session.run(found, feeds(safe=False)), wanted, rtol=1e-6)


def test_weights_that_do_not_fit_are_refused(fed: Any) -> None:
    """By both ways."""
    found = looked_up("mean", False)
    for how in (RewriterConfig.ON, RewriterConfig.OFF):
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.remapping = how
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            with pytest.raises(InvalidArgumentError, match="shapes"):
                session.run(found, {**feeds(safe=False), "weights:0": [1.0, 2.0]})


def planned(fetches: list[str], train: str, fed: list[str] | None = None) -> Counter[str]:
    fed = ["places:0", "ids:0", "weights:0"] if fed is None else fed
    targets = [train] if train else []
    nodes = {n.name: n for n in tf.get_default_graph().as_graph_def(add_shapes=True).node}
    pruned = prune(nodes, fed, fetches, targets)
    made = place(Optimizer().optimize(pruned, fed, fetches, targets, sources=nodes), [TASK], TASK)
    kept = [*targets, *(f.partition(":")[0] for f in fetches)]
    joined = verify(joint_bags(made, fed, kept), {f.partition(":")[0] for f in fed})
    return Counter(n.op for n in joined.node)
