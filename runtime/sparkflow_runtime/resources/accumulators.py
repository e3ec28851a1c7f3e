"""Accumulators: gradients of several replicas, averaged in the order of the replicas and not of their arrival.

Floating point addition is not associative, so a sum in arrival order differs from run to run. A contribution is
therefore kept as it is, with the rank of the replica that sent it, and added at the time of taking, in rank order;
contributions of one rank keep the order in which they came.

Rows of one index within a contribution are added up before anything else, in their order: it makes no difference
whether their sender has done that already (master/passes/distinct_rows.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from operator import itemgetter
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkflow_runtime.resources.row_means import ascend, column, merged, summed
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    OpError,
)

if TYPE_CHECKING:
    from sparkflow_runtime.resources.joint_takes import JointTake

Done = Callable[[OpError | None, Sequence[Any]], None]
_RANK = itemgetter(0)
Dims = tuple[int | None, ...] | None


class Take:
    __slots__ = ("done", "joint", "number", "over", "required", "step", "token", "watched")

    def __init__(self, required: int, done: Done | None, step: Any, joint: JointTake | None = None, number: int = 0):
        """joint: the take that it is a part of, the how-manieth, and which gets what was given as it came."""
        self.required, self.done, self.step, self.joint, self.number = required, done, step, joint, number
        self.over = self.watched = False
        self.token: Any = None

    def tell(self, error: OpError | None, outputs: Sequence[Any]) -> None:
        if self.joint is None:
            self.done(error, outputs)  # type: ignore[misc]
        elif error is None:
            self.joint.taken([(self.number, outputs)])
        else:
            self.joint.failed(error)


class Accumulator:
    """Keeps dense gradients of one variable; thread-safe. `step` is the global step that the next average belongs to.

    shape: of the gradients, with None where a size is not known. reduction: "MEAN" or "SUM".
    """

    def __init__(self, name: str, dtype: DType, shape: Dims, reduction: str = "MEAN"):
        if reduction not in ("MEAN", "SUM"):
            raise InvalidArgumentError(f"Accumulator '{name}': reduction_type must be MEAN or SUM, got {reduction!r}")
        self.name, self.dtype, self.shape, self.reduction = name, dtype, shape, reduction
        self.step = 0
        self._lock = Lock()
        self._held: list[tuple[int, Any]] = []  # (rank, contribution)
        self._seen: Dims = shape
        self._takes: deque[Take] = deque()

    def __str__(self) -> str:
        return f"{type(self).__name__} '{self.name}'"

    @property
    def num_accumulated(self) -> int:
        return len(self._held)

    def describe(self) -> str:
        """For errors: which accumulator, what it has, whom it still misses."""
        with self._lock:
            ranks = sorted(rank for rank, _ in self._held)
            needed = self._takes[0].required if self._takes else 0
        return f"{self} at step {self.step} has {len(ranks)} gradients (of replicas {ranks}) and waits for {needed}"

    # ------------------------------------------------------------------ operations

    def apply(self, local_step: int, gradient: Any, rank: int = 0) -> None:
        """Add a gradient that was computed at `local_step`; one older than the accumulator's step is dropped.

        Raises InvalidArgumentError on another dtype or shape.
        """
        gradient = np.asarray(gradient)
        self._check_dtype(gradient)
        self._add(local_step, rank, self._copied, gradient)

    def _add(self, local_step: int, rank: int, make: Callable[..., Any], *given: Any) -> None:
        """Hold make(*given), unless it is of an earlier step."""
        with self._lock:
            if local_step < self.step:
                return
            self._held.append((rank, make(*given)))
            ready = self._advance() if self._takes else ()
        if ready:
            deliver(ready)

    def set_step(self, step: int) -> None:
        """The global step from now on; gradients of earlier steps are dropped when they come."""
        with self._lock:
            self.step = int(step)

    def take(self, required: int, done: Done, step: Any = None) -> Take:
        """done(None, outputs) with the average of all held, once at least `required` are; then begins the next step.
        The result is for `withdraw`."""
        self.check_required(required)
        take = Take(int(required), done, step)
        try:
            self.park(take)
            if step is not None and not take.over:
                self._watch(take)
        except BaseException as error:  # Ctrl-C: it would take the next average for nobody
            self.withdraw(take, AbortedError(f"Interrupted by {type(error).__name__}"))
            raise
        return take

    def check_required(self, required: int) -> None:
        if required < 1:
            raise InvalidArgumentError(f"{self}: num_required must be 1 or more, got {required}")

    def park(self, take: Take) -> None:
        """Let it wait, or have it done now."""
        with self._lock:
            if take.over:  # withdrawn with the others of a joint take
                return
            self._takes.append(take)
            ready = self._advance() if self._held else ()
        if ready:
            deliver(ready)

    def close(self, cancel_pending: bool = True) -> None:
        """Its container is dropped: nobody will apply or take any more."""
        with self._lock:
            takes, self._takes = self._takes, deque()
            for take in takes:
                take.over = True
        for take in takes:
            _end(take, CancelledError(f"{self} was dropped with its container"), ())

    def average(self, contributions: list[Any]) -> list[Any]:
        """What `take` gives of what it gives raw."""
        return self._reduced(contributions)

    # ------------------------------------------------------------------ waiting

    def _advance(self) -> list[tuple[Take, list[Any]]]:
        """The takes that have what they wait for, with it."""
        ready: list[tuple[Take, list[Any]]] = []
        while self._takes and len(self._held) >= self._takes[0].required:
            take = self._takes[0]
            held, self._held = self._held, []
            in_order = [gradient for _, gradient in sorted(held, key=_RANK)]  # a stable sort
            # What fails here (no memory) fails who gave the last one: the take waits on, and can be withdrawn.
            ready.append((take, self._reduced(in_order) if take.joint is None else in_order))
            self._takes.popleft()
            take.over = True
            self._seen = self.shape
            self.step += 1
        return ready

    def _watch(self, take: Take) -> None:
        token = take.step.on_cancel(lambda error: self.withdraw(take, error), self.describe)
        with self._lock:
            take.token, take.watched = token, True
            over = take.over
        if over:  # completed before it was watched: its completer saw no token
            take.step.off_cancel(token)

    def withdraw(self, take: Take, error: OpError, describe: bool = True) -> None:
        """End a take that still waits; done(error, ()). describe: say in the error of a deadline what is missing."""
        if describe and isinstance(error, DeadlineExceededError) and str(self) not in error.message:
            error.message = f"{error.message}. {self.describe()}"
        with self._lock:
            if take.over:
                return
            take.over = True
            if take in self._takes:  # else it was interrupted before
                self._takes.remove(take)
            ready = self._advance()
        deliver(ready)
        take.tell(error, ())

    # ------------------------------------------------------------------ values

    def _check_dtype(self, gradient: np.ndarray) -> None:
        if gradient.dtype != self.dtype.np:
            raise InvalidArgumentError(f"{self} takes {self.dtype.name}, got a gradient of {gradient.dtype}")

    def _check_shape(self, dims: tuple[int, ...]) -> None:
        """dims must agree with the declared shape, and with the gradients that are held."""
        seen = self._seen
        if seen is not None and (len(seen) != len(dims) or any(s not in (None, d) for s, d in zip(seen, dims))):
            raise InvalidArgumentError(f"{self}: expected a gradient of shape {_show(seen)}, got {_show(dims)}")
        self._seen = dims

    def _copied(self, gradient: np.ndarray) -> np.ndarray:
        self._check_shape(gradient.shape)
        return gradient.copy()  # the input may be a buffer of the network, or a variable's memory

    def _reduced(self, gradients: list[Any]) -> list[Any]:
        total = gradients[0]
        for gradient in gradients[1:]:
            total += gradient
        if self.reduction == "MEAN" and len(gradients) > 1:
            total = (total / self.dtype.np.type(len(gradients))).astype(self.dtype.np, copy=False)
        return [np.asarray(total)]


class SparseAccumulator(Accumulator):
    """Keeps gradients that touch some rows; a take's indices are sorted and distinct. Its mean is TensorFlow's
    (row_means.py). A row that is repeated within a gradient counts once, as the sum of its rows.
    """

    def apply_rows(self, local_step: int, indices: Any, values: Any, shape: Any, rank: int = 0) -> None:
        """indices: [k] int64, which may repeat; values: [k, ...]; shape: the dense shape, or [] where it is not
        known."""
        indices, values = np.asarray(indices), np.asarray(values)
        self._check_dtype(values)
        if indices.ndim != 1 or values.ndim == 0 or len(indices) != len(values):
            raise InvalidArgumentError(
                f"{self}: expected indices [k] and values [k, ...], got shapes {indices.shape} and {values.shape}"
            )
        dims = tuple(int(d) for d in shape)
        self._add(local_step, rank, self._copied_rows, indices, values, dims)

    def _copied_rows(
        self, indices: np.ndarray, values: np.ndarray, dims: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        if dims and dims[1:] != values.shape[1:]:
            raise InvalidArgumentError(
                f"{self}: values of shape {values.shape} are no rows of a gradient of shape {dims}"
            )
        rows = dims[0] if dims else self._seen[0] if self._seen else None
        self._check_bounds(indices, rows)
        if dims:
            self._check_shape(dims)
        else:
            self._check_row(values.shape[1:])
        return summed(indices.astype(np.int64), values)

    def _check_bounds(self, indices: np.ndarray, rows: int | None) -> None:
        if len(indices) and (indices.min() < 0 or (rows is not None and indices.max() >= rows)):
            bad = indices[(indices < 0) | (indices >= (rows if rows is not None else indices.max() + 1))][0]
            raise InvalidArgumentError(f"{self}: index {bad} is not in [0, {'?' if rows is None else rows})")

    def _check_row(self, row: tuple[int, ...]) -> None:
        rows = self._seen[0] if self._seen else None
        seen = self._seen
        if seen is not None and (len(seen) != len(row) + 1 or any(s not in (None, d) for s, d in zip(seen[1:], row))):
            raise InvalidArgumentError(f"{self}: expected rows of shape {_show(seen[1:])}, got {_show(row)}")
        self._seen = (rows, *row)

    @property
    def shape_now(self) -> np.ndarray:
        """The dense shape, -1 where a size is not known."""
        return np.array([-1 if d is None else d for d in self._seen or ()], np.int64)

    def _reduced(self, gradients: list[Any]) -> list[Any]:
        gradients = [tuple(given) for given in gradients]
        mean, dtype = self.reduction == "MEAN" and len(gradients) > 1, gradients[0][1].dtype
        distinct, positions, touched = np.unique(
            np.concatenate([i for i, _ in gradients]), return_inverse=True, return_counts=True
        )
        by = None
        if mean and not all(map(ascend, (i for i, _ in gradients))):
            mean, by = False, merged([i.tolist() for i, _ in gradients])
        total, seen, begin = (
            np.empty((len(distinct), *gradients[0][1].shape[1:]), dtype),
            np.zeros(len(distinct), bool),
            0,
        )
        for g, (indices, values) in enumerate(gradients):
            if by is not None:
                values = (values / column(np.array(by[g], dtype), values)).astype(dtype, copy=False)
            at = positions[begin : begin + len(indices)]  # none twice
            known = seen[at]
            total[at[known]] += values[known]
            total[at[~known]] = values[~known]
            seen[at] = True
            begin += len(indices)
        if mean:
            total = (total / column(touched.astype(dtype), total)).astype(dtype, copy=False)
        return [distinct, total, self.shape_now]


def _show(dims: Sequence[int | None]) -> str:
    return "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"


def deliver(ready: Sequence[tuple[Take, list[Any]]]) -> None:
    """To each take what it has; to a joint one all at once."""
    joint: JointTake | None = None
    found: list[tuple[int, list[Any]]] = []
    for take, outputs in ready:
        if found and take.joint is not joint:
            joint.taken(found)  # type: ignore[union-attr]
            found = []
        if take.joint is None:
            _end(take, None, outputs)
        else:
            joint = take.joint
            found.append((take.number, outputs))
    if found:
        joint.taken(found)  # type: ignore[union-attr]


def _end(take: Take, error: OpError | None, outputs: Sequence[Any]) -> None:
    if take.watched:
        take.step.off_cancel(take.token)
    take.tell(error, outputs)
