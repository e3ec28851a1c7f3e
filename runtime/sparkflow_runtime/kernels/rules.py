"""The optimizers' formulas. A rule changes var and slots by a gradient, in place; it is written once.

Source of the formulas: Duchi et al. 2011 (Adagrad), Kingma and Ba 2015 (Adam), McMahan et al. 2013 (FTRL-Proximal),
Tieleman and Hinton 2012 (RMSProp; centred: Graves 2013), Sutskever et al. 2013 (momentum), Zeiler 2012 (Adadelta),
Duchi and Singer 2009 (proximal steps), Duchi et al. 2011 (dual averaging).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Array = Any
Attrs = dict[str, Any]  # of the op
Rule = Callable[..., None]  # (xp, attrs, [var, *slots], gradient, *scalars), changing var and slots in place


def gradient_descent(xp: Any, attrs: Attrs, refs: list[Array], grad: Array, alpha: Array) -> None:
    (var,) = refs
    var -= alpha * grad


def momentum(xp: Any, attrs: Attrs, refs: list[Array], grad: Array, lr: Array, momentum: Array) -> None:
    var, accum = refs
    accum *= momentum
    accum += grad
    var -= lr * (grad + momentum * accum) if attrs.get("use_nesterov") else lr * accum


def adagrad(xp: Any, attrs: Attrs, refs: list[Array], grad: Array, lr: Array) -> None:
    var, accum = refs
    if attrs.get("update_slots", True):
        accum += grad * grad
    var -= lr * grad / xp.sqrt(accum)


def adam(xp: Any, attrs: Attrs, refs: list[Array], grad: Array, *scalars: Array) -> None:
    var, m, v = refs
    beta1_power, beta2_power, lr, beta1, beta2, epsilon = scalars
    m += (grad - m) * (1 - beta1)
    v += (grad * grad - v) * (1 - beta2)
    ahead = beta1 * m + (1 - beta1) * grad if attrs.get("use_nesterov") else m
    var -= lr * xp.sqrt(1 - beta2_power) / (1 - beta1_power) * ahead / (xp.sqrt(v) + epsilon)


def decayed_adam(xp: Any, attrs: Attrs, refs: list[Array], grad: Array, *scalars: Array) -> None:
    """Of rows; the others change as `decayed` has it. keep1, keep2: 1 - beta1, 1 - beta2, as the graph has them."""
    var, m, v = refs
    rate, beta1, beta2, epsilon, keep1, keep2 = scalars
    m *= beta1
    m += grad * keep1
    v *= beta2
    v += grad * grad * keep2
    var -= rate * m / (xp.sqrt(v) + epsilon)


def decayed(xp: Any, refs: Sequence[Array], rate: Array, beta1: Array, beta2: Array, epsilon: Array) -> None:
    """Adam of rows that have no gradient."""
    var, m, v = refs
    m *= beta1
    v *= beta2
    var -= rate * m / (xp.sqrt(v) + epsilon)


def ftrl(xp: Any, attrs: Attrs, refs: list[Array], grad: Array, lr: Array, l1: Array, l2: Array, *rest: Array) -> None:
    """rest: (lr_power), or (l2_shrinkage, lr_power) in the V2 ops.

    dense: what is not over l1 becomes 0, even where the division gives nan: 0 / 0, of an accumulator that is still 0.
    """
    var, accum, linear = refs
    lr_power, shrunk = rest[-1], grad + 2 * rest[0] * var if len(rest) > 1 else grad
    old_rate = _inverse_rate(xp, accum, lr_power)
    accum += grad * grad
    rate = _inverse_rate(xp, accum, lr_power)
    if attrs.get("multiply_linear_by_lr"):
        linear += shrunk * lr - (rate - old_rate) * var
        l1, curvature = l1 * lr, rate + 2 * l2 * lr
    else:
        linear += shrunk - (rate - old_rate) / lr * var
        curvature = rate / lr + 2 * l2
    new = (xp.clip(linear, -l1, l1) - linear) / curvature
    var[...] = xp.where(xp.abs(linear) > l1, new, 0) if attrs.get("dense") else new


def _inverse_rate(xp: Any, accum: Array, lr_power: Array) -> Array:
    return xp.sqrt(accum) if lr_power == -0.5 else xp.power(accum, -lr_power)


def rms_prop(xp: Any, attrs: Attrs, refs: list[Array], grad: Array, lr: Array, rho: Array, *rest: Array) -> None:
    var, ms, mom = refs
    momentum, epsilon = rest
    ms += (grad * grad - ms) * (1 - rho)
    mom *= momentum
    mom += lr * grad / xp.sqrt(ms + epsilon)
    var -= mom


def centered_rms_prop(
    xp: Any, attrs: Attrs, refs: list[Array], grad: Array, lr: Array, rho: Array, *rest: Array
) -> None:
    var, mg, ms, mom = refs
    momentum, epsilon = rest
    ms += (grad * grad - ms) * (1 - rho)
    mg += (grad - mg) * (1 - rho)
    mom *= momentum
    mom += lr * grad / xp.sqrt(ms - mg * mg + epsilon)
    var -= mom


def adadelta(xp: Any, attrs: Attrs, refs: list[Array], grad: Array, lr: Array, rho: Array, epsilon: Array) -> None:
    var, accum, accum_update = refs
    accum *= rho
    accum += grad * grad * (1 - rho)
    update = xp.sqrt(accum_update + epsilon) / xp.sqrt(accum + epsilon) * grad
    accum_update *= rho
    accum_update += update * update * (1 - rho)
    var -= lr * update


def proximal_gradient_descent(
    xp: Any, attrs: Attrs, refs: list[Array], grad: Array, alpha: Array, l1: Array, l2: Array
) -> None:
    (var,) = refs
    _shrink(xp, var, var - alpha * grad, alpha, l1, l2)


def proximal_adagrad(xp: Any, attrs: Attrs, refs: list[Array], grad: Array, lr: Array, l1: Array, l2: Array) -> None:
    var, accum = refs
    accum += grad * grad
    rate = lr / xp.sqrt(accum)
    _shrink(xp, var, var - grad * rate, rate, l1, l2)


def _shrink(xp: Any, var: Array, moved: Array, rate: Array, l1: Array, l2: Array) -> None:
    """The proximal step: towards zero by l1, which does not step over it, and by l2."""
    near = xp.maximum(xp.abs(moved) - rate * l1, 0)
    var[...] = xp.copysign(near, moved) / (1 + rate * l2)


def adagrad_da(
    xp: Any, attrs: Attrs, refs: list[Array], grad: Array, lr: Array, l1: Array, l2: Array, step: Array
) -> None:
    var, sums, squares = refs
    steps = xp.asarray(step).astype(var.dtype)
    sums += grad
    squares += grad * grad
    near = xp.maximum(xp.abs(sums) - l1 * steps, 0)
    var[...] = -lr * xp.copysign(near, sums) / (l2 * steps * lr + xp.sqrt(squares))
