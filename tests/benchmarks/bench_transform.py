"""`model.transform` of a table of 40 columns, beside the forward pass alone on the same arrays; they take turns.

    python tests/benchmarks/bench_transform.py             # an Arrow table in this process
    python tests/benchmarks/bench_transform.py --spark     # a cached DataFrame in two tasks, against two such tasks
    python tests/benchmarks/bench_transform.py --files     # one of parquet files, which the tasks read themselves
    python tests/benchmarks/bench_transform.py --dask      # frames of numpy in two threads, against two such threads

share: the time of the forward pass alone over that of transform, with all that a table needs on its way: of Spark,
reading it, handing it over, taking predictions back, making rows of them, and starting the job. The two compete for
the same two processors, so no overlap hides that. share_by_cpu: the same of processor time, of all processes; it is
the one to go by on a machine that does other work. cpu_us_a_row: what they took of it, and in the same run, of Spark,
what it takes whoever scores: read, the rows alone, without Python; identity, all columns through a mapInArrow that
gives back what it was given. carry: the job of transform with zeros in the place of the forward pass (not of files).
of_read, of_identity, of_carry: the forward pass plus that, over transform, by the clock.

The model: 13 floats and 26 embeddings (a table of 100,000 rows of 16) into 256-128-1. --layers 256,128 is its size: the
less it computes, the more the ways there and back count. One JSON line; --spark needs Java and memory for two tasks.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

import sparkflow as tf
from sparkflow_connectors.model import Predictor, rows_at_once

DENSE, SLOTS, IDS, WIDTH = 13, 26, 100_000, 16
BATCH = 16384


def table(rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {"row": np.arange(rows)}
    columns |= {f"I{i}": rng.standard_normal(rows).astype(np.float32) for i in range(DENSE)}
    columns |= {f"C{i}": rng.integers(0, IDS, rows, dtype=np.int32) for i in range(SLOTS)}
    return pa.table(columns)


def saved_model(folder: str, layers: list[int]) -> Any:
    """Every column is an input of its own."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        floats = {f"I{i}": tf.placeholder(tf.float32, [None], f"I{i}") for i in range(DENSE)}
        ids = {f"C{i}": tf.placeholder(tf.int32, [None], f"C{i}") for i in range(SLOTS)}
        embedding = tf.get_variable("embedding", [IDS, WIDTH])
        rows = tf.nn.embedding_lookup(embedding, tf.stack(list(ids.values()), 1))
        net = tf.concat([tf.stack(list(floats.values()), 1), tf.reshape(rows, [-1, SLOTS * WIDTH])], 1)
        for units in layers:
            net = tf.layers.dense(net, units, tf.nn.relu)
        p = tf.sigmoid(tf.layers.dense(net, 1)[:, 0], name="p")
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, folder, {**floats, **ids}, {"p": p})
    return tf.local.load_model(folder)


def forward(model: Any, arrays: dict[str, np.ndarray], rows: int) -> None:
    predictor = Predictor(model)
    for at in range(0, rows, BATCH):
        part = {name: values[at : at + BATCH] for name, values in arrays.items()}
        predictor.run(part)


def cpu_s() -> float:
    """Of this process and everything it has started."""
    total = time.process_time()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def best_s(*works: Callable[[], Any], rounds: int) -> np.ndarray:
    """The least wall time and the least processor time of each: [works, 2]. They take turns; the first turn is left
    out."""
    taken = np.empty((rounds + 1, len(works), 2))
    for turn in taken:
        for work, times in zip(works, turn, strict=True):
            begun, cpu = time.perf_counter(), cpu_s()
            work()
            times[:] = time.perf_counter() - begun, cpu_s() - cpu
    return taken[1:].min(0)


def plain(model: Any, rows: int, rounds: int) -> np.ndarray:
    data = table(rows)
    arrays = {name: data.column(name).to_numpy() for name in model.columns.sources}
    scored = model.transform(data)
    if scored.num_rows != rows or scored.schema.names[-1] != "p":
        raise SystemExit("wrong table")
    return best_s(lambda: forward(model, arrays, rows), lambda: model.transform(data), rounds=rounds)


def in_dask(model: Any, rows: int, rounds: int) -> np.ndarray:
    from concurrent.futures import ThreadPoolExecutor

    import dask
    import dask.dataframe as dd

    data = table(rows)
    frame = dd.from_pandas(data.to_pandas(), npartitions=16).persist()
    arrays = {name: data.column(name).to_numpy() for name in model.columns.sources}
    halves = [{name: a[at : at + rows // 2] for name, a in arrays.items()} for at in (0, rows // 2)]

    def alone() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda half: forward(model, half, rows // 2), halves))

    def transform() -> None:
        with dask.config.set(scheduler="threads", num_workers=2):
            model.transform(frame).persist()

    return best_s(alone, transform, rounds=rounds)


def in_spark(model: Any, rows: int, rounds: int, files: str | None = None) -> np.ndarray:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from sparkflow_connectors.java import ensure_java

    ensure_java()
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g"}
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    names = [f"cast(randn({i}) as float) I{i}" for i in range(DENSE)]
    names += [f"cast(rand({i}) * {IDS} as int) C{i}" for i in range(SLOTS)]
    frame = spark.range(0, rows, 1, 2).selectExpr("id row", *names).cache()
    if frame.count() != rows:
        raise SystemExit("wrong table")
    if files:
        frame.write.parquet(files)
        frame = spark.read.parquet(files)

    def alone(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            count = batch.column(0)[0].as_py()
            data = table(rows // 2)
            forward(model, {name: data.column(name).to_numpy() for name in model.columns.sources}, count)
            yield batch

    def compute(count: int) -> None:
        spark.range(0, 2, 1, 2).selectExpr(f"{count}L n").mapInArrow(alone, "n long").collect()

    def transform() -> None:
        model.transform(frame).write.format("noop").mode("overwrite").save()

    def carry() -> None:
        carried(model, frame).write.format("noop").mode("overwrite").save()

    def read() -> None:
        spark_alone = frame.where(F.spark_partition_id() >= 0).select("*", F.expr("I0 + 1 as p"))
        spark_alone.write.format("noop").mode("overwrite").save()

    def identity() -> None:
        frame.mapInArrow(lambda batches: batches, frame.schema).write.format("noop").mode("overwrite").save()

    # The arrays take time to make, and the job to start: what no row takes is not the forward pass.
    works = [lambda: compute(0), lambda: compute(rows // 2), transform, read, identity]
    works += [] if files else [carry]
    nothing, whole, *others = best_s(*works, rounds=rounds)
    spark.stop()
    return np.stack([whole - nothing, *others])


def carried(model: Any, frame: Any) -> Any:
    """What transform does without the forward pass: rows go to Python as they do there, and zeros come back."""
    from dataclasses import replace

    from sparkflow_connectors import spark_transform

    given = spark_transform.Predictor
    spark_transform.Predictor = Zeros  # type: ignore[misc, assignment]
    try:
        return spark_transform.transform(replace(model), frame)
    finally:
        spark_transform.Predictor = given  # type: ignore[misc]


class Zeros:
    """In the place of a Predictor."""

    def __init__(self, model: Any):
        self._fields, self.rows = model.output_fields(), rows_at_once(model)

    def __call__(self, tensors: Any, rows: int) -> list[pa.Array]:
        return [pa.array(np.zeros(rows, np.float32)) for _ in self._fields]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for where in ("--spark", "--files", "--dask"):
        p.add_argument(where, action="store_true")
    p.add_argument("--rows", type=int, default=400_000)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--layers", default="256,128")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = saved_model(folder + "/export", [int(n) for n in args.layers.split(",")])
        if args.files:
            where, measured = "files", in_spark(model, args.rows, args.rounds, folder + "/table")
        else:
            where, measure = ("spark", in_spark) if args.spark else ("dask", in_dask) if args.dask else ("arrow", plain)
            measured = measure(model, args.rows, args.rounds)
    (alone, alone_cpu), (transform, transform_cpu), *rest = measured.tolist()
    rates = {"forward_rows_per_s": round(args.rows / alone), "transform_rows_per_s": round(args.rows / transform)}
    shares = {"share": round(alone / transform, 3), "share_by_cpu": round(alone_cpu / transform_cpu, 3)}
    taken = {"forward": alone_cpu, "transform": transform_cpu}
    for name, (floor, floor_cpu) in zip(("read", "identity", "carry"), rest):
        shares[f"of_{name}"] = round((alone + floor) / transform, 3)
        taken[name] = floor_cpu
    by_row = {name: round(cpu / args.rows * 1e6, 2) for name, cpu in taken.items()}
    print(json.dumps({"where": where, **rates, **shares, "cpu_us_a_row": by_row}))


if __name__ == "__main__":
    main()
