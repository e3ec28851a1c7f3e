"""Queues, accumulators, tables and iterators without a shared_name are their session's own; with one, the task's."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import sparkflow as tf
from sparkflow.session.server import Server
from sparkflow_runtime.resources.variables import Variable
from tests.session.processes import Cluster


@pytest.fixture(scope="module")
def tasks() -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARKFLOW_SECRET", "secret")
        cluster = Cluster(ps=1, worker=1)
        yield cluster
        cluster.stop()


@pytest.fixture
def target(tasks: Cluster) -> Iterator[str]:
    yield tasks["worker0"].target
    tf.Session.reset(tasks["worker0"].target)


@pytest.fixture(scope="module")
def here() -> Iterator[str]:
    """Of a task in this process, which has the functions that datasets are made of."""
    server = tf.train.Server.create_local_server()
    yield server.target
    server.stop()


def _queue(shared: str | None) -> tuple[Any, Any]:
    queue = tf.FIFOQueue(10, tf.int32, shapes=[()], shared_name=shared)
    return queue.enqueue_many([[1, 2, 3]]), queue.size()


def _shuffled(shared: str | None) -> tuple[Any, Any]:
    queue = tf.RandomShuffleQueue(10, 0, tf.int32, shapes=[()], shared_name=shared)
    return queue.enqueue_many([[1, 2, 3]]), queue.size()


def _closed(shared: str | None) -> tuple[Any, Any]:
    queue = tf.FIFOQueue(10, tf.int32, shapes=[()], shared_name=shared)
    return queue.close(), queue.is_closed()


def _accumulator(shared: str | None) -> tuple[Any, Any]:
    held = tf.ConditionalAccumulator(tf.float32, shape=(), shared_name=shared)
    return held.apply_grad(1.0), held.num_accumulated()


def _table(shared: str | None) -> tuple[Any, Any]:
    table = tf.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name=shared or "")
    put = tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=["a"], values=tf.constant([1], tf.int64))
    return put, tf.raw_ops.LookupTableSizeV2(table_handle=table)


def _iterator(shared: str | None) -> tuple[Any, Any]:
    data = tf.data.Dataset.range(7).batch(7)
    made = tf.data.make_initializable_iterator(data, shared_name=shared)
    return made.initializer, tf.size(made.get_next())


# what puts something in, what looks, and what is seen (in an own one before anything is put in, None an error)
KINDS: dict[str, tuple[Callable[[str | None], tuple[Any, Any]], Any, Any]] = {
    "queue": (_queue, 0, 3),
    "shuffled": (_shuffled, 0, 3),
    "closed": (_closed, False, True),
    "accumulator": (_accumulator, 0, 1),
    "table": (_table, 0, 1),
    "iterator": (_iterator, None, 7),
}


def _seen(session: Any, look: Any) -> Any:
    try:
        return session.run(look)
    except tf.errors.FailedPreconditionError:
        return None


@pytest.mark.parametrize("task", ["/job:worker/task:0", "/job:ps/task:0"])
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "iterator"])
def test_without_a_shared_name_each_session_has_its_own(target: str, graph: Any, kind: str, task: str) -> None:
    with tf.device(task):
        put, look = KINDS[kind][0](None)
    _check_own(target, kind, put, look)


def test_an_iterator_without_a_shared_name_is_the_sessions(here: str, graph: Any) -> None:
    _check_own(here, "iterator", *_iterator(None))


def _check_own(target: str, kind: str, put: Any, look: Any) -> None:
    _, empty, full = KINDS[kind]
    with tf.Session(target) as first, tf.Session(target) as second:
        first.run(put)
        assert _seen(second, look) == empty
        assert _seen(first, look) == full
    with tf.Session(target) as third:
        assert _seen(third, look) == empty


@pytest.mark.parametrize("task", ["/job:worker/task:0", "/job:ps/task:0"])
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "iterator"])
def test_with_a_shared_name_all_sessions_have_the_same(target: str, graph: Any, kind: str, task: str) -> None:
    build, _, full = KINDS[kind]
    with tf.device(task):
        put, look = build(f"shared_{kind}")
    with tf.Session(target) as first, tf.Session(target) as second:
        first.run(put)
        assert _seen(second, look) == full
    with tf.Graph().as_default() as other, tf.Session(target, graph=other) as third:
        with tf.device(task):
            again = build(f"shared_{kind}")[1]
        assert _seen(third, again) == full


def test_a_shared_iterator_goes_on_in_other_graphs(here: str) -> None:
    found = []
    for begins in (True, False, False):
        with tf.Graph().as_default() as graph, tf.Session(here, graph=graph) as session:
            made = tf.data.make_initializable_iterator(tf.data.Dataset.range(9), shared_name="nine")
            following = made.get_next()
            if begins:
                session.run(made.initializer)
            found.append(session.run([following])[0])
    assert found == [0, 1, 2]


def test_a_one_shot_iterator_begins_anew_in_each_session(here: str, graph: Any) -> None:
    following = tf.data.make_one_shot_iterator(tf.data.Dataset.range(2)).get_next()
    for _ in range(3):
        with tf.Session(here) as session:
            assert [session.run(following), session.run(following)] == [0, 1]
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(following)


def test_a_table_with_node_name_sharing_is_everybodys(target: str, graph: Any) -> None:
    table = tf.raw_ops.MutableHashTableV2(
        key_dtype=tf.string, value_dtype=tf.int64, use_node_name_sharing=True, name="known"
    )
    put = tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=["a"], values=tf.constant([1], tf.int64))
    size = tf.raw_ops.LookupTableSizeV2(table_handle=table)
    with tf.Session(target) as first:
        first.run(put)
    with tf.Session(target) as second:
        assert second.run(size) == 1


def test_a_recovered_session_has_open_queues(target: str, graph: Any) -> None:
    """A session that is lost closes its queues; the one after it must not take them for the end of the data."""
    queue = tf.FIFOQueue(4, tf.int32, shapes=[()])
    numbers = tf.train.range_input_producer(1000, shuffle=False)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(numbers.dequeue())]))
    step = tf.train.get_or_create_global_step()
    fetches = queue.dequeue(), tf.assign_add(step, 1)

    class Breaks(tf.train.SessionRunHook):
        runs = 0

        def before_run(self, run_context: Any) -> None:
            self.runs += 1
            if self.runs in (4, 7):
                raise tf.errors.AbortedError("gone")

    found = []
    with tf.train.MonitoredTrainingSession(target, hooks=[Breaks()]) as session:
        while len(found) < 8:
            found.append(session.run(fetches)[0])
    assert found == [0, 1, 2, 0, 1, 0, 1, 2]


def test_an_isolated_session_shares_nothing(target: str, graph: Any) -> None:
    with tf.device("/job:ps/task:0"):
        held = tf.get_variable("held", [], initializer=tf.ones_initializer())
        put, look = _queue("of_all")
    missing = tf.report_uninitialized_variables()
    with tf.Session(target) as shared:
        shared.run([held.initializer, put])
        with tf.Session(target, config=tf.ConfigProto(isolate_session_state=True)) as alone:
            assert list(alone.run(missing)) == [b"held"]
            with pytest.raises(tf.errors.FailedPreconditionError, match="held"):
                alone.run(held)
            alone.run(tf.assign(held, 5.0))
            assert alone.run([held, look, tf.size(missing)]) == [5, 0, 0]
        assert shared.run([held, look]) == [1, 3]


@pytest.mark.parametrize("end", ["close", "isolated", "reset"])
def test_the_memory_of_variables_goes_with_them(cluster: Any, graph: Any, end: str) -> None:
    """Not when Python's collector comes next: a server that rests has nothing that would bring it."""
    server = None if end == "close" else cluster(ps=1)["ps0"]
    big = tf.Variable(tf.zeros([4 << 20]), name=f"big_{end}")  # another test's may be left
    held = list[Any]()
    gc.collect()
    gc.disable()
    try:
        config = tf.ConfigProto(isolate_session_state=end == "isolated")
        with tf.Session("" if server is None else server.target, graph, config) as session:
            session.run(big.initializer)
            session.run(big.assign_add(tf.ones([4 << 20])).op)
            held = [weakref.ref(v.value) for v in gc.get_objects() if type(v) is Variable and v.name == big.op.name]
        if end == "reset":
            assert any(ref() is not None for ref in held), "a session leaves it to the others"
            tf.Session.reset(server.target)  # type: ignore[union-attr]
        assert held and all(ref() is None for ref in held)
    finally:
        gc.enable()


def test_what_a_master_that_died_has_left_goes_when_it_is_back(graph: Any) -> None:
    with tf.device("/job:ps/task:0"):
        put, size = _queue(None)
        held = tf.get_variable("held", [], initializer=tf.ones_initializer())
    holder = Server.bound("ps", 0, "127.0.0.1", b"secret")
    left = []
    try:
        for _ in range(3):
            master = Server.bound("worker", 0, "127.0.0.1", b"secret")
            for server in (holder, master):
                server.join_cluster({"ps": [holder.address], "worker": [master.address]})
            session, other = tf.Session(master.target), tf.Session(master.target)
            session.run([held.initializer, put])
            assert session.run([size, held]) == [3, 1] and other.run([size, held]) == [0, 1]
            worker = holder._runtime.worker
            left.append((len(worker._parts), len(worker._functions), len(worker.resources._containers)))
            master.stop()  # without a word about its sessions
        assert left[0] == left[1] == left[2] and left[0][2] == 3
    finally:
        holder.stop()


def test_a_task_that_was_started_twice_is_told(graph: Any) -> None:
    """The later process has the name; the one before does not fight for it, and each step of the later one is whole."""
    with tf.device("/job:ps/task:0"):
        held = tf.get_variable("held", [], initializer=tf.ones_initializer())
        doubled = held * tf.placeholder_with_default(2.0, [], name="factor")
    holder = Server.bound("ps", 0, "127.0.0.1", b"secret")
    twins = [Server.bound("worker", 0, "127.0.0.1", b"secret") for _ in range(2)]
    try:
        for server in twins:
            server.join_cluster({"ps": [holder.address], "worker": [server.address]})
        holder.join_cluster({"ps": [holder.address], "worker": [twins[0].address]})
        first, second = (tf.Session(server.target) for server in twins)
        first.run(held.initializer)
        assert first.run(doubled) == second.run(doubled) == 2
        for _ in range(3):
            with pytest.raises(tf.errors.OpError, match="another process has come as /job:worker/replica:0/task:0"):
                first.run(doubled)
            assert second.run(doubled) == 2
        with (
            tf.Session(twins[0].target) as another,
            pytest.raises(tf.errors.AlreadyExistsError, match=r"started twice: each process needs a task_index"),
        ):
            another.run(held)
        assert second.run(held) == 1
    finally:
        for server in (holder, *twins):
            server.stop()
