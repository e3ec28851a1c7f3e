"""Callback, the base of tf.keras.callbacks; and what calls them, keeps the numbers, and prints them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.keras.progress import Progbar


class Callback:
    """A subclass says what happens at the times it names. `self.model` and `self.params` are set before."""

    model: Any = None
    params: dict[str, Any]
    validation_data: Any = None

    def set_params(self, params: dict[str, Any]) -> None:
        self.params = params

    def set_model(self, model: Any) -> None:
        self.model = model

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None: ...
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None: ...
    def on_batch_begin(self, batch: int, logs: Any = None) -> None: ...
    def on_batch_end(self, batch: int, logs: Any = None) -> None: ...

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.on_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.on_batch_end(batch, logs)

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None: ...
    def on_test_batch_end(self, batch: int, logs: Any = None) -> None: ...
    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None: ...
    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None: ...
    def on_train_begin(self, logs: Any = None) -> None: ...
    def on_train_end(self, logs: Any = None) -> None: ...
    def on_test_begin(self, logs: Any = None) -> None: ...
    def on_test_end(self, logs: Any = None) -> None: ...
    def on_predict_begin(self, logs: Any = None) -> None: ...
    def on_predict_end(self, logs: Any = None) -> None: ...


class CallbackList:
    """All callbacks of one fit, in their order: the user's, then what prints, then the history."""

    def __init__(self, given: Any, model: Any, params: dict[str, Any], verbose: int):
        found = list(given) if isinstance(given, (list, tuple)) else [given] if given is not None else []
        own = [c for c in found if isinstance(c, History)]
        self.history = own[0] if own else History()
        self.callbacks = [*found, *([ProgbarLogger()] if verbose else []), *([] if own else [self.history])]
        for callback in self.callbacks:
            callback.set_params(params)
            callback.set_model(model)

    def _all(self, what: str, *args: Any) -> None:
        for callback in self.callbacks:
            function = getattr(callback, what, None)
            if function is not None:
                function(*args)

    def batch_begin(self, kind: str, index: int, logs: dict[str, Any]) -> None:
        self._all(f"on_{kind}_batch_begin", index, logs)

    def batch_end(self, kind: str, index: int, logs: dict[str, Any]) -> None:
        self._all(f"on_{kind}_batch_end", index, logs)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda *args: self._all(name, *args)


class History(Callback):
    """epoch: the epochs that were run; history: for each number's name, its value after each of them."""

    def __init__(self) -> None:
        self.epoch: list[int] = []
        self.history: dict[str, list[Any]] = {}

    def on_train_begin(self, logs: Any = None) -> None:
        self.epoch = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)


class BaseLogger(Callback):
    """Does nothing: fit's own numbers are means over the epoch already."""

    def __init__(self, stateful_metrics: Any = None):
        self.stateful_metrics = set(stateful_metrics or ())


class ProgbarLogger(Callback):
    """Prints a line an epoch (verbose=2), or a bar that grows (1)."""

    def __init__(self, count_mode: str = "samples", stateful_metrics: Any = None):
        if count_mode not in ("samples", "steps"):
            raise ValueError(f"Unknown `count_mode`: {count_mode!r}; it is samples or steps")
        self.count_mode = count_mode

    def on_train_begin(self, logs: Any = None) -> None:
        if self.params.get("samples"):
            print(f"Train on {self.params['samples']} samples")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self.params["epochs"] > 1:
            print(f"Epoch {epoch + 1}/{self.params['epochs']}")
        self._seen = 0
        samples = self.params.get("samples")
        self._bar = Progbar(samples or self.params.get("steps"), verbose=self.params["verbose"],
                            unit_name="sample" if samples else "step")  # fmt: skip

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._seen += logs["size"] if self.params.get("samples") else 1
        if self.params["verbose"] == 1 and self._seen != self._bar.target:
            self._bar.update(self._seen, [(k, v) for k, v in logs.items() if k not in ("batch", "size")], stateful=True)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._bar.finish(self._seen, list((logs or {}).items()))
