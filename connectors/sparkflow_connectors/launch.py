"""The driver's side of a training: check, launch, watch, and begin again from the checkpoint when a task is lost.

Engines (Spark, Dask, local processes) only know how to start the roles of one attempt, how to tell whether they
ended, and how to end them; every decision is here.
"""

from __future__ import annotations

import logging
import os
import queue
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import sparkflow as tf
from sparkflow.framework.user_frame import retold
from sparkflow_connectors import directory
from sparkflow_connectors.best import BEST
from sparkflow_connectors.control import DriverControl, Event, reported
from sparkflow_connectors.graphs import PredictionGraph, check_model, prediction_graph
from sparkflow_connectors.job import Job
from sparkflow_connectors.ledger import check_ledger
from sparkflow_connectors.model import Model, fingerprint
from sparkflow_connectors.progress import Tally, display
from sparkflow_connectors.vocabularies import kept
from sparkflow_runtime.wire import errors
from sparkflow_runtime.wire.errors import (
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
)

_POLL_S = 0.1
_ROOT_CAUSE_GRACE_S = 3.0
_SAID = 3  # how many errors of one attempt are told
_LINE_CHARS = 300
_RETRYABLE = {errors.UNAVAILABLE, errors.ABORTED, errors.DEADLINE_EXCEEDED, errors.CANCELLED}

log = logging.getLogger("sparkflow")


class JobCancelled(errors.CancelledError):
    """Somebody has ended the cluster's job, as by its console: that is no failure, and it is not begun anew."""


class Run(Protocol):
    """The roles of one attempt."""

    def ended(self) -> bool:
        """Whether all roles have ended well. Raises the error with which the cluster says that one failed."""

    def unheard(self, heard: Collection[int]) -> None:
        """Called while not all roles have said a word. Raises where the cluster will not start them."""

    def cancel(self) -> None:
        """End every role; none is left when this returns, or the log says which may be."""


class Engine(Protocol):
    """A cluster that can run roles."""

    name: str

    def driver_host(self) -> str | tuple[str, str]:
        """The address at which tasks reach this process; where that is not one to listen at, both: (that, this)."""

    def check(self, job: Job) -> None:
        """Raises before anything starts when the job cannot run here: too few slots, settings that forbid it."""

    def start(self, job: Job) -> Run: ...


@dataclass
class _Attempt:
    """What is known of one attempt. history: by epoch, of this one and those before."""

    workers: int
    history: dict[int, dict[str, Any]] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    pids: dict[int, str] = field(default_factory=dict)
    errors: list[OpError] = field(default_factory=list)  # of roles, and roles lost, in the order heard
    results: dict[int, dict[str, Any]] = field(default_factory=dict)
    failing_since: float | None = None

    def hear(self, event: Event) -> None:
        rank, fields = event.rank, event.fields
        if event.kind == "hello":
            self.pids[rank] = f"pid {fields['pid']} on {fields['host']}"
            log.info("worker %d started (%s)", rank, self.pids[rank])
        elif event.kind == "progress":
            self.tally.add(rank, fields)
        elif event.kind == "log":
            log.info("worker %d: %s", rank, fields["text"])
        elif event.kind == "epoch":
            self.history[fields["epoch"]] = fields
        elif event.kind == "done":
            self.results[rank] = fields
        elif event.kind == "error":
            self.errors.append(_said_by(rank, reported(fields)))
        else:
            who = f"worker {rank} ({self.pids.get(rank, 'never started')})"
            self.errors.append(UnavailableError(f"{who} was lost: {fields['message']}"))
        if event.kind in ("error", "lost") and self.failing_since is None:
            self.failing_since = time.monotonic()

    def failure(self) -> OpError | None:
        """The root cause: an error of the user's making, else what was heard first and what it drew after it."""
        for error in self.errors:
            if _is_final(error):
                return error
        said = list(dict.fromkeys(error.message for error in self.errors))[:_SAID]
        return UnavailableError("; then ".join(said)) if said else None


def _said_by(rank: int, error: OpError) -> OpError:
    return type(error)(error.node_def, None, f"worker {rank}: {retold(error.message)}")


def train(engine: Engine, job: Job) -> Model:
    """Run the job to its end, over as many attempts as it may take.

    Raises the root cause: at once when trying again cannot help, after `max_restarts` restarts otherwise.
    """
    try:
        return _train(engine, job)
    except DataLossError as error:
        told = directory.instead(job.checkpoint_dir, error)
        if told is error:
            raise
        raise told from error


def _train(engine: Engine, job: Job) -> Model:
    prediction = prediction_graph(job)
    _check_checkpoint(job, prediction)
    engine.check(job)
    check_model(job, prediction)
    held = directory.locked(job.checkpoint_dir)
    with held, kept(job.checkpoint_dir, job.columns), display(f"training on {engine.name}") as bar:
        failures: list[str] = []
        history: dict[int, dict[str, Any]] = {}
        for attempt in range(1, job.max_restarts + 2):
            try:
                results = _run_attempt(engine, job, attempt, bar, history)
                return _finished(engine, job, prediction, results, failures, history)
            except OpError as error:
                if _is_final(error) or attempt > job.max_restarts:
                    raise
                failures.append(str(error))
                checkpoint = tf.train.latest_checkpoint(job.checkpoint_dir)
                log.warning(
                    "attempt %d of %d failed: %s. Starting again from %s",
                    attempt, job.max_restarts + 1, error, checkpoint or "the beginning (no checkpoint was written yet)",
                )  # fmt: skip
    raise AssertionError("unreachable")


def _check_checkpoint(job: Job, prediction: PredictionGraph) -> None:
    """Refuse a directory whose checkpoint is of another model, or of no training, before anything starts."""
    path = directory.latest(job.checkpoint_dir)
    if path is None:
        return
    held = {name: tuple(shape) for name, shape in tf.train.list_variables(path)}
    for name, shape in prediction.variables.items():
        if name not in held:
            raise FailedPreconditionError(
                f"Checkpoint {path} is of another model: it has no variable {name!r}. Give another checkpoint_dir"
            )
        if held[name] != shape:
            raise FailedPreconditionError(
                f"Checkpoint {path} is of another model: {name!r} has shape {list(held[name])} there and "
                f"{list(shape)} in this "
                "model. Give another checkpoint_dir"
            )
    check_ledger(path, held)


def _run_attempt(engine: Engine, job: Job, attempt: int, bar: Any, history: dict[int, Any]) -> dict[int, Any]:
    secret, state, run = secrets.token_bytes(32), _Attempt(job.workers, history), None
    control = DriverControl(engine.driver_host(), secret, job.workers, job.keepalive_s)
    try:
        run = engine.start(job.for_attempt(attempt, control.url, secret))
        _watch(run, control, state, bar)
        return state.results
    finally:
        # The line first: roles that lose their driver end themselves, even where the cluster listens to nobody now.
        control.close()
        if run is not None:
            run.cancel()


def _watch(run: Run, control: DriverControl, state: _Attempt, bar: Any) -> None:
    """Until all roles have ended. Raises the attempt's root cause."""
    engine_error: Exception | None = None
    while True:
        _hear_all(control, state)
        state.tally.show(bar)
        if engine_error is None:
            try:
                if run.ended():
                    _hear_all(control, state)
                    state.tally.show(bar)
                    return
                if len(state.pids) < state.workers:
                    run.unheard(state.pids)
            except Exception as error:  # whatever the cluster raises: the roles' own words say more, if there are any
                engine_error, state.failing_since = _heard_of(error), state.failing_since or time.monotonic()
        if engine_error is not None and _is_final(engine_error):
            _hear_all(control, state)
            said = state.failure()
            told = said if said is not None and _is_final(said) else engine_error
            raise told from _cause(told, engine_error)
        if state.failing_since is not None and _settled(state):
            told = _root_cause(state, engine_error)
            raise told from _cause(told, engine_error)


def _heard_of(error: Exception) -> Exception:
    """What an engine raised; of a role's own error, with this program's cells and lines."""
    if isinstance(error, OpError):
        error.message = retold(error.message)
    return error


def _cause(told: Exception, engine_error: Exception | None) -> Exception | None:
    """What the engine raised, where that says more than what is told: a role's error may come both ways."""
    same = isinstance(told, OpError) and isinstance(engine_error, OpError) and engine_error.message in told.message
    return None if same else engine_error


def _hear_all(control: DriverControl, state: _Attempt) -> None:
    deadline = time.monotonic() + _POLL_S
    while True:
        try:
            state.hear(control.events.get(timeout=max(deadline - time.monotonic(), 0.001)))
        except queue.Empty:
            return


def _is_final(error: Exception | None) -> bool:
    """Whether it is an error of ours that trying again cannot mend, or should not: the user's data, model or wish."""
    return isinstance(error, JobCancelled) or (isinstance(error, OpError) and error.error_code not in _RETRYABLE)


def _settled(state: _Attempt) -> bool:
    """Whether the root cause can be told: an error of the user's making at once, else after a short grace."""
    return _is_final(state.failure()) or time.monotonic() - (state.failing_since or 0.0) > _ROOT_CAUSE_GRACE_S


def _root_cause(state: _Attempt, engine_error: Exception | None) -> Exception:
    """What the roles said; of broken lines, also what the engine saw, as how a process ended."""
    said = state.failure()
    if said is None:
        return _as_failure(engine_error, state)
    if _is_final(said) or engine_error is None:
        return said
    return UnavailableError(f"{said.message}; then {_in_a_line(engine_error)}")


def _in_a_line(error: Exception) -> str:
    """What a cluster raises may go on with the stack traces of several processes; a note says what it comes to."""
    notes = getattr(error, "__notes__", None) or [f"{type(error).__name__}: {error}"]
    text = error.message if isinstance(error, OpError) else notes[-1]
    first = text.strip().partition("\n")[0]
    return first if len(first) <= _LINE_CHARS else f"{first[:_LINE_CHARS]} ..."


def _as_failure(engine_error: Exception | None, state: _Attempt) -> Exception:
    if engine_error is None:
        return UnavailableError("The roles ended without a word")
    if isinstance(engine_error, OpError) or not state.pids:
        return engine_error
    return UnavailableError(f"The cluster ended the roles: {_in_a_line(engine_error)}")


def _finished(
    engine: Engine,
    job: Job,
    prediction: PredictionGraph,
    results: Mapping[int, Any],
    failures: list[str],
    history: Mapping[int, dict[str, Any]],
) -> Model:
    if len(results) < job.workers:
        missing = sorted(set(range(job.workers)) - set(results))
        raise UnavailableError(f"Training ended, but workers {missing} never said that they were done")
    train_s = max(r["train_s"] for r in results.values())
    examples = sum(r["examples"] for r in results.values())
    figures = {
        "examples": examples,
        "train_s": train_s,
        "examples_per_s": examples / train_s if train_s else 0.0,
        "attempts": len(failures) + 1,
        "failures": failures,
        "cluster": engine.name,
        "history": [history[n] for n in sorted(history) if n <= results[0]["epochs"]],
    }
    return _model(job, prediction, figures)


def trained(job: Job) -> Model | None:
    """The model of the job's checkpoint, as it is; None before there is one. Raises as `train` where it is of another
    model."""
    if directory.latest(job.checkpoint_dir) is None:
        return None
    prediction = prediction_graph(job)
    _check_checkpoint(job, prediction)
    figures = {"examples": 0, "train_s": 0.0, "examples_per_s": 0.0, "attempts": 0, "failures": [], "history": []}
    return _model(job, prediction, figures)


def _model(job: Job, prediction: PredictionGraph, figures: dict[str, Any]) -> Model:
    last = tf.train.latest_checkpoint(job.checkpoint_dir)
    best = tf.train.latest_checkpoint(os.path.join(job.checkpoint_dir, BEST)) or last
    if best is None or last is None:
        raise InvalidArgumentError(
            f"No checkpoint is in {job.checkpoint_dir!r} after training: it must be a directory that every task "
            "and the driver see"
        )
    return Model(prediction, job.columns.without_label(), best, {**figures, "checkpoint": last}, fingerprint(best))
