"""Each row of an epoch is used once, also by a training that loses a task and goes on: proved by counting.

The model has a number for each row of the table. Its loss is the sum of the numbers of a batch, so each use of a row
takes exactly the learning rate from its number, whatever batch it is in and whichever worker uses it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparkflow as tf

ROWS, EPOCHS, VALIDATION, BATCH = 3000, 3, 0.1, 64


def counting_model() -> Callable[..., Any]:
    """params: kill, the global steps at which worker 1 dies, each once; notes, a folder that says which were done."""

    def model_fn(features: dict[str, Any], labels: Any, mode: str, params: dict[str, Any], config: Any) -> Any:
        uses = tf.get_variable("uses", [params["rows"]], initializer=tf.zeros_initializer())
        numbers = tf.gather(uses, features["row"])
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={"uses": numbers})
        loss = tf.reduce_sum(numbers)
        if mode == tf.estimator.ModeKeys.EVAL:
            return tf.estimator.EstimatorSpec(mode, loss=loss)

        class Killer(tf.train.SessionRunHook):
            def before_run(self, run_context: Any) -> Any:
                return tf.train.SessionRunArgs(tf.train.get_global_step())

            def after_run(self, run_context: Any, run_values: Any) -> None:
                for step in params["kill"]:
                    note = os.path.join(params["notes"], str(step))
                    if run_values.results >= step and not os.path.exists(note):
                        open(note, "x").close()
                        os.kill(os.getpid(), signal.SIGKILL)

        n = config.num_worker_replicas
        optimizer: Any = tf.train.GradientDescentOptimizer(1.0)
        hooks = []
        if params["strategy"] == "all_reduce":
            from sparkflow.distribute import DistributedOptimizer

            optimizer = DistributedOptimizer(optimizer, n)
        else:
            optimizer = tf.train.SyncReplicasOptimizer(optimizer, n, n)
            hooks.append(optimizer.make_session_run_hook(config.is_chief, num_tokens=0))
        if config.task_id == 1:
            hooks.append(Killer())
        train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)

    return model_fn


def uses(
    clusters: Any, engine: str, data: Any, folder: Path, kill: list[int], **options: Any
) -> tuple[np.ndarray, Any]:
    """How often each row was used, in learning rates, by a training that loses worker 1 at these steps."""
    notes = folder / "notes"
    notes.mkdir(parents=True)
    usual: dict[str, Any] = {
        "workers": 2,
        "ps": 2,
        "sync": True,
        "epochs": EPOCHS,
        "batch_size": BATCH,
        "validation": VALIDATION,
    }
    usual.update(checkpoint_s=0.02, uneven="join")
    params = {"rows": ROWS, "kill": kill, "notes": str(notes), "strategy": options.get("strategy", "ps")}
    model = getattr(tf, engine).train(
        data, counting_model(), label=None, features=["row"], checkpoint_dir=str(folder / "checkpoints"),
        params=params, **{**usual, **options},
    )  # fmt: skip
    assert len(os.listdir(notes)) == len(kill) == model.figures["attempts"] - 1
    return -tf.train.load_variable(model.figures["checkpoint"], "uses"), model


def check(used: np.ndarray, epochs: int = EPOCHS) -> None:
    """All rows but those kept for validation were used, and equally often."""
    times = used[used > 0]
    assert len(np.unique(times)) == 1, np.unique(times, return_counts=True)
    assert times[0] == epochs, "a gradient of rows is divided by how many workers sent any of that row: here it is one"
    held = int((used == 0).sum())
    assert ROWS * VALIDATION - 2 <= held <= ROWS * VALIDATION


def lopsided() -> pa.Table:
    """`part`: two thirds of the rows belong to worker 0."""
    row = np.arange(ROWS)
    return pa.table({"row": row, "part": (row % 3 == 0).astype(np.int64)})


@pytest.mark.parametrize("engine", [*(pytest.param(e, marks=pytest.mark.soak) for e in ("local", "dask")), "spark"])
def test_a_training_that_loses_tasks_uses_each_row_once_an_epoch(
    clusters: Any, engine: str, tmp_path: Path, none_left: Any
) -> None:
    data = clusters.frame(engine, lopsided())
    kill = [9, 45]  # in the pass that reads the rows, and in the epoch after it
    used, model = uses(clusters, engine, data, tmp_path, kill, partition_by="part", order_by="row", feed_bytes=8192)
    check(used)
    assert model.figures["examples"] < 3 * EPOCHS * ROWS
    none_left()


@pytest.mark.slow
def test_a_training_on_parquet_files_uses_each_row_once_an_epoch(
    clusters: Any, tmp_path: Path, none_left: Any, caplog: Any
) -> None:
    (tmp_path / "table").mkdir()
    for i in range(3):
        part = pa.table({"row": np.arange(ROWS)[i::3]})
        pq.write_table(part, tmp_path / "table" / f"{i}.parquet", row_group_size=300)
    data = clusters.spark.read.parquet(str(tmp_path / "table"))
    with caplog.at_level("INFO", "sparkflow"):
        used, _ = uses(clusters, "spark", data, tmp_path, [9, 30], feed_bytes=8192)
    assert "read the 3 parquet files of the DataFrame themselves" in caplog.text
    check(used)
    none_left()


def test_dask_reads_small_parquet_files_as_one(clusters: Any, tmp_path: Path, none_left: Any) -> None:
    """It does where few of their columns are read; then the partitions that are computed have other keys."""
    import dask.dataframe as dd

    assert clusters.dask is not None
    row = np.arange(ROWS)
    whole = pa.table({"row": row, **{f"c{i}": row * 0.5 for i in range(8)}}).to_pandas()
    dd.from_pandas(whole, npartitions=5).to_parquet(tmp_path / "table")
    used, model = uses(clusters, "dask", dd.read_parquet(tmp_path / "table"), tmp_path, [], epochs=1)
    check(used, 1)
    assert model.figures["attempts"] == 1
    none_left()


_EVERY_DAY = {("pad", 200, "ps"), ("pad", 0, "all_reduce"), ("join", 0, "ps"), ("join", 200, "all_reduce"),
              ("drop", 200, "ps"), ("drop", 0, "ps")}  # fmt: skip
_ENGINES = ("local", "dask", "spark")


@pytest.mark.parametrize(
    ("uneven", "small", "strategy", "engine"),
    [
        pytest.param(*case, engine, marks=[] if engine == "local" and case in _EVERY_DAY else [pytest.mark.soak])
        for case in product(["pad", "join", "drop"], [200, 0], ["ps", "all_reduce"])
        for engine in _ENGINES
    ],
)
def test_uneven_partitions_neither_hang_nor_lose_rows(
    clusters: Any, tmp_path: Path, none_left: Any, uneven: str, small: int, strategy: str, engine: str
) -> None:
    row = np.arange(ROWS)
    data = clusters.frame(engine, pa.table({"row": row, "part": (row < small).astype(np.int64)}))
    options = {"partition_by": "part", "uneven": uneven, "validation": 0.0, "feed_bytes": 8192, "strategy": strategy}
    if uneven == "drop" and not small:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"partitions \[1\] have no full batch of 64 rows"):
            uses(clusters, engine, data, tmp_path, [], **options)
        none_left()
        return
    used, _ = uses(clusters, engine, data, tmp_path, [], **options)
    scale = 2.0 if strategy == "all_reduce" else 1.0  # there, the mean is over all workers
    own, others = used[small:] * scale, used[:small] * scale
    if uneven == "join":
        assert (own == EPOCHS).all() and (others == EPOCHS).all()
    elif uneven == "pad":
        steps = -(-(ROWS - small) // BATCH)
        assert (own >= EPOCHS).all() and own.sum() == EPOCHS * steps * BATCH
        assert not small or ((others > EPOCHS).all() and others.sum() == EPOCHS * steps * BATCH)
    else:
        steps = small // BATCH
        assert (own <= EPOCHS).all() and own.sum() == others.sum() == EPOCHS * steps * BATCH
    none_left()


@pytest.mark.slow
def test_rows_that_come_in_another_order_are_noticed(
    clusters: Any, tmp_path: Path, none_left: Any, caplog: Any
) -> None:
    """A second run whose table has the same rows in another order begins its epoch again, and says so."""
    table = lopsided()
    options = {"partition_by": "part", "feed_bytes": 8192}
    with pytest.raises(tf.errors.OpError), caplog.at_level("INFO", "sparkflow"):
        uses(clusters, "local", table, tmp_path, [9], max_restarts=0, **options)
    other = table.take(pa.array(np.random.default_rng(3).permutation(ROWS)))
    with caplog.at_level("INFO", "sparkflow"):
        tf.local.train(
            other, counting_model(), label=None, features=["row"], checkpoint_dir=str(tmp_path / "checkpoints"),
            checkpoint_s=0.02, uneven="join", workers=2, ps=2, sync=True, epochs=1, batch_size=BATCH,
            validation=VALIDATION, params={"rows": ROWS, "kill": [], "notes": "", "strategy": "ps"}, **options,
        )  # fmt: skip
    assert "the rows come in another order than before: epoch 1 begins again" in caplog.text
    assert "Give `order_by` a column in which no two rows are equal" in caplog.text
    none_left()


def test_a_checkpoint_that_comes_late_is_not_taken_for_the_one_whose_ledger_was_read(
    graph: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chief of an earlier attempt, late to hear of its end, may finish one while the next attempt begins."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    counting = counting_model()

    def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any], config: Any) -> Any:
        if mode == tf.estimator.ModeKeys.TRAIN and "TF_CONFIG" in os.environ:  # in the chief, which has read the ledger
            Path(config.model_dir, "checkpoint").write_text(f'model_checkpoint_path: "{params["late"]}"')
        return counting(features, labels, mode, params, config)

    tf.get_variable("uses", initializer=np.full(100, -7, np.float32))
    tf.get_variable("global_step", initializer=np.int64(9))
    tf.get_variable("sparkflow_job/best", initializer=np.array([np.inf, -1.0]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        late = tf.train.Saver().save(session, str(tmp_path / "late" / "model.ckpt"))
    model = tf.local.train(
        pa.table({"row": np.arange(100)}), model_fn, label=None, checkpoint_dir=str(tmp_path / "checkpoints"),
        params={"rows": 100, "kill": [], "notes": "", "strategy": "ps", "late": late},
        epochs=2, batch_size=50, validation=0.0, uneven="join",
    )  # fmt: skip
    assert (tf.train.load_variable(model.figures["checkpoint"], "uses") == -2).all()
