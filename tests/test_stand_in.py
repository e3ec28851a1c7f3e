"""Libraries that import tensorflow, on sparkflow."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import sparkflow as tf

LIBRARY = """
import tensorflow as tf
import tensorflow.compat.v1 as tf1
import tensorflow.compat.v1.nn
import tensorflow.contrib.slim as slim
import tensorflow.nn.rnn_cell as rnn_cell
import tensorflow.core.framework.graph_pb2 as graph_pb2
from tensorflow.contrib import layers
from tensorflow.core.example import example_pb2
from tensorflow.core.framework import summary_pb2
from tensorflow.core.protobuf import config_pb2
from tensorflow.contrib.seq2seq.python.ops import decoder
from tensorflow.python import tf2
from tensorflow.python.eager import backprop
from tensorflow.python.framework import ops
from tensorflow.python.keras.callbacks import EarlyStopping
from tensorflow.python.keras.engine import input_spec
from tensorflow.keras.preprocessing.sequence import pad_sequences
from tensorflow.keras.optimizers.schedules import ExponentialDecay
from tensorflow.python.ops import weights_broadcast_ops
from tensorflow.python.ops.variable_scope import variable
from tensorflow.python.training import evaluation
from tensorflow.python.data.ops.dataset_ops import DatasetV1
from tensorflow.train import AdamOptimizer
from tensorflow_estimator import estimator
from tensorflow_estimator.python.estimator import model_fn
from tensorflow_estimator.python.estimator.canned import prediction_keys
from tensorflow_estimator.python.estimator.head import regression_head


def score(x):
    with slim.arg_scope([slim.fully_connected], activation_fn=None):
        return tf1.squeeze(layers.fully_connected(slim.fully_connected(x, 4), 1))
"""
PROGRAM = """
import sys
import sparkflow

spec = sparkflow.__spec__
sparkflow.install_as_tensorflow()
sparkflow.install_as_tensorflow()
import library
import tensorflow

assert tensorflow is sparkflow and sparkflow.__spec__ is spec and sparkflow.__name__ == "sparkflow"
assert library.tf1.nn is sparkflow.nn and library.rnn_cell is sparkflow.nn.rnn_cell
assert library.ops.Graph is sparkflow.Graph and library.variable is sparkflow.Variable
assert library.config_pb2.ConfigProto is sparkflow.ConfigProto and library.graph_pb2.GraphDef is sparkflow.GraphDef
assert library.summary_pb2.Summary is sparkflow.Summary and library.example_pb2.Example is sparkflow.train.Example
assert not library.tf2.enabled() and library.input_spec.InputSpec is sparkflow.layers.InputSpec
assert library.evaluation._evaluate_once is sparkflow.contrib.training.evaluate_once
assert library.weights_broadcast_ops.broadcast_weights and library.decoder._transpose_batch_time
assert library.estimator is sparkflow.estimator and library.DatasetV1 is sparkflow.data.Dataset
assert library.model_fn.EstimatorSpec is sparkflow.estimator.EstimatorSpec
assert library.regression_head.RegressionHead is sparkflow.estimator.RegressionHead
assert library.prediction_keys.PredictionKeys.LOGITS == "logits"
assert sum(type(finder).__name__ == "_StandIn" for finder in sys.meta_path) == 1
with tensorflow.Session() as session:
    y = library.score(tensorflow.ones([3, 2]))
    session.run(tensorflow.global_variables_initializer())
    assert session.run(y).shape == (3,)
for name in ("tensorflow.no_such", "tensorflow.python.no_such.a", "tensorflow.nn.relu", "tensorflow.core.util.n_pb2"):
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        assert "tensorflow" in error.name, error
    else:
        raise AssertionError(name)
"""
EVERYTHING = """
import sparkflow
sparkflow.install_as_tensorflow()
from tensorflow.compat.v1 import *
assert estimator is sparkflow.estimator and gfile is sparkflow.gfile and Session is sparkflow.Session
assert matmul is sparkflow.matmul and not executing_eagerly() and "local" not in globals()
"""
LATE = """
import sys, types
sys.modules["tensorflow"] = types.ModuleType("tensorflow")
import sparkflow
try:
    sparkflow.install_as_tensorflow()
except RuntimeError as error:
    assert "TensorFlow itself is imported" in str(error)
else:
    raise AssertionError
"""


def _run(code: str, folder: Path) -> None:
    found = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


def test_a_library_runs_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text(LIBRARY)
    _run(PROGRAM, tmp_path)


def test_everything_is_imported_by_a_star(tmp_path: Path) -> None:
    _run(EVERYTHING, tmp_path)


def test_messages_by_the_files_that_tensorflow_has_them_in() -> None:
    """An asset of a collection is told by the type that TensorFlow writes."""
    from google.protobuf.any_pb2 import Any

    from sparkflow.core.protobuf import meta_graph_pb2, saved_model_pb2

    assert meta_graph_pb2.MetaGraphDef is tf.MetaGraphDef
    packed, found = Any(), meta_graph_pb2.AssetFileDef()
    packed.Pack(meta_graph_pb2.AssetFileDef(filename="words.txt"))
    assert packed.type_url == "type.googleapis.com/tensorflow.AssetFileDef"
    assert packed.Unpack(found) and found.filename == "words.txt"
    model = saved_model_pb2.SavedModel()
    model.meta_graphs.add().meta_info_def.tags.append("serve")
    assert saved_model_pb2.SavedModel.FromString(model.SerializeToString()) == model


def test_the_table_of_ops_is_asked_by_name() -> None:
    from sparkflow.python.framework import op_def_registry

    op_def_registry.sync()
    table = op_def_registry.get("HashTableV2")
    assert table.is_stateful and not table.input_arg and op_def_registry.get("NoSuchOp") is None
    assert not op_def_registry.get_registered_ops()["MatMul"].is_stateful


def test_not_where_tensorflow_itself_is_imported(tmp_path: Path) -> None:
    _run(LATE, tmp_path)


def test_versions_are_tensorflows_and_ones_own() -> None:
    assert [int(part) for part in tf.__version__.split(".")] == [1, 15, 0] and tf.__version__ == tf.version.VERSION
    assert version("sparkflow-graph") == tf.version.SPARKFLOW_VERSION
    assert not hasattr(tf.version, "NO_SUCH_VERSION")


def test_what_libraries_make_of_messages() -> None:
    """A type of its number, a shape of its message and back, and the table of ops with those that import knows."""
    from sparkflow.python.framework import op_def_registry

    assert tf.DType(1) is tf.float32 and tf.DType(101).is_ref and tf.DType(tf.int64.as_datatype_enum) is tf.int64
    for shape in (tf.TensorShape(None), tf.TensorShape([None, 3]), tf.TensorShape([])):
        again = tf.TensorShape(shape.as_proto())
        assert again.ndims == shape.ndims and again.as_proto() == shape.as_proto()
    known = op_def_registry.get_registered_ops()
    assert known["VarHandleOp"].is_stateful and not known["VarHandleOp"].input_arg
    assert known["ReadVariableOp"].input_arg[0].name == "resource" and known["HashTable"].is_stateful
    assert op_def_registry.get("ResourceApplyAdam") is not None


def test_an_operation_is_sent_elsewhere(graph: tf.Graph) -> None:
    with tf.device("/cpu:0"):
        op = tf.constant(1.0).op
    op._set_device("/job:ps/task:1")
    assert op.device == "/job:ps/task:1"
    op._set_device("")
    assert not op.device
