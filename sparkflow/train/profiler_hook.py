"""ProfilerHook: a trace of a step every so often, as a file that Perfetto opens."""

from __future__ import annotations

import os
from typing import Any

from sparkflow.session.timeline import Timeline
from sparkflow.summary.writer import FileWriterCache
from sparkflow.train.hooks import SecondOrStepTimer, global_step_tensor
from sparkflow.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from sparkflow_runtime.wire.protos import RunOptions


class ProfilerHook(SessionRunHook):
    """Writes `output_dir`/timeline-<global step>.json, and the RunMetadata of the step as an event, every `save_steps`
    steps or `save_secs` seconds.

    A traced step compiles its graph anew and runs it with a clock around every kernel: choose a step that is not the
    first.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ):
        self._directory = os.fsdecode(output_dir)
        self._show = {"show_dataflow": show_dataflow, "show_memory": show_memory}
        self._timer = SecondOrStepTimer(save_secs, save_steps)
        self._next_step: int | None = None

    def begin(self) -> None:
        self._global_step = global_step_tensor("ProfilerHook")

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        self._tracing = self._next_step is not None and self._timer.should_trigger_for_step(self._next_step)
        options = RunOptions(trace_level=RunOptions.FULL_TRACE) if self._tracing else None
        return SessionRunArgs(self._global_step, options=options)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        before: Any = run_values.results
        step = int(before) + 1
        if self._next_step is None:
            self._timer.update_last_triggered_step(int(before))  # the first step is no example of the others
        if self._tracing:
            step = int(run_context.session.run(self._global_step))
            self._timer.update_last_triggered_step(step)
            self._write(step, run_values.run_metadata)
        self._next_step = step + 1

    def _write(self, step: int, metadata: Any) -> None:
        os.makedirs(self._directory or ".", exist_ok=True)
        text = Timeline(metadata.step_stats).generate_chrome_trace_format(**self._show)
        with open(os.path.join(self._directory, f"timeline-{step}.json"), "w") as f:
            f.write(text)
        FileWriterCache.get(self._directory).add_run_metadata(metadata, f"step_{step}")
