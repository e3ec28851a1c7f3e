"""More names of `tf`, by family. `sparkflow/__init__.py` takes them all."""

from tensorboard.compat.proto.event_pb2 import Event, LogMessage, SessionLog
from tensorboard.compat.proto.meta_graph_pb2 import TensorInfo
from tensorboard.compat.proto.summary_pb2 import SummaryMetadata

from sparkflow import version
from sparkflow.framework import nest
from sparkflow.framework.conversions import (
    AggregationMethod,
    VariableAggregation,
    VariableSynchronization,
    convert_to_tensor_or_indexed_slices,
    convert_to_tensor_or_sparse_tensor,
    get_static_value,
    init_scope,
    make_ndarray,
    make_tensor_proto,
    op_scope,
    register_tensor_conversion_function,
)
from sparkflow.framework.sparse_tensor import SparseTensor, SparseTensorValue
from sparkflow.framework.tensor_spec import SparseTensorSpec, TensorSpec, TypeSpec
from sparkflow.grads.custom import custom_gradient, grad_pass_through, hessians, recompute_grad
from sparkflow.grads.gradients import UnconnectedGradients
from sparkflow.grads.registry import gradient as RegisterGradient
from sparkflow.grads.registry import not_differentiable as NotDifferentiable
from sparkflow.logging import get_logger
from sparkflow.ops.array import shape_n
from sparkflow.ops.array_blocks import (
    batch_to_space,
    batch_to_space_nd,
    depth_to_space,
    required_space_to_batch_paddings,
    roll,
    space_to_batch,
    space_to_batch_nd,
    space_to_depth,
)
from sparkflow.ops.array_made import (
    argsort,
    broadcast_static_shape,
    confusion_matrix,
    count_nonzero,
    is_tensor,
    sequence_mask,
    sort,
)
from sparkflow.ops.array_odds import (
    batch_gather,
    decode_compressed,
    fingerprint,
    guarantee_const,
    parallel_stack,
    parse_tensor,
    repeat,
    serialize_tensor,
    timestamp,
)
from sparkflow.ops.array_scatter import (
    batch_scatter_update,
    scatter_nd_add,
    scatter_nd_sub,
    scatter_nd_update,
    tensor_scatter_add,
    tensor_scatter_max,
    tensor_scatter_min,
    tensor_scatter_sub,
    tensor_scatter_update,
)
from sparkflow.ops.array_select import where_v2
from sparkflow.ops.checks import (
    add_check_numerics_ops,
    assert_equal,
    assert_greater,
    assert_greater_equal,
    assert_integer,
    assert_less,
    assert_less_equal,
    assert_near,
    assert_negative,
    assert_non_negative,
    assert_non_positive,
    assert_none_equal,
    assert_positive,
    assert_proper_iterable,
    assert_rank,
    assert_rank_at_least,
    assert_rank_in,
    assert_same_float_dtype,
    assert_scalar,
    assert_type,
    ensure_shape,
    is_non_decreasing,
    is_numeric_tensor,
    is_strictly_increasing,
    verify_tensor_all_finite,
)
from sparkflow.ops.clip import clip_by_average_norm
from sparkflow.ops.control_flow_cond import switch_case
from sparkflow.ops.counts import (
    bincount,
    histogram_fixed_width,
    histogram_fixed_width_bins,
    searchsorted,
    unravel_index,
)
from sparkflow.ops.critical_section import CriticalSection
from sparkflow.ops.ctc import edit_distance
from sparkflow.ops.einsum import einsum
from sparkflow.ops.fourier import fft, fft2d, fft3d, ifft, ifft2d, ifft3d
from sparkflow.ops.image_crops import random_crop
from sparkflow.ops.init_more import orthogonal_initializer, uniform_unit_scaling_initializer
from sparkflow.ops.io import string_join
from sparkflow.ops.linalg import (
    cholesky,
    cholesky_solve,
    cross,
    eye,
    matrix_determinant,
    matrix_inverse,
    matrix_solve,
    matrix_solve_ls,
    matrix_triangular_solve,
    norm,
    qr,
    self_adjoint_eig,
    self_adjoint_eigvals,
    svd,
    tensordot,
    trace,
)
from sparkflow.ops.linalg_functions import matrix_square_root
from sparkflow.ops.linalg_parts import (
    diag,
    diag_part,
    matrix_band_part,
    matrix_diag,
    matrix_diag_part,
    matrix_set_diag,
    matrix_transpose,
)
from sparkflow.ops.lookup_initializers import tables_initializer
from sparkflow.ops.math_special import (
    acos,
    acosh,
    angle,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    betainc,
    bitcast,
    complex,
    cosh,
    digamma,
    erfc,
    igamma,
    igammac,
    imag,
    lbeta,
    lgamma,
    log_sigmoid,
    polygamma,
    real,
    scalar_mul,
    sinh,
    tan,
    to_complex64,
    to_complex128,
    truncatemod,
    zeta,
)
from sparkflow.ops.parsing import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    SparseFeature,
    VarLenFeature,
    decode_csv,
    parse_example,
    parse_single_example,
)
from sparkflow.ops.parsing_sequences import parse_single_sequence_example
from sparkflow.ops.patches import extract_image_patches, extract_volume_patches
from sparkflow.ops.printing import print_ as print
from sparkflow.ops.quantization import (
    fake_quant_with_min_max_args,
    fake_quant_with_min_max_args_gradient,
    fake_quant_with_min_max_vars,
    fake_quant_with_min_max_vars_gradient,
    fake_quant_with_min_max_vars_per_channel,
    fake_quant_with_min_max_vars_per_channel_gradient,
)
from sparkflow.ops.quantized import QUANTIZED as QUANTIZED_DTYPES
from sparkflow.ops.quantized import dequantize, quantize, quantize_v2, quantized_concat
from sparkflow.ops.random_more import multinomial, random_gamma, random_poisson
from sparkflow.ops.script import numpy_function, py_func, py_function
from sparkflow.ops.segments import (
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    sparse_segment_mean,
    sparse_segment_sqrt_n,
    sparse_segment_sum,
    unsorted_segment_max,
    unsorted_segment_mean,
    unsorted_segment_min,
    unsorted_segment_prod,
    unsorted_segment_sqrt_n,
)
from sparkflow.ops.sparse import (
    sparse_concat,
    sparse_fill_empty_rows,
    sparse_mask,
    sparse_merge,
    sparse_placeholder,
    sparse_reorder,
    sparse_reset_shape,
    sparse_reshape,
    sparse_retain,
    sparse_slice,
    sparse_split,
    sparse_tensor_to_dense,
    sparse_to_dense,
    sparse_to_indicator,
    sparse_transpose,
)
from sparkflow.ops.sparse_math import (
    sparse_add,
    sparse_maximum,
    sparse_minimum,
    sparse_reduce_max,
    sparse_reduce_max_sparse,
    sparse_reduce_sum,
    sparse_reduce_sum_sparse,
    sparse_softmax,
    sparse_tensor_dense_matmul,
)
from sparkflow.ops.sparse_serialized import deserialize_many_sparse, serialize_many_sparse, serialize_sparse
from sparkflow.ops.strings import (
    as_string,
    decode_base64,
    decode_raw,
    encode_base64,
    reduce_join,
    regex_replace,
    string_split,
    string_strip,
    string_to_hash_bucket,
    string_to_hash_bucket_fast,
    string_to_hash_bucket_strong,
    string_to_number,
    substr,
)
from sparkflow.ops.strings_unicode import decode_json_example
from sparkflow.ops.template import make_template
from sparkflow.ops.variable_scope import variable_op_scope
from sparkflow.ragged import RaggedTensor
from sparkflow.session_handles import delete_session_tensor, get_session_handle, get_session_tensor
from sparkflow.texts import dimension_at_index, dimension_value
from sparkflow_runtime.wire import protos as _protos

AttrValue, HistogramProto, OptimizerOptions = _protos.AttrValue, _protos.HistogramProto, _protos.OptimizerOptions
VERSION = __git_version__ = version.VERSION
GIT_VERSION, COMPILER_VERSION = version.GIT_VERSION, version.COMPILER_VERSION
GRAPH_DEF_VERSION = version.GRAPH_DEF_VERSION
GRAPH_DEF_VERSION_MIN_CONSUMER, GRAPH_DEF_VERSION_MIN_PRODUCER = 0, 0
NoGradient = no_gradient = NotDifferentiable
initialize_all_tables = tables_initializer
newaxis = None
tensor_scatter_nd_add, tensor_scatter_nd_sub = tensor_scatter_add, tensor_scatter_sub
tensor_scatter_nd_max, tensor_scatter_nd_min = tensor_scatter_max, tensor_scatter_min
tensor_scatter_nd_update = tensor_scatter_update
