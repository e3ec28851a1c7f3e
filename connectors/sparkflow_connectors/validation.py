"""A worker's rows that are kept for validation, and what the model makes of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from sparkflow_connectors import not_finite
from sparkflow_connectors.graphs import EVAL_BATCH, evaluation_graph
from sparkflow_connectors.job import Job
from sparkflow_connectors.layout import Block
from sparkflow_connectors.partition import Partition


class Validation:
    """The EVAL graph of worker `rank`, and the rows that it judges.

    trained: its training graph. new_session: of a graph. log: tells the driver.
    """

    def __init__(
        self,
        job: Job,
        rank: int,
        cluster: dict[str, Sequence[str]],
        trained: Any,
        partition: Partition,
        new_session: Callable[[Any], Any],
        log: Callable[[str], None],
    ):
        self._graph = evaluation_graph(job, rank, cluster, trained) if job.validation else None
        self._layout, self._partition, self._new_session, self._log = job.layout, partition, new_session, log
        self._session: Any = None
        self._said = False

    def sums(self) -> list[float]:
        """[sum of losses, examples] over this worker's rows."""
        held = self._partition.held
        if self._graph is None or not held.rows:
            return [0.0, 0.0]
        if self._session is None:
            self._session = self._new_session(self._graph.graph)
            self._session.run(self._graph.init)
        return [sum(self._sum_of_losses(held.read(i)) for i in range(len(held.places))), float(held.rows)]

    def close(self) -> None:
        if self._session is not None:
            self._session.close()

    def _sum_of_losses(self, block: Block) -> float:
        total = 0.0
        for at in range(0, len(block[0]), EVAL_BATCH):
            part = [array[at : at + EVAL_BATCH] for array in block]
            total += self._loss(part) * len(part[0])
        return total

    def _loss(self, part: Block) -> float:
        assert self._graph is not None
        feed = {self._graph.inputs[name]: values for name, values in self._layout.columns(part).items()}
        loss = float(self._session.run(self._graph.loss, feed))
        if not math.isfinite(loss) and not self._said:
            self._said = True  # these rows are the same in every epoch
            why = not_finite.why(self._layout, not_finite.floats(self._layout, part))
            self._log(f"the loss of rows that are kept for validation is {loss}: {why}")
        return loss
