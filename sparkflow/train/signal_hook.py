"""CheckpointOnSignalHook: what an operating system or a scheduler asks of a training by a signal."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from types import FrameType
from typing import Any

from sparkflow.train.hooks import global_step_tensor
from sparkflow.train.saving_hooks import CheckpointSaverHook
from sparkflow.train.session_run_hook import SessionRunContext, SessionRunHook, SessionRunValues
from sparkflow_runtime.wire.errors import OpError

_log = logging.getLogger("sparkflow")


class CheckpointOnSignalHook(SessionRunHook):
    """Saves when a signal comes, at the end of the step that runs then. Not in TensorFlow.

    save_on: signals after which training goes on; stop_on: those after which it ends, as it does at its last step. They
    are taken from the first session to the end of training (an error leaves them taken), and then given back to whoever
    had them. saver, scaffold: as CheckpointSaverHook has them. Only the main thread may take signals: Python raises
    ValueError in another one.

    patience_s: a step may wait for tasks that the same signal has ended. Where it does not end in that time after one
    of `stop_on`, the variables are saved as they are, and the signal does what it did before the hook took it.
    """

    def __init__(
        self,
        checkpoint_dir: str,
        save_on: Sequence[signal.Signals] = (signal.SIGUSR1,),
        stop_on: Sequence[signal.Signals] = (signal.SIGTERM,),
        saver: Any = None,
        scaffold: Any = None,
        patience_s: float = 10.0,
    ):
        self._saving = CheckpointSaverHook(checkpoint_dir, save_steps=1, saver=saver, scaffold=scaffold)
        self._save_on, self._stop_on = tuple(save_on), tuple(stop_on)
        self._patience_s = patience_s
        self._came: signal.Signals | None = None
        # Of what a signal's handler may call, SimpleQueue.put is the one that may interrupt itself.
        self._stops: SimpleQueue[signal.Signals | None] = SimpleQueue()
        self._step_ended: SimpleQueue[bool] = SimpleQueue()
        self._is_overdue = False
        self._watch: Thread | None = None
        self._before: dict[signal.Signals, Any] = {}

    def begin(self) -> None:
        self._global_step = global_step_tensor("CheckpointOnSignalHook")

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._session = session
        if self._watch is None:
            self._stops, self._step_ended = SimpleQueue(), SimpleQueue()
            name = "sparkflow-save-on-signal"
            self._watch = Thread(target=self._save_overdue, args=(self._stops,), name=name, daemon=True)
            self._watch.start()
        for number in (*self._save_on, *self._stop_on):
            if number not in self._before:
                self._before[number] = signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._is_overdue:
            self._give_back()
            signal.raise_signal(signal.Signals(number))
        elif self._came not in self._stop_on:
            self._came = signal.Signals(number)
            if self._came in self._stop_on:
                self._stops.put(self._came)

    def _save_overdue(self, stops: SimpleQueue[signal.Signals | None]) -> None:
        """A thread's: once a signal of `stop_on` has come, save if the step does not end. None: training is over."""
        came = stops.get()
        if came is None:
            return
        try:
            self._step_ended.get(timeout=self._patience_s)
            return
        except Empty:
            _log.warning("%s: the step has not ended in %g s; saving beside it", came.name, self._patience_s)
        try:
            with self._session.graph.as_default():
                self._saving._save(self._session, int(self._session.run(self._global_step)))
        except OpError as error:
            _log.error("%s: nothing could be saved: %s", came.name, error)
        if self._step_ended.empty():
            self._is_overdue = True
            os.kill(os.getpid(), came)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        came, self._came = self._came, None
        if came is None:
            return
        if came in self._stop_on:
            self._step_ended.put(True)
        step = int(run_context.session.run(self._global_step))
        _log.info("%s: saving at step %d%s", came.name, step, " and ending" if came in self._stop_on else "")
        stop = self._saving._save(run_context.session, step)
        if stop or came in self._stop_on:
            run_context.request_stop()

    def end(self, session: Any) -> None:
        self._give_back()
        self._stops.put(None)
        self._watch = None

    def _give_back(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()
