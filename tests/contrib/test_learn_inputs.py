"""tf.contrib.learn.io, what a served model is asked with, and an Experiment of them all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import sparkflow as tf

learn, layers = tf.contrib.learn, tf.contrib.layers


def write(folder: Path, files: int = 3, rows: int = 10) -> str:
    for i in range(files):
        with tf.python_io.TFRecordWriter(str(folder / f"{i}.tfrecord")) as writer:
            for k in range(rows * i, rows * (i + 1)):
                feature = {
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=[k / 10])),
                    "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[k])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    return str(folder / "*.tfrecord")


SPEC = {"x": tf.FixedLenFeature([1], tf.float32), "y": tf.FixedLenFeature([], tf.int64)}


def batches(*fetches: Any) -> list[Any]:
    """To the end of the queues."""
    found = []
    with tf.train.MonitoredSession() as session:
        while not session.should_stop():
            found.append(session.run(fetches))
    return found


@pytest.mark.parametrize("shuffled", [False, True])
def test_features_of_files(tmp_path: Path, shuffled: bool) -> None:
    pattern = write(tmp_path)
    with tf.Graph().as_default():
        features = learn.read_batch_features(
            pattern, 8, SPEC, tf.TFRecordReader, shuffled, num_epochs=2, reader_num_threads=1 + shuffled
        )
        found = batches(features["x"], features["y"])
    assert [len(y) for _, y in found] == [8] * 7 + [4]
    rows = np.concatenate([y for _, y in found])
    assert sorted(rows) == sorted(2 * list(range(30)))
    np.testing.assert_allclose(np.concatenate([x for x, _ in found])[:, 0], rows / 10)
    assert shuffled == (rows[:10].tolist() != list(range(10)))


def test_records_one_by_one(tmp_path: Path) -> None:
    pattern = write(tmp_path, files=1)
    with tf.Graph().as_default():
        keys, lengths = learn.io.read_keyed_batch_examples(
            [pattern], 4, tf.TFRecordReader, randomize_input=False, num_epochs=1, parse_fn=tf.strings.length
        )
        found = batches(keys, lengths)
    assert [len(n) for _, n in found] == [4, 4, 2] and found[0][0][0].startswith(str(tmp_path).encode())
    with tf.Graph().as_default():
        (numbers,) = zip(*batches(learn.read_batch_record_features(pattern, 10, SPEC, num_epochs=1)["y"]))
    assert sorted(numbers[0]) == list(range(10))
    with pytest.raises(ValueError, match="No files match"):
        learn.read_batch_examples(str(tmp_path / "none"), 4, tf.TFRecordReader)
    with pytest.raises(ValueError, match="Invalid batch_size 4, with queue_capacity 4"):
        learn.read_batch_examples(pattern, 4, tf.TFRecordReader, queue_capacity=4)
    with pytest.raises(ValueError, match="Invalid read_batch_size 0"):
        learn.read_batch_examples(pattern, 4, tf.TFRecordReader, read_batch_size=0)


def test_examples_of_a_generator() -> None:
    def rows() -> Iterator[dict[str, Any]]:
        for k in range(5):
            yield {"a": np.float32(k), "b": np.array([k, -k]), "name": f"n{k}"}

    with tf.Graph().as_default():
        features, label = learn.io.generator_input_fn(rows, "a", batch_size=3, shuffle=False)()
        assert set(features) == {"b", "name"}
        found = batches(features["b"], features["name"], label)
    assert [len(a) for *_, a in found] == [3, 2] and found[1][1].tolist() == [b"n3", b"n4"]
    assert found[0][0].tolist() == [[0, 0], [1, -1], [2, -2]]
    with tf.Graph().as_default():
        features, labels = learn.io.generator_input_fn(rows, ["a", "b"], 5, num_epochs=2)()
        (first, second) = batches(features["name"], labels["a"], labels["b"])
    assert sorted(first[1]) == sorted(second[1]) == [0, 1, 2, 3, 4]
    with pytest.raises(KeyError, match="target_key 'c' is not in"):
        learn.io.generator_input_fn(rows, "c")()
    with pytest.raises(TypeError, match="must be generator function; got list"):
        learn.io.generator_input_fn([1])
    with pytest.raises(TypeError, match="must be dict of examples; got int"):
        learn.io.generator_input_fn(lambda: iter([1]))()
    with pytest.raises(ValueError, match="target_key must be string or list"):
        learn.io.generator_input_fn(rows, 3)


def test_frames_as_arrays() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    assert learn.extract_pandas_data(frame).dtype == np.float32
    assert learn.extract_pandas_matrix(frame).tolist() == [[1, 0.5], [2, 1.5]]
    assert learn.extract_pandas_labels(frame[["a"]]).tolist() == [[1], [2]]
    assert learn.extract_pandas_labels(frame["a"]).tolist() == [1, 2]
    assert learn.extract_pandas_data(3) == learn.extract_pandas_labels(3) == learn.extract_dask_data(3) == 3
    parts = dd.from_pandas(frame, npartitions=2)
    assert learn.extract_dask_data(parts).tolist() == frame.to_numpy().tolist()
    assert learn.extract_dask_labels(parts["b"]).tolist() == [0.5, 1.5]
    for extract, given in ((learn.extract_pandas_labels, frame), (learn.extract_dask_labels, parts)):
        with pytest.raises(ValueError, match="Only one column for labels"):
            extract(given)
    with pytest.raises(ValueError, match="must be int, float, or bool, got 'c'"):
        learn.extract_pandas_data(pd.DataFrame({"c": ["x"]}))


def serve() -> Any:
    inputs = {"x": tf.placeholder(tf.float32, [None])}
    return learn.InputFnOps({"x": tf.expand_dims(inputs["x"], -1)}, None, inputs)


def asked(path: bytes, **given: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ["serve"], path.decode()).signature_def["serving_default"]
        fed = {signature.inputs[key].name: value for key, value in given.items()}
        return session.run({key: t.name for key, t in signature.outputs.items()}, fed)


def test_an_experiment(tmp_path: Path) -> None:
    """As the samples of 2017 have it: files, a model function, metrics, monitors and an export."""
    pattern = write(tmp_path)

    def input_fn() -> Any:
        features = learn.read_batch_features(pattern, 10, SPEC, tf.TFRecordReader)
        return features, tf.to_float(features.pop("y"))

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        out = tf.squeeze(layers.linear(features["x"], 1), [1])
        if mode == learn.ModeKeys.INFER:
            answers = {"line": (learn.ProblemType.LINEAR_REGRESSION, {"scores": out})}
            return learn.ModelFnOps(mode, {"y": out}, output_alternatives=answers)
        loss = tf.reduce_mean(tf.square(out - labels))
        train = layers.optimize_loss(loss, tf.train.get_global_step(), 0.05, "SGD")
        return learn.ModelFnOps(mode, {"y": out}, loss, train)

    kept = learn.monitors.CaptureVariable("global_step:0", every_n=10)
    model = learn.Estimator(model_fn, config=learn.RunConfig(model_dir=str(tmp_path / "model")))
    experiment = learn.Experiment(
        model, input_fn, input_fn, {"far": learn.MetricSpec(tf.metrics.mean_absolute_error)}, 200, 3, [kept],
        eval_delay_secs=0, export_strategies=learn.utils.make_export_strategy(serve),
    )  # fmt: skip
    found, exports = experiment.train_and_evaluate()
    assert found["far"] < 1 and found["global_step"] == 200 and 1 in kept.values and max(kept.values) > 190
    assert experiment.evaluate()["far"] < 1
    np.testing.assert_allclose(asked(exports[0], x=[1.0, 2.0])["scores"], [10, 20], atol=1)
    given = (str(tmp_path / "e"), model.latest_checkpoint(), {}, True)
    other = tf.estimator.LinearRegressor([tf.feature_column.numeric_column("x")])
    assert learn.make_export_strategy(serve, "line").export(model, *given)
    with pytest.raises(ValueError, match="other"):
        learn.make_export_strategy(serve, "other").export(model, *given)
    with pytest.raises(ValueError, match=r"is for estimators of tf\.contrib\.learn, got LinearRegressor"):
        learn.make_export_strategy(serve, "line").export(other, *given)


def test_training_and_evaluating_by_turns(tmp_path: Path) -> None:
    rows = np.linspace(-1, 1, 50, dtype=np.float32)
    input_fn, asked_of = learn.io.numpy_input_fn({"x": rows}, rows, 10, None), list[Any]()

    def experiment(name: str, steps: int | None, data: Any = input_fn) -> Any:
        model = learn.LinearRegressor([layers.real_valued_column("x")], model_dir=str(tmp_path / name))
        return learn.Experiment(
            model, data, input_fn, train_steps=steps, eval_steps=2, train_steps_per_iteration=4,
            export_strategies=learn.utils.make_export_strategy(serve),
        )  # fmt: skip

    def goes_on(eval_results: Any) -> bool:
        asked_of.append(eval_results and eval_results["global_step"])
        return len(asked_of) < 3

    found, exports = experiment("a", 10).continuous_train_and_eval()
    assert found["global_step"] == 10 and len(exports) == 1
    assert experiment("b", None).continuous_train_and_eval(goes_on)[0]["global_step"] == 8 and asked_of == [None, 4, 8]
    ends = learn.io.numpy_input_fn({"x": rows}, rows, 25)  # two steps at each turn
    paths = list[Any]()
    found, _ = experiment("c", 5, ends).continuous_train_and_eval(
        lambda eval_results, checkpoint_path: paths.append(checkpoint_path) or True
    )
    assert found["global_step"] == 5 and paths[0] is None and [p[-6:] for p in paths[1:]] == ["ckpt-2", "ckpt-4"]
    with pytest.raises(ValueError, match="must be a callable, or None, got 3"):
        experiment("d", 1).continuous_train_and_eval(3)


def test_a_model_that_is_ready_is_exported(tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 50, dtype=np.float32)
    column = layers.real_valued_column("x")
    model = learn.LinearRegressor([column], optimizer=tf.train.GradientDescentOptimizer(0.3))
    model.fit({"x": x}, 2 * x, steps=100)
    path = model.export_savedmodel(str(tmp_path), serve)
    np.testing.assert_allclose(asked(path, x=[0.5])["scores"], [1.0], atol=0.05)
    utils = learn.utils.input_fn_utils
    made = utils.build_parsing_serving_input_fn({"x": tf.FixedLenFeature([1], tf.float32)})
    with tf.Graph().as_default():
        assert made().features["x"].shape.as_list() == [None, 1] and list(made().default_inputs) == ["examples"]
        like = {"x": tf.constant([[1.0]])}
        assert list(utils.build_default_serving_input_fn(like)().default_inputs) == ["x"]
    strategy = learn.utils.saved_model_export_utils.make_parsing_export_strategy([column])
    assert strategy.name == "Servo"
    strategy.export(model, str(tmp_path / "again"), model.latest_checkpoint(), {}, True)
    with pytest.raises(ValueError, match=r"default_output_alternative_key='a': the model's output_alternatives are"):
        model.export_savedmodel(str(tmp_path), serve, "a")


def test_one_of_several_outputs_is_the_default(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        out = layers.linear(features["x"], 1)
        named = {key: (learn.ProblemType.UNSPECIFIED, {key: out}) for key in ("low", "high")}
        loss = tf.losses.mean_squared_error(labels, out) if labels is not None else None
        train = layers.optimize_loss(loss, None, 0.1, "SGD") if mode == learn.ModeKeys.TRAIN else None
        return learn.ModelFnOps(mode, {"out": out}, loss, train, output_alternatives=named)

    rows = np.ones([4, 1], np.float32)
    model = learn.Estimator(model_fn).fit({"x": rows}, rows, steps=1)
    assert list(asked(model.export_savedmodel(str(tmp_path), serve, "high"), x=[1.0])) == ["high"]
    with pytest.raises(ValueError, match="none of them is the default"):
        model.export_savedmodel(str(tmp_path), serve)


def test_a_classifier_asked_with_its_features(tmp_path: Path) -> None:
    """As the samples of Cloud ML of 2017 are: not with serialized examples."""
    x = np.linspace(-1, 1, 50, dtype=np.float32)
    model = learn.LinearClassifier([layers.real_valued_column("x")]).fit({"x": x}, (x > 0).astype(int), steps=100)
    found = asked(model.export_savedmodel(str(tmp_path), serve), x=[-0.5, 0.5])
    assert set(found) == {"classes", "logistic", "logits", "probabilities"}
    assert found["classes"].tolist() == [0, 1] and found["probabilities"].shape == (2, 2)


def test_features_that_are_one_tensor_are_served(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        out = layers.linear(features, 1)
        if mode == learn.ModeKeys.INFER:
            return learn.ModelFnOps(mode, {"out": out})
        loss = tf.losses.mean_squared_error(labels, out)
        return learn.ModelFnOps(mode, {"out": out}, loss, layers.optimize_loss(loss, None, 0.1, "SGD"))

    def serving() -> Any:
        rows = tf.placeholder(tf.float32, [None, 2])
        return learn.InputFnOps(rows, None, {"rows": rows})

    rows = np.eye(2, dtype=np.float32)
    model = learn.Estimator(model_fn).fit(rows, rows[:, :1], steps=3)
    found = asked(model.export_savedmodel(str(tmp_path), serving), rows=rows)
    np.testing.assert_allclose(found["out"], model.predict(rows, as_iterable=False)["out"], rtol=1e-6)


def test_arrays_are_shuffled_unless_asked_not_to_be() -> None:
    frame = pd.DataFrame({"x": np.arange(64.0)})
    rows = {"x": np.arange(64.0)}
    for shuffled in (learn.io.numpy_input_fn(rows, rows["x"], 64), learn.io.pandas_input_fn(frame, frame.x, 64)):
        with tf.Graph().as_default():
            features, labels = shuffled()
            ((x, y),) = batches(features["x"], labels)
        assert x.tolist() == y.tolist() != sorted(x) == frame.x.tolist()
    with tf.Graph().as_default():
        ((x,),) = batches(learn.io.numpy_input_fn(rows, shuffle=False)()["x"])
    assert x.tolist() == sorted(x)
