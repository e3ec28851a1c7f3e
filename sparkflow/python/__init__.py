"""tensorflow.python: the files in which TensorFlow kept what its public names have. Scripts import some of them.

Nothing is defined here: each module below has the names of the public modules beside it, looked up when asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

_TF, _NN, _TRAIN = "sparkflow", "sparkflow.nn", "sparkflow.train"
_OPS = (_TF, "sparkflow.math", _NN, "sparkflow.strings", "sparkflow.sparse", "sparkflow.linalg", "sparkflow.random")

_COLUMNS, _DISTRIBUTIONS = "sparkflow.feature_column", "sparkflow.distributions"
_GENERATED, _SIGNATURES = "sparkflow.generated", "sparkflow.framework.signatures"
_INTERNALS = "sparkflow.contrib.internals"

# module of tensorflow.python -> the public modules that have its names, the first that has one first
HOMES: dict[str, Sequence[str]] = {
    "client.device_lib": ("sparkflow.session.device_lib",),
    "client.session": (_TF, "sparkflow.session.fetches"),
    "client.timeline": ("sparkflow.session.timeline",),
    "data.ops.dataset_ops": ("sparkflow.data",),
    "data.ops.iterator_ops": ("sparkflow.data",),
    "data.ops.readers": ("sparkflow.data",),
    "data.util.nest": ("sparkflow.contrib.nest",),
    "debug": ("sparkflow.tfdbg",),
    "debug.wrappers.hooks": ("sparkflow.tfdbg",),
    "debug.wrappers.local_cli_wrapper": ("sparkflow.tfdbg",),
    "eager.backprop": ("sparkflow.contrib.eager",),
    "eager.context": ("sparkflow.contrib.eager",),
    "estimator.canned.dnn": ("sparkflow.estimator",),
    "estimator.canned.head": ("sparkflow.estimator.heads",),
    "estimator.canned.linear": ("sparkflow.estimator",),
    "estimator.canned.metric_keys": ("sparkflow.estimator.heads",),
    "estimator.canned.prediction_keys": ("sparkflow.estimator.heads",),
    "estimator.estimator": ("sparkflow.estimator", "sparkflow.estimator.estimator"),
    "estimator.export.export": ("sparkflow.estimator.export",),
    "estimator.export.export_output": ("sparkflow.estimator.export",),
    "estimator.inputs.numpy_io": ("sparkflow.estimator.inputs",),
    "estimator.inputs.pandas_io": ("sparkflow.estimator.inputs",),
    "estimator.model_fn": ("sparkflow.estimator",),
    "estimator.run_config": ("sparkflow.estimator",),
    "estimator.training": ("sparkflow.estimator",),
    "estimator.util": (_SIGNATURES,),
    "feature_column.feature_column": (_COLUMNS, f"{_COLUMNS}.base", f"{_COLUMNS}.embedding"),
    "feature_column.feature_column_lib": (_COLUMNS,),
    "feature_column.feature_column_v2": (_COLUMNS, f"{_COLUMNS}.base", f"{_COLUMNS}.embedding"),
    "framework.common_shapes": ("sparkflow.framework.shapes", _TF),
    "framework.constant_op": (_TF,),
    "framework.device_spec": (_TF,),
    "framework.dtypes": (_TF,),
    "framework.errors": ("sparkflow.errors",),
    "framework.errors_impl": ("sparkflow.errors",),
    "framework.function": ("sparkflow.grads.defun",),
    "framework.graph_io": (_TRAIN,),
    "framework.graph_util": ("sparkflow.graph_util",),
    "framework.graph_util_impl": ("sparkflow.graph_util",),
    "framework.importer": (_TF,),
    "framework.indexed_slices": (_TF,),
    "framework.meta_graph": (_TRAIN,),
    "framework.ops": (_TF, "sparkflow.framework.conversions", "sparkflow.framework.collection_protos", _INTERNALS),
    "framework.random_seed": (_TF,),
    "framework.sparse_tensor": (_TF, "sparkflow.framework.conversions"),
    "framework.tensor_shape": (_TF, "sparkflow.framework.shapes", _INTERNALS),
    "framework.tensor_spec": ("sparkflow.framework.tensor_spec",),
    "framework.tensor_util": (_TF, "sparkflow.framework.constant_value"),
    "framework.test_util": ("sparkflow.test",),
    "framework.versions": ("sparkflow.version",),
    "keras.activations": ("sparkflow.keras.activations",),
    "keras.backend": ("sparkflow.keras.backend",),
    "keras.engine.input_spec": ("sparkflow.layers",),
    "keras.initializers": ("sparkflow.keras.initializers",),
    "keras.regularizers": ("sparkflow.keras.regularizers",),
    "keras.utils": ("sparkflow.keras.utils",),
    "keras.utils.tf_utils": ("sparkflow.keras.utils", _INTERNALS),
    "layers.base": ("sparkflow.layers",),
    "layers.convolutional": ("sparkflow.layers", "sparkflow.layers.long_names"),
    "layers.core": ("sparkflow.layers",),
    "layers.layers": ("sparkflow.layers",),
    "layers.normalization": ("sparkflow.layers",),
    "layers.pooling": ("sparkflow.layers",),
    "layers.utils": ("sparkflow.layers.utils", "sparkflow.contrib.framework", "sparkflow.ops.control_flow_cond"),
    "lib.io.file_io": ("sparkflow.files", "sparkflow.gfile", _INTERNALS),
    "lib.io.tf_record": ("sparkflow.python_io",),
    "ops.array_ops": (*_OPS, "sparkflow.ops.array_internal"),
    "ops.bitwise_ops": ("sparkflow.bitwise",),
    "ops.candidate_sampling_ops": (_NN,),
    "ops.check_ops": _OPS,
    "ops.clip_ops": _OPS,
    "ops.confusion_matrix": _OPS,
    "ops.control_flow_ops": (_TF, "sparkflow.ops.control_flow"),
    "ops.control_flow_util": ("sparkflow.ops.control_flow_context",),
    "ops.ctc_ops": (_NN,),
    "ops.custom_gradient": (_TF,),
    "ops.data_flow_ops": _OPS,
    "ops.distributions.bernoulli": (_DISTRIBUTIONS,),
    "ops.distributions.categorical": (_DISTRIBUTIONS,),
    "ops.distributions.distribution": (_DISTRIBUTIONS,),
    "ops.distributions.distributions": (_DISTRIBUTIONS,),
    "ops.distributions.kullback_leibler": (_DISTRIBUTIONS, f"{_DISTRIBUTIONS}.divergence"),
    "ops.distributions.normal": (_DISTRIBUTIONS,),
    "ops.embedding_ops": _OPS,
    "ops.functional_ops": _OPS,
    "ops.gen_array_ops": (*_OPS, _GENERATED),
    "ops.gen_control_flow_ops": (_GENERATED,),
    "ops.gen_ctc_ops": (_GENERATED,),
    "ops.gen_data_flow_ops": (_GENERATED,),
    "ops.gen_image_ops": (_GENERATED,),
    "ops.gen_io_ops": (_GENERATED,),
    "ops.gen_linalg_ops": (_GENERATED,),
    "ops.gen_math_ops": (*_OPS, _GENERATED),
    "ops.gen_nn_ops": (*_OPS, _GENERATED),
    "ops.gen_parsing_ops": (_GENERATED,),
    "ops.gen_random_ops": (_GENERATED,),
    "ops.gen_sparse_ops": (_GENERATED,),
    "ops.gen_state_ops": (_GENERATED,),
    "ops.gen_string_ops": (_GENERATED,),
    "ops.gen_training_ops": (_GENERATED,),
    "ops.gradient_checker": ("sparkflow.test",),
    "ops.gradients": _OPS,
    "ops.gradients_impl": _OPS,
    "ops.histogram_ops": _OPS,
    "ops.image_ops": ("sparkflow.image",),
    "ops.image_ops_impl": ("sparkflow.image",),
    "ops.init_ops": (_TF, "sparkflow.initializers", "sparkflow.ops.init_ops"),
    "ops.io_ops": (_TF, "sparkflow.io", "sparkflow.ops.io"),
    "ops.linalg.linalg": ("sparkflow.linalg",),
    "ops.linalg.linear_operator": ("sparkflow.linalg",),
    "ops.linalg.linear_operator_diag": ("sparkflow.linalg",),
    "ops.linalg.linear_operator_full_matrix": ("sparkflow.linalg",),
    "ops.linalg.linear_operator_identity": ("sparkflow.linalg",),
    "ops.linalg.linear_operator_lower_triangular": ("sparkflow.linalg",),
    "ops.linalg_impl": ("sparkflow.linalg",),
    "ops.linalg_ops": _OPS,
    "ops.logging_ops": _OPS,
    "ops.lookup_ops": ("sparkflow.lookup", _TF, "sparkflow.contrib.lookup"),
    "ops.losses.losses": ("sparkflow.losses",),
    "ops.losses.losses_impl": ("sparkflow.losses",),
    "ops.losses.util": ("sparkflow.losses",),
    "ops.manip_ops": ("sparkflow.manip",),
    "ops.map_fn": _OPS,
    "ops.math_ops": _OPS,
    "ops.metrics": ("sparkflow.metrics",),
    "ops.metrics_impl": ("sparkflow.metrics",),
    "ops.nn": _OPS[2:] + _OPS[:2],
    "ops.nn_impl": _OPS[2:] + _OPS[:2],
    "ops.nn_ops": _OPS[2:] + _OPS[:2],
    "ops.numerics": _OPS,
    "ops.op_selector": ("sparkflow.contrib.graph_editor",),
    "ops.parsing_ops": (_TF, "sparkflow.io"),
    "ops.partitioned_variables": (_TF,),
    "ops.ragged.ragged_factory_ops": ("sparkflow.ragged",),
    "ops.ragged.ragged_tensor": (_TF, "sparkflow.ragged"),
    "ops.random_ops": _OPS,
    "ops.resource_variable_ops": (_TF, _INTERNALS),
    "ops.rnn": (_NN, _INTERNALS),
    "ops.rnn_cell": ("sparkflow.ops.rnn_cell", "sparkflow.ops.rnn_wrappers", "sparkflow.contrib.linear", _INTERNALS),
    "ops.rnn_cell_impl": (
        "sparkflow.ops.rnn_cell",
        "sparkflow.ops.rnn_wrappers",
        "sparkflow.contrib.linear",
        _INTERNALS,
    ),
    "ops.script_ops": _OPS,
    "ops.sets": ("sparkflow.sets",),
    "ops.sets_impl": ("sparkflow.sets",),
    "ops.signal.signal": ("sparkflow.signal",),
    "ops.sparse_ops": _OPS,
    "ops.special_math_ops": _OPS,
    "ops.spectral_ops": ("sparkflow.spectral", "sparkflow.signal"),
    "ops.standard_ops": _OPS,
    "ops.state_ops": _OPS,
    "ops.stateless_random_ops": ("sparkflow.random",),
    "ops.string_ops": _OPS,
    "ops.summary_ops": ("sparkflow.summary",),
    "ops.template": _OPS,
    "ops.tensor_array_ops": _OPS,
    "ops.variable_scope": (*_OPS, "sparkflow.ops.variables"),
    "ops.variables": (_TF, "sparkflow.ops.variables", "sparkflow.ops.partitioned_variables"),
    "ops.weights_broadcast_ops": ("sparkflow.losses.weighted",),
    "platform.app": ("sparkflow.app",),
    "platform.flags": ("sparkflow.flags",),
    "platform.gfile": ("sparkflow.gfile",),
    "platform.googletest": ("sparkflow.test",),
    "platform.resource_loader": ("sparkflow.resource_loader",),
    "platform.test": ("sparkflow.test",),
    "platform.tf_logging": ("sparkflow.logging",),
    "pywrap_tensorflow": (_TRAIN,),
    "saved_model.builder": ("sparkflow.saved_model.builder",),
    "saved_model.builder_impl": ("sparkflow.saved_model.builder",),
    "saved_model.constants": ("sparkflow.saved_model.constants",),
    "saved_model.loader": ("sparkflow.saved_model.loader",),
    "saved_model.loader_impl": ("sparkflow.saved_model.loader",),
    "saved_model.main_op": ("sparkflow.saved_model.main_op",),
    "saved_model.signature_constants": ("sparkflow.saved_model.signature_constants",),
    "saved_model.signature_def_utils": ("sparkflow.saved_model.signature_def_utils",),
    "saved_model.signature_def_utils_impl": ("sparkflow.saved_model.signature_def_utils",),
    "saved_model.tag_constants": ("sparkflow.saved_model.tag_constants",),
    "saved_model.utils": ("sparkflow.saved_model.utils",),
    "summary.summary": ("sparkflow.summary",),
    "summary.summary_iterator": (_TRAIN,),
    "summary.writer.writer": ("sparkflow.summary",),
    "summary.writer.writer_cache": ("sparkflow.summary",),
    "tf2": (_INTERNALS,),
    "tools.freeze_graph": ("sparkflow.tools",),
    "tools.inspect_checkpoint": ("sparkflow.tools",),
    "tools.optimize_for_inference_lib": ("sparkflow.tools",),
    "tpu.ops.tpu_ops": ("sparkflow.tpu",),
    "tpu.tpu_config": ("sparkflow.estimator.tpu",),
    "tpu.tpu_estimator": ("sparkflow.estimator.tpu",),
    "tpu.tpu_function": ("sparkflow.tpu",),
    "tpu.tpu_optimizer": ("sparkflow.tpu",),
    "training.adadelta": (_TRAIN,),
    "training.adagrad": (_TRAIN,),
    "training.adam": (_TRAIN,),
    "training.basic_session_run_hooks": (_TRAIN,),
    "training.checkpoint_management": (_TRAIN,),
    "training.checkpoint_utils": (_TRAIN,),
    "training.coordinator": (_TRAIN,),
    "training.device_setter": (_TRAIN,),
    "training.evaluation": ("sparkflow.contrib.evaluation",),
    "training.ftrl": (_TRAIN,),
    "training.gradient_descent": (_TRAIN,),
    "training.input": (_TRAIN,),
    "training.learning_rate_decay": (_TRAIN,),
    "training.momentum": (_TRAIN,),
    "training.monitored_session": (_TRAIN, "sparkflow.train.hooked_session"),
    "training.moving_averages": ("sparkflow.train.moving_averages", _TRAIN),
    "training.optimizer": ("sparkflow.train.optimizer", _TRAIN),
    "training.proximal_adagrad": (_TRAIN,),
    "training.proximal_gradient_descent": (_TRAIN,),
    "training.queue_runner": (_TRAIN,),
    "training.queue_runner_impl": (_TRAIN,),
    "training.rmsprop": (_TRAIN,),
    "training.saver": (_TRAIN,),
    "training.server_lib": (_TRAIN,),
    "training.session_manager": (_TRAIN,),
    "training.session_run_hook": (_TRAIN,),
    "training.slot_creator": ("sparkflow.train.slots",),
    "training.summary_io": (_TRAIN,),
    "training.supervisor": (_TRAIN,),
    "training.sync_replicas_optimizer": (_TRAIN,),
    "training.training": (_TRAIN,),
    "training.training_ops": (_GENERATED,),
    "training.training_util": (_TRAIN,),
    "training.warm_starting_util": (_TRAIN,),
    "util.all_util": (_SIGNATURES,),
    "util.compat": ("sparkflow.compat",),
    "util.deprecation": ("sparkflow.deprecation",),
    "util.function_utils": (_SIGNATURES,),
    "util.nest": ("sparkflow.contrib.nest",),
    "util.tf_contextlib": ("contextlib",),
    "util.tf_decorator": (_SIGNATURES,),
    "util.tf_export": (_SIGNATURES,),
    "util.tf_inspect": (_SIGNATURES, "inspect"),
}


def _finder(name: str, homes: Sequence[str]) -> Callable[[str], Any]:
    def find(attribute: str) -> Any:
        if not attribute.startswith("__"):
            for home in homes:
                try:
                    return getattr(import_module(home), attribute)
                except (AttributeError, ImportError):
                    continue
            beside = sys.modules.get(f"{name.rpartition('.')[0]}.{attribute}")  # files import one another
            if beside is not None:
                return beside
        raise AttributeError(f"{name} has no {attribute!r} here; it has the names of {', '.join(homes)}")

    return find


def module(root: str, path: str, homes: Sequence[str] = ()) -> ModuleType:
    """The module <root>.<path>, made once, with the names of `homes`, and the folders above it."""
    name = f"{root}.{path}"
    made = sys.modules.get(name)
    if made is None:
        made = sys.modules[name] = ModuleType(name, f"The names of {', '.join(homes)}." if homes else "A folder.")
        vars(made)["__path__"] = []
        above, _, last = path.rpartition(".")
        setattr(module(root, above) if above else sys.modules[root], last, made)
    if homes:
        vars(made)["__getattr__"] = _finder(name, homes)
    return made


for _path, _homes in HOMES.items():
    module(__name__, _path, _homes)
