"""Session.run: feeds, fetches, structures, errors, threads."""

from __future__ import annotations

import collections
import threading
from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def test_fetches_keep_their_structure(graph: Any) -> None:
    pair = collections.namedtuple("pair", "left right")
    a, b = tf.constant(2.0, name="a"), tf.constant([1, 2], name="b")
    op = tf.group(a, name="op")
    with tf.Session() as session:
        found = session.run({"x": [a, (b, a)], "y": pair(b, "a:0"), "z": op})
    assert found["x"][0] == 2.0 and isinstance(found["x"][0], np.float32)
    assert found["x"][1][0].tolist() == [1, 2] and isinstance(found["x"], list) and isinstance(found["x"][1], tuple)
    assert found["y"].left.tolist() == [1, 2] and found["y"].right == 2.0
    assert found["z"] is None


def test_a_list_of_fetches_may_change_between_runs(graph: Any) -> None:
    a, b = tf.constant(1.0), tf.constant(2.0)
    with tf.Session() as sess:
        fetches = [a, b]
        assert sess.run(fetches) == [1.0, 2.0] and sess.run(tuple(fetches)) == (1.0, 2.0)
        fetches.reverse()
        assert sess.run(fetches) == [2.0, 1.0]
        fetches.append(a + b)
        assert sess.run(fetches) == [2.0, 1.0, 3.0] and sess.run([[a], b]) == [[1.0], 2.0]
        assert sess.run([]) == [] and sess.run(b.op) is None


def test_any_tensor_can_be_fed(graph: Any) -> None:
    a = tf.constant([1.0, 2.0])
    b = a + 1
    c = b * 2
    with tf.Session() as session:
        assert session.run(c, {b: [10, 20]}).tolist() == [20, 40]
        assert session.run([b, c], {"add:0": [0, 0]})[0].tolist() == [0, 0]
        assert session.run(c).tolist() == [4, 6]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([[1.0, 2.0]], ValueError, r"shape \(1, 2\) for Tensor 'x:0', which has shape \(\?, 3\)"),
        (["a", "b", "c"], (TypeError, ValueError), "x:0"),
    ],
)
def test_bad_feeds_are_refused_before_anything_runs(graph: Any, value: Any, error: Any, message: str) -> None:
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    with tf.Session() as session, pytest.raises(error, match=message):
        session.run(x, {x: value})


@pytest.mark.parametrize(
    "value", [["ä", b"b"], np.array(["ä", "b"]), np.array(["ä", b"b"], object), [np.str_("ä"), "b"]]
)
def test_fed_text_is_utf8(graph: Any, value: Any) -> None:
    x = tf.placeholder(tf.string, [2], name="x")
    with tf.Session() as session:
        fed = session.run([x, tf.strings.length(x)], {x: value})
        assert (fed[0].tolist(), fed[1].tolist()) == ([b"\xc3\xa4", b"b"], [2, 1])
        with pytest.raises(TypeError, match=r"x:0.*strings, got 3 of type int"):
            session.run(x, {x: np.array(["a", 3], object)})


def test_integers_are_not_cut_from_floats(graph: Any) -> None:
    x = tf.placeholder(tf.int32, [], name="x")
    with tf.Session() as session:
        assert session.run(x, {x: 3.0}) == 3
        with pytest.raises(TypeError, match=r"1.5.*cut to int32"):
            session.run(x, {x: 1.5})


def test_bad_fetches_and_feed_keys_say_what_they_are(graph: Any) -> None:
    a = tf.constant(1.0)
    with tf.Session() as session:
        with pytest.raises(TypeError, match="invalid type int"):
            session.run(5)
        with pytest.raises(ValueError, match="'nothing:0'"):
            session.run("nothing:0")
        with pytest.raises(TypeError, match="feed_dict key"):
            session.run(a, {"nothing:0": 1})
    with pytest.raises(RuntimeError, match="closed Session"):
        session.run(a)
    with tf.Graph().as_default(), tf.Session() as other:
        with pytest.raises(RuntimeError, match="graph is empty"):
            other.run(a)
        tf.no_op()
        with pytest.raises(ValueError, match="not an element of this graph"):
            other.run(a)


def test_an_unfed_placeholder_names_itself_and_its_line(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [2], name="x")
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(x * 2)
    assert "feed a value for placeholder tensor 'x' with dtype float32 and shape [2]" in str(caught.value)
    assert "test_session.py:" in str(caught.value)
    assert caught.value.op is x.op


def test_runtime_errors_name_node_op_device_and_line(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [None, None])
    y = tf.matmul(x, x, name="product")
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(y, {x: np.ones((2, 3))})
    text = str(caught.value)
    assert "[[node product (MatMul) on /job:localhost/replica:0/task:0/device:CPU:0]]" in text
    assert "defined at" in text and "test_session.py" in text


def test_the_graph_may_grow_between_runs(graph: Any) -> None:
    with tf.Session() as session:
        a = tf.constant(1.0)
        assert session.run(a) == 1
        assert session.run(a + 1) == 2


def test_fetched_variables_are_copies(graph: Any) -> None:
    v = tf.Variable([1.0, 2.0])
    step = tf.assign_add(v, [1.0, 1.0])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(v)
        read = session.run(tf.identity(v))
        session.run(step.op)
        assert before.tolist() == read.tolist() == [1, 2]
        assert session.run(v).tolist() == [2, 3]


def test_sessions_do_not_share_variables_without_a_target(graph: Any) -> None:
    v = tf.Variable(1.0)
    with tf.Session() as first, tf.Session() as second:
        first.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value Variable"):
            second.run(v)


def test_make_callable(graph: Any) -> None:
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    with tf.Session() as session:
        call = session.make_callable({"sum": x + y}, [x, y])
        assert call(1, 2) == {"sum": 3.0}
        with pytest.raises(ValueError, match="takes 2 feeds, got 1"):
            call(1)


def test_callables_and_partial_runs_take_sparse_feeds(graph: Any) -> None:
    sparse, ragged = tf.sparse_placeholder(tf.float32, [2, 3]), tf.ragged.placeholder(tf.int32, 1)
    pair, v = (tf.placeholder(tf.float32), tf.placeholder(tf.float32)), tf.Variable(1.0)
    value = tf.SparseTensorValue([[0, 1], [1, 2]], [1.0, 2.0], [2, 3])
    rows, dense = tf.ragged.constant_value([[1], [2, 3]], dtype="int32"), [[0.0, 1.0, 0.0], [0.0, 0.0, 2.0]]
    fetches = [tf.sparse_tensor_to_dense(sparse), tf.reduce_sum(ragged, 1), pair[0] - pair[1] + v]
    with tf.Session() as session:
        call = session.make_callable(fetches, [sparse, ragged, pair, v])
        for _ in range(2):
            a, b, c = call(value, rows, (5, 2), 10)
            assert (a.tolist(), b.tolist(), c) == (dense, [1, 5], 13)
        assert session.make_callable(pair[0] + 1, [(pair[0],)])([4]) == 5
        with pytest.raises(ValueError, match="of 3 elements got a value of 2"):
            call((1, 2), rows, (5, 2), 10)
        handle = session.partial_run_setup(fetches[:2], [sparse, ragged])
        assert session.partial_run(handle, fetches[0], {sparse: value}).tolist() == dense
        assert session.partial_run(handle, fetches[1], {ragged: rows}).tolist() == [1, 5]


def test_many_threads_run_one_session(graph: Any) -> None:
    v = tf.Variable(0, dtype=tf.int64)
    add = tf.assign_add(v, 1, use_locking=True).op
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        threads = [threading.Thread(target=lambda: [session.run(add) for _ in range(200)]) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert session.run(v) == 1600


def test_default_sessions(graph: Any) -> None:
    a = tf.constant(3.0)
    with pytest.raises(ValueError, match="no default session"):
        a.eval()
    with tf.Session().as_default():
        assert a.eval() == 3.0
    session = tf.InteractiveSession()
    assert a.eval() == 3.0
    session.close()


def test_a_deadline_keeps_no_program_from_its_end(graph: Any) -> None:
    """A step with a loop has a thread for it, which an interrupt may leave behind."""

    before = threading.enumerate()  # pytest's own deadline may be one of them

    def kinds() -> Any:
        begun = [thread for thread in threading.enumerate() if thread not in before]
        return np.array([thread.daemon for thread in begun if isinstance(thread, threading.Timer)])

    body = lambda i, _: (i + 1, tf.py_func(kinds, [], tf.bool))  # noqa: E731
    _, daemons = tf.while_loop(
        lambda i, _: i < 1, body, [0, tf.zeros([1], tf.bool)], [tf.TensorShape([]), tf.TensorShape(None)]
    )
    with tf.Session() as session:
        assert session.run(daemons, options=tf.RunOptions(timeout_in_ms=20_000)).tolist() == [True]


def test_a_step_has_a_deadline_when_asked(graph: Any) -> None:
    queue = tf.FIFOQueue(3, [tf.float32], name="jobs")
    item = queue.dequeue()
    with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=50)) as session:
        with pytest.raises(tf.errors.DeadlineExceededError, match=r"not done in 0\.05 s\. Waiting in QueueDequeueV2"):
            session.run(item)
        with pytest.raises(tf.errors.DeadlineExceededError, match=r"0\.02 s"):
            session.run(item, options=tf.RunOptions(timeout_in_ms=20))


def in_a_thread(session: Any, fetch: Any, seen: list[BaseException]) -> threading.Thread:
    def wait() -> None:
        try:
            session.run(fetch)
        except tf.errors.CancelledError as error:
            seen.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_closing_a_session_cancels_its_steps(graph: Any) -> None:
    item = tf.FIFOQueue(3, [tf.float32]).dequeue()
    session = tf.Session()
    seen: list[BaseException] = []
    thread = in_a_thread(session, item, seen)
    while not session._runtime._master._active:
        pass
    session.close()
    thread.join(10)
    assert len(seen) == 1 and "closed" in str(seen[0])


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_step_that_begins_while_its_session_closes(when: str, graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    item = tf.FIFOQueue(3, [tf.float32]).dequeue()
    session = tf.Session()
    worker = session._runtime._worker
    begin = worker.begin

    def begin_and_close(*args: Any) -> Any:
        if when == "before":
            session._runtime.close()
        begun = begin(*args)
        if when == "after":
            session._runtime.close()
        return begun

    monkeypatch.setattr(worker, "begin", begin_and_close)
    seen: list[BaseException] = []
    in_a_thread(session, item, seen).join(10)
    assert len(seen) == 1 and "closed" in str(seen[0])


def test_more_cpu_devices_than_one(graph: Any) -> None:
    with tf.device("/cpu:1"):
        v = tf.get_variable("v", initializer=2.0)
        doubled = v * 2
    with tf.device("/cpu:0"):
        y = doubled + tf.ones([])
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2}, graph_options={"build_cost_model": 1})) as session:
        names = [device.name for device in session.list_devices()]
        assert len({device.incarnation for device in session.list_devices()} - {0}) == len(names)
        assert [name.rpartition("/")[2] for name in names] == ["device:CPU:0", "device:CPU:1"]
        session.run(v.initializer)
        assert [session.run(y) for _ in range(3)] == [5.0] * 3
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="CPU:1"):
        session.run(v.initializer)
