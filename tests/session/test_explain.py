"""The report of the passes, from Python and from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sparkflow as tf
from sparkflow import experimental
from sparkflow.cli import main
from sparkflow.session.server import Server
from sparkflow_runtime.wire.protos import RewriterConfig


def _graph() -> None:
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    scale = tf.multiply(tf.constant(2.0), 3.0, name="scale")
    tf.nn.relu(tf.add(x * scale, tf.identity(x)), name="out")


def test_the_report_says_what_was_folded_and_fused(graph: Any) -> None:
    _graph()
    report = experimental.explain("out:0", ["x:0"])
    assert report.nodes_in_graph == len(graph.get_operations())
    assert list(report.groups) == ["out"] and len(report.groups["out"]) == 3
    folding = next(p for p in report.passes if p.name == "constant_folding")
    assert folding.folded_bytes == 4 and folding.ops == {"Const": -1, "Mul": -1}
    assert "fused out:" in report.text()


def test_a_switch_of_the_config_shows(graph: Any) -> None:
    _graph()
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    report = experimental.explain("out:0", ["x:0"], config=config)
    assert not report.groups and "fusion" not in {p.name for p in report.passes}


def test_tables_of_a_cluster_that_need_not_be_there(graph: Any) -> None:
    with tf.device(tf.train.replica_device_setter(ps_tasks=2)):
        ids = tf.placeholder(tf.int64, [None], name="ids")
        rows = [tf.nn.embedding_lookup(tf.get_variable(f"t{i}", [8, 2]), ids) for i in range(6)]
        loss = tf.reduce_sum(tf.concat(rows, 1))
        train = tf.train.AdagradOptimizer(0.1).minimize(loss)
    report = experimental.explain(train, ["ids:0"])
    moved, joined = (next(p for p in report.passes if p.name == name) for name in ("distinct_rows", "embeddings"))
    assert moved.ops["_GatherDistinct"] == 2 and moved.ops["_DistinctIds"] == 2
    assert joined.ops["_SpreadConcat"] == 1 and joined.ops["_ApplyDistinct"] == 2
    assert [
        len([m for m in g if m.startswith("embedding_lookup")])
        for n, g in report.groups.items()
        if n.startswith("_distinct")
    ] == [
        3,
        3,
    ]
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.optimizers.append("constfold")
    assert {p.name for p in experimental.explain(train, ["ids:0"], config=config).passes} == {"constant_folding"}


def test_what_keeps_state_is_where_the_whole_graph_puts_it(graph: Any) -> None:
    """As in a run of a part that does not say so."""
    v = tf.Variable([1.0, 2.0], name="v")
    with tf.device("/job:ps/task:0"):
        tf.assign_add(v, [1.0, 1.0])
    with tf.device("/job:worker/task:1"):
        out = tf.add(v, 1.0)
    tasks = [peak.device for peak in experimental.explain(out).memory]
    assert tasks == [f"/job:{task}/device:CPU:0" for task in ("worker/replica:0/task:1", "ps/replica:0/task:0")]


def test_gpus_that_need_not_be_there(graph: Any) -> None:
    """What is not placed goes to the first one, as in a step."""
    with tf.device("/gpu:1"):
        x = tf.placeholder(tf.float32, [1024, 64])
        hidden = tf.matmul(x, tf.ones([64, 256]))
    loss = tf.reduce_sum(tf.nn.softmax(hidden))
    report = experimental.explain(loss, [x])
    peaks = {peak.device.rpartition("/")[2]: peak.num_bytes for peak in report.memory}
    assert peaks["device:GPU:1"] >= 4 * 1024 * 256 <= peaks["device:GPU:0"] and peaks["device:CPU:0"] < 4 * 1024 * 600


def test_what_is_explained_is_what_runs(graph: Any) -> None:
    """A read behind an assignment, too, which another task asks for anew."""
    servers = {job: Server.bound(job, 0, "127.0.0.1", b"secret") for job in ("ps", "worker")}
    try:
        for server in servers.values():
            server.join_cluster({job: [one.address] for job, one in servers.items()})
        with tf.device("/job:ps/task:0"):
            v = tf.Variable([1.0, 2.0], name="v")
            up = tf.assign_add(v, [1.0, 1.0])
        with tf.control_dependencies([up]):
            out = tf.cast(v, tf.int32) + 1
        with tf.Session(servers["worker"].target) as session:
            session.run(tf.global_variables_initializer())
            assert session.run(out).tolist() == [3, 4]
            master = session._runtime._master
            compiled = master.compile((), (out.name,), ())
            ran = {n.name for part in compiled.graphs.values() for n in part.node if n.op not in ("_Send", "_Recv")}
        found = experimental.explain(out)
        assert found.nodes_final == len(ran)
        assert any(name.startswith("LaterRead/") for name in ran)
    finally:
        for server in servers.values():
            server.stop()


@pytest.mark.parametrize("suffix", [".pb", ".pbtxt", ".meta"])
def test_the_command_reads_a_graph(graph: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str) -> None:
    _graph()
    definition = graph.as_graph_def(add_shapes=True)
    path = tmp_path / f"graph{suffix}"
    if suffix == ".meta":  # what a training leaves beside its checkpoints
        tf.train.export_meta_graph(str(path))
    else:
        path.write_bytes(str(definition).encode() if suffix == ".pbtxt" else definition.SerializeToString())
    assert main(["graph", "explain", str(path), "--fetches", "out", "--feeds", "x"]) == 0
    assert "fused out: " in capsys.readouterr().out
    assert main(["graph", "explain", str(path), "--fetches", "out:0", "--feeds", "x:0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["groups"].keys() == {"out"} and found["memory"][0]["num_bytes"] == 128 * 4 * 4
    assert main(["graph", "explain", str(path), "--fetches", "out:0", "--feeds", "x:0", "--batch", "65536"]) == 0
    text = capsys.readouterr().out
    assert "a step's own tensors take at most 1.0 MiB, in out" in text and "an open dimension counts as 65536" in text


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.pb"
    bad.write_bytes(b"no graph")
    assert main(["graph", "explain", str(bad), "--fetches", "a"]) == 1
    assert "is no GraphDef" in capsys.readouterr().err
    missing = tmp_path / "none.meta"
    assert main(["graph", "explain", str(missing), "--fetches", "a"]) == 1
    assert str(missing) in capsys.readouterr().err
    empty = tmp_path / "empty.pb"
    empty.write_bytes(b"")
    assert main(["graph", "explain", str(empty), "--fetches", "a"]) == 1
    assert "no node 'a'" in capsys.readouterr().err
    assert main(["graph", "explain", str(empty)]) == 2
