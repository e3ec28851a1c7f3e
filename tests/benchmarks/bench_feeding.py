"""Rows of 40 columns from where they are into dequeued batches, by one worker; and by Spark's tasks.

    python tests/benchmarks/bench_feeding.py [frames] [packed] [files] [spool] [--rows 2000000] [--batch 4096]
    python tests/benchmarks/bench_feeding.py tasks [--rows 5000000] [--workers 2]
    python tests/benchmarks/bench_feeding.py spark [--rows 5000000] [--workers 2]

frames: pandas frames of numpy dtypes (a Dask partition) as arrays of the layout. packed: record batches as Spark packs
them. files: parquet files, read by the worker. spool: the second epoch, from the memory-mapped spool of the first one.
For these, M rows a second of the worker's processor time (all its threads) and of the clock, the best of the rounds.
tasks: the same by Spark's tasks, each with a queue of its own, and nothing trained: what Spark sends packed (its own
work is not in the processor time), files that the tasks read (read: that alone, no queue), and the third epoch.
spark: trainings of a model that hardly computes, in tasks of local[workers]: what Spark sends packed, what the tasks
read themselves, and the epochs after that; M rows/s of all tasks, from the 20th step on, by the clock and by the
processor time of the tasks' Python (on as many cores as there are tasks).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sparkflow as tf
from sparkflow_connectors import files
from sparkflow_connectors.feeding import JOIN, Doors, Feeder, Start
from sparkflow_connectors.graphs import input_queue
from sparkflow_connectors.job import Job
from sparkflow_connectors.layout import Piece
from sparkflow_connectors.packing import packing_of
from sparkflow_connectors.partition import OwnPartition
from sparkflow_connectors.rows import file_pieces, frame_pieces, packed_pieces
from sparkflow_connectors.schema import resolve

FLOATS, INTS, ROUNDS = 13, 26, 3


def table(rows: int, seed: int = 0) -> pa.Table:
    """A label, 13 floats and 26 ids, as in tables of advertisements."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {"label": (rng.random(rows) < 0.3).astype(np.float32)}
    columns.update({f"I{i}": rng.standard_normal(rows, np.float32) for i in range(FLOATS)})
    columns.update({f"C{i}": rng.integers(0, 100_000, rows, np.int32) for i in range(INTS)})
    return pa.table(columns)


def packed(given: pa.Table, job: Job) -> list[pa.RecordBatch]:
    """In batches of 10,000 rows, with lists as Spark makes them."""
    packing, batches = packing_of(job.columns), []
    for batch in given.to_batches(max_chunksize=10_000):
        arrays = []
        for block in packing.blocks.values():
            values = np.stack([batch.column(n).to_numpy() for n in block.names], 1)
            ends = np.arange(0, values.size + 1, values.shape[1], dtype=np.int32)
            arrays.append(pa.ListArray.from_arrays(ends, pa.array(values.ravel())))
        batches.append(pa.RecordBatch.from_arrays(arrays, list(packing.blocks)))
    return batches


def model_fn(features: dict[str, Any], labels: Any, mode: str, params: dict[str, Any]) -> Any:
    """All columns arrive; one is used. params: notes, a folder for the times of the steps."""
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"p": features["I0"] * w})
    loss = tf.reduce_mean(tf.square(features["I0"] * w - labels))
    train_op = tf.train.GradientDescentOptimizer(0.01).minimize(loss, global_step=tf.train.get_global_step())

    class Clock(tf.train.SessionRunHook):
        def begin(self) -> None:
            self.times: list[tuple[float, float]] = []

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.times.append((time.perf_counter(), time.process_time()))

        def end(self, session: Any) -> None:
            np.save(os.path.join(params["notes"], str(os.getpid())), np.array(self.times))

    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[Clock()])


def fed(job: Job, pieces: Iterator[Piece], epochs: int) -> list[tuple[float, float, int]]:
    """(seconds of processor time, of the clock, rows) of each epoch."""
    plan, found = job.plan(0), []
    with tf.Graph().as_default(), tf.Session() as session:
        queue = input_queue(job)
        partition = OwnPartition(plan, job.layout, pieces)

        def enqueue(rows: Any) -> None:
            session.run(queue.enqueue, dict(zip(queue.inputs, rows)))

        doors = Doors(enqueue, lambda: session.run(queue.close))
        feeder = Feeder(plan, partition, doors, JOIN, epochs, Start(0, 0))
        take = session.make_callable(queue.taken)
        begun, cpu_s = time.perf_counter(), time.process_time()
        feeder.start()
        feeder.wait(0)
        feeder.go(0, 0)
        for epoch in range(epochs):
            step = 0
            while (steps := feeder.wait(step + 1)) is None or step + 1 < steps:
                take()
                step += 1
            session.run(queue.taken, {queue.batch_rows: (feeder.rows or 0) - step * job.batch_size})
            if epoch == 0:
                feeder.epoch_over(steps)
            now, cpu_now = time.perf_counter(), time.process_time()
            found.append((cpu_now - cpu_s, now - begun, feeder.rows or 0))
            begun, cpu_s = now, cpu_now
        feeder.stop()
        feeder.join()
        partition.close()
    return found


def rates(name: str, measure: Callable[[], tuple[float, float, int]]) -> None:
    found = [measure() for _ in range(ROUNDS)]
    cpu, clock = (max(one[2] / one[i] / 1e6 for one in found) for i in (0, 1))
    print(f"{name:8} {cpu:6.2f} M rows/s of processor time   {clock:6.2f} by the clock", flush=True)


def passed(pieces: Iterator[Piece]) -> tuple[float, float, int]:
    """What it takes to have them, and no more."""
    begun, cpu_s = time.perf_counter(), time.process_time()
    rows = sum(len(piece[0][0]) for piece in pieces)
    return time.process_time() - cpu_s, time.perf_counter() - begun, rows


def frames(given: pa.Table, job: Job) -> tuple[float, float, int]:
    frame = given.to_pandas()
    return passed(frame_pieces([frame.iloc[a : a + 100_000] for a in range(0, len(frame), 100_000)], job))


def one_worker(names: list[str], given: pa.Table, batch: int, folder: Path) -> None:
    columns = resolve(given.schema, None, "label")
    options: dict[str, Any] = {"validation": 0.0, "uneven": JOIN, "batch_size": batch}
    job = Job(model_fn, columns, str(folder), **options)
    if "frames" in names:
        rates("frames", partial(frames, given, job))
    if "packed" in names:
        batches, packing = packed(given, job), packing_of(columns)
        rates("packed", lambda: fed(job, packed_pieces(batches, job, packing, {}), 1)[0])
        del batches
    if "files" in names:
        paths = write(given, folder)
        rates("files", lambda: fed(job, file_pieces(files.shares(paths, columns.types, 1, 1)[0], job), 1)[0])
    if "spool" in names:
        rates("spool", lambda: fed(job, frame_pieces([given.to_pandas()], job), 3)[2])


def write(given: pa.Table, folder: Path, parts: int = 4) -> list[str]:
    paths = []
    for i, start in enumerate(range(0, given.num_rows, -(-given.num_rows // parts))):
        paths.append(str(folder / f"{i}.parquet"))
        pq.write_table(given.slice(start, -(-given.num_rows // parts)), paths[-1], row_group_size=1 << 18)
    return paths


def spark_table(rows: int, workers: int, folder: Path) -> Any:
    """A DataFrame of four parquet files."""
    from sparkflow_connectors.java import ensure_java

    ensure_java()
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    spark = tf.spark.session(master=f"local[{workers}]")
    (folder / "table").mkdir()
    for seed in range(4):
        pq.write_table(table(rows // 4, seed), folder / "table" / f"{seed}.parquet", row_group_size=1 << 18)
    return spark.read.parquet(str(folder / "table"))


def in_tasks(rows: int, workers: int, batch: int, folder: Path) -> None:
    df = spark_table(rows, workers, folder)
    columns = resolve(files.schema(str(folder / "table" / "0.parquet")), None, "label")
    job = Job(model_fn, columns, str(folder), validation=0.0, uneven=JOIN, batch_size=batch, workers=workers)
    paths, packing = [str(path) for path in sorted((folder / "table").glob("*"))], packing_of(columns)
    shares = files.shares(paths, columns.types, workers, 1)
    packed_rows = df.selectExpr(*packing.expressions).repartition(workers)
    numbers = df.sparkSession.range(0, workers, 1, workers)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])

    def sent(batches: Iterator[pa.RecordBatch]) -> Iterator[Piece]:
        return packed_pieces(batches, job, packing, {})

    def own(batches: Iterator[pa.RecordBatch]) -> Iterator[Piece]:
        return file_pieces((part for b in batches for i in b.column(0).to_pylist() for part in shares[i]), job)

    cases = [("packed", packed_rows, sent, 1), ("read", numbers, own, 0), ("files", numbers, own, 1)]
    for name, frame, pieces, epochs in [*cases, ("later", numbers, own, 3)]:

        def run(batches: Iterator[pa.RecordBatch], pieces: Any = pieces, epochs: int = epochs) -> Any:
            cpu, clock, count = fed(job, pieces(batches), epochs)[-1] if epochs else passed(pieces(batches))
            yield pa.RecordBatch.from_pydict({"cpu": [cpu], "clock": [clock], "rows": [count]})

        def measure(frame: Any = frame, run: Any = run) -> tuple[float, float, int]:
            found = frame.mapInArrow(run, "cpu double, clock double, rows long").collect()
            if len(found) != workers:
                raise SystemExit(f"{workers} tasks expected, {len(found)} had rows")
            return sum(f["cpu"] for f in found) / workers, max(f["clock"] for f in found), sum(f["rows"] for f in found)

        rates(name, measure)


def by_spark(rows: int, workers: int, batch: int, folder: Path) -> None:
    df = spark_table(rows, workers, folder)
    for read_files in (False, True):
        for epochs in (1, 4):
            where = folder / f"{read_files}{epochs}"
            notes = where / "notes"
            notes.mkdir(parents=True)
            tf.spark.train(
                df, model_fn, label="label", checkpoint_dir=str(where), workers=workers, ps=1, sync=False, uneven=JOIN,
                validation=0.0, batch_size=batch, epochs=epochs, read_files=read_files, checkpoint_s=1e6,
                params={"notes": str(notes)},
            )  # fmt: skip
            way = "files" if read_files else "packed"
            steps = [np.load(path) for path in notes.glob("*.npy")]
            if epochs == 1:
                told(f"{way}, the only epoch", [times[20:-1] for times in steps], batch)
            else:
                told(f"{way}, epochs 2 to {epochs}", [times[len(times) // epochs + 5 :] for times in steps], batch)


def told(what: str, steps: list[np.ndarray], batch: int) -> None:
    """steps: of each task, (clock, processor time) at the end of each step."""
    rows = sum((len(times) - 1) * batch for times in steps)
    clock = max(times[-1, 0] for times in steps) - min(times[0, 0] for times in steps)
    cpu = sum(times[-1, 1] - times[0, 1] for times in steps) / len(steps)
    print(
        f"spark: {what:24} {rows / clock / 1e6:6.2f} M rows/s by the clock {rows / cpu / 1e6:6.2f} of CPU", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["frames", "packed", "files", "spool"])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if "tasks" in given.names:
            in_tasks(given.rows, given.workers, given.batch, Path(folder))
        elif "spark" in given.names:
            by_spark(given.rows, given.workers, given.batch, Path(folder))
        else:
            one_worker(given.names, table(given.rows), given.batch, Path(folder))


if __name__ == "__main__":
    main()
