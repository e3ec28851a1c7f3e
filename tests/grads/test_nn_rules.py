"""The gradients of convolutions, pools and normalisation along a random direction, first and second."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow.framework.apply import apply_op, constant
from sparkflow.framework.graph import Graph
from sparkflow.framework.registry import registered
from sparkflow.grads import registry
from sparkflow.grads.gradients import gradients
from sparkflow.ops import math_reduce, nn_conv, nn_conv_depthwise, nn_norm, nn_pool
from sparkflow.session.session import Session

RNG = np.random.default_rng(11)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def distinct(*shape: int) -> np.ndarray:
    """No two equal within a step: a maximum has a slope."""
    return RNG.permutation(np.arange(np.prod(shape), dtype=float)).reshape(shape) / 7


X, W, DEEP = normal(2, 6, 5, 3), normal(3, 2, 3, 4), normal(2, 3, 4, 4, 2)
CASES: list[tuple[str, Any, tuple[np.ndarray, ...]]] = [
    *(
        (f"conv2d {p} {s} {d}", lambda x, w, p=p, s=s, d=d: nn_conv.conv2d(x, w, s, p, dilations=d), (X, W))
        for p in ("SAME", "VALID")
        for s, d in ((1, 1), (2, 1), (1, 2))
    ),
    ("conv2d 3x3", lambda x, w: nn_conv.conv2d(x, w, 1, "SAME"), (normal(2, 5, 4, 3), normal(3, 3, 3, 4))),
    ("conv2d 1x1", lambda x, w: nn_conv.conv2d(x, w, 1, "SAME"), (X, normal(1, 1, 3, 4))),
    ("conv2d explicit", lambda x, w: nn_conv.conv2d(x, w, 2, [(0, 0), (1, 2), (0, 3), (0, 0)]), (X, W)),
    ("conv2d NCHW", lambda x, w: nn_conv.conv2d(x, w, 1, "SAME", data_format="NCHW"), (normal(2, 3, 5, 4), W)),
    ("conv2d_transpose", lambda x, w: nn_conv.conv2d_transpose(x, w, [2, 11, 9, 3], 2), (normal(2, 6, 5, 4), W)),
    (
        "backprop_filter",
        lambda x, d: nn_conv.conv2d_backprop_filter(x, [3, 2, 3, 4], d, 1, "SAME"),
        (X, normal(2, 6, 5, 4)),
    ),
    ("depthwise", lambda x, w: nn_conv_depthwise.depthwise_conv2d(x, w, [1, 2, 2, 1], "SAME"), (X, normal(3, 2, 3, 2))),
    ("conv1d", lambda x, w: nn_conv.conv1d(x, w, 2, "SAME"), (normal(2, 6, 3), normal(3, 3, 4))),
    ("conv3d", lambda x, w: nn_conv.conv3d(x, w, [1, 1, 2, 1, 1], "SAME"), (DEEP, normal(2, 3, 2, 2, 3))),
    (
        "conv3d_transpose",
        lambda x, w: nn_conv.conv3d_transpose(x, w, [2, 3, 8, 4, 3], [1, 1, 2, 1, 1]),
        (DEEP, normal(2, 3, 2, 3, 2)),
    ),
    *(
        (f"{pool.__name__} {p}", lambda x, pool=pool, p=p: pool(x, 3, 2, p), (distinct(2, 6, 5, 3),))
        for pool in (nn_pool.max_pool, nn_pool.avg_pool)
        for p in ("SAME", "VALID")
    ),
    ("max_pool3d", lambda x: nn_pool.max_pool3d(x, [2, 2, 3], 1, "VALID"), (distinct(2, 3, 4, 4, 2),)),
    ("avg_pool3d", lambda x: nn_pool.avg_pool3d(x, [2, 2, 3], 1, "SAME"), (DEEP,)),
    (
        "max_pool_v2",
        lambda x: apply_op("MaxPoolV2", [x, [1, 3, 2, 1], [1, 2, 1, 1]], {"padding": "SAME"}),
        (distinct(2, 6, 5, 3),),
    ),
    ("argmax", lambda x: nn_pool.max_pool_with_argmax(x, 3, 2, "SAME")[0], (distinct(2, 6, 5, 3),)),
    ("lrn", lambda x: nn_norm.lrn(x, 2, 1.5, 0.3, 0.75), (normal(2, 2, 3, 6),)),
    ("crelu", nn_norm.crelu, (normal(3, 4),)),
    (
        "fused_batch_norm",
        lambda x, s, o: nn_norm.fused_batch_norm(x, s, o)[0],
        (normal(3, 2, 4, 2), normal(2), normal(2)),
    ),
    (
        "fused_batch_norm NCHW",
        lambda x, s, o: nn_norm.fused_batch_norm(x, s, o, data_format="NCHW")[0],
        (normal(3, 2, 4, 2), normal(2), normal(2)),
    ),
    (
        "fused_batch_norm with given statistics",
        lambda x, s, o: nn_norm.fused_batch_norm(x, s, o, [0.5, 1.0], [2.0, 3.0], is_training=False)[0],
        (normal(3, 2, 4, 2), normal(2), normal(2)),
    ),
]
BATCH_NORMS = {c[0] for c in CASES if c[0].startswith("fused_batch_norm")}


@pytest.mark.parametrize("known_shapes", [True, False])
@pytest.mark.parametrize("name, build, values", CASES, ids=[c[0] for c in CASES])
def test_gradient(check_gradient: Any, name: str, build: Any, values: Any, known_shapes: bool) -> None:
    if not known_shapes and name in ("conv1d", "crelu"):
        pytest.skip("this op must know the rank of its input")
    check_gradient(build, *values, known_shapes=known_shapes)


@pytest.mark.parametrize("name, build, values", CASES, ids=[c[0] for c in CASES])
def test_second_gradient(check_gradient: Any, name: str, build: Any, values: Any) -> None:
    if name in ("lrn", "crelu"):
        pytest.skip("not registered, or zero")
    if name in BATCH_NORMS:  # the gradient op takes scale as float32, which a small step would not move
        scale, offset, whole = [0.5, -1.5], [1.0, 2.0], build
        values = values[:1]

        def build(x: Any) -> Any:
            return whole(x, scale, offset)

    def slope(*xs: Any) -> Any:
        y = build(*xs)
        return gradients(math_reduce.reduce_sum(y * y * y), list(xs))[0]

    check_gradient(slope, *values)


def test_of_equal_maxima_the_first_has_the_gradient(graph: Graph) -> None:
    x = constant([3.0, 3.0, 1.0, 3.0], shape=[1, 2, 2, 1])
    with Session(graph=graph) as session:
        got = session.run(gradients(nn_pool.max_pool(x, 2, 2, "VALID"), x)[0])
    assert got.ravel().tolist() == [1, 0, 0, 0]


def test_every_op_is_listed() -> None:
    known = {"LRNGrad"}  # TensorFlow has none either
    families = ("Conv", "Depthwise", "MaxPool", "AvgPool", "FusedBatchNorm", "LRN")
    assert {t for t in registered() if t.startswith(families) and not registry.listed(t)} == known
