"""What is computed of whole variables: the same training, what moves to them, and what must not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow_runtime.kernels.table  # noqa: F401  (fills the kernel table)
from sparkflow_runtime.master.passes import Optimizer
from sparkflow_runtime.master.passes.distinct_rows import distinct_rows
from sparkflow_runtime.master.passes.settings import Settings
from sparkflow_runtime.master.passes.whole_variables import LEAST_BYTES, whole_variables
from sparkflow_runtime.master.place import place
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.wire.edges import verify
from sparkflow_runtime.wire.protos import GraphDef

ROWS, WIDTH = 8000, 8  # 256 KB
TASKS = {"worker": "/job:worker/replica:0/task:0", "ps": "/job:ps/replica:0/task:0"}
PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"

Loss = Callable[[Any, Any], Any]
PENALTIES: dict[str, Loss] = {
    "squares": lambda t, rows: 1e-3 * tf.nn.l2_loss(t),
    "absolute values": lambda t, rows: 1e-3 * tf.reduce_sum(tf.abs(t)),
    "a mean": lambda t, rows: 1e-3 * tf.reduce_mean(tf.square(t) + tf.abs(t)),
    "rows' norms": lambda t, rows: 1e-3 * tf.reduce_sum(tf.sqrt(tf.reduce_sum(tf.square(t), 1) + 1e-6)),
    "weighed by the batch": lambda t, rows: tf.reduce_mean(rows) * tf.nn.l2_loss(t),
    "two of them": lambda t, rows: 1e-3 * (tf.nn.l2_loss(t) + tf.reduce_sum(tf.abs(t))),
    "through a cast": lambda t, rows: tf.cast(1e-3 * tf.reduce_sum(tf.square(tf.cast(t, tf.float64))), tf.float32),
    "reshaped": lambda t, rows: 1e-3 * tf.nn.l2_loss(tf.reshape(t, [-1])),
    "of differences": lambda t, rows: 1e-3 * tf.reduce_sum(tf.square(t - tf.reduce_mean(t, 0, keepdims=True))),
}
LOOKS: dict[str, Callable[[Any], Any]] = {
    "the first row nothing": lambda t: tf.concat([tf.zeros([1, WIDTH]), t[1:]], 0),
    "a row more": lambda t: tf.pad(t, [[1, 0], [0, 0]]),
    "of length one": lambda t: tf.nn.l2_normalize(t, 1),
    "scaled": lambda t: t * WIDTH**0.5,
}
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.01),
}


def setting(on: bool) -> Any:
    """All of RewriterConfig's passes, or all but this one."""
    made = tf.ConfigProto()
    if not on:
        names = set(Settings.__dataclass_fields__) - {"whole_variables"}
        listed = {"dependencies": "dependency", "constant_folding": "constfold", "fusion": "remap"}
        made.graph_options.rewrite_options.optimizers[:] = sorted(listed.get(name, name) for name in names)
    return made


def start(*shape: int) -> np.ndarray:
    return 0.1 * np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def build(
    penalty: Loss = lambda t, rows: 0.0, resource: bool = False, look: Callable[[Any], Any] = lambda t: t
) -> tuple[Any, Any, Any]:
    """(ids, the table, the loss) of a table on a server. look: what rows are looked up in."""
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device=WORKER)):
        tf.train.get_or_create_global_step()
        ids = tf.placeholder(tf.int64, [None, 3], "ids")
        table = tf.get_variable("table", initializer=start(ROWS, WIDTH), use_resource=resource)
        rows = tf.nn.embedding_lookup(look(table), ids)
        return ids, table, tf.reduce_mean(tf.square(tf.reduce_sum(rows, [1, 2]) - 1.0)) + penalty(table, rows)


def trained(
    cluster: Any, made: Callable[[], Any], on: bool, sync: bool = False, clip: bool = False, **about: Any
) -> list[Any]:
    """The losses of some steps, and all variables behind them."""
    servers, rng, losses = cluster(ps=1, worker=1), np.random.default_rng(3), []
    with tf.Graph().as_default():
        ids, _, loss = build(**about)
        with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device=WORKER)):
            optimizer = tf.train.SyncReplicasOptimizer(made(), 1, 1) if sync else made()
            pairs = optimizer.compute_gradients(loss)
            if clip:
                grads, _ = tf.clip_by_global_norm([g for g, _ in pairs], 0.5)
                pairs = list(zip(grads, [v for _, v in pairs], strict=True))
            train = optimizer.apply_gradients(pairs, tf.train.get_global_step())
            hooks = [optimizer.make_session_run_hook(True, num_tokens=0)] if sync else []
        variables = [v.value() for v in tf.global_variables() if v.dtype.base_dtype == tf.float32]
        target = servers["worker0"].target
        with tf.train.MonitoredTrainingSession(target, True, hooks=hooks, config=setting(on)) as session:
            for n in (40, 1, 500, 200):
                losses.append(session.run([train, loss], {ids: rng.integers(0, ROWS, (n, 3))})[1])
            return [*losses, *session.run(variables)]


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_is_the_same(cluster: Any, penalty: str, optimizer: str) -> None:
    found = [trained(cluster, OPTIMIZERS[optimizer], on, penalty=PENALTIES[penalty]) for on in (True, False)]
    assert len(found[0]) == len(found[1]) > 4
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6)


KINDS: dict[str, dict[str, Any]] = {
    "synchronous": {"penalty": PENALTIES["squares"], "sync": True},
    "clipped": {"penalty": PENALTIES["squares"], "clip": True},
    "a resource": {"penalty": PENALTIES["squares"], "resource": True},
    "synchronous and clipped": {"penalty": PENALTIES["squares"], "sync": True, "clip": True},
    **{kind: {"look": look} for kind, look in LOOKS.items()},
    **{f"synchronous, {kind}": {"look": look, "sync": True} for kind, look in LOOKS.items()},
}


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_the_same_of_other_kinds(cluster: Any, kind: str) -> None:
    found = [trained(cluster, OPTIMIZERS["adagrad"], on, **KINDS[kind]) for on in (True, False)]
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6)


# ---------------------------------------------------------------------- what moves


def passed(fetched: list[Any], targets: list[Any] = ()) -> tuple[GraphDef, GraphDef]:  # type: ignore[assignment]
    """The placed graph of what is asked for, and what the pass makes of it."""
    graph = tf.get_default_graph().as_graph_def(add_shapes=True)
    nodes = {n.name: n for n in graph.node}
    fetches, run = [t.name for t in fetched], [op.name for op in targets]
    feeds = [f"{n.name}:0" for n in graph.node if n.op == "Placeholder"]
    optimized = Optimizer().optimize(prune(nodes, feeds, fetches, run), feeds, fetches, run, False, nodes)
    devices = [f"{task}/device:CPU:0" for task in TASKS.values()]
    placed = place(optimized, devices, devices[0])
    after = whole_variables(placed, feeds, {*run, *(f.rpartition(":")[0] for f in fetches)})
    verify(after, {"ids"})
    return placed, after


def moved(fetched: list[Any], targets: list[Any] = ()) -> dict[str, str]:  # type: ignore[assignment]
    """What is on another task than it was: its op by its name."""
    placed, after = passed(fetched, targets)
    before = {n.name: n.device for n in placed.node}
    return {n.name: n.op for n in after.node if n.device != before[n.name]}


def travels(graph: GraphDef) -> int:
    """Bytes of large tensors between tasks, each once for a task that takes it."""
    nodes = {n.name: n for n in graph.node}
    pairs = {(e, n.device) for n in graph.node for e in n.input if e in nodes and nodes[e].device != n.device}
    sizes = []
    for e, _ in pairs:
        dims = [d.size for d in nodes[e].attr["_output_shapes"].list.shape[0].dim]
        sizes.append(4 * int(np.prod(dims)) if -1 not in dims else 0)
    return sum(size for size in sizes if size >= LEAST_BYTES)


@pytest.fixture
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize("penalty", PENALTIES)
def test_no_table_travels(graph: Any, penalty: str) -> None:
    _, _, loss = build(PENALTIES[penalty])
    train = tf.train.AdagradOptimizer(0.1).minimize(loss)
    placed, after = passed([loss], [train])
    assert travels(placed) >= 2 * 4 * ROWS * WIDTH
    assert travels(after) == 0


@pytest.mark.parametrize("look", LOOKS)
def test_no_table_travels_to_look_rows_up_in_what_is_made_of_it(graph: Any, look: str) -> None:
    _, _, loss = build(look=LOOKS[look])
    placed, after = passed([loss], [tf.train.AdagradOptimizer(0.1).minimize(loss)])
    assert travels(placed) >= 2 * 4 * (ROWS - 1) * WIDTH
    assert travels(after) == 0


def test_the_penalty_is_computed_before_the_update(graph: Any) -> None:
    _, _, loss = build(PENALTIES["squares"])
    train = tf.train.AdagradOptimizer(0.1).minimize(loss)
    _, after = passed([loss], [train])
    ops = {n.name: n for n in after.node}
    (update,) = (n for n in after.node if n.op == "ApplyAdagrad")
    assert "^L2Loss" in update.input and TASKS["ps"] in ops["L2Loss"].device


def gathered() -> Any:
    """The loss of rows of two tables that `tf.gather` looks up, at the worker."""
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device=WORKER)):
        ids = tf.placeholder(tf.int64, [None], "ids")
        tables = [tf.get_variable(f"table{k}", initializer=start(ROWS, WIDTH)) for k in range(2)]
        rows = tf.concat([tf.gather(t, ids) for t in tables], 1)
        return tf.reduce_sum(tf.square(rows))


def test_an_update_that_comes_of_what_is_computed_waits_for_it_anyway(graph: Any) -> None:
    """So rows that `tf.gather` looks up travel as those of an embedding look-up do."""
    train = tf.train.AdagradOptimizer(0.1).minimize(gathered())
    _, after = passed([], [train])
    updates = [n for n in after.node if n.op == "SparseApplyAdagrad"]
    assert len(updates) == 2 and not any(e.startswith("^Gather") for n in updates for e in n.input)
    found = Counter(n.op for n in distinct_rows(after, ["ids:0"], [train.name]).node)
    assert found["_GatherDistinct"] == found["_SumToDistinct"] == 1


def test_an_update_that_may_come_by_another_way_waits(graph: Any) -> None:
    """A merge takes the value of the branch that is taken, whoever waits for the other."""
    loss = gathered()
    with tf.device(WORKER):
        grads = tf.gradients(loss, tf.trainable_variables()[0])[0]
        values = tf.cond(tf.reduce_sum(tf.range(3)) > 2, lambda: tf.ones([1, WIDTH]), lambda: grads.values[:1])
    with tf.device(PS):
        update = tf.scatter_add(tf.trainable_variables()[0], [3], values)
    _, after = passed([loss], [update.op])
    (changed,) = (n for n in after.node if n.op == "ScatterAdd")
    nodes = {n.name: n for n in after.node}
    (look_up,) = (n for n in after.node if n.op == "GatherV2" and n.input[0] == "table0/read")
    assert TASKS["ps"] in look_up.device and f"^{look_up.name}" in changed.input
    assert look_up.name in _before(nodes, changed)


def test_a_small_variable_is_read_before_its_update_too(graph: Any) -> None:
    """What would have been sent before the update: the products of a gradient by it."""
    with tf.device(PS):
        scale = tf.get_variable("scale", initializer=np.full((1, WIDTH), 0.5, np.float32))
    _, _, loss = build(look=lambda t: tf.tanh(t) * scale)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, gate_gradients=tf.train.Optimizer.GATE_NONE)
    _, after = passed([loss], [train])
    nodes = {n.name: n for n in after.node}
    (update,) = (n for n in after.node if n.op == "ApplyGradientDescent" and n.input[0] == "scale")
    readers = [n for n in after.node if "scale/read" in n.input and TASKS["ps"] in n.device]
    assert readers
    assert all(f"^{n.name}" in update.input or n.name in _before(nodes, update) for n in readers)


@pytest.mark.parametrize("shape", [[-1], [ROWS // 2, -1], [ROWS, 1, WIDTH]])
def test_a_reshaped_table_is_read_before_the_update_too(graph: Any, shape: list[int]) -> None:
    _, _, loss = build(lambda t, rows: 1e-3 * tf.nn.l2_loss(tf.reshape(t, shape)))
    train = tf.train.AdagradOptimizer(0.1).minimize(loss)
    _, after = passed([loss], [train])
    nodes = {n.name: n for n in after.node}
    (update,) = (n for n in after.node if n.op == "ApplyAdagrad")
    assert TASKS["ps"] in nodes["L2Loss"].device and "^L2Loss" in update.input


@pytest.mark.parametrize("where", [PS, WORKER])
@pytest.mark.parametrize("late", [False, True])
def test_a_table_is_shown_to_others_as_it_was_before_the_update(graph: Any, where: str, late: bool) -> None:
    """A reshaped one is its memory there: an update waits for all who look at it, unless one of them comes after it."""
    with tf.device(PS):
        table = tf.get_variable("table", initializer=start(ROWS, WIDTH))
    with tf.device(WORKER):
        flat = tf.reshape(table, [WIDTH, ROWS])
        train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.nn.l2_loss(flat))
        with tf.control_dependencies([train] if late else []):
            weights = tf.random_uniform([ROWS, 1])
    with tf.device(where):
        total = tf.matmul(tf.identity(flat), weights)
    _, after = passed([total], [train])
    nodes = {n.name: n for n in after.node}
    (update,) = (n for n in after.node if n.op == "ApplyGradientDescent")
    if where == PS and late:
        assert TASKS["worker"] in nodes["Reshape"].device
    else:
        assert {PS: "MatMul", WORKER: "Identity"}[where] in _before(nodes, update)


def _before(nodes: dict[str, Any], node: Any) -> set[str]:
    """The names of all nodes that a node waits for."""
    found: set[str] = set()
    left = [node]
    while left:
        for e in left.pop().input:
            name = e.lstrip("^").partition(":")[0]
            if name not in found and name in nodes:
                found.add(name)
                left.append(nodes[name])
    return found


def test_a_table_that_travels_anyway_takes_nothing_along(graph: Any) -> None:
    with tf.device(WORKER):
        x = tf.placeholder(tf.float32, [None, ROWS], "ids")
    with tf.device(PS):
        table = tf.get_variable("table", initializer=start(ROWS, WIDTH))
    with tf.device(WORKER):
        loss = tf.reduce_sum(tf.matmul(x, table)) + tf.nn.l2_loss(table)
    assert moved([loss], [tf.train.AdagradOptimizer(0.1).minimize(loss)]) == {}


def test_what_comes_after_an_update_stays(graph: Any) -> None:
    """By control edges: it was sent after the update, and is read by its reader."""
    with tf.device(PS):
        table = tf.get_variable("table", initializer=start(ROWS, WIDTH))
        update = table.assign_add(start(ROWS, WIDTH))
    with tf.control_dependencies([update]), tf.device(WORKER):
        loss = tf.nn.l2_loss(tf.identity(table.value()))
    assert moved([loss]) == {}


def test_what_waits_for_a_queue_does_not_hold_an_update(graph: Any) -> None:
    """What fills the queue may come after the update."""
    with tf.device(WORKER):
        queue = tf.FIFOQueue(1, [tf.float32], [[]])
    with tf.device(PS):
        table = tf.get_variable("table", initializer=start(ROWS, WIDTH))
        update = table.assign_add(start(ROWS, WIDTH))
    with tf.device(WORKER):
        loss = 2.0 * tf.reduce_sum(table * queue.dequeue())
        with tf.control_dependencies([update]):
            fill = queue.enqueue(2.0)
    assert moved([loss], [fill]) == {}
    assert set(moved([loss]).values()) != set()  # nothing is updated


def test_that_queue_in_a_cluster(cluster: Any) -> None:
    servers = cluster(ps=1, worker=1)
    with tf.Graph().as_default():
        with tf.device(WORKER):
            queue = tf.FIFOQueue(1, [tf.float32], [[]])
        with tf.device(PS):
            table = tf.get_variable("table", initializer=np.ones([ROWS, WIDTH], np.float32))
            update = table.assign_add(np.ones([ROWS, WIDTH], np.float32))
        with tf.device(WORKER):
            total = tf.reduce_sum(table * queue.dequeue())
            with tf.control_dependencies([update]):
                fill = queue.enqueue(2.0)
        with tf.Session(servers["worker0"].target) as session:
            session.run(tf.global_variables_initializer())
            found, _ = session.run([total, fill], options=tf.RunOptions(timeout_in_ms=20_000))
    assert found in (2 * ROWS * WIDTH, 4 * ROWS * WIDTH)


def test_what_is_fetched_stays(graph: Any) -> None:
    _, table, _ = build(PENALTIES["squares"])
    with tf.device(WORKER):
        norm = tf.nn.l2_loss(table)
    assert moved([norm]) == {}
    with tf.device(WORKER):
        twice = 2.0 * norm
    assert moved([twice]) == {"L2Loss_1": "L2Loss"}


def test_small_variables_stay(graph: Any) -> None:
    with tf.device(PS):
        small = tf.get_variable("small", initializer=start(10, WIDTH))
    with tf.device(WORKER):
        loss = 2.0 * tf.nn.l2_loss(small)
    assert moved([loss]) == {}


def test_histograms_are_made_where_the_variable_is(graph: Any) -> None:
    with tf.device(PS):
        table = tf.get_variable("table", initializer=start(ROWS, WIDTH))
    with tf.device(WORKER):
        tf.summary.histogram("table", table)
        merged = tf.summary.merge_all()
    assert moved([merged]) == {"table_1": "HistogramSummary"}


def test_nothing_of_a_branch_or_a_loop_moves(graph: Any) -> None:
    with tf.device(PS):
        table = tf.get_variable("table", initializer=start(ROWS, WIDTH))
    with tf.device(WORKER):
        flag = tf.placeholder(tf.bool, [], "ids")
        chosen = tf.cond(flag, lambda: tf.nn.l2_loss(table), lambda: 0.0)
        looped = tf.while_loop(lambda x: x < 10.0, lambda x: [x + tf.nn.l2_loss(table)], [0.0])
    assert moved([chosen + looped]) == {}


def test_rows_for_a_whole_gradient_travel_once(cluster: Any) -> None:
    """Each distinct row, whatever ids a segment sum drops."""
    servers = cluster(ps=1, worker=1)
    values = np.random.default_rng(0).standard_normal((500, WIDTH)).astype(np.float32)
    numbers = np.random.default_rng(1).integers(-2, 20, 500)
    with tf.Graph().as_default():
        with tf.device(WORKER):
            ids, rows = tf.placeholder(tf.int64, [None], "ids"), tf.placeholder(tf.float32, [None, WIDTH])
            made = tf.identity(rows) * 2.0
        with tf.device(PS):
            table = tf.get_variable("table", initializer=start(ROWS, WIDTH))
            total = tf.unsorted_segment_sum(made, ids, ROWS) + table
        with tf.Session(servers["worker0"].target) as session:
            session.run(tf.global_variables_initializer())
            found = session.run(total, {ids: numbers, rows: values})
    expected = start(ROWS, WIDTH)
    np.add.at(expected, numbers[numbers >= 0], 2.0 * values[numbers >= 0])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
