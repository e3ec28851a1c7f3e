"""sparkflow: TensorFlow-1 graphs, trained inside the Spark or Dask cluster that holds the data.

`import sparkflow as tf`: the names are tf.compat.v1's. `tf.spark`, `tf.dask` and `tf.local` train in a cluster.
"""

from __future__ import annotations

import sys as _sys
from contextlib import ExitStack as _ExitStack
from importlib import import_module
from importlib.util import find_spec as _find_spec
from typing import Any

from sparkflow_runtime.wire.collector import paused as _paused

_importing = _ExitStack()  # an import that fails closes it too, with its last reference
_importing.enter_context(_paused(for_good=True))

from sparkflow import (
    audio,
    bitwise,
    debugging,
    distribute,
    errors,
    image,
    initializers,
    layers,
    linalg,
    logging,
    lookup,
    losses,
    math,
    metrics,
    nn,
    quantization,
    queue,
    random,
    sets,
    signal,
    sparse,
    spectral,
    strings,
    summary,
    train,
)
from sparkflow.framework.apply import constant, convert_to_tensor
from sparkflow.framework.device_spec import DeviceSpec
from sparkflow.framework.graph import Graph, Operation, Tensor, get_default_graph, reset_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.importer import import_graph_def
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.random_seed import get_seed, set_random_seed
from sparkflow.framework.scopes import (
    add_to_collection,
    add_to_collections,
    colocate_with,
    container,
    control_dependencies,
    device,
    get_collection,
    get_collection_ref,
    name_scope,
)
from sparkflow.framework.shapes import Dimension, TensorShape
from sparkflow.grads.gradients import gradients
from sparkflow.ops import barriers as _barriers  # its rows; tensorflow.python.ops.data_flow_ops has its name
from sparkflow.ops import dataset_import as _dataset_import
from sparkflow.ops import functional_import as _functional_import
from sparkflow.ops import imported_loops as _imported_loops
from sparkflow.ops import messages as _messages
from sparkflow.ops import newer_import as _newer_import
from sparkflow.ops import older_import as _older_import
from sparkflow.ops import staging as _staging  # its rows; tf.contrib.staging has its name
from sparkflow.ops.accumulators import ConditionalAccumulator, ConditionalAccumulatorBase, SparseConditionalAccumulator
from sparkflow.ops.array import (
    broadcast_to,
    expand_dims,
    fill,
    identity,
    identity_n,
    invert_permutation,
    ones,
    ones_like,
    pad,
    placeholder,
    placeholder_with_default,
    rank,
    reshape,
    reverse,
    reverse_v2,
    shape,
    size,
    squeeze,
    stop_gradient,
    tile,
    transpose,
    zeros,
    zeros_like,
)
from sparkflow.ops.array_join import concat, dynamic_partition, dynamic_stitch, meshgrid, split, stack, unstack
from sparkflow.ops.array_select import one_hot, setdiff1d, unique, unique_with_counts, where
from sparkflow.ops.array_slice import boolean_mask, gather, gather_nd, reverse_sequence, scatter_nd, strided_slice
from sparkflow.ops.array_slice import slice_ as slice
from sparkflow.ops.broadcasting import broadcast_dynamic_shape
from sparkflow.ops.clip import clip_by_global_norm, clip_by_norm, clip_by_value, global_norm
from sparkflow.ops.control_flow import Assert, Print, check_numerics, group, no_op, tuple
from sparkflow.ops.control_flow_cond import case, cond
from sparkflow.ops.control_flow_while import while_loop
from sparkflow.ops.data_flow import FIFOQueue, PaddingFIFOQueue, PriorityQueue, QueueBase, RandomShuffleQueue
from sparkflow.ops.files import matching_files, read_file, write_file
from sparkflow.ops.functional import foldl, foldr, map_fn, scan, vectorized_map
from sparkflow.ops.init_ops import (
    constant_initializer,
    glorot_normal_initializer,
    glorot_uniform_initializer,
    ones_initializer,
    random_normal_initializer,
    random_uniform_initializer,
    truncated_normal_initializer,
    variance_scaling_initializer,
    zeros_initializer,
)
from sparkflow.ops.math import (
    abs,
    accumulate_n,
    add,
    add_n,
    cast,
    ceil,
    conj,
    cos,
    div,
    div_no_nan,
    divide,
    equal,
    erf,
    exp,
    expm1,
    floor,
    floor_div,
    floordiv,
    floormod,
    greater,
    greater_equal,
    is_finite,
    is_inf,
    is_nan,
    less,
    less_equal,
    lin_space,
    linspace,
    log,
    log1p,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    matmul,
    maximum,
    minimum,
    mod,
    multiply,
    negative,
    not_equal,
    pow,
    range,
    real_div,
    realdiv,
    reciprocal,
    rint,
    round,
    rsqrt,
    saturate_cast,
    sigmoid,
    sign,
    sin,
    sparse_matmul,
    sqrt,
    square,
    squared_difference,
    subtract,
    tanh,
    to_bfloat16,
    to_double,
    to_float,
    to_int32,
    to_int64,
    truediv,
    truncatediv,
)
from sparkflow.ops.math_reduce import (
    arg_max,
    arg_min,
    argmax,
    argmin,
    cumprod,
    cumsum,
    reduce_all,
    reduce_any,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
    segment_sum,
    unsorted_segment_sum,
)
from sparkflow.ops.partitioned_variables import (
    fixed_size_partitioner,
    min_max_variable_partitioner,
    variable_axis_size_partitioner,
)
from sparkflow.ops.random import random_normal, random_shuffle, random_uniform, truncated_normal
from sparkflow.ops.readers import (
    FixedLengthRecordReader,
    IdentityReader,
    ReaderBase,
    TextLineReader,
    TFRecordReader,
    WholeFileReader,
)
from sparkflow.ops.resource_variables import (
    disable_resource_variables,
    enable_resource_variables,
    resource_variables_enabled,
)
from sparkflow.ops.state import (
    assign,
    assign_add,
    assign_sub,
    count_up_to,
    scatter_add,
    scatter_div,
    scatter_max,
    scatter_min,
    scatter_mul,
    scatter_sub,
    scatter_update,
)
from sparkflow.ops.tensor_array import TensorArray
from sparkflow.ops.variable_creators import variable_creator_scope
from sparkflow.ops.variable_reports import assert_variables_initialized, report_uninitialized_variables
from sparkflow.ops.variable_scope import (
    AUTO_REUSE,
    VariableScope,
    create_partitioned_variables,
    get_local_variable,
    get_variable,
    get_variable_scope,
    no_regularizer,
    variable_scope,
)
from sparkflow.ops.variables import (
    Variable,
    all_variables,
    global_variables,
    global_variables_initializer,
    initialize_all_variables,
    initialize_local_variables,
    initialize_variables,
    is_variable_initialized,
    local_variables,
    local_variables_initializer,
    model_variables,
    moving_average_variables,
    trainable_variables,
    variables_initializer,
)
from sparkflow.session.session import InteractiveSession, Session, get_default_session
from sparkflow.top_level import *
from sparkflow_runtime.wire.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    complex64,
    complex128,
    double,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    qint8,
    qint16,
    qint32,
    quint8,
    quint16,
    resource,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
    variant,
)
from sparkflow_runtime.wire.dtypes import bool_ as bool
from sparkflow_runtime.wire.errors import OpError
from sparkflow_runtime.wire.protos import (
    ConfigProto,
    GPUOptions,
    GraphDef,
    GraphOptions,
    MetaGraphDef,
    NodeDef,
    RunMetadata,
    RunOptions,
    Summary,
)

_importing.close()

# The first are off anyhow. If and While nodes are ways of running what is run here.
_SWITCHES = (
    *("disable_eager_execution", "disable_v2_behavior", "disable_v2_tensorshape", "disable_tensor_equality"),
    *("enable_control_flow_v2", "disable_control_flow_v2"),
)
_EAGER = ("enable_eager_execution", "executing_eagerly")
_CONNECTORS = {"dask": "distributed", "local": "pyarrow", "spark": "pyspark"}  # and what there must be for it
_LAZY = (
    "app",
    "autograph",
    "compat",
    "config",
    "contrib",
    "core",
    "data",
    "distributions",
    "dtypes",
    "estimator",
    "examples",
    "experimental",
    "feature_column",
    "flags",
    "gfile",
    "keras",
    "graph_util",
    "io",
    "manip",
    "mixed_precision",
    "python",
    "python_io",
    "profiler",
    "ragged",
    "raw_ops",
    "resource_loader",
    "saved_model",
    "sysconfig",
    "test",
    "tpu",
    "version",
    "xla",
)  # what few programs use


def __getattr__(name: str) -> Any:
    """`tf.spark`, `tf.dask` and `tf.local` are the connectors, loaded when they are first named."""
    if name in _LAZY:
        return import_module(f"sparkflow.{name}")
    if name in _CONNECTORS:
        return _connector(name)
    if name == "install_as_tensorflow":
        return import_module("sparkflow.stand_in").install_as_tensorflow
    if name == "__version__":
        return import_module("sparkflow.version").VERSION
    if name == "__all__":  # of `from sparkflow import *`
        return sorted({n for n in globals() if not n.startswith("_")} | {*_LAZY, *_SWITCHES, *_EAGER})
    if name in _SWITCHES:
        return lambda: None  # there is nothing to switch
    if name in _EAGER:
        return getattr(import_module("sparkflow.contrib.eager"), name)
    for names in ("late_names", "old_names"):
        found = import_module(f"sparkflow.{names}").find(name)
        if found is not None:
            return found
    raise AttributeError(f"module 'sparkflow' has no attribute {name!r}")


def _connector(name: str) -> Any:
    try:
        return import_module(f"sparkflow_connectors.{name}")
    except ModuleNotFoundError as error:
        if name == "local" or error.name is None or error.name.startswith("sparkflow"):
            raise
        text = f"tf.{name} needs the package {error.name!r}, which {_sys.executable} has not ({error}): install "
        raise ModuleNotFoundError(
            f"{text}sparkflow with its extra {name!r}, as by pip install '/path/to/checkout[{name}]'", name=error.name
        ) from error


def __dir__() -> list[str]:
    """What a notebook completes: also what is loaded when it is first named."""
    connectors = (name for name, needed in _CONNECTORS.items() if _find_spec(needed) is not None)
    late = import_module("sparkflow.late_names").LATE_NAMES
    return sorted({*globals(), *_LAZY, *connectors, *late, "install_as_tensorflow"})
