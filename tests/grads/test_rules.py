"""Every gradient rule along a random direction, with static shapes known and unknown."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import numpy as np
import pytest

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.registry import registered
from sparkflow.grads import registry
from sparkflow.grads.gradients import gradients
from sparkflow.ops import (
    array,
    array_join,
    array_select,
    array_slice,
    clip,
    control_flow,
    embedding,
    math,
    math_reduce,
    nn,
    nn_loss,
    operators,  # noqa: F401 - x + y on tensors
)

RNG = np.random.default_rng(7)
IDS = np.array([[3, 0], [3, 1]], np.int32)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def positive(*shape: int) -> np.ndarray:
    return RNG.uniform(0.5, 2.0, size=shape)


def _distribution_loss(z: Any, x: Any, axis: int) -> Any:
    """The loss's gradient is that of labels that add up to 1."""
    return nn_loss.softmax_cross_entropy_with_logits_v2(nn.softmax(z, axis), x, axis)


UNARY = [
    *(
        math.negative,
        math.square,
        math.exp,
        math.expm1,
        math.sigmoid,
        math.tanh,
        math.sin,
        math.cos,
        math.erf,
        math.abs,
    ),
    *(nn.relu, nn.elu, nn.selu, nn.softplus, nn.softsign, nn.leaky_relu, nn.softmax, nn.log_softmax, nn.l2_loss),
    *(math_reduce.reduce_logsumexp, math_reduce.cumsum, array.identity, array.transpose, nn.relu6),
]
UNARY_POSITIVE = [math.sqrt, math.rsqrt, math.log, math.log1p, math.reciprocal]
BINARY = [
    *(math.add, math.subtract, math.multiply, math.truediv, math.maximum, math.minimum, math.squared_difference),
    *(math.pow, math.div_no_nan, math.div, math.floormod),
]
SHAPES = [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 3)), ((2, 3), (1, 1)), ((3, 1, 2), (4, 1))]
MATRICES = [((3, 4), (4, 2)), ((5, 3, 4), (5, 4, 2)), ((5, 1, 3, 4), (2, 4, 2)), ((5, 3, 4), (4, 2))]
AXES: list[Any] = [None, 0, 1, -1, [0, 2], [0, 1, 2]]

# name, expression, inputs
CASES: list[tuple[str, Any, tuple[np.ndarray, ...]]] = [
    *((f.__name__, f, (normal(3, 4),)) for f in UNARY),
    *((f.__name__, f, (positive(3, 4),)) for f in UNARY_POSITIVE),
    ("add_n", lambda x, y: math.add_n([x, y, x]), (normal(3), normal(3))),
    ("cast", lambda x: math.cast(math.cast(x, "complex128"), "float64"), (normal(3),)),
    ("clip_by_value", lambda x: clip.clip_by_value(x, -0.5, 0.5), (normal(3, 4),)),
    ("ClipByValue", lambda x, a, b: apply_op("ClipByValue", [x, a, b]), (normal(9), np.array(-0.5), np.array(0.5))),
    ("clip_by_norm", lambda x: clip.clip_by_norm(x, 0.7), (normal(3, 4),)),
    ("clip_by_norm of a small one", lambda x: clip.clip_by_norm(x, 700.0), (normal(3, 4),)),
    ("clip_by_global_norm", lambda x, y: clip.clip_by_global_norm([x, y], 0.5)[0][0], (normal(3), normal(4))),
    ("second derivative of sigmoid", lambda x: gradients(math.sigmoid(x), x)[0], (normal(4),)),
    ("second derivative of tanh", lambda x: gradients(math.tanh(x), x)[0], (normal(4),)),
    ("second derivative of sqrt", lambda x: gradients(math.sqrt(x), x)[0], (positive(4),)),
    ("second derivative of rsqrt", lambda x: gradients(math.rsqrt(x), x)[0], (positive(4),)),
    ("second derivative of 1/x", lambda x: gradients(math.reciprocal(x), x)[0], (positive(4),)),
    ("second derivative of softplus", lambda x: gradients(nn.softplus(x), x)[0], (normal(4),)),
    ("second derivative of relu^3", lambda x: gradients(nn.relu(x) ** 3.0, x)[0], (normal(4),)),
    ("second derivative of leaky_relu^2", lambda x: gradients(nn.leaky_relu(x) ** 2.0, x)[0], (normal(4),)),
    ("second derivative of x^3", lambda x: gradients(x * x * x, x)[0], (normal(4),)),
    ("second derivative of x[1:]^2", lambda x: gradients(math.square(x[1:]), x)[0], (normal(4),)),
    # reductions
    *((f"reduce_sum {a}", lambda x, a=a: math_reduce.reduce_sum(x, a), (normal(2, 3, 4),)) for a in AXES),
    *((f"reduce_mean {a}", lambda x, a=a: math_reduce.reduce_mean(x, a), (normal(2, 3, 4),)) for a in AXES),
    *((f"reduce_max {a}", lambda x, a=a: math_reduce.reduce_max(x, a), (normal(2, 3, 4),)) for a in AXES),
    *((f"reduce_min {a}", lambda x, a=a: math_reduce.reduce_min(x, a, True), (normal(2, 3, 4),)) for a in AXES),
    *((f"reduce_prod {a}", lambda x, a=a: math_reduce.reduce_prod(x, a), (normal(2, 3, 4),)) for a in AXES),
    ("reduce_prod of a zero", lambda x: math_reduce.reduce_prod(x, 0), (np.array([[0.0, 2.0], [3.0, 0.0]]),)),
    ("reduce_sum keepdims", lambda x: math_reduce.reduce_sum(x, 1, keepdims=True), (normal(2, 3),)),
    ("cumsum", lambda x: math_reduce.cumsum(x, 1, exclusive=True, reverse=True), (normal(2, 3),)),
    ("cumprod", lambda x: math_reduce.cumprod(x, 1, exclusive=True), (positive(2, 3),)),
    ("cumprod reverse", lambda x: math_reduce.cumprod(x, 1, reverse=True), (positive(2, 3),)),
    ("Gather", lambda x: apply_op("Gather", [x, IDS]), (normal(4, 3),)),
    ("segment_sum", lambda x: math_reduce.segment_sum(x, [0, 0, 2]), (normal(3, 2),)),
    ("unsorted_segment_sum", lambda x: math_reduce.unsorted_segment_sum(x, [2, -1, 2], 3), (normal(3, 2),)),
    # arrays
    ("reshape", lambda x: array.reshape(x, [4, -1]), (normal(2, 6),)),
    ("expand_dims", lambda x: array.expand_dims(x, -1), (normal(2, 3),)),
    ("squeeze", lambda x: array.squeeze(x, [1]), (normal(2, 1, 3),)),
    ("transpose", lambda x: array.transpose(x, [2, 0, 1]), (normal(2, 3, 4),)),
    ("reverse", lambda x: array.reverse(x, [0, 1]), (normal(2, 3),)),
    ("fill", lambda x: array.fill([2, 3], x), (normal(),)),
    ("tile", lambda x: array.tile(x, [2, 3]), (normal(2, 3),)),
    ("pad", lambda x: array.pad(x, [[1, 0], [2, 1]]), (normal(2, 3),)),
    ("PadV2", lambda x, v: array.pad(x, [[1, 0], [2, 1]], constant_values=v), (normal(2, 3), normal())),
    ("broadcast_to", lambda x: array.broadcast_to(x, [4, 2, 3]), (normal(2, 1),)),
    ("placeholder_with_default", lambda x: array.placeholder_with_default(x, [3]), (normal(3),)),
    ("concat of equal", lambda x, y: array_join.concat([x, y], -1), (normal(2, 3), normal(2, 3))),
    ("concat", lambda x, y: array_join.concat([x, y], -1), (normal(2, 3), normal(2, 1))),
    ("stack", lambda x, y: array_join.stack([x, y], 1), (normal(2, 3), normal(2, 3))),
    ("unstack", lambda x: array_join.unstack(x, 3, axis=1)[2] * 2.0, (normal(2, 3),)),
    ("split", lambda x: array_join.split(x, 2, axis=1)[1] * 2.0, (normal(2, 4),)),
    ("SplitV", lambda x: array_join.split(x, [1, 3], axis=1)[1] * 2.0, (normal(2, 4),)),
    ("dynamic_partition", lambda x: array_join.dynamic_partition(x, [1, 0, 1], 2)[1], (normal(3, 2),)),
    (
        "dynamic_stitch",
        lambda x, y: array_join.dynamic_stitch([[3, 0], [1, 2]], [x, y]),
        (normal(2, 2), normal(2, 2)),
    ),
    ("slice", lambda x: array_slice.slice_(x, [1, 0], [2, -1]), (normal(4, 3),)),
    ("getitem", lambda x: x[1:, ..., None, 0, ::-2], (normal(3, 2, 2, 5),)),
    ("gather", lambda x: array_slice.gather(x, IDS), (normal(4, 3),)),
    ("gather axis 1", lambda x: array_slice.gather(x, IDS, axis=1), (normal(2, 4, 3),)),
    ("gather axis -1", lambda x: array_slice.gather(x, IDS, axis=-1), (normal(2, 4),)),
    ("gather of a gather", lambda x: array_slice.gather(array_slice.gather(x, [2, 2, 0]), [1, 2]), (normal(4, 3),)),
    ("gather_nd", lambda x: array_slice.gather_nd(x, [[0, 1], [1, 0], [0, 1]]), (normal(2, 2, 3),)),
    ("scatter_nd", lambda x: array_slice.scatter_nd([[2], [0], [2]], x, [4, 2]), (normal(3, 2),)),
    ("boolean_mask", lambda x: array_slice.boolean_mask(x, [True, False, True]), (normal(3, 2),)),
    ("where", lambda x, y: array_select.where([True, False], x, y), (normal(2, 3), normal(2, 3))),
    ("where_v2", lambda x, y: array_select.where_v2([[True], [False]], x, y), (normal(2, 3), normal(3))),
    ("one_hot", lambda x, y: array_select.one_hot([1, 5, 0], 3, x, y), (normal(), normal())),
    # neural networks
    ("bias_add", nn.bias_add, (normal(2, 3), normal(3))),
    ("bias_add NCHW", lambda x, b: nn.bias_add(x, b, "NCHW"), (normal(2, 3, 2, 2), normal(3))),
    (
        "second derivative of bias_add",
        lambda x, b: gradients(nn.bias_add(x, b) ** 3.0, b)[0],
        (normal(2, 3), normal(3)),
    ),
    ("softmax axis 0", lambda x: nn.softmax(x, 0), (normal(3, 4),)),
    ("l2_normalize", lambda x: nn.l2_normalize(x, 1), (normal(3, 4),)),
    ("moments", lambda x: math.add_n(list(nn.moments(x, [0]))), (normal(5, 4),)),
    (
        "batch_normalization",
        lambda x, m, v, b, s: nn.batch_normalization(x, m, v, b, s, 1e-3),
        (normal(5, 4), normal(4), positive(4), normal(4), normal(4)),
    ),
    (
        "sigmoid_cross_entropy",
        lambda z, x: nn_loss.sigmoid_cross_entropy_with_logits(labels=z, logits=x),
        (positive(3, 2), normal(3, 2)),
    ),
    (
        "weighted_cross_entropy",
        lambda z, x: nn_loss.weighted_cross_entropy_with_logits(labels=z, logits=x, pos_weight=3.0),
        (positive(3, 2), normal(3, 2)),
    ),
    ("softmax_cross_entropy", lambda z, x: _distribution_loss(z, x, -1), (positive(3, 4), normal(3, 4))),
    (
        "softmax_cross_entropy axis 0",
        lambda z, x: _distribution_loss(z, x, 0),
        (positive(3, 4), normal(3, 4)),
    ),
    (
        "second derivative of softmax_cross_entropy",
        lambda x: gradients(nn_loss.softmax_cross_entropy_with_logits_v2([[0.0, 1.0, 0.0]], x), x)[0],
        (normal(1, 3),),
    ),
    (
        "sparse_softmax_cross_entropy",
        lambda x: nn_loss.sparse_softmax_cross_entropy_with_logits(labels=[2, 0], logits=x),
        (normal(2, 3),),
    ),
    ("top_k", lambda x: nn.top_k(x, 2)[0], (normal(3, 5),)),
    ("xw_plus_b", nn.xw_plus_b, (normal(3, 4), normal(4, 2), normal(2))),
    ("check_numerics", lambda x: control_flow.check_numerics(x, "m"), (normal(3),)),
    ("tuple", lambda x, y: control_flow.tuple([x, y])[0] * 2.0 + y, (normal(3), normal(3))),
    # embeddings
    ("embedding_lookup", lambda x: embedding.embedding_lookup(x, IDS), (normal(4, 3),)),
    ("embedding_lookup max_norm", lambda x: embedding.embedding_lookup(x, IDS, max_norm=1.0), (normal(4, 3),)),
]


# The walk needs to know sizes that these cannot find out when they are built.
NEEDS_SHAPES = {"softmax axis 0", "softmax_cross_entropy axis 0", "embedding_lookup max_norm", "one_hot", "moments"}


@pytest.mark.parametrize("known_shapes", [True, False])
@pytest.mark.parametrize("name, build, values", CASES, ids=[c[0] for c in CASES])
def test_gradient(check_gradient: Any, name: str, build: Any, values: Any, known_shapes: bool) -> None:
    if not known_shapes and name in NEEDS_SHAPES:
        pytest.skip("this op must know the rank of its input")
    check_gradient(build, *values, known_shapes=known_shapes)


@pytest.mark.parametrize("known_shapes", [True, False])
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("build", BINARY, ids=lambda f: f.__name__)
def test_broadcasting(check_gradient: Any, build: Any, shapes: Any, known_shapes: bool) -> None:
    check_gradient(build, positive(*shapes[0]), positive(*shapes[1]), known_shapes=known_shapes)


@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("flip_b", [False, True])
@pytest.mark.parametrize("shapes", MATRICES)
def test_matmul(check_gradient: Any, shapes: Any, flip_a: bool, flip_b: bool) -> None:
    a, b = normal(*shapes[0]), normal(*shapes[1])
    a, b = np.swapaxes(a, -1, -2).copy() if flip_a else a, np.swapaxes(b, -1, -2).copy() if flip_b else b
    check_gradient(lambda x, y: math.matmul(x, y, flip_a, flip_b), a, b)


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("max_norm", [None, 1.0])
def test_embedding_shards(check_gradient: Any, strategy: str, max_norm: float | None) -> None:
    def look_up(*shards: Any) -> Any:
        return embedding.embedding_lookup(list(shards), [[0, 6], [6, 3]], strategy, max_norm=max_norm)

    check_gradient(look_up, normal(3, 2), normal(2, 2), normal(2, 2))


def test_every_op_of_these_rooms_is_listed() -> None:
    """An op has a gradient or is listed as having none: forgetting is told from deciding."""
    rooms = (array, array_join, array_select, array_slice, clip, control_flow, math, math_reduce, nn, nn_loss)
    types = {name for room in rooms for name in _registered_in(room)}
    # a second derivative and an assignment, of which TensorFlow says nothing either
    known = {"SoftsignGrad", "StridedSliceAssign"}
    assert {t for t in types if not registry.listed(t)} == known


def _registered_in(room: Any) -> set[str]:
    """The op types that a module names."""
    texts = {n.value for n in ast.walk(ast.parse(inspect.getsource(room))) if isinstance(n, ast.Constant)}
    return {t for t in texts if isinstance(t, str)} & set(registered())


def test_rounding_has_no_slope(graph: Any) -> None:
    x = array.placeholder("float32", [3])
    assert gradients([math.floor(x), math.ceil(x), math.rint(x)], x) == [None]
    assert gradients(math.sign(x), x)[0].op.type == "Const"  # zeros, as in TensorFlow


def test_prevented(graph: Any) -> None:
    x = convert_to_tensor([1.0])
    with pytest.raises(LookupError, match="explicitly disabled"):
        gradients(apply_op("PreventGradient", [x], {"message": "no"}), x)
