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


@pytest.mark.parametrize("initialized", [False, True])
def test_a_graph_with_its_input_pipeline(tmp_path: Path, initialized: bool) -> None:
    """It is trained on with what is fed in the pipeline's place."""
    with theirs.Graph().as_default(), theirs.Session() as session:
        rows = theirs.data.Dataset.from_tensor_slices((np.ones((6, 2), np.float32), np.arange(6)))
        rows = rows.shuffle(3).map(lambda x, y: (x * 2, y)).repeat().batch(2).prefetch(1)
        made = theirs.data.make_initializable_iterator if initialized else theirs.data.make_one_shot_iterator
        x, y = made(rows).get_next()
        w = theirs.get_variable("w", initializer=[[1.0], [2.0]])
        out = theirs.matmul(x, w, name="out")
        loss = theirs.reduce_sum(out[:, 0] - theirs.cast(y, theirs.float32))
        theirs.train.GradientDescentOptimizer(1.0).minimize(loss, name="train")
        session.run(theirs.global_variables_initializer())
        prefix = theirs.train.Saver().save(session, str(tmp_path / "m"))
    with ours.Graph().as_default() as graph, ours.Session() as session:
        ours.train.import_meta_graph(prefix + ".meta").restore(session, prefix)
        assert graph.get_tensor_by_name(x.name).shape.as_list() == [None, 2]
        fed = {x.name: [[3.0, 4.0]], y.name: [5]}
        assert session.run("out:0", fed).tolist() == [[11]]
        session.run("train", fed)
        assert session.run("w:0").tolist() == [[-2], [-2]]


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


def test_our_estimators_export_is_theirs(tmp_path: Path) -> None:
    """Converted, a canned classifier answers all of its signatures there as here."""
    words = tmp_path / "words.txt"
    words.write_text("a\nb\nc\n")
    column, E = ours.feature_column, ours.estimator
    word = column.categorical_column_with_vocabulary_file("word", str(words), 3, num_oov_buckets=1)
    number = column.numeric_column("number")
    crossed = column.crossed_column(["word", column.bucketized_column(number, [0.0, 0.5])], 20)
    deep = [number, column.embedding_column(word, 4)]
    config = E.RunConfig(tf_random_seed=1)
    model = E.DNNLinearCombinedClassifier(
        str(tmp_path / "m"), [word, crossed], dnn_feature_columns=deep, dnn_hidden_units=[8], config=config
    )
    rows = {"word": np.array(["a", "b", "zz", "c"]), "number": np.array([0.1, -1, 0.7, 3], np.float32)}
    model.train(lambda: ours.data.Dataset.from_tensor_slices((rows, [0, 1, 1, 0])).repeat().batch(4), steps=20)
    spec = column.make_parse_example_spec([crossed, *deep])
    path = model.export_saved_model(str(tmp_path), E.export.build_parsing_serving_input_receiver_fn(spec)).decode()
    out, feature = str(tmp_path / "theirs"), theirs.train.Feature
    assert cli.main(["checkpoint", "convert", path, out, "--to", "tensorflow"]) == 0
    examples = [
        theirs.train.Example(features=theirs.train.Features(feature={
            "word": feature(bytes_list=theirs.train.BytesList(value=[w.encode()])),
            "number": feature(float_list=theirs.train.FloatList(value=[n])),
        })).SerializeToString()
        for w, n in zip(*rows.values())
    ]  # fmt: skip
    answers = []
    for engine, folder in ((OURS, path), (THEIRS, out)):
        with engine.graph().as_default(), engine.tf.Session() as session:
            meta = engine.tf.saved_model.loader.load(session, ["serve"], folder)
            asked = {key: dict(signature.outputs) for key, signature in meta.signature_def.items()}
            fed = {info.name: examples for s in meta.signature_def.values() for info in s.inputs.values()}
            answers.append(session.run({k: {o: t.name for o, t in v.items()} for k, v in asked.items()}, fed))
    assert set(answers[0]) == {"serving_default", "classification", "predict", "regression"}
    for key, outputs in answers[0].items():
        for name, value in outputs.items():
            if value.dtype == object:
                assert value.tolist() == answers[1][key][name].tolist()
            else:
                np.testing.assert_allclose(value, answers[1][key][name], 1e-5, 1e-6, err_msg=f"{key} {name}")


def test_a_signature_with_a_ragged_tensor(tmp_path: Path) -> None:
    specs = []
    for engine in (OURS, THEIRS):
        with engine.graph().as_default(), engine.tf.Session() as session:
            x = engine.tf.placeholder(engine.tf.float32, [None], name="x")
            rows = engine.tf.RaggedTensor.from_nested_row_splits(x, [[0, 2], [0, 1, 3]])
            session.run(engine.tf.assign(engine.tf.get_variable("v", [1]), [1.0]))
            folder = str(tmp_path / ("ours" if engine is OURS else "theirs"))
            engine.tf.saved_model.simple_save(session, folder, {"x": x}, {"rows": rows})
        with ours.Graph().as_default(), ours.Session() as session:
            signature = ours.saved_model.loader.load(session, ["serve"], folder).signature_def["serving_default"]
            found = ours.saved_model.utils.get_tensor_from_tensor_info(signature.outputs["rows"])
            assert session.run(found, {"x:0": [5, 6, 7]}).to_list() == [[[5.0], [6.0, 7.0]]]
            assert found.shape.as_list() == [1, None, None]
        composite = signature.outputs["rows"].composite_tensor
        specs.append((composite.type_spec, [(part.dtype, part.tensor_shape) for part in composite.components]))
    assert specs[0] == specs[1]


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
