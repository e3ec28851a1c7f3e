"""A small model, its table, and the three real clusters that train it."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest

import sparkflow as tf

RUN_VARIABLE = "SPARKFLOW_TEST_RUN"
os.environ[RUN_VARIABLE] = f"{os.getpid()}-{time.time()}"  # marks every process that these tests start
# Queries that run once: a JVM's second compiler takes more than it gives, and so do threads that collect garbage and
# what verifies Spark's classes, a sixth of the time until a session is there.
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
UNVERIFIED = (  # other JVMs than we know may have no such option, or a word to say of it, which spark-submit would read
    "-XX:+IgnoreUnrecognizedVMOptions -XX:-PrintWarnings -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
os.environ.setdefault("JDK_JAVA_OPTIONS", f"{JVM} {UNVERIFIED}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/cluster" in item.path.as_posix():
            item.add_marker(pytest.mark.cluster)
            # Dask and Spark leave sockets to the garbage collector, at moments that say nothing about the test.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


def small_table(rows: int = 3000) -> pa.Table:
    """Users who like or do not, and a number that matters; `row` numbers the rows."""
    rng = np.random.default_rng(5)
    user, x = rng.integers(0, 200, rows), rng.normal(size=rows).astype(np.float32)
    taste = rng.normal(size=200)
    late = (taste[user] + x + rng.normal(size=rows) > 0).astype(np.float32)
    return pa.table({"user": user, "x": x, "late": late, "row": np.arange(rows)})


def small_model() -> Callable[..., Any]:
    """A model function that travels by value: an embedding and a dense layer, Adagrad, synchronous if asked."""

    def model_fn(features: dict[str, Any], labels: Any, mode: str, params: dict[str, Any], config: Any) -> Any:
        rows = tf.nn.embedding_lookup(tf.get_variable("users", [200, 4]), features["user"])
        inputs = tf.concat([rows, tf.expand_dims(features["x"], 1)], 1)
        w = tf.get_variable("w", [5, 1])
        bias = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
        logits = tf.squeeze(tf.matmul(inputs, w) + bias, axis=1)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(
                mode, predictions={"p": tf.sigmoid(logits), "both": tf.stack([logits, -logits], 1)}
            )
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
        if mode == tf.estimator.ModeKeys.EVAL:
            return tf.estimator.EstimatorSpec(mode, loss=loss)
        optimizer: Any = tf.train.AdagradOptimizer(0.3)
        hooks = []
        if params.get("strategy") == "all_reduce":
            from sparkflow.distribute import DistributedOptimizer

            optimizer = DistributedOptimizer(optimizer, config.num_worker_replicas)
        elif params["sync"]:
            n = config.num_worker_replicas
            optimizer = tf.train.SyncReplicasOptimizer(optimizer, n, n)
            hooks = [optimizer.make_session_run_hook(config.is_chief, num_tokens=0)]
        train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)

    return model_fn


class Clusters:
    """Trains on an engine by its name; Spark and Dask start when first needed and are shared by the session's tests."""

    def __init__(self) -> None:
        self._spark: Any = None
        self._dask: Any = None

    @property
    def spark(self) -> Any:
        if self._spark is None:
            from pyspark.sql import SparkSession

            from sparkflow_connectors.java import ensure_java

            ensure_java()
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("sparkflow tests")
            builder = builder.config("spark.ui.enabled", "false").config(
                "spark.executorEnv.PYTHONPATH", os.pathsep.join(os.sys.path)
            )  # type: ignore[attr-defined]
            self._spark = builder.getOrCreate()
        return self._spark

    @property
    def dask(self) -> Any:
        if self._dask is None:
            from distributed import Client, LocalCluster

            self._dask = Client(LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"))
        return self._dask

    @staticmethod
    def table(rows: int = 3000) -> pa.Table:
        return small_table(rows)

    def train(self, engine: str, table: pa.Table, checkpoint_dir: Path | str, **options: Any) -> Any:
        usual: dict[str, Any] = {"workers": 2, "ps": 2, "sync": True, "epochs": 2, "batch_size": 64}
        table_options = {"label": "late", "features": ["user", "x"], "partition_by": "row", "order_by": "row"}
        given = {**usual, **table_options, "checkpoint_dir": str(checkpoint_dir), **options}
        model_fn = given.pop("model_fn", None) or small_model()
        given.setdefault("params", {"sync": given["sync"], "strategy": given.get("strategy")})
        return getattr(tf, engine).train(self.frame(engine, table), model_fn, **given)

    def frame(self, engine: str, table: pa.Table) -> Any:
        if engine == "local":
            return table
        if engine == "spark":
            return self.spark.createDataFrame(table)
        import dask.dataframe as dd

        assert self.dask is not None
        return dd.from_pandas(table.to_pandas(), npartitions=2)

    def rows(self, engine: str, frame: Any) -> Any:
        """A scored frame as pandas, ordered by `row`."""
        found = frame.to_pandas() if engine == "local" else frame.toPandas() if engine == "spark" else frame.compute()
        return found.sort_values("row").reset_index(drop=True)

    def close(self) -> None:
        if self._spark is not None:
            self._spark.stop()
        if self._dask is not None:
            cluster = self._dask.cluster
            self._dask.close()
            cluster.close()


@pytest.fixture(scope="session")
def clusters() -> Iterator[Clusters]:
    found = Clusters()
    yield found
    found.close()


@pytest.fixture
def table() -> pa.Table:
    return small_table()


def roles() -> list[psutil.Process]:
    """Parameter servers and worker children of this test run that live now, whoever their parent is by now."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        ours = "sparkflow_connectors.ps_process" in line or "sparkflow_connectors.worker_process" in line
        with contextlib.suppress(psutil.NoSuchProcess):
            if ours and process.environ().get(RUN_VARIABLE) == os.environ[RUN_VARIABLE]:
                found.append(process)
    return found


@pytest.fixture(name="roles_running")
def roles_running_fixture() -> Callable[[], list[psutil.Process]]:
    return roles


@pytest.fixture(name="none_left")
def none_left_fixture() -> Callable[[], None]:
    def check(within_s: float = 10.0) -> None:
        deadline = time.monotonic() + within_s
        while (left := roles()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left, f"processes of ours are left: {left}"

    return check
