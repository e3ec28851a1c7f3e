"""Checkpoints of ours in TensorFlow's format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf
from sparkflow import cli
from sparkflow.framework.graph import Graph
from sparkflow_runtime.wire import checkpoint


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    with Graph().as_default(), tf.Session() as sess:
        tf.Variable(np.arange(6, dtype=np.float16).reshape(2, 3), name="w")
        tf.Variable(["one", "", "x" * 300], name="texts")
        tf.Variable(2, name="n")
        tf.Variable(np.zeros((0, 2)), name="empty")
        tf.get_variable("part", [10, 2], partitioner=tf.fixed_size_partitioner(3))
        sess.run(tf.global_variables_initializer())
        return tf.train.Saver().save(sess, str(tmp_path / "m"))


def convert(*arguments: str) -> int:
    return cli.main(["checkpoint", "convert", *arguments, "--to", "tensorflow"])


def test_a_converted_checkpoint(tmp_path: Path, prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "folder" / "m")
    assert convert(prefix, out) == 0
    assert capsys.readouterr().out == f"{out}: 5 tensors of {prefix}\n"
    files = {p.name for p in (tmp_path / "folder").iterdir()}
    assert files == {"m.index", "m.data-00000-of-00001", "m.meta"}
    assert checkpoint.read(out).tensorflow
    first, second = tf.train.load_checkpoint(prefix), tf.train.load_checkpoint(out)
    assert first.get_variable_to_dtype_map() == second.get_variable_to_dtype_map()
    for name, shape in first.get_variable_to_shape_map().items():
        assert second.get_variable_to_shape_map()[name] == shape
        np.testing.assert_array_equal(first.get_tensor(name), second.get_tensor(name))
    again = str(tmp_path / "again")
    assert convert(out, again) == 0  # of one that has the format already
    assert Path(again + ".data-00000-of-00001").read_bytes() == Path(out + ".data-00000-of-00001").read_bytes()


def test_what_cannot_be_converted(tmp_path: Path, prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in [
        ((str(tmp_path / "none"), str(tmp_path / "out")), "No checkpoint"),
        ((prefix, prefix), r"m.index exists. Give another name"),
        ((str(tmp_path / "folder"), str(tmp_path / "out")), "No checkpoint"),
    ]:
        assert convert(*arguments) == 1
        assert message in capsys.readouterr().err


def test_nothing_is_left_of_one_that_fails(tmp_path: Path, prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = Path(prefix + ".data-00000-of-00001")
    raw = bytearray(data.read_bytes())
    raw[-1] ^= 1
    data.write_bytes(raw)
    assert convert(prefix, str(tmp_path / "out" / "m")) == 1
    assert "is damaged" in capsys.readouterr().err
    assert not list((tmp_path / "out").iterdir())
