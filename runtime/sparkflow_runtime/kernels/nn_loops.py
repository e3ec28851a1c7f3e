"""Hot loops of activations: one pass over memory, without arrays in between.

Each has a form of its own for an output in the memory of its input: where a compiler has to ask whether two arrays
overlap and they do, it goes number by number, three to five times as slowly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.exp_loops import in_parts
from sparkflow_runtime.kernels.registry import Node, bound

_LARGE = 1 << 17  # elements from which a loop, and then threads, pay
_FLAT = "Array({0}, 1, 'C', readonly=True)"


_TYPES = ("float32", "float64")
_NONE, _RELU, _RELU6 = (np.nan, np.nan), (0.0, np.nan), (0.0, 6.0)  # the least and the most; NaN: there is none


def limits(activation: str | None, dtype: Any) -> np.ndarray:
    """What the loops take for Relu, Relu6 or nothing."""
    return np.array({None: _NONE, "Relu": _RELU, "Relu6": _RELU6}[activation], dtype)


@compiled([f"void({_FLAT}, {_FLAT}, {{0}}[::1], int64, int64)".format(kind) for kind in _TYPES])
def relu(x: Any, limits: Any, y: Any, start: Any, stop: Any) -> None:
    """y = x within the limits, NaN where x is. Four times as fast as numpy's, which asks for NaN apart."""
    least, most = limits[0], limits[1]
    for i in range(np.uint64(start), np.uint64(stop)):  # unsigned: else each index is asked whether it is below 0
        held = least if x[i] <= least else x[i]
        y[i] = most if held >= most else held


@relu.otherwise
def _(x: Any, limits: Any, y: Any, start: Any, stop: Any) -> None:
    held = np.where(x[start:stop] <= limits[0], limits[0], x[start:stop])
    y[start:stop] = np.where(held >= limits[1], limits[1], held)


@compiled([f"void({{0}}[::1], {_FLAT}, int64, int64)".format(kind) for kind in _TYPES])
def relu_own(y: Any, limits: Any, start: Any, stop: Any) -> None:
    least, most = limits[0], limits[1]
    for i in range(np.uint64(start), np.uint64(stop)):
        held = least if y[i] <= least else y[i]
        y[i] = most if held >= most else held


@relu_own.otherwise
def _(y: Any, limits: Any, start: Any, stop: Any) -> None:
    relu.numpy(y, limits, y, start, stop)


@bound("Relu", "Relu6", stateful=False, in_place=(0,))
def _relu(node: Node) -> Any:
    xp, ends = node.xp, {np.dtype(kind): limits(node.op, kind) for kind in _TYPES}
    relu.prepare()
    relu_own.prepare()

    def plain(x: Any, out: Any) -> Any:
        made = xp.maximum(x, x.dtype.type(0), out=out)
        return made if node.op == "Relu" else xp.minimum(made, x.dtype.type(6), out=out)

    def run(x: Any, out: Any = None) -> Any:
        if xp is not np or x.size < _LARGE or x.dtype not in ends:
            return plain(x, out)
        if out is x and x.flags.c_contiguous:
            in_parts(relu_own, x.size, 1, x.reshape(-1), ends[x.dtype])
            return x
        y = np.empty(x.shape, x.dtype) if out is None else out
        in_parts(relu, x.size, 1, np.ascontiguousarray(x).reshape(-1), ends[x.dtype], y.reshape(-1))
        return y

    return run


@compiled([f"void({_FLAT}, {_FLAT}, {_FLAT}, {{0}}[::1], int64, int64)".format(kind) for kind in _TYPES])
def relu_grad(dy: Any, x: Any, limits: Any, dx: Any, start: Any, stop: Any) -> None:
    """dx = dy where x is between the limits. A product, so that what is not finite stays so, as in TensorFlow."""
    one, zero, least, most = dx.dtype.type(1), dx.dtype.type(0), limits[0], limits[1]
    for i in range(np.uint64(start), np.uint64(stop)):
        dx[i] = dy[i] * (one if (x[i] > least) & (not x[i] >= most) else zero)


@relu_grad.otherwise
def _(dy: Any, x: Any, limits: Any, dx: Any, start: Any, stop: Any) -> None:
    np.multiply(dy[start:stop], (x[start:stop] > limits[0]) & ~(x[start:stop] >= limits[1]), out=dx[start:stop])


@compiled([f"void({{0}}[::1], {_FLAT}, {_FLAT}, int64, int64)".format(kind) for kind in _TYPES])
def relu_grad_own(dx: Any, x: Any, limits: Any, start: Any, stop: Any) -> None:
    one, zero, least, most = dx.dtype.type(1), dx.dtype.type(0), limits[0], limits[1]
    for i in range(np.uint64(start), np.uint64(stop)):
        dx[i] *= one if (x[i] > least) & (not x[i] >= most) else zero


@relu_grad_own.otherwise
def _(dx: Any, x: Any, limits: Any, start: Any, stop: Any) -> None:
    relu_grad.numpy(dx, x, limits, dx, start, stop)


@bound("ReluGrad", "Relu6Grad", stateful=False, in_place=(0,))
def _relu_grad(node: Node) -> Any:
    xp, ends = node.xp, {np.dtype(kind): limits(node.op.removesuffix("Grad"), kind) for kind in _TYPES}
    relu_grad.prepare()
    relu_grad_own.prepare()

    def plain(dy: Any, x: Any, out: Any) -> Any:
        return xp.multiply(dy, x > 0 if node.op == "ReluGrad" else (x > 0) & (x < 6), out=out)

    def run(dy: Any, x: Any, out: Any = None) -> Any:
        same = xp is np and dy.shape == x.shape and dy.dtype == x.dtype and dy.dtype in ends
        if not same or dy.size < _LARGE:
            return plain(dy, x, out)
        given, kept = np.ascontiguousarray(x).reshape(-1), ends[dy.dtype]
        if out is dy and dy.flags.c_contiguous and not np.may_share_memory(dy, x):
            in_parts(relu_grad_own, dy.size, 1, dy.reshape(-1), given, kept)
            return dy
        dx = np.empty(dy.shape, dy.dtype) if out is None else out
        in_parts(relu_grad, dy.size, 1, np.ascontiguousarray(dy).reshape(-1), given, kept, dx.reshape(-1))
        return dx

    return run
