"""Supervisor: a session that is initialized or restored, its queue runners, and a checkpoint now and then."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sparkflow.framework.graph import Graph, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import control_flow, lookup_initializers, variables
from sparkflow.session.session import Session
from sparkflow.summary import ops as summary_ops
from sparkflow.summary.writer import FileWriter
from sparkflow.train import training_util
from sparkflow.train.coordinator import Coordinator
from sparkflow.train.looper import LooperThread
from sparkflow.train.queue_runner import start_queue_runners
from sparkflow.train.readiness import variables_missing
from sparkflow.train.saver import Saver
from sparkflow.train.session_manager import SessionManager

USE_DEFAULT = object()


class Supervisor:
    """Looks after one training: what tf.train.MonitoredTrainingSession does, in the older way.

    The chief initializes (init_op, init_fn) or restores from logdir; others wait for that. While the managed session
    runs, a thread saves a checkpoint every save_model_secs and summaries every save_summaries_secs (0: never). None in
    place of an op or saver leaves it out.
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
        self._graph, self._is_chief, self._logdir, self._init_fn = (
            graph or get_default_graph(),
            is_chief,
            logdir,
            init_fn,
        )
        self._init_feed_dict, self._grace_s = init_feed_dict, stop_grace_secs
        self._save_s, self._summaries_s = save_model_secs, save_summaries_secs
        with self._graph.as_default():
            made: dict[str, Callable[[], Any]] = {
                "init_op": variables.global_variables_initializer,
                "local_init_op": lambda: control_flow.group(
                    variables.local_variables_initializer(), lookup_initializers.tables_initializer()
                ),
                "ready_op": variables_missing,
                "summary_op": summary_ops.merge_all,
                "saver": lambda: Saver() if variables.global_variables() else None,
                "global_step": training_util.get_global_step,
            }
            given = {
                "init_op": init_op, "local_init_op": local_init_op, "ready_op": ready_op, "summary_op": summary_op,
                "saver": saver, "global_step": global_step,
            }  # fmt: skip
            kept = {name: made[name]() if value is USE_DEFAULT else value for name, value in given.items()}
        self.init_op, self.summary_op, self.saver = kept["init_op"], kept["summary_op"], kept["saver"]
        self.global_step = kept["global_step"]
        self.save_path = os.path.join(logdir, checkpoint_basename) if logdir else None
        self._manager = session_manager or SessionManager(
            local_init_op=kept["local_init_op"], ready_op=kept["ready_op"], graph=self._graph,
            ready_for_local_init_op=None if ready_for_local_init_op is USE_DEFAULT else ready_for_local_init_op,
            recovery_wait_secs=recovery_wait_secs, local_init_run_options=local_init_run_options,
        )  # fmt: skip
        self.coord = Coordinator()
        writes = logdir and is_chief and summary_writer is USE_DEFAULT
        self.summary_writer = (
            FileWriter(str(logdir)) if writes else None if summary_writer is USE_DEFAULT else summary_writer
        )

    is_chief = property(lambda self: self._is_chief)
    session_manager = property(lambda self: self._manager)

    def prepare_or_wait_for_session(
        self, master: str = "", config: Any = None, wait_for_checkpoint: bool = False, max_wait_secs: float = 7200,
        start_standard_services: bool = True,
    ) -> Session:  # fmt: skip
        """A session whose variables are there: made by the chief, waited for by others."""
        self.coord.clear_stop()
        if not self._is_chief:
            session = self._manager.wait_for_session(master, config=config, max_wait_secs=max_wait_secs)
        else:
            session = self._manager.prepare_session(
                master, init_op=self.init_op, saver=self.saver, checkpoint_dir=self._logdir, config=config,
                wait_for_checkpoint=wait_for_checkpoint, max_wait_secs=max_wait_secs,
                init_feed_dict=self._init_feed_dict, init_fn=self._init_fn,
            )  # fmt: skip
            if self.summary_writer is not None:
                self.summary_writer.add_graph(self._graph)
            if start_standard_services:
                self.start_standard_services(session)
        self.start_queue_runners(session)
        return session

    def start_queue_runners(self, sess: Session, queue_runners: Sequence[Any] | None = None) -> list[Any]:
        """The threads of the queue runners (of the collection QUEUE_RUNNERS)."""
        if queue_runners is None:
            with self._graph.as_default():
                return list(start_queue_runners(sess=sess, coord=self.coord, collection=GraphKeys.QUEUE_RUNNERS))
        return [t for runner in queue_runners for t in runner.create_threads(sess, self.coord, daemon=True, start=True)]

    def start_standard_services(self, sess: Session) -> None:
        """The threads that save checkpoints and summaries."""
        if self._save_s and self.save_path and self.saver is not None:
            self.loop(self._save_s, self._save, (sess,))
        if self._summaries_s and self.summary_op is not None and self.summary_writer is not None:
            self.loop(self._summaries_s, self.summary_computed_now, (sess,))

    def _save(self, session: Session) -> None:
        self.saver.save(session, self.save_path, global_step=self.global_step)

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

    def stop(self, threads: Any = None, close_summary_writer: bool = True, ignore_live_threads: bool = False) -> None:
        """Stop the threads, and close the summary writer."""
        self.coord.request_stop()
        try:
            self.coord.join(threads, stop_grace_period_secs=self._grace_s, ignore_live_threads=ignore_live_threads)
        finally:
            if close_summary_writer and self.summary_writer is not None:
                self.summary_writer.close()

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
