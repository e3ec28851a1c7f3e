"""BoundedStalenessOptimizer: replicas update as soon as they can, but none is far ahead of the slowest one.

Between asynchronous training, where a slow replica's gradients may be of any age, and synchronous training, where all
wait for the slowest at every step. All of it is a program in the graph, on the global step's device:

- each replica has a queue of permits. Its step ends with taking one, so after k steps it has taken k of them;
- each replica's step puts its rank into one queue of news. The chief, in a thread of its own, takes the news, counts
  that replica's clock on, and gives every replica a permit for each step by which the slowest clock has moved.

The chief gives `staleness` permits at the start. So a replica has taken at most staleness + (steps of the slowest),
which is to say: it begins its step k + 1 when the slowest has ended step k - staleness at least.
The chief ends last: its hook waits at the end until the others' have said that they end, since nobody else counts.
Source: Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS 2013.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from threading import Thread
from typing import Any

from sparkflow.framework.apply import constant
from sparkflow.framework.graph import Graph, Operation, get_default_graph
from sparkflow.ops import array, array_select, control_flow, math, math_reduce, state, variables
from sparkflow.ops.data_flow import FIFOQueue
from sparkflow.train.optimizer import Optimizer
from sparkflow.train.queue_runner import QueueRunner
from sparkflow.train.session_run_hook import SessionRunHook
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import DeadlineExceededError, OpError
from sparkflow_runtime.wire.protos import RunOptions

_log = logging.getLogger("sparkflow")
_LATE_S = 10.0  # without an end of a step, until a replica is said to hold up others
_GONE = 1 << 62  # the clock of a replica that has ended: it holds up nobody


class BoundedStalenessOptimizer(Optimizer):
    """Wraps `opt`, anything with compute_gradients and apply_gradients.

    staleness: steps that a replica may be ahead of the slowest one; 0 makes all take each step together. replica: which
    of `total_num_replicas` this is, from 0. Every replica's session needs `make_session_run_hook(is_chief)`. A replica
    that dies between its update and its permit may be one step further ahead when it is back.
    """

    def __init__(
        self,
        opt: Any,
        staleness: int,
        total_num_replicas: int,
        replica: int,
        use_locking: bool = False,
        name: str = "bounded_staleness",
    ):
        super().__init__(use_locking, name)
        if staleness < 0 or not 0 <= replica < total_num_replicas:
            raise ValueError(
                f"{name}: staleness must be 0 or more and replica one of the {total_num_replicas}, got {staleness} and "
                f"{replica}"
            )
        self._opt, self._staleness, self._total, self._replica = opt, staleness, total_num_replicas, replica
        self._runner: QueueRunner | None = None

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """The wrapped optimizer's gradients."""
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> Operation:
        """Update at once, then wait for this replica's permit. Raises ValueError where there is no global_step, beside
        which the permits are kept."""
        if global_step is None:
            raise ValueError("Global step is required: the replicas' permits are kept on its device")
        graph = get_default_graph()
        update = self._opt.apply_gradients(list(grads_and_vars), global_step)
        on_step = graph.device(global_step.device or None)
        apart = graph.control_dependencies(None)  # what a replica's step runs first, the chief's counting does not
        with graph.name_scope(name or self._name) as scope, graph.device(None), on_step, apart:
            return self._build(graph, update, scope)

    def _build(self, graph: Graph, update: Operation, scope: str) -> Operation:
        self._clocks = variables.Variable(
            array.zeros([self._total], dtypes.int64), trainable=False, collections=[], name="clocks"
        )
        self._slowest = variables.Variable(constant(0, dtypes.int64), trainable=False, collections=[], name="slowest")
        news = FIFOQueue(-1, dtypes.int64, shapes=(), name="news", shared_name=f"{scope}news")
        self._permits = [
            FIFOQueue(-1, dtypes.int64, shapes=(), name="permits", shared_name=f"{scope}permits_{rank}")
            for rank in range(self._total)
        ]
        rank = constant(self._replica, dtypes.int64, name="replica")
        with graph.control_dependencies([update]):
            told = news.enqueue([rank])
        with graph.control_dependencies([told]):
            taken = self._permits[self._replica].dequeue()
        self._leave = news.enqueue([-1 - rank])
        self._over = FIFOQueue(-1, dtypes.int64, shapes=(), name="over", shared_name=f"{scope}over")
        self._wait_until_over = self._over.dequeue()
        self._begin = [self._give(constant(self._staleness, dtypes.int32))]
        self._is_begun = variables.is_variable_initialized(self._slowest)
        self._runner = QueueRunner(
            FIFOQueue(1, dtypes.int32, shapes=(), name="dummy_queue", shared_name=f"{scope}dummy_queue"),
            [self._advance(graph, news.dequeue())],
        )
        with graph.control_dependencies([taken]):
            return control_flow.no_op(name="train_op")

    def _advance(self, graph: Graph, event: Any) -> Operation:
        """A replica's news (its rank, or -1 - rank when it has ended): its clock goes on, and the slowest's perhaps."""
        left = math.less(event, 0)
        rank = array_select.where(left, -1 - event, event)
        zero, one, gone = (constant(n, dtypes.int64) for n in (0, 1, _GONE))
        with graph.control_dependencies([state.scatter_add(self._clocks, rank, array_select.where(left, zero, one))]):
            clocks = state.scatter_max(self._clocks, rank, array_select.where(left, gone, zero))
        before = self._slowest.value()
        with graph.control_dependencies([before]):
            slowest = math_reduce.reduce_min(clocks)
            moved = array_select.where(math.less(slowest, _GONE), slowest - before, array.zeros_like(before))
            noted = state.assign(self._slowest, before + moved)
        over = math.cast(math.greater_equal(slowest, _GONE), dtypes.int32)
        with graph.control_dependencies([noted]):
            return control_flow.group(self._give(math.cast(moved, dtypes.int32)), _put(over, [self._over]))

    def _give(self, number: Any) -> Operation:
        return _put(number, self._permits)

    def make_session_run_hook(self, is_chief: bool, end_patience_s: float = 60.0) -> SessionRunHook:
        """The hook that every replica's monitored session needs; the chief's counts.

        end_patience_s: how long the chief waits at its end for others while none of them ends a step; 0 not at all.
        """
        return _StalenessHook(self, is_chief, end_patience_s)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> list[Any]:
        return self._opt.variables()


def _put(number: Any, queues: Iterable[FIFOQueue]) -> Operation:
    """So many elements, in each of the queues."""
    elements = array.fill(array.reshape(number, [1]), constant(0, dtypes.int64))
    return control_flow.group(*[queue.enqueue_many([elements]) for queue in queues])


def late(before: list[int], clocks: list[int], staleness: int) -> str:
    """Who waits for whom, where the slowest replica's clock stands as it did before and others may go no further."""
    if not before or min(clocks) != min(before) or min(clocks) >= _GONE:
        return ""
    slow = [rank for rank, clock in enumerate(clocks) if clock == min(clocks) == before[rank]]
    ahead = [rank for rank, clock in enumerate(clocks) if min(clocks) + staleness < clock < _GONE]
    if not slow or not ahead:
        return ""
    waiting, held_up = ", ".join(map(str, ahead)), ", ".join(map(str, slow))
    return (
        f"Replicas {waiting} wait for {held_up}, of which none has ended a step in {_LATE_S:g} s: it stands at "
        f"step {min(clocks)}, and they may be {staleness} ahead"
    )


class _StalenessHook(SessionRunHook):
    """On the chief: gives the first permits, once, and counts until all have ended. Everywhere: says when this replica
    has ended."""

    def __init__(self, optimizer: BoundedStalenessOptimizer, is_chief: bool, end_patience_s: float):
        self._optimizer, self._is_chief, self._end_patience_s = optimizer, is_chief, end_patience_s

    def begin(self) -> None:
        if self._optimizer._runner is None:
            raise ValueError("BoundedStalenessOptimizer.apply_gradients should be called before using the hook.")

    def after_create_session(self, session: Any, coord: Any) -> None:
        optimizer = self._optimizer
        if not self._is_chief:
            return
        if not session.run(optimizer._is_begun):  # a chief that is back finds them as they were
            session.run(optimizer._clocks.initializer)
            session.run(optimizer._begin)
            session.run(optimizer._slowest.initializer)
        assert optimizer._runner is not None
        optimizer._runner.create_threads(session, coord=coord, daemon=True, start=True)
        watch = Thread(target=self._watch, args=(session, coord), name="sparkflow-staleness", daemon=True)
        coord.register_thread(watch)
        watch.start()

    def _watch(self, session: Any, coord: Any) -> None:
        """Says which replicas hold up the others, once they have ended no step for a while."""
        before: list[int] = []
        while not coord.wait_for_stop(_LATE_S):
            try:
                clocks = session.run(self._optimizer._clocks).tolist()
            except OpError:
                return  # the session has ended, or a server: whose steps fail, says so
            if said := late(before, clocks, self._optimizer._staleness):
                _log.warning("%s. Look for an earlier error in its log", said)
            before = clocks

    def end(self, session: Any) -> None:
        session.run(self._optimizer._leave)
        if self._is_chief and self._end_patience_s > 0:
            self._wait_for_the_others(session)

    def _wait_for_the_others(self, session: Any) -> None:
        """Until all have ended, or those that have not stand still: they may never come back."""
        options = RunOptions(timeout_in_ms=max(1, round(1000 * self._end_patience_s)))
        before: list[int] = []
        while True:
            clocks = session.run(self._optimizer._clocks).tolist()
            going = [rank for rank, clock in enumerate(clocks) if clock < _GONE]
            if clocks == before:
                _log.warning(
                    "The chief ends though replicas %s have not, which ended no step in %g s: should they go on, they "
                    "will wait for permits. Look for an earlier error in their logs",
                    ", ".join(map(str, going)), self._end_patience_s,
                )  # fmt: skip
                return
            before = clocks
            try:
                session.run(self._optimizer._wait_until_over, options=options)
                return
            except DeadlineExceededError:
                _log.info("The chief waits for the end of replicas %s", ", ".join(map(str, going)))
