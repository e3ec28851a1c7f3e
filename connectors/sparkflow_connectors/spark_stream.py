"""Training on a streaming DataFrame: each micro-batch is an epoch of one training that goes on and on.

The number of a micro-batch is the number of its epoch, and the position in the data is in the checkpoint. So a
micro-batch that Spark hands out again, after a driver or a task was lost, goes on at the row where the checkpoint was
written, or is passed over if it was trained to its end: each row is used once. While a micro-batch is trained on, Spark
collects the next one; how many rows that may be is set at the source (maxFilesPerTrigger, maxOffsetsPerTrigger). How
few they are nobody chooses, so that is no mistake: under "pad" and "join" workers without rows take part, and what has
no full batch for each worker is passed over under "drop".
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from sparkflow_connectors.directory import locked
from sparkflow_connectors.job import Job
from sparkflow_connectors.launch import trained
from sparkflow_connectors.ledger import saved_epoch
from sparkflow_connectors.model import Model
from sparkflow_connectors.pace import NO_FULL_BATCH
from sparkflow_connectors.spark_errors import unread
from sparkflow_connectors.stream_columns import forget, note
from sparkflow_connectors.stream_files import check_there
from sparkflow_connectors.stream_rows import with_files
from sparkflow_runtime.wire.errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError

_NOTES = "stream"  # Spark's own notes of the stream, in the checkpoint directory
# What follows from the stream; and there is no best of epochs that were judged by different rows.
_NOT_GIVEN = ("epochs", "begin_epoch", "any_rows", "validation", "patience")

log = logging.getLogger("sparkflow")


class TrainingStream:
    """A training that is under way. query: Spark's StreamingQuery. model: after the last micro-batch, an earlier
    stream's at first; None before the first one is done."""

    def __init__(self) -> None:
        self.query: StreamingQuery
        self.model: Model | None = None
        self._error: Exception | None = None
        self._goes_on = ""

    def awaitTermination(self, timeout: int | None = None) -> bool:
        """Until the stream ends, or for so many seconds; whether it has ended. Raises what ended a training, as
        itself; that somebody has stopped the stream is no error."""
        try:
            ended = self.query.awaitTermination(timeout)
        except Exception as error:
            if f"runId = {self.query.runId}] was stopped" in str(self._error or error):
                return True
            if self._error is not None:
                raise self._error from None
            if self._goes_on:
                error.add_note(self._goes_on)
            raise
        return True if timeout is None else bool(ended)

    def stop(self) -> None:
        """End the training that is under way, if any, and the stream."""
        self.query.stop()


def _check_notes(checkpoint_dir: str, notes: str) -> None:
    """Raises FailedPreconditionError where a stream would begin with a micro-batch that the checkpoint counts done."""
    epochs, begun = saved_epoch(checkpoint_dir), _numbers(notes, "offsets")
    if epochs > max(begun, default=-1) + 1:
        since = (
            f"and its stream has begun {max(begun) + 1} micro-batches: other rows were trained on since, and new ones "
            if begun
            else f"and was no stream, or whose notes {notes} are gone: as many micro-batches "
        )
        raise FailedPreconditionError(
            f"{checkpoint_dir} holds the checkpoint of a training that has made {epochs} epochs {since}would be passed "
            "over. Give another checkpoint_dir; a model function can begin with those variables by "
            "tf.train.init_from_checkpoint"
        )
    if not epochs and (done := _numbers(notes, "commits")):  # of no rows, maybe: those leave no checkpoint
        log.warning(
            "%s has no checkpoint, and its stream has %d micro-batches behind it: the model begins anew, without their "
            "rows. Remove %s to train on them again", checkpoint_dir, max(done) + 1, notes
        )  # fmt: skip


def _numbers(notes: str, kind: str) -> list[int]:
    """Of the micro-batches that Spark has noted there, of which it keeps the last ones."""
    with contextlib.suppress(FileNotFoundError):
        return [int(name) for name in os.listdir(os.path.join(notes, kind)) if name.isdecimal()]
    return []


def _triggered(writer: DataStreamWriter, trigger: Mapping[str, Any]) -> DataStreamWriter:
    if not trigger:
        return writer
    try:
        return writer.trigger(**trigger)
    except (TypeError, PySparkException) as error:
        raise InvalidArgumentError(
            f"trigger={trigger!r} is none that DataStreamWriter.trigger has, such as {{'availableNow': True}} or "
            f"{{'processingTime': '10 seconds'}}: {error}"
        ) from None


def _check_asked(df: DataFrame, options: Mapping[str, Any]) -> None:
    """Raises InvalidArgumentError, or UnimplementedError, on what no stream can be trained of."""
    if not df.isStreaming:
        raise InvalidArgumentError(
            "train_stream is for a streaming DataFrame (spark.readStream); this one is for train"
        )
    if getattr(df.sparkSession, "_sc", None) is None:
        raise UnimplementedError(
            "train_stream over Spark Connect: the server runs what handles a micro-batch, where no training can be led "
            "from. Submit the program to the cluster instead"
        )
    for name in _NOT_GIVEN:
        if name in options:
            raise InvalidArgumentError(
                f"train_stream has no {name}: each micro-batch is an epoch, and the last is the best"
            )


def stream(
    train: Callable[..., Model],
    df: DataFrame,
    job: Job,
    trigger: Mapping[str, Any],
    on_model: Callable[[Model], object] | None,
    options: Mapping[str, Any],
) -> TrainingStream:
    """See spark.train_stream. train: of spark.py, to be called with these options. job: what they say, checked."""
    _check_asked(df, options)
    found = TrainingStream()

    def each(batch: DataFrame, number: int) -> None:
        try:
            if saved_epoch(job.checkpoint_dir) > number:
                return
            check_there(batch.sparkSession, notes, number)
            if batch.isEmpty():
                return
            position = {"begin_epoch": number, "epochs": number + 1, "validation": 0.0, "any_rows": True}
            model = train(batch, **position, **options)
            found.model = model
            if on_model is not None:
                on_model(model)
        except Exception as error:
            if isinstance(error, InvalidArgumentError) and NO_FULL_BATCH in error.message:
                log.warning("micro-batch %d is passed over: %s", number, error.message)
                return
            if isinstance(error, InvalidArgumentError):
                error = with_files(error, batch, job.columns)
            found._error = unread(error) or error  # Spark keeps the text of it alone
            raise

    notes, made = os.path.join(job.checkpoint_dir, _NOTES), not os.path.isdir(job.checkpoint_dir)
    # Without the scheme it would be a path of Spark's default file system, which need not be mounted.
    writer = df.writeStream.foreachBatch(each).option("checkpointLocation", f"file://{notes}")
    writer = _triggered(writer, trigger)
    with locked(job.checkpoint_dir):  # before Spark writes its notes there
        _check_notes(job.checkpoint_dir, notes)
        found.model = trained(job)
        begins = note(job.checkpoint_dir, notes, job.columns)
    if _numbers(notes, "offsets"):
        found._goes_on = (
            f"The stream goes on from {notes}, which Spark wrote for the source of the stream that began there. Where "
            "this DataFrame reads another source, give another checkpoint_dir"
        )
    try:
        found.query = writer.start()
    except Exception:
        if begins:
            forget(notes)
        for folder in (notes, job.checkpoint_dir) if made else ():
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        raise
    return found
