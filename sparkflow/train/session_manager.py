"""SessionManager: opens sessions whose variables are ready, by initializing, restoring or waiting for the chief."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from sparkflow.framework.graph import Graph, get_default_graph
from sparkflow.session.session import Session
from sparkflow.train.ahead import compile_ahead
from sparkflow.train.checkpoint_state import CheckpointState, get_checkpoint_state
from sparkflow_runtime.wire.errors import AbortedError, DeadlineExceededError, FailedPreconditionError, UnavailableError

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.005, 0.1
_log = logging.getLogger("sparkflow")


class SessionManager:
    """ready_op: a 1-D string tensor of what is missing, empty when the model is ready; a number or None means ready.

    ready_for_local_init_op: the same, for local_init_op to be run. local_init_op: run in every session, after that.
    recovery_wait_secs: for how long the chief is waited for before the log says so, and what is missing.
    """

    def __init__(
        self,
        local_init_op: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        graph: Graph | None = None,
        recovery_wait_secs: float = 30,
        local_init_run_options: Any = None,
        local_init_feed_dict: Any = None,
    ):
        self._local_init_op, self._ready_op, self._ready_for_local_init_op = (
            local_init_op,
            ready_op,
            ready_for_local_init_op,
        )
        self._graph = graph or get_default_graph()
        self._options, self._feed_dict, self._quiet_s = local_init_run_options, local_init_feed_dict, recovery_wait_secs

    # ------------------------------------------------------------------ opening

    def prepare_session(
        self,
        master: str,
        init_op: Any = None,
        saver: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
        init_feed_dict: Any = None,
        init_fn: Callable[[Any], None] | None = None,
    ) -> Session:
        """A session whose model is restored from the newest checkpoint, or initialized where there is none.

        Raises RuntimeError where there is nothing to initialize it by, or where it did not make the model ready.
        """
        sess, restored = self._restored(
            master, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint, max_wait_secs, config
        )
        if not restored:
            if init_op is None and init_fn is None and self._local_init_op is None:
                raise RuntimeError("Model is not initialized and no init_op or init_fn or local_init_op was given")
            if init_op is not None:
                sess.run(init_op, feed_dict=init_feed_dict)
            if init_fn is not None:
                init_fn(sess)
        missing = self._initialize_locally(sess)
        if missing:
            raise RuntimeError(f"Init operations did not make model ready for local_init. {missing}")
        missing = not_ready(self._ready_op, sess)
        if missing:
            raise RuntimeError(f"Init operations did not make model ready. {missing}")
        return sess

    def recover_session(
        self,
        master: str,
        saver: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
    ) -> tuple[Session, bool]:
        """(session, True) with the model restored and ready, or (session, False) as it was made."""
        sess, restored = self._restored(
            master, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint, max_wait_secs, config
        )
        if not restored:
            return sess, False
        missing = self._initialize_locally(sess) or not_ready(self._ready_op, sess)
        if missing:
            _log.info("Restoring did not make the model ready. %s", missing)
        return sess, not missing

    def wait_for_session(self, master: str, config: Any = None, max_wait_secs: float = float("inf")) -> Session:
        """A session as soon as somebody else, the chief, has made the model ready.

        Raises DeadlineExceededError after max_wait_secs, saying which variables are still missing.
        """
        begun, wait_s, quiet_s = time.monotonic(), _FIRST_WAIT_S, self._quiet_s
        sess = Session(master, graph=self._graph, config=config)
        while True:
            try:
                missing = self._initialize_locally(sess) or not_ready(self._ready_op, sess)
            except (AbortedError, UnavailableError) as error:  # a task is not there yet, or is back without its memory
                missing = error.message
                sess.close()
                sess = Session(master, graph=self._graph, config=config)
            if not missing:
                return sess
            waited_s = time.monotonic() - begun
            if waited_s + wait_s > max_wait_secs:
                sess.close()
                raise DeadlineExceededError(
                    f"Session was not ready after waiting {max_wait_secs:g} secs. {missing}. "
                    "The chief initializes them: look for an earlier error in its log"
                )
            if waited_s >= quiet_s:
                _log.warning("Waiting, for %.0f s now, for the model that the chief initializes: %s", waited_s, missing)
                quiet_s = 2 * waited_s
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    # ------------------------------------------------------------------ steps

    def _restored(
        self,
        master: str,
        saver: Any,
        directory: str | None,
        path: str | None,
        wait: bool,
        max_wait_secs: float,
        config: Any,
    ) -> tuple[Session, bool]:
        sess = Session(master, graph=self._graph, config=config)
        unfed = None if self._feed_dict else self._local_init_op
        compile_ahead(sess, (self._ready_for_local_init_op, unfed, self._ready_op))
        if directory and path:
            raise ValueError("Can not provide both checkpoint_dir and checkpoint_filename_with_path.")
        if saver is None or not (directory or path):
            return sess, False
        if path:
            saver.restore(sess, path)
            return sess, True
        state = _state(str(directory), wait, max_wait_secs)
        if state is None:
            return sess, False
        saver.restore(sess, state.model_checkpoint_path)
        saver.recover_last_checkpoints(state.all_model_checkpoint_paths)  # those of an earlier process, to remove them
        return sess, True

    def _initialize_locally(self, sess: Any) -> str:
        """Run local_init_op if what it needs is there; else say what is missing."""
        if self._local_init_op is None:
            return ""
        missing = not_ready(self._ready_for_local_init_op, sess)
        if not missing:
            sess.run(self._local_init_op, feed_dict=self._feed_dict, options=self._options)
        return missing


def not_ready(ready_op: Any, sess: Any) -> str:
    """What is missing, in words; '' when nothing is."""
    if ready_op is None:
        return ""
    try:
        value = sess.run(ready_op)
    except FailedPreconditionError as error:
        if "uninitialized" not in error.message:
            raise
        return error.message
    if value is None or getattr(value, "size", 0) == 0 or value.dtype != object:
        return ""
    return "Variables not initialized: " + ", ".join(name.decode() for name in value.ravel())


def _state(directory: str, wait: bool, max_wait_secs: float) -> CheckpointState | None:
    """What a directory says of its checkpoints; with `wait`, as soon as there is one."""
    deadline = time.monotonic() + max_wait_secs
    while True:
        found = get_checkpoint_state(directory)
        if found is not None and found.model_checkpoint_path:
            return found
        if not wait:
            return None
        if time.monotonic() > deadline:
            _log.info("No checkpoint came to %s in %g s", directory, max_wait_secs)
            return None
        time.sleep(_LONGEST_WAIT_S)
