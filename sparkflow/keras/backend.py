"""tf.keras.backend: functions of tensors by Keras' names, for losses, metrics and graphs that are written with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow.framework import graph as graphs
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.grads.gradients import gradients as _gradients
from sparkflow.keras import beginnings, learning, nets, recurrence, settings
from sparkflow.keras.backend_more import (  # noqa: F401 - names of tf.keras.backend
    arange,
    cast_to_floatx,
    constant,
    conv2d_transpose,
    conv3d,
    count_params,
    ctc_batch_cost,
    ctc_decode,
    ctc_label_dense_to_sparse,
    depthwise_conv2d,
    eye,
    foldl,
    foldr,
    function,
    get_graph,
    in_top_k,
    manual_variable_initialization,
    map_fn,
    moving_average_update,
    normalize_batch_in_training,
    pool3d,
    print_tensor,
    random_normal_variable,
    random_uniform_variable,
    reset_uids,
    resize_images,
    reverse,
    separable_conv2d,
    spatial_3d_padding,
    to_dense,
    truncated_normal,
)  # fmt: skip
from sparkflow.keras.calls import numbered
from sparkflow.ops import (
    activations,
    array,
    array_join,
    array_select,
    array_slice,
    math,
    math_reduce,
    nn_loss,
    random,
    variables,
)
from sparkflow.ops.array_join import concat
from sparkflow.ops.clip import clip_by_value
from sparkflow.ops.control_flow_cond import cond
from sparkflow.ops.einsum import einsum
from sparkflow.ops.linalg import tensordot
from sparkflow.ops.nn import l2_normalize as _l2_normalize
from sparkflow.session.session import Session
from sparkflow_runtime.wire.dtypes import as_dtype

abs, exp, sqrt, square, sign, pow = math.abs, math.exp, math.sqrt, math.square, math.sign, math.pow
log, sin, cos, tanh, round = math.log, math.sin, math.cos, math.tanh, math.round
equal, not_equal, maximum, minimum = math.equal, math.not_equal, math.maximum, math.minimum
greater, greater_equal, less, less_equal = math.greater, math.greater_equal, math.less, math.less_equal
elu, relu, softplus, softsign = activations.elu, activations.relu, activations.softplus, activations.softsign
sigmoid, hard_sigmoid, softmax = math.sigmoid, activations.hard_sigmoid, activations.softmax
reshape, transpose, tile, stop_gradient, identity = (
    array.reshape, array.transpose, array.tile, array.stop_gradient, array.identity,
)  # fmt: skip
shape, stack, zeros_like, ones_like = array.shape, array_join.stack, array.zeros_like, array.ones_like
cumsum, cumprod, one_hot, gather = math_reduce.cumsum, math_reduce.cumprod, array_select.one_hot, array_slice.gather

learning_phase, set_learning_phase = learning.learning_phase, learning.set_learning_phase
learning_phase_scope, in_train_phase = learning.learning_phase_scope, learning.in_train_phase
in_test_phase, rnn = learning.in_test_phase, recurrence.rnn
epsilon, set_epsilon, floatx, set_floatx = settings.epsilon, settings.set_epsilon, settings.floatx, settings.set_floatx
image_data_format, set_image_data_format = settings.image_data_format, settings.set_image_data_format
conv1d, conv2d, pool2d, bias_add, batch_normalization = (
    nets.conv1d, nets.conv2d, nets.pool2d, nets.bias_add, nets.batch_normalization,
)  # fmt: skip
dropout, repeat_elements, random_binomial = nets.dropout, nets.repeat_elements, nets.random_binomial
temporal_padding, spatial_2d_padding = nets.temporal_padding, nets.spatial_2d_padding

_session: list[Session] = []


# ---------------------------------------------------------------------- sessions


def get_session() -> Any:
    """The default session, else the one that was set, else one that is made and kept. Variables that Keras made and
    that have no value in it yet are initialized."""
    found = graphs.default_session()
    if found is None:
        if not _session or _session[0].graph is not get_default_graph():
            set_session(Session())
        found = _session[0]
    initialize(found)
    return found


def set_session(session: Any) -> None:
    _session[:] = [session]


def clear_session() -> None:
    """A new default graph, and no session."""
    graphs.reset_default_graph()
    _session.clear()


def eval(x: Any) -> Any:
    return get_session().run(x)


get_value = eval
tracked, initialize = beginnings.tracked, beginnings.initialize


def batch_get_value(tensors: Sequence[Any]) -> list[Any]:
    return get_session().run(list(tensors)) if tensors else []


def batch_set_value(tuples: Sequence[tuple[Any, Any]]) -> None:
    for x, value in tuples:
        set_value(x, value)


def get_uid(prefix: str = "") -> int:
    """How often it was asked for that prefix in this graph."""
    return int(numbered(prefix).rpartition("_")[2])


def name_scope(name: str) -> Any:
    return get_default_graph().name_scope(name)


def is_keras_tensor(x: Any) -> bool:
    """Whether `Input` or a layer made it."""
    return hasattr(x, "_keras_history")


def set_value(x: Any, value: Any) -> None:
    x.load(np.asarray(value, x.dtype.base_dtype.as_numpy_dtype), get_session())


# ---------------------------------------------------------------------- what is made


def _kind(dtype: Any) -> Any:
    return as_dtype(dtype or floatx())


def variable(value: Any, dtype: Any = None, name: str | None = None, constraint: Any = None) -> Any:
    return tracked(variables.Variable(value, dtype=_kind(dtype), name=name, constraint=constraint))


def placeholder(shape: Any = None, ndim: int | None = None, dtype: Any = None, name: str | None = None) -> Tensor:
    dims = [None] * ndim if shape is None and ndim else shape
    return array.placeholder(_kind(dtype), dims, name)


def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    return variable(np.zeros(shape), dtype, name)


def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    return variable(np.ones(shape), dtype, name)


def random_normal(shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None) -> Tensor:
    return random.random_normal(shape, mean, stddev, _kind(dtype), seed)


def random_uniform(shape: Any, minval: float = 0.0, maxval: float = 1.0, dtype: Any = None, seed: Any = None) -> Tensor:
    return random.random_uniform(shape, minval, maxval, _kind(dtype), seed)


def cast(x: Any, dtype: Any) -> Tensor:
    return math.cast(x, dtype)


def int_shape(x: Any) -> tuple[int | None, ...] | None:
    dims = x.get_shape()
    return None if dims.ndims is None else tuple(dims.as_list())


def ndim(x: Any) -> int | None:
    dims = x.get_shape().ndims
    return None if dims is None else int(dims)


def dtype(x: Any) -> str:
    return str(x.dtype.base_dtype.name)


def is_sparse(tensor: Any) -> bool:
    return isinstance(tensor, SparseTensor)


# ---------------------------------------------------------------------- along axes


def _floats(x: Any) -> Tensor:
    x = convert_to_tensor(x)
    return math.cast(x, floatx()) if x.dtype.base_dtype.name == "bool" else x


def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    return math_reduce.reduce_sum(x, axis, keepdims)


def prod(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    return math_reduce.reduce_prod(x, axis, keepdims)


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Of booleans, the share of what is true."""
    return math_reduce.reduce_mean(_floats(x), axis, keepdims)


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    return math_reduce.reduce_max(x, axis, keepdims)


def min(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    return math_reduce.reduce_min(x, axis, keepdims)


def any(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    return math_reduce.reduce_any(math.cast(x, "bool"), axis, keepdims)


def all(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    return math_reduce.reduce_all(math.cast(x, "bool"), axis, keepdims)


def var(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    x = _floats(x)
    return mean(math.square(x - mean(x, axis, True)), axis, keepdims)


def std(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    return math.sqrt(var(x, axis, keepdims))


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    return math_reduce.reduce_logsumexp(x, axis, keepdims)


def argmax(x: Any, axis: int = -1) -> Tensor:
    return math_reduce.argmax(x, axis)


def argmin(x: Any, axis: int = -1) -> Tensor:
    return math_reduce.argmin(x, axis)


def l2_normalize(x: Any, axis: Any = None) -> Tensor:
    return _l2_normalize(x, axis)


def clip(x: Any, min_value: Any, max_value: Any) -> Tensor:
    """x within the bounds; a lower one above the upper counts as that."""
    return clip_by_value(x, min_value, np.maximum(min_value, max_value) if np.isscalar(max_value) else max_value)


# ---------------------------------------------------------------------- shapes and products


def expand_dims(x: Any, axis: int = -1) -> Tensor:
    return array.expand_dims(x, axis)


def squeeze(x: Any, axis: int) -> Tensor:
    return array.squeeze(x, [axis])


def flatten(x: Any) -> Tensor:
    return array.reshape(x, [-1])


def batch_flatten(x: Any) -> Tensor:
    """[batch, all the rest]."""
    x = convert_to_tensor(x)
    return array.reshape(x, array_join.stack([-1, math_reduce.reduce_prod(array.shape(x)[1:])]))


def concatenate(tensors: Sequence[Any], axis: int = -1) -> Tensor:
    return concat(list(tensors), axis)


def permute_dimensions(x: Any, pattern: Sequence[int]) -> Tensor:
    return array.transpose(x, pattern)


def repeat(x: Any, n: Any) -> Tensor:
    """[batch, size] -> [batch, n, size]."""
    return array.tile(array.expand_dims(x, 1), array_join.stack([1, n, 1]))


def dot(x: Any, y: Any) -> Tensor:
    """The products of x's last axis with y's last but one (its only one where it is a vector)."""
    x, y = convert_to_tensor(x), convert_to_tensor(y)
    rank = ndim(y) or 2
    return tensordot(x, y, [[-1], [rank - 2 if rank > 1 else 0]])


def batch_dot(x: Any, y: Any, axes: Any = None) -> Tensor:
    """For each row of the batch the products of one axis of x and one of y, by default x's last and y's last but one;
    [batch, 1] where nothing else is left. Raises ValueError on tensors of unknown ranks."""
    x, y = convert_to_tensor(x), convert_to_tensor(y)
    left, right = ndim(x), ndim(y)
    if left is None or right is None:
        raise ValueError(f"batch_dot: the ranks must be known, got {x} and {y}")
    pair = (left - 1, right - 2 if right > 2 else right - 1) if axes is None else axes
    a, b = (pair, pair) if isinstance(pair, int) else pair
    letters = "bijklmnopqrs"
    of_x, of_y = list(letters[:left]), ["b", *letters[left : left + right - 1]]
    of_y[b % right] = of_x[a % left]
    kept = [c for c in of_x + of_y[1:] if c != of_x[a % left]]
    out = einsum(f"{''.join(of_x)},{''.join(of_y)}->{''.join(kept)}", x, y)
    return array.expand_dims(out, 1) if len(kept) == 1 else out


def switch(condition: Any, then_expression: Any, else_expression: Any) -> Tensor:
    """One of two tensors, or of functions that give them; a condition that is no scalar chooses row by row."""
    condition = math.cast(condition, "bool")
    then, other = (e if callable(e) else (lambda e=e: e) for e in (then_expression, else_expression))
    if not ndim(condition):
        return cond(condition, then, other)
    chosen = convert_to_tensor(then())
    for _ in range((ndim(chosen) or 0) - (ndim(condition) or 0)):
        condition = array.expand_dims(condition, -1)
    return array_select.where_v2(condition, chosen, other())


# ---------------------------------------------------------------------- losses and changes


def gradients(loss: Any, variables: Any) -> list[Any]:
    return _gradients(loss, variables)


def _logits_of(output: Any, activation: str) -> Tensor | None:
    """What that op made the output of: the loss of logits has a slope where chances are 0 or 1, too."""
    made = isinstance(output, Tensor) and output.op.type == activation
    return output.op.inputs[0] if made else None


def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Tensor:
    """Of chances, by the logits of what sigmoid gives."""
    logits = output if from_logits else _logits_of(output, "Sigmoid")
    if logits is not None:
        return nn_loss.sigmoid_cross_entropy_with_logits(labels=target, logits=logits)
    output = clip_by_value(output, epsilon(), 1.0 - epsilon())
    return -(target * math.log(output + epsilon()) + (1 - target) * math.log(1 - output + epsilon()))


def categorical_crossentropy(target: Any, output: Any, from_logits: bool = False, axis: int = -1) -> Tensor:
    logits = output if from_logits else _logits_of(output, "Softmax")
    if logits is not None:
        return nn_loss.softmax_cross_entropy_with_logits_v2(labels=target, logits=logits, axis=axis)
    share = output / math_reduce.reduce_sum(output, axis, True)
    return -math_reduce.reduce_sum(target * math.log(clip_by_value(share, epsilon(), 1.0 - epsilon())), axis)


def sparse_categorical_crossentropy(target: Any, output: Any, from_logits: bool = False, axis: int = -1) -> Tensor:
    """target: the class's number. Of the last axis alone."""
    logits = output if from_logits else _logits_of(output, "Softmax")
    if logits is None:
        logits = math.log(clip_by_value(output, epsilon(), 1.0 - epsilon()))
    labels = math.cast(target, "int64")
    if labels._shape is not None and logits._shape is not None and len(labels._shape) == len(logits._shape):
        labels = array.squeeze(labels, [-1])
    return nn_loss.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def update(x: Any, new_x: Any) -> Any:
    return x.assign(new_x)


def update_add(x: Any, increment: Any) -> Any:
    return x.assign_add(increment)


def update_sub(x: Any, decrement: Any) -> Any:
    return x.assign_sub(decrement)
