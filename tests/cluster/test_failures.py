"""Killed workers, bad input, interrupted drivers: what is said, what is left."""

from __future__ import annotations

import glob
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparkflow as tf
from tests.cluster.conftest import small_model

ENGINES = ("local", "dask", "spark")


class Story(logging.Handler):
    """What the job's log said, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[float, str]] = []
        self.changed = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self.changed:
            self.lines.append((time.monotonic(), record.getMessage()))
            self.changed.notify_all()

    def wait_for(self, pattern: str, timeout_s: float = 120.0) -> tuple[float, re.Match[str]]:
        def found() -> Any:
            return next(((at, m) for at, line in self.lines if (m := re.search(pattern, line))), None)

        with self.changed:
            assert self.changed.wait_for(found, timeout_s), f"{pattern!r} was never said: {self.lines}"
            return found()


@pytest.fixture
def story() -> Iterator[Story]:
    logger, handler = logging.getLogger("sparkflow"), Story()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def _when_a_checkpoint_is_there(folder: Path, act: Callable[[], None]) -> threading.Thread:
    def wait() -> None:
        deadline = time.monotonic() + 120
        while tf.train.latest_checkpoint(str(folder)) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


@pytest.fixture(scope="module")
def undisturbed(clusters: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """The variables that a local training without a loss ends with, by its options."""
    known: dict[Any, dict[str, Any]] = {}

    def variables(table: pa.Table, **options: Any) -> dict[str, Any]:
        key = tuple(sorted(options.items()))
        if key not in known:
            known[key] = clusters.train("local", table, tmp_path_factory.mktemp("calm"), **options).variables()
        return known[key]

    return variables


@pytest.mark.parametrize(
    "engine, strategy, victim",
    [
        pytest.param("local", "ps", 1, marks=pytest.mark.soak),
        pytest.param("dask", "ps", 1, marks=pytest.mark.soak),
        pytest.param("spark", "ps", 1, marks=pytest.mark.slow),
        pytest.param("local", "all_reduce", 0, marks=pytest.mark.soak),
        pytest.param("local", "all_reduce", 1, marks=pytest.mark.slow),
    ],
)
def test_a_killed_worker_costs_an_attempt_and_no_bit(
    clusters: Any,
    engine: str,
    strategy: str,
    victim: int,
    table: pa.Table,
    tmp_path: Path,
    story: Story,
    undisturbed: Callable[..., dict[str, Any]],
    none_left: Any,
) -> None:
    long = {"epochs": 24, "checkpoint_s": 0.3, "strategy": strategy}
    killed_s = []

    def kill() -> None:
        pid = int(story.wait_for(rf"worker {victim} started \(pid (\d+) ")[1][1])
        killed_s.append(time.monotonic())
        os.kill(pid, signal.SIGKILL)

    killer = _when_a_checkpoint_is_there(tmp_path / "killed", kill)
    model = clusters.train(engine, table, tmp_path / "killed", **long)
    killer.join(5)
    noticed_s, said = story.wait_for(r"(?s)attempt 1 of 4 failed: (.*)\. Starting again from (.*)")
    assert noticed_s - killed_s[0] < 15
    assert f"worker {victim} (pid" in said[1] and "model.ckpt-" in said[2]
    assert engine != "local" or "was killed by SIGKILL" in said[1], "how it ended, not only that its line broke"
    story.wait_for(r"resumed from .*model\.ckpt-\d+ at epoch \d+, step \d+")
    assert model.figures["attempts"] == 2 and model.figures["failures"] == [said[1]]
    assert [h["epoch"] for h in model.figures["history"]] == [*range(1, 25)], "of both attempts"
    calm = undisturbed(table, **long)
    for name, value in model.variables().items():
        assert value.tobytes() == calm[name].tobytes(), name
    none_left()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ("local", *(pytest.param(e, marks=pytest.mark.soak) for e in ("dask", "spark"))))
def test_the_chief_saves_when_a_signal_asks(
    clusters: Any,
    engine: str,
    table: pa.Table,
    tmp_path: Path,
    story: Story,
    undisturbed: Callable[..., dict[str, Any]],
    none_left: Any,
) -> None:
    """With nothing saved by the clock: at SIGUSR1 it goes on, at SIGTERM it ends and is begun again where it was."""
    long = {"epochs": 24, "strategy": "ps"}

    def ask() -> None:
        pid = int(story.wait_for(r"pid (\d+) saves at SIGUSR1")[1][1])
        os.kill(pid, signal.SIGUSR1)
        story.wait_for(r"SIGUSR1: saved at epoch \d+, step \d+")
        os.kill(pid, signal.SIGTERM)

    asker = threading.Thread(target=ask, daemon=True)
    asker.start()
    model = clusters.train(engine, table, tmp_path, **long, checkpoint_s=600.0)
    asker.join(5)
    _, saved = story.wait_for(r"SIGTERM: saved at (epoch \d+, step \d+)")
    story.wait_for(r"attempt 1 of 4 failed: .*told to end \(SIGTERM\)")
    story.wait_for(f"resumed from .* at {saved[1]}$")
    assert model.figures["attempts"] == 2
    calm = undisturbed(table, **long, checkpoint_s=0.3)
    for name, value in model.variables().items():
        assert value.tobytes() == calm[name].tobytes(), name
    none_left()


@pytest.mark.parametrize("engine", ("dask", *(pytest.param(e, marks=pytest.mark.soak) for e in ("local", "spark"))))
def test_a_worker_killed_while_it_starts_holds_up_nobody(
    clusters: Any, engine: str, table: pa.Table, tmp_path: Path, story: Story, none_left: Any
) -> None:
    """Before the roles know each other there is nobody to miss it but the driver."""

    def kill() -> None:
        os.kill(int(story.wait_for(r"worker 1 started \(pid (\d+) ")[1][1]), signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    model = clusters.train(engine, table, tmp_path, epochs=2)
    failed_s, _ = story.wait_for(r"attempt 1 of 4 failed: worker 1 \(pid")
    again_s, _ = story.wait_for(r"epoch 1: validation loss")
    assert model.figures["attempts"] in (2, 3)  # killing its Python now and then takes one of Spark's executors along
    if engine == "dask":
        assert again_s - failed_s < 45, "no task of the first attempt sat out its deadline of 60 s on a Dask thread"
    none_left()


@pytest.mark.slow
def test_a_killed_dask_worker_process_is_noticed(
    clusters: Any, table: pa.Table, tmp_path: Path, story: Story, none_left: Any
) -> None:
    """The nanny brings it back on another port, and the pinned future would stay pending for ever."""

    def kill() -> None:
        pids = clusters.dask.run(os.getpid)
        os.kill(sorted(pids.values())[-1], signal.SIGKILL)

    _when_a_checkpoint_is_there(tmp_path, kill)
    model = clusters.train("dask", table, tmp_path, epochs=24, checkpoint_s=0.3)
    story.wait_for(r"attempt 1 of 4 failed")
    assert model.figures["attempts"] == 2
    none_left()


def test_a_killed_parameter_server_is_noticed(
    clusters: Any, table: pa.Table, tmp_path: Path, story: Story, roles_running: Any
) -> None:
    def kill() -> None:
        servers = [p for p in roles_running() if "ps_process" in " ".join(p.cmdline())]
        servers[-1].kill()

    _when_a_checkpoint_is_there(tmp_path, kill)
    model = clusters.train("local", table, tmp_path, epochs=24, checkpoint_s=0.3)
    story.wait_for(r"attempt 1 of 4 failed: .*parameter server|attempt 1 of 4 failed: .*/job:ps")
    assert model.figures["attempts"] == 2


@pytest.mark.slow
def test_restarts_are_bounded(clusters: Any, table: pa.Table, tmp_path: Path, story: Story, none_left: Any) -> None:
    stop = threading.Event()

    def kill_all() -> None:
        while not stop.is_set():
            for _, line in list(story.lines):
                if (m := re.search(r"worker 0 started \(pid (\d+) ", line)) and psutil.pid_exists(int(m[1])):
                    os.kill(int(m[1]), signal.SIGKILL)
            stop.wait(0.05)

    thread = threading.Thread(target=kill_all, daemon=True)
    thread.start()
    try:
        with pytest.raises(tf.errors.UnavailableError, match="worker 0"):
            clusters.train("local", table, tmp_path, epochs=60, max_restarts=1)
    finally:
        stop.set()
        thread.join()
    none_left()


# ---------------------------------------------------------------------------- bad input


def _with(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, values)


def _null_label(table: pa.Table) -> pa.Table:
    values = table.column("late").to_pylist()
    values[17] = None
    return _with(table, "late", pa.array(values, pa.float32()))


BAD: dict[str, tuple[Callable[[pa.Table], pa.Table], dict[str, Any], str]] = {
    "missing column": (lambda t: t.drop_columns(["x"]), {}, "Column 'x' is missing; the table has"),
    "string column": (
        lambda t: _with(t, "x", pa.array(["a"] * t.num_rows)),
        {},
        "Column 'x' has type .*string: a training reads strings as numbers",
    ),
    "null label": (_null_label, {}, r"Column 'late' .*is null at row \d+"),
    "empty": (lambda t: t.slice(0, 0), {}, "is empty"),
    "more workers than rows": (lambda t: t.slice(0, 1), {}, "more workers"),
    "too many servers": (lambda t: t, {"ps": 5}, "ps is 5 and workers 2"),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_error(
    clusters: Any, engine: str, case: str, table: pa.Table, tmp_path: Path, none_left: Any
) -> None:
    spoil, options, message = BAD[case]
    started = time.monotonic()
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        clusters.train(engine, spoil(table), tmp_path / "out", **options)
    assert time.monotonic() - started < 60
    assert not (tmp_path / "out").exists(), "nothing half-written"
    none_left()


def test_a_damaged_file_is_one_clear_error(clusters: Any, table: pa.Table, tmp_path: Path, none_left: Any) -> None:
    (tmp_path / "table").mkdir()
    for i in range(2):
        pq.write_table(table.slice(1500 * i, 1500), tmp_path / "table" / f"{i}.parquet", use_dictionary=False)
    damaged = tmp_path / "table" / "1.parquet"
    data = bytearray(damaged.read_bytes())
    data[4:2000] = b"\xff" * 1996
    damaged.write_bytes(data)
    rows = clusters.spark.read.parquet(str(tmp_path / "table"))
    with pytest.raises(tf.errors.DataLossError, match=r"table/1\.parquet: row group 0 cannot be read"):
        tf.spark.train(rows, small_model(), label="late", features=["user", "x"], checkpoint_dir=str(tmp_path / "out"),
                       workers=2, ps=2, params={"sync": True})  # fmt: skip
    assert not (tmp_path / "out").exists(), "nothing half-written"
    none_left()


def test_a_disk_that_takes_no_rows_is_one_clear_error(
    clusters: Any, table: pa.Table, tmp_path: Path, none_left: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(tf.errors.ResourceExhaustedError, match=r"Cannot spool .*nowhere: No such file .*TMPDIR"):
        clusters.train("local", table, tmp_path / "out")
    assert not (tmp_path / "out").exists(), "nothing half-written"
    none_left()


@pytest.mark.parametrize("engine", ["dask", "spark"])
def test_too_few_slots_are_refused_with_the_numbers(
    clusters: Any, engine: str, table: pa.Table, tmp_path: Path
) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"7 workers need 7 task slots at once, and .* has 2"):
        clusters.train(engine, table, tmp_path / "out", workers=7)
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_of_another_model_is_refused(clusters: Any, table: pa.Table, tmp_path: Path) -> None:
    clusters.train("local", table, tmp_path, epochs=1)
    before = sorted(os.listdir(tmp_path))

    def other(features: Any, labels: Any, mode: str) -> Any:
        w = tf.get_variable("another", [2], initializer=tf.zeros_initializer())
        p = features["x"] * w[0] + w[1]
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=p)
        loss = tf.reduce_mean(tf.square(p - labels))
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with pytest.raises(tf.errors.FailedPreconditionError, match="is of another model: it has no variable 'another'"):
        clusters.train("local", table, tmp_path, model_fn=other)
    assert sorted(os.listdir(tmp_path)) == before
    tf.local.write_variables(
        str(tmp_path / "mine" / "model.ckpt-1"), {"another": pa.table({"row": [0, 1], "value": [0.0, 1]})}
    )
    (tmp_path / "mine" / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-1"')
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"not say which rows .*init_from_checkpoint"):
        clusters.train("local", table, tmp_path / "mine", model_fn=other)


@pytest.mark.parametrize("ending", [".index", pytest.param(".data-*", marks=pytest.mark.slow)])
def test_a_damaged_checkpoint_and_an_older_one(clusters: Any, table: pa.Table, tmp_path: Path, ending: str) -> None:
    """Nothing goes back by itself. What to do is said, and does."""
    clusters.train("local", table, tmp_path, epochs=3)
    newest = str(tf.train.latest_checkpoint(str(tmp_path)))
    for path in glob.glob(newest + ending):
        Path(path).write_bytes(Path(path).read_bytes()[:-9])
    with pytest.raises(tf.errors.DataLossError, match=r"To go on from .*, which is older, write") as error:
        clusters.train("local", table, tmp_path, epochs=5)
    told = re.search(r"write '(model_checkpoint_path: \"model\.ckpt-\d+\")' into (\S+)", error.value.message)
    assert told is not None and newest in error.value.message
    Path(told[2]).write_text(told[1])
    model = clusters.train("local", table, tmp_path, epochs=5)
    assert [h["epoch"] for h in model.figures["history"]] == [3, 4, 5]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_in_the_model_is_reported_as_itself(
    clusters: Any, engine: str, table: pa.Table, tmp_path: Path, none_left: Any
) -> None:
    def diverging(features: Any, labels: Any, mode: str) -> Any:
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        p = features["x"] * w
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=p)
        loss = tf.reduce_mean(tf.square(p - labels)) / tf.cast(tf.less(tf.reduce_max(labels), 0), tf.float32)
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"worker .*The loss is (inf|nan) at epoch 1, step 1"):
        clusters.train(engine, table, tmp_path, model_fn=diverging, sync=False)
    none_left()


# ---------------------------------------------------------------------------- drivers that end


DRIVER = """
    import logging, signal, sys
    import numpy as np, pyarrow as pa, sparkflow as tf

    def model_fn(features, labels, mode):
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        p = features["x"] * w
        if mode == "infer":
            return tf.estimator.EstimatorSpec(mode, predictions=p)
        loss = tf.reduce_mean(tf.square(p - labels))
        op = tf.train.GradientDescentOptimizer(1e-3).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=op)

    def main():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background of a shell ignores it
        logging.basicConfig(level=logging.INFO)
        x = np.ones(2000, np.float32)
        table = pa.table({"x": x, "y": x})
        options = dict(label="y", workers=2, ps=2, sync=False, epochs=100000, batch_size=10, checkpoint_dir=sys.argv[2])
        if sys.argv[1] == "local":
            tf.local.train(table, model_fn, **options)
        elif sys.argv[1] == "dask":
            import dask.dataframe as dd
            from distributed import Client, LocalCluster
            with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=':0') as here, Client(here):
                tf.dask.train(dd.from_pandas(table.to_pandas(), npartitions=2), model_fn, **options)
        else:
            from sparkflow_connectors.java import ensure_java
            ensure_java()
            spark = tf.spark.session("interrupted", "local[2]")
            tf.spark.train(spark.createDataFrame(table), model_fn, **options)

    if __name__ == "__main__":
        main()
"""


@pytest.mark.parametrize("engine", ["local", *(pytest.param(e, marks=pytest.mark.slow) for e in ("spark", "dask"))])
@pytest.mark.parametrize(
    "how",
    [
        pytest.param(signal.SIGINT, id="ctrl-c"),
        pytest.param(signal.SIGTERM, id="ended", marks=pytest.mark.soak),
        pytest.param(signal.SIGKILL, id="killed", marks=pytest.mark.soak),
    ],
)
def test_nothing_outlives_the_driver(engine: str, how: int, tmp_path: Path, none_left: Any) -> None:
    script = tmp_path / "driver.py"
    script.write_text(textwrap.dedent(DRIVER))
    command = [sys.executable, str(script), engine, str(tmp_path / "out")]
    driver = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    reader = threading.Thread(target=driver.stderr.read)  # type: ignore[union-attr]  # a full pipe would hold it up
    try:
        _wait_until_it_trains(driver)
        reader.start()
        ours = [p for p in psutil.Process(driver.pid).children(recursive=True) if _is_ours(p)]
        assert ours
        if how == signal.SIGINT:
            os.killpg(driver.pid, how)  # as a terminal does
        else:
            os.kill(driver.pid, how)
        _, alive = psutil.wait_procs(ours, timeout=10)
        assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE], alive
        none_left()
        driver.wait(10 if engine == "local" else 30)  # Dask and Spark take their own time to close what they are
    finally:
        _end_group(driver.pid)
        driver.wait(20)
        if reader.ident is not None:
            reader.join(20)
        driver.stderr.close()  # type: ignore[union-attr]


def _wait_until_it_trains(driver: subprocess.Popen[str]) -> None:
    said = ""
    for line in driver.stderr:  # type: ignore[union-attr]
        said += line
        if re.search(r"worker \d: epoch 1: validation|epoch \d+, \d+ examples", line):
            return
    pytest.fail(f"the driver ended early:\n{said}")


def _is_ours(process: psutil.Process) -> bool:
    """A role, or a Python worker of Spark that hosts one."""
    try:
        line = " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # a zombie, too
        return False
    return "sparkflow_connectors." in line or "pyspark.daemon" in line


def _end_group(group: int) -> None:
    """Whatever is left of the driver: a killed one leaves its own Dask or Spark processes for a while."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
