"""Slots: variables that an optimizer keeps beside a variable (`w/Adagrad`), on its device and cut as it is cut."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.ops import array, init_ops
from sparkflow.ops.variable_scope import get_variable, variable_scope
from sparkflow.ops.variables import SaveSliceInfo, Variable
from sparkflow_runtime.wire.dtypes import DType, as_dtype


def create_slot(primary: Variable, val: Any, name: str, colocate_with_primary: bool = True) -> Variable:
    """A slot that starts as the tensor `val`."""
    val = convert_to_tensor(val)
    return _create(primary, val, None, val.dtype, shapes.fully_known(val._shape), name, colocate_with_primary)


def create_slot_with_initializer(
    primary: Variable, initializer: Any, shape: Any, dtype: Any, name: str, colocate_with_primary: bool = True
) -> Variable:
    """A slot of this shape and dtype; initializer(shape, dtype) gives its first value."""
    dims = shapes.as_dims(shape)
    return _create(primary, initializer, dims, as_dtype(dtype), shapes.fully_known(dims), name, colocate_with_primary)


def create_zeros_slot(primary: Variable, name: str, dtype: Any = None, colocate_with_primary: bool = True) -> Variable:
    """A slot of zeros of the primary's shape; its dtype too when none is given."""
    kind = as_dtype(primary.dtype if dtype is None else dtype).base_dtype
    if shapes.fully_known(primary._shape):
        zeros = init_ops.zeros_initializer()
        return create_slot_with_initializer(primary, zeros, primary._shape, kind, name, colocate_with_primary)
    return create_slot(
        primary, array.zeros(array.shape(primary.initialized_value()), kind), name, colocate_with_primary
    )


def _create(
    primary: Variable, value: Any, dims: shapes.Dims, dtype: DType, known: bool, name: str, colocate: bool
) -> Variable:
    """In a scope of the primary's name, as TensorFlow names slots; in a reusing scope the same slot comes back."""
    beside = primary.graph.colocate_with(primary.op if colocate else None)
    with variable_scope(None, f"{primary.op.name}/{name}") as scope, beside:
        scope.set_partitioner(None)  # a slot is whole beside its part
        slot = get_variable(
            "", initializer=value, trainable=False, shape=dims, dtype=dtype.base_dtype, validate_shape=known
        )
    info = primary._get_save_slice_info() if isinstance(primary, Variable) else None
    if info is not None and slot._shape:
        own, n = slot.op.name[len(primary.op.name) :], len(slot._shape)
        slot._set_save_slice_info(
            SaveSliceInfo(info.full_name + own, info.full_shape[:n], info.var_offset[:n], info.var_shape[:n])
        )
    return slot
