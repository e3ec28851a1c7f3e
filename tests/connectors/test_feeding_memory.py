"""A worker that is fed from a table larger than its memory keeps to its byte budget, however long that goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.feeding import JOIN, Doors, Feeder, Start
from sparkflow_connectors.graphs import input_queue
from sparkflow_connectors.job import Job
from sparkflow_connectors.layout import Block, Layout, Piece
from sparkflow_connectors.partition import OwnPartition
from sparkflow_connectors.schema import resolve

MIB = 1 << 20
BUDGET, BATCH, PIECE = 48 * MIB, 1024, 10_000
SLACK, DRIFT = 24 * MIB, 8 * MIB  # what is on its way from the source and to the step; what an allocator keeps
COLUMNS = 40


def table(layout: Layout, rows: int) -> Iterator[Piece]:
    """Rows of 40 columns, made when they are asked for."""
    for start in range(0, rows, PIECE):
        n = np.arange(start, min(start + PIECE, rows), dtype=np.int32)
        yield layout.piece({f"c{i}": n + i if i else n.astype(np.float32) for i in range(COLUMNS)})


@pytest.mark.parametrize("gigabytes", [0.3, pytest.param(50.0, marks=pytest.mark.soak)])
def test_memory_is_flat_and_within_the_budget(gigabytes: float, tmp_path: Path) -> None:
    schema = pa.schema([(f"c{i}", pa.int32() if i else pa.float32()) for i in range(COLUMNS)])
    job = Job(
        print, resolve(schema, None, None), str(tmp_path), validation=0.0, batch_size=BATCH, uneven=JOIN,
        feed_bytes=BUDGET,
    )  # fmt: skip
    rows = int(gigabytes * (1 << 30) / job.layout.row_bytes)
    this, plan, seen, memory = psutil.Process(), job.plan(0), 0, list[int]()
    with tf.Graph().as_default(), tf.Session() as session:
        queue = input_queue(job)
        take = session.make_callable(queue.taken)

        def enqueue(block: Block) -> None:
            session.run(queue.enqueue, dict(zip(queue.inputs, block)))

        before = this.memory_info().rss
        partition = OwnPartition(plan, job.layout, table(job.layout, rows))
        feeder = Feeder(plan, partition, Doors(enqueue, lambda: session.run(queue.close)), JOIN, 1, Start(0, 0))
        feeder.start()
        feeder.wait(0)
        feeder.go(0, 0)
        every = max(rows // BATCH // 200, 1)
        while (steps := feeder.wait(seen + 1)) is None or seen + 1 < steps:
            take()
            seen += 1
            if seen % every == 0:
                memory.append(this.memory_info().rss - before)
        feeder.epoch_over(0)
        feeder.join()
        partition.close()
    assert seen == -(-rows // BATCH) - 1
    assert max(memory) < BUDGET + SLACK, [m // MIB for m in memory]
    early, late = memory[len(memory) // 5 : len(memory) // 2], memory[len(memory) // 2 :]
    assert max(late) < max(early) + DRIFT, [m // MIB for m in memory]
