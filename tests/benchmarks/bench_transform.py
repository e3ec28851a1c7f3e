"""`model.transform` of a table of 40 columns, beside the forward pass alone on the same arrays; they take turns.

    python tests/benchmarks/bench_transform.py             # an Arrow table in this process
    python tests/benchmarks/bench_transform.py --spark     # a cached DataFrame in two tasks, against two such tasks

The model: 13 floats and 26 embeddings (a table of 100,000 rows of 16) into 256-128-1. --layers 256,128 is its size: the
less it computes, the more the ways there and back count. One JSON line; --spark needs Java and memory for two tasks.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import sparkflow as tf
from sparkflow_connectors.model import Predictor

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


def best_s(*works: Callable[[], Any], rounds: int) -> list[float]:
    """The least wall time of each, which take turns."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, times in zip(works, taken, strict=True):
            begun = time.perf_counter()
            work()
            times.append(time.perf_counter() - begun)
    return [min(times) for times in taken]


def plain(model: Any, rows: int, rounds: int) -> list[float]:
    data = table(rows)
    arrays = {name: data.column(name).to_numpy() for name in model.columns.sources}
    scored = model.transform(data)
    if scored.num_rows != rows or scored.schema.names[-1] != "p":
        raise SystemExit("wrong table")
    return best_s(lambda: forward(model, arrays, rows), lambda: model.transform(data), rounds=rounds)


def in_spark(model: Any, rows: int, rounds: int) -> list[float]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from sparkflow_connectors.java import ensure_java

    ensure_java()
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g"}
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    names = [f"cast(randn({i}) as float) I{i}" for i in range(DENSE)]
    names += [f"cast(rand({i}) * {IDS} as int) C{i}" for i in range(SLOTS)]
    frame = spark.range(0, rows, 1, 2).selectExpr("id row", *names).cache()
    if frame.count() != rows:
        raise SystemExit("wrong table")

    def alone(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            count = batch.column(0)[0].as_py()
            data = table(rows // 2)
            forward(model, {name: data.column(name).to_numpy() for name in model.columns.sources}, count)
            yield batch

    def compute(count: int) -> None:
        spark.range(2).repartition(2).selectExpr(f"{count}L n").mapInArrow(alone, "n long").collect()

    def transform() -> None:
        model.transform(frame).write.format("noop").mode("overwrite").save()

    # The arrays take time to make, and the job to start: what no row takes is not the forward pass.
    nothing, whole, scored = best_s(lambda: compute(0), lambda: compute(rows // 2), transform, rounds=rounds)
    spark.stop()
    return [whole - nothing, scored]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--spark", action="store_true")
    p.add_argument("--rows", type=int, default=400_000)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--layers", default="256,128")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = saved_model(folder + "/export", [int(n) for n in args.layers.split(",")])
        alone, transform = (in_spark if args.spark else plain)(model, args.rows, args.rounds)
    rates = {"forward_rows_per_s": round(args.rows / alone), "transform_rows_per_s": round(args.rows / transform)}
    print(json.dumps({"where": "spark" if args.spark else "arrow", **rates, "share": round(alone / transform, 3)}))


if __name__ == "__main__":
    main()
