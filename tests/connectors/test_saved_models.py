"""Model.save: a folder that scores as the Model did, without its training code and without its checkpoint."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparkflow as tf
from sparkflow_connectors import saving

Column = tf.local.Column
ROWS = 64
FRAME = pd.DataFrame(
    {
        "user": np.arange(ROWS) % 7,
        "word": [f"w{i % 5}" for i in range(ROWS)],
        "city": [["a", "b", None, "z"][i % 4] for i in range(ROWS)],
        "tags": [[f"t{k}" for k in range(i % 3)] for i in range(ROWS)],
        "pair": [[i / 10, 1.0] for i in range(ROWS)],
        "price": [None if i % 9 == 0 else i / 8 for i in range(ROWS)],
        "click": (np.arange(ROWS) % 2).astype(np.float32),
    }
)
FEATURES = [
    "user",
    Column("word", hash_buckets=11),
    Column("city", vocabulary=["a", "b"], num_oov_buckets=2, default="b"),
    Column("tags", kind="sparse", length=4, hash_buckets=5),
    Column("pair", shape=[2], cast=tf.float32),
    Column("price", default=-1.0, cast="float32"),
]


def trained(folder: Path) -> Any:
    words = folder / "words.txt"
    words.write_text("w0\nw1\nw2\n")

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        def looked_up(name: str, rows: int) -> Any:
            return tf.nn.embedding_lookup(tf.get_variable(name, [rows, 3]), features[name])

        tags = tf.get_variable("tags", [5, 3])
        names = tf.contrib.lookup.index_to_string_table_from_file(str(words), default_value="?")
        parts = [looked_up("user", 7), looked_up("word", 11), looked_up("city", 4), features["pair"]]
        parts += [tf.contrib.layers.safe_embedding_lookup_sparse([tags], features["tags"], combiner="sum")]
        parts += [tf.expand_dims(features["price"], 1)]
        score = tf.squeeze(tf.layers.dense(tf.concat(parts, 1), 1), 1)
        if mode == tf.estimator.ModeKeys.PREDICT:
            named = names.lookup(features["user"])
            tf.add_to_collection(tf.GraphKeys.ASSET_FILEPATHS, tf.placeholder_with_default("none", []))  # no constant
            return tf.estimator.EstimatorSpec(mode, predictions={"score": score, "named": named})
        loss = tf.losses.sigmoid_cross_entropy(labels, score)
        train = tf.train.AdagradOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    return tf.local.train(
        FRAME, model_fn, features=FEATURES, label="click", epochs=1, batch_size=16, checkpoint_dir=str(folder / "run")
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: Any) -> tuple[Path, pd.DataFrame, Any]:
    """A model saved, what was trained gone; what it gave; itself."""
    folder = tmp_path_factory.mktemp("saved")
    model = trained(folder)
    wanted, out = model.transform(FRAME), model.save(folder / "deep" / "export")
    assert out == str(folder / "deep" / "export")
    shutil.rmtree(folder / "run")
    (folder / "words.txt").unlink()
    return Path(out), wanted, model


def test_another_process_scores(whole: Any) -> None:
    path, wanted, _ = whole
    wanted.to_pickle(path.parent / "wanted.pkl")
    program = f"""
        import pandas as pd, sparkflow as tf
        wanted = pd.read_pickle({str(path.parent / "wanted.pkl")!r})
        model = tf.local.load_model({str(path)!r})
        found = model.transform(wanted.drop(columns=["score", "named"]))
        pd.testing.assert_frame_equal(found, wanted)
        print(model, sorted(model.variables()))
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "user, word, city, tags, pair, price -> score: float, named: string" in done.stdout
    assert "['city', 'dense/bias', 'dense/kernel', 'tags', 'user', 'word']" in done.stdout
    assert wanted["named"].tolist()[:4] == ["w0", "w1", "w2", "?"]


def test_its_variables_are_those_that_it_scores_with(whole: Any) -> None:
    path, _, _ = whole
    held = [name for name, _ in tf.train.list_variables(str(path / "variables" / "variables"))]
    assert held == ["city", "dense/bias", "dense/kernel", "tags", "user", "word"]  # none of Adagrad's
    assert [file.name for file in (path / "assets").iterdir()] == ["words.txt"]


def test_a_loaded_model_is_saved_again(whole: Any, tmp_path: Path) -> None:
    path, wanted, _ = whole
    again = tf.local.load_model(tf.local.load_model(path).save(tmp_path / "again"))
    pd.testing.assert_frame_equal(again.transform(FRAME), wanted)
    other = tf.local.load_model(path).fetching({"z": "score"}).save(tmp_path / "other")
    assert list(tf.local.load_model(other).graph.outputs) == ["z"]


def test_columns_may_be_said_anew(whole: Any) -> None:
    """As of any SavedModel: then all are."""
    path, _, _ = whole
    with pytest.raises(tf.errors.InvalidArgumentError, match="has no input 'users'"):
        tf.local.load_model(path, columns={"users": "user"})
    words = {"pair": Column("pair", shape=[2])}
    assert sorted(tf.local.load_model(path, words).variables()) == sorted(tf.local.load_model(path).variables())


def test_what_cannot_be_saved_or_loaded(whole: Any, tmp_path: Path) -> None:
    path, _, model = whole
    with pytest.raises(tf.errors.AlreadyExistsError, match=r"export exists\. Give another folder"):
        tf.local.load_model(path).save(path)
    with pytest.raises(tf.errors.NotFoundError, match="No checkpoint"):
        model.save(tmp_path / "late")
    assert not list(tmp_path.iterdir())
    copy = Path(shutil.copytree(path, tmp_path / "copy"))
    said = copy / "assets.extra" / "sparkflow_columns.json"
    now = json.loads(said.read_text())
    newer = now | {"version": 2}
    for text, error, words in (
        (json.dumps(now | {"outputs": ["nix"]}), tf.errors.DataLossError, r"says \['nix'\], and its signature has"),
        (json.dumps(now | {"columns": now["columns"][:-1]}), tf.errors.DataLossError, "cannot be read"),
        (json.dumps(newer), tf.errors.InvalidArgumentError, "of version 2, and this sparkflow reads 1"),
        ("{}", tf.errors.DataLossError, "cannot be read: KeyError"),
        ("{", tf.errors.DataLossError, "Save the model anew"),
    ):
        said.write_text(text)
        with pytest.raises(error, match=words):
            tf.local.load_model(copy)


def small(folder: Path, name: str, inner: Any = lambda: None) -> Any:
    """A model of one variable. inner: is called in its model function."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        users = tf.get_variable("users", [7], tf.float32)
        inner()
        score = tf.gather(users, features["user"])
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={"score": score})
        loss = tf.losses.mean_squared_error(labels, score)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    options: dict[str, Any] = {"features": ["user"], "label": "click", "epochs": 1, "batch_size": 16}
    return tf.local.train(FRAME, model_fn, checkpoint_dir=str(folder / name), **options)


def test_a_model_whose_graph_reads_other_checkpoints_too(tmp_path: Path) -> None:
    """One that starts from another's variables, or has a Saver of its own: their names are not in its checkpoint."""
    old = str(tmp_path / "old")
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.get_variable("theirs", [7]).initializer)
        tf.train.Saver().save(session, old)

    def inner() -> None:
        tf.train.init_from_checkpoint(old, {"theirs": "users"})
        tf.train.Saver({"mine": tf.global_variables()[0]}, name="mine")

    model = small(tmp_path, "run", inner)
    again = tf.local.load_model(model.save(tmp_path / "out"))
    pd.testing.assert_frame_equal(again.transform(FRAME), model.transform(FRAME))
    assert [name for name, _ in tf.train.list_variables(again.checkpoint)] == ["users"]


def test_where_a_model_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(tmp_path, "run")
    wanted = model.transform(FRAME)
    monkeypatch.chdir(tmp_path)
    for name in ("empty", "linked"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("linked")
    (tmp_path / "file").write_text("")
    for path in ("a b/\u00e9#?%20", "empty", "link", f"file://{tmp_path}/url", f"file:{tmp_path}/url2"):
        out = model.save(path)
        assert out.startswith(str(tmp_path)) and Path(out, "saved_model.pb").is_file()
        pd.testing.assert_frame_equal(tf.local.load_model(path).transform(FRAME), wanted)
    assert sorted(tmp_path.glob("url*")) == [tmp_path / "url", tmp_path / "url2"]
    for url in ("hdfs://there/x", "dbfs:/x", "file://host/x", "s3a://x/y"):
        for act in (model.save, tf.local.load_model):
            with pytest.raises(tf.errors.InvalidArgumentError, match="every task have mounted"):
                act(url)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"name of a model's folder, got None"):
        model.save(None)
    for path, error in (
        ("link", tf.errors.AlreadyExistsError), ("file", tf.errors.AlreadyExistsError),
        ("file/below", tf.errors.OpError), ("x" * 300, tf.errors.OpError),
    ):  # fmt: skip
        with pytest.raises(error):
            model.save(path)
    assert not list(tmp_path.glob("*.tmp-*"))


def test_of_two_that_save_into_one_folder_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, out = small(tmp_path, "run"), tmp_path / "out"
    described = saving._described

    def meanwhile(given: Any) -> Any:
        monkeypatch.setattr(saving, "_described", described)
        model.save(out)
        return described(given)

    monkeypatch.setattr(saving, "_described", meanwhile)
    with pytest.raises(tf.errors.AlreadyExistsError, match=r"out exists\. Give another folder"):
        model.save(out)
    assert tf.local.load_model(out).transform(FRAME).columns[-1] == "score" and not list(tmp_path.glob("*.tmp-*"))


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: str, content: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    model = small(tmp_path, "run")
    monkeypatch.setattr(saving, "_write", full)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="out cannot be written: No space left"):
        model.save(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("default, words", [(b"w1", None), (np.float64(2.5), None), (1j, "'word' has 1j")])
def test_what_a_default_may_be(default: Any, words: str | None, tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.int64, [None])
        tf.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x}, {"y": tf.identity(x)})
    column = Column("word", hash_buckets=100, default=default)
    model, rows = tf.local.load_model(tmp_path / "m", columns={"x": column}), pd.DataFrame({"word": ["w1", None]})
    if words is None:
        again = tf.local.load_model(model.save(tmp_path / "out"))
        pd.testing.assert_frame_equal(again.transform(rows), model.transform(rows))
        return
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        model.save(tmp_path / "out")
