"""Arguments that would be taken silently, or fail far from the call: refused where they are given, as in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def _refused(error: type[Exception], message: str, call: Callable[[], Any]) -> Any:
    return pytest.param(error, message, call, id=message)


FEATURE = tf.feature_column
OPS = [
    _refused(ValueError, "which UTF-8 has no bytes for", lambda: tf.constant("\udcff")),
    _refused(ValueError, "Identity: .*which UTF-8 has no", lambda: tf.identity(["a", "\udcff"])),
    _refused(TypeError, "range: start, limit and delta are", lambda: tf.range("a")),
    _refused(TypeError, "range: .*bool", lambda: tf.range(True)),
    _refused(ValueError, "shape must be of rank 1", lambda: tf.random_uniform(2)),
    _refused(ValueError, "TruncatedNormal: shape must be", lambda: tf.truncated_normal(2)),
    _refused(ValueError, "perm .1. is no permutation", lambda: tf.transpose([1, 2], [1])),
    _refused(TypeError, "Expected int32, got .a. of type .str.", lambda: tf.concat([[1]], "a")),
    _refused(TypeError, "Expected int for argument 'axis' not 'a'", lambda: tf.squeeze([1], "a")),
    _refused(TypeError, "Cannot convert 'a' to a DType", lambda: tf.cast([1], "a")),
    _refused(TypeError, "Cannot convert 'f4' to a DType", lambda: tf.placeholder("f4")),
    _refused(ValueError, "Dimension -1 must be >= 0", lambda: tf.Dimension(-1)),
    _refused(ValueError, "n, the number of elements", lambda: tf.FIFOQueue(1, tf.int32, [[]]).dequeue_many(-1)),
    _refused(ValueError, "`constraint` argument must be a callable", lambda: tf.Variable(1.0, constraint=1)),
    _refused(ValueError, "must be a list, tuple, or set", lambda: tf.get_variable("a", [1], collections=1)),
]


@pytest.mark.parametrize(("error", "message", "call"), OPS)
def test_of_an_op(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(error, match=message):
        call()


def test_what_still_stands_for_a_size_that_is_not_known() -> None:
    assert tf.TensorShape([-1, 2]).as_list() == [None, 2] and tf.Dimension(None).value is None
    assert tf.range(2.0, dtype=tf.float64).dtype is tf.float64


def _range() -> Any:
    return tf.data.Dataset.range(3)


DATA = [
    _refused(TypeError, "whole number, got 'a'", lambda: tf.data.Dataset.range("a")),
    _refused(TypeError, "whole number, got 1.5", lambda: tf.data.Dataset.range(1.5)),
    _refused(TypeError, "whole number, got .1.", lambda: tf.data.Dataset.range([1])),
    _refused(ValueError, "None values are not supported", lambda: _range().batch(None)),
    _refused(TypeError, "drop_remainder must be a bool, got 1", lambda: _range().batch(2, drop_remainder=1)),
    _refused(ValueError, "padded shape .1,. is not compatible", lambda: _range().padded_batch(2, [1])),
    _refused(TypeError, "`padding_values`: 'a'", lambda: _range().padded_batch(2, [], "a")),
    _refused(TypeError, "`padding_values`: 1.5", lambda: _range().padded_batch(2, [], 1.5)),
    _refused(TypeError, "reshuffle_each_iteration must be", lambda: _range().shuffle(2, 1, "a")),
    _refused(TypeError, "whole number, got 'b'", lambda: _range().enumerate("b")),
    _refused(ValueError, "zip takes at least one", lambda: tf.data.Dataset.zip(())),
    _refused(TypeError, "`filenames` argument must contain", lambda: tf.data.TextLineDataset(1)),
    _refused(TypeError, "compression_type must be a string", lambda: tf.data.TFRecordDataset(["a"], 1)),
    _refused(TypeError, "whole number, got 'c'", lambda: tf.data.TFRecordDataset(["a"], num_parallel_reads="c")),
    _refused(TypeError, "whole number, got 'd'", lambda: tf.data.FixedLengthRecordDataset(["a"], "d")),
    _refused(ValueError, "`weights` must have", lambda: tf.data.experimental.sample_from_datasets([])),
    _refused(TypeError, "`choice_dataset` must be", lambda: tf.data.experimental.choose_from_datasets([_range()], 1)),
    _refused(TypeError, "a handle is a string", lambda: tf.data.Iterator.from_string_handle(1, tf.int32)),
    _refused(RuntimeError, "is iterated in the graph", lambda: list(_range())),
]


@pytest.mark.parametrize(("error", "message", "call"), DATA)
def test_of_a_dataset(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(error, match=message):
        call()


def test_records_of_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abcd")
    record = tf.data.FixedLengthRecordDataset([str(tmp_path / "a")], 0).make_one_shot_iterator().get_next()
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="record_bytes must be above 0"):
        session.run(record)


def test_settings_that_datasets_still_take() -> None:
    assert tf.data.TextLineDataset([]).output_types is tf.string
    rows = _range().repeat(None).shuffle(np.int64(2)).padded_batch(2, [], np.int64(7), drop_remainder=np.bool_(True))
    assert rows.output_shapes.as_list() == [2]


def _spec(mode: str, **parts: Any) -> Any:
    value = tf.constant(1.0)
    return tf.estimator.EstimatorSpec(mode, **{"loss": value, "train_op": value, "predictions": value, **parts})


def _trained(optimizer: Any, by_rows: bool = False) -> Any:
    table = tf.Variable([1.0, 2.0])
    return optimizer.minimize(tf.reduce_sum(tf.gather(table, [0]) if by_rows else table))


TRAINING = [
    _refused(ValueError, "alpha must be of rank 0", lambda: _trained(tf.train.GradientDescentOptimizer([0.1]))),
    _refused(ValueError, "ApplyAdam: lr must be", lambda: _trained(tf.train.AdamOptimizer([0.1, 0.2]))),
    _refused(ValueError, "SparseApplyAdagrad: lr", lambda: _trained(tf.train.AdagradOptimizer([0.1]), by_rows=True)),
    _refused(TypeError, "seconds or steps is wanted, got 'a'", lambda: tf.train.SecondOrStepTimer(every_steps="a")),
    _refused(TypeError, "a number of steps is wanted", lambda: tf.train.StopAtStepHook("a")),
    _refused(TypeError, "max_to_keep must be a whole number or None, got '3'", lambda: tf.train.Saver(max_to_keep="3")),
    _refused(TypeError, "keep_checkpoint_every_n_hours", lambda: tf.train.Saver(keep_checkpoint_every_n_hours="x")),
    _refused(TypeError, "sharded must be a bool", lambda: tf.train.Saver(sharded="a")),
    _refused(ValueError, "saver_def must be a SaverDef", lambda: tf.train.Saver(saver_def=1)),
    _refused(TypeError, "saver must be a Saver", lambda: tf.train.Scaffold(saver=1)),
    _refused(TypeError, "copy_from_scaffold is not", lambda: tf.train.Scaffold(copy_from_scaffold=1)),
    _refused(ValueError, "exactly one of every_n_steps", lambda: tf.train.StepCounterHook(every_n_secs=1)),
    _refused(TypeError, "expected str", lambda: tf.train.ProfilerHook(1, output_dir=1)),
    _refused(TypeError, "sess must be a `tf.Session`", lambda: tf.train.start_queue_runners(1)),
    _refused(TypeError, "Job name 1 must be a string", lambda: tf.train.ClusterSpec({1: ["a"]})),
    _refused(TypeError, "must be a Variable or Tensor: 1", lambda: tf.train.assert_global_step(1)),
    _refused(TypeError, "write_graph takes a Graph", lambda: tf.train.write_graph(1, "unused", "g")),
    _refused(TypeError, "train_op must be an Operation", lambda: _spec("train", train_op=1)),
    _refused(TypeError, "predictions must be Tensors, given: 2", lambda: _spec("infer", predictions={"a": 2})),
    _refused(TypeError, "Update op of eval_metric_ops 'a'", lambda: _spec("eval", eval_metric_ops={"a": (1, 2)})),
    _refused(TypeError, "export_outputs must be a dict", lambda: _spec("infer", export_outputs=1)),
    _refused(TypeError, "All training_hooks must be", lambda: _spec("train", training_hooks=[1])),
    _refused(TypeError, "scaffold must be a tf.train.Scaffold", lambda: _spec("train", scaffold=1)),
    _refused(ValueError, "model_dir must be a path", lambda: tf.estimator.RunConfig(1)),
    _refused(ValueError, "tf_random_seed must be", lambda: tf.estimator.RunConfig(tf_random_seed="a")),
    _refused(ValueError, "session_config must be", lambda: tf.estimator.RunConfig().replace(session_config=1)),
    _refused(TypeError, "EvalSpec: name must be", lambda: tf.estimator.EvalSpec(lambda: 1, name=1)),
    _refused(TypeError, "exporters must be one or", lambda: tf.estimator.EvalSpec(lambda: 1, exporters=[1])),
    _refused(ValueError, "an output must be a Tensor", lambda: tf.estimator.export.PredictOutput(1)),
    _refused(ValueError, "must be a CategoricalColumn", lambda: tf.feature_column.indicator_column(1)),
    _refused(ValueError, "in a does not exist: /", lambda: FEATURE.categorical_column_with_vocabulary_file("a", "/")),
    _refused(TypeError, "dimensions must be integer", lambda: tf.feature_column.numeric_column("a", 1.5)),
]


@pytest.mark.parametrize(("error", "message", "call"), TRAINING)
def test_of_a_training(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    tf.Variable(1.0)
    with pytest.raises(error, match=message):
        call()
