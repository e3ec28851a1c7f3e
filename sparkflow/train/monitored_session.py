"""MonitoredSession: a session that initializes or restores itself, calls hooks around each run, and recovers."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any, Protocol, runtime_checkable

from sparkflow.framework.graph import Graph, get_default_graph
from sparkflow.session.session import Session
from sparkflow.train import hooks as train_hooks
from sparkflow.train.coordinator import Coordinator
from sparkflow.train.hooked_session import HookedSession
from sparkflow.train.queue_runner import start_queue_runners
from sparkflow.train.scaffold import Scaffold
from sparkflow.train.session_manager import SessionManager
from sparkflow.train.session_run_hook import SessionRunHook
from sparkflow_runtime.wire.errors import AbortedError, OutOfRangeError, UnavailableError

_RECOVERABLE = (AbortedError, UnavailableError)  # a task went away: another session may find it back
_RECOVERY_S, _FIRST_WAIT_S, _LONGEST_WAIT_S = 7200.0, 0.05, 5.0
_FIRST_WORD_S = 10.0  # after so long a task that is away is warned of, and each time again after twice as long
_QUICK_JOIN_S = 0.25
_log = logging.getLogger("sparkflow")


@runtime_checkable
class SessionCreator(Protocol):
    """Opens the session that a MonitoredSession wraps; called again at each recovery."""

    def create_session(self) -> Session: ...


class ChiefSessionCreator:
    """Restores the newest checkpoint, or initializes the model."""

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
    ):
        self._scaffold = scaffold or Scaffold()
        self._master, self._config = master, config
        self._dir, self._path = checkpoint_dir, checkpoint_filename_with_path

    def create_session(self) -> Session:
        scaffold = self._scaffold.finalize()
        return _manager(scaffold).prepare_session(
            self._master,
            saver=scaffold.saver,
            checkpoint_dir=self._dir,
            checkpoint_filename_with_path=self._path,
            config=self._config,
            init_op=scaffold.init_op,
            init_feed_dict=scaffold.init_feed_dict,
            init_fn=scaffold.init_fn,
        )


class WorkerSessionCreator:
    """Waits until the chief has made the model ready."""

    def __init__(
        self, scaffold: Scaffold | None = None, master: str = "", config: Any = None, max_wait_secs: float = 30 * 60
    ):
        self._scaffold = scaffold or Scaffold()
        self._master, self._config, self._max_wait_secs = master, config, max_wait_secs

    def create_session(self) -> Session:
        manager = _manager(self._scaffold.finalize())
        return manager.wait_for_session(self._master, config=self._config, max_wait_secs=self._max_wait_secs)


def _manager(scaffold: Scaffold) -> SessionManager:
    return SessionManager(
        local_init_op=scaffold.local_init_op,
        local_init_feed_dict=scaffold.local_init_feed_dict,
        ready_op=scaffold.ready_op,
        ready_for_local_init_op=scaffold.ready_for_local_init_op,
        graph=get_default_graph(),
    )


# ---------------------------------------------------------------------- one session


class _HookedRuns:
    """A session, its coordinator and queue runners, and the hooks around each run. Lives until the session is lost."""

    def __init__(self, creator: SessionCreator, hooks: Sequence[SessionRunHook], grace_s: float):
        self.session = creator.create_session()
        self._grace_s = grace_s
        self._coord = Coordinator(clean_stop_exception_types=())
        self._hooked = HookedSession(self.session, hooks)
        try:
            if start_queue_runners(self.session, self._coord):
                Thread(target=self._end_if_lost, name="sparkflow-lost-task", daemon=True).start()
            for hook in hooks:
                hook.after_create_session(self.session, self._coord)
        except BaseException as error:
            self._coord.request_stop()
            self.session.close()
            self._raise_loss(error)
            raise

    def _end_if_lost(self) -> None:
        """When a queue runner has lost a task, the run of the caller may wait for what only that runner would bring,
        as a synchronous chief's does for tokens: closing the session ends it."""
        self._coord.wait_for_stop()
        try:
            self._coord.raise_requested_exception()
        except _RECOVERABLE:
            self.session.close()
        except BaseException as error:
            _log.debug("A queue runner has failed: %s", error)

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        try:
            return self._run(fetches, feed_dict, options, run_metadata)
        except Exception as error:
            self._raise_loss(error)
            raise

    def _raise_loss(self, error: BaseException) -> None:
        """A queue runner that lost its task closes its queue, or the session, and a run sees only that: where `error`
        came of it, the loss is what counts."""
        if isinstance(error, _RECOVERABLE):
            return
        try:
            self._coord.raise_requested_exception()
        except _RECOVERABLE:
            raise
        except Exception as cause:
            _log.debug("A queue runner had failed before: %s", cause)

    def _run(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Any:
        if self.should_stop():
            raise RuntimeError("Run called even after should_stop requested.")
        return self._hooked.run(fetches, feed_dict, options, run_metadata)

    def should_stop(self) -> bool:
        """Raises the error of a queue runner's thread, if one has failed."""
        self._coord.raise_requested_exception()
        return self._hooked.should_stop() or self._coord.should_stop()

    def close(self) -> None:
        """Stop the threads, then the session. Raises the error of a thread, if one has failed."""
        self._coord.request_stop()
        # A thread may sit in a run that nothing will complete any more, such as the chief's wait for gradients of
        # workers that have ended: after a moment for those that end by themselves, closing the session cancels their
        # runs.
        self._coord.wait_for_threads(min(self._grace_s, _QUICK_JOIN_S))
        self.session.close()
        self._coord.join(stop_grace_period_secs=self._grace_s, ignore_live_threads=True)


# ---------------------------------------------------------------------- the session that users hold


class StepContext:
    """What a step function may use: `session`, and `run_with_hooks` of the same arguments as Session.run."""

    def __init__(self, session: Session, run_with_hooks: Callable[..., Any]):
        self.session, self.run_with_hooks = session, run_with_hooks

    def request_stop(self) -> None:
        """Raises StopIteration, which leaves the loop and ends the session's block quietly."""
        raise StopIteration("step_fn has requested the iterations to stop.")


class _MonitoredSession:
    """What MonitoredSession and SingularMonitoredSession share."""

    def __init__(
        self, creator: SessionCreator, hooks: Sequence[SessionRunHook] | None, should_recover: bool, grace_s: float
    ):
        self._creator, self._hooks = creator, train_hooks.checked(hooks)
        self._recovers, self._grace_s = should_recover, grace_s
        self._graph = get_default_graph()
        self._was_final = self._graph.finalized
        self._closed = False
        for hook in self._hooks:
            hook.begin()
        self._runs: _HookedRuns | None = None
        self._runs = self._open()

    def _open(self) -> _HookedRuns:
        """A new session. A task that is away is waited for, unless errors are not to be recovered from."""
        begun, wait_s, word_s = time.monotonic(), _FIRST_WAIT_S, _FIRST_WORD_S
        while True:
            try:
                return _HookedRuns(self._creator, self._hooks, self._grace_s)
            except _RECOVERABLE as error:
                away_s = time.monotonic() - begun
                if not self._recovers or away_s + wait_s > _RECOVERY_S:
                    raise
                told = away_s >= word_s
                word_s *= 2 if told else 1
                level = logging.WARNING if told else logging.INFO
                _log.log(level, "A task is away (%.0f s) while the session is made; trying again: %s", away_s, error)
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    @property
    def graph(self) -> Graph | None:
        return None if self._closed else self._graph

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """As Session.run, with the hooks around it; run again in a new session when a task went away meanwhile."""
        return self._recovering(lambda runs: runs.run(fetches, feed_dict, options, run_metadata))

    def _recovering(self, step: Callable[[_HookedRuns], Any]) -> Any:
        self._check_open()
        while True:
            try:
                if self._runs is None:
                    self._runs = self._open()
                return step(self._runs)
            except _RECOVERABLE as error:
                if not self._recovers:
                    raise
                self._lose(error)

    def run_step_fn(self, step_fn: Callable[..., Any]) -> Any:
        """What step_fn(step_context) returns, a function (or method) whose one argument is called step_context: its
        `session` runs without the hooks, `run_with_hooks` with them, `request_stop()` ends the loop by StopIteration.
        Called again in a new session when a task went away meanwhile. Raises ValueError on other arguments."""
        arguments = tuple(inspect.signature(step_fn).parameters)
        if arguments != ("step_context",):
            raise ValueError(f"run_step_fn: step_fn must have one argument, `step_context`, got {arguments}")
        return self._recovering(lambda runs: step_fn(StepContext(runs.session, runs.run)))

    def _tf_sess(self) -> Session | None:
        """The Session of now, None while there is none; libraries ask for it by this name."""
        return None if self._runs is None else self._runs.session

    def _lose(self, error: Exception) -> None:
        _log.warning("A task went away; the session is made anew: %s", error)
        lost, self._runs = self._runs, None
        if lost is not None:
            try:
                lost.close()
            except _RECOVERABLE as again:
                _log.debug("Closing the lost session: %s", again)

    def should_stop(self) -> bool:
        """True when a hook, the end of the data or close() has ended training. Raises the error of a queue runner."""
        if self._closed:
            return True
        if self._runs is None:
            return False
        try:
            return self._runs.should_stop()
        except _RECOVERABLE as error:
            if not self._recovers:
                raise
            self._lose(error)
            return False

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("This MonitoredSession is closed")

    def close(self) -> None:
        """Call the hooks' end, stop the threads, close the session."""
        self._close(None)

    def _close(self, error_type: type[BaseException] | None) -> None:
        self._check_open()
        try:
            if error_type is None and self._runs is not None:
                for hook in self._hooks:
                    hook.end(self._runs.session)
        finally:
            runs, self._runs, self._closed = self._runs, None, True
            try:
                if runs is not None:
                    runs.close()
            finally:
                if not self._was_final:
                    self._graph._unsafe_unfinalize()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: Any, traceback: Any) -> bool:
        """The end of the data ends the block quietly."""
        if error_type is not None and issubclass(error_type, (OutOfRangeError, StopIteration)):
            error_type = None
        self._close(error_type)
        return error_type is None


class MonitoredSession(_MonitoredSession):
    """A session with hooks that recovers when a task went away: AbortedError and UnavailableError make a new one.

    session_creator: ChiefSessionCreator() by default. stop_grace_period_secs: how long threads may take to stop.
    """

    def __init__(
        self,
        session_creator: SessionCreator | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        stop_grace_period_secs: float = 120,
    ):
        super().__init__(session_creator or ChiefSessionCreator(), hooks, True, stop_grace_period_secs)

    ChiefSessionCreator = ChiefSessionCreator
    WorkerSessionCreator = WorkerSessionCreator
    StepContext = StepContext


class SingularMonitoredSession(_MonitoredSession):
    """A session with hooks that does not recover; `raw_session()` is the Session itself, for savers and the like.

    session_creator: makes the session instead of the arguments before it (TensorFlow has no such argument).
    """

    def __init__(
        self,
        hooks: Sequence[SessionRunHook] | None = None,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: str | None = None,
        stop_grace_period_secs: float = 120,
        checkpoint_filename_with_path: str | None = None,
        session_creator: SessionCreator | None = None,
    ):
        chief = ChiefSessionCreator(scaffold, master, config, checkpoint_dir, checkpoint_filename_with_path)
        super().__init__(session_creator or chief, hooks, False, stop_grace_period_secs)

    def raw_session(self) -> Session:
        self._check_open()
        return self._runs.session  # type: ignore[union-attr]
