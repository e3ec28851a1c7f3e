"""Supervisor: a session that is initialized or restored, its queue runners, and a checkpoint now and then."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tensorboard.compat.proto.event_pb2 import SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary

from sparkflow.framework.graph import Graph, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import control_flow, lookup_initializers, variables
from sparkflow.session.session import Session
from sparkflow.summary import ops as summary_ops
from sparkflow.summary.writer import FileWriter
from sparkflow.train import training_util
from sparkflow.train.coordinator import Coordinator
from sparkflow.train.graph_files import write_graph
from sparkflow.train.looper import LooperThread
from sparkflow.train.queue_runner import start_queue_runners
from sparkflow.train.readiness import variables_missing
from sparkflow.train.saver import Saver
from sparkflow.train.session_manager import SessionManager

USE_DEFAULT = object()
_log = logging.getLogger(__name__)


class Supervisor:
    """Looks after one training: what tf.train.MonitoredTrainingSession does, in the older way.

    The chief initializes (init_op, init_fn) or restores from logdir; others wait for that. While the managed session
    runs, threads of the chief save a checkpoint every save_model_secs, and every save_summaries_secs the summaries and
    the steps a second (0: never). None in place of an op or saver leaves it out; what is not given is the first of the
    graph's collection for it (READY_OP, INIT_OP, SAVERS, ...), or made. The graph is final from then on.
    Raises ValueError where this is not the chief and a variable has no device.
    """

    USE_DEFAULT = USE_DEFAULT

    def __init__(
        self, graph: Graph | None = None, ready_op: Any = USE_DEFAULT, ready_for_local_init_op: Any = USE_DEFAULT,
        is_chief: bool = True, init_op: Any = USE_DEFAULT, init_feed_dict: Any = None,
        local_init_op: Any = USE_DEFAULT, logdir: str | None = None,
        summary_op: Any = USE_DEFAULT, saver: Any = USE_DEFAULT, global_step: Any = USE_DEFAULT,
        save_summaries_secs: float = 120, save_model_secs: float = 600, recovery_wait_secs: float = 30,
        stop_grace_secs: float = 120, checkpoint_basename: str = "model.ckpt", session_manager: Any = None,
        summary_writer: Any = USE_DEFAULT, init_fn: Callable[[Session], None] | None = None,
        local_init_run_options: Any = None,
    ):  # fmt: skip
        self._graph, self._is_chief, self._init_fn = graph or get_default_graph(), is_chief, init_fn
        self.init_feed_dict, self._grace_s = init_feed_dict, stop_grace_secs
        with self._graph.as_default():
            kept = _made({
                "init_op": init_op, "local_init_op": local_init_op, "ready_op": ready_op, "summary_op": summary_op,
                "saver": saver, "global_step": global_step, "ready_for_local_init_op": ready_for_local_init_op,
            })  # fmt: skip
        self.init_op, self.summary_op, self.saver = kept["init_op"], kept["summary_op"], kept["saver"]
        self.ready_op, self.ready_for_local_init_op = kept["ready_op"], kept["ready_for_local_init_op"]
        self.global_step = kept["global_step"]
        self._manager = session_manager or SessionManager(
            local_init_op=kept["local_init_op"], ready_op=self.ready_op, graph=self._graph,
            ready_for_local_init_op=self.ready_for_local_init_op, recovery_wait_secs=recovery_wait_secs,
            local_init_run_options=local_init_run_options,
        )  # fmt: skip
        self.coord = Coordinator()
        self._logdir = logdir if is_chief else None  # others write nothing
        self.save_summaries_secs = save_summaries_secs if is_chief else None
        self.save_model_secs = save_model_secs if is_chief else None
        self.save_path = os.path.join(self._logdir, checkpoint_basename) if self._logdir else None
        self.summary_writer: Any = None
        if is_chief and summary_writer is USE_DEFAULT:
            self.summary_writer = FileWriter(self._logdir) if self._logdir else None
        elif is_chief:
            self.summary_writer = summary_writer
        self._wrote_graph = False
        if not is_chief:
            _check_devices(self._graph)
        self._graph.finalize()

    is_chief = property(lambda self: self._is_chief)
    session_manager = property(lambda self: self._manager)

    def prepare_or_wait_for_session(
        self, master: str = "", config: Any = None, wait_for_checkpoint: bool = False, max_wait_secs: float = 7200,
        start_standard_services: bool = True,
    ) -> Session:  # fmt: skip
        """A session whose variables are there: made by the chief, waited for by others."""
        self.coord.clear_stop()
        if self.summary_writer is not None:
            self.summary_writer.reopen()
        if not self._is_chief:
            session = self._manager.wait_for_session(master, config=config, max_wait_secs=max_wait_secs)
        else:
            session = self._manager.prepare_session(
                master, init_op=self.init_op, saver=self.saver, checkpoint_dir=self._logdir, config=config,
                wait_for_checkpoint=wait_for_checkpoint, max_wait_secs=max_wait_secs,
                init_feed_dict=self.init_feed_dict, init_fn=self._init_fn,
            )  # fmt: skip
            self._write_graph()
            if start_standard_services:
                self.start_standard_services(session)
        if start_standard_services:
            self.start_queue_runners(session)
        return session

    def _write_graph(self) -> None:
        if self._logdir:
            write_graph(self._graph.as_graph_def(add_shapes=True), self._logdir, "graph.pbtxt")
        if self.summary_writer is not None and not self._wrote_graph:
            self.summary_writer.add_graph(self._graph)
            self._wrote_graph = True

    def start_queue_runners(self, sess: Session, queue_runners: Sequence[Any] | None = None) -> list[Any]:
        """The threads of the queue runners (of the collection QUEUE_RUNNERS)."""
        if queue_runners is None:
            with self._graph.as_default():
                return list(start_queue_runners(sess=sess, coord=self.coord, collection=GraphKeys.QUEUE_RUNNERS))
        return [t for runner in queue_runners for t in runner.create_threads(sess, self.coord, daemon=True, start=True)]

    def start_standard_services(self, sess: Session) -> list[threading.Thread]:
        """The threads that save checkpoints and summaries and count steps, started. Without a logdir there are none.
        Raises RuntimeError where this is not the chief, which alone writes."""
        if not self._is_chief:
            raise RuntimeError("Only chief supervisor can start standard services: only it may write events.")
        if not self._logdir:
            _log.warning("Standard services need a logdir: neither checkpoints nor summaries will be written")
            return []
        threads: list[threading.Thread] = []
        if self.summary_writer is not None and self.global_step is not None:
            self._add_session_log(sess, SessionLog(status=SessionLog.START))
        if self.save_summaries_secs and self.summary_writer is not None:
            if self.summary_op is not None:
                threads.append(self.loop(self.save_summaries_secs, self.summary_computed_now, (sess,)))
            if self.global_step is not None:
                threads.append(_StepCounter(self, sess))
                threads[-1].start()
        if self.save_model_secs and self.saver is not None:
            threads.append(self.loop(self.save_model_secs, self._save, (sess,)))
        return threads

    def _save(self, session: Session) -> None:
        """With its line in the log, whose step is found ahead: once the files are there the session may be closed."""
        step = None if self.global_step is None else training_util.global_step(session, self.global_step)
        self.saver.save(session, self.save_path, global_step=self.global_step)
        if self.summary_writer is not None and step is not None:
            log = SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=str(self.save_path))
            self.summary_writer.add_session_log(log, step)

    def _add_session_log(self, session: Session, log: SessionLog) -> None:
        self.summary_writer.add_session_log(log, training_util.global_step(session, self.global_step))

    def summary_computed_now(self, session: Session) -> None:
        """Compute the summaries and write them."""
        self.summary_computed(session, session.run(self.summary_op))

    def summary_computed(self, sess: Session, summary: Any, global_step: Any = None) -> None:
        """Write a summary, of the step that the session is at. Raises RuntimeError where there is no writer."""
        if self.summary_writer is None:
            raise RuntimeError("Writing a summary requires a summary writer.")
        if global_step is None and self.global_step is not None:
            global_step = training_util.global_step(sess, self.global_step)
        self.summary_writer.add_summary(summary, global_step)

    def loop(
        self,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Any = None,
    ) -> threading.Thread:
        """A thread that calls target now and every so many seconds until training stops."""
        return LooperThread.loop(self.coord, timer_interval_secs, target, args, kwargs)

    def should_stop(self) -> bool:
        return self.coord.should_stop()

    def request_stop(self, ex: Any = None) -> None:
        self.coord.request_stop(ex)

    def stop_on_exception(self) -> Any:
        return self.coord.stop_on_exception()

    def wait_for_stop(self) -> None:
        self.coord.wait_for_stop()

    def stop(self, threads: Any = None, close_summary_writer: bool = True, ignore_live_threads: bool = False) -> None:
        """Stop the threads, and close the summary writer."""
        self.coord.request_stop()
        try:
            self.coord.join(threads, stop_grace_period_secs=self._grace_s, ignore_live_threads=ignore_live_threads)
        finally:
            if close_summary_writer and self.summary_writer is not None:
                self.summary_writer.add_session_log(SessionLog(status=SessionLog.STOP))
                self.summary_writer.close()
                self._wrote_graph = False

    @contextmanager
    def managed_session(
        self, master: str = "", config: Any = None, start_standard_services: bool = True,
        close_summary_writer: bool = True,
    ) -> Iterator[Session]:  # fmt: skip
        """The session, for a `with` block; an exception stops the threads and is raised at the end of it."""
        session = None
        try:
            session = self.prepare_or_wait_for_session(master, config, start_standard_services=start_standard_services)
            yield session
        except Exception as error:
            self.coord.request_stop(error)
        finally:
            try:
                self.coord.request_stop()
                if session is not None:
                    session.close()
            finally:
                self.stop(close_summary_writer=close_summary_writer, ignore_live_threads=True)

    # TensorFlow's older spelling
    PrepareSession, StartQueueRunners, StartStandardServices = (
        prepare_or_wait_for_session, start_queue_runners, start_standard_services,
    )  # fmt: skip
    Loop, ShouldStop, RequestStop, Stop, StopOnException = loop, should_stop, request_stop, stop, stop_on_exception
    SummaryComputed, WaitForStop = summary_computed, wait_for_stop


class _StepCounter(LooperThread):
    """Writes the steps a second since its last turn."""

    def __init__(self, supervisor: Supervisor, session: Session):
        super().__init__(supervisor.coord, supervisor.save_summaries_secs)
        self._supervisor, self._session = supervisor, session
        self._tag = f"{supervisor.global_step.op.name}/sec"

    def _now(self) -> tuple[float, int]:
        return time.monotonic(), training_util.global_step(self._session, self._supervisor.global_step)

    def start_loop(self) -> None:
        self._last = self._now()

    def run_loop(self) -> None:
        (before_s, before), self._last = self._last, self._now()
        passed_s, steps = self._last[0] - before_s, self._last[1] - before
        value = Summary.Value(tag=self._tag, simple_value=steps / passed_s if passed_s > 0 else float("inf"))
        self._supervisor.summary_writer.add_summary(Summary(value=[value]), self._last[1])


def _made(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given; for USE_DEFAULT the first of its collection in the default graph, or a new one."""
    keys = GraphKeys
    defaults: dict[str, tuple[str, Callable[[], Any]]] = {
        "init_op": (keys.INIT_OP, variables.global_variables_initializer),
        "local_init_op": (keys.LOCAL_INIT_OP, _local_init),
        "ready_op": (keys.READY_OP, variables_missing),
        "ready_for_local_init_op": (keys.READY_FOR_LOCAL_INIT_OP, lambda: None),
        "summary_op": (keys.SUMMARY_OP, summary_ops.merge_all),
        "saver": (keys.SAVERS, lambda: Saver() if variables.global_variables() else None),
        "global_step": (keys.GLOBAL_STEP, training_util.get_global_step),
    }

    def made(key: str, make: Callable[[], Any]) -> Any:
        held = get_default_graph().get_collection_ref(key)
        if not held and (new := make()) is not None:
            held.append(new)  # for the next one on this graph, which is final then
        return held[0] if held else None

    return {name: made(*defaults[name]) if value is USE_DEFAULT else value for name, value in given.items()}


def _check_devices(graph: Graph) -> None:
    """A variable without a device would be this task's own, for which no chief does anything."""
    for op in graph.get_operations():
        if op.type in ("Variable", "VariableV2") and not op.device:
            raise ValueError(
                f"When using replicas, all Variables must have their device set: {op.name!r} has none. Build the graph "
                "within tf.device(tf.train.replica_device_setter(...))"
            )


def _local_init() -> Any:
    return control_flow.group(variables.local_variables_initializer(), lookup_initializers.tables_initializer())
