"""MetaGraphs of either library go on in the other: what is trained, and gradients through loops and branches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as theirs

import sparkflow as ours
from sparkflow import cli
from sparkflow.train.control_flow_proto import MESSAGES
from tests.control_flow_random import build, evaluate, generate, gradients
from tests.oracle.engines import OURS, THEIRS, Engine


@pytest.mark.parametrize("there_and_here", [(THEIRS, OURS), (OURS, THEIRS)], ids=["theirs", "ours"])
@pytest.mark.parametrize("kind", ["references", "resources"])
def test_a_monitored_session_goes_on(tmp_path: Path, kind: str, there_and_here: tuple[Engine, Engine]) -> None:
    """With its saver, its initializers, its queue runners and its metrics."""
    one, other = there_and_here
    if kind == "resources":
        theirs.enable_resource_variables()
    try:
        with one.graph().as_default():
            step = one.tf.train.get_or_create_global_step()
            x = one.tf.get_variable("x", initializer=1.0)
            one.tf.train.input_producer(one.tf.constant([1.0, 2.0]))
            one.tf.metrics.mean(x)
            one.tf.summary.scalar("x", x)
            one.tf.group(step.assign_add(1), x.assign_add(0.5), name="train")
            with one.tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path / "one")) as session:
                session.run("train")
    finally:
        theirs.disable_resource_variables()
    folder, prefix = str(tmp_path / "one"), one.tf.train.latest_checkpoint(str(tmp_path / "one"))
    if one is OURS:
        folder = str(tmp_path / "other")
        assert cli.main(["checkpoint", "convert", prefix, f"{folder}/m", "--to", "tensorflow"]) == 0
        prefix = f"{folder}/m"
        theirs.train.update_checkpoint_state(folder, prefix)
    with other.graph().as_default() as graph:
        other.tf.train.import_meta_graph(prefix + ".meta")
        assert [len(graph.get_collection(key)) for key in ("savers", "metric_variables", "queue_runners")] == [1, 2, 1]
        with other.tf.train.MonitoredTrainingSession(checkpoint_dir=folder) as session:
            session.run("train")
            assert session.run(["x:0", "global_step:0"]) == [2.0, 2]


SEEDS = [0, 3, 10, 17, 22, 27, 36, 54, 57]


@pytest.mark.parametrize("first", [OURS, THEIRS], ids=["ours", "theirs-through-ours"])
@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_through_loops(seed: int, first: Engine) -> None:
    """TensorFlow makes them by what our MetaGraph tells of loops and branches, be they built here or imported."""
    program = generate(seed, 8)
    with first.graph().as_default():
        feeds, loss, xs = build(first.tf, program)
        meta = first.tf.train.export_meta_graph().SerializeToString()
    if first is THEIRS:
        with ours.Graph().as_default():
            ours.train.import_meta_graph(ours.MetaGraphDef.FromString(meta))
            meta = ours.train.export_meta_graph().SerializeToString()
    with theirs.Graph().as_default() as graph, theirs.Session() as session:
        theirs.train.import_meta_graph(theirs.MetaGraphDef.FromString(meta))
        found = gradients(
            theirs, graph.get_tensor_by_name(loss.name), [graph.get_tensor_by_name(x.name) for x in xs], 1
        )
        values = [session.run(f, {k.name: np.asarray(v) for k, v in feeds.items()}) for f in found if f is not None]
    np.testing.assert_allclose(values, evaluate(program, 1)[: len(values)], 1e-6, 1e-8)


def test_the_messages_are_theirs() -> None:
    """By name, number and type; an entry of a map is a message of two fields."""
    from tensorflow.core.protobuf import control_flow_pb2

    def fields(descriptor: Any) -> dict[str, tuple[Any, ...]]:
        return {f.name: (f.number, f.type, f.is_repeated) for f in descriptor.fields}

    for name, mine in MESSAGES.items():
        if name != "ExternalValue":
            assert fields(mine.DESCRIPTOR) == fields(getattr(control_flow_pb2, name).DESCRIPTOR), name
    entry = control_flow_pb2.ValuesDef.DESCRIPTOR.fields_by_name["external_values"].message_type
    assert fields(MESSAGES["ExternalValue"].DESCRIPTOR) == fields(entry)
