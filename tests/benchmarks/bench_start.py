"""How long a training takes that has next to nothing to do: what it costs to begin and to end one.

    python tests/benchmarks/bench_start.py [local] [dask] [spark] [--workers 2] [--ps 1] [--times 4]

Seconds of each of `times` trainings, one after the other in one process, of 2,000 rows and a linear model. The cluster
of Dask and Spark's session are there before.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pyarrow as pa

import sparkflow as tf

ROWS = 2000


def model_fn(features: dict[str, Any], labels: Any, mode: str) -> Any:
    w = tf.get_variable("w", [2, 1])
    score = tf.squeeze(tf.matmul(tf.stack([features["a"], features["b"]], 1), w), 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"score": score})
    loss = tf.reduce_mean(tf.square(score - labels))
    train_op = tf.train.AdagradOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({name: rng.random(ROWS, np.float32) for name in ("a", "b", "label")})


def local(workers: int) -> tuple[Any, Any]:
    return tf.local.train, pa.Table.from_pandas(frame())


def dask(workers: int) -> tuple[Any, Any]:
    from dask.dataframe import from_pandas
    from distributed import Client, LocalCluster

    Client(LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0"))
    return tf.dask.train, from_pandas(frame(), npartitions=workers)


def spark(workers: int) -> tuple[Any, Any]:
    from sparkflow_connectors.java import ensure_java

    ensure_java()
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    session = tf.spark.session(master=f"local[{workers}]")
    return tf.spark.train, session.createDataFrame(frame())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["local"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ps", type=int, default=1)
    parser.add_argument("--times", type=int, default=4)
    given = parser.parse_args()
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    for name in given.names:
        train, data = {"local": local, "dask": dask, "spark": spark}[name](given.workers)
        seconds = []
        for _ in range(given.times):
            with tempfile.TemporaryDirectory() as folder:
                begun = time.perf_counter()
                train(
                    data, model_fn, label="label", checkpoint_dir=str(Path(folder) / "model"), workers=given.workers,
                    ps=given.ps, sync=False, batch_size=100,
                )  # fmt: skip
                seconds.append(time.perf_counter() - begun)
        print(f"{name:6}", *(f"{s:5.2f}" for s in seconds), "s", flush=True)


if __name__ == "__main__":
    main()
