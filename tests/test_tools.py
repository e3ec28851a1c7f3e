"""tensorflow.python.tools and tensorflow.python.util.deprecation."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow import deprecation, tools

pytestmark = pytest.mark.usefixtures("graph")


def _trained(folder: Path) -> tuple[str, Any]:
    x = tf.placeholder(tf.float32, [None, 2], "x")
    tf.identity(tf.nn.dropout(tf.layers.dense(x, 1, kernel_initializer=tf.ones_initializer()), 1.0), "y")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(folder / "model"))
    tf.train.write_graph(tf.get_default_graph(), str(folder), "graph.pbtxt")
    return path, tf.get_default_graph().as_graph_def()


def _answer(graph_def: Any) -> Any:
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        (y,) = tf.import_graph_def(graph_def, return_elements=["y:0"], name="")
        return session.run(y, {"x:0": [[1, 2]]})


@pytest.mark.parametrize("of", ["graph", "meta"])
def test_freezing(tmp_path: Path, of: str) -> None:
    path, _ = _trained(tmp_path)
    graph, meta = (str(tmp_path / "graph.pbtxt"), None) if of == "graph" else ("", f"{path}.meta")
    out = str(tmp_path / "frozen.pb")
    tools.freeze_graph(
        graph, "", bool(meta), path, "y", "save/restore_all", "save/Const:0", out, True, "", input_meta_graph=meta
    )
    frozen = tf.GraphDef.FromString(Path(out).read_bytes())
    assert [name for name in os.listdir(tmp_path) if name.startswith("frozen")] == ["frozen.pb"]
    assert not {node.op for node in frozen.node} & {"VariableV2", "Assign", "RestoreV2"}
    np.testing.assert_array_equal(_answer(frozen), [[3]])
    ready = tools.optimize_for_inference(frozen, ["dense/MatMul"], ["y"], tf.float32.as_datatype_enum)
    assert {node.name for node in ready.node if node.op == "Placeholder"} == {"dense/MatMul"}
    with pytest.raises(KeyError, match="has no nodes"):
        tools.optimize_for_inference(frozen, "nothing", "y", tf.float32)


def test_freezing_refuses(tmp_path: Path) -> None:
    path, graph_def = _trained(tmp_path)
    with pytest.raises(ValueError, match="there is no checkpoint"):
        tools.freeze_graph_with_def_protos(graph_def, None, "/none", "y", None, None, None, True, "")
    with pytest.raises(ValueError, match="output_node_names is empty"):
        tools.freeze_graph_with_def_protos(graph_def, None, path, "", None, None, None, True, "")


def test_what_a_checkpoint_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = _trained(tmp_path)
    tools.print_tensors_in_checkpoint_file(path, None, all_tensors=True)
    tools.print_tensors_in_checkpoint_file(path, "dense/kernel", False, count_exclude_pattern="dense/bias")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tensor: dense/bias (float32) [1]" and "# Total number of params: 3" in lines
    assert lines[-1] == "# Total number of params: 2" and "tensor_name:  dense/kernel" in lines


def test_deprecated_functions_and_arguments(caplog: pytest.LogCaptureFixture) -> None:
    @deprecation.deprecated("2020-01-01", "Use new.")
    def old() -> int:
        return 3

    @deprecation.deprecated_args(None, "Use b.", "a", ("c", 0))
    def takes(a: Any = None, b: Any = None, c: int = 0) -> Any:
        return a or b

    @deprecation.deprecated_arg_values(None, "No one.", b=1)
    def values(b: int) -> int:
        return b

    with caplog.at_level(logging.WARNING):
        with deprecation.silence():
            assert old() == 3
        assert [old(), old(), takes(b=2), takes(b=2, c=0), takes(4), values(2), values(1)] == [3, 3, 2, 2, 4, 2, 1]
        assert deprecation.deprecated_alias("was", "is", lambda: 5)() == 5
    said = [record.getMessage().partition(": ")[2] for record in caplog.records]
    assert [line.split(" ")[0] for line in said] == [said[0].split(" ")[0], "calling", "calling", "was"], said
    assert "goes after 2020-01-01; instead: Use new." in said[0]
    assert deprecation.deprecated_argument_lookup("new", None, "old", 3) == 3
    with pytest.raises(ValueError, match="only one of them"):
        deprecation.deprecated_argument_lookup("new", 1, "old", 3)
    with pytest.raises(ValueError, match="instructions must say"):
        deprecation.deprecated(None, "")
