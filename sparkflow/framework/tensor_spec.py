"""TensorSpec and SparseTensorSpec: what a tensor will be, its shape and type, before there is one."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.framework.apply import is_tensor_like
from sparkflow.framework.shapes import TensorShape
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow_runtime.wire.dtypes import DType, as_dtype, float32


class TypeSpec:
    """The base of what describes a value: two are equal when all that they say is."""

    def __init__(self, shape: Any, dtype: Any):
        self._shape, self._dtype = TensorShape(shape), as_dtype(dtype)

    shape = property(lambda self: self._shape)
    dtype: DType = property(lambda self: self._dtype)  # type: ignore[assignment]

    def _said(self) -> tuple[Any, ...]:
        return self._shape.dims_, self._dtype

    def _fits(self, shape: Any, dtype: Any) -> bool:
        return bool(self._dtype.base_dtype == as_dtype(dtype).base_dtype and self._shape.is_compatible_with(shape))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._said() == other._said()

    def __hash__(self) -> int:
        return hash((type(self), self._said()))

    def __reduce__(self) -> Any:
        return type(self), (self._shape, self._dtype)


class TensorSpec(TypeSpec):
    """A tensor of that shape (None: of any), type and name."""

    def __init__(self, shape: Any, dtype: Any = float32, name: str | None = None):
        super().__init__(shape, dtype)
        self._name = name

    name: str | None = property(lambda self: self._name)  # type: ignore[assignment]

    @classmethod
    def from_spec(cls, spec: TensorSpec, name: str | None = None) -> TensorSpec:
        return cls(spec.shape, spec.dtype, name or spec.name)

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """What that tensor is, called by its op's name. Raises ValueError on what is no tensor."""
        if not is_tensor_like(tensor):
            raise ValueError(f"`tensor` should be a tf.Tensor, but got type {type(tensor)}.")
        return cls(tensor.shape, tensor.dtype.base_dtype, name or tensor.op.name)

    def is_compatible_with(self, spec_or_tensor: Any) -> bool:
        """Whether it is of this type and can be of this shape; of values, their numpy array."""
        known = isinstance(spec_or_tensor, TypeSpec) or is_tensor_like(spec_or_tensor)
        value = spec_or_tensor if known else np.asarray(spec_or_tensor)
        return self._fits(value.shape, value.dtype)

    def _said(self) -> tuple[Any, ...]:
        return *super()._said(), self._name

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self._shape}, dtype={self._dtype!r}, name={self._name!r})"

    def __reduce__(self) -> Any:
        return TensorSpec, (self._shape, self._dtype, self._name)


class SparseTensorSpec(TypeSpec):
    """A SparseTensor of that dense shape and type."""

    def __init__(self, shape: Any = None, dtype: Any = float32):
        super().__init__(shape, dtype)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        return isinstance(spec_or_value, (SparseTensor, SparseTensorSpec)) and self._fits(
            spec_or_value.shape, spec_or_value.dtype
        )

    def __repr__(self) -> str:
        return f"SparseTensorSpec({self._shape!r}, {self._dtype!r})"
