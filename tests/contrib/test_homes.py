"""tensorflow.contrib.*.python and tensorflow.python.*: where libraries import things from."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.generated import lower_case

pytestmark = pytest.mark.usefixtures("graph")


def test_imports_of_libraries() -> None:
    program = """
        import sparkflow
        sparkflow.install_as_tensorflow()
        from tensorflow.contrib.eager.python import tfe
        from tensorflow.contrib.framework.python.ops import add_arg_scope, arg_scope, variables
        from tensorflow.contrib.image.python.ops import image_ops
        from tensorflow.contrib.layers.python.layers import initializers, layers, utils
        from tensorflow.contrib.opt.python.training import elastic_average_optimizer, sign_decay
        from tensorflow.contrib.rnn.python.ops import core_rnn_cell
        from tensorflow.contrib.signal.python.ops import mel_ops
        from tensorflow.contrib.tpu.python.tpu import tpu_config
        from tensorflow.python.client.session import register_session_run_conversion_functions
        from tensorflow.python.estimator.export.export_output import PredictOutput
        from tensorflow.python.framework.function import Defun
        from tensorflow.python.tools import freeze_graph, inspect_checkpoint
        from tensorflow.python.training import training_ops
        from tensorflow.python.util import all_util, deprecation, function_utils, tf_inspect
        from tensorflow.python.util.tf_export import tf_export
        import tensorflow as tf

        assert elastic_average_optimizer.ElasticAverageOptimizer is tf.contrib.opt.ElasticAverageOptimizer
        assert sign_decay.get_linear_decay_fn is tf.contrib.opt.get_linear_decay_fn
        assert image_ops.rotate is tf.contrib.image.rotate
        assert mel_ops.linear_to_mel_weight_matrix is tf.signal.linear_to_mel_weight_matrix
        assert tf.contrib.layers.python.layers.utils is utils and layers.conv2d is tf.contrib.layers.conv2d
        assert core_rnn_cell.GRUCell is tf.nn.rnn_cell.GRUCell and tpu_config.TPUConfig is tf.contrib.tpu.TPUConfig
        assert function_utils.fn_args(lambda a, b: a) == ("a", "b") and function_utils.has_kwargs(lambda **k: k)
        assert tf_inspect.getargspec(freeze_graph.freeze_graph).args[0] == "input_graph"
        assert tf_inspect.isclass(PredictOutput) and tf.contrib.autograph is tf.autograph
        assert tfe.executing_eagerly is tf.contrib.eager.executing_eagerly
        assert all_util.make_all(__name__) and tf_export("name")(int) is int
        all_util.remove_undocumented(__name__, [])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_libraries_build_layers_with() -> None:
    """tensorflow.python.layers.utils; the lengths are TensorFlow's."""
    from sparkflow.python.layers import utils

    assert utils.constant_value(True) is True and utils.constant_value(tf.constant(False)) is False
    assert utils.constant_value(tf.placeholder(tf.bool)) is None
    assert utils.smart_cond(True, lambda: "yes", lambda: "no") == "yes"
    assert [utils.conv_output_length(8, 3, padding, 2, 2) for padding in ("same", "VALID", "full")] == [4, 2, 6]
    assert [utils.conv_input_length(7, 3, padding, 2) for padding in ("same", "valid", "full")] == [13, 15, 11]
    assert [utils.deconv_output_length(7, 5, padding, 2) for padding in ("same", "valid", "full")] == [14, 17, 9]
    lengths = (utils.conv_output_length, utils.conv_input_length, utils.deconv_output_length)
    assert [length(None, 3, "same", 1) for length in lengths] == [None, None, None]
    assert utils.normalize_tuple(3, 2, "strides") == (3, 3) and utils.normalize_tuple([1, 2], 2, "strides") == (1, 2)
    assert utils.convert_data_format("channels_first", 4) == "NCHW" and utils.normalize_padding("SAME") == "same"
    for wrong in (
        lambda: utils.normalize_tuple((1, 2, 3), 2, "strides"),
        lambda: utils.normalize_tuple("12", 2, "strides"),
        lambda: utils.normalize_padding("wide"),
        lambda: utils.normalize_data_format("NHWC"),
        lambda: utils.convert_data_format("channels_last", 2),
        lambda: utils.conv_input_length(3, 3, "wide", 1),
    ):
        with pytest.raises(ValueError, match=r"Received|got"):
            wrong()


def test_names_that_only_files_have(tmp_path: Any) -> None:
    from sparkflow.python.framework import device_spec, ops, tensor_shape
    from sparkflow.python.keras import activations
    from sparkflow.python.keras.engine.base_layer import Layer
    from sparkflow.python.keras.layers import recurrent
    from sparkflow.python.lib.io import file_io
    from sparkflow.python.ops import init_ops, io_ops, resource_variable_ops, rnn, rnn_cell_impl

    assert device_spec.DeviceSpec is tf.DeviceSpec and io_ops.restore_v2
    assert activations.get("relu") is tf.keras.activations.relu
    assert Layer is tf.keras.layers.Layer and recurrent.LSTM is tf.keras.layers.LSTM
    assert isinstance(tf.zeros_initializer(), init_ops.Initializer)
    assert resource_variable_ops.ResourceVariable([1.0]).value() is not tf.Variable([1.0]).value()
    assert ops.prepend_name_scope("^a/b", "s/") == "^s/a/b" and ops.strip_name_scope("loc:@s/a/b", "s") == "loc:@a/b"
    assert ops.strip_name_scope("sa/b:0", "s") == "sa/b:0" and ops.prepend_name_scope("a", None) == "a"
    assert tensor_shape.as_shape([2, None]).as_list() == [2, None]
    file_io.write_string_to_file(tmp_path / "a", "text")
    assert file_io.read_file_to_string(tmp_path / "a") == "text"
    assert rnn._transpose_batch_time(tf.zeros([2, 3, 4])).shape.as_list() == [3, 2, 4]
    assert issubclass(rnn_cell_impl.LayerRNNCell, tf.nn.rnn_cell.RNNCell) and rnn_cell_impl.DropoutWrapper
    zeros = rnn_cell_impl._zero_state_tensors((3, [tf.TensorShape([2])]), 5, tf.float32)
    assert zeros[0].shape.as_list() == [5, 3] and zeros[1][0].shape.as_list() == [5, 2]
    from sparkflow.python.estimator.canned import head, optimizers
    from sparkflow.python.feature_column import feature_column

    column = tf.feature_column.categorical_column_with_identity("a", 3)
    assert isinstance(tf.feature_column.embedding_column(column, 2), feature_column._EmbeddingColumn)
    assert type(optimizers.get_optimizer_instance("Ftrl", 0.1)) is tf.train.FtrlOptimizer
    with pytest.raises(ValueError, match="learning_rate must be specified"):
        optimizers.get_optimizer_instance("Ftrl")
    with pytest.raises(TypeError, match="abstract"):
        head._Head()
    everything: dict[str, Any] = {}
    exec("from sparkflow.python.ops.rnn_cell import *", everything)
    assert everything["RNNCell"] is tf.nn.rnn_cell.RNNCell and "_concat" not in everything
    batch = tf.placeholder(tf.int32, [])
    assert rnn_cell_impl._concat(None, [3], static=True) == [None, 3]
    assert rnn_cell_impl._concat(batch, 3, static=True) is None
    with tf.Session() as session:
        assert session.run(rnn_cell_impl._concat(batch, tf.TensorShape([3])), {batch: 5}).tolist() == [5, 3]
    with pytest.raises(ValueError, match="prefix or suffix that is not known"):
        rnn_cell_impl._concat(None, [3])


def test_ops_by_their_small_names() -> None:
    names = {"AvgPool3DGrad": "avg_pool3d_grad", "CTCLoss": "ctc_loss", "Conv2DBackpropInput": "conv2d_backprop_input"}
    assert {op: lower_case(op) for op in names} == names
    from sparkflow.python.framework import ops
    from sparkflow.python.ops import gen_nn_ops, nn_ops, state_ops
    from sparkflow.python.training import training_ops

    assert nn_ops.conv3d_backprop_filter_v2 and state_ops.assign_add is tf.assign_add
    assert nn_ops.dropout is tf.nn.dropout and ops.uid() < ops.uid()
    v = tf.Variable([1.0, 2.0])
    step = training_ops.apply_gradient_descent(v._ref(), 0.5, tf.ones([2]), use_locking=True)
    grad = gen_nn_ops.relu_grad(gradients=tf.ones([2]), features=tf.constant([-1.0, 1.0]))
    assert step.op.get_attr("use_locking") is True
    with pytest.raises(TypeError, match="at most 3 arguments"):
        gen_nn_ops.relu_grad(1, 2, 3, 4)
    with pytest.raises(AttributeError, match="no_such_op"):
        _ = training_ops.no_such_op
    with tf.Session() as session:
        session.run(v.initializer)
        np.testing.assert_array_equal(session.run(step), [0.5, 1.5])
        np.testing.assert_array_equal(session.run(grad), [0, 1])


def test_linear() -> None:
    linear = tf.contrib.rnn.python.ops.core_rnn_cell._linear
    a, b = tf.ones([2, 3]), tf.ones([2, 1])
    with tf.variable_scope("cell"):
        y = linear([a, b], 5, True, bias_initializer=tf.ones_initializer(), kernel_initializer=tf.ones_initializer())
    assert [v.op.name for v in tf.trainable_variables()] == ["cell/kernel", "cell/bias"] and y.shape == (2, 5)
    with pytest.raises(ValueError, match="matrices are wanted"):
        linear(tf.ones([3]), 5, True)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(y), np.full((2, 5), 5))


def test_ops_of_a_graph() -> None:
    tf.add(tf.constant(1), tf.placeholder(tf.int32))
    found = tf.contrib.util.ops_used_by_graph_def(tf.get_default_graph().as_graph_def())
    assert found == ["AddV2", "Const", "Placeholder"]


def test_there_is_no_debugger() -> None:
    from sparkflow.python import debug

    assert debug.has_inf_or_nan(None, [1.0, np.nan]) and not debug.has_inf_or_nan(None, ["a"])
    with pytest.raises(tf.errors.UnimplementedError, match=r"tf\.Print"):
        debug.LocalCLIDebugWrapperSession(None)


def test_names_of_a_cells_variables() -> None:
    from sparkflow.python.ops.rnn_cell_impl import _BIAS_VARIABLE_NAME, _WEIGHTS_VARIABLE_NAME, RNNCell

    class Cell(RNNCell):
        output_size = state_size = property(lambda self: 2)  # type: ignore[assignment]

        def call(self, inputs: Any, state: Any) -> Any:
            kernel = tf.get_variable(_WEIGHTS_VARIABLE_NAME, [3, 2])
            out = tf.matmul(inputs, kernel) + tf.get_variable(_BIAS_VARIABLE_NAME, [2])
            return out, out

    with tf.Graph().as_default():
        tf.nn.dynamic_rnn(Cell(), tf.zeros([1, 4, 3]), dtype=tf.float32)
        assert [v.op.name for v in tf.trainable_variables()] == ["rnn/cell/kernel", "rnn/cell/bias"]


def test_a_cell_that_is_built_of_tuples() -> None:
    """As the cells are that libraries copied from TensorFlow's own file."""
    tf_utils = import_module("sparkflow.python.keras.utils.tf_utils")

    class Cell(tf.nn.rnn_cell.RNNCell):
        state_size = output_size = 2

        @tf_utils.shape_type_conversion
        def build(self, inputs_shape: Any) -> None:
            assert inputs_shape == (None, 3)
            self.weight = tf.get_variable("w", [inputs_shape[-1], 2])
            self.built = True

        def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
            return inputs @ self.weight, state

    Cell()(tf.placeholder(tf.float32, [None, 3]), tf.zeros([1, 2]))
    halved = tf_utils.shape_type_conversion(lambda self, shapes: tuple(n // 2 for n in shapes[0]))
    assert halved(None, [tf.TensorShape([4, 2]), tf.TensorShape([1])]) == tf.TensorShape([2, 1])


def test_private_names_of_metrics() -> None:
    from sparkflow.python.framework import device_spec
    from sparkflow.python.ops import metrics_impl

    assert device_spec.DeviceSpecV1 is tf.DeviceSpec
    fitted = metrics_impl._remove_squeezable_dimensions(tf.ones([2, 3]), tf.ones([2, 3, 1]), [[1.0]])
    assert [t.shape.as_list() for t in fitted] == [[2, 3], [2, 3], [1, 1]]
    fitted = metrics_impl._remove_squeezable_dimensions(predictions=[1.0], labels=None, weights=2.0)
    assert fitted[1] is None and fitted[2].shape == ()
    counts = metrics_impl._confusion_matrix_at_thresholds
    values, updates = counts([1, 0, 1], [0.2, 0.6, 0.9], [0.5], includes=("tp", "fn"))
    assert list(values) == list(updates) == ["tp", "fn"] and len(counts([1], [0.5], [0.5])[0]) == 4
    with pytest.raises(ValueError, match="Invalid key: 'tpr'"):
        counts([1], [0.5], [0.5], includes=["tpr"])
    seen = metrics_impl.metric_variable([], "seen")
    assert seen in tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        assert session.run([updates["tp"], updates["fn"]]) == [[1], [1]]
        assert session.run(metrics_impl._safe_scalar_div(tf.constant(1.0), tf.constant(0.0), name="d")) == 0


def test_rows_in_place() -> None:
    from sparkflow.python.ops import inplace_ops

    x = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    cases = [
        (inplace_ops.alias_inplace_update(x, 1, [7.0, 8.0]), [[1, 2], [7, 8], [5, 6]]),
        (inplace_ops.inplace_add(x, [0, -1], [[1.0, 1.0], [2.0, 2.0]]), [[2, 3], [3, 4], [7, 8]]),
        (inplace_ops.alias_inplace_sub(x, None, tf.ones([3, 2])), [[0, 1], [2, 3], [4, 5]]),
        (inplace_ops.inplace_update(x, 4, x[0]), [[1, 2], [1, 2], [5, 6]]),
        (inplace_ops.empty_like(x, init=True), [[0, 0]] * 3),
        (x, [[1, 2], [3, 4], [5, 6]]),
    ]
    with tf.Session() as session:
        for found, wanted in cases:
            np.testing.assert_array_equal(session.run(found), wanted)


def test_contexts_of_control_flow() -> None:
    from sparkflow.python.ops import control_flow_util

    seen: list[Any] = []

    def body(i: Any) -> Any:
        inside = tf.cond(i > 1, lambda: i + 1, lambda: tf.identity(i + 1, name="branch"))
        seen.append(tf.get_default_graph()._get_control_flow_context())
        return inside

    out = tf.while_loop(lambda i: i < 3, body, [0])
    branch = next(o for o in tf.get_default_graph().get_operations() if o.name.endswith("branch"))
    own = branch._get_control_flow_context()
    assert control_flow_util.IsInWhileLoop(branch) and not control_flow_util.IsInWhileLoop(tf.constant(1).op)
    assert control_flow_util.GetContainingWhileContext(own) is seen[0] is not own
    assert control_flow_util.GetContainingWhileContext(own, own) is own
    assert control_flow_util.GetContainingXLAContext(own) is None and not control_flow_util.IsInXLAContext(out.op)


def test_deprecation_in_contrib() -> None:
    @tf.contrib.framework.deprecated("2020-01-01", "Use another.")
    def old() -> int:
        return 3

    assert old() == 3 and tf.contrib.framework.deprecated_args is not tf.contrib.framework.deprecated_arg_values


def test_imports_of_scripts() -> None:
    """What public training scripts import from below tensorflow.contrib and tensorflow.python."""
    program = """
        import sparkflow
        sparkflow.install_as_tensorflow()
        from tensorflow.contrib.data.python.ops import dataset_ops
        from tensorflow.contrib.estimator.python.estimator import early_stopping, extenders, head, multi_head
        from tensorflow.contrib.keras import layers
        from tensorflow.contrib.keras.api.keras.layers import Dense
        from tensorflow.contrib.keras.python.keras import backend
        from tensorflow.contrib.learn.python.learn.datasets.base import load_csv_with_header
        from tensorflow.contrib.learn.python.learn.datasets.mnist import read_data_sets
        from tensorflow.contrib.learn.python.learn.preprocessing import VocabularyProcessor
        from tensorflow.contrib.lookup.lookup_ops import MutableHashTable, index_table_from_file
        from tensorflow.python.data.experimental.ops import batching, grouping, interleave_ops, shuffle_ops
        from tensorflow.python.distribute import distribution_strategy_context
        from tensorflow.python.estimator.early_stopping import stop_if_no_decrease_hook
        from tensorflow.python.feature_column.sequence_feature_column import sequence_input_layer
        from tensorflow.python.framework import device as pydev
        from tensorflow.python.ops import gen_candidate_sampling_ops, gen_logging_ops, gen_lookup_ops
        from tensorflow.python.profiler import model_analyzer, option_builder
        from tensorflow.python.saved_model.simple_save import simple_save
        from tensorflow.python.training import adagrad_da, distribute, gen_training_ops
        import tensorflow as tf

        assert layers.Dense is Dense is tf.keras.layers.Dense and backend.get_session is tf.keras.backend.get_session
        assert tf.contrib.keras.models.Sequential is tf.keras.models.Sequential and "layers" in dir(tf.contrib.keras)
        assert tf.contrib.data.Dataset is dataset_ops.Dataset is tf.data.Dataset
        assert tf.contrib.data.Iterator is tf.data.Iterator
        assert tf.contrib.data.FixedLengthRecordDataset is tf.data.FixedLengthRecordDataset
        assert read_data_sets is tf.contrib.learn.datasets.mnist.read_data_sets and load_csv_with_header
        assert VocabularyProcessor is tf.contrib.learn.preprocessing.VocabularyProcessor
        assert MutableHashTable is tf.contrib.lookup.MutableHashTable and index_table_from_file
        assert head.multi_class_head is tf.contrib.estimator.multi_class_head is multi_head.multi_class_head
        assert extenders.forward_features and early_stopping.stop_if_no_decrease_hook is stop_if_no_decrease_hook
        assert batching.map_and_batch is tf.data.experimental.map_and_batch and shuffle_ops.shuffle_and_repeat
        assert grouping.bucket_by_sequence_length and interleave_ops.parallel_interleave and simple_save
        assert distribution_strategy_context.has_strategy is tf.distribute.has_strategy is distribute.has_strategy
        assert sequence_input_layer is tf.contrib.feature_column.sequence_input_layer
        assert pydev.DeviceSpec is tf.DeviceSpec and adagrad_da.AdagradDAOptimizer is tf.train.AdagradDAOptimizer
        assert gen_candidate_sampling_ops.log_uniform_candidate_sampler and gen_logging_ops.scalar_summary
        assert gen_lookup_ops.lookup_table_find_v2 and gen_training_ops.apply_adam
        assert model_analyzer.Profiler is tf.profiler.Profiler and option_builder.ProfileOptionBuilder
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
