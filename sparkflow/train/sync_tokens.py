"""The tokens of synchronous replicas: each step takes one, each update puts in as many as there are replicas.

Where all are waited for and no token is there at the start, each replica has a queue of its own (why, see
sync_replicas). Where the chief gives tokens at the start, replicas may be ahead of each other anyhow, and all take from
one queue, as in TensorFlow: then a quick replica takes those of one that is late or gone, and gives an update its
gradient in that one's place. Only the chief knows which it is, so the servers are told by a mark beside the queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.ops import array, array_join, control_flow, math, math_reduce
from sparkflow.ops.data_flow import FIFOQueue, QueueBase
from sparkflow_runtime.wire import dtypes

_TO_OWN = -1  # in the shared queue, no token: whoever finds it waits at its own queue


class Tokens:
    """Queues of global steps (scalars of `dtype`), made on the device of the moment.

    ranks: of the replicas that have a queue each; with one rank, or none by name (`named` is False), one is for all.
    """

    def __init__(self, dtype: Any, scope: str, ranks: Sequence[int], named: bool):
        self._dtype = dtype

        def queue(name: str, of: Any = dtype) -> FIFOQueue:
            return FIFOQueue(-1, of, shapes=(), name=name, shared_name=f"{scope}{name}")

        if not named:
            self._own, self._shared = {0: queue("sync_token_q")}, None
            return
        self._own = {
            rank: FIFOQueue(-1, dtype, shapes=(), name="sync_token_q", shared_name=f"{scope}sync_token_q_{rank}")
            for rank in ranks
        }
        self._shared = queue("sync_token_q_shared") if len(ranks) > 1 else None
        self._mark = queue("sync_token_mark", dtypes.int32) if len(ranks) > 1 else None

    def take(self, rank: int) -> Tensor:
        """The next token for a replica, which waits for one."""
        if self._shared is None:
            return next(iter(self._own.values())).dequeue()
        own = self._own[rank]
        token = QueueBase.from_list(self._is_shared(), [own, self._shared]).dequeue()
        sent_on = own.dequeue_many(math.cast(math.equal(token, _TO_OWN), dtypes.int32))  # one or none
        return math_reduce.reduce_max(array_join.concat([array_join.stack([token]), sent_on], 0))

    def put(self, step: Any, number: int) -> Operation:
        """An update's tokens: `number` times the scalar `step`."""
        if self._shared is None:
            return self._fill(step, self._spread(number))
        shared = self._is_shared()
        own = [(queue, (1 - shared) * n) for queue, n in self._spread(number)]
        return self._fill(step, [*own, (self._shared, shared * number)])

    def begin(self, step: Any, number: int) -> Operation:
        """The chief's first tokens; says for all replicas whether they take from one queue, which 0 of them deny."""
        if self._shared is None:
            return self._fill(step, self._spread(number)) if number else control_flow.no_op(name="no_init_tokens")
        assert self._mark is not None
        was_shared, graph = self._is_shared(), get_default_graph()
        if not number:
            # The servers may have kept the mark of an earlier training, and tokens; a replica that came before the
            # chief may have believed the mark, and wait at the shared queue
            emptied = [_drop(queue, was_shared * queue.size()) for queue in self._own.values()]
            with graph.control_dependencies([*emptied, was_shared]):
                unmarked = _drop(self._mark, self._mark.size())
            with graph.control_dependencies([unmarked]):
                return self._fill(math.cast(_TO_OWN, self._dtype), [(self._shared, was_shared * len(self._own))])
        with graph.control_dependencies([_drop(self._shared, (1 - was_shared) * self._shared.size())]):
            marked = self._mark.enqueue(1)
        # A replica may have looked for the mark before it was there, and wait at its own queue
        with graph.control_dependencies([marked]):
            return self._fill(step, [*((queue, 1) for queue in self._own.values()), (self._shared, number)])

    def _is_shared(self) -> Tensor:
        """1 or 0, as it is when the control dependencies of the moment are done."""
        assert self._mark is not None
        return math.minimum(self._mark.size(), 1)

    def _spread(self, number: int) -> list[tuple[FIFOQueue, Any]]:
        each, more = divmod(number, len(self._own))
        counts = (each + (i < more) for i in range(len(self._own)))
        return [(queue, n) for queue, n in zip(self._own.values(), counts) if n]

    @staticmethod
    def _fill(step: Any, counts: Sequence[tuple[FIFOQueue, Any]]) -> Operation:
        """Where a count is a tensor, it may be 0."""
        puts = [queue.enqueue_many([array.fill(array_join.stack([n]), step)]) for queue, n in counts]
        return control_flow.group(*puts, name="put_tokens")


def _drop(queue: QueueBase, number: Tensor) -> Operation:
    """Forget so many elements."""
    return queue.dequeue_many(number).op
