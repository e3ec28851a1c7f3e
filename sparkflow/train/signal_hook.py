"""CheckpointOnSignalHook: what an operating system or a scheduler asks of a training by a signal."""

from __future__ import annotations

import logging
import signal
from collections.abc import Sequence
from types import FrameType
from typing import Any

from sparkflow.train.hooks import global_step_tensor
from sparkflow.train.saving_hooks import CheckpointSaverHook
from sparkflow.train.session_run_hook import SessionRunContext, SessionRunHook, SessionRunValues

_log = logging.getLogger("sparkflow")


class CheckpointOnSignalHook(SessionRunHook):
    """Saves when a signal comes, at the end of the step that runs then. Not in TensorFlow.

    save_on: signals after which training goes on; stop_on: those after which it ends, as it does at its last step. They
    are taken from the first session to the end of training (an error leaves them taken), and then given back to whoever
    had them. saver, scaffold: as CheckpointSaverHook has them. Only the main thread may take signals: Python raises
    ValueError in another one.
    """

    def __init__(
        self,
        checkpoint_dir: str,
        save_on: Sequence[signal.Signals] = (signal.SIGUSR1,),
        stop_on: Sequence[signal.Signals] = (signal.SIGTERM,),
        saver: Any = None,
        scaffold: Any = None,
    ):
        self._saving = CheckpointSaverHook(checkpoint_dir, save_steps=1, saver=saver, scaffold=scaffold)
        self._save_on, self._stop_on = tuple(save_on), tuple(stop_on)
        self._came: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def begin(self) -> None:
        self._global_step = global_step_tensor("CheckpointOnSignalHook")

    def after_create_session(self, session: Any, coord: Any) -> None:
        for number in (*self._save_on, *self._stop_on):
            if number not in self._before:
                self._before[number] = signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._came not in self._stop_on:
            self._came = signal.Signals(number)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        came, self._came = self._came, None
        if came is None:
            return
        step = int(run_context.session.run(self._global_step))
        _log.info("%s: saving at step %d%s", came.name, step, " and ending" if came in self._stop_on else "")
        stop = self._saving._save(run_context.session, step)
        if stop or came in self._stop_on:
            run_context.request_stop()

    def end(self, session: Any) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()
