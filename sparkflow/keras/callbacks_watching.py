"""Callbacks that watch a number from epoch to epoch, or set the learning rate."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow import logging
from sparkflow.keras import backend
from sparkflow.keras.callback import Callback


class LearningRateScheduler(Callback):
    """schedule(epoch), or schedule(epoch, rate now), gives each epoch's learning rate."""

    def __init__(self, schedule: Callable[..., float], verbose: int = 0):
        self.schedule, self.verbose = schedule, verbose

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        now = _rate(self.model)
        try:
            rate = self.schedule(epoch, now)
        except TypeError:  # it takes the epoch alone
            rate = self.schedule(epoch)
        if not isinstance(rate, (float, int, np.floating, np.integer)):
            raise ValueError(f'The output of the "schedule" function should be float, got {rate!r}')
        backend.set_value(self.model.optimizer.lr, rate)
        if self.verbose:
            print(f"\nEpoch {epoch + 1:05d}: LearningRateScheduler setting learning rate to {rate}.")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if logs is not None:
            logs["lr"] = _rate(self.model)


def _rate(model: Any) -> float:
    """Raises ValueError where the optimizer's rate is no variable."""
    rate = getattr(model.optimizer, "lr", None)
    if not hasattr(rate, "load"):
        raise ValueError(
            f"The optimizer {type(model.optimizer).__name__} has no learning rate that can be set: use one of "
            "tf.keras.optimizers with a number as its rate"
        )
    return float(backend.get_value(rate))


class _Watching(Callback):
    """Of one number, whether it became better. mode: "min", "max", or "auto" by its name."""

    def _watch(self, monitor: str, mode: str, min_delta: float) -> None:
        if mode not in ("auto", "min", "max"):
            logging.warning("%s mode %s is unknown, fallback to auto mode.", type(self).__name__, mode)
            mode = "auto"
        up = "acc" in monitor or monitor.startswith("fmeasure") or "auc" in monitor
        self._more_is_better = mode == "max" or (mode == "auto" and up)
        self.monitor, self.mode, self.min_delta = monitor, mode, abs(min_delta)
        self.best = -np.inf if self._more_is_better else np.inf

    def _is_better(self, value: float, than: float) -> bool:
        if self._more_is_better:
            return bool(value - self.min_delta > than)
        return bool(value + self.min_delta < than)

    def _value(self, logs: Any) -> Any:
        value = (logs or {}).get(self.monitor)
        if value is None:
            logging.warning(
                "%s conditioned on metric `%s` which is not available. Available metrics are: %s",
                type(self).__name__, self.monitor, ",".join(logs or ()),
            )  # fmt: skip
        return value


class EarlyStopping(_Watching):
    """Stops once `monitor` was not better for `patience` epochs. restore_best_weights: those of the best epoch."""

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0,
        patience: int = 0,
        verbose: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
    ):
        self._watch(monitor, mode, min_delta)
        self.patience, self.verbose, self.baseline = patience, verbose, baseline
        self.restore_best_weights = restore_best_weights

    def on_train_begin(self, logs: Any = None) -> None:
        worst = -np.inf if self._more_is_better else np.inf
        self.wait, self.stopped_epoch, self.best_weights = 0, 0, None
        self.best = worst if self.baseline is None else self.baseline

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        value = self._value(logs)
        if value is None:
            return
        if self._is_better(value, self.best):
            self.best, self.wait = value, 0
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            return
        self.wait += 1
        if self.wait >= self.patience:
            self.stopped_epoch = epoch
            self.model.stop_training = True
            if self.restore_best_weights and self.best_weights is not None:
                if self.verbose:
                    print("Restoring model weights from the end of the best epoch.")
                self.model.set_weights(self.best_weights)

    def on_train_end(self, logs: Any = None) -> None:
        if self.stopped_epoch > 0 and self.verbose:
            print(f"Epoch {self.stopped_epoch + 1:05d}: early stopping")


class ReduceLROnPlateau(_Watching):
    """The learning rate times `factor` once `monitor` was not better for `patience` epochs, down to min_lr."""

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 0,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0,
        **kwargs: Any,
    ):
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau does not support a factor >= 1.0, got {factor}")
        min_delta = kwargs.pop("epsilon", min_delta)
        if kwargs:
            raise TypeError(f"ReduceLROnPlateau: unknown arguments {sorted(kwargs)}")
        self._watch(monitor, mode, min_delta)
        self.factor, self.patience, self.verbose = factor, patience, verbose
        self.cooldown, self.min_lr = cooldown, min_lr

    def on_train_begin(self, logs: Any = None) -> None:
        self.best = -np.inf if self._more_is_better else np.inf
        self.wait, self.cooldown_counter = 0, 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if logs is not None:
            logs["lr"] = _rate(self.model)
        value = self._value(logs)
        if value is None:
            return
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.wait = 0
        if self._is_better(value, self.best):
            self.best, self.wait = value, 0
        elif self.cooldown_counter <= 0:
            self.wait += 1
            if self.wait >= self.patience:
                self._reduce(epoch)

    def _reduce(self, epoch: int) -> None:
        old = _rate(self.model)
        if old > self.min_lr:
            new = max(old * self.factor, self.min_lr)
            backend.set_value(self.model.optimizer.lr, new)
            if self.verbose:
                print(f"\nEpoch {epoch + 1:05d}: ReduceLROnPlateau reducing learning rate to {new}.")
            self.cooldown_counter, self.wait = self.cooldown, 0


class ModelCheckpoint(_Watching):
    """Saves the model, or its weights alone, into `filepath` after each epoch, or once each `save_freq` examples; with
    save_best_only where `monitor` is the best yet. filepath may name epoch and numbers: "{epoch:02d}-{val_loss}"."""

    def __init__(
        self,
        filepath: str,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_best_only: bool = False,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: Any = "epoch",
        load_weights_on_restart: bool = False,
        period: int = 1,
        **kwargs: Any,
    ):
        if kwargs:
            raise TypeError(f"ModelCheckpoint: unknown arguments {sorted(kwargs)}")
        if save_freq != "epoch" and not isinstance(save_freq, int):
            raise ValueError(f"Unrecognized save_freq: {save_freq!r}; it is 'epoch' or a number of examples")
        self._watch(monitor, mode, 0.0)
        self.filepath, self.verbose = os.fspath(filepath), verbose
        self.save_best_only, self.save_weights_only = save_best_only, save_weights_only
        self.save_freq, self.period, self._restarts = save_freq, period, load_weights_on_restart
        self._since, self._examples = 0, 0

    def on_train_begin(self, logs: Any = None) -> None:
        if self._restarts and not re.search(r"{[^}]+}", self.filepath):
            from sparkflow.keras.saving import weights_are_at

            if weights_are_at(self.filepath):
                self.model.load_weights(self.filepath)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        if isinstance(self.save_freq, int):
            self._examples += (logs or {}).get("size", 1)
            if self._examples >= self.save_freq:
                self._examples = 0
                self._save(self._epoch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._since += 1
        if self.save_freq == "epoch" and self._since >= self.period:
            self._since = 0
            self._save(epoch, logs)

    def _save(self, epoch: int, logs: Any) -> None:
        if self.save_best_only:
            value = self._value(logs)
            if value is None or not self._is_better(value, self.best):
                return
            self.best = value
        path = self.filepath.format(epoch=epoch + 1, **{k: v for k, v in (logs or {}).items() if k != "epoch"})
        if self.verbose:
            print(f"\nEpoch {epoch + 1:05d}: saving model to {path}")
        (self.model.save_weights if self.save_weights_only else self.model.save)(path, overwrite=True)
