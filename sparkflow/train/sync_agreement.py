"""What the chief of synchronous replicas says of its tokens: one that was given other numbers might wait for ever."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

from sparkflow.framework.apply import constant
from sparkflow.framework.graph import Graph, Operation, get_default_graph
from sparkflow.ops import state, variables
from sparkflow.ops.array_odds import timestamp
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

_SAID_S = 5.0  # for how long the chief's numbers are waited for, which it says as soon as the model is ready
_STALE_S = 60.0  # for how long it may leave those of an earlier training to stand, which the servers kept
_POLL_S = 0.02
_log = logging.getLogger("sparkflow")
_synchronous: WeakSet[Graph] = WeakSet()


def is_synchronous(graph: Graph) -> bool:
    """Whether replicas that run that graph wait for each other."""
    return graph in _synchronous


class Agreement:
    """A variable beside the global step, which the chief sets; no checkpoint has it. Made on the device of the moment.

    needed, total: as the optimizer was given them. ranks: of the replicas that have a queue of tokens each; empty where
    all have one together. own: this replica's.
    """

    def __init__(self, needed: int, total: int, ranks: Sequence[int], own: int):
        _synchronous.add(get_default_graph())
        self._mine, self._own = [needed, total, *((ranks[0], len(ranks)) if ranks else (0, 0))], own
        value = constant(self._mine, dtypes.int32, name="sync_rep_numbers")
        self._said = variables.Variable(value, trainable=False, collections=[], name="sync_rep_said")
        self._is_said = state.is_variable_initialized(self._said)
        self._when = variables.Variable(
            constant(0.0, dtypes.float64), trainable=False, collections=[], name="sync_rep_said_when"
        )
        self._value = value
        self._heard = 0.0  # when what was last heard here was said

    def say(self) -> Operation:
        """For the chief: an op that says so, and when it does."""
        with get_default_graph().control_dependencies([state.assign(self._when, timestamp())]):
            return state.assign(self._said, self._value, name="sync_rep_say").op

    def check(self, session: Any) -> None:
        """Raises InvalidArgumentError where the chief gives this replica no tokens. For a replica that is no chief.

        In a session that was made anew it waits until the chief, who lost the same task, has said it anew: accumulators
        on other tasks would take the gradients of steps that are made again for late ones, and drop them."""
        begun, limit_s, differ = time.monotonic(), _SAID_S, ""
        while time.monotonic() - begun < limit_s:
            if session.run(self._is_said):
                said = [int(n) for n in session.run(self._said)]
                has_tokens = self._has_tokens(said)
                if not differ and (said[:2] != self._mine[:2] or not has_tokens):
                    limit_s, differ = _STALE_S, self._differ(said)
                    _log.warning("%s. The chief's count", differ)
                when = float(session.run(self._when))
                if has_tokens and when != self._heard:
                    self._heard = when
                    return
            time.sleep(_POLL_S)
        if differ:
            raise InvalidArgumentError(
                f"{differ}, and would wait for a token for ever. Give all replicas the same numbers"
            )

    def _has_tokens(self, said: Sequence[int]) -> bool:
        """Whether this replica takes its tokens from where the chief puts some."""
        (first, count), mine = said[2:], self._mine[3]
        return count == mine == 0 or (count > 0 and mine > 0 and first <= self._own < first + count)

    def _differ(self, said: Sequence[int]) -> str:
        told, mine = (f"replicas_to_aggregate={n[0]} and total_num_replicas={n[1]}" for n in (said, self._mine))
        if said[:2] == self._mine[:2]:  # a worker's graph does not tell whether the chief is of a job of its own
            first, count = said[2:]
            who = (
                f"{'the chief and ' if first < 0 else ''}tasks 0 to {first + count - 1}" if count else "no task by name"
            )
            return (
                f"SyncReplicasOptimizer: with {told}, the chief gives tokens to {who}; this replica is task "
                f"{self._own}. The chief is one of the replicas"
            )
        return f"SyncReplicasOptimizer: the chief has {told}, this replica (task {self._own}) {mine}"
