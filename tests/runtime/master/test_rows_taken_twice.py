"""Rows that a layer takes and something else does too: what becomes of them, and that training is the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from tests.runtime.master.test_spread_products import OPTIMIZERS, SIZES, config, spread

COUNT, WIDTH = len(SIZES), 16


def embedded(name: str, ids: list[Any], width: int) -> list[Any]:
    found = []
    for k, (one, (rows, _)) in enumerate(zip(ids, SIZES)):
        start = np.random.default_rng(k + width).standard_normal((rows, width)).astype(np.float32)
        found.append(tf.nn.embedding_lookup(tf.get_variable(f"{name}{k}", initializer=start), one))
    return found


def machine(rows: Any) -> Any:
    """The pairs' products of a factorization machine, of [batch, tables, n]."""
    return tf.reduce_sum(tf.square(tf.reduce_sum(rows, 1)) - tf.reduce_sum(tf.square(rows), 1), 1)


def layer(x: Any) -> Any:
    start = 0.1 * np.random.default_rng(9).standard_normal((x.shape[1].value, 32)).astype(np.float32)
    return tf.reduce_sum(tf.nn.relu(tf.matmul(x, tf.get_variable("w", initializer=start))), 1)


def as_keras_writes_it(ids: Any, dense: Any) -> Any:
    columns = tf.split(ids, COUNT, axis=1)
    rows = embedded("rows", columns, WIDTH)
    line = tf.reduce_sum(tf.concat(embedded("line", columns, 1), -1), [1, 2])
    deep = tf.concat([tf.layers.flatten(tf.concat(rows, -1)), dense], -1)
    return line + machine(tf.concat(rows, 1)) + layer(deep)


def by_stacks(ids: Any, dense: Any) -> Any:
    columns = tf.unstack(ids, axis=1)
    rows = tf.stack(embedded("rows", columns, WIDTH), 1)
    line = tf.reduce_sum(tf.concat(embedded("line", columns, 1), 1), 1)
    return line + machine(rows) + layer(tf.reshape(rows, [-1, COUNT * WIDTH]))


def by_an_axis(ids: Any, dense: Any) -> Any:
    """Half of the rows get it by one op, half by another."""
    columns = tf.unstack(ids, axis=1)
    each = enumerate(embedded("rows", columns, WIDTH))
    rows = tf.concat([tf.reshape(r, [-1, 1, WIDTH]) if k % 2 else tf.expand_dims(r, 1) for k, r in each], 1)
    line = tf.reduce_sum(tf.concat(embedded("line", columns, 1), 1), 1)
    return line + machine(rows) + layer(tf.reshape(rows, [-1, COUNT * WIDTH]))


def by_concats(ids: Any, dense: Any) -> Any:
    wide = tf.concat(embedded("rows", tf.unstack(ids, axis=1), WIDTH), 1)
    return machine(tf.reshape(wide, [-1, COUNT, WIDTH])) + layer(tf.concat([wide, dense], 1))


def two_layers_and_more(ids: Any, dense: Any) -> Any:
    wide = tf.concat(embedded("rows", tf.unstack(ids, axis=1), WIDTH), 1)
    with tf.variable_scope("other"):
        other = layer(wide)
    return other + layer(wide) + tf.reduce_sum(tf.sin(wide), 1)


def with_penalties(ids: Any, dense: Any) -> Any:
    """Of each table's rows, as programs that make their layers by hand have it."""
    rows = embedded("rows", tf.unstack(ids, axis=1), WIDTH)
    return layer(tf.concat([*rows, dense], 1)) + 0.3 * tf.add_n([tf.nn.l2_loss(r) for r in rows])


WRITTEN: dict[str, Callable[[Any, Any], Any]] = {
    f.__name__: f for f in (as_keras_writes_it, by_stacks, by_an_axis, by_concats, two_layers_and_more, with_penalties)
}


class Model:
    def __init__(self, written: Callable[[Any, Any], Any], ps: int = 1):
        with tf.device(tf.train.replica_device_setter(ps_tasks=ps, worker_device="/job:worker/task:0")):
            self.step = tf.train.get_or_create_global_step()
            self.ids = tf.placeholder(tf.int64, [None, COUNT], "ids")
            self.dense = tf.placeholder(tf.float32, [None, 5], "dense")
            self.out = written(self.ids, self.dense)
            self.loss = tf.reduce_mean(tf.square(0.01 * self.out - 1.0))

    def train(self, optimizer: Any = None) -> Any:
        with tf.device("/job:worker/task:0"):
            return (optimizer or tf.train.AdagradOptimizer(0.1)).minimize(self.loss, global_step=self.step)


def feeds() -> list[str]:
    graph = tf.get_default_graph()
    return [f"{n.name}:0" for n in graph.as_graph_def().node if n.op == "Placeholder"]


@pytest.mark.parametrize("how", WRITTEN)
def test_the_layer_does_without_its_gradient_of_the_rows(graph: Any, how: str) -> None:
    found = spread([Model(WRITTEN[how]).train()], feeds())
    layers = 2 if how == "two_layers_and_more" else 1
    assert (found["_SpreadMatMul"], found["_SpreadMatMulGrad"]) == (layers, layers)
    assert not found["MatMul"] and not found["Pack"]
    assert found["_SpreadConcat"] == (2 if how in ("as_keras_writes_it", "by_stacks", "by_an_axis") else 1), (
        "of rows, and of the line"
    )
    assert found["_SumToDistinct"] == found["_SpreadConcat"], "what else comes of the rows, and the line's"
    assert found["AddN"] + found["ConcatV2"] >= 1 and found["_Slices"] + found["Slice"] == (
        COUNT + 1 if how == "with_penalties" else 0
    ), "the penalties' own rows, and the layer's gradient without the dense columns"


@pytest.mark.parametrize("kind", ["adagrad", "adam", "sync"])
@pytest.mark.parametrize("how", WRITTEN)
def test_training_is_the_same(cluster: Any, how: str, kind: str) -> None:
    """Batches in which ids repeat, so that their sums pay, and others; one of none."""
    found: dict[bool, list[np.ndarray]] = {}
    for on in (True, False):
        servers, rng = cluster(ps=2, worker=1), np.random.default_rng(8)
        batches = [np.stack([rng.integers(0, min(rows, n), m) for rows, _ in SIZES], 1) for m, n in
                   ((2000, 4), (200, 50), (1, 50), (0, 50), (2000, 4))]  # fmt: skip
        with tf.Graph().as_default():
            model, optimizer = Model(WRITTEN[how], 2), OPTIMIZERS[kind]()
            train = model.train(optimizer)
            hooks = [optimizer.make_session_run_hook(True, num_tokens=0)] if kind == "sync" else []
            variables, target = [v.value() for v in tf.global_variables()], servers["worker0"].target
            with tf.train.MonitoredTrainingSession(target, True, hooks=hooks, config=config(on)) as session:
                for ids in batches:
                    feed = {model.ids: ids, model.dense: rng.standard_normal((len(ids), 5))}
                    session.run(train, feed)
                found[on] = [np.asarray(v) for v in session.run(variables)] + [session.run(model.out, feed)]
    for one, other in zip(found[True], found[False], strict=True):
        np.testing.assert_allclose(one, other, rtol=5e-4, atol=5e-5)


def check_in_one_process(written: Callable[[Any, Any], Any]) -> None:
    """Three steps with the passes and three without give the same."""
    found, rng = [], np.random.default_rng(3)
    ids, dense = rng.integers(0, 30, (50, COUNT)), rng.standard_normal((50, 5))
    for on in (True, False):
        with tf.Graph().as_default(), tf.Session(config=config(on)) as session:
            model = Model(written, 0)
            train = tf.train.AdagradOptimizer(0.1).minimize(model.loss)
            session.run(tf.global_variables_initializer())
            losses = [session.run([model.loss, train], {model.ids: ids, model.dense: dense})[0] for _ in range(3)]
            found.append([losses, *session.run(tf.trainable_variables())])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("how", WRITTEN)
def test_in_one_process(how: str) -> None:
    """Rows that lie side by side for one are taken from there by the other."""
    check_in_one_process(WRITTEN[how])


@pytest.mark.parametrize("why", ["factors", "some", "before"])
def test_penalties_that_are_not_one(graph: Any, why: str) -> None:
    """Each table with a weight of its own, not all tables, or what the layer takes beside the rows comes of them."""

    def written(ids: Any, dense: Any) -> Any:
        rows = embedded("rows", tf.unstack(ids, axis=1), WIDTH)
        each = [tf.nn.l2_loss(r) * (k + 1.0 if why == "factors" else 1.0) for k, r in enumerate(rows)]
        penalty = tf.add_n(each[1:] if why == "some" else each)
        beside = dense + sum(tf.gradients(penalty, rows))[:, :5] if why == "before" else dense
        return layer(tf.concat([*rows, beside], 1)) + 0.3 * penalty

    check_in_one_process(written)


def test_columns_of_several_matrices_are_summed_each_at_once(graph: Any) -> None:
    """Of a wide part and a narrow layer, whose gradients stay matrices."""
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")):
        step, ids = tf.train.get_or_create_global_step(), tf.placeholder(tf.int64, [None, COUNT], "ids")
        columns = tf.unstack(ids, axis=1)
        a, b = (tf.sin(tf.concat(embedded(name, columns, n), 1)) for name, n in (("a", 4), ("b", 2)))
        loss = tf.reduce_sum(a) + tf.reduce_sum(tf.square(b))
        train = tf.train.AdagradOptimizer(0.1).minimize(loss, global_step=step)
    found = spread([train], ["ids:0"])
    assert (found["_SumToDistinct"], found["ConcatV2"], found["Slice"]) == (2, 1, 0)


def test_what_is_summed_with_something_fetched_stays(graph: Any) -> None:
    """The gradient of the rows is asked for, so it is made."""
    model = Model(by_concats)
    train = model.train()
    total = [n for n in graph.as_graph_def().node if n.op == "AddN"]
    found: Counter[str] = spread([train, graph.get_tensor_by_name(f"{total[-1].name}:0")], feeds())
    assert found["_SpreadMatMul"] == 1 and found["MatMul"] >= 1
