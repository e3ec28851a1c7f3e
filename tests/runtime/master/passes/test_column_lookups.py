"""Look-ups of columns of ids: the same bits as by matrices of one column, and what stays as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow_runtime.kernels.table  # noqa: F401 - registers the ops
from sparkflow_runtime.master.passes import Optimizer
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.wire.protos import GraphDef, RewriterConfig

IDS = np.array([[3, 0, 5], [3, 1, 5], [0, 1, 5], [7, 7, 7]], np.int64)


def tables(count: int = 3) -> list[Any]:
    return [
        tf.get_variable(f"t{k}", initializer=np.arange(32, dtype=np.float32).reshape(8, 4) + k) for k in range(count)
    ]


def optimized(fetches: list[str], feeds: tuple[str, ...] = ("ids:0",)) -> GraphDef:
    graph = tf.get_default_graph().as_graph_def(add_shapes=True)
    nodes = {n.name: n for n in graph.node}
    return Optimizer().optimize(prune(nodes, list(feeds), fetches, []), list(feeds), fetches, sources=nodes)


def ops(graph: GraphDef) -> Counter[str]:
    return Counter(n.op for n in graph.node)


def flat(rows: Any) -> Any:
    return tf.reshape(rows, [-1, 4])


def both(ids: Any, ts: list[Any]) -> list[Any]:
    """A factorization machine's sums beside what a layer takes, as in DeepFM."""
    rows = [tf.gather(t, ids[:, k : k + 1]) for k, t in enumerate(ts)]
    stacked, wide = tf.concat(rows, 1), tf.concat(rows, 2)
    pairs = tf.square(tf.reduce_sum(stacked, 1)) - tf.reduce_sum(tf.square(stacked), 1)
    return [tf.reshape(wide, [-1, 12]), pairs, tf.reduce_sum(wide, 1)]


WRITTEN: dict[str, Callable[[Any, Any], list[Any]]] = {
    "slices": lambda ids, ts: [flat(tf.nn.embedding_lookup(t, ids[:, k : k + 1])) for k, t in enumerate(ts)],
    "split": lambda ids, ts: [flat(tf.gather(t, i)) for t, i in zip(ts, tf.split(ids, 3, axis=1))],
    "squeezed": lambda ids, ts: [tf.squeeze(tf.gather(t, ids[:, k : k + 1]), 1) for k, t in enumerate(ts)],
    "keras": lambda ids, ts: [
        tf.keras.layers.Flatten()(tf.nn.embedding_lookup(t, ids[:, k : k + 1])) for k, t in enumerate(ts)
    ],
    "ids of one column": lambda ids, ts: [
        tf.keras.layers.Flatten()(tf.gather(t, tf.slice(ids, [0, k], [-1, 1]))) for k, t in enumerate(ts)
    ],
    "side by side": lambda ids, ts: [
        tf.keras.layers.Flatten()(tf.concat([tf.gather(t, ids[:, k : k + 1]) for k, t in enumerate(ts)], -1))
    ],
    "behind each other": lambda ids, ts: [
        tf.reshape(tf.concat([tf.gather(t, ids[:, k : k + 1]) for k, t in enumerate(ts)], 1), [-1, 12])
    ],
    "both, and as they are": lambda ids, ts: both(ids, ts),
    "one column twice": lambda ids, ts: [flat(tf.gather(t, ids[:, 1:2])) for t in ts],
}


@pytest.mark.parametrize("batch", [None, 4])
@pytest.mark.parametrize("how", WRITTEN)
def test_the_same_bits(how: str, batch: int | None) -> None:
    found = []
    for on in (RewriterConfig.ON, RewriterConfig.OFF):
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.remapping = on
        with tf.Graph().as_default():
            ids, ts = tf.placeholder(tf.int64, [batch, 3], "ids"), tables()
            rows = tf.concat(WRITTEN[how](ids, ts), 1)
            train = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(tf.square(rows)))
            with tf.Session(config=config) as session:
                session.run(tf.global_variables_initializer())
                found.append([session.run([rows, train], {ids: IDS})[0] for _ in range(3)] + session.run(ts))
    for a, b in zip(*found, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("how", [how for how in WRITTEN if how != "both, and as they are"])
def test_rows_meet_without_reshapes(graph: Any, how: str) -> None:
    ids = tf.placeholder(tf.int64, [None, 3], "ids")
    made = optimized([tf.concat(WRITTEN[how](ids, tables()), 1).name])
    gathers, kind = [n for n in made.node if n.op == "GatherV2"], "vector" if how == "ids of one column" else "column"
    assert ops(made)["Reshape"] == len([n for n in made.node if n.name.endswith("/vector")])
    assert not ops(made)["Squeeze"] and not ops(made)["Split"] and ops(made)["ConcatV2"] == 1, ops(made)
    assert len(gathers) == 3 and all(kind in n.input[1] for n in gathers)


def columns_of_ids(count: int = 3) -> tuple[list[Any], dict[Any, Any]]:
    places = [tf.placeholder(tf.int64, [None, 1], f"id{k}") for k in range(count)]
    return places, {p: IDS[:, k : k + 1] for k, p in enumerate(places)}


def test_of_ids_that_are_fed_column_by_column(graph: Any) -> None:
    """As the inputs of Keras' models are: the gradient takes the same vectors."""
    places, feed = columns_of_ids()
    rows = tf.concat([tf.keras.layers.Flatten()(tf.gather(t, i)) for t, i in zip(tables(), places)], 1, name="rows")
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(rows * rows))
    nodes, feeds = {n.name: n for n in graph.as_graph_def(add_shapes=True).node}, [p.name for p in places]
    made = Optimizer().optimize(prune(nodes, feeds, [], [train.name]), feeds, [], [train.name], sources=nodes)
    updates = [n for n in made.node if n.op == "_SparseApplyGradientDescent"]
    assert sorted(n.input[3] for n in updates) == [f"id{k}/vector" for k in range(3)]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first = session.run(rows, feed)
        assert first.tolist() == laid_out(session).tolist()


def laid_out(session: Any) -> np.ndarray:
    return np.concatenate([t[IDS[:, k]] for k, t in enumerate(session.run(tf.global_variables()))], 1)


def test_of_ids_that_come_from_an_iterator(graph: Any) -> None:
    data = tf.data.Dataset.from_tensor_slices((IDS[:, :1], IDS[:, 1:2])).batch(3)
    a, b = tf.data.make_one_shot_iterator(data).get_next()
    found = tf.reshape(tf.concat([tf.gather(t, i) for t, i in zip(tables(2), (a, b))], 2), [-1, 8], name="found")
    assert Counter(n.op for n in optimized(["found:0"], ()).node)["ConcatV2"] == 1
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        t0, t1 = session.run(tf.global_variables())
        assert session.run(found).tolist() == np.concatenate([t0[IDS[:3, 0]], t1[IDS[:3, 1]]], 1).tolist()
        assert session.run(found).tolist() == np.concatenate([t0[IDS[3:, 0]], t1[IDS[3:, 1]]], 1).tolist()


def test_of_the_gradient_too(graph: Any) -> None:
    ids, ts = tf.placeholder(tf.int64, [None, 3], "ids"), tables()
    rows = tf.concat(WRITTEN["slices"](ids, ts), 1)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(rows * rows))
    nodes = {n.name: n for n in tf.get_default_graph().as_graph_def(add_shapes=True).node}
    made = Optimizer().optimize(prune(nodes, ["ids:0"], [], [train.name]), ["ids:0"], [], [train.name], sources=nodes)
    updates = [n for n in made.node if n.op == "ScatterSub"]
    assert len(updates) == 3 and all(n.input[1].endswith("/column") for n in updates), [n.input for n in updates]


KEPT: dict[str, Callable[[Any, Any], Any]] = {
    "rows that are used as they are": lambda ids, t: tf.concat([r := tf.gather(t, ids[:, 1:2]), r * 2.0], 1)[:, 0],
    "wider slices": lambda ids, t: flat(tf.gather(t, ids[:, 1:3])),
    "a column that may not be there": lambda ids, t: flat(tf.gather(t, tf.placeholder(tf.int64, name="more")[:, 4:5])),
    "every second row": lambda ids, t: flat(tf.gather(t, ids[::2, 1:2])),
    "other widths": lambda ids, t: tf.reshape(tf.gather(t, ids[:, 1:2]), [-1, 2]),
    "another axis": lambda ids, t: tf.reshape(tf.gather(t, ids[:, 1:2], axis=1), [-1, 1]),
    "rows of one side": lambda ids, t: flat(tf.gather(t, tf.split(ids, [1, 2], axis=1)[0])),
    "rows beside something else": lambda ids, t: tf.concat([tf.gather(t, ids[:, 1:2]), tf.ones([4, 1, 2])], 2),
    "rows of another example behind them": lambda ids, t: flat(
        tf.concat([tf.gather(t, ids[:, 1:2]), tf.gather(t, ids[:, 2:3])], 0)
    ),
}


@pytest.mark.parametrize("why", KEPT)
def test_what_stays(graph: Any, why: str) -> None:
    ids = tf.placeholder(tf.int64, [None, 3], "ids")
    out = KEPT[why](ids, tables(1)[0])
    before = tf.get_default_graph().as_graph_def(add_shapes=True)
    feeds = ("ids:0", *(["more:0"] if any(n.name == "more" for n in before.node) else []))
    made = optimized([out.name], feeds)
    assert not any(n.name.endswith(("/column", "/columns")) for n in made.node)


def test_what_is_fetched_or_fed_stays(graph: Any) -> None:
    ids = tf.placeholder(tf.int64, [None, 3], "ids")
    rows = tf.gather(tables(1)[0], ids[:, 1:2], name="rows")
    out = flat(rows)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        both = session.run([rows, out], {ids: IDS})
        assert both[0].shape == (4, 1, 4) and both[0][:, 0].tobytes() == both[1].tobytes()
        assert session.run(out, {rows: np.ones((2, 1, 4))}).tolist() == [[1] * 4] * 2
        assert session.run(out, {out: np.ones((2, 4))}).tolist() == [[1] * 4] * 2


def test_an_id_out_of_range_is_told_of_the_look_up(graph: Any) -> None:
    ids = tf.placeholder(tf.int64, [None, 3], "ids")
    out = tf.concat([flat(tf.gather(t, ids[:, k : k + 1], name=f"look_{k}")) for k, t in enumerate(tables())], 1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"9 is not in \[0, 8\)(.|\n)*look_1"):
            session.run(out, {ids: IDS + np.array([[0, 0, 0], [0, 0, 0], [0, 8, 0], [0, 0, 0]])})
