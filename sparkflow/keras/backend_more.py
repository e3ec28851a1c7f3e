"""More functions of tf.keras.backend: what is run, what is made, and longer compositions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow.framework import shapes
from sparkflow.framework.apply import constant as _constant
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.keras import beginnings, calls, settings
from sparkflow.keras.nets import _layout
from sparkflow.ops import (
    array,
    array_made,
    array_select,
    array_slice,
    control_flow,
    ctc,
    functional,
    image,
    init_named,
    math,
    nn,
    nn_conv,
    nn_conv_depthwise,
    nn_pool,
    operators,  # noqa: F401 - x + y on tensors
    random,
    sparse,
    variables,
)
from sparkflow_runtime.wire.dtypes import as_dtype


class Function:
    """inputs -> what they give, a list: `updates` are run as well. A learning phase is an input like others."""

    def __init__(self, inputs: Sequence[Any], outputs: Any, updates: Sequence[Any] = (), name: str | None = None):
        self.inputs, self.outputs, self._updates = list(inputs), outputs, list(updates)
        self._session: Any = None
        self._done: Any = None

    def __call__(self, inputs: Sequence[Any]) -> Any:
        from sparkflow.keras.backend import get_session

        if len(inputs) != len(self.inputs):
            raise ValueError(f"This function takes {len(self.inputs)} inputs, got {len(inputs)}")
        session = get_session()
        if self._session is not session:
            fed = [(i, x) for i, x in enumerate(self.inputs) if isinstance(x, (Tensor, SparseTensor))]
            self._fed = [i for i, _ in fed]
            if self._updates and self._done is None:
                with session.graph.as_default():
                    made = [x[0].assign(x[1]) if isinstance(x, tuple) else x for x in self._updates]
                    self._done = control_flow.group(*made)
            fetches = [self.outputs, *([self._done] if self._done is not None else [])]
            self._session, self._call = session, session.make_callable(fetches, [x for _, x in fed])
        return self._call(*(inputs[i] for i in self._fed))[0]


def function(inputs: Sequence[Any], outputs: Any, updates: Sequence[Any] | None = None, name: Any = None) -> Function:
    return Function(inputs, outputs, updates or (), name)


def _kind(dtype: Any) -> Any:
    return as_dtype(dtype or settings.floatx())


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = None) -> Tensor:
    return _constant(value, _kind(dtype), shape, name or "Const")


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = "int32") -> Tensor:
    """Without stop, from 0 to start; nothing where that is below 0."""
    if stop is None:
        if isinstance(start, int):
            start = max(start, 0)
        start, stop = 0, start
    return math.cast(math.range(start, stop, step), as_dtype(dtype))


def eye(size: int, dtype: Any = None, name: str | None = None) -> Any:
    return _tracked(variables.Variable(np.eye(size), dtype=_kind(dtype), name=name))


def _tracked(variable: Any) -> Any:
    return beginnings.tracked(variable)


def random_uniform_variable(
    shape: Any, low: float, high: float, dtype: Any = None, name: str | None = None, seed: int | None = None
) -> Any:
    kind = _kind(dtype)
    return _tracked(variables.Variable(lambda: init_named.RandomUniform(low, high, seed)(shape, kind), name=name))


def random_normal_variable(
    shape: Any, mean: float, scale: float, dtype: Any = None, name: str | None = None, seed: int | None = None
) -> Any:
    kind = _kind(dtype)
    return _tracked(variables.Variable(lambda: init_named.RandomNormal(mean, scale, seed)(shape, kind), name=name))


def truncated_normal(shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None) -> Tensor:
    return random.truncated_normal(shape, mean, stddev, _kind(dtype), seed)


def cast_to_floatx(x: Any) -> Any:
    """Arrays stay arrays."""
    if isinstance(x, (Tensor, variables.Variable, SparseTensor)):
        return math.cast(x, settings.floatx())
    return np.asarray(x, dtype=settings.floatx())


def count_params(x: Any) -> int:
    return shapes.product(x.shape.as_list())


def reverse(x: Any, axes: Any) -> Tensor:
    return array.reverse(x, [axes] if isinstance(axes, int) else axes)


def in_top_k(predictions: Any, targets: Any, k: int) -> Tensor:
    return nn.in_top_k(predictions, targets, k)


def print_tensor(x: Any, message: str = "", summarize: int = 3) -> Tensor:
    """x, which is printed when it is computed."""
    return control_flow.Print(x, [x], message, summarize=summarize)


def to_dense(tensor: Any) -> Any:
    return sparse.sparse_tensor_to_dense(tensor) if isinstance(tensor, SparseTensor) else tensor


def map_fn(fn: Callable[..., Any], elems: Any, name: str | None = None, dtype: Any = None) -> Any:
    return functional.map_fn(fn, elems, dtype=dtype, name=name)


def foldl(fn: Callable[..., Any], elems: Any, initializer: Any = None, name: str | None = None) -> Any:
    return functional.foldl(fn, elems, initializer, name=name)


def foldr(fn: Callable[..., Any], elems: Any, initializer: Any = None, name: str | None = None) -> Any:
    return functional.foldr(fn, elems, initializer, name=name)


def moving_average_update(x: Any, value: Any, momentum: Any) -> Any:
    """x = momentum * x + (1 - momentum) * value."""
    return x.assign_sub((x - value) * (1.0 - momentum))


def normalize_batch_in_training(
    x: Any, gamma: Any, beta: Any, reduction_axes: Sequence[int], epsilon: float = 1e-3
) -> tuple[Tensor, Tensor, Tensor]:
    """x normalized by its own mean and variance along reduction_axes, and these two; of images, the variance is that of
    all whom the batch is drawn from (n - 1), as FusedBatchNorm says it."""
    x = convert_to_tensor(x)
    mean, variance = nn.moments(x, list(reduction_axes))
    sizes = [1 if a in reduction_axes else d for a, d in enumerate(x.shape.as_list())]
    spread = lambda v: None if v is None else array.reshape(v, sizes)  # noqa: E731
    out = nn.batch_normalization(x, spread(mean), spread(variance), spread(beta), spread(gamma), epsilon)
    if len(sizes) == 4 and list(reduction_axes) == [0, 1, 2]:
        count = math.cast(array.size(x[..., 0]), variance.dtype.base_dtype)
        variance = variance * count / math.maximum(count - 1.0, 1.0)
    return out, mean, variance


# ---------------------------------------------------------------------- convolutions


def conv2d_transpose(
    x: Any, kernel: Any, output_shape: Any, strides: Any = (1, 1), padding: str = "valid",
    data_format: str | None = None, dilation_rate: Any = (1, 1),
) -> Tensor:  # fmt: skip
    kind = _layout(data_format, 2)
    return nn_conv.conv2d_transpose(
        x, kernel, output_shape, strides, padding.upper(), data_format=kind, dilations=dilation_rate
    )


def conv3d(
    x: Any, kernel: Any, strides: Any = (1, 1, 1), padding: str = "valid", data_format: str | None = None,
    dilation_rate: Any = (1, 1, 1),
) -> Tensor:  # fmt: skip
    kind = _layout(data_format, 3)
    return nn_conv.convolution(
        x, kernel, padding.upper(), strides=list(strides), dilation_rate=list(dilation_rate), data_format=kind
    )


def depthwise_conv2d(
    x: Any, depthwise_kernel: Any, strides: Any = (1, 1), padding: str = "valid", data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Tensor:  # fmt: skip
    kind = _layout(data_format, 2)
    full = [1, 1, *strides] if kind == "NCHW" else [1, *strides, 1]
    return nn_conv_depthwise.depthwise_conv2d(
        x, depthwise_kernel, full, padding.upper(), rate=list(dilation_rate), data_format=kind
    )


def separable_conv2d(
    x: Any, depthwise_kernel: Any, pointwise_kernel: Any, strides: Any = (1, 1), padding: str = "valid",
    data_format: str | None = None, dilation_rate: Any = (1, 1),
) -> Tensor:  # fmt: skip
    kind = _layout(data_format, 2)
    full = [1, 1, *strides] if kind == "NCHW" else [1, *strides, 1]
    return nn_conv_depthwise.separable_conv2d(
        x, depthwise_kernel, pointwise_kernel, full, padding.upper(), rate=list(dilation_rate), data_format=kind
    )


def pool3d(
    x: Any, pool_size: Any, strides: Any = (1, 1, 1), padding: str = "valid", data_format: str | None = None,
    pool_mode: str = "max",
) -> Tensor:  # fmt: skip
    """pool_mode: "max" or "avg". Raises ValueError on another."""
    if pool_mode not in ("max", "avg"):
        raise ValueError(f"Invalid pooling mode: {pool_mode!r}; it is max or avg")
    kind = _layout(data_format, 3)
    return nn_pool.pool(x, pool_size, pool_mode.upper(), padding.upper(), strides=strides, data_format=kind)


def spatial_3d_padding(x: Any, padding: Any = ((1, 1), (1, 1), (1, 1)), data_format: str | None = None) -> Tensor:
    """Zeros around three axes of space."""
    space = [list(p) for p in padding]
    kind = _layout(data_format, 3)
    return array.pad(x, [[0, 0], *space, [0, 0]] if kind[-1] == "C" else [[0, 0], [0, 0], *space])


def resize_images(
    x: Any, height_factor: int, width_factor: int, data_format: str, interpolation: str = "nearest"
) -> Tensor:
    """Each side that many times as long."""
    kind = _layout(data_format, 2)
    x = convert_to_tensor(x)
    if interpolation not in ("nearest", "bilinear"):
        raise ValueError(f"Invalid interpolation: {interpolation!r}; it is nearest or bilinear")
    if kind == "NCHW":
        x = array.transpose(x, [0, 2, 3, 1])
    sizes = array.shape(x)[1:3] * np.array([height_factor, width_factor], np.int32)
    if interpolation == "nearest":
        out = image.resize_nearest_neighbor(x, sizes)
    else:
        out = image.resize_bilinear(x, sizes, half_pixel_centers=True)
    h, w = x.shape.as_list()[1:3]
    out.set_shape([None, None if h is None else h * height_factor, None if w is None else w * width_factor, None])
    return array.transpose(out, [0, 3, 1, 2]) if kind == "NCHW" else out


# ---------------------------------------------------------------------- sequences of labels


def ctc_label_dense_to_sparse(labels: Any, label_lengths: Any) -> SparseTensor:
    """labels [batch, most], of which the first label_lengths count."""
    labels, lengths = convert_to_tensor(labels), convert_to_tensor(label_lengths)
    count = array_made.sequence_mask(lengths, array.shape(labels)[1])
    places = array_select.where(count)
    return SparseTensor(places, array_slice.gather_nd(labels, places), math.cast(array.shape(labels), "int64"))


def ctc_batch_cost(y_true: Any, y_pred: Any, input_length: Any, label_length: Any) -> Tensor:
    """The CTC loss [batch, 1] of shares y_pred [batch, steps, classes], the last of which is blank."""
    lengths = math.cast(array.squeeze(input_length, [-1]), "int32")
    counts = math.cast(array.squeeze(label_length, [-1]), "int32")
    labels = ctc_label_dense_to_sparse(math.cast(y_true, "int32"), counts)
    logs = math.log(array.transpose(y_pred, [1, 0, 2]) + settings.epsilon())
    return array.expand_dims(ctc.ctc_loss(inputs=logs, labels=labels, sequence_length=lengths), 1)


def ctc_decode(
    y_pred: Any, input_length: Any, greedy: bool = True, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[Tensor], Tensor]:
    """The likeliest labels, a list of [batch, steps], -1 behind their ends, and the logarithms of their shares."""
    logs = math.log(array.transpose(y_pred, [1, 0, 2]) + settings.epsilon())
    lengths = math.cast(input_length, "int32")
    if greedy:
        decoded, scores = ctc.ctc_greedy_decoder(logs, lengths)
    else:
        decoded, scores = ctc.ctc_beam_search_decoder(logs, lengths, beam_width, top_paths)
    sizes = math.cast(array.shape(y_pred)[:2], "int64")
    found = [sparse.sparse_to_dense(d.indices, sizes, d.values, -1) for d in decoded]
    return found, scores


def reset_uids() -> None:
    """Names of layers are counted anew."""
    calls._names.pop(get_default_graph(), None)


def manual_variable_initialization(value: bool) -> None:
    """True: `get_session` initializes nothing."""
    beginnings.by_hand = bool(value)


def get_graph() -> Any:
    return get_default_graph()
