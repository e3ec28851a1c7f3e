"""A SavedModel of tf.function, as TensorFlow 2.21 wrote it (tests/saved_model/tf_function), is loaded and run.

It has two variables, a loop that changes them, a table that a file fills, and functions that restore it all.
`calls.json` has what TensorFlow answered to these calls, one after the other.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.dtypes import resource
from tests.conftest import make_node

FOLDER = Path(__file__).parent / "tf_function"
CALLS = json.loads((FOLDER / "calls.json").read_text(encoding="utf-8"))


def _call(session: Any, meta: Any, call: dict[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    signature = meta.signature_def[call["signature"]]
    [fed] = signature.inputs.values()
    fetches = {key: prefix + info.name for key, info in signature.outputs.items()}
    return session.run(fetches, {prefix + fed.name: call["feed"]})


@pytest.mark.parametrize("scope", [None, "there"])
def test_calls_change_variables_as_in_tensorflow(tmp_path: Path, scope: str | None, graph: tf.Graph) -> None:
    folder = shutil.copytree(FOLDER, tmp_path / "model")
    with tf.Session() as session:
        meta = tf.saved_model.loader.load(session, ["serve"], str(folder), import_scope=scope)
        for call in CALLS:
            found = _call(session, meta, call, f"{scope}/" if scope else "")
            assert {key: value.tolist() for key, value in found.items()} == call["values"]


def test_its_saver_writes_what_it_reads(tmp_path: Path, graph: tf.Graph) -> None:
    with tf.Session() as session:
        meta = tf.saved_model.loader.load(session, ["serve"], str(FOLDER))
        _call(session, meta, CALLS[1])
        saver = tf.train.Saver(saver_def=meta.saver_def)
        prefix = str(tmp_path / "variables")
        session.run(meta.saver_def.save_tensor_name, {meta.saver_def.filename_tensor_name: prefix})
        want = CALLS[1]["values"]["rate"]
        assert tf.train.load_variable(prefix, "rate/.ATTRIBUTES/VARIABLE_VALUE") == want
        _call(session, meta, CALLS[1])
        saver.restore(session, prefix)
        assert _call(session, meta, CALLS[2])["rate"] == want


def test_gradients_reach_the_variables(graph: tf.Graph) -> None:
    """The sum of rows a, a and b by the table is the rate times how often each was looked up."""
    with tf.Session() as session:
        meta = tf.saved_model.loader.load(session, ["serve"], str(FOLDER))
        signature = meta.signature_def["look"]
        rows = graph.get_tensor_by_name(signature.outputs["rows"].name)
        by_rate, by_table = tf.gradients(
            tf.reduce_sum(rows), [graph.get_tensor_by_name(f"{name}:0") for name in ("rate", "table")]
        )
        found = session.run(
            [by_rate, tf.convert_to_tensor(by_table)], {signature.inputs["words"].name: ["a", "a", "b"]}
        )
    assert found[0] == (0 + 1) * 2 + (2 + 3)
    assert found[1].tolist() == [[4, 4], [2, 2], [0, 0], [0, 0], [0, 0]]


def _loop(**more: Any) -> tf.GraphDef:
    """While with one number and one variable, which its body hands on."""
    graph_def = tf.GraphDef()
    cond, body = graph_def.library.function.add(), graph_def.library.function.add()
    for function, name in ((cond, "goes_on"), (body, "adds")):
        function.signature.name = name
        function.signature.input_arg.add(name="i", type=tf.int32.as_datatype_enum)
        function.signature.input_arg.add(name="w", type=resource.as_datatype_enum)
    cond.signature.output_arg.add(name="out", type=tf.bool.as_datatype_enum)
    cond.node_def.add().CopyFrom(make_node("two", "Const", dtype=tf.int32, value=np.array(2, np.int32)))
    cond.node_def.add().CopyFrom(make_node("less", "Less", "i", "two:output:0", T=tf.int32))
    cond.ret["out"] = "less:z:0"
    for name, kind in (("i_out", tf.int32), ("w_out", resource)):
        body.signature.output_arg.add(name=name, type=kind.as_datatype_enum)
    body.node_def.add().CopyFrom(make_node("one", "Const", dtype=tf.int32, value=np.array(1, np.int32)))
    body.node_def.add().CopyFrom(make_node("sum", "AddV2", "i", "one:output:0", T=tf.int32))
    body.node_def.add().CopyFrom(make_node("step", "Const", dtype=tf.float32, value=np.array(1.5, np.float32)))
    body.node_def.add().CopyFrom(make_node("grow", "AssignAddVariableOp", "w", "step:output:0", dtype=tf.float32))
    body.ret["i_out"], body.ret["w_out"], body.control_ret["grow"] = "sum:z:0", "w", "grow"
    loop = make_node("loop", "While", "zero", "w", T=[tf.int32, resource], parallel_iterations=10)
    loop.attr["cond"].func.name, loop.attr["body"].func.name = "goes_on", "adds"
    graph_def.node.extend(
        [
            make_node("w", "VarHandleOp", dtype=tf.float32, shape=Shape(()), shared_name="w"),
            make_node("begin", "Const", dtype=tf.float32, value=np.array(0.25, np.float32)),
            make_node("set", "AssignVariableOp", "w", "begin", dtype=tf.float32),
            make_node("zero", "Const", dtype=tf.int32, value=np.array(0, np.int32)),
            loop,
        ]
    )
    return graph_def


def test_what_a_loop_hands_on_is_read_after_it(graph: tf.Graph) -> None:
    graph_def = _loop()
    graph_def.node.append(make_node("through", "Identity", "loop:1", T=resource))
    graph_def.node.append(make_node("after", "ReadVariableOp", "through", dtype=tf.float32))
    graph_def.node.append(make_node("size", "VariableShape", "loop:1", out_type=tf.int32))
    tf.import_graph_def(graph_def, name="")
    with tf.Session() as session:
        session.run("set")
        assert session.run("after:0") == 0.25 + 2 * 1.5
        assert session.run(["loop:0", "size:0"])[0] == 2
    with tf.Session() as session, pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
        session.run("after:0")


def test_a_handle_of_unknown_origin_is_refused(graph: tf.Graph) -> None:
    graph_def = _loop()
    call = make_node("call", "PartitionedCall", "w", Tin=[resource], Tout=[resource])
    call.attr["f"].func.name = "adds"
    graph_def.node.extend([call, make_node("size", "VariableShape", "call", out_type=tf.int32)])
    with pytest.raises(tf.errors.UnimplementedError, match="'size' takes a resource out of 'call'"):
        tf.import_graph_def(graph_def, name="")
    assert not graph.get_operations()
