"""docs/adding-an-op.md, run: an op, its kernel for every array module present, and its gradient, from outside."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import registry

PAGE = Path(__file__).resolve().parents[1] / "docs" / "adding-an-op.md"


@pytest.fixture(scope="module")
def program() -> Any:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert sum(1 for line in code.splitlines() if line.strip() and not line.startswith(("import", "from"))) <= 20
    names: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    yield names
    from sparkflow.framework.registry import _OPS
    from sparkflow.grads.registry import _GRADIENTS

    del _OPS["Swish"], _GRADIENTS["Swish"], registry._KERNELS["Swish", "*"]


def test_value_and_gradient(program: Any, graph: Any) -> None:
    values = np.linspace(-2, 2, 5)
    x, beta = tf.placeholder(tf.float64, [5]), tf.placeholder(tf.float64, [])
    y = program["swish"](x, beta)
    assert y.shape.as_list() == [5]
    dx, dbeta = tf.gradients(y, [x, beta])
    with tf.Session() as session:
        found = session.run(y, {x: values, beta: 1.5})
        np.testing.assert_allclose(found, values / (1 + np.exp(-1.5 * values)))
        step = 1e-6
        for tensor, key, shift in ((dx, x, values), (dbeta, beta, np.array(1.5))):
            feeds = {x: values, beta: 1.5}
            ahead, behind = (session.run(y, {**feeds, key: shift + s}) for s in (step, -step))
            slope = (ahead - behind) / (2 * step)
            np.testing.assert_allclose(session.run(tensor, feeds), slope if tensor is dx else slope.sum(), rtol=1e-6)


@pytest.mark.skipif(find_spec("cupy") is None, reason="cupy is not installed")
def test_on_a_gpu(program: Any) -> None:
    import cupy

    found = program["swish_kernel"](cupy, cupy.arange(3.0), cupy.asarray(1.0))
    np.testing.assert_allclose(found.get(), np.arange(3) / (1 + np.exp(-np.arange(3.0))))
