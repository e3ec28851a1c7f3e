"""Step stats of a traced run: every kernel, on every task, and the picture made of them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.session.server import Server
from sparkflow.session.timeline import Timeline

FULL = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)


def _labels(metadata: Any) -> dict[str, str]:
    return {n.node_name: n.timeline_label for d in metadata.step_stats.dev_stats for n in d.node_stats}


def test_every_kernel_leaves_a_span(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    y = tf.nn.relu(tf.matmul(x, tf.ones([3, 2]), name="product"), name="y")
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        value = session.run(y, {x: np.ones((4, 3))}, FULL, metadata)
        plain = session.run(y, {x: np.ones((4, 3))})
    assert (value == 3).all() and (plain == 3).all()
    labels = _labels(metadata)
    assert labels["y"] == "y = Relu(product)"
    (device,) = metadata.step_stats.dev_stats
    assert device.device.endswith("task:0/device:CPU:0")
    (span,) = [n for n in device.node_stats if n.node_name == "product"]
    assert [d.size for d in span.output[0].tensor_description.shape.dim] == [4, 2]
    assert span.output[0].tensor_description.allocation_description.requested_bytes == 32
    assert span.output[0].tensor_description.dtype == tf.float32.as_datatype_enum
    assert span.all_end_rel_nanos > 0


def test_waits_are_spans_and_each_run_has_its_own(graph: Any) -> None:
    queue = tf.FIFOQueue(3, [tf.int32], [[]])
    put, get = queue.enqueue([7]), queue.dequeue(name="get")
    first, second = tf.RunMetadata(), tf.RunMetadata()
    with tf.Session() as session:
        session.run(put, options=FULL, run_metadata=first)
        assert session.run(get, options=FULL, run_metadata=second) == 7
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(get, options=tf.RunOptions(trace_level=3, timeout_in_ms=50))
        session.run(put)
        third = tf.RunMetadata()
        session.run(get, options=FULL, run_metadata=third)
    assert put.name in _labels(first) and "get" not in _labels(first)
    assert len([n for d in third.step_stats.dev_stats for n in d.node_stats if n.node_name == "get"]) == 1


def test_every_span_says_what_memory_it_took(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 64], name="x")
    y = tf.matmul(x, tf.ones([64, 32]), name="y")
    tf.reshape(tf.square(y, name="square"), [-1], name="flat")
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        for _ in range(2):
            session.run("flat:0", {x: np.ones((64, 64))}, FULL, metadata)
    spans = {n.node_name: n for d in metadata.step_stats.dev_stats for n in d.node_stats}
    size = 64 * 32 * 4
    assert [m.allocator_name for m in spans["y"].memory] == ["cpu"]
    assert (spans["y"].memory[0].total_bytes, spans["y"].memory[0].live_bytes) == (size, size)
    assert spans["square"].memory[0].allocator_bytes_in_use == 2 * size
    assert spans["flat"].memory[0].total_bytes == 0, "it lies in the memory of its input"
    assert spans["flat"].memory[0].allocator_bytes_in_use == size, "y is free after its last use"
    assert spans["flat"].output[0].tensor_description.allocation_description.allocated_bytes == 0


def test_a_traced_step_says_how_its_memory_was_planned(graph: Any, caplog: pytest.LogCaptureFixture) -> None:
    x = tf.placeholder(tf.float32, [None, 64], name="x")
    y = tf.reduce_sum(tf.matmul(x, tf.ones([64, 32]), name="product"), 1)
    with tf.Session() as session, caplog.at_level(logging.INFO, "sparkflow_runtime"):
        session.run(y, {x: np.ones((4096, 64))}, FULL, tf.RunMetadata())
    assert "A traced step took 0.5 MiB in y" in caplog.text.replace("Sum", "y") and "planned memory of" in caplog.text


def test_all_tasks_of_a_cluster_report(graph: Any) -> None:
    a, b = (Server.bound(job, 0, "127.0.0.1", b"secret") for job in "ab")
    for server in (a, b):
        server.join_cluster({"a": [a.address], "b": [b.address]})
    try:
        with tf.device("/job:b"):
            there = tf.random_uniform([2, 2], name="there")
        with tf.device("/job:a"):
            here = tf.square(there, name="here")
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
        with tf.Session(a.target) as session:
            session.run(here, options=options, run_metadata=metadata)
        devices = {d.device: [n.node_name for n in d.node_stats] for d in metadata.step_stats.dev_stats}
        assert "here" in devices["/job:a/replica:0/task:0/device:CPU:0"]
        assert "there/RandomUniform" in devices["/job:b/replica:0/task:0/device:CPU:0"]
        spans = [name for names in devices.values() for name in names]
        assert sum(name.startswith("_Send") for name in spans) == 1
        assert sum(name.startswith("_Recv") for name in spans) == 1
        assert len(metadata.partition_graphs) == 2
    finally:
        a.stop()
        b.stop()


def test_timeline(graph: Any) -> None:
    v = tf.Variable([2.0, 3.0], name="v")
    y = tf.square(v, name="y")
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        session.run(v.initializer)
        session.run(y, options=FULL, run_metadata=metadata)
    events = json.loads(Timeline(metadata.step_stats).generate_chrome_trace_format(show_memory=True))["traceEvents"]
    bars = {e["args"]["name"]: e for e in events if e["ph"] == "X"}
    assert bars["y"]["name"] == "Square" and bars["y"]["args"]["input0"] == "v/read"
    assert bars["y"]["ts"] >= bars["v/read"]["ts"] + bars["v/read"]["dur"] - 1e-3
    arrows = [e for e in events if e["ph"] == "s"]
    assert {e["name"] for e in arrows} >= {"v/read"}
    assert [e["args"]["bytes"] for e in events if e["ph"] == "C"][-1] >= 8
    assert [e["args"]["name"] for e in events if e["ph"] == "M"] == ["/job:localhost/replica:0/task:0/device:CPU:0"]


def test_profiler_hook(graph: Any, tmp_path: Path) -> None:
    step = tf.train.get_or_create_global_step()
    bump = tf.assign_add(step, 1)
    hook = tf.train.ProfilerHook(save_steps=2, output_dir=str(tmp_path))
    with tf.train.SingularMonitoredSession([hook]) as session:
        for _ in range(6):
            session.run(bump)
    names = sorted(p.name for p in tmp_path.glob("timeline-*"))
    assert names == ["timeline-2.json", "timeline-4.json", "timeline-6.json"]
    assert "AssignAdd" in (tmp_path / names[0]).read_text()
    tf.summary.FileWriterCache.get(str(tmp_path)).flush()
    (events,) = tmp_path.glob("events.*")
    tags = [e.tagged_run_metadata.tag for e in tf.train.summary_iterator(str(events))]
    assert [tag for tag in tags if tag] == ["step_2", "step_4", "step_6"]


def test_a_session_learns_costs_and_places_by_them(graph: Any, caplog: pytest.LogCaptureFixture) -> None:
    a, b = (Server.bound(job, 0, "127.0.0.1", b"secret") for job in "ab")
    for server in (a, b):
        server.join_cluster({"a": [a.address], "b": [b.address]})
    try:
        with tf.device("/job:b"):
            table = tf.Variable(np.ones((400, 20000), np.float32), name="table")
        scale = tf.placeholder(tf.float32, [], name="scale")
        total = tf.reduce_sum(table, name="total") * scale  # free: 32 MB travel at first
        config = tf.ConfigProto(graph_options=tf.GraphOptions(build_cost_model=3))
        with caplog.at_level(logging.INFO, "sparkflow_runtime"), tf.Session(a.target, config=config) as session:
            session.run(table.initializer)
            assert [session.run(total, {scale: 1.0}) for _ in range(5)] == [8e6] * 5
            metadata = tf.RunMetadata()
            session.run(total, {scale: 1.0}, FULL, metadata)
            costs = {n.name: n for n in metadata.cost_graph.node}
        assert costs["table"].output_info[0].size == 32_000_000
        assert costs["total"].device == "/job:b/replica:0/task:0/device:CPU:0", "the sum has moved to its table"
        assert "by their cost: traced steps took" in caplog.text
    finally:
        a.stop()
        b.stop()


def test_log_device_placement(graph: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with tf.Session(config=tf.ConfigProto(log_device_placement=True)) as session:
        one = tf.constant(1, name="one")
        session.run(tf.add(one, 1, name="sum"))
    assert "sum: (AddV2): /job:localhost/replica:0/task:0/device:CPU:0" in capsys.readouterr().err
