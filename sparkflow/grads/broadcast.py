"""What broadcasting repeated is summed again on the way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.shapes import Dims, fully_known
from sparkflow.ops import array
from sparkflow.ops.broadcasting import broadcast_gradient_args
from sparkflow.ops.math_reduce import reduce_sum

Build = Callable[[], Tensor]


def unbroadcast(op: Operation, dx: Build, dy: Build) -> tuple[Build, Build]:
    """The gradients of a broadcasting op's two inputs, from those that have the shape of its output."""
    x, y = op.inputs[:2]
    sum_axes: list[Tensor] = []

    def axes(which: int) -> Tensor:
        if not sum_axes:
            sum_axes.extend(_repeated(x, y))
        return sum_axes[which]

    return lambda: _summed(dx(), x, y, lambda: axes(0)), lambda: _summed(dy(), y, x, lambda: axes(1))


def summed_to(grad: Tensor, own: Tensor) -> Tensor:
    """grad summed over the axes in which `own` was repeated to grad's shape."""
    return _summed(grad, own, grad, lambda: _repeated(own, grad)[0])


def _repeated(x: Tensor, y: Tensor) -> Sequence[Tensor]:
    want = array.type_of_sizes(x, y)
    return broadcast_gradient_args(array.shape(x, out_type=want), array.shape(y, out_type=want))


def _summed(grad: Tensor, own: Tensor, other: Tensor, axes: Callable[[], Tensor]) -> Tensor:
    """grad summed to own's shape; which axes that takes is worked out at run time only where the shapes leave
    it open."""
    known = repeated_axes(own._shape, other._shape)
    if known == []:
        return grad
    if known is not None and own._shape is not None:
        if len(known) == len(other._shape or ()) - len(own._shape):  # only axes that own does not have
            return reduce_sum(grad, known)
        if fully_known(own._shape):
            return array.reshape(reduce_sum(grad, known), own._shape)
    total = apply_op("Sum", [grad, axes() if known is None else known])
    return array.reshape(total, array.shape(own))


def repeated_axes(own: Dims, other: Dims) -> list[int] | None:
    """The axes of the broadcast shape in which own is repeated; None where that depends on sizes not yet known."""
    if own is None or other is None:
        return [] if own == () == other else None
    lead = max(0, len(other) - len(own))
    padded = (1,) * max(0, len(own) - len(other)) + other
    axes = list(range(lead))
    for i, (mine, theirs) in enumerate(zip(own, padded[lead:]), lead):
        if theirs == 1 or (mine is not None and mine != 1):
            continue  # own is as large as the result here
        if mine is None:
            return None
        axes.append(i)
    return axes
