"""A worker's training: wait for the chief, run epochs, meet the others between them, keep the best.

Synchronous training is deterministic: the rows of every step, the order in which gradients are summed, and the moment
of each checkpoint relative to the steps depend on the job alone, so a run that was interrupted ends with the same bits.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import sparkflow as tf
from sparkflow_connectors import not_finite, own_end
from sparkflow_connectors.asked import END, SAVE, Asked
from sparkflow_connectors.best import BEST, why_none
from sparkflow_connectors.control import TaskControl
from sparkflow_connectors.feeding import DROP, JOIN, PAD, Doors, Feeder, Mark, Start
from sparkflow_connectors.graphs import TrainingGraph, training_graph
from sparkflow_connectors.idle import idle_feed
from sparkflow_connectors.initial import Initial
from sparkflow_connectors.job import Announcement, Job
from sparkflow_connectors.layout import Block
from sparkflow_connectors.ledger import MARKS, POSITION, begun_again, starts
from sparkflow_connectors.pace import Board, Kind, Pace
from sparkflow_connectors.partition import Partition
from sparkflow_connectors.validation import Validation
from sparkflow_runtime.wire.errors import InvalidArgumentError, OpError, OutOfRangeError, UnavailableError

# The shape of most of these follows the number of workers, and what they say is of one run; whether to stop is asked
# anew, of this run's patience.
_NOT_RESTORED = (POSITION, MARKS, "sparkflow_job/rows", "sparkflow_job/evaluation", "sparkflow_job/stop")
_DRAIN_S = 0.005


class Trainer:
    """One worker of a job, from the moment the cluster stands."""

    def __init__(
        self,
        job: Job,
        rank: int,
        target: str,
        cluster: dict[str, Any],
        partition: Partition,
        everyone: Sequence[Announcement],
        control: TaskControl,
        checkpoint: str | None,
    ):
        """checkpoint: of which `everyone` has the position; the chief goes on from it."""
        self.job, self.rank, self.chief, self.control, self.partition = job, rank, rank == 0, control, partition
        ledger = everyone[0].position, job.workers, job.batch_size, job.begin_epoch
        self.starts, self._begun_again = starts(*ledger), begun_again(*ledger, job.epochs)
        self.epoch, self.step, _ = self.starts[rank]
        self._first_epoch = self.epoch
        self.parts: TrainingGraph = training_graph(job, rank, cluster)
        judged = self.parts.graph, partition, self._new_session, control.log
        self._validation = Validation(job, rank, cluster, *judged)
        self._target, self._checkpoint, self._examples, self._train_s = target, checkpoint, 0, 0.0
        self._floats = not_finite.floats(job.layout, self.parts.queue.taken)
        self._saver: Any = None
        self._best_saver: Any = None
        self._writer: Any = None
        self._saved_s = time.monotonic()
        self._asked = Asked()
        self._last_loss = math.nan
        self._feeder: Feeder
        self._pace: Pace
        self._marked: Mark | None = None

    def run(self) -> dict[str, Any]:
        """Train to the end; the figures of this worker."""
        hooks = [*self.parts.spec.training_hooks, *(self.parts.spec.training_chief_hooks if self.chief else ())]
        with self.parts.graph.as_default():
            self._make_savers()
            creator = _Creator(self)
            # A job that lost a task is begun again as a whole by its driver, so no session is recovered here.
            with tf.train.SingularMonitoredSession(hooks, session_creator=creator) as session:
                raw = session.raw_session()
                self._start_feeder(raw)
                self._listen()
                try:
                    with own_end.refused(self.rank, lambda: f"epoch {self.epoch + 1}, step {self.step}"):
                        self._train(session, raw)
                finally:
                    self._asked.give_back()
                    self._feeder.stop()
                    self._validation.close()
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
        self._initial = Initial(self.parts.spec)

    def initialize(self, session: Any) -> None:
        """The chief restores or initialises and lets the others go; they wait for that."""
        if self.chief:
            self._lead(session)
        else:
            session.run(self.parts.board.ready)
        if self.parts.join is not None:
            session.run(self.parts.join)
        self._initial.own(session)

    def _lead(self, session: Any) -> None:
        self._initial.variables(session)
        if self._checkpoint is None:
            self._initial.begin(session)
        else:
            self._restorer.restore(session, self._checkpoint)
            self.control.log(f"resumed from {self._checkpoint} at epoch {self.epoch + 1}, step {self.step}")
            if self._begun_again:
                self.control.log(
                    f"epoch {self.epoch + 1} was under way {self._begun_again}: it begins again, and its rows that "
                    "were used before are used twice"
                )
            for saver, name in ((self._saver, ""), (self._best_saver, BEST)):
                state = tf.train.get_checkpoint_state(os.path.join(self.job.checkpoint_dir, name))
                saver.recover_last_checkpoints(state.all_model_checkpoint_paths if state else [])
            self._stop_if_patient(session, self.epoch - best if (best := self._best_epoch(session)) >= 0 else 0)
        session.run(self.parts.board.announce_ready)

    def _best_epoch(self, session: Any) -> int:
        """-1 for none. One whose weights are gone is none: the last weights would be given out for them."""
        epoch = int(session.run(self.parts.best)[1])
        if epoch >= 0 and (why := why_none(session, self._best_saver, self.job.checkpoint_dir)):
            self.control.log(f"the weights of the best epoch ({epoch}) {why}: the best is sought anew")
            session.run(self.parts.set_best, {self.parts.best_value: [math.inf, epoch := -1]})
        return epoch

    def _open_summaries(self) -> None:
        os.makedirs(self.job.checkpoint_dir, exist_ok=True)
        self._writer = tf.summary.FileWriter(self.job.checkpoint_dir, self.parts.graph)

    def _listen(self) -> None:
        if self.chief and self._asked.take():
            self.control.log(f"pid {os.getpid()} saves at {SAVE.name}, and at {END.name} before it ends")

    def _start_feeder(self, raw: Any) -> None:
        entry, job, start = self.parts.queue, self.job, self.starts[self.rank]

        def enqueue(rows: Block) -> None:
            raw.run(entry.enqueue, dict(zip(entry.inputs, rows, strict=True)))

        def post(rows: int, same: bool) -> None:
            raw.run(self.parts.board.post_rows, {self.parts.board.rows_value: [rows, same]})

        doors, together = Doors(enqueue, lambda: raw.run(entry.close)), job.sync and job.workers > 1
        self._feeder = Feeder(
            job.plan(self.rank), self.partition, doors, job.uneven, job.epochs - job.begin_epoch,
            start._replace(epoch=start.epoch - job.begin_epoch), keep=together and job.uneven == PAD,
        )  # fmt: skip
        board = Board(post, lambda: raw.run(self.parts.board.rows))
        self._pace = Pace(self._feeder, board, job.uneven, job.batch_size, together, job.any_rows)
        self._feeder.start()

    # ------------------------------------------------------------------ epochs

    def _train(self, session: Any, raw: Any) -> None:
        begun, stopped = time.monotonic(), bool(self.epoch < self.job.epochs and raw.run(self.parts.board.stop)[0])
        if self.epoch < self.job.epochs and not stopped:
            self._begin(raw)
        elif self.chief:
            self._open_summaries()
        while self.epoch < self.job.epochs and not stopped:
            self._steps(session, raw)
            self.epoch, self.step = self.epoch + 1, 0
            stopped = self._end_epoch(raw)
        self._train_s = time.monotonic() - begun

    def _begin(self, raw: Any) -> None:
        """All workers agree on where they begin; nothing was written before."""
        if not self._pace.begin(self.step, lambda: self._meet(raw)):
            self.starts, self.step = [Start(self.epoch, 0)] * self.job.workers, 0
            if self.chief:
                self.control.log(
                    f"the rows come in another order than before: epoch {self.epoch + 1} begins again, and its rows "
                    "that were used before are used twice. Give `order_by` a column in which no two rows are equal, "
                    "and the seed, validation and feed_bytes of before, to have each used once"
                )
        self._post_mark(raw)
        self._meet(raw)
        if self.chief:
            table = [[epoch, step, self.job.batch_size] for epoch, step, _ in self.starts]
            raw.run(self.parts.set_positions, {self.parts.positions: table})
            self._open_summaries()
        self._meet(raw)
        self._feeder.go(self.epoch - self.job.begin_epoch, self.step)

    def _post_mark(self, raw: Any) -> None:
        """By which rows a checkpoint of this step is known again; before anything that they change can be saved."""
        mark = self._feeder.mark(self.epoch - self.job.begin_epoch, self.step)
        if mark != self._marked:
            raw.run(self.parts.board.post_mark, {self.parts.board.mark_value: list(mark)})
            self._marked = mark

    def _steps(self, session: Any, raw: Any) -> None:
        while not self._pace.over(self.step):
            if session.should_stop():
                raise InvalidArgumentError(
                    f"A training hook asked to stop at epoch {self.epoch + 1}, step {self.step}: a job ends after "
                    "`epochs`, or by `patience`. Drop the hook (such as StopAtStepHook)"
                )
            self.step += 1
            self._post_mark(raw)
            kind = self._pace.kind(self.step)
            if kind is Kind.IDLE:
                session.run(self.parts.train_op, self._idle)
                self._save_now_and_then(raw)
            else:
                self._step(session, raw, kind)
        if self.epoch == self._first_epoch:
            self._end_first_epoch(raw)

    @cached_property
    def _idle(self) -> dict[Any, Any]:
        return idle_feed(self.parts.graph, self.parts.queue.taken, self._feeder.filler())

    def _step(self, session: Any, raw: Any, kind: Kind) -> None:
        job, parts, rows = self.job, self.parts, self.job.batch_size
        feed: dict[Any, Any] = {} if job.sync else {parts.position_rank: self._position_row()}
        if kind is Kind.AGAIN and self.epoch == self._first_epoch:
            self._feeder.more()
        if kind is Kind.REST:
            rows = feed[parts.queue.batch_rows] = (self._feeder.rows or 0) - (self.step - 1) * job.batch_size
        summarise = self.chief and (self.step - 1) % job.summary_steps == 0
        fetches = [parts.train_op, parts.spec.loss, self._floats]
        fetches += [parts.loss_summary, parts.global_step] if summarise else []
        try:
            _, loss, floats, *summary = session.run(fetches, feed)
        except OutOfRangeError:
            if self._feeder.error is not None:
                raise self._feeder.error from None
            raise
        if not math.isfinite(loss):
            why = not_finite.why(job.layout, floats)
            raise InvalidArgumentError(f"The loss is {loss} at epoch {self.epoch + 1}, step {self.step}: {why}")
        self._after_step(float(loss), rows, summary, raw)

    def _end_first_epoch(self, raw: Any) -> None:
        """The number of steps is known. Rows in the queue that nobody wants in this epoch go."""
        entry, feeder = self.parts.queue, self._feeder
        if self.job.uneven == DROP:
            feeder.cut()
            while (resting := feeder.resting.wait(_DRAIN_S)) is False or raw.run(entry.size):
                if feeder.error is not None:
                    raise feeder.error
                if left := int(raw.run(entry.size)):
                    raw.run(entry.discard, {entry.discarded: left})
                elif resting:
                    break
        feeder.epoch_over(self._pace.steps or 0)

    def _after_step(self, loss: float, rows: int, summary: list[Any], raw: Any) -> None:
        self._examples += rows
        self._last_loss = loss
        if summary:
            self._writer.add_summary(*summary)
        self._save_now_and_then(raw)
        size, steps = self.job.batch_size, self._pace.steps or 0
        whole = steps * size  # of an epoch; the last batch is not filled up where all rows join and no other does
        if self.job.uneven == JOIN and self._feeder.rows is not None:
            whole = min(whole, self._feeder.rows)
        done, total = self.epoch * whole + min(self.step * size, whole or self.step * size), self.job.epochs * whole
        figures = {"examples": done, "total": total, "epoch": self.epoch, "loss": loss}
        self.control.progress(figures, force=self.step == steps)

    def _save_now_and_then(self, raw: Any) -> None:
        if not self.chief:
            return
        asked = self._asked.answered()
        if asked is not None or time.monotonic() - self._saved_s >= self.job.checkpoint_s:
            self._save(raw)
        if asked is not None:
            self.control.log(f"{asked.name}: saved at epoch {self.epoch + 1}, step {self.step}")
        if asked is END:
            raise UnavailableError(f"The chief was told to end ({END.name}) and saved before")

    def _position_row(self) -> list[int]:
        return [self.epoch, self.step, self.job.batch_size]

    def _meet(self, raw: Any) -> None:
        """Nobody goes on before everybody is here."""
        raw.run(self.parts.board.arrive)
        raw.run(self.parts.board.leave)

    def _end_epoch(self, raw: Any) -> bool:
        """Evaluate together, keep the best, save; whether training stops here. All workers agree on the answer."""
        board = self.parts.board
        self._meet(raw)
        raw.run(board.post, {board.row: self._validation.sums()})
        self._meet(raw)
        if self.chief:
            self._judge(raw)
        self._meet(raw)
        return bool(raw.run(board.stop)[0])

    def _new_session(self, graph: Any) -> Any:
        config = tf.ConfigProto(operation_timeout_in_ms=int(self.job.step_timeout_s * 1000), allow_soft_placement=True)
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
        evaluated = sums[:, 1].sum() > 0
        said = loss if evaluated else math.nan
        self.control.epoch({"epoch": self.epoch, "validation_loss": said, "global_step": int(step)})
        better = not evaluated or loss < best[0]
        if better:
            raw.run(self.parts.set_best, {self.parts.best_value: [loss if evaluated else math.inf, self.epoch]})
            self._best_saver.save(raw, os.path.join(self.job.checkpoint_dir, BEST, "model.ckpt"), global_step=int(step))
        since = self.epoch - (self.epoch if better else int(best[1]))
        self._stop_if_patient(raw, since)
        self._save(raw)
        if not evaluated:
            self.control.log(f"epoch {self.epoch} is done (no row is kept for validation)")
            return
        self.control.log(f"epoch {self.epoch}: validation loss {loss:.5f}" + (", the best so far" if better else ""))
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
            table = [self._position_row()] * self.job.workers
            raw.run(self.parts.set_positions, {self.parts.positions: table})
        self._saver.save(raw, os.path.join(self.job.checkpoint_dir, "model.ckpt"), global_step=self.parts.global_step)
        self._saved_s = time.monotonic()

    def _result(self) -> dict[str, Any]:
        if self._writer is not None:
            self._writer.close()
        figures = {"examples": self._examples, "train_s": self._train_s, "loss": self._last_loss}
        return {**figures, "rank": self.rank, "epochs": self.epoch}


class _Creator:
    """A session that the chief has initialised or restored."""

    def __init__(self, trainer: Trainer):
        self._trainer = trainer

    def create_session(self) -> Any:
        return self._trainer.session()
