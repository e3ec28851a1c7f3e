"""tf.keras.callbacks: what is called while a model is fitted, tested or asked."""

from __future__ import annotations

import csv
import os
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import Summary

from sparkflow.keras.callback import BaseLogger, Callback, CallbackList, History, ProgbarLogger
from sparkflow.keras.callbacks_watching import EarlyStopping, LearningRateScheduler, ModelCheckpoint, ReduceLROnPlateau
from sparkflow.summary.writer import FileWriter

__all__ = [
    "BaseLogger", "Callback", "CallbackList", "EarlyStopping", "History", "LearningRateScheduler", "ModelCheckpoint",
    "ProgbarLogger", "ReduceLROnPlateau",
]  # fmt: skip


class LambdaCallback(Callback):
    """The functions that are given, each at its time."""

    def __init__(
        self,
        on_epoch_begin: Any = None,
        on_epoch_end: Any = None,
        on_batch_begin: Any = None,
        on_batch_end: Any = None,
        on_train_begin: Any = None,
        on_train_end: Any = None,
        **kwargs: Any,
    ):
        given = {
            "on_epoch_begin": on_epoch_begin, "on_epoch_end": on_epoch_end, "on_batch_begin": on_batch_begin,
            "on_batch_end": on_batch_end, "on_train_begin": on_train_begin, "on_train_end": on_train_end, **kwargs,
        }  # fmt: skip
        for name, function in given.items():
            if function is not None:
                setattr(self, name, function)


class TerminateOnNaN(Callback):
    """Training stops once the loss is no number."""

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        loss = (logs or {}).get("loss")
        if loss is not None and not np.isfinite(loss):
            print(f"Batch {batch}: Invalid loss, terminating training")
            self.model.stop_training = True


class CSVLogger(Callback):
    """A row of each epoch's numbers in a file. append: behind what is there."""

    def __init__(self, filename: str, separator: str = ",", append: bool = False):
        self.filename, self.sep, self.append = filename, separator, append
        self.keys: list[str] | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        there = self.append and os.path.exists(self.filename) and os.path.getsize(self.filename) > 0
        self._header = not there
        self._file = open(self.filename, "a" if self.append else "w", newline="", encoding="utf-8")  # noqa: SIM115

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        row = dict(logs or {})
        self.keys = self.keys or sorted(row)
        writer = csv.DictWriter(self._file, ["epoch", *self.keys], delimiter=self.sep, extrasaction="ignore",
                                lineterminator="\n", restval="NA")  # fmt: skip
        if self._header:
            writer.writeheader()
            self._header = False
        writer.writerow({"epoch": epoch, **row})
        self._file.flush()

    def on_train_end(self, logs: Any = None) -> None:
        self._file.close()


class TensorBoard(Callback):
    """Event files of each epoch's numbers, and of the graph, in log_dir. histogram_freq, write_images and embeddings
    are taken and write nothing."""

    def __init__(
        self, log_dir: str = "./logs", histogram_freq: int = 0, batch_size: int = 32, write_graph: bool = True,
        write_grads: bool = False, write_images: bool = False, update_freq: Any = "epoch", **kwargs: Any,
    ):  # fmt: skip
        self.log_dir, self.write_graph, self.update_freq = os.fspath(log_dir), write_graph, update_freq
        self._seen, self._since = 0, 0

    def on_train_begin(self, logs: Any = None) -> None:
        tensors = self.model._input_tensors() if self.model is not None and self.write_graph else []
        self._writer = FileWriter(self.log_dir, tensors[0].graph if tensors else None)

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        size = (logs or {}).get("size", 1)
        self._seen, self._since = self._seen + size, self._since + size
        every = 1 if self.update_freq == "batch" else self.update_freq
        if every != "epoch" and self._since >= every:
            self._since = 0
            kept = {f"batch_{k}": v for k, v in (logs or {}).items() if k not in ("batch", "size")}
            self._write(kept, self._seen)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._write({f"epoch_{k}": v for k, v in (logs or {}).items()}, epoch)

    def _write(self, numbers: dict[str, Any], step: int) -> None:
        values = [Summary.Value(tag=k, simple_value=float(v)) for k, v in numbers.items() if np.ndim(v) == 0]
        self._writer.add_summary(Summary(value=values), step)
        self._writer.flush()

    def on_train_end(self, logs: Any = None) -> None:
        self._writer.close()
