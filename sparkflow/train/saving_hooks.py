"""Hooks that write files: checkpoints, the speed of training, summaries."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Sequence
from typing import Any

from google.protobuf import text_format
from tensorboard.compat.proto.event_pb2 import SessionLog

from sparkflow.framework.graph import Graph, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.summary.writer import FileWriterCache
from sparkflow.train.checkpoint_state import write_whole
from sparkflow.train.hooks import SecondOrStepTimer, global_step_tensor
from sparkflow.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from sparkflow_runtime.wire.protos import MetaGraphDef, Summary

_log = logging.getLogger("sparkflow")
_graphs_told: weakref.WeakKeyDictionary[Any, weakref.ref[Graph]] = weakref.WeakKeyDictionary()


class CheckpointSaverListener:
    """Override to act around each save of a CheckpointSaverHook."""

    def begin(self) -> None:
        """Once, before the session is made."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Before the checkpoint is written."""

    def after_save(self, session: Any, global_step_value: int) -> bool | None:
        """After it is written; True ends training."""
        return None

    def end(self, session: Any, global_step_value: int) -> None:
        """At the end, after the last save."""


class CheckpointSaverHook(SessionRunHook):
    """Saves at the start, every save_secs or save_steps, and at the end."""

    _writer: Any = None

    def __init__(
        self,
        checkpoint_dir: str,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Any = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Any = None,
        listeners: Sequence[CheckpointSaverListener] | None = None,
        save_graph_def: bool = True,
    ):
        """saver: what saves, else the scaffold's. Raises ValueError where both are given."""
        if saver is not None and scaffold is not None:
            raise ValueError("CheckpointSaverHook: give saver or scaffold, not both")
        self._saver, self._scaffold = saver, scaffold
        self._dir, self._path = checkpoint_dir, os.path.join(checkpoint_dir, checkpoint_basename)
        self._timer = SecondOrStepTimer(save_secs, save_steps)
        self._listeners, self._save_graph_def = list(listeners or ()), save_graph_def
        self._steps_per_run = 1

    def _set_steps_per_run(self, steps_per_run: int) -> None:
        self._steps_per_run = steps_per_run

    def begin(self) -> None:
        self._writer = FileWriterCache.get(self._dir)
        self._global_step = global_step_tensor("CheckpointSaverHook")
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        step = int(session.run(self._global_step))
        graph_def = get_default_graph().as_graph_def(add_shapes=True)
        if self._save_graph_def:
            _write_text(os.path.join(self._dir, "graph.pbtxt"), text_format.MessageToString(graph_def))
        _add_graph(self._writer, graph_def)
        self._save(session, step)
        self._timer.update_last_triggered_step(step)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        # Read in the run, the step may lack the run's own update; read again after it, it is what the variables hold.
        if not self._timer.should_trigger_for_step(run_values.results + self._steps_per_run):
            return
        step = int(run_context.session.run(self._global_step))
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._save(run_context.session, step):
                run_context.request_stop()

    def end(self, session: Any) -> None:
        last = int(session.run(self._global_step))
        if last != self._timer.last_triggered_step():
            self._save(session, last)
        for listener in self._listeners:
            listener.end(session, last)

    def _save(self, session: Any, step: int) -> bool:
        """True where a listener asks for the end."""
        for listener in self._listeners:
            listener.before_save(session, step)
        self._get_saver().save(session, self._path, global_step=step, write_meta_graph=self._save_graph_def)
        if self._writer is not None:
            self._writer.add_session_log(SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=self._path), step)
        _log.info("Saved checkpoint of step %d in %s", step, self._dir)
        return any([listener.after_save(session, step) for listener in self._listeners])

    def _get_saver(self) -> Any:
        if self._saver is not None:
            return self._saver
        if self._scaffold is not None:
            return self._scaffold.saver
        savers = get_default_graph().get_collection(GraphKeys.SAVERS)
        if len(savers) != 1:
            raise RuntimeError(
                f"CheckpointSaverHook: collection SAVERS has {len(savers)} savers; pass the one to use as saver"
            )
        self._saver = savers[0]
        return self._saver


def _add_graph(writer: Any, graph_def: Any = None) -> None:
    """The default graph, for TensorBoard to show beside what the writer's directory has of it; once."""
    graph = get_default_graph()
    held = _graphs_told.get(writer)
    if held is None or held() is not graph:
        graph_def = graph_def or graph.as_graph_def(add_shapes=True)
        writer.add_graph(graph_def)
        writer.add_meta_graph(MetaGraphDef(graph_def=graph_def))
        _graphs_told[writer] = weakref.ref(graph)


def _write_text(path: str, text: str) -> None:
    """Whole or not at all."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    write_whole(path, text.encode())


class StepCounterHook(SessionRunHook):
    """Steps a second, logged and written as the scalar global_step/sec."""

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
    ):
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided: give the other as None")
        self._timer = SecondOrStepTimer(every_n_secs, every_n_steps)
        self._writer, self._output_dir = summary_writer, output_dir

    def begin(self) -> None:
        if self._writer is None and self._output_dir:
            self._writer = FileWriterCache.get(self._output_dir)
        self._global_step = global_step_tensor("StepCounterHook")
        self._tag = f"{self._global_step.op.name}/sec"

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if not self._timer.should_trigger_for_step(run_values.results + 1):
            return
        step = int(run_context.session.run(self._global_step))
        if self._timer.should_trigger_for_step(step):
            passed_s, steps = self._timer.update_last_triggered_step(step)
            if passed_s and steps is not None:
                self._write(steps / passed_s, step)

    def _write(self, per_s: float, step: int) -> None:
        _log.info("%s: %g", self._tag, per_s)
        if self._writer is not None:
            self._writer.add_summary(Summary(value=[Summary.Value(tag=self._tag, simple_value=per_s)]), step)


class SummarySaverHook(SessionRunHook):
    """Writes summaries every save_steps or save_secs, and at the first run."""

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
        scaffold: Any = None,
        summary_op: Any = None,
    ):
        """summary_op: a serialized Summary, or a list of them; else the scaffold's. Exactly one of the two is given."""
        if (scaffold is None) == (summary_op is None):
            raise ValueError("SummarySaverHook: give exactly one of scaffold and summary_op")
        self._summary_op, self._scaffold = summary_op, scaffold
        self._writer, self._output_dir = summary_writer, output_dir
        self._adds_graph = summary_writer is None and bool(output_dir)
        self._timer = SecondOrStepTimer(save_secs, save_steps)

    def begin(self) -> None:
        if self._writer is None and self._output_dir:
            self._writer = FileWriterCache.get(self._output_dir)
        self._global_step = global_step_tensor("SummarySaverHook")
        self._next_step: int | None = None

    def after_create_session(self, session: Any, coord: Any) -> None:
        if self._adds_graph:
            _add_graph(self._writer)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        self._due = self._next_step is None or self._timer.should_trigger_for_step(self._next_step)
        fetches = {"global_step": self._global_step}
        summary_op = self._summary_op if self._scaffold is None else self._scaffold.summary_op
        if self._due and summary_op is not None:
            fetches["summary"] = summary_op
        return SessionRunArgs(fetches)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        stale = run_values.results["global_step"]
        step = int(stale) + 1  # or `stale`, where the run read it after its own update: read it where that decides
        if self._next_step is None or self._due or self._timer.should_trigger_for_step(step + 1):
            step = int(run_context.session.run(self._global_step))
        if self._writer is not None and self._next_step is None:  # readers forget what an earlier run wrote after it
            self._writer.add_session_log(SessionLog(status=SessionLog.START), step)
        if self._writer is not None and self._due:
            self._timer.update_last_triggered_step(step)
            found = run_values.results.get("summary", [])
            for summary in found if isinstance(found, (list, tuple)) else [found]:
                self._writer.add_summary(summary, step)
        self._next_step = step + 1

    def end(self, session: Any) -> None:
        if self._writer is not None:
            self._writer.flush()
