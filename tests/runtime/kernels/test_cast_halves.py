"""Casts between float32 and the types of half its size: the same numbers as numpy's, whatever the layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.wire import dtypes


def cast(x: Any, to: str) -> Any:
    attrs = {"DstT": dtypes.as_dtype(to), "SrcT": dtypes.as_dtype(x.dtype)}
    node = Node("c", "Cast", attrs, "/device:CPU:0", np, ResourceManager(), "", ("x",), "")
    return find("Cast", "CPU").factory(node)(x)


def values() -> np.ndarray:
    rng = np.random.default_rng(0)
    kinds = [rng.standard_normal(5000), 10.0 ** rng.uniform(-9, 6, 5000), [0.0, -0.0, np.inf, -np.inf, np.nan, 65519.0]]
    return np.concatenate(kinds).astype(np.float32)


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["as it is", "a matrix turned", "every second", "few", "one"])
def test_casts_agree_with_numpy(half: str, layout: str) -> None:
    x, kind = values(), dtypes.as_dtype(half).np
    x = {"as it is": x, "a matrix turned": x[:10_000].reshape(100, 100).T, "every second": x[::2], "few": x[:3]}.get(
        layout, np.float32(0.1)
    )
    with np.errstate(all="ignore"):
        known = np.asarray(x).astype(kind)
    found = cast(x, half)
    assert found.dtype == kind and np.shape(found) == np.shape(x)
    np.testing.assert_array_equal(np.asarray(found, np.float64), known.astype(np.float64))
    wide = cast(found, "float32")
    assert wide.dtype == np.float32 and np.shape(wide) == np.shape(x)
    np.testing.assert_array_equal(wide, known.astype(np.float32))


def test_a_loss_in_halves_has_a_gradient() -> None:
    x = tf.placeholder(tf.float32, [None, 300])
    loss = tf.reduce_sum(tf.cast(tf.cast(x, tf.float16) * 2, tf.float32))
    with tf.Session() as session:
        (gradient,) = session.run(tf.gradients(loss, x), {x: np.ones((4, 300))})
    assert gradient.dtype == np.float32 and (gradient == 2).all()
