"""Products of rows that travelled once: what takes whose place, what stays, and that training is the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow_runtime.kernels.table  # noqa: F401  (fills the kernel table)
from sparkflow_runtime.master.passes import Optimizer
from sparkflow_runtime.master.passes.distinct_rows import distinct_rows
from sparkflow_runtime.master.passes.fuse_embeddings import fuse_embeddings
from sparkflow_runtime.master.passes.spread_products import spread_products
from sparkflow_runtime.master.place import place
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.wire.edges import verify
from sparkflow_runtime.wire.protos import GraphDef, RewriterConfig

SIZES = [(40, 8), (30, 16), (50, 8)]
DEVICES = [f"/job:{job}/replica:0/task:{task}/device:CPU:0" for job, task in (("worker", 0), ("ps", 0), ("ps", 1))]
FEEDS = ["ids:0", "dense:0"]


class Model:
    """Tables on servers, layers on a worker."""

    def __init__(
        self,
        ps: int = 1,
        sizes: Any = SIZES,
        units: int = 32,
        towers: int = 1,
        frozen: bool = False,
        fed: Model | None = None,
        bottom: bool = False,
    ):
        """fed: whose placeholders it takes. bottom: whether a layer lies between the dense columns and the rows."""
        with tf.device(tf.train.replica_device_setter(ps_tasks=ps, worker_device="/job:worker/task:0")):
            self.step = tf.train.get_or_create_global_step()
            self.ids = fed.ids if fed else tf.placeholder(tf.int64, [None, len(sizes)], "ids")
            self.dense = fed.dense if fed else tf.placeholder(tf.float32, [None, 5], "dense")
            rows = self.rows = [self.layer(self.dense, 12, "bottom") if bottom else self.dense]
            for i, (column, (count, width)) in enumerate(zip(tf.unstack(self.ids, axis=1), sizes)):
                start = np.random.default_rng(i).standard_normal((count, width)).astype(np.float32)
                table = tf.get_variable(f"t{i}", initializer=start, trainable=not frozen)
                rows.append(tf.nn.embedding_lookup(table, column))
            self.joined = tf.concat(rows, 1)
            self.layers = [self.layer(self.joined, units, f"w{k}") for k in range(towers)]
            self.out = sum(self.layers[1:], self.layers[0])
            last = tf.get_variable("last", initializer=np.linspace(-1, 1, units, dtype=np.float32)[:, None])
            self.loss = tf.reduce_mean(tf.square(tf.matmul(self.out, last) - 1.0))

    @staticmethod
    def layer(x: Any, units: int, name: str) -> Any:
        rng = np.random.default_rng(len(name))
        start = 0.1 * rng.standard_normal((x.shape[1].value, units)).astype(np.float32)
        w, b = tf.get_variable(name, initializer=start), tf.get_variable(name + "b", initializer=np.ones(units, "f"))
        return tf.nn.relu(tf.matmul(x, w) + b)

    def train(self, optimizer: Any = None) -> Any:
        with tf.device("/job:worker/task:0"):
            return (optimizer or tf.train.AdagradOptimizer(0.1)).minimize(self.loss, global_step=self.step)


def texts(graph: GraphDef) -> list[bytes]:
    return [n.SerializeToString(deterministic=True) for n in graph.node]


def spread(fetches: list[Any], feeds: Any = FEEDS) -> Counter[str]:
    """How many nodes of each op the worker has."""
    names = [f.name for f in fetches]
    graph = tf.get_default_graph().as_graph_def(add_shapes=True)
    nodes = {n.name: n for n in graph.node}
    kept = {f.partition(":")[0] for f in names}
    tensors, targets = [n for n in names if ":" in n], [n for n in names if ":" not in n]
    pruned = prune(nodes, feeds, tensors, targets)
    given = place(Optimizer().optimize(pruned, feeds, tensors, targets, False, nodes), DEVICES, DEVICES[0])
    given = fuse_embeddings(distinct_rows(given, feeds, kept), feeds, kept)
    before = texts(given)
    fed = [f.partition(":")[0] for f in feeds]
    out = verify(spread_products(given, feeds, kept), fed)
    assert texts(given) == before, "a pass leaves its input alone"
    assert list(out.node) == list(spread_products(given, feeds, kept).node)
    return Counter(n.op for n in out.node if n.device == DEVICES[0])


@pytest.mark.parametrize("ps", [1, 2])
def test_a_layer_above_rows_does_without_the_matrix(graph: Any, ps: int) -> None:
    found = spread([Model(ps).train()])
    assert (found["_SpreadMatMul"], found["_SpreadMatMulGrad"]) == (1, 1)
    assert not found["_SpreadConcat"] and not found["_SumToDistinct"]
    assert found["MatMul"] == 3, "the last layer's"


def test_a_layer_below_gets_its_columns_of_the_gradient(graph: Any) -> None:
    found = spread([Model(bottom=True).train()])
    assert (found["_SpreadMatMul"], found["_SpreadMatMulGrad"]) == (1, 1)
    assert not found["_SpreadConcat"] + found["_SumToDistinct"] + found["Slice"]
    assert (found["MatMul"], found["_FusedMatMul"]) == (4, 1), "the last layer's three, and two of the one below"


def test_a_narrow_table_goes_with_wide_ones(graph: Any) -> None:
    found = spread([Model(sizes=[(40, 1), *SIZES]).train()])
    assert (found["_SpreadMatMul"], found["_SpreadMatMulGrad"]) == (1, 1)


def test_so_does_what_only_predicts(graph: Any) -> None:
    found = spread([Model().out])
    assert found["_SpreadMatMul"] == 1 and not found["_SpreadConcat"] + found["MatMul"]


def test_rows_that_are_not_trained_have_no_sums(graph: Any) -> None:
    found = spread([Model(frozen=True).train()])
    assert found["_SpreadMatMulGrad"] == 1 and found["MatMul"] == 3 and not found["_SumToDistinct"]


def test_several_layers_above_the_same_rows(graph: Any) -> None:
    """The gradient of the matrix is a sum of products then: it is taken of each, and added up."""
    found = spread([Model(towers=2).out])
    assert found["_SpreadMatMul"] == 2 and not found["_SpreadConcat"]
    with tf.Graph().as_default():
        found = spread([Model(towers=3).train()])
    assert (found["_SpreadMatMul"], found["_SpreadMatMulGrad"], found["AddN"]) == (3, 3, 1)
    assert not found["_SpreadConcat"] + found["_SumToDistinct"] and found["MatMul"] == 3, "the last layer's"


def test_columns_put_together_in_two_steps(graph: Any) -> None:
    """As Keras' models are: ids [batch, 1] of each column, rows [batch, 1, n] side by side, flat, beside the rest."""
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")):
        dense, rows = tf.placeholder(tf.float32, [None, 5], "dense"), []
        for i, (count, width) in enumerate(SIZES):
            table = tf.get_variable(f"t{i}", initializer=np.ones((count, width), np.float32))
            rows.append(tf.nn.embedding_lookup(table, tf.placeholder(tf.int64, [None, 1], f"id{i}")))
        out = Model.layer(tf.concat([tf.layers.flatten(tf.concat(rows, -1)), dense], -1), 32, "w")
        step = tf.train.get_or_create_global_step()
        train = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_mean(tf.square(out)), global_step=step)
    found = spread([train], ["dense:0", *(f"id{i}:0" for i in range(3))])
    assert (found["_SpreadMatMul"], found["_SpreadMatMulGrad"]) == (1, 1)
    assert not found["_SpreadConcat"] + found["ConcatV2"] + found["_SumToDistinct"] + found["Slice"] + found["MatMul"]


def test_a_narrow_layer_goes_with_a_wide_one(graph: Any) -> None:
    """As in a wide and deep model, or it would have the matrix made."""
    model = Model()
    with tf.device("/job:worker/task:0"):
        line = tf.get_variable("line", initializer=np.ones((model.joined.shape[1].value, 1), np.float32))
        model.loss += tf.reduce_mean(tf.square(tf.matmul(model.joined, line)))
    found = spread([model.train()])
    assert (found["_SpreadMatMul"], found["_SpreadMatMulGrad"], found["_SpreadConcat"]) == (2, 2, 0)


def test_a_matrix_that_is_used_besides_is_made(graph: Any) -> None:
    """And multiplied as rows all the same."""
    model = Model()
    with tf.device("/job:worker/task:0"):
        more = tf.reduce_sum(model.joined)
    found = spread([model.train(), more])
    assert (found["_SpreadMatMul"], found["_SpreadMatMulGrad"], found["_SpreadConcat"]) == (1, 1, 1)


@pytest.mark.parametrize("kind", ["asked for", "narrow rows", "narrow layer", "dense gradient", "fed"])
def test_what_stays_as_it_is(graph: Any, kind: str) -> None:
    sizes = [(40, 4), (30, 4), (50, 12)] if kind == "narrow rows" else SIZES
    model = Model(sizes=sizes, units=16 if kind == "narrow layer" else 32)
    fetches, feeds = [model.train()], list(FEEDS)
    if kind == "asked for":
        fetches.append(model.joined)
    elif kind == "dense gradient":
        with tf.device("/job:worker/task:0"):
            fetches += tf.gradients(model.loss, [model.dense])
    elif kind == "fed":
        feeds.append(model.joined.name)
    found = spread(fetches, feeds)
    assert not found["_SpreadMatMulGrad"] or kind == "dense gradient"
    if kind == "dense gradient":  # the gradient of the matrix is made, and that of the weights does without
        assert found["_SpreadMatMulGrad"] == 1 and found["_SumToDistinct"] == 1
    else:
        assert not found["_SpreadMatMul"]


def test_an_error_names_the_concat(cluster: Any, graph: Any) -> None:
    servers, model = cluster(ps=1, worker=1), Model()
    train = model.train()
    with tf.Session(servers["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"ConcatV2 'concat': sizes must agree.* got 3 rows"):
            session.run(train, {model.ids: np.zeros((3, 3), np.int64), model.dense: np.zeros((2, 5), np.float32)})


def test_a_gradient_that_waits_for_another_stays(graph: Any) -> None:
    """The weights that the rows' gradient takes are read after their own gradient is there: one node could not be
    both."""
    model = Model()
    with tf.device("/job:worker/task:0"):
        w = next(v for v in tf.global_variables() if v.op.name == "w0")
        dw = tf.gradients(model.loss, w)[0]
        with tf.control_dependencies([dw]):
            late = tf.gradients(model.loss, [v for v in tf.global_variables() if v.op.name[0] == "t"])
            ends = [tf.identity(g.values) for g in late]
    found = spread([dw, *ends])
    assert found["_SpreadMatMul"] + found["_SpreadConcat"] == 1


@pytest.fixture(autouse=True)
def worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little there is to do."""
    monkeypatch.setattr("sparkflow_runtime.kernels.spread_products._WORTH", 0)


def config(on: bool) -> Any:
    made = tf.ConfigProto()
    made.graph_options.rewrite_options.remapping = RewriterConfig.ON if on else RewriterConfig.OFF
    return made


OPTIMIZERS = {
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.01),
    "sync": lambda: tf.train.SyncReplicasOptimizer(tf.train.AdagradOptimizer(0.1), 1, 1),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize(
    ("ps", "about"), [(1, {}), (2, {}), (2, {"bottom": True}), (1, {"towers": 3}), (2, {"towers": 2, "bottom": True})]
)
def test_training_is_the_same(cluster: Any, kind: str, ps: int, about: dict[str, Any]) -> None:
    """Batches in which ids repeat, in which none does, and one of none."""
    found: dict[bool, list[np.ndarray]] = {}
    for on in (True, False):
        servers, rng = cluster(ps=ps, worker=1), np.random.default_rng(8)
        batches = [np.stack([rng.integers(0, rows, n) for rows, _ in SIZES], 1) for n in (200, 90, 1, 0, 150)]
        batches.append(np.stack([rng.permutation(30) for _ in SIZES], 1))
        with tf.Graph().as_default():
            model, optimizer = Model(ps, **about), OPTIMIZERS[kind]()
            train = model.train(optimizer)
            hooks = [optimizer.make_session_run_hook(True, num_tokens=0)] if kind == "sync" else []
            variables = [v.value() for v in tf.global_variables()]
            target = servers["worker0"].target
            with tf.train.MonitoredTrainingSession(target, True, hooks=hooks, config=config(on)) as session:
                for ids in batches:
                    dense = rng.standard_normal((len(ids), 5))
                    session.run(train, {model.ids: ids, model.dense: dense})
                found[on] = [np.asarray(v) for v in session.run(variables)]
    for one, other in zip(found[True], found[False], strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def second_factor(model: Model, w: Any, dz: Any) -> list[Any]:
    """A product in which the matrix is what is multiplied by."""
    return [tf.matmul(model.out, model.joined, transpose_a=True), model.out]


def predicts_after_an_update(model: Model, w: Any, dz: Any) -> list[Any]:
    """By the gradient of the weights that were read before."""
    read = tf.identity(w)
    update = tf.assign_sub(w, 0.01 * tf.matmul(model.joined, dz, transpose_a=True))
    with tf.control_dependencies([update]):
        return [tf.matmul(model.joined, read), update]


def through_a_queue(model: Model, w: Any, dz: Any) -> list[Any]:
    """What predicts waits for what comes out, and the gradient goes in."""
    queue = tf.FIFOQueue(5, [tf.float32], [w.shape])
    put = queue.enqueue([tf.matmul(model.joined, dz, transpose_a=True)])
    return [tf.matmul(model.joined, w - queue.dequeue()), put]


def two_that_wait_for_each_other(model: Model, w: Any, dz: Any) -> list[Any]:
    """Each product waits for the gradient of the other's weights."""
    with tf.variable_scope("other"):
        other = Model(fed=model)
    gradients = [tf.matmul(m.joined, dz, transpose_a=True) for m in (other, model)]
    reads, products = [tf.identity(w), tf.identity(w)], []
    for gradient, m, read in zip(gradients, (model, other), reads):
        with tf.control_dependencies([gradient]):
            products.append(tf.matmul(m.joined, read))
    return [*products, *gradients]


def a_row_besides(model: Model, w: Any, dz: Any) -> list[Any]:
    """One that has passed an Identity on its way to the matrix."""
    with tf.control_dependencies([model.dense]):
        row = tf.identity(model.rows[1])
    joined = tf.concat([model.dense, row, *model.rows[2:]], 1)
    return [row, tf.nn.relu(tf.matmul(joined, w))]


def a_bias_that_is_spread(model: Model, w: Any, dz: Any) -> list[Any]:
    return [tf.nn.relu(tf.matmul(model.joined, w) + tf.reduce_sum(model.dense[:, :1], 0))]


CASES = [second_factor, predicts_after_an_update, through_a_queue, two_that_wait_for_each_other, a_row_besides]


@pytest.mark.parametrize("case", [*CASES, a_bias_that_is_spread])
def test_whatever_else_is_asked_for_is_the_same(cluster: Any, case: Any) -> None:
    found = []
    for on in (True, False):
        servers, rng = cluster(ps=1, worker=1), np.random.default_rng(3)
        with tf.Graph().as_default(), tf.device("/job:worker/task:0"):
            model = Model()
            w = next(v for v in tf.global_variables() if v.op.name == "w0")
            fetches = case(model, w, tf.fill([tf.shape(model.ids)[0], 32], 0.01))
            settings = config(on)
            settings.operation_timeout_in_ms = 20_000
            with tf.Session(servers["worker0"].target, config=settings) as session:
                session.run(tf.global_variables_initializer())
                for batch in (200, 130):
                    ids = np.stack([rng.integers(0, rows, batch) for rows, _ in SIZES], 1)
                    got = session.run(fetches, {model.ids: ids, model.dense: rng.standard_normal((batch, 5))})
                    found.append([np.asarray(v) for v in got if v is not None])
    for mine, plain in zip(found[:2], found[2:], strict=True):
        for one, other in zip(mine, plain, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-4 * max(1, np.abs(other).max()))


def test_one_gradient_for_each_table_travels(cluster: Any) -> None:
    """Bits that are cut off on the way are cut off sums and gradients alike."""
    servers = cluster(ps=1, worker=1)
    settings = tf.ConfigProto(graph_options=tf.GraphOptions(enable_bfloat16_sendrecv=True))
    with tf.Graph().as_default():
        model = Model()
        train = model.train(tf.train.GradientDescentOptimizer(0.1))
        tables = [v.value() for v in tf.global_variables() if v.op.name[0] == "t"]
        with tf.Session(servers["worker0"].target, config=settings) as session:
            session.run(tf.global_variables_initializer())
            before = session.run(tables)
            feed = {model.ids: np.zeros((64, 3), np.int64), model.dense: np.ones((64, 5))}
            session.run(train, feed)
            for old, new in zip(before, session.run(tables)):
                assert (old[0] != new[0]).all() and (old[1:] == new[1:]).all()


def test_placed_graphs_without_rows_are_left_alone(graph: Any) -> None:
    given = GraphDef()
    assert spread_products(given) is given
