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

# module of tensorflow.python -> the public modules that have its names, the first that has one first
HOMES: dict[str, Sequence[str]] = {
    "client.device_lib": ("sparkflow.session.device_lib",),
    "client.session": (_TF,),
    "client.timeline": ("sparkflow.session.timeline",),
    "data.ops.dataset_ops": ("sparkflow.data",),
    "data.ops.iterator_ops": ("sparkflow.data",),
    "data.ops.readers": ("sparkflow.data",),
    "eager.context": ("sparkflow.contrib.eager",),
    "framework.constant_op": (_TF,),
    "framework.dtypes": (_TF,),
    "framework.errors": ("sparkflow.errors",),
    "framework.errors_impl": ("sparkflow.errors",),
    "framework.graph_util": ("sparkflow.graph_util",),
    "framework.importer": (_TF,),
    "framework.ops": (_TF, "sparkflow.framework.conversions"),
    "framework.random_seed": (_TF,),
    "framework.sparse_tensor": (_TF, "sparkflow.framework.conversions"),
    "framework.tensor_shape": (_TF, "sparkflow.framework.shapes"),
    "framework.tensor_util": (_TF, "sparkflow.framework.constant_value"),
    "framework.test_util": ("sparkflow.test",),
    "layers.base": ("sparkflow.layers",),
    "layers.convolutional": ("sparkflow.layers", "sparkflow.layers.long_names"),
    "layers.core": ("sparkflow.layers",),
    "layers.layers": ("sparkflow.layers",),
    "layers.utils": ("sparkflow.contrib.framework", "sparkflow.ops.control_flow_cond"),
    "layers.normalization": ("sparkflow.layers",),
    "layers.pooling": ("sparkflow.layers",),
    "lib.io.file_io": ("sparkflow.files", "sparkflow.gfile"),
    "lib.io.tf_record": ("sparkflow.python_io",),
    "ops.array_ops": _OPS,
    "ops.candidate_sampling_ops": (_NN,),
    "ops.check_ops": _OPS,
    "ops.clip_ops": _OPS,
    "ops.confusion_matrix": _OPS,
    "ops.control_flow_ops": (_TF, "sparkflow.ops.control_flow"),
    "ops.ctc_ops": (_NN,),
    "ops.custom_gradient": (_TF,),
    "ops.data_flow_ops": _OPS,
    "ops.embedding_ops": _OPS,
    "ops.functional_ops": _OPS,
    "ops.gen_array_ops": _OPS,
    "ops.gen_math_ops": _OPS,
    "ops.gen_nn_ops": _OPS,
    "ops.gradients": _OPS,
    "ops.gradients_impl": _OPS,
    "ops.gradient_checker": ("sparkflow.test",),
    "ops.histogram_ops": _OPS,
    "ops.image_ops": ("sparkflow.image",),
    "ops.image_ops_impl": ("sparkflow.image",),
    "ops.init_ops": (_TF, "sparkflow.initializers"),
    "ops.io_ops": (_TF, "sparkflow.io"),
    "ops.linalg_ops": _OPS,
    "ops.logging_ops": _OPS,
    "ops.lookup_ops": ("sparkflow.lookup", _TF, "sparkflow.contrib.lookup"),
    "ops.losses.losses": ("sparkflow.losses",),
    "ops.losses.util": ("sparkflow.losses",),
    "ops.map_fn": _OPS,
    "ops.math_ops": _OPS,
    "ops.metrics": ("sparkflow.metrics",),
    "ops.metrics_impl": ("sparkflow.metrics",),
    "ops.nn": _OPS[2:] + _OPS[:2],
    "ops.nn_impl": _OPS[2:] + _OPS[:2],
    "ops.nn_ops": _OPS[2:] + _OPS[:2],
    "ops.parsing_ops": (_TF, "sparkflow.io"),
    "ops.partitioned_variables": (_TF,),
    "ops.random_ops": _OPS,
    "ops.rnn": (_NN,),
    "ops.rnn_cell": ("sparkflow.rnn_cell",),
    "ops.rnn_cell_impl": ("sparkflow.rnn_cell",),
    "ops.script_ops": _OPS,
    "ops.sparse_ops": _OPS,
    "ops.standard_ops": _OPS,
    "ops.state_ops": _OPS,
    "ops.string_ops": _OPS,
    "ops.summary_ops": ("sparkflow.summary",),
    "ops.template": _OPS,
    "ops.tensor_array_ops": _OPS,
    "ops.variable_scope": (*_OPS, "sparkflow.ops.variables"),
    "ops.variables": (_TF, "sparkflow.ops.variables", "sparkflow.ops.partitioned_variables"),
    "platform.app": ("sparkflow.app",),
    "platform.flags": ("sparkflow.flags",),
    "platform.gfile": ("sparkflow.gfile",),
    "platform.test": ("sparkflow.test",),
    "platform.tf_logging": ("sparkflow.logging",),
    "pywrap_tensorflow": (_TRAIN,),
    "saved_model.builder": ("sparkflow.saved_model.builder",),
    "saved_model.loader": ("sparkflow.saved_model.loader",),
    "saved_model.signature_constants": ("sparkflow.saved_model.signature_constants",),
    "saved_model.signature_def_utils": ("sparkflow.saved_model.signature_def_utils",),
    "saved_model.tag_constants": ("sparkflow.saved_model.tag_constants",),
    "saved_model.utils": ("sparkflow.saved_model.utils",),
    "summary.summary": ("sparkflow.summary",),
    "summary.summary_iterator": (_TRAIN,),
    "training.adagrad": (_TRAIN,),
    "training.adam": (_TRAIN,),
    "training.basic_session_run_hooks": (_TRAIN,),
    "training.checkpoint_management": (_TRAIN,),
    "training.checkpoint_utils": (_TRAIN,),
    "training.coordinator": (_TRAIN,),
    "training.device_setter": (_TRAIN,),
    "training.ftrl": (_TRAIN,),
    "training.gradient_descent": (_TRAIN,),
    "training.input": (_TRAIN,),
    "training.learning_rate_decay": (_TRAIN,),
    "training.momentum": (_TRAIN,),
    "training.monitored_session": (_TRAIN,),
    "training.moving_averages": ("sparkflow.train.moving_averages", _TRAIN),
    "training.optimizer": ("sparkflow.train.optimizer", _TRAIN),
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
    "training.training_util": (_TRAIN,),
    "util.compat": ("sparkflow.compat",),
    "util.nest": ("sparkflow.contrib.nest",),
    "util.tf_contextlib": ("contextlib",),
    "util.tf_inspect": ("inspect",),
}


def _finder(name: str, homes: Sequence[str]) -> Callable[[str], Any]:
    def find(attribute: str) -> Any:
        if not attribute.startswith("__"):
            for home in homes:
                try:
                    return getattr(import_module(home), attribute)
                except (AttributeError, ImportError):
                    continue
        raise AttributeError(f"{name} has no {attribute!r} here; it has the names of {', '.join(homes)}")

    return find


def _module(path: str, homes: Sequence[str] = ()) -> ModuleType:
    """The module sparkflow.python.<path>, made once, and the folders above it."""
    name = f"{__name__}.{path}"
    made = sys.modules.get(name)
    if made is None:
        made = sys.modules[name] = ModuleType(name, f"The names of {', '.join(homes)}." if homes else "A folder.")
        vars(made)["__path__"] = []
        above, _, last = path.rpartition(".")
        setattr(_module(above) if above else sys.modules[__name__], last, made)
    if homes:
        vars(made)["__getattr__"] = _finder(name, homes)
    return made


for _path, _homes in HOMES.items():
    _module(_path, _homes)
