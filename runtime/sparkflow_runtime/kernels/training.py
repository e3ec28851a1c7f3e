"""The optimizers' update steps. A rule changes var and slots by a gradient; it is written once.

A dense op applies it to whole variables, a Sparse* op to the rows that `indices` names: those are gathered once,
changed by the rule, and written back once. Source of the formulas: Duchi et al. 2011 (Adagrad), Kingma and Ba 2015
(Adam), McMahan et al. 2013 (FTRL-Proximal), Tieleman and Hinton 2012 (RMSProp), Sutskever et al. 2013 (momentum).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import check_indices, host
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.rows import has_repeats, rounds
from sparkflow_runtime.kernels.state import locked, show
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire.errors import InvalidArgumentError

_PIECE = 1 << 15  # elements

Array = Any
Rule = Callable[..., None]  # (xp, node, [var, *slots], gradient, *scalars), changing var and slots in place


def _gradient_descent(xp: Any, node: Node, refs: list[Array], grad: Array, alpha: Array) -> None:
    (var,) = refs
    var -= alpha * grad


def _momentum(xp: Any, node: Node, refs: list[Array], grad: Array, lr: Array, momentum: Array) -> None:
    var, accum = refs
    accum *= momentum
    accum += grad
    var -= lr * (grad + momentum * accum) if node.attr("use_nesterov") else lr * accum


def _adagrad(xp: Any, node: Node, refs: list[Array], grad: Array, lr: Array) -> None:
    var, accum = refs
    if node.attr("update_slots", True):
        accum += grad * grad
    var -= lr * grad / xp.sqrt(accum)


def _adam(xp: Any, node: Node, refs: list[Array], grad: Array, *scalars: Array) -> None:
    var, m, v = refs
    beta1_power, beta2_power, lr, beta1, beta2, epsilon = scalars
    m += (grad - m) * (1 - beta1)
    v += (grad * grad - v) * (1 - beta2)
    ahead = beta1 * m + (1 - beta1) * grad if node.attr("use_nesterov") else m
    var -= lr * xp.sqrt(1 - beta2_power) / (1 - beta1_power) * ahead / (xp.sqrt(v) + epsilon)


def _ftrl(xp: Any, node: Node, refs: list[Array], grad: Array, lr: Array, l1: Array, l2: Array, *rest: Array) -> None:
    """rest: (lr_power), or (l2_shrinkage, lr_power) in the V2 ops."""
    var, accum, linear = refs
    lr_power, shrunk = rest[-1], grad + 2 * rest[0] * var if len(rest) > 1 else grad
    old_rate = _inverse_rate(xp, accum, lr_power)
    accum += grad * grad
    rate = _inverse_rate(xp, accum, lr_power)
    if node.attr("multiply_linear_by_lr"):
        linear += shrunk * lr - (rate - old_rate) * var
        l1, curvature = l1 * lr, rate + 2 * l2 * lr
    else:
        linear += shrunk - (rate - old_rate) / lr * var
        curvature = rate / lr + 2 * l2
    var[...] = (xp.clip(linear, -l1, l1) - linear) / curvature


def _inverse_rate(xp: Any, accum: Array, lr_power: Array) -> Array:
    return xp.sqrt(accum) if lr_power == -0.5 else xp.power(accum, -lr_power)


def _rms_prop(xp: Any, node: Node, refs: list[Array], grad: Array, lr: Array, rho: Array, *rest: Array) -> None:
    var, ms, mom = refs
    momentum, epsilon = rest
    ms += (grad * grad - ms) * (1 - rho)
    mom *= momentum
    mom += lr * grad / xp.sqrt(ms + epsilon)
    var -= mom


# op -> its rule, how many references come first, and where the gradient and the indices stand
_DENSE: dict[str, tuple[Rule, int, int]] = {
    "ApplyGradientDescent": (_gradient_descent, 1, 2),
    "ApplyMomentum": (_momentum, 2, 3),
    "ApplyAdagrad": (_adagrad, 2, 3),
    "ApplyAdam": (_adam, 3, 9),
    "ApplyFtrl": (_ftrl, 3, 3),
    "ApplyFtrlV2": (_ftrl, 3, 3),
    "ApplyRMSProp": (_rms_prop, 3, 7),
}
_SPARSE: dict[str, tuple[Rule, int, int, int]] = {
    "SparseApplyMomentum": (_momentum, 2, 3, 4),
    "SparseApplyAdagrad": (_adagrad, 2, 3, 4),
    "SparseApplyFtrl": (_ftrl, 3, 3, 4),
    "SparseApplyFtrlV2": (_ftrl, 3, 3, 4),
    "SparseApplyRMSProp": (_rms_prop, 3, 7, 8),
}


def _apply(node: Node) -> Callable[..., Variable]:
    rule, num_refs, grad_at = _DENSE[node.op]

    def run(*inputs: Any) -> Variable:
        refs, grad = inputs[:num_refs], inputs[grad_at]
        scalars = _scalars(node, inputs, {*range(num_refs), grad_at})
        with locked(node, refs[0]):
            held = [ref.read() for ref in refs]
            _check_same_shape(node, refs, held, np.shape(grad))
            for arrays, part in _pieces(node.xp, held, grad):
                rule(node.xp, node, arrays, part, *scalars)
        return refs[0]

    return run


def _pieces(xp: Any, held: list[Array], grad: Array) -> Iterator[tuple[list[Array], Array]]:
    """Large arrays piece by piece: what a rule computes on the way then stays in a cache and needs no memory of the
    variable's size. Rules work element by element, so the bits are the same."""
    everything = [*held, grad]
    if xp is not np or grad.size <= _PIECE or not all(a.flags.c_contiguous for a in everything):
        yield held, grad
        return
    flat = [a.reshape(-1) for a in everything]
    for at in range(0, grad.size, _PIECE):
        *arrays, part = (a[at : at + _PIECE] for a in flat)
        yield arrays, part


def _sparse_apply(node: Node) -> Callable[..., Variable]:
    """Under the variable's lock, as scatter is."""
    rule, num_refs, grad_at, indices_at = _SPARSE[node.op]
    xp = node.xp

    def run(*inputs: Any) -> Variable:
        refs, grad, indices = inputs[:num_refs], xp.asarray(inputs[grad_at]), xp.asarray(inputs[indices_at])
        scalars = _scalars(node, inputs, {*range(num_refs), grad_at, indices_at})
        with refs[0].lock:
            held = [ref.read() for ref in refs]
            _check_rows(node, refs, held, grad, indices)
            check_indices(indices, len(held[0]), f"{node.op} of the rows of variable {refs[0].name!r}")
            for part in _parts(xp, indices):
                at, rows_grad = (indices, grad) if part is None else (indices[part], grad[part])
                rows = [array.take(at, axis=0) for array in held]
                rule(xp, node, rows, rows_grad, *scalars)
                for array, new in zip(held, rows):
                    array[at] = new
        return refs[0]

    return run


def _parts(xp: Any, indices: Any) -> Any:
    """[None] where no index repeats (the optimizers add repeated rows up first), else rounds in which none does."""
    if not has_repeats(xp, indices):
        return [None]
    return [xp.asarray(part) for part in rounds(host(indices))]


def _scalars(node: Node, inputs: tuple[Any, ...], others: set[int]) -> list[Any]:
    scalars = [value for i, value in enumerate(inputs) if i not in others]
    for value in scalars:
        if np.shape(value) != ():
            raise InvalidArgumentError(
                f"{node.op}: learning rate and other factors are scalars, got shape {show(np.shape(value))}"
            )
    return scalars


def _check_same_shape(node: Node, refs: tuple[Variable, ...], held: list[Any], grad: tuple[int, ...]) -> None:
    for ref, array in zip(refs, held):
        if array.shape != held[0].shape:
            raise InvalidArgumentError(
                f"{node.op}: var {refs[0].name!r} and slot {ref.name!r} do not have the same shape "
                f"{show(held[0].shape)} {show(array.shape)}"
            )
    if grad != held[0].shape:
        raise InvalidArgumentError(
            f"{node.op}: var {refs[0].name!r} and grad do not have the same shape {show(held[0].shape)} {show(grad)}"
        )


def _check_rows(node: Node, refs: tuple[Variable, ...], held: list[Any], grad: Any, indices: Any) -> None:
    _check_same_shape(node, refs, held, held[0].shape)
    if not held[0].shape or indices.ndim != 1 or grad.shape != indices.shape + held[0].shape[1:]:
        raise InvalidArgumentError(
            f"{node.op}: grad must have shape indices.shape + var.shape[1:], got grad {show(grad.shape)}, "
            f"indices {show(indices.shape)}, var {refs[0].name!r} {show(held[0].shape)}"
        )


for _op, _row in _DENSE.items():
    bound(_op, refs=range(_row[1]))(_apply)
for _op, _sparse_row in _SPARSE.items():
    bound(_op, refs=range(_sparse_row[1]))(_sparse_apply)
