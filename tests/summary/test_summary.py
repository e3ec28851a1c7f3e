"""Summaries: names and values as TensorFlow 2.21 gives them, and files that TensorBoard reads."""

from __future__ import annotations

import glob
import resource
import threading
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

import sparkflow as tf
from sparkflow_runtime.kernels.summary import bucket_limits


def run(tensor: Any) -> Any:
    with tf.Session() as session:
        return tf.Summary.FromString(session.run(tensor))


def events(directory: Any) -> list[Any]:
    return [e for path in sorted(glob.glob(f"{directory}/events*")) for e in LegacyEventFileLoader(path).Load()]


def test_scalars_and_their_tags(graph: Any) -> None:
    first, second = tf.summary.scalar("loss", 1.5), tf.summary.scalar("loss", np.int64(2))
    in_family = tf.summary.scalar("loss", 3.0, family="fam")
    with tf.name_scope("sc"):
        scoped = tf.summary.scalar("a loss", 4.0)
    found = [run(s).value[0] for s in (first, second, in_family, scoped)]
    assert [v.tag for v in found] == ["loss", "loss_1", "fam/fam/loss", "sc/a_loss"]
    assert [v.simple_value for v in found] == [1.5, 2, 3, 4]
    assert [s.op.name for s in (first, second, in_family, scoped)] == ["loss", "loss_1", "fam/loss", "sc/a_loss"]
    assert first.op.inputs[0].name == "loss/tags:0"


def test_histogram(graph: Any) -> None:
    """The values of TensorFlow for the same numbers."""
    histo = run(tf.summary.histogram("h", tf.constant([-3.0, 0.0, 1e-13, 2.5, 2.5, 7, 1e21]))).value[0].histo
    assert (histo.min, histo.max, histo.num) == (-3, np.float32(1e21), 7)
    assert list(histo.bucket) == [0, 1, 0, 2, 0, 2, 0, 1, 0, 1]
    want = [-3.1665833053880363, -2.8787120958073054, 0, 1e-12, 2.3791009056258718, 2.6170109961884593]
    np.testing.assert_allclose(list(histo.bucket_limit)[:6], want, rtol=1e-12)
    empty = run(tf.summary.histogram("e", tf.zeros([0]))).value[0].histo
    assert empty.num == 0 and list(empty.bucket) == [0] and empty.min > empty.max


def test_histogram_of_integers(graph: Any) -> None:
    histo = run(tf.summary.histogram("i", tf.constant([[1, 2], [3, 3]]))).value[0].histo
    assert (histo.sum, histo.sum_squares, sum(histo.bucket)) == (9, 23, 4)


def test_bucket_limits() -> None:
    limits = bucket_limits()
    assert (np.diff(limits) > 0).all() and len(limits) == 1551 and limits[len(limits) // 2] == 0


def test_merge(graph: Any) -> None:
    a, b = tf.summary.scalar("a", 1.0), tf.summary.histogram("b", [1.0, 2.0])
    aside = tf.summary.scalar("c", 1.0, collections=["aside"])
    assert [v.tag for v in run(tf.summary.merge_all()).value] == ["a", "b"]
    assert [v.tag for v in run(tf.summary.merge([b, aside])).value] == ["b", "c"]
    assert tf.summary.merge_all("nothing") is None
    with pytest.raises(tf.errors.InvalidArgumentError, match="Duplicate tag a"):
        run(tf.summary.merge([a, a]))


@pytest.mark.parametrize("value, what", [(np.nan, "NaN"), (np.inf, "Infinity")])
def test_histograms_refuse_what_is_not_finite(graph: Any, value: float, what: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{what} in summary histogram for: h"):
        run(tf.summary.histogram("h", [1.0, value]))


def test_a_scalar_of_a_vector_is_refused(graph: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"one shape, got \(\) and \(2,\) \(tag 'v'\)"):
        run(tf.summary.scalar("v", [1.0, 2.0]))


def test_writer(graph: Any, tmp_path: Any) -> None:
    merged = tf.summary.merge([tf.summary.scalar("loss", 0.5)])
    with tf.Session() as session, tf.summary.FileWriter(str(tmp_path), session.graph) as writer:
        writer.add_summary(session.run(merged), 3)
        writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="x", simple_value=1)]), global_step=4)
        assert writer.get_logdir() == str(tmp_path)
    found = events(tmp_path)
    assert found[0].file_version == "brain.Event:2"
    nodes = {n.name: n for n in tf.GraphDef.FromString(found[1].graph_def).node}
    assert "loss" in nodes and "_output_shapes" in nodes["loss"].attr
    meta = tf.MetaGraphDef.FromString(found[2].meta_graph_def)
    assert {n.name for n in meta.graph_def.node} == nodes.keys() and "summaries" in meta.collection_def
    assert [(e.step, e.summary.value[0].tag) for e in found[3:]] == [(3, "loss"), (4, "x")]
    assert all(e.wall_time > 1e9 for e in found)


def test_writer_is_flushed_reopened_and_shared(tmp_path: Any) -> None:
    writer = tf.summary.FileWriterCache.get(str(tmp_path))
    assert tf.summary.FileWriterCache.get(str(tmp_path)) is writer
    writer.add_graph(tf.GraphDef())
    writer.flush()
    assert len(events(tmp_path)) == 2
    tf.summary.FileWriterCache.clear()
    writer.add_event(tf.summary.Event(step=5))
    writer.close()
    assert len(glob.glob(f"{tmp_path}/events*")) == 2 and events(tmp_path)[-1].step == 5
    with pytest.raises(TypeError, match="Graph or a GraphDef"):
        writer.add_graph("graph")


def test_a_full_disk_is_told_by_the_files_name(tmp_path: Any) -> None:
    """Once: the writer can be closed, and opens another file when there is room."""
    writer = tf.summary.FileWriter(str(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        with pytest.raises(
            tf.errors.OpError, match=rf"Event file {tmp_path}/events\S+ cannot be written: File too large"
        ):
            writer.add_event(tf.summary.Event(graph_def=bytes(100_000)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    writer.close()
    writer.add_event(tf.summary.Event(step=5))
    writer.close()
    assert events(tmp_path)[-1].step == 5
    (tmp_path / "file").write_text("")
    with pytest.raises(tf.errors.OpError, match=r"file/x/events.* cannot be written: Not a directory"):
        tf.summary.FileWriter(str(tmp_path / "file" / "x"))


def test_threads_write_whole_records(tmp_path: Any) -> None:
    writer = tf.summary.FileWriter(str(tmp_path), flush_secs=0)

    def work(k: int) -> None:
        for i in range(200):
            writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag=f"t{k}", simple_value=i)]), i)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert len(events(tmp_path)) == 801


def test_run_metadata_has_a_tag_of_its_own(tmp_path: Any) -> None:
    with tf.summary.FileWriter(str(tmp_path)) as writer:
        writer.add_run_metadata(tf.RunMetadata(), "step 1", 1)
        with pytest.raises(ValueError, match="already used"):
            writer.add_run_metadata(tf.RunMetadata(), "step 1", 2)
    assert [e.tagged_run_metadata.tag for e in events(tmp_path)][1:] == ["step 1"]


def test_families_are_cleaned_as_names_are(graph: Any) -> None:
    made = tf.summary.scalar("a b", 1.0, family="train set")
    assert made.op.name == "train_set/a_b"
    with tf.Session() as session:
        assert tf.Summary.FromString(session.run(made)).value[0].tag == "train_set/train_set/a_b"


def test_summaries_of_ones_own(graph: Any) -> None:
    """tensorflow.python.ops.summary_op_util, by which libraries write their kinds of summaries."""
    from sparkflow.python.distribute import summary_op_util as of_replicas
    from sparkflow.python.ops import summary_op_util

    assert not of_replicas.skip_summary()
    with summary_op_util.summary_scope("mine", values=[]) as (tag, scope):
        made = tf.py_func(lambda: b"", [], tf.string, name=scope)
        summary_op_util.collect(made, None, ["mine"])
    assert (tag, made.op.name) == ("mine", "mine") and tf.get_collection("mine") == [made]
    with summary_op_util.summary_scope(None, default_name="d") as found:
        assert found == ("d", "d/")
