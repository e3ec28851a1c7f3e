"""QueueRunner: threads that keep a queue filled."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.framework.graph import default_session, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.train.coordinator import Coordinator
from sparkflow.train.queue_runner_proto import QueueRunnerDef
from sparkflow_runtime.wire.errors import UNKNOWN, OpError, OutOfRangeError, error_class

_log = logging.getLogger("sparkflow")


class QueueRunner:
    """Runs each of `enqueue_ops` again and again in a thread of its own, until the data ends or a stop is asked for.

    close_op: run when the last of the threads has come to the end of its data (queue.close() by default).
    cancel_op: run when the coordinator stops (queue.close(cancel_pending_enqueues=True) by default).
    queue_closed_exception_types: the errors that mean the end of the data, OutOfRangeError by default.
    """

    def __init__(
        self,
        queue: Any = None,
        enqueue_ops: Sequence[Any] | None = None,
        close_op: Any = None,
        cancel_op: Any = None,
        queue_closed_exception_types: tuple[type[Exception], ...] | None = None,
        queue_runner_def: Any = None,
        import_scope: str | None = None,
    ):
        """queue_runner_def: of one whose nodes are in the graph already, under import_scope; then nothing else."""
        if queue_runner_def is not None:
            self._adopt(queue_runner_def, import_scope)
            return
        if queue is None or not enqueue_ops:
            raise ValueError(
                f"QueueRunner needs a queue and at least one enqueue op, got {queue!r} and {enqueue_ops!r}"
            )
        self._queue, self._enqueue_ops = queue, list(enqueue_ops)
        self._close_op = queue.close() if close_op is None else close_op
        self._cancel_op = queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
        self._closed_types = queue_closed_exception_types or (OutOfRangeError,)
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[Any, int] = {}  # session -> threads that have not come to the end
        self._exceptions: list[Exception] = []

    def _adopt(self, proto: Any, scope: str | None) -> None:
        """Become the one that a QueueRunnerDef describes."""
        graph, prefix = get_default_graph(), f"{scope}/" if scope else ""
        names = (*proto.enqueue_op_name, proto.close_op_name, proto.cancel_op_name)
        *self._enqueue_ops, self._close_op, self._cancel_op = (graph.as_graph_element(prefix + n) for n in names)
        self._queue = graph.as_graph_element(prefix + proto.queue_name)
        codes = proto.queue_closed_exception_types
        self._closed_types = tuple(map(error_class, codes)) or (OutOfRangeError,)
        self._begin()

    def to_proto(self, export_scope: str | None = None) -> Any:
        """A QueueRunnerDef, names without export_scope; None where its queue is not in that scope."""
        prefix = f"{export_scope}/" if export_scope else ""
        handle = getattr(self._queue, "queue_ref", None)
        queue = self._queue.name if handle is None else handle.op.name
        if not queue.startswith(prefix):
            return None
        made = QueueRunnerDef(
            queue_name=queue[len(prefix) :],
            enqueue_op_name=[op.name[len(prefix) :] for op in self._enqueue_ops],
            close_op_name=self._close_op.name[len(prefix) :],
            cancel_op_name=self._cancel_op.name[len(prefix) :],
        )
        made.queue_closed_exception_types.extend(getattr(kind, "code", UNKNOWN) for kind in self._closed_types)
        return made

    @staticmethod
    def from_proto(queue_runner_def: Any, import_scope: str | None = None) -> QueueRunner:
        """Of a QueueRunnerDef whose nodes are in the current graph."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)

    @property
    def queue(self) -> Any:
        return self._queue

    @property
    def name(self) -> str:
        return self._queue.name

    enqueue_ops = property(lambda self: self._enqueue_ops)
    close_op = property(lambda self: self._close_op)
    cancel_op = property(lambda self: self._cancel_op)
    queue_closed_exception_types = property(lambda self: self._closed_types)

    @property
    def exceptions_raised(self) -> list[Exception]:
        """The errors of threads that have no coordinator to report them to."""
        return self._exceptions

    def create_threads(
        self, sess: Any, coord: Coordinator | None = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """The threads of one session: one an enqueue op, and with a coordinator one that runs cancel_op at its stop.

        Empty where the session's threads run already. Raises nothing of the threads: their errors go to the
        coordinator, or to `exceptions_raised` without one.
        """
        with self._lock:
            if self._running.get(sess, 0):
                return []
            self._running[sess] = len(self._enqueue_ops)
        prefix = f"QueueRunnerThread-{self.name}"
        threads = [
            threading.Thread(target=self._run, args=(sess, op, coord), name=f"{prefix}-{op.name}")
            for op in self._enqueue_ops
        ]
        if coord is not None:
            threads.append(
                threading.Thread(target=self._cancel_on_stop, args=(sess, coord), name=f"{prefix}-close_on_stop")
            )
        for thread in threads:
            thread.daemon = daemon
            if coord is not None:
                coord.register_thread(thread)
            if start:
                thread.start()
        return threads

    def _run(self, sess: Any, enqueue_op: Any, coord: Coordinator | None) -> None:
        try:
            enqueue = self._prepared(sess, enqueue_op)
            while coord is None or not coord.should_stop():
                enqueue()
        except self._closed_types:
            self._ended(sess, self._close_op)
        except Exception as error:  # whatever it is, the program learns of it
            self._ended(sess, None)
            if coord is not None:
                coord.request_stop(error)
            else:
                _log.error("QueueRunner %s: %s", self.name, error)
                with self._lock:
                    self._exceptions.append(error)
        else:
            self._ended(sess, None)

    def _prepared(self, sess: Any, enqueue_op: Any) -> Callable[[], Any]:
        call: Callable[[], Any] = sess.make_callable(enqueue_op)
        return call

    def _ended(self, sess: Any, close_op: Any) -> None:
        """A thread is over; the last one closes the queue, if there is to be no more data."""
        with self._lock:
            self._running[sess] -= 1
            last = not self._running[sess]
            if last:
                del self._running[sess]
        if last and close_op is not None:
            _run_quietly(sess, close_op)

    def _cancel_on_stop(self, sess: Any, coord: Coordinator) -> None:
        coord.wait_for_stop()
        _run_quietly(sess, self._cancel_op)


def _run_quietly(sess: Any, op: Any) -> None:
    """Run a closing op; a queue that is closed, or a session that is gone, is as good."""
    try:
        sess.run(op)
    except (OpError, RuntimeError) as error:
        _log.debug("Closing by %s: %s", op.name, error)


def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """Have start_queue_runners start its threads."""
    get_default_graph().add_to_collection(collection, qr)


def start_queue_runners(
    sess: Any = None,
    coord: Coordinator | None = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = GraphKeys.QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Start the threads of all queue runners of the graph, in `sess` or the default session. Returns the threads.

    Raises ValueError where there is no session. A MonitoredSession has started them itself: nothing is left to do.
    """
    sess = default_session() if sess is None else sess
    if sess is None:
        raise ValueError(
            "Cannot start queue runners: no default session is registered. Use `with sess:` or pass sess explicitly"
        )
    if not hasattr(sess, "run"):
        raise TypeError(f"sess must be a `tf.Session` object. Given: {sess!r}")
    if not hasattr(sess, "make_callable"):
        return []
    runners = sess.graph.get_collection(collection)
    return [t for qr in runners for t in qr.create_threads(sess, coord=coord, daemon=daemon, start=start)]
