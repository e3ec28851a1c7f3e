"""Hot loops of activations: one pass over memory, without arrays in between."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.exp_loops import in_parts
from sparkflow_runtime.kernels.registry import Node, bound

_LARGE = 1 << 17  # elements from which a loop, and then threads, pay
_FLAT = "Array({0}, 1, 'C', readonly=True)"


@compiled([f"void({_FLAT}, {{0}}[::1], int64, int64)".format(kind) for kind in ("float32", "float64")])
def relu(x: Any, y: Any, start: Any, stop: Any) -> None:
    """y = max(x, 0), NaN where x is. Four times as fast as numpy's, which asks for NaN apart."""
    zero = y.dtype.type(0)
    for i in range(np.uint64(start), np.uint64(stop)):  # unsigned: else each index is asked whether it is below 0
        y[i] = zero if x[i] <= zero else x[i]


@relu.otherwise
def _(x: Any, y: Any, start: Any, stop: Any) -> None:
    np.maximum(x[start:stop], y.dtype.type(0), out=y[start:stop])


@bound("Relu", stateful=False, in_place=(0,))
def _relu(node: Node) -> Any:
    xp = node.xp
    relu.prepare()

    def run(x: Any, out: Any = None) -> Any:
        if xp is not np or x.size < _LARGE or x.dtype not in (np.float32, np.float64):
            return xp.maximum(x, x.dtype.type(0), out=out)
        y = np.empty(x.shape, x.dtype) if out is None else out
        in_parts(relu, x.size, 1, np.ascontiguousarray(x).reshape(-1), y.reshape(-1))
        return y

    return run


@compiled([f"void({_FLAT}, {_FLAT}, {{0}}[::1], int64, int64)".format(kind) for kind in ("float32", "float64")])
def relu_grad(dy: Any, x: Any, dx: Any, start: Any, stop: Any) -> None:
    """dx = dy (x > 0). A product, so that what is not finite stays so, as in TensorFlow."""
    one, zero = dx.dtype.type(1), dx.dtype.type(0)
    for i in range(np.uint64(start), np.uint64(stop)):
        dx[i] = dy[i] * (one if x[i] > 0 else zero)


@relu_grad.otherwise
def _(dy: Any, x: Any, dx: Any, start: Any, stop: Any) -> None:
    np.multiply(dy[start:stop], x[start:stop] > 0, out=dx[start:stop])


@bound("ReluGrad", stateful=False, in_place=(0,))
def _relu_grad(node: Node) -> Any:
    xp = node.xp
    relu_grad.prepare()

    def run(dy: Any, x: Any, out: Any = None) -> Any:
        same = xp is np and dy.shape == x.shape and dy.dtype == x.dtype and dy.dtype in (np.float32, np.float64)
        if not same or dy.size < _LARGE:
            return xp.multiply(dy, x > 0, out=out)
        dx = np.empty(dy.shape, dy.dtype) if out is None else out
        flat = np.ascontiguousarray(dy).reshape(-1), np.ascontiguousarray(x).reshape(-1), dx.reshape(-1)
        in_parts(relu_grad, dy.size, 1, *flat)
        return dx

    return run
