"""What is said where a process may have no more memory, threads or open files."""

from __future__ import annotations

import errno
import resource
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparkflow as tf
from sparkflow_connectors import files
from sparkflow_connectors.limits import exhausted
from sparkflow_runtime.wire.errors import (
    DataLossError,
    InternalError,
    InvalidArgumentError,
    PermissionDeniedError,
    ResourceExhaustedError,
)

NO_THREAD = "Unknown error: Failed to launch worker thread: Resource temporarily unavailable"


@pytest.mark.parametrize(
    "error, said",
    [
        (MemoryError(), r"^MemoryError\. This process may have 900 MiB of address space"),
        (
            RuntimeError("can't start new thread"),
            r"^RuntimeError: can't start new thread\. .*spark.executor.pyspark.mem",
        ),
        (InternalError("RuntimeError: can't start new thread\n\t [[node a]]"), r"\[\[node a\]\]\. This process may"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "900 MiB"),
        (OSError(errno.EMFILE, "Too many open files"), r"may have 943718400 files open \(ulimit -n\)"),
    ],
)
def test_a_limit_is_named(error: BaseException, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda what: (900 << 20, 900 << 20))
    with pytest.raises(ResourceExhaustedError, match=said) as raised:
        raise exhausted(error) or error
    assert exhausted(raised.value) is None, "once is enough"


def test_other_errors_are_left_as_they_are() -> None:
    for error in (ValueError("1"), OSError(errno.ENOENT, "gone"), InvalidArgumentError("a"), RuntimeError("busy")):
        assert exhausted(error) is None


@pytest.mark.parametrize(
    "error, kind",
    [
        (pa.ArrowMemoryError("malloc of size 64 failed"), ResourceExhaustedError),
        (pa.ArrowException(NO_THREAD), ResourceExhaustedError),
        (OSError(errno.EMFILE, "Too many open files"), ResourceExhaustedError),
        (PermissionError(errno.EACCES, "Permission denied"), PermissionDeniedError),
        (OSError(errno.EIO, "Input/output error"), DataLossError),
    ],
)
def test_a_file_that_a_process_cannot_read_may_be_whole(
    error: Exception, kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told to be damaged, and to be written anew."""

    def fail(*args: Any, **options: Any) -> Any:
        raise error

    path = str(tmp_path / "one.parquet")
    pq.write_table(pa.table({"x": [1, 2]}), path)
    types = {"x": pa.int64()}
    parts = files.row_groups([path], types)
    with monkeypatch.context() as patch:
        patch.setattr(files.pq, "ParquetFile", fail)
        with pytest.raises(kind, match=r"one\.parquet: (its footer|this process may not read)"):
            files.row_groups([path], types)
    monkeypatch.setattr(files, "_rows", fail)
    with pytest.raises(kind, match=r"one\.parquet: (row group 0|this process may not read)"):
        list(files.read(parts, types))


class Greedy(tf.train.SessionRunHook):
    def before_run(self, run_context: Any) -> None:
        raise MemoryError


def test_a_worker_that_gets_no_memory_says_so(tmp_path: Path) -> None:
    """It said `InternalError: MemoryError:`, and no more."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        found = tf.get_variable("w", []) * features["x"]
        if mode == "infer":
            return tf.estimator.EstimatorSpec(mode, {"y": found})
        loss = tf.reduce_mean(tf.square(found - labels))
        step = tf.train.get_global_step()
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step) if mode == "train" else None
        hooks = [Greedy()] if mode == "train" else []
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)

    table = pa.table({"x": pa.array([1.0, 2.0] * 20, pa.float32()), "y": pa.array([1.0] * 40, pa.float32())})
    with pytest.raises(ResourceExhaustedError, match=r"^worker 0: MemoryError\. This (machine|process)"):
        tf.local.train(table, model_fn, label="y", sync=False, checkpoint_dir=str(tmp_path / "out"))
