"""The optimizers' update steps as nodes: `var` and its slots come by reference and change in place.

A dense gradient has the shape of var. A Sparse* op has `grad` rows for the rows of var that `indices` (1-D) names.
"""

from __future__ import annotations

from sparkflow.framework import shapes
from sparkflow.framework.graph import Operation
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow_runtime.wire.errors import InvalidArgumentError

_OF_ROWS = ("grad", "delta", "indices")


def _check_numbers(op: Operation) -> None:
    """Raises InvalidArgumentError where a learning rate, or the like, is an array: each element would have its own."""
    for arg, tensor in zip(op.spec.inputs, op.inputs, strict=True):
        if not arg.is_ref and arg.name not in _OF_ROWS and tensor._shape not in (None, ()):
            raise InvalidArgumentError(
                f"{op.type}: {arg.name} must be of rank 0, got {tensor.name} of shape {shapes.show(tensor._shape)}"
            )


def _apply_shape(op: Operation) -> list[Dims]:
    """var, its slots and grad all have one shape."""
    _check_numbers(op)
    dims: Dims = None
    for arg, tensor in zip(op.spec.inputs, op.inputs, strict=True):
        if arg.is_ref or arg.name in _OF_ROWS:
            dims = shapes.merge(dims, tensor._shape)
    return [dims]


def _sparse_shape(op: Operation) -> list[Dims]:
    """grad has the rows of var, one an index."""
    _check_numbers(op)
    dims: Dims = None
    named = {arg.name: t._shape for arg, t in zip(op.spec.inputs, op.inputs, strict=True)}
    for arg in op.spec.inputs:
        if arg.is_ref:
            dims = shapes.merge(dims, named[arg.name])
    grad, indices = named["grad"], shapes.merge(named["indices"], (None,))
    if dims is not None and not shapes.compatible((indices or (None,)) + dims[1:], grad):
        raise InvalidArgumentError(
            f"grad must have shape indices.shape + var.shape[1:], got grad {shapes.show(grad)}, "
            f"indices {shapes.show(indices)}, var {shapes.show(dims)}"
        )
    return [dims]


def _dense(name: str, inputs: str, **attrs: bool) -> None:
    op(name, f"var: &T, {inputs} -> out: &T", _apply_shape, use_locking=False, **attrs)


def _sparse(name: str, inputs: str, **attrs: bool) -> None:
    op(name, f"var: &T, {inputs} -> out: &T", _sparse_shape, use_locking=False, **attrs)


_RMS = "ms: &T, mom: &T, lr: T, rho: T, momentum: T, epsilon: T, grad: T"
_DELTA = "accum: &T, accum_update: &T, lr: T, rho: T, epsilon: T, grad: T"
_PROXIMAL = "accum: &T, lr: T, l1: T, l2: T, grad: T"
_SUMS = "gradient_accumulator: &T, gradient_squared_accumulator: &T, grad: T"

_dense("ApplyGradientDescent", "alpha: T, delta: T")
_dense("ApplyMomentum", "accum: &T, lr: T, grad: T, momentum: T", use_nesterov=False)
_dense("ApplyAdagrad", "accum: &T, lr: T, grad: T", update_slots=True)
_dense(
    "ApplyAdam",
    "m: &T, v: &T, beta1_power: T, beta2_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T",
    use_nesterov=False,
)
_dense("ApplyFtrl", "accum: &T, linear: &T, grad: T, lr: T, l1: T, l2: T, lr_power: T", multiply_linear_by_lr=False)
_dense(
    "ApplyFtrlV2",
    "accum: &T, linear: &T, grad: T, lr: T, l1: T, l2: T, l2_shrinkage: T, lr_power: T",
    multiply_linear_by_lr=False,
)
_dense("ApplyRMSProp", _RMS)
_dense("ApplyCenteredRMSProp", f"mg: &T, {_RMS}")
_dense("ApplyAdadelta", _DELTA)
_dense("ApplyProximalGradientDescent", "alpha: T, l1: T, l2: T, delta: T")
_dense("ApplyProximalAdagrad", _PROXIMAL)
_dense("ApplyAdagradDA", f"{_SUMS}, lr: T, l1: T, l2: T, global_step: int64")

_sparse("SparseApplyMomentum", "accum: &T, lr: T, grad: T, indices: Tindices, momentum: T", use_nesterov=False)
_sparse("SparseApplyAdagrad", "accum: &T, lr: T, grad: T, indices: Tindices", update_slots=True)
_sparse(
    "SparseApplyFtrl",
    "accum: &T, linear: &T, grad: T, indices: Tindices, lr: T, l1: T, l2: T, lr_power: T",
    multiply_linear_by_lr=False,
)
_sparse(
    "SparseApplyFtrlV2",
    "accum: &T, linear: &T, grad: T, indices: Tindices, lr: T, l1: T, l2: T, l2_shrinkage: T, lr_power: T",
    multiply_linear_by_lr=False,
)
_sparse("SparseApplyRMSProp", _RMS + ", indices: Tindices")
_sparse("SparseApplyCenteredRMSProp", f"mg: &T, {_RMS}, indices: Tindices")
_sparse("SparseApplyAdadelta", f"{_DELTA}, indices: Tindices")
_sparse("SparseApplyProximalGradientDescent", "alpha: T, l1: T, l2: T, grad: T, indices: Tindices")
_sparse("SparseApplyProximalAdagrad", f"{_PROXIMAL}, indices: Tindices")
_sparse("SparseApplyAdagradDA", f"{_SUMS}, indices: Tindices, lr: T, l1: T, l2: T, global_step: int64")
