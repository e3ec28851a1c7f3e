"""embedding_lookup over whole tables and shards; where its nodes stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow.framework.graph import Graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.grads.gradients import gradients
from sparkflow.ops import array, embedding
from sparkflow_runtime.wire.errors import InvalidArgumentError

TABLE = np.arange(21, dtype=np.float32).reshape(7, 3)
IDS = np.array([[0, 6], [6, 3]], np.int64)


def shards(strategy: str, n: int) -> list[np.ndarray]:
    return [TABLE[i::n] for i in range(n)] if strategy == "mod" else np.array_split(TABLE, n)


@pytest.mark.parametrize("known_shapes", [True, False])
@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_rows(evaluate: Any, strategy: str, n: int, known_shapes: bool) -> None:
    def build(ids: Any, *tables: Any) -> Any:
        return embedding.embedding_lookup(list(tables), ids, strategy)

    got = evaluate(build, IDS, *shards(strategy, n), known_shapes=known_shapes)
    np.testing.assert_array_equal(got, TABLE[IDS])


def test_partitioned_variable_like(graph: Graph) -> None:
    class Partitioned:
        def _get_variable_list(self) -> list[Any]:
            return [array.zeros([4, 3]), array.zeros([3, 3])]

    assert embedding.embedding_lookup(Partitioned(), IDS).shape == [2, 2, 3]


def test_max_norm(evaluate: Any) -> None:
    got = evaluate(lambda t: embedding.embedding_lookup(t, IDS, max_norm=2.0), TABLE)
    rows = TABLE[IDS]
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    np.testing.assert_allclose(got, rows * np.minimum(1, 2 / np.maximum(norms, 2)), rtol=1e-6)


def test_gathers_stand_beside_their_tables(graph: Graph) -> None:
    tables = []
    for task in range(2):
        with graph.device(f"/job:ps/task:{task}"):
            tables.append(array.placeholder("float32", [4, 3], name=f"table{task}"))
    with graph.device("/job:worker/task:0"):
        found = embedding.embedding_lookup(tables, [1, 2])
    gathers = [o for o in graph.get_operations() if o.type == "GatherV2"]
    assert [g.device for g in gathers] == ["/job:ps/task:0", "/job:ps/task:1"]
    assert [g.colocation_groups() for g in gathers] == [[b"loc:@table0"], [b"loc:@table1"]]
    assert "/job:worker" in found.device


def test_gradient_is_slices_of_each_shard(graph: Graph) -> None:
    tables = [array.placeholder("float32", [4, 3]), array.placeholder("float32", [3, 3])]
    grads = gradients(embedding.embedding_lookup(tables, IDS), tables)
    assert all(isinstance(g, IndexedSlices) for g in grads)


def test_bad_ids(evaluate: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"= 7 is not in \[0, 7\)"):
        evaluate(lambda t: embedding.embedding_lookup(t, [7]), TABLE)
    with pytest.raises(ValueError, match="'mod' or 'div'"):
        evaluate(lambda t: embedding.embedding_lookup([t, t], [7], "hash"), TABLE)
    with pytest.raises(ValueError, match="non-empty"):
        embedding.embedding_lookup([], [1])


def test_a_partitioned_table_in_a_list_is_the_whole_one(graph: Graph) -> None:
    """[table], as scripts for safe_embedding_lookup_sparse write it: rows keep their numbers, whatever the strategy."""
    import sparkflow as tf

    table = tf.get_variable("table", initializer=TABLE, partitioner=tf.fixed_size_partitioner(3))
    bag = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], np.array([1, 6, 3]), [2, 2])
    found = [
        tf.nn.embedding_lookup([table], IDS),
        tf.nn.embedding_lookup([table], IDS, partition_strategy="div"),
        tf.nn.safe_embedding_lookup_sparse([table], bag, combiner="sum"),
        tf.nn.embedding_lookup_sparse([table], bag, None, combiner="sum"),
    ]
    moved = tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(found[2]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        rows, same, safe, plain = session.run(found)
        session.run(moved)
        after = np.concatenate(session.run(list(table)))
    np.testing.assert_array_equal(rows, TABLE[IDS])
    np.testing.assert_array_equal(same, TABLE[IDS])
    for sums in (safe, plain):
        np.testing.assert_array_equal(sums, [TABLE[1] + TABLE[6], TABLE[3]])
    np.testing.assert_array_equal(np.flatnonzero((after != TABLE).any(1)), [1, 3, 6])
