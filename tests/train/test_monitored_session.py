"""Monitored sessions: ready when they open, recovered when a task is lost, closed whatever happens."""

from __future__ import annotations

import re
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.train import monitored_session


class Steps(tf.train.SessionRunHook):
    """Notes what is called, and asks for `extra` in each run."""

    def __init__(self, extra: Any = None, feeds: Any = None):
        self.calls: list[str] = []
        self.results: list[Any] = []
        self._extra, self._feeds = extra, feeds

    def begin(self) -> None:
        self.calls.append("begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.calls.append("created")

    def before_run(self, run_context: Any) -> Any:
        self.calls.append("before")
        return tf.train.SessionRunArgs(self._extra, self._feeds) if self._extra is not None or self._feeds else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.calls.append("after")
        self.results.append(run_values.results)

    def end(self, session: Any) -> None:
        self.calls.append("end")


def counter() -> tuple[Any, Any]:
    step = tf.train.get_or_create_global_step()
    return step, tf.assign_add(step, 1)


def test_hooks_share_one_run(graph: Any) -> None:
    _, add = counter()
    x = tf.placeholder(tf.float32, [])
    y = x * 2.0
    hook, plain = Steps({"double": y}, {x: 3.0}), Steps()
    with tf.train.MonitoredSession(hooks=[hook, plain]) as session:
        assert session.run(add) == 1
        assert session.run([add, y])[1] == 6
    assert hook.calls == plain.calls == ["begin", "created", "before", "after", "before", "after", "end"]
    assert hook.results == [{"double": 6}, {"double": 6}] and plain.results == [None, None]
    assert not graph.finalized and session.graph is None
    with pytest.raises(RuntimeError, match="closed"):
        session.run(add)
    assert session.should_stop()


def test_two_feeds_of_one_tensor_are_refused(graph: Any) -> None:
    counter()
    x = tf.placeholder(tf.float32, [])
    hook, text = Steps(None, {x: 1.0}), "fed by two hooks, or by a hook and the caller"
    with tf.train.MonitoredSession(hooks=[hook]) as session, pytest.raises(RuntimeError, match=text):
        session.run(x, {x: 2.0})


def test_the_graph_is_final_inside(graph: Any) -> None:
    counter()
    with tf.train.MonitoredSession(), pytest.raises(RuntimeError, match="finalized"):
        tf.constant(1)


@pytest.mark.parametrize("error", [tf.errors.OutOfRangeError("end of data"), StopIteration()])
def test_the_end_of_the_data_is_quiet(graph: Any, error: Exception) -> None:
    counter()
    hook = Steps()
    with tf.train.MonitoredSession(hooks=[hook]):
        raise error
    assert hook.calls[-1] == "end"


def test_other_errors_come_out_and_skip_end(graph: Any) -> None:
    _, add = counter()
    hook = Steps()
    with pytest.raises(ValueError, match="mine"), tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(add)
        raise ValueError("mine")
    assert "end" not in hook.calls


def test_the_end_of_a_queue_ends_the_loop(graph: Any) -> None:
    _, add = counter()
    queue = tf.FIFOQueue(4, tf.int32, shapes=[[]])
    numbers = tf.train.QueueRunner(queue, [queue.enqueue(tf.to_int32(limited()))])
    tf.train.add_queue_runner(numbers)
    batch, seen = queue.dequeue(), []
    with tf.train.MonitoredTrainingSession() as session:
        while not session.should_stop():
            seen.append(session.run([batch, add])[0])
    assert seen == [0, 1, 2]


def limited() -> Any:
    """0, 1, 2 and then OutOfRangeError, as a reader gives it."""
    source = tf.FIFOQueue(5, tf.float32, shapes=[[]])
    fill, shut = source.enqueue_many([np.arange(3, dtype=np.float32)]), source.close()
    with tf.control_dependencies([fill]):
        shut_after = tf.group(shut)
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, shut_after)
    return source.dequeue()


def test_a_queue_runners_error_comes_out(graph: Any) -> None:
    _, add = counter()
    queue, x = tf.FIFOQueue(4, tf.float32, shapes=[[]]), tf.placeholder(tf.float32, [])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(x)]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"[Pp]laceholder"), tf.train.MonitoredSession() as session:
        while not session.should_stop():
            session.run(add)


def test_a_lost_task_makes_a_new_session(graph: Any) -> None:
    step, add = counter()

    class Breaks(Steps):
        def before_run(self, run_context: Any) -> None:
            self.calls.append("before")
            if self.calls.count("before") in (2, 3):
                raise tf.errors.AbortedError("worker 1 went away")

    hook = Breaks()
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        assert [session.run(add), session.run(add), session.run(step)] == [1, 1, 1]
    assert hook.calls.count("created") == 3 and hook.calls.count("begin") == 1


def test_a_step_function_runs_with_and_without_hooks(graph: Any) -> None:
    _, add = counter()
    hook = Steps()
    losses: list[int] = []

    class Trainer:
        def step(self, step_context: Any) -> float:
            step_context.session.run(add)
            losses.append(1)
            if len(losses) == 2:
                raise tf.errors.AbortedError("gone")
            value = step_context.run_with_hooks(add)
            if value >= 4:
                step_context.request_stop()
            return float(value)

    found = []
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        while not session.should_stop():
            found.append(session.run_step_fn(Trainer().step))
    assert found == [2.0, 2.0] and len(losses) == 4  # the variable began anew with the session
    assert hook.calls.count("before") == 3 and hook.calls[-1] == "end"


def test_a_step_function_has_one_argument_of_one_name(graph: Any) -> None:
    counter()
    with tf.train.MonitoredSession() as session:
        for wrong in (lambda: 1, lambda context: 1, lambda step_context, x: 1):
            with pytest.raises(ValueError, match="step_context"):
                session.run_step_fn(wrong)


def losing_tokens() -> tuple[list[int], Any]:
    """(one a call, a token of a queue that is filled after a task was lost at the first call)."""
    calls: list[int] = []

    def fill() -> np.int32:
        calls.append(1)
        if len(calls) == 1:
            raise tf.errors.AbortedError("gone")
        return np.int32(len(calls))

    tokens, nothing = tf.FIFOQueue(1, tf.int32, shapes=[()]), tf.FIFOQueue(1, tf.int32, shapes=[()])
    bring = tokens.enqueue(tf.py_func(fill, [], tf.int32))
    tf.train.add_queue_runner(tf.train.QueueRunner(nothing, [bring]))
    return calls, tokens.dequeue()


def test_a_run_that_waits_for_a_queue_runner_that_lost_a_task_is_ended(graph: Any) -> None:
    """Its own queue is another one, as a synchronous chief's is: nothing but the loss ends the wait."""
    calls, token = losing_tokens()
    with tf.train.MonitoredTrainingSession() as session:
        assert session.run(token) == 2
    assert len(calls) >= 2


def test_a_hook_that_waits_for_a_queue_runner_that_lost_a_task_is_called_again(graph: Any) -> None:
    _, token = losing_tokens()

    class Waits(tf.train.SessionRunHook):
        calls = 0

        def after_create_session(self, session: Any, coord: Any) -> None:
            self.calls += 1
            self.token = session.run(token)

    hook, nothing = Waits(), tf.no_op()
    with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
        session.run(nothing)
    assert hook.calls == 2 and hook.token == 2


def test_without_recovery_the_loss_is_raised(graph: Any) -> None:
    _, token = losing_tokens()
    with pytest.raises(tf.errors.AbortedError, match="gone"), tf.train.SingularMonitoredSession() as session:
        session.run(token)


def test_a_singular_session_does_not_recover(graph: Any) -> None:
    _, add = counter()

    class Breaks(tf.train.SessionRunHook):
        def before_run(self, run_context: Any) -> None:
            raise tf.errors.AbortedError("gone")

    with pytest.raises(tf.errors.AbortedError, match="gone"), tf.train.SingularMonitoredSession([Breaks()]) as session:
        assert session.raw_session().run(add) == 1
        session.run(add)


def test_a_failed_opening_leaves_nothing_open(graph: Any) -> None:
    counter()

    class Breaks(tf.train.SessionRunHook):
        def after_create_session(self, session: Any, coord: Any) -> None:
            self.session = session
            raise ValueError("mine")

    hook = Breaks()
    with pytest.raises(ValueError, match="mine"):
        tf.train.MonitoredSession(hooks=[hook])
    with pytest.raises(RuntimeError, match="closed"):
        hook.session.run([])


def test_a_task_that_stays_away_is_warned_of(graph: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """Now and then: what is told at each try nobody sees, at the usual level."""
    monkeypatch.setattr(monitored_session, "_FIRST_WORD_S", 0.2)
    now_s = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now_s[0], sleep=lambda wait_s: now_s.append(now_s.pop() + wait_s))
    monkeypatch.setattr(monitored_session, "time", clock)
    counter()
    left = [5]

    class Breaks(tf.train.SessionRunHook):
        def after_create_session(self, session: Any, coord: Any) -> None:
            left[0] -= 1
            if left[0]:
                raise tf.errors.UnavailableError(None, None, "task 2 has ended")

    with caplog.at_level("INFO", "sparkflow"), tf.train.MonitoredSession(hooks=[Breaks()]):
        told = [r for r in caplog.records if "task 2 has ended" in r.message]
    assert [r.levelname for r in told] == ["INFO", "INFO", "INFO", "WARNING"]  # at 0, 0.05, 0.15 and 0.35 s
    assert re.search(r"\(0 s\) while the session is made; trying again: task 2 has ended", told[0].message)


# ---------------------------------------------------------------------- making ready


def test_scaffold_initializes_all(graph: Any) -> None:
    counter()
    w = tf.Variable([1.0, 2.0])
    local = tf.Variable(5, collections=[tf.GraphKeys.LOCAL_VARIABLES], trainable=False)
    seen = []
    double = tf.assign(w, w * 2.0)
    scaffold = tf.train.Scaffold(init_fn=lambda scaffold, session: seen.append(session.run(double).tolist()))
    with tf.train.MonitoredTrainingSession(scaffold=scaffold) as session:
        assert session.run([w, local])[1] == 5
        assert session.run(w).tolist() == [2, 4]
    assert seen == [[2, 4]]


def test_an_init_op_that_forgets_variables_is_named(graph: Any) -> None:
    a, _ = tf.Variable(1.0, name="a"), tf.Variable(1.0, name="forgotten")
    scaffold = tf.train.Scaffold(init_op=a.initializer, saver=tf.train.Saver())
    with pytest.raises(RuntimeError, match=r"did not make model ready.* Variables not initialized: forgotten"):
        tf.train.MonitoredTrainingSession(scaffold=scaffold)


@pytest.fixture
def server() -> Any:
    server = tf.train.Server.create_local_server()
    yield server
    server.stop()


def test_a_worker_waits_for_the_chief(server: Any) -> None:
    opened = []

    def work(is_chief: bool) -> None:
        with tf.Graph().as_default():
            step, _ = counter()
            tf.Variable(3.0, name="w")
            with tf.train.MonitoredTrainingSession(server.target, is_chief) as session:
                opened.append((is_chief, time.monotonic()))
                session.run(step)

    worker = threading.Thread(target=work, args=(False,))
    worker.start()
    time.sleep(0.3)
    assert not opened
    work(True)
    worker.join(10)
    assert sorted(chief for chief, _ in opened) == [False, True]  # once there are values the worker may be the first
    assert abs(opened[1][1] - opened[0][1]) < 5


def test_a_worker_without_a_chief_says_what_is_missing(server: Any, graph: Any) -> None:
    tf.train.get_or_create_global_step()
    tf.Variable(3.0, name="w")
    with pytest.raises(tf.errors.DeadlineExceededError, match=r"waiting 0.2 secs.*not initialized: global_step, w"):
        tf.train.MonitoredTrainingSession(server.target, is_chief=False, max_wait_secs=0.2)


def test_checkpoints_are_restored(graph: Any, tmp_path: Any) -> None:
    _, add = counter()
    for want in (2, 4):
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), save_checkpoint_steps=1) as session:
            session.run(add)
            assert session.run(add) == want
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-4")


def test_the_checkpoints_of_an_earlier_process_are_removed_in_turn(tmp_path: Any) -> None:
    """Else each restart of a job would leave some behind for ever, and the state file would forget them."""
    for begun in range(4):
        with tf.Graph().as_default():
            _, add = counter()
            scaffold = tf.train.Scaffold(saver=tf.train.Saver(max_to_keep=2))
            creator = tf.train.ChiefSessionCreator(scaffold, checkpoint_dir=str(tmp_path))
            hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=1, scaffold=scaffold)
            with tf.train.MonitoredSession(creator, [hook]) as session:
                assert session.run(add) == begun + 1
    kept = [str(tmp_path / f"model.ckpt-{step}") for step in (3, 4)]
    assert tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths == kept
    assert sorted(str(p.with_suffix("")) for p in tmp_path.glob("*.index")) == kept


def test_a_newest_checkpoint_that_is_gone_is_no_fresh_start(graph: Any, tmp_path: Any) -> None:
    counter()
    tf.train.update_checkpoint_state(str(tmp_path), str(tmp_path / "model.ckpt-7"))
    with pytest.raises(ValueError, match=r"not a valid checkpoint: .*model\.ckpt-7"):
        tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path))


def test_closing_does_not_wait_for_a_thread_that_waits_for_ever(graph: Any) -> None:
    _, add = counter()
    queue = tf.FIFOQueue(4, tf.float32, shapes=[[]])
    never = tf.train.QueueRunner(queue, [queue.dequeue().op], cancel_op=tf.no_op())
    tf.train.add_queue_runner(never)
    with tf.train.MonitoredSession() as session:
        session.run(add)
        begun = time.monotonic()
    assert time.monotonic() - begun < 15
    assert not [t for t in threading.enumerate() if t.name.startswith("QueueRunnerThread")]


def test_libraries_ask_for_the_session_inside(graph: Any) -> None:
    tf.Variable(1.0)
    with tf.train.SingularMonitoredSession() as session:
        assert session._tf_sess() is session.raw_session()
    assert session._tf_sess() is None


def test_what_creates_sessions_is_a_session_creator() -> None:
    """By the base class, or by having what it asks for."""

    class Own(tf.train.SessionCreator):
        def create_session(self) -> tf.Session:
            return tf.Session()

    for creator in (Own(), tf.train.ChiefSessionCreator(), tf.train.WorkerSessionCreator()):
        assert isinstance(creator, tf.train.SessionCreator)
    assert not isinstance(tf.train.Scaffold(), tf.train.SessionCreator)
