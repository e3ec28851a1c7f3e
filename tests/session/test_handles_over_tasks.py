"""Tables, readers and queues of another task: who uses one is where it is, whatever device scope it was made in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sparkflow as tf
from sparkflow_runtime.wire.protos import GraphDef

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"


@pytest.mark.parametrize("where", [PS, "", WORKER])
def test_a_table_is_used_where_it_is(cluster: Any, graph: Any, where: str) -> None:
    servers = cluster(ps=1, worker=1)
    with tf.device(where):
        content = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64))
        table = tf.lookup.StaticVocabularyTable(content, 2)
    with tf.device(WORKER):
        found, size = table.lookup(tf.constant(["b", "c"])) * 10, table.size()
    with tf.device(PS):
        again = table.lookup(tf.constant(["a"]))
    with tf.Session(servers["worker0"].target) as session:
        session.run(tf.tables_initializer())
        values = session.run([found, size, again])
    assert values[0].tolist()[0] == 20 and values[1] == 4 and values[2].tolist() == [1]


def test_a_reader_reads_where_it_is(cluster: Any, graph: Any, tmp_path: Path) -> None:
    servers = cluster(ps=1, worker=1)
    (tmp_path / "lines").write_text("first\nsecond\n")
    with tf.device(PS):
        queue, reader = tf.FIFOQueue(1, tf.string), tf.TextLineReader()
    with tf.device(WORKER):
        put, (_, line) = queue.enqueue(str(tmp_path / "lines")), reader.read(queue)
        loud = tf.strings.join([line, "!"])
    with tf.Session(servers["worker0"].target) as session:
        session.run(put)
        assert [session.run(loud), session.run(loud)] == [b"first!", b"second!"]


def test_an_imported_graph_needs_no_colocation(cluster: Any, graph: Any) -> None:
    """As TensorFlow writes it: a queue's operations are not said to be beside it."""
    servers = cluster(ps=1, worker=1)
    with tf.device(PS):
        queue = tf.FIFOQueue(2, tf.int32, name="q")
    with tf.device(WORKER):
        queue.enqueue(5, name="put")
        queue.dequeue(name="got")
    written = GraphDef.FromString(graph.as_graph_def().SerializeToString())
    for node in written.node:
        node.attr.pop("_class", None)
    with tf.Graph().as_default():
        tf.import_graph_def(written, name="")
        with tf.Session(servers["worker0"].target) as session:
            session.run("put")
            assert session.run("got:0") == 5
