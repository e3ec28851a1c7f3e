"""A worker's training: wait for the chief, run epochs, meet the others between them, keep the best.

Synchronous training is deterministic: the rows of every step, the order in which gradients are summed, and the moment
of each checkpoint relative to the steps depend on the job alone, so a run that was interrupted ends with the same bits.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import sparkflow as tf
from sparkflow_connectors import directory
from sparkflow_connectors.control import TaskControl
from sparkflow_connectors.feeding import Feeder, Shard, shard, steps_per_epoch
from sparkflow_connectors.graphs import EVAL_BATCH, EvaluationGraph, TrainingGraph, evaluation_graph, training_graph
from sparkflow_connectors.job import Announcement, Job
from sparkflow_connectors.spool import Spool
from sparkflow_runtime.wire.errors import InvalidArgumentError, OpError, OutOfRangeError

BEST = "best"
_POSITION = "sparkflow_job/position"
# The shape of the first two follows the number of workers; whether to stop is asked anew, of this run's patience.
_NOT_RESTORED = (_POSITION, "sparkflow_job/evaluation", "sparkflow_job/stop")

_log = logging.getLogger("sparkflow")


def saved_position(job: Job) -> list[int] | None:
    """[workers, 4] of the last checkpoint as a flat list; None when there is no checkpoint."""
    path = directory.latest(job.checkpoint_dir)
    return None if path is None else [int(n) for n in tf.train.load_variable(path, _POSITION).ravel()]


def start_position(saved: list[int] | None, rows: Sequence[int], batch_size: int, rank: int) -> tuple[int, int]:
    """(epoch, step) at which this worker goes on.

    With the same workers, rows and batch size it is the very step; otherwise the beginning of the epoch that was
    under way.
    """
    if saved is None:
        return 0, 0
    table = np.array(saved).reshape(-1, 4)
    same = [[n, batch_size] for n in rows] == table[:, 2:].tolist()
    return (int(table[rank, 0]), int(table[rank, 1])) if same else (int(table[:, 0].min()), 0)


class Trainer:
    """One worker of a job, from the moment the cluster stands."""

    def __init__(
        self,
        job: Job,
        rank: int,
        target: str,
        cluster: dict[str, Any],
        spool: Spool,
        everyone: Sequence[Announcement],
        control: TaskControl,
    ):
        self.job, self.rank, self.chief, self.control, self.spool = job, rank, rank == 0, control, spool
        self.rows = [a.rows for a in everyone]
        steps = steps_per_epoch(self.rows, rank, job.validation, job.batch_size, job.sync)
        self.shard: Shard = shard(job.seed, rank, spool.rows, job.validation, job.batch_size, steps)
        self.epoch, self.step = start_position(everyone[0].position, self.rows, job.batch_size, rank)
        self.parts: TrainingGraph = training_graph(job, rank, cluster)
        self._evaluation: EvaluationGraph | None = None
        if job.validation:
            self._evaluation = evaluation_graph(job, rank, cluster, self.parts.graph)
        self._eval_session: Any = None
        self._target, self._examples, self._train_s = target, 0, 0.0
        self._saver: Any = None
        self._best_saver: Any = None
        self._writer: Any = None
        self._saved_s = time.monotonic()
        self._last_loss = math.nan
        self._history: list[dict[str, float]] = []

    def run(self) -> dict[str, Any]:
        """Train to the end; the figures of this worker."""
        hooks = [*self.parts.spec.training_hooks, *(self.parts.spec.training_chief_hooks if self.chief else ())]
        with self.parts.graph.as_default():
            self._make_savers()
            creator = _Creator(self)
            # A job that lost a task is begun again as a whole by its driver, so no session is recovered here.
            with tf.train.SingularMonitoredSession(hooks, session_creator=creator) as session:
                raw = session.raw_session()
                try:
                    self._train(session, raw, self._start_feeder(raw))
                finally:
                    if self._eval_session is not None:
                        self._eval_session.close()
        return self._result()

    # ------------------------------------------------------------------ start

    def _make_savers(self) -> None:
        names = {v.op.name: v for v in tf.global_variables()}
        device = self.job.shared_device  # where the merging and the index live; each server writes its own shard
        with tf.device(device):
            self._saver = tf.train.Saver(list(names.values()), sharded=True, max_to_keep=3, save_relative_paths=True)
            kept = [v for name, v in names.items() if name not in _NOT_RESTORED]
            self._restorer = tf.train.Saver(kept, sharded=True, name="restore")
            self._best_saver = tf.train.Saver(kept, sharded=True, max_to_keep=1, name="best", save_relative_paths=True)
        self._init = tf.global_variables_initializer()

    def initialize(self, session: Any) -> None:
        """The chief restores or initialises and lets the others go; they wait for that."""
        if not self.chief:
            session.run(self.parts.board.ready)
            self._join(session)
            return
        session.run(self._init)
        checkpoint = directory.latest(self.job.checkpoint_dir)
        if checkpoint is not None:
            self._restorer.restore(session, checkpoint)
            self._say(f"resumed from {checkpoint} at epoch {self.epoch + 1}, step {self.step}")
            for saver, name in ((self._saver, ""), (self._best_saver, BEST)):
                state = tf.train.get_checkpoint_state(os.path.join(self.job.checkpoint_dir, name))
                saver.recover_last_checkpoints(state.all_model_checkpoint_paths if state else [])
            best_epoch = int(session.run(self.parts.best)[1])
            self._stop_if_patient(session, self.epoch - best_epoch if best_epoch >= 0 else 0)
        table = [[self.epoch, self.step, rows, self.job.batch_size] for rows in self.rows]
        session.run(self.parts.set_positions, {self.parts.positions: table})
        self._open_summaries()
        session.run(self.parts.board.announce_ready)
        self._join(session)

    def _join(self, session: Any) -> None:
        if self.parts.join is not None:
            session.run(self.parts.join)

    def _open_summaries(self) -> None:
        os.makedirs(self.job.checkpoint_dir, exist_ok=True)
        self._writer = tf.summary.FileWriter(self.job.checkpoint_dir, self.parts.graph)

    def _start_feeder(self, session: Any) -> Feeder:
        parts, inputs = self.parts, self.parts.queue_inputs

        def enqueue(rows: dict[str, np.ndarray]) -> None:
            session.run(parts.enqueue, {inputs[name]: values for name, values in rows.items()})

        def close() -> None:
            session.run(parts.graph.get_operation_by_name(parts.close_queue.name))

        feeder = Feeder(self.shard, self.spool.take, enqueue, close, (self.epoch, self.step), self.job.epochs)
        feeder.start()
        return feeder

    # ------------------------------------------------------------------ epochs

    def _train(self, session: Any, raw: Any, feeder: Feeder) -> None:
        begun = time.monotonic()
        stopped = bool(self.epoch < self.job.epochs and raw.run(self.parts.board.stop)[0])
        while self.epoch < self.job.epochs and not stopped:
            self._steps(session, raw, feeder)
            self.epoch, self.step = self.epoch + 1, 0
            stopped = self._end_epoch(raw)
        self._train_s = time.monotonic() - begun

    def _steps(self, session: Any, raw: Any, feeder: Feeder) -> None:
        job, parts = self.job, self.parts
        while self.step < self.shard.steps_per_epoch:
            if session.should_stop():
                raise InvalidArgumentError(
                    f"A training hook asked to stop at epoch {self.epoch + 1}, step {self.step}: a job ends after "
                    "`epochs`, or by `patience`. Drop the hook (such as StopAtStepHook)"
                )
            self.step += 1
            feed = {} if job.sync else {parts.position_rank: self._position_row()}
            summarise = self.chief and (self.step - 1) % job.summary_steps == 0
            fetches = [parts.train_op, parts.spec.loss] + ([parts.loss_summary, parts.global_step] if summarise else [])
            try:
                _, loss, *summary = session.run(fetches, feed)
            except OutOfRangeError:
                if feeder.error is not None:
                    raise feeder.error from None
                raise
            self._after_step(float(loss), summary, raw)

    def _after_step(self, loss: float, summary: list[Any], raw: Any) -> None:
        if not math.isfinite(loss):
            raise InvalidArgumentError(
                f"The loss is {loss} at epoch {self.epoch + 1}, step {self.step}: lower the learning rate or "
                "check the features"
            )
        self._examples += self.job.batch_size
        self._last_loss = loss
        if summary:
            self._writer.add_summary(*summary)
        if self.chief and time.monotonic() - self._saved_s >= self.job.checkpoint_s:
            self._save(raw)
        total = (self.job.epochs * self.shard.steps_per_epoch) * self.job.batch_size
        done = (self.epoch * self.shard.steps_per_epoch + self.step) * self.job.batch_size
        last = self.step == self.shard.steps_per_epoch
        self.control.progress({"examples": done, "total": total, "epoch": self.epoch, "loss": loss}, force=last)

    def _position_row(self) -> list[int]:
        return [self.epoch, self.step, self.rows[self.rank], self.job.batch_size]

    def _meet(self, raw: Any) -> None:
        """Nobody goes on before everybody is here."""
        raw.run(self.parts.board.arrive)
        raw.run(self.parts.board.leave)

    def _end_epoch(self, raw: Any) -> bool:
        """Evaluate together, keep the best, save; whether training stops here. All workers agree on the answer."""
        board = self.parts.board
        self._meet(raw)
        raw.run(board.post, {board.row: self._evaluate()})
        self._meet(raw)
        if self.chief:
            self._judge(raw)
        self._meet(raw)
        return bool(raw.run(board.stop)[0])

    def _evaluate(self) -> list[float]:
        """[sum of losses, examples] over this worker's validation rows."""
        total, rows = 0.0, self.shard.validation
        if self._evaluation is None or not len(rows):
            return [0.0, 0.0]
        if self._eval_session is None:
            self._eval_session = self._new_session(self._evaluation.graph)
            self._eval_session.run(self._evaluation.init)
        for at in range(0, len(rows), EVAL_BATCH):
            part = rows[at : at + EVAL_BATCH]
            feed = {self._evaluation.inputs[name]: values for name, values in self.spool.take(part).items()}
            total += float(self._eval_session.run(self._evaluation.loss, feed)) * len(part)
        return [total, float(len(rows))]

    def _new_session(self, graph: Any) -> Any:
        config = tf.ConfigProto(operation_timeout_in_ms=int(self.job.step_timeout_s * 1000))
        return tf.Session(self._target, graph, config)

    def session(self) -> Any:
        """A session on the training graph that the chief has initialised or restored."""
        session = self._new_session(self.parts.graph)
        try:
            self.initialize(session)
        except OpError:
            session.close()
            raise
        return session

    def _judge(self, raw: Any) -> None:
        sums, best, step = raw.run([self.parts.board.sums, self.parts.best, self.parts.global_step])
        loss = float(sums[:, 0].sum() / max(sums[:, 1].sum(), 1.0))
        self._history.append({"epoch": self.epoch, "validation_loss": loss, "global_step": int(step)})
        evaluated = sums[:, 1].sum() > 0
        better = not evaluated or loss < best[0]
        if better:
            raw.run(self.parts.set_best, {self.parts.best_value: [loss if evaluated else math.inf, self.epoch]})
            self._best_saver.save(raw, os.path.join(self.job.checkpoint_dir, BEST, "model.ckpt"), global_step=int(step))
        since = self.epoch - (self.epoch if better else int(best[1]))
        self._stop_if_patient(raw, since)
        self._save(raw)
        if not evaluated:
            self._say(f"epoch {self.epoch} is done (no row is kept for validation)")
            return
        if math.isnan(loss):
            _log.warning(
                "The validation loss is nan at epoch %d: check the features of the rows kept for it", self.epoch
            )
        self._say(f"epoch {self.epoch}: validation loss {loss:.5f}" + (", the best so far" if better else ""))
        summary = tf.Summary(value=[tf.Summary.Value(tag="validation_loss", simple_value=loss)])
        self._writer.add_summary(summary, int(step))
        self._writer.flush()

    def _stop_if_patient(self, session: Any, epochs_since_best: int) -> None:
        if self.job.patience and epochs_since_best >= self.job.patience:
            session.run(self.parts.board.set_stop, {self.parts.board.stop_value: [1]})

    def _save(self, raw: Any) -> None:
        """A checkpoint with the position in the data. In synchronous training no update can be under way now: the
        next one needs a gradient of the chief, which is here."""
        if self.job.sync or self.step == 0:
            row = [[self.epoch, self.step, rows, self.job.batch_size] for rows in self.rows]
            raw.run(self.parts.set_positions, {self.parts.positions: row})
        self._saver.save(raw, os.path.join(self.job.checkpoint_dir, "model.ckpt"), global_step=self.parts.global_step)
        self._saved_s = time.monotonic()

    def _say(self, text: str) -> None:
        self.control.log(text)

    def _result(self) -> dict[str, Any]:
        if self._writer is not None:
            self._writer.close()
        figures = {"examples": self._examples, "train_s": self._train_s, "loss": self._last_loss}
        return {**figures, "rank": self.rank, "epochs": self.epoch, "history": self._history}


class _Creator:
    """A session that the chief has initialised or restored."""

    def __init__(self, trainer: Trainer):
        self._trainer = trainer

    def create_session(self) -> Any:
        return self._trainer.session()
