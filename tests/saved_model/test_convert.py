"""SavedModels of ours, with their variables in TensorFlow's format."""

from __future__ import annotations

from pathlib import Path

import pytest

import sparkflow as tf
from sparkflow import cli
from sparkflow_runtime.wire import checkpoint


def _exported(folder: Path, variable: bool = True) -> str:
    """y = x * w, and the line of x in a vocabulary that is called as a file of variables might be."""
    words = folder / "variables.txt"
    words.write_text("a\nb\n")
    out = str(folder / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None], name="x")
        y = x * tf.get_variable("w", initializer=3.0) if variable else x * 3.0
        path = tf.constant(str(words))
        rows = tf.lookup.TextFileInitializer(
            path, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
        )
        ids = tf.lookup.StaticHashTable(rows, -1).lookup(tf.constant(["b"]))
        session.run(tf.global_variables_initializer())
        tf.add_to_collection(tf.GraphKeys.ASSET_FILEPATHS, path)
        tf.saved_model.simple_save(session, out, {"x": x}, {"y": y, "ids": ids}, tf.tables_initializer())
    words.unlink()
    return out


def _convert(source: str, out: str) -> int:
    return cli.main(["checkpoint", "convert", source, out, "--to", "tensorflow"])


@pytest.mark.parametrize("variable", [True, False])
def test_a_saved_model_is_converted(tmp_path: Path, variable: bool, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = _exported(tmp_path, variable), str(tmp_path / "there" / "1")
    assert _convert(source + "/", out) == 0
    assert f"{out}: {int(variable)} tensors of {source}" in capsys.readouterr().out
    assert not variable or checkpoint.read(f"{out}/variables/variables").tensorflow
    assert [p.name for p in (tmp_path / "there").iterdir()] == ["1"]
    for folder in (source, out):
        with tf.Graph().as_default(), tf.Session() as session:
            meta = tf.saved_model.loader.load(session, ["serve"], folder)
            outputs = meta.signature_def["serving_default"].outputs
            found = session.run([outputs[key].name for key in ("y", "ids")], {"x:0": [1.0, 2.0]})
        assert [value.tolist() for value in found] == [[3, 6], [1]]


def test_nothing_is_left_of_a_saved_model_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = _exported(tmp_path)
    assert _convert(source, source) == 1
    assert "exists. Give another folder" in capsys.readouterr().err
    data = Path(source, "variables", "variables.data-00000-of-00001")
    data.write_bytes(data.read_bytes()[:-1])
    before = sorted(p.name for p in tmp_path.iterdir())
    assert _convert(source, str(tmp_path / "out")) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == before
