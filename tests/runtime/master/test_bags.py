"""Look-ups of bags of ids in three nodes each: the same bits, and only where nobody can tell."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.master.passes import Optimizer
from sparkflow_runtime.master.passes.bags import join_bags
from sparkflow_runtime.master.passes.joint_bags import joint_bags
from sparkflow_runtime.master.passes.view import View
from sparkflow_runtime.master.place import place
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.wire.edges import verify
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import RewriterConfig

WORDS = np.array([["a", "b"], ["", ""], ["c", ""], ["zz", "a"], ["", "b"]])
NUMBERS = np.array([[1, -1], [-1, -1], [4, 1], [-1, 3], [0, 0]])
WEIGHTS = np.where(NUMBERS < 0, 0, NUMBERS / 2 - 0.25).astype(np.float32)  # 0 is no weight; two are negative


def model(combiner: str = "mean", weighted: bool = False) -> tuple[Any, Any, Any]:
    """The loss, the update and the features of look-ups in every kind of categorical column."""
    fc = tf.feature_column
    words, numbers = tf.placeholder(tf.string, [None, 2], "words"), tf.placeholder(tf.int64, [None, 2], "numbers")
    weights = tf.placeholder(tf.float32, [None, 2], "weights")
    number = fc.categorical_column_with_identity("numbers", 5)
    columns = [
        fc.categorical_column_with_hash_bucket("words", 7),
        fc.categorical_column_with_vocabulary_list("again", ["a", "b"], default_value=-1),
        fc.crossed_column(["words", number], 11),
        number,
    ]
    if weighted:
        columns.append(fc.weighted_categorical_column(number, "weights"))
    features = {"words": words, "again": words, "numbers": numbers, "weights": tf.identity(weights)}
    embeddings = [fc.embedding_column(c, 3, combiner=combiner) for c in columns]
    deep = fc.input_layer(features, embeddings)
    wide = fc.linear_model(features, columns, sparse_combiner=combiner)
    loss = tf.reduce_sum(tf.square(deep)) + tf.reduce_sum(tf.square(wide - 1.0))
    return loss, tf.train.AdagradOptimizer(0.1).minimize(loss), (words, numbers, weights)


def trained(remapping: Any, combiner: str, weighted: bool) -> list[bytes]:
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.remapping = remapping
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        tf.set_random_seed(1)
        loss, train, (words, numbers, weights) = model(combiner, weighted)
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        out = []
        for rows in (slice(None), slice(1, 3), slice(0), slice(1, 2)):
            feeds = {words: WORDS[rows], numbers: NUMBERS[rows], weights: WEIGHTS[rows]}
            out.append(session.run([loss, train], feeds)[0].tobytes())
        return out + [v.tobytes() for v in session.run(tf.global_variables())]


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("weighted", [False, True])
def test_training_gives_the_same_bits(combiner: str, weighted: bool) -> None:
    assert trained(RewriterConfig.ON, combiner, weighted) == trained(RewriterConfig.OFF, combiner, weighted)


def joined(fetches: list[str], targets: list[str] = []) -> Counter[str]:  # noqa: B006
    feeds = ["words:0", "numbers:0"]
    nodes = {n.name: n for n in tf.get_default_graph().as_graph_def(add_shapes=True).node}
    view = View.of(prune(nodes, feeds, fetches, targets), feeds, fetches, targets, sources=nodes)
    join_bags(view)
    return Counter(op.op for op in view.ops.values())


def test_what_is_joined() -> None:
    with tf.Graph().as_default():
        loss, _, _ = model()
        found = joined([loss.name])
        assert found["_BagIds"] == found["_BagSums"] == 8
        assert not {"SparseFillEmptyRows", "Unique", "Select", "SparseSegmentMean"} & found.keys()
        gradients = tf.gradients(loss, tf.trainable_variables())
        assert joined([g.values.name for g in gradients if isinstance(g, tf.IndexedSlices)])["_BagGradients"] == 8


def test_ids_that_are_checked_before_are_joined_too() -> None:
    """An identity column asserts that its ids are buckets, and what it looks up waits for that."""
    with tf.Graph().as_default() as graph:
        fc, numbers = tf.feature_column, tf.placeholder(tf.int64, [None, 2], "numbers")
        column = fc.embedding_column(fc.categorical_column_with_identity("numbers", 5), 3)
        fetches = [fc.input_layer({"numbers": numbers}, [column]).name]
        nodes = {n.name: n for n in graph.as_graph_def(add_shapes=True).node}
        pruned = prune(nodes, ["numbers:0"], fetches, [])
        made = Optimizer().optimize(pruned, ["numbers:0"], fetches, sources=nodes).node
        (bag,) = [n for n in made if n.op == "_BagIds"]
        assert [e.endswith("/Assert") for e in bag.input if e.startswith("^")] == [True, True]
        assert not any(n.op == "Where" for n in made), "the negative ids were looked for apart"


@pytest.mark.parametrize("op", ["Unique", "SparseFillEmptyRows", "SparseSegmentMean"])
def test_what_is_fetched_stays(op: str) -> None:
    with tf.Graph().as_default():
        loss, _, _ = model()
        node = next(n for n in tf.get_default_graph().get_operations() if n.type == op)
        assert joined([loss.name, node.outputs[0].name])[op] == 1


# ---------------------------------------------------------------------- of many columns at once

TASK = "/job:localhost/replica:0/task:0/device:CPU:0"


def placed(fetches: list[str], feeds: list[str] = []) -> Any:  # noqa: B006
    nodes = {n.name: n for n in tf.get_default_graph().as_graph_def(add_shapes=True).node}
    pruned = prune(nodes, feeds, fetches, [])
    return place(Optimizer().optimize(pruned, feeds, fetches, sources=nodes), [TASK], TASK)


def counted(graph: Any) -> Counter[str]:
    return Counter(n.op for n in graph.node if "Bag" in n.op or "Entries" in n.op or "SparseSegment" in n.op)


def test_columns_come_together() -> None:
    with tf.Graph().as_default():
        loss, _, _ = model()
        gradients = [g.values for g in tf.gradients(loss, tf.trainable_variables()) if isinstance(g, tf.IndexedSlices)]
        given = placed([loss.name, *(g.name for g in gradients)], ["words:0", "numbers:0"])
        assert {"_Entries", "_BagIds", "_BagSums", "_BagGradients"} == counted(given).keys()
        made = verify(joint_bags(given, ["words:0", "numbers:0"], []), {"words", "numbers"})
        ones = {"_Entries": 2, "_JointBagIds": 1, "_JointBagSums": 1, "_JointBagGradients": 1}  # words, and numbers
        assert counted(made) == ones, "each of the rest is one node"
        (back,) = [n for n in made.node if n.op == "_JointBagGradients"]
        assert back.attr["counted"].b and not any("embedding_lookup_sparse_grad/Shape" in n.name for n in made.node)


def picked(data: Any, at: Any, ids: tuple[int, ...] = (0, 0, 1)) -> Any:
    """The sums of rows that begin with row `at`."""
    return tf.sparse_segment_sum(data, tf.stack([at, 1, 0]), tf.constant(ids))


def test_who_comes_after_whom_does_not_come_together() -> None:
    with tf.Graph().as_default() as graph:
        data = tf.placeholder(tf.float32, [3, 2], "data")
        first, second = picked(data, 0), picked(data, 1)
        later = picked(tf.concat([first, second], 0), 2)
        alone = tf.sparse_segment_mean(data, tf.constant([2, 1, 0]), tf.constant([0, 0, 1]))
        fetches = [tf.identity(t).name for t in (first, second, later, alone)]
        made = verify(joint_bags(placed(fetches, ["data:0"]), ["data:0"], []), {"data"})
        assert counted(made) == {"_JointBagSums": 1, "SparseSegmentSum": 1, "SparseSegmentMean": 1}
        kept = verify(joint_bags(placed(fetches, ["data:0"]), ["data:0"], [first.op.name]), {"data"})
        assert "_JointBagSums" not in counted(kept)
        rows = np.arange(6, dtype=np.float32).reshape(3, 2)
        with tf.Session(graph=graph) as session:
            found = session.run(fetches, {data: rows})
        sums = [[2, 4], [0, 1]], [[4, 6], [0, 1]]
        assert [f.tolist() for f in found] == [*sums, [[4 + 0, 6 + 1], [2, 4]], [[3, 4], [0, 1]]]


def test_bags_come_together_with_those_that_travel_alike() -> None:
    with tf.Graph().as_default():
        data = tf.placeholder(tf.float32, [3, 2], "data")
        with tf.experimental.carried_as("bfloat16"):
            halves = [picked(data, 0), picked(data, 1)]
        fetches = [tf.identity(t).name for t in (*halves, picked(data, 0), picked(data, 2))]
        made = verify(joint_bags(placed(fetches, ["data:0"]), ["data:0"], []), {"data"})
        found = [n.attr["_carried_as"].s for n in made.node if n.op == "_JointBagSums"]
        assert sorted(found) == [b"", b"bfloat16"] and counted(made) == {"_JointBagSums": 2}


def test_a_table_elsewhere_stays_there(cluster: Any, graph: Any) -> None:
    """Its gradient asks how many rows it has: that travels, and not the table."""
    servers = [f"/job:{job}/replica:0/task:0/device:CPU:0" for job in ("worker", "ps")]
    with tf.device(servers[1]):
        tables = [tf.get_variable(f"t{k}", initializer=np.ones((5, 2), np.float32)) for k in range(2)]
        sizes = [tf.shape(t)[0] for t in tables]
    with tf.device(servers[0]):
        grad, at = tf.placeholder(tf.float32, [2, 2], "grad"), tf.constant([0, 1, 0])
        back = [
            tf.raw_ops.SparseSegmentSumGrad(grad=grad, indices=at, segment_ids=[0, 0, 1], output_dim0=n) for n in sizes
        ]
        fed = tf.placeholder(tf.int32, [], "fed")
        back.append(tf.raw_ops.SparseSegmentSumGrad(grad=grad, indices=at, segment_ids=[0, 1, 1], output_dim0=fed))
        out = [tf.identity(b).name for b in back]
    feeds = ["grad:0", "fed:0"]
    nodes = {n.name: n for n in graph.as_graph_def(add_shapes=True).node}
    made = joint_bags(place(prune(nodes, feeds, out, []), servers, servers[0]), feeds, [])
    (joint,) = [n for n in made.node if n.op == "_JointBagGradients"]
    assert joint.attr["N"].i == 3 and not joint.attr["counted"].b
    with tf.Session(cluster(ps=1, worker=1)["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        found = session.run(out, {grad: [[1.0, 2.0], [4.0, 8.0]], fed: 3})
    assert [f.tolist() for f in found[:2]] == [[[5, 10], [1, 2], [0, 0], [0, 0], [0, 0]]] * 2
    assert found[2].tolist() == [[5, 10], [4, 8], [0, 0]]


def test_what_is_ignored_has_no_rank_of_its_own(graph: Any) -> None:
    """Else the places would be of another rank than what is looked up, which GatherNd refuses."""
    x, ids = tf.placeholder(tf.int64), tf.placeholder(tf.int64, [1])
    wrong = tf.gather_nd(x, tf.where(tf.not_equal(x, tf.constant([[-1]], tf.int64))))
    sums = tf.nn.safe_embedding_lookup_sparse(tf.constant([[1.0], [2.0]]), tf.SparseTensor([[0, 0]], ids, [1, 1]))
    with tf.Session() as session, pytest.raises(InvalidArgumentError, match="GatherNd"):
        session.run([sums, wrong + 1], {x: [0, -1, 2], ids: [1]})


def test_sides_of_a_cond_do_not_come_together() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        which = tf.placeholder(tf.bool)
        data = tf.constant([[1.0], [2.0], [4.0]])
        # out of range where it does not run
        wrong = tf.placeholder_with_default(9, [])
        found = tf.cond(which, lambda: picked(data, 2), lambda: picked(data, wrong))
        assert session.run([found, picked(data, 1)], {which: True})[0].tolist() == [[6.0], [1.0]]
        with pytest.raises(InvalidArgumentError):
            session.run([found, picked(data, 1)], {which: False})


def test_an_error_names_the_column() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        at = tf.placeholder(tf.int32, [])
        data = tf.placeholder(tf.float32, [3, 2])
        right, wrong = picked(data, 1), tf.sparse_segment_sum(data, [at, 1, 0], [0, 0, 1], name="wrong")
        with pytest.raises(InvalidArgumentError, match=r"9\) is not|= 9 is not in \[0, 3\)") as caught:
            session.run([right, wrong], {at: 9, data: np.ones((3, 2))})
        assert caught.value.op.name == "wrong"


@pytest.mark.parametrize("remapping", [RewriterConfig.ON, RewriterConfig.OFF])
def test_rows_that_are_none(remapping: Any) -> None:
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.remapping = remapping
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        ids = tf.SparseTensor([[0, 0], [3, 0]], tf.constant([1, 2], tf.int64), [2, 1])
        found = tf.nn.safe_embedding_lookup_sparse(tf.ones([4, 2]), ids)
        with pytest.raises(InvalidArgumentError, match=r"SparseFillEmptyRows: indices\(:, 0\) must lie in \[0, 2\)"):
            session.run(found)
