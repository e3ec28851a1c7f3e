"""The whole way in each real cluster: a table in, two workers and two servers, a scored table out."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sparkflow as tf
from tests.cluster.conftest import small_model

ENGINES = ("local", "dask", "spark")
BUT_DASK = ("local", pytest.param("dask", marks=pytest.mark.soak), "spark")  # the same, for tests that take long


@pytest.fixture(scope="module")
def trained(clusters: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One synchronous training per engine: the same seed, the same partitions."""
    return {engine: clusters.train(engine, clusters.table(), tmp_path_factory.mktemp(engine)) for engine in ENGINES}


@pytest.fixture(scope="module")
def trained_by_all_reduce() -> dict[str, Any]:
    return {}


@pytest.mark.parametrize("engine", ENGINES)
def test_synchronous_training_ends_with_the_same_bits_everywhere(trained: dict[str, Any], engine: str) -> None:
    here, there = trained[engine].variables(), trained["local"].variables()
    assert set(here) == {"users", "w", "b"}
    for name, value in here.items():
        assert value.tobytes() == there[name].tobytes(), name


@pytest.mark.parametrize("engine", ENGINES)
def test_transform_returns_the_table_with_predictions(
    clusters: Any, trained: dict[str, Any], engine: str, table: pa.Table
) -> None:
    model = trained[engine]
    scored = clusters.rows(engine, model.transform(clusters.frame(engine, table)))
    assert list(scored.columns) == [*table.schema.names, "p", "both"]
    assert scored["late"].tolist() == table.column("late").to_pylist()
    weights = model.variables()
    x = np.concatenate([weights["users"][table.column("user").to_numpy()], table.column("x").to_numpy()[:, None]], 1)
    logits = (x @ weights["w"] + weights["b"])[:, 0]
    np.testing.assert_allclose(scored["p"], 1 / (1 + np.exp(-logits)), rtol=2e-5)
    np.testing.assert_allclose(np.stack(scored["both"]), np.stack([logits, -logits], 1), rtol=1e-4, atol=1e-5)
    right = np.mean((logits > 0) == (table.column("late").to_numpy() > 0))
    assert right > 0.7, "it learned"


def test_an_estimator_exports_what_was_trained(trained: dict[str, Any], table: pa.Table, tmp_path: Path) -> None:
    """As docs/columns.md says."""
    model = trained["local"]
    best = tf.estimator.Estimator(small_model(), str(Path(model.checkpoint).parent), params={"sync": True})
    with tf.Graph().as_default():
        features = {"user": tf.placeholder(tf.int64, [None]), "x": tf.placeholder(tf.float32, [None])}
        receive = tf.estimator.export.build_raw_serving_input_receiver_fn(features)
    exported = tf.local.load_model(best.export_saved_model(str(tmp_path / "export"), receive))
    expected, found = model.transform(table), exported.transform(table)
    assert found.column("p").equals(expected.column("p")) and found.column("both").equals(expected.column("both"))


@pytest.mark.parametrize("engine", ENGINES)
def test_figures_and_files(trained: dict[str, Any], engine: str, none_left: Any) -> None:
    figures = trained[engine].figures
    steps = -(-1350 // 64)
    assert figures["examples"] == 2 * 2 * steps * 64
    assert [h["epoch"] for h in figures["history"]] == [1, 2]
    assert figures["history"][-1]["global_step"] == 2 * steps
    assert figures["failures"] == [] and figures["attempts"] == 1
    assert figures["examples_per_s"] > 0
    folder = Path(figures["checkpoint"]).parent
    assert list(folder.glob("events.out.tfevents.*"))
    assert tf.train.latest_checkpoint(str(folder)) == figures["checkpoint"]
    none_left()


@pytest.mark.parametrize("engine", BUT_DASK)
def test_asynchronous_training_learns(
    clusters: Any, engine: str, table: pa.Table, tmp_path: Path, none_left: Any
) -> None:
    model = clusters.train(engine, table, tmp_path, sync=False, ps=1, epochs=3)
    assert model.figures["history"][-1]["validation_loss"] < 0.62
    none_left()


@pytest.mark.parametrize("engine", BUT_DASK)
def test_all_reduce_ends_with_the_same_bits_everywhere(
    clusters: Any, trained_by_all_reduce: dict[str, Any], engine: str, table: pa.Table, tmp_path: Path, none_left: Any
) -> None:
    here = clusters.train(engine, table, tmp_path, strategy="all_reduce")
    assert here.figures["history"][-1]["validation_loss"] < 0.65
    there = trained_by_all_reduce.setdefault("first", here.variables())
    for name, value in here.variables().items():
        assert value.tobytes() == there[name].tobytes(), name
    assert clusters.rows(engine, here.transform(clusters.frame(engine, table)))["p"].notna().all()
    none_left()


@pytest.mark.slow
def test_all_reduce_goes_on_where_it_was(clusters: Any, table: pa.Table, tmp_path: Path) -> None:
    whole = clusters.train("local", table, tmp_path / "whole", strategy="all_reduce").variables()
    clusters.train("local", table, tmp_path / "parts", strategy="all_reduce", epochs=1)
    parts = clusters.train("local", table, tmp_path / "parts", strategy="all_reduce").variables()
    for name, value in whole.items():
        assert value.tobytes() == parts[name].tobytes(), name


def test_events_are_read_by_tensorboard(trained: dict[str, Any]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(Path(trained["local"].figures["checkpoint"]).parent)).Reload()
    assert {"loss", "validation_loss"} <= set(events.Tags()["scalars"])
    assert [e.step for e in events.Scalars("validation_loss")] == [22, 44]
    names = {n.name for n in events.Graph().node}
    assert {"users", "w", "sparkflow_input/user_rows"} <= names


def test_a_second_run_goes_on_from_the_checkpoint(
    clusters: Any, table: pa.Table, tmp_path: Path, none_left: Any
) -> None:
    once = clusters.train("local", table, tmp_path / "once", epochs=3)
    first = clusters.train("local", table, tmp_path / "twice", epochs=1)
    second = clusters.train("local", table, tmp_path / "twice", epochs=3)
    assert [h["epoch"] for h in second.figures["history"]] == [2, 3]
    assert first.figures["examples"] + second.figures["examples"] == once.figures["examples"]
    for name, value in once.variables().items():
        assert value.tobytes() == second.variables()[name].tobytes(), name
    none_left()


def test_one_worker_and_one_server(clusters: Any, table: pa.Table, tmp_path: Path, none_left: Any) -> None:
    model = clusters.train("local", table, tmp_path, workers=1, ps=1, epochs=1)
    assert model.figures["attempts"] == 1
    none_left()


@pytest.mark.slow
def test_three_workers_are_deterministic(clusters: Any, table: pa.Table, tmp_path: Path) -> None:
    """With three, the order of a sum matters: gradients are summed in worker order, whoever comes first."""
    a, b = (clusters.train("local", table, tmp_path / n, workers=3, ps=1, epochs=1).variables() for n in ("a", "b"))
    assert all(a[name].tobytes() == b[name].tobytes() for name in a)


def test_the_program_of_the_readme(tmp_path: Path) -> None:
    """As it stands there: an unnamed layer, and a variable called as a column."""
    text = (Path(__file__).parents[2] / "README.md").read_text()
    program = re.search(r"```python\n(import pandas.*?)```", text, re.DOTALL)
    assert program is not None
    script = tmp_path / "clicks.py"
    script.write_text(program[1].replace("/tmp/clicks", str(tmp_path / "clicks")))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    scores = [float(x) for x in re.findall(r"^[01]\.0 +([0-9.]+)$", done.stdout, re.MULTILINE)]
    assert len(scores) == 2 and scores[0] < 0.1 and scores[1] > 0.9, done.stdout
    assert "epoch 1: validation loss" in done.stderr, "where nobody configures logging, stderr hears of it"


def test_evaluation_reads_trained_variables_however_they_are_made(
    clusters: Any, table: pa.Table, tmp_path: Path
) -> None:
    """tf.Variable makes a new variable at every call: evaluation has a graph of its own, where it has the same name."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = tf.Variable(0.0, name="w")
        p = features["x"] * w
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=p)
        loss = tf.reduce_mean(tf.square(p - labels))
        if mode == tf.estimator.ModeKeys.EVAL:
            return tf.estimator.EstimatorSpec(mode, loss=loss)
        train_op = tf.train.GradientDescentOptimizer(0.05).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    rng = np.random.default_rng(3)
    x = rng.normal(size=3000).astype(np.float32)
    line = pa.table({"user": np.zeros(3000, np.int64), "x": x, "late": 3 * x, "row": np.arange(3000)})
    model = clusters.train("local", line, tmp_path, model_fn=model_fn, sync=False, epochs=3)
    history = [h["validation_loss"] for h in model.figures["history"]]
    assert history[0] < 1e-2 and history[-1] < 1e-6, history


@pytest.mark.slow
def test_a_model_never_scores_with_weights_of_another_training(clusters: Any, table: pa.Table, tmp_path: Path) -> None:
    """Two trainings of one directory write the same file names: the older model says that its weights are gone."""
    first = clusters.train("local", table, tmp_path / "a", epochs=1)
    before = first.transform(table).column("p").to_numpy()
    shutil.rmtree(tmp_path / "a")
    flipped = table.set_column(2, "late", pc.subtract(1.0, table.column("late")).cast(pa.float32()))
    second = clusters.train("local", flipped, tmp_path / "a", epochs=1)
    assert second.checkpoint == first.checkpoint
    assert np.corrcoef(before, second.transform(table).column("p").to_numpy())[0, 1] < -0.5
    with pytest.raises(tf.errors.FailedPreconditionError, match="another training has replaced it"):
        first.variables()


def test_pandas_keep_their_index_and_types(trained: dict[str, Any], table: pa.Table) -> None:
    frame = table.to_pandas().sample(frac=0.3, random_state=1)
    frame["note"] = frame["row"].astype("Int64").where(frame["row"] > 5)
    scored = trained["local"].transform(frame)
    assert scored.index.equals(frame.index)
    assert scored.drop(columns=["p", "both"]).equals(frame)
    whole = trained["local"].transform(table.to_pandas())
    assert (scored["p"] == whole.loc[frame.index, "p"]).all()


@pytest.mark.slow
def test_resuming_keeps_as_many_checkpoints(clusters: Any, table: pa.Table, tmp_path: Path) -> None:
    for epochs in (2, 4, 6):
        clusters.train("local", table, tmp_path, epochs=epochs, checkpoint_s=0.01)
    assert len(list(tmp_path.glob("*.index"))) <= 3
    assert len(list((tmp_path / "best").glob("*.index"))) == 1
    moved = tmp_path.parent / "moved"
    tmp_path.rename(moved)
    model = clusters.train("local", table, moved, epochs=7)
    assert [h["epoch"] for h in model.figures["history"]] == [7], "a moved directory goes on where it was"


@pytest.mark.slow
def test_a_best_epoch_whose_weights_are_gone_is_none(
    clusters: Any, table: pa.Table, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The model's weights are of the best epoch that still has some, not of whichever was the last."""
    caplog.set_level("INFO", "sparkflow")
    before = clusters.train("local", table, tmp_path, epochs=20)
    best = min(before.figures["history"], key=lambda h: h["validation_loss"])
    shutil.rmtree(tmp_path / "best")
    model = clusters.train("local", table, tmp_path, epochs=30)
    assert f"the weights of the best epoch ({best['epoch']}) are gone from 'best'" in caplog.text
    later = min(model.figures["history"], key=lambda h: h["validation_loss"])
    assert later["validation_loss"] > best["validation_loss"] and later["epoch"] < 30, "else this shows nothing"
    assert model.checkpoint == str(tmp_path / "best" / f"model.ckpt-{later['global_step']}")


@pytest.mark.slow
def test_a_best_epoch_whose_weights_are_damaged_is_none(
    clusters: Any, table: pa.Table, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Seen when a training begins again, and not when its model scores."""
    caplog.set_level("INFO", "sparkflow")
    before = clusters.train("local", table, tmp_path, epochs=3)
    for file in (tmp_path / "best").glob("*.data-*"):
        content = bytearray(file.read_bytes())
        content[-len(content) // 3 :] = b"\x01" * (len(content) // 3)
        file.write_bytes(content)
    with pytest.raises(tf.errors.DataLossError):
        before.predict({"user": np.zeros(1, np.int64), "x": np.zeros(1, np.float32)})
    done = clusters.train("local", table, tmp_path, epochs=3)
    assert re.search(r"the weights of the best epoch \(\d\) are damaged \(.*\.data-0.*the best is sought", caplog.text)
    assert done.checkpoint == done.figures["checkpoint"], "no epoch was left to be a better one: the last is given out"
    on = clusters.train("local", table, tmp_path, epochs=4)
    assert on.checkpoint == str(tmp_path / "best" / f"model.ckpt-{on.figures['history'][0]['global_step']}")
    assert np.isfinite(on.transform(table).column("p").to_numpy()).all()


@pytest.mark.slow
def test_early_stopping_is_asked_of_each_run(clusters: Any, table: pa.Table, tmp_path: Path) -> None:
    """A model that cannot get better stops; another run of the same directory without patience goes on."""

    def stuck(features: Any, labels: Any, mode: str) -> Any:
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        p = features["x"] * w
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=p)
        loss = tf.reduce_mean(tf.square(p - labels))
        train_op = tf.train.GradientDescentOptimizer(0.0).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def epochs(**options: Any) -> list[int]:
        model = clusters.train("local", table, tmp_path, model_fn=stuck, sync=False, epochs=9, **options)
        return [h["epoch"] for h in model.figures["history"]]

    assert epochs(patience=2) == [1, 2, 3]
    assert epochs(patience=2) == []
    assert epochs() == [4, 5, 6, 7, 8, 9]


def test_what_is_shown_are_rows_and_not_room_for_them(
    clusters: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two workers of 20 and 20 rows, in batches of 64."""
    caplog.set_level("INFO", "sparkflow")
    options = {"partition_by": None, "order_by": None, "sync": False, "epochs": 1, "uneven": "join", "validation": 0.0}
    clusters.train("local", clusters.table(40), tmp_path, **options)
    assert re.search(r"training on local: epoch 1, 40 examples \(100 %\)", caplog.text), caplog.text
