"""Conditional accumulators as nodes: they gather gradients and give their average once there are enough."""

from __future__ import annotations

from functools import partial
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import math
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.dtypes import DType, as_dtype


def _gradient_dims(op: Operation) -> Dims:
    shape = op.inputs[0].op.attrs.get("shape")
    return None if shape is None else shape.dims


def _rows_shape(op: Operation) -> list[Dims]:
    dims = _gradient_dims(op)
    values: Dims = None if dims is None else (None, *dims[1:])
    return [(None,), values, (None,) if dims is None else (len(dims),)]


_MADE = "-> handle: &string"
_ATTRS = {"container": "", "shared_name": "", "reduction_type": "MEAN"}
op("ConditionalAccumulator", _MADE, lambda op: [()], stateful=True, **_ATTRS)
op("SparseConditionalAccumulator", _MADE, lambda op: [()], stateful=True, **_ATTRS)
op("ResourceConditionalAccumulator", "-> handle: resource", lambda op: [()], stateful=True, **_ATTRS)
for _prefix, _handle, _stateful in (("", "handle: &string", False), ("Resource", "handle: resource", True)):
    _row = partial(op, stateful=_stateful)
    _row(f"{_prefix}AccumulatorApplyGradient", f"{_handle}, local_step: int64, gradient: dtype ->")
    _row(
        f"{_prefix}AccumulatorTakeGradient",
        f"{_handle}, num_required: int32 -> average: dtype",
        lambda op: [_gradient_dims(op)],
    )
    _row(f"{_prefix}AccumulatorSetGlobalStep", f"{_handle}, new_global_step: int64 ->")
    _row(f"{_prefix}AccumulatorNumAccumulated", f"{_handle} -> num_accumulated: int32", lambda op: [()])
op(
    "SparseAccumulatorApplyGradient",
    "handle: &string, local_step: int64, gradient_indices: int64, gradient_values: dtype, gradient_shape: int64 ->",
)
op(
    "SparseAccumulatorTakeGradient",
    "handle: &string, num_required: int32 -> indices: int64, values: dtype, shape: int64",
    _rows_shape,
)


def _int64(value: Any, name: str) -> Tensor:
    if isinstance(value, (int, list, tuple)):
        return convert_to_tensor(value, dtypes.int64, name)
    tensor = convert_to_tensor(value, name=name)
    return tensor if tensor.dtype.base_dtype is dtypes.int64 else math.cast(tensor, dtypes.int64)


class ConditionalAccumulatorBase:
    """What dense and sparse accumulators share. A gradient older than the accumulator's step is dropped."""

    _op_type = ""

    def __init__(self, dtype: Any, shape: Any, shared_name: str | None, name: str, reduction_type: str):
        if reduction_type not in ("MEAN", "SUM"):
            raise ValueError(f"{name}: reduction_type must be 'MEAN' or 'SUM', got {reduction_type!r}")
        self._dtype, self._dims = as_dtype(dtype), shapes.as_dims(shape)
        attrs = {
            "dtype": self._dtype,
            "shape": Shape(self._dims),
            "shared_name": shared_name or "",
            "reduction_type": reduction_type,
        }
        self._accumulator_ref: Tensor = apply_op(self._op_type, [], attrs, name)

    @property
    def accumulator_ref(self) -> Tensor:
        return self._accumulator_ref

    @property
    def name(self) -> str:
        return self._accumulator_ref.op.name

    @property
    def dtype(self) -> DType:
        return self._dtype

    def num_accumulated(self, name: str | None = None) -> Tensor:
        """How many gradients are held now, a scalar int32."""
        return self._apply("AccumulatorNumAccumulated", [], {}, name or f"{self.name.split('/')[-1]}_NumAccumulated")

    def set_global_step(self, new_global_step: Any, name: str | None = None) -> Operation:
        """The step from which on gradients are accepted."""
        return self._apply("AccumulatorSetGlobalStep", [_int64(new_global_step, "new_global_step")], {}, name)

    def _apply(self, op_type: str, inputs: list[Any], attrs: dict[str, Any], name: str | None) -> Any:
        with get_default_graph().colocate_with(self._accumulator_ref):
            return apply_op(op_type, [self._accumulator_ref, *inputs], attrs, name)


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Accumulates dense gradients of one shape; the sum is taken in the order of the replicas' ranks."""

    _op_type = "ConditionalAccumulator"

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "conditional_accumulator",
        reduction_type: str = "MEAN",
    ):
        super().__init__(dtype, shape, shared_name, name, reduction_type)

    def apply_grad(self, grad: Any, local_step: Any = 0, name: str | None = None, *, replica: int = 0) -> Operation:
        """Add a gradient, or drop it if local_step is behind the accumulator's. replica: the sender's rank in the sum.

        Raises ValueError on another dtype or shape.
        """
        grad = convert_to_tensor(grad, self._dtype)
        grad.get_shape().assert_is_compatible_with(self._dims)
        inputs = [_int64(local_step, "local_step"), grad]
        return self._apply("AccumulatorApplyGradient", inputs, {"_replica": replica}, name)

    def take_grad(self, num_required: Any, name: str | None = None) -> Tensor:
        """The mean (or sum) of the gradients held, once there are num_required; empties it and begins the next step."""
        n = convert_to_tensor(num_required, dtypes.int32, "num_required")
        return self._apply("AccumulatorTakeGradient", [n], {"dtype": self._dtype}, name)


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """Accumulates gradients that touch some rows; the mean of a row is over the gradients that touched it, as
    in TensorFlow."""

    _op_type = "SparseConditionalAccumulator"

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "sparse_conditional_accumulator",
        reduction_type: str = "MEAN",
    ):
        super().__init__(dtype, shape, shared_name, name, reduction_type)

    def apply_indexed_slices_grad(
        self, grad: IndexedSlices, local_step: Any = 0, name: str | None = None, *, replica: int = 0
    ) -> Operation:
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name, replica=replica)

    def apply_grad(
        self,
        grad_indices: Any,
        grad_values: Any,
        grad_shape: Any = None,
        local_step: Any = 0,
        name: str | None = None,
        *,
        replica: int = 0,
    ) -> Operation:
        """grad_indices: [k] ids, which may repeat; grad_values: [k, ...]; grad_shape: the dense shape where it
        is known."""
        values = convert_to_tensor(grad_values, self._dtype)
        shape = _int64([] if grad_shape is None else grad_shape, "grad_shape")
        inputs = [_int64(local_step, "local_step"), _int64(grad_indices, "grad_indices"), values, shape]
        attrs = {"has_known_shape": grad_shape is not None, "_replica": replica}
        return self._apply("SparseAccumulatorApplyGradient", inputs, attrs, name)

    def take_grad(self, num_required: Any, name: str | None = None) -> list[Tensor]:
        """[indices, values, shape] of the average: indices int64 [k], sorted and distinct; values [k, ...];
        shape int64."""
        n = convert_to_tensor(num_required, dtypes.int32, "num_required")
        return self._apply("SparseAccumulatorTakeGradient", [n], {"dtype": self._dtype}, name)

    def take_indexed_slices_grad(self, num_required: Any, name: str | None = None) -> IndexedSlices:
        indices, values, shape = self.take_grad(num_required, name)
        return IndexedSlices(values, indices, shape)
