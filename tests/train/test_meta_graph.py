"""MetaGraphs: what is written of a graph beside its nodes, and what becomes of it where it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow.train.control_flow_proto import OF_COLLECTIONS


def _counted() -> None:
    """A model of which one step adds 0.5 to x."""
    step = tf.train.get_or_create_global_step()
    x = tf.get_variable("x", initializer=1.0)
    tf.summary.scalar("x", x)
    tf.metrics.mean(x, name="mean")
    tf.group(step.assign_add(1), x.assign_add(0.5), name="train")


def _trained(folder: Path) -> str:
    with tf.Graph().as_default():
        _counted()
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(folder), save_checkpoint_steps=1) as session:
            session.run("train")
    return str(tf.train.latest_checkpoint(str(folder)))


def test_a_monitored_session_goes_on_with_its_graphs_file(graph: Graph, tmp_path: Path) -> None:
    """The file tells of the saver, the ops that initialize and those that say what is missing."""
    tf.train.import_meta_graph(_trained(tmp_path) + ".meta")
    assert all(isinstance(saver, tf.train.Saver) for saver in graph.get_collection("savers"))
    assert [v.op.name for v in graph.get_collection("metric_variables")] == ["mean/total", "mean/count"]
    with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path)) as session:
        assert session.run("x:0") == 1.5
        session.run("train")
        assert session.run("global_step:0") == 2
    assert len(graph.get_collection("savers")) == 1


def test_a_saver_in_a_scope(graph: Graph, tmp_path: Path) -> None:
    prefix = _trained(tmp_path)
    tf.train.import_meta_graph(prefix + ".meta", import_scope="a")
    [saver] = graph.get_collection("savers")
    assert saver.saver_def.restore_op_name == "a/save/restore_all"
    with tf.Session() as session:
        saver.restore(session, prefix)
        assert session.run("a/x:0") == 1.5


def test_a_second_supervisor_of_a_graph(graph: Graph, tmp_path: Path) -> None:
    """The graph is final from the first on, whose ops it takes."""
    _counted()
    for value in (1.0, 1.5):
        with tf.train.Supervisor(logdir=str(tmp_path)).managed_session() as session:
            assert session.run("x:0") == value
            session.run("train")
            tf.train.Supervisor(logdir=str(tmp_path)).saver.save(session, str(tmp_path / "m"))


def test_a_saver_of_nothing_is_not_told(graph: Graph) -> None:
    tf.add_to_collection("savers", tf.train.Saver(allow_empty=True))
    assert "savers" not in tf.train.export_meta_graph().collection_def


def test_attributes_of_their_defaults_are_left_out(graph: Graph, tmp_path: Path) -> None:
    """But for types, which inputs tell as well."""
    x = tf.placeholder(tf.float32, [2, 2], name="x")
    tf.matmul(x, tf.get_variable("w", initializer=[[1.0, 0.0], [0.0, 1.0]]), transpose_b=True, name="y")
    tf.nn.max_pool(tf.zeros([1, 4, 4, 1]), [1, 2, 2, 1], [1, 2, 2, 1], "SAME", name="pool")
    meta = tf.train.export_meta_graph(strip_default_attrs=True)
    nodes = {node.name: node for node in meta.graph_def.node}
    assert meta.meta_info_def.stripped_default_attrs
    assert set(nodes["y"].attr) == {"T", "transpose_b", "_output_shapes"}
    assert {"T", "ksize", "strides", "padding"} <= set(nodes["pool"].attr) and "data_format" not in nodes["pool"].attr
    whole = tf.train.export_meta_graph()
    assert "transpose_a" in {node.name: node for node in whole.graph_def.node}["y"].attr
    assert not whole.meta_info_def.stripped_default_attrs
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        prefix = str(tf.train.Saver().save(session, str(tmp_path / "m"), strip_default_attrs=True))
        builder = tf.saved_model.Builder(str(tmp_path / "model"))
        builder.add_meta_graph_and_variables(session, ["serve"], strip_default_attrs=True)
        builder.save()
    with tf.Graph().as_default() as other, tf.Session() as session:
        assert tf.train.import_meta_graph(prefix + ".meta")
        assert other.get_operation_by_name("y").get_attr("transpose_a") is False
        assert tf.saved_model.load(session, ["serve"], str(tmp_path / "model")).meta_info_def.stripped_default_attrs


def _contexts(meta: Any, key: str) -> list[Any]:
    return [OF_COLLECTIONS[key].FromString(raw) for raw in meta.collection_def[key].bytes_list.value]


@pytest.mark.parametrize("again", [False, True], ids=["built", "imported"])
def test_loops_and_branches_are_told(graph: Graph, again: bool) -> None:
    """The outermost as messages of their own, the others within; gradients are made by what they say."""
    w = tf.get_variable("w", initializer=2.0)
    x = tf.placeholder(tf.float32, [], name="x")

    def body(i: Any, a: Any) -> Any:
        a = tf.cond(a > 3.0, lambda: a * w, lambda: a + w)
        return i + 1, tf.while_loop(lambda b: b < 9.0, lambda b: b * 2.0, [a])

    _, y = tf.while_loop(lambda i, a: i < 3, body, [0, x], name="loop")
    tf.cond(x > 0.0, lambda: y * w, lambda: y, name="choice")
    meta = tf.train.export_meta_graph()
    if again:
        with tf.Graph().as_default():
            tf.train.import_meta_graph(meta)
            meta = tf.train.export_meta_graph()
    [loop] = _contexts(meta, "while_context")
    assert (loop.context_name, loop.parallel_iterations, loop.back_prop) == ("loop/while_context", 10, True)
    assert loop.loop_enter_names == ["loop/Enter:0", "loop/Enter_1:0"]
    assert loop.loop_exit_names == ["loop/Exit:0", "loop/Exit_1:0"]
    assert [loop.pivot_name, loop.pivot_for_body_name] == ["loop/LoopCond:0", "loop/Identity:0"]
    inner = [c.while_ctxt for c in loop.nested_contexts if c.HasField("while_ctxt")]
    assert [c.loop_exit_names for c in inner] == [["loop/while/Exit:0"]]
    assert set(inner[0].loop_exit_names) <= set(loop.values_def.values)
    sides = [c.cond_ctxt for c in loop.nested_contexts if c.HasField("cond_ctxt")]
    assert sorted(c.branch for c in sides) == [0, 1]
    assert {e.key for e in loop.values_def.external_values} >= {"w/read:0"} <= set(loop.values_def.values)
    names = {node.name for node in meta.graph_def.node}
    assert {value.partition(":")[0] for value in loop.values_def.values} <= names
    outside = _contexts(meta, "cond_context") if not again else []  # the sides of a cond outside of loops need none
    assert sorted(c.branch for c in outside) == ([] if again else [0, 1])


def test_other_savers_are_left_out(graph: Any, tmp_path: Any) -> None:
    v = tf.get_variable("v", initializer=3.0)
    mine, other = (tf.train.Saver(name=name) for name in ("mine", "other"))
    other.as_saver_def()
    tf.add_to_collection(tf.GraphKeys.SAVERS, other)
    tf.add_to_collection(tf.GraphKeys.SAVERS, mine)
    meta = mine.export_meta_graph(clear_extraneous_savers=True)
    scopes = {node.name.partition("/")[0] for node in meta.graph_def.node if "/" in node.name}
    assert scopes == {"v", "mine"}
    assert len(meta.collection_def["savers"].bytes_list.value) == 1
    with tf.Session() as session:
        session.run(v.initializer)
        path = mine.save(session, str(tmp_path / "model"), write_meta_graph=False)
    with tf.Graph().as_default():
        saver = tf.train.import_meta_graph(meta)
        with tf.Session() as session:
            saver.restore(session, path)
            assert session.run("v:0") == 3.0
    whole = tf.train.export_meta_graph(clear_extraneous_savers=True)
    assert not {"mine", "other"} & {node.name.partition("/")[0] for node in whole.graph_def.node}


def test_a_library_says_how_its_own_collection_travels(graph: Graph) -> None:
    """As Sonnet's of its modules do, by the function that it takes from TensorFlow's files."""
    from sparkflow.framework import collection_protos as protos

    key = "test_meta_graph/pairs"
    protos.register_proto_function(
        key,
        tf.train.SaverDef,
        lambda pair, export_scope: tf.train.SaverDef(filename_tensor_name=pair[0], max_to_keep=pair[1]),
        lambda proto, import_scope: (import_scope, proto.filename_tensor_name, proto.max_to_keep),
    )
    tf.constant(1.0, name="one")
    tf.add_to_collection(key, ("left", 3))
    meta = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        tf.train.import_meta_graph(meta)
        tf.train.import_meta_graph(meta, import_scope="again")
        assert tf.get_collection(key) == [("", "left", 3), ("again", "left", 3)]
    assert protos.get_collection_proto_type(key) is tf.train.SaverDef
    assert protos.get_to_proto_function("unknown") is None and protos.get_from_proto_function("unknown") is None
    with pytest.raises(KeyError, match="has been registered before"):
        protos.register_proto_function(key)
    with pytest.raises(TypeError, match="must be callable, got 5"):
        protos.register_proto_function("test_meta_graph/other", to_proto=5)  # type: ignore[arg-type]


def _two_scopes() -> None:
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    with tf.variable_scope("a"):
        w = tf.get_variable("w", [3, 2], initializer=tf.constant_initializer(2.0))
        h = tf.matmul(x, w, name="h")
    with tf.variable_scope("b"):
        v = tf.get_variable("v", [2, 1], initializer=tf.constant_initializer(3.0))
        tf.add_to_collection("outs", tf.identity(tf.matmul(h, v), name="o"))
    tf.add_to_collection("words", "b/o")
    tf.add_to_collection("words", "a")
    tf.add_to_collection("numbers", 7)


def test_a_scope_alone_is_exported(graph: Graph) -> None:
    """Names and collections are those that TensorFlow 2.21 gave for the same graph."""
    _two_scopes()
    meta = tf.train.export_meta_graph(export_scope="b")
    nodes = {node.name: list(node.input) for node in meta.graph_def.node}
    assert sorted(nodes) == ["MatMul", "o", "v", "v/Assign", "v/Initializer/Const", "v/read"]
    assert nodes["MatMul"] == ["$unbound_inputs_a/h", "v/read"]
    assert list(meta.collection_def["outs"].node_list.value) == ["o:0"]
    assert list(meta.collection_def["numbers"].int64_list.value) == [7]
    assert list(meta.collection_def["words"].bytes_list.value) == [b"b/o"]
    assert list(meta.collection_def["unbound_inputs"].bytes_list.value) == [b"$unbound_inputs_a/h"]
    (variable,) = meta.collection_def["variables"].bytes_list.value
    assert b"v/Assign" in variable and b"b/" not in variable
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"unbound inputs: \['\$unbound_inputs_a/h'\]"):
        tf.train.import_meta_graph(meta)
    with tf.Graph().as_default():
        given = tf.constant([[1.0, 2.0]])
        saver = tf.train.import_meta_graph(meta, import_scope="z", input_map={"$unbound_inputs_a/h": given})
        assert [v.name for v in tf.trainable_variables()] == ["z/v:0"] and saver is not None
        assert tf.get_collection("outs")[0].name == "z/o:0" and not tf.get_collection("unbound_inputs")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run("z/o:0").tolist() == [[9.0]]


def test_loops_and_branches_of_a_scope(graph: Graph) -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    with tf.name_scope("in"):
        _, y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), [tf.constant(0), tf.identity(x)])
        tf.add_to_collection("out", tf.cond(y > 10, lambda: y, lambda: -y))
    meta = tf.train.export_meta_graph(export_scope="in")
    frames = {node.attr["frame_name"].s for node in meta.graph_def.node if node.op == "Enter"}
    assert frames == {b"while/while_context"}
    with tf.Graph().as_default():
        given = tf.placeholder(tf.float32, [])
        tf.train.import_meta_graph(meta, import_scope="q", input_map={"$unbound_inputs_x": given})
        (out,) = tf.get_collection("out")
        slope = tf.gradients(out, given)[0]
        with tf.Session() as session:
            assert session.run([out, slope], {given: 2.0}) == [16.0, 32.0]
            assert session.run([out, slope], {given: 1.0}) == [-1.0, -4.0]
