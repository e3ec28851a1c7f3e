"""Job: everything that a role must know. It travels once, from the driver to every task."""

from __future__ import annotations

import json
import math
import numbers
import os
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from secrets import token_hex
from typing import Any

import numpy as np

from sparkflow_connectors.feeding import PAD, UNEVEN
from sparkflow_connectors.layout import Layout
from sparkflow_connectors.schema import Columns, check_trainable
from sparkflow_connectors.shipping import Shipped
from sparkflow_connectors.windows import Plan, plan
from sparkflow_runtime.wire.edges import check_carried
from sparkflow_runtime.wire.errors import InvalidArgumentError

ModelFn = Callable[..., Any]
STRATEGIES = PS, ALL_REDUCE = "ps", "all_reduce"
_GIVEN = "model_fn", "columns", "checkpoint_dir"  # by arguments of their own
_OF_ATTEMPT = "run_id", "secret", "attempt", "driver_url"  # nobody's to choose
# The least and what is too much: a step's deadline travels as whole milliseconds, of which 0 is none.
_SECONDS = {"step_timeout_s": (0.001, 1e8), "keepalive_s": (0.1, 1e6), "checkpoint_s": (0.0, math.inf)}


@dataclass(frozen=True)
class Job:
    """A training: the model function, its columns, and how to train.

    model_fn(features, labels, mode, params, config) -> EstimatorSpec, as tf.estimator has it (params, config optional).
    strategy: "ps", with variables on `ps` parameter servers; or "all_reduce", with all variables on every worker and no
    server: optimizers then apply the mean of all workers' gradients, and workers stay in step.
    carried_as: "bfloat16" or "float16" to have float32 travel between processes in half the bytes.
    workers, ps: how many of each. sync: the model's optimizer is a SyncReplicasOptimizer; workers stay in step.
    batch_size: examples a worker and step. validation: the fraction of each worker's rows kept to choose the best
    epoch.
    begin_epoch: the epoch of which these are the rows; those before it had other rows (micro-batches of a stream).
    any_rows: fewer rows than workers are no mistake (a micro-batch is as small as it comes).
    patience: epochs without a better validation loss before training stops; 0 never stops early.
    uneven: what becomes of batches that are not full, and of workers with fewer rows than others: "pad" (go on with the
    epoch's first rows; the default), "join" (smaller last batches, then gradients of zero: each row is used once an
    epoch), or "drop" (only full batches; the first worker without one ends the epoch for all). See feeding.py.
    feed_bytes: memory for rows in each worker, between the partition and the step: the window in which they are
    shuffled, and the queue. Whoever sends more waits. Rows that are needed again lie on disk.
    checkpoint_s: seconds between checkpoints besides the one at each epoch's end; signals ask for more, see asked.py.
    summary_steps: steps between summaries. threads: of BLAS, in each process. max_restarts: how often a job that lost a
    task begins again from its last checkpoint.
    step_timeout_s: the longest a step may wait for anybody. keepalive_s: how long a process may say nothing before it
    counts as lost. seed: of the graph, the shuffle and the validation split.
    """

    model_fn: ModelFn
    columns: Columns
    checkpoint_dir: str
    workers: int = 1
    ps: int = 1
    sync: bool = True
    strategy: str = PS
    carried_as: str = "float32"
    epochs: int = 1
    batch_size: int = 512
    params: Mapping[str, Any] = field(default_factory=dict)
    validation: float = 0.1
    uneven: str = PAD
    feed_bytes: int = 256 << 20
    begin_epoch: int = 0
    any_rows: bool = False
    patience: int = 0
    checkpoint_s: float = 10.0
    summary_steps: int = 50
    step_timeout_s: float = 120.0
    keepalive_s: float = 10.0
    max_restarts: int = 3
    seed: int = 1
    threads: int = 1  # BLAS threads of each process
    run_id: str = ""
    secret: bytes = b""
    attempt: int = 1
    driver_url: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.params, Mapping | None):
            raise InvalidArgumentError(
                f"params must be a dict of what the model function reads by name, got {type(self.params).__name__}"
            )
        object.__setattr__(self, "params", dict(self.params or {}))
        object.__setattr__(self, "checkpoint_dir", _directory(self.checkpoint_dir))
        if self.strategy not in STRATEGIES:
            raise InvalidArgumentError(f"strategy must be one of {STRATEGIES}, got {self.strategy!r}")
        for name in ("sync", "any_rows"):
            object.__setattr__(self, name, check_switch(name, getattr(self, name)))
        if self.strategy == ALL_REDUCE:
            if not self.sync:
                raise InvalidArgumentError("strategy='all_reduce' keeps the workers in step: it cannot be sync=False")
            object.__setattr__(self, "ps", 0)
        object.__setattr__(self, "carried_as", check_carried(self.carried_as, "carried_as") or "float32")
        if self.uneven not in UNEVEN:
            raise InvalidArgumentError(f"uneven must be one of {UNEVEN}, got {self.uneven!r}")
        for name in (
            "workers",
            *(["ps"] if self.strategy == PS else []),
            "epochs",
            "batch_size",
            "summary_steps",
            "threads",
            "feed_bytes",
        ):
            self._check_whole(name, 1)
        for name in ("begin_epoch", "patience", "max_restarts", "seed"):
            self._check_whole(name, 0)
        for name, (least_s, below_s) in _SECONDS.items():
            self._check_seconds(name, least_s, below_s)
        if self.ps > self.workers:
            raise InvalidArgumentError(
                f"ps is {self.ps} and workers {self.workers}: parameter servers live beside the first workers, "
                "so there are at most as many. Use more workers or fewer servers"
            )
        if not (_is_number(self.validation) and 0 <= self.validation < 1):
            raise InvalidArgumentError(f"validation must be a fraction in [0, 1), got {self.validation!r}")
        object.__setattr__(self, "validation", float(self.validation))
        check_trainable(self.columns)
        self.plan(0)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "model_fn": Shipped(self.model_fn)}

    def _check_whole(self, name: str, least: int) -> None:
        object.__setattr__(self, name, check_whole(name, getattr(self, name), least))

    def _check_seconds(self, name: str, least_s: float, below_s: float) -> None:
        value = getattr(self, name)
        if not (_is_number(value) and value > 0):
            raise InvalidArgumentError(f"{name} must be a positive number of seconds, got {value!r}")
        if not least_s <= value <= below_s or value == below_s < math.inf:
            raise InvalidArgumentError(
                f"{name} must be at least {least_s:g} and below {below_s:g} seconds, got {value!r}"
            )
        object.__setattr__(self, name, float(value))

    @property
    def shared_device(self) -> str:
        """The task that holds what all workers share besides the model's variables."""
        return "/job:ps/task:0" if self.strategy == PS else "/job:worker/task:0"

    @property
    def layout(self) -> Layout:
        """How a row lies in memory, the same in every task."""
        return Layout.of(self.columns)

    def plan(self, rank: int) -> Plan:
        """How the rows of a worker are cut. Raises InvalidArgumentError where feed_bytes is too small for them."""
        return plan(self.seed, rank, self.validation, self.batch_size, max(self.layout.row_bytes, 1), self.feed_bytes)

    def cluster(self, ps: Sequence[str], workers: Sequence[str]) -> dict[str, Sequence[str]]:
        return {"ps": ps, "worker": workers} if self.strategy == PS else {"worker": workers}

    def for_attempt(self, attempt: int, driver_url: str, secret: bytes) -> Job:
        """The same training under a new run id, so that tasks of an earlier attempt cannot take part."""
        return replace(self, run_id=token_hex(6), secret=secret, attempt=attempt, driver_url=driver_url)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_whole(name: str, value: Any, least: int) -> int:
    """Raises InvalidArgumentError on what is no whole number (True is none) of at least `least`."""
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_whole or not least <= int(value) < 2**63:
        raise InvalidArgumentError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def check_switch(name: str, value: Any) -> bool:
    """Raises InvalidArgumentError on anything but True and False: "no" would pass for true."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgumentError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def _directory(path: Any) -> str:
    """The absolute path of a checkpoint directory: tasks run in other working directories than the driver."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else ""
    if not text:
        raise InvalidArgumentError(f"checkpoint_dir must be the path of a directory, got {path!r}")
    if "://" in text:
        raise InvalidArgumentError(
            f"checkpoint_dir must be a path of a file system that all tasks see, got the URL {text!r}: mount it first"
        )
    try:
        found = os.path.abspath(os.path.expanduser(text))
    except FileNotFoundError:
        raise InvalidArgumentError(
            f"checkpoint_dir {text!r} is relative, and this process's working directory has been removed. Give a path "
            "from the root"
        ) from None
    if os.path.exists(found) and not os.path.isdir(found):
        raise InvalidArgumentError(f"checkpoint_dir {found!r} is a file; it must be a directory")
    return found


@dataclass(frozen=True)
class Announcement:
    """What a role tells all others, once: where it serves."""

    run_id: str
    rank: int
    worker: str
    ps: str | None
    position: list[int] | None = None  # of the checkpoint, as the chief read it: see ledger.py

    def encode(self) -> str:
        return json.dumps(self.__dict__)

    @classmethod
    def decode_all(cls, texts: list[str], run_id: str) -> list[Announcement]:
        """By rank. Raises InvalidArgumentError when a task of another run answers."""
        found = sorted((cls(**json.loads(t)) for t in texts), key=lambda a: a.rank)
        strangers = [a for a in found if a.run_id != run_id]
        if strangers:
            raise InvalidArgumentError(f"Run {run_id}: rank {strangers[0].rank} belongs to run {strangers[0].run_id}")
        return found


def _check_model_fn(model_fn: Any) -> None:
    if callable(model_fn) and not isinstance(model_fn, type) and not hasattr(model_fn, "fit"):
        return
    instead = ""
    if hasattr(model_fn, "model_fn"):
        instead = ". An Estimator's is its model_fn"
    elif hasattr(model_fn, "fit"):
        instead = ". Call the Keras model in one, or give that of tf.keras.estimator.model_to_estimator"
    raise InvalidArgumentError(
        "model_fn must be a function of (features, labels, mode, params, config) that returns a "
        f"tf.estimator.EstimatorSpec, got {reprlib.repr(model_fn)}{instead}"
    )


def job_of(model_fn: Any, columns: Columns, checkpoint_dir: Any, options: Mapping[str, Any]) -> Job:
    """A Job of options as a user gives them. Raises InvalidArgumentError on one there is not."""
    _check_model_fn(model_fn)
    known = [field.name for field in fields(Job) if field.name not in (*_GIVEN, *_OF_ATTEMPT)]
    for name in options:
        if name not in known:
            near = get_close_matches(name, known, 1)
            told = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise InvalidArgumentError(f"Option {name!r} of train is unknown: {told}")
    return Job(model_fn, columns, checkpoint_dir, **options)
