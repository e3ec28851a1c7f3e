"""SavedModels of estimators, and training that evaluates and exports on its way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

E, fc = tf.estimator, tf.feature_column
X = np.linspace(-1, 1, 40, dtype=np.float32)
Y = (X > 0).astype(np.int64)
COLUMNS = [fc.numeric_column("x")]


def inputs(epochs: int | None = None) -> Any:
    return E.inputs.numpy_input_fn({"x": X}, Y, batch_size=20, shuffle=False, num_epochs=epochs)


def from_dataset() -> Any:
    return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).batch(16)


def classifier(path: Path, **config: Any) -> Any:
    return E.LinearClassifier(COLUMNS, str(path), config=E.RunConfig(**config))


def parsing() -> Any:
    return E.export.build_parsing_serving_input_receiver_fn(fc.make_parse_example_spec(COLUMNS))()


def raw() -> Any:
    return E.export.build_raw_serving_input_receiver_fn({"x": tf.zeros([1])})()


def example(value: float) -> bytes:
    feature = tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
    return tf.train.Example(features=tf.train.Features(feature={"x": feature})).SerializeToString()


def served(path: bytes, signature: str, given: dict[str, Any]) -> dict[str, Any]:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        meta = tf.saved_model.loader.load(session, [tf.saved_model.tag_constants.SERVING], path.decode())
        asked = meta.signature_def[signature]
        feeds = {graph.get_tensor_by_name(asked.inputs[k].name): v for k, v in given.items()}
        return session.run({k: graph.get_tensor_by_name(v.name) for k, v in asked.outputs.items()}, feeds)


def test_examples_are_classified_as_predict_does(tmp_path: Path) -> None:
    model = classifier(tmp_path / "model")
    model.train(inputs(), steps=20)
    extra = tmp_path / "note.txt"
    extra.write_text("hello")
    path = model.export_saved_model(str(tmp_path / "export"), parsing, assets_extra={"a/note.txt": str(extra)})
    assert (Path(path.decode()) / "assets.extra" / "a" / "note.txt").read_text() == "hello"
    two = E.inputs.numpy_input_fn({"x": X[[3, 30]]}, shuffle=False)
    expected = [p["probabilities"] for p in model.predict(two)]
    messages = [example(X[3]), example(X[30])]
    found = served(path, "serving_default", {"inputs": messages})
    np.testing.assert_allclose(found["scores"], expected, 1e-5)
    assert found["classes"].tolist() == [[b"0", b"1"]] * 2
    assert set(served(path, "predict", {"examples": messages})) > {"logits", "probabilities", "class_ids"}
    assert served(path, "regression", {"inputs": messages})["outputs"].shape == (2, 1)


def test_of_raw_features_only_predictions_have_a_signature(tmp_path: Path) -> None:
    model = classifier(tmp_path / "model")
    model.train(from_dataset, steps=2)
    path = model.export_savedmodel(str(tmp_path / "export"), raw, as_text=True)
    assert os.listdir(path.decode()).count("saved_model.pbtxt") == 1
    assert served(path, "predict", {"x": X[:5]})["probabilities"].shape == (5, 2)
    with pytest.raises(ValueError, match="ServingInputReceiver"):
        model.export_saved_model(str(tmp_path / "export"), lambda: {"x": 1})
    with pytest.raises(ValueError, match="trained model"):
        classifier(tmp_path / "nothing").export_saved_model(str(tmp_path / "export"), raw)


def test_a_raw_feature_takes_no_variables_name(tmp_path: Path) -> None:
    """Its placeholder has the name of the tensor given, as in TensorFlow: with the feature's, the variable of that name
    became "user_1", which no checkpoint has."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        rows = tf.nn.embedding_lookup(tf.get_variable("user", [10, 1]), features["user"])
        loss = None if labels is None else tf.reduce_mean(tf.square(rows[:, 0] - labels))
        step = tf.train.get_or_create_global_step()
        op = None if loss is None else tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        return E.EstimatorSpec(mode, predictions={"score": rows[:, 0]}, loss=loss, train_op=op)

    model = E.Estimator(model_fn, str(tmp_path / "model"))
    data = {"user": np.arange(10)}
    model.train(E.inputs.numpy_input_fn(data, np.ones(10, np.float32), shuffle=False, num_epochs=None), steps=2)
    with tf.Graph().as_default():
        receive = E.export.build_raw_serving_input_receiver_fn({"user": tf.placeholder(tf.int64, [None], "ids")})
    path = model.export_saved_model(str(tmp_path / "export"), receive)
    expected = [p["score"] for p in model.predict(E.inputs.numpy_input_fn(data, shuffle=False))]
    assert served(path, "serving_default", {"user": data["user"]})["score"].tolist() == expected


def test_a_dataset_is_predicted_to_its_end(tmp_path: Path) -> None:
    model = classifier(tmp_path)
    model.train(from_dataset)
    assert len(list(model.predict(lambda: from_dataset()))) == len(X)
    assert model.evaluate(from_dataset)["global_step"] == 3


def test_train_and_evaluate(tmp_path: Path) -> None:
    model = classifier(tmp_path, save_checkpoints_steps=5, keep_checkpoint_max=2)
    seen: list[int] = []

    class Counting(tf.train.SessionRunHook):
        def end(self, session: Any) -> None:
            seen.append(int(session.run(tf.train.get_global_step())))

    class Worse(E.Exporter):
        name = "worse"

        def export(self, *arguments: Any) -> bytes:
            return b"%d %d" % (arguments[3]["global_step"], arguments[4])

    exporters = [E.LatestExporter("newest", parsing, exports_to_keep=1), E.FinalExporter("last", parsing), Worse()]
    spec = E.EvalSpec(from_dataset, steps=None, hooks=[Counting()], exporters=exporters, throttle_secs=0)
    found, written = E.train_and_evaluate(model, E.TrainSpec(inputs(), max_steps=20), spec)
    assert seen == [5, 10, 15, 20] and found["global_step"] == 20
    assert len(os.listdir(tmp_path / "export" / "newest")) == len(os.listdir(tmp_path / "export" / "last")) == 1
    assert written[2] == b"20 1" and served(written[1], "predict", {"examples": [example(0.5)]})
    assert len(list(tmp_path.glob("model.ckpt-*.index"))) == 2
    with pytest.raises(TypeError, match="EvalSpec"):
        E.train_and_evaluate(model, E.TrainSpec(inputs()), None)


def test_the_best_is_exported(tmp_path: Path) -> None:
    class Model:
        written = 0

        def export_saved_model(self, *_: Any) -> bytes:
            self.written += 1
            return b"there"

    model, best = Model(), E.BestExporter(serving_input_receiver_fn=parsing)
    found = [best.export(model, str(tmp_path), "", {"loss": loss}, False) for loss in (3.0, 4.0, 2.0)]
    assert found == [b"there", None, b"there"] and model.written == 2


def test_the_best_of_earlier_runs_is_told_by_events(tmp_path: Path) -> None:
    """But not by those of the evaluation that is asked about, nor by what a killed writer left cut off."""

    class Model:
        model_dir = str(tmp_path)

        def export_saved_model(self, *_: Any) -> bytes:
            return b"there"

    for step, loss in enumerate((3.0, 1.0, 2.0, 0.5)):
        with tf.summary.FileWriter(str(tmp_path / "eval")) as writer:
            writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="loss", simple_value=loss)]), step)
    newest = max((tmp_path / "eval").glob("*tfevents*"), key=lambda p: int(p.name.rpartition(".")[2]))
    newest.write_bytes(newest.read_bytes()[:-3])

    def exported(*losses: float, pattern: str | None = "eval/*tfevents*") -> list[bool]:
        best = E.BestExporter(serving_input_receiver_fn=parsing, event_file_pattern=pattern)
        results = [{"loss": loss, "global_step": 2 + i} for i, loss in enumerate(losses)]
        return [best.export(Model(), str(tmp_path), "", result, False) is not None for result in results]

    assert exported(1.5) == [False] and exported(0.9, 0.95, 0.8) == [True, False, True]
    assert exported(1.5, pattern=None) == exported(1.5, pattern="no/*") == [True]


def test_the_first_checkpoint_is_evaluated_at_once(tmp_path: Path) -> None:
    """throttle_secs is between two evaluations."""
    model = classifier(tmp_path, save_checkpoints_steps=5)
    model.train(inputs(), steps=5)
    seen: list[str] = []

    class Noting(E.Exporter):
        name = "noting"

        def export(self, *arguments: Any) -> None:
            seen.append(os.path.basename(arguments[2]))

    spec = E.EvalSpec(from_dataset, exporters=Noting(), throttle_secs=1000)
    E.train_and_evaluate(model, E.TrainSpec(inputs(), max_steps=20), spec)
    assert seen == ["model.ckpt-10", "model.ckpt-20"]


def test_who_loads_it_runs_the_scaffolds_initializer(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        known = tf.get_variable("known", initializer=0.0, collections=["local_variables"])
        step = tf.train.get_global_step()
        loss = tf.reduce_sum(features["x"]) + tf.get_variable("w", initializer=1.0)
        scaffold = tf.train.Scaffold(local_init_op=known.assign(5.0).op)
        return E.EstimatorSpec(mode, {"y": features["x"] + known}, loss, step.assign_add(1).op, scaffold=scaffold)

    model = E.Estimator(model_fn, str(tmp_path / "model"))
    model.train(inputs(), steps=1)
    for export, stripped in ((model.export_saved_model, True), (model.export_savedmodel, False)):
        path = export(str(tmp_path / "export"), raw)
        assert served(path, "serving_default", {"x": X[:2]})["y"].tolist() == (X[:2] + 5).tolist()
        [meta] = tf.saved_model.loader.parse_saved_model(path.decode()).meta_graphs
        assert meta.meta_info_def.stripped_default_attrs == stripped


def test_a_task_of_no_known_kind_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"cook": ["h:1"]}, "task": {"type": "cook", "index": 0}}')
    with pytest.raises(ValueError, match="'cook' is no chief"):
        E.train_and_evaluate(classifier(tmp_path), E.TrainSpec(inputs()), E.EvalSpec(inputs()))


def test_a_checkpoint_that_goes_while_it_is_evaluated_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chief keeps so many: an evaluator that is slow, or was stopped, finds the newest one then."""
    chief = classifier(tmp_path, keep_checkpoint_max=1)
    chief.train(inputs(), steps=10)
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"chief": ["h:1"]}, "task": {"type": "evaluator", "index": 0}}')
    evaluator = classifier(tmp_path)
    monkeypatch.delenv("TF_CONFIG")

    class Overtaken(tf.train.SessionRunHook):
        def begin(self) -> None:
            with tf.Graph().as_default():
                chief.train(inputs(), max_steps=20)

    spec = E.EvalSpec(from_dataset, steps=None, hooks=[Overtaken()], throttle_secs=0, start_delay_secs=0)
    found, _ = E.train_and_evaluate(evaluator, E.TrainSpec(inputs(), max_steps=20), spec)
    assert found["global_step"] == 20
