"""What values made of several tensors will be: RaggedTensorSpec and the like; and what describes any value."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.framework.apply import convert_to_tensor, is_tensor_like
from sparkflow.framework.graph import Tensor
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.shapes import TensorShape
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.framework.tensor_spec import SparseTensorSpec, TensorSpec, TypeSpec
from sparkflow.ops.ragged import RaggedTensor
from sparkflow.ops.tensor_array import TensorArray
from sparkflow_runtime.wire.dtypes import DType, as_dtype, float32, int64


class RaggedTensorSpec(TypeSpec):
    """A RaggedTensor of that shape (None where rows differ), type and ragged_rank."""

    def __init__(
        self, shape: Any = None, dtype: Any = float32, ragged_rank: int | None = None, row_splits_dtype: Any = int64,
        flat_values_spec: Any = None,
    ):  # fmt: skip
        super().__init__(shape, flat_values_spec.dtype if flat_values_spec is not None else dtype)
        rank = self._shape.ndims
        if ragged_rank is None:
            if rank is None:
                raise ValueError("Must specify ragged_rank or a shape with a known rank.")
            ragged_rank = rank - 1
        if rank is not None and ragged_rank >= rank:
            raise ValueError(f"Argument `ragged_rank` ({ragged_rank}) must be less than rank ({rank}).")
        self._ragged_rank, self._row_splits_dtype = ragged_rank, as_dtype(row_splits_dtype)

    ragged_rank: int = property(lambda self: self._ragged_rank)  # type: ignore[assignment]
    row_splits_dtype: DType = property(lambda self: self._row_splits_dtype)  # type: ignore[assignment]
    value_type = RaggedTensor

    @classmethod
    def from_value(cls, value: RaggedTensor) -> RaggedTensorSpec:
        return cls(value.shape, value.dtype.base_dtype, value.ragged_rank, value.row_splits.dtype)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        other = RaggedTensorSpec.from_value(spec_or_value) if isinstance(spec_or_value, RaggedTensor) else spec_or_value
        return isinstance(other, RaggedTensorSpec) and self._said()[2:] == other._said()[2:] and self._fits(
            other.shape, other.dtype
        )  # fmt: skip

    def _said(self) -> tuple[Any, ...]:
        return *super()._said(), self._ragged_rank, self._row_splits_dtype

    def __repr__(self) -> str:
        return f"RaggedTensorSpec({self._shape!r}, {self._dtype!r}, {self._ragged_rank!r}, {self._row_splits_dtype!r})"

    def __reduce__(self) -> Any:
        return RaggedTensorSpec, (self._shape, self._dtype, self._ragged_rank, self._row_splits_dtype)


class IndexedSlicesSpec(TypeSpec):
    """IndexedSlices of a dense shape; dense_shape_dtype is None where they have none."""

    def __init__(
        self, shape: Any = None, dtype: Any = float32, indices_dtype: Any = int64, dense_shape_dtype: Any = None,
        indices_shape: Any = None,
    ):  # fmt: skip
        super().__init__(shape, dtype)
        self._indices_dtype = as_dtype(indices_dtype)
        self._dense_shape_dtype = None if dense_shape_dtype is None else as_dtype(dense_shape_dtype)
        given = TensorShape([None]) if indices_shape is None else TensorShape(indices_shape)
        self._indices_shape = given.with_rank(1)

    value_type = IndexedSlices

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        other = type_spec_from_value(spec_or_value) if isinstance(spec_or_value, IndexedSlices) else spec_or_value
        return isinstance(other, IndexedSlicesSpec) and self._said()[2:4] == other._said()[2:4] and self._fits(
            other.shape, other.dtype
        )  # fmt: skip

    def _said(self) -> tuple[Any, ...]:
        return *super()._said(), self._indices_dtype, self._dense_shape_dtype, self._indices_shape.dims_

    def __repr__(self) -> str:
        return (
            f"IndexedSlicesSpec({self._shape!r}, {self._dtype!r}, {self._indices_dtype!r}, "
            f"{self._dense_shape_dtype!r}, {self._indices_shape!r})"
        )

    def __reduce__(self) -> Any:
        indices = self._indices_dtype, self._dense_shape_dtype, self._indices_shape
        return IndexedSlicesSpec, (self._shape, self._dtype, *indices)


class TensorArraySpec(TypeSpec):
    """A TensorArray of elements of that shape and type."""

    def __init__(
        self, element_shape: Any = None, dtype: Any = float32, dynamic_size: bool = False, infer_shape: bool = True
    ):  # fmt: skip
        super().__init__(element_shape, dtype)
        self._dynamic_size, self._infer_shape = dynamic_size, infer_shape

    value_type = TensorArray

    @classmethod
    def from_value(cls, value: Any) -> TensorArraySpec:
        if not isinstance(value, TensorArray):
            raise TypeError(f"Expected value to be a TensorArray, but got: {value!r}.")
        return cls(value.element_shape, value.dtype)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        other = TensorArraySpec.from_value(spec_or_value) if isinstance(spec_or_value, TensorArray) else spec_or_value
        return isinstance(other, TensorArraySpec) and self._fits(other.shape, other.dtype)

    def _said(self) -> tuple[Any, ...]:
        return *super()._said(), self._dynamic_size, self._infer_shape

    def __repr__(self) -> str:
        return f"TensorArraySpec({self._shape!r}, {self._dtype!r}, {self._dynamic_size!r}, {self._infer_shape!r})"

    def __reduce__(self) -> Any:
        return TensorArraySpec, (self._shape, self._dtype, self._dynamic_size, self._infer_shape)


def _optional() -> type:
    from sparkflow.data.optional import Optional  # datasets are described by these specs, too

    return Optional


class OptionalSpec(TypeSpec):
    """An Optional of what value_spec says."""

    def __init__(self, element_spec: Any):
        super().__init__([], "variant")
        self._value_spec = element_spec

    value_type = property(lambda self: _optional())

    @classmethod
    def from_value(cls, value: Any) -> OptionalSpec:
        return cls(value._spec.described_as_specs)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        return isinstance(spec_or_value, (_optional(), OptionalSpec))

    def _said(self) -> tuple[Any, ...]:
        return (repr(self._value_spec),)

    def __repr__(self) -> str:
        return f"OptionalSpec({self._value_spec!r})"

    def __reduce__(self) -> Any:
        return OptionalSpec, (self._value_spec,)


class NoneTensorSpec(TypeSpec):
    """None."""

    def __init__(self) -> None:
        super().__init__([], "variant")

    value_type = type(None)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        return spec_or_value is None or isinstance(spec_or_value, NoneTensorSpec)

    def __repr__(self) -> str:
        return "NoneTensorSpec()"

    def __reduce__(self) -> Any:
        return NoneTensorSpec, ()


def type_spec_from_value(value: Any) -> TypeSpec:
    """What describes a tensor, an array, or a value made of several. Raises TypeError on what none describes."""
    match value:
        case None:
            return NoneTensorSpec()
        case RaggedTensor():
            return RaggedTensorSpec.from_value(value)
        case SparseTensor():
            return SparseTensorSpec(value.shape, value.dtype)
        case IndexedSlices(values=values, indices=indices, dense_shape=dense):
            rows = TensorShape([None]).concatenate(values.shape[1:])
            kind = None if dense is None else dense.dtype
            return IndexedSlicesSpec(rows, value.dtype, indices.dtype, kind, indices.shape)
        case TensorArray():
            return TensorArraySpec.from_value(value)
        case Tensor():
            return TensorSpec(value.shape, value.dtype.base_dtype)
    if is_tensor_like(value) or isinstance(value, (np.ndarray, np.generic)):
        tensor = convert_to_tensor(value)
        return TensorSpec(tensor.shape, tensor.dtype.base_dtype)
    if isinstance(value, _optional()):
        return OptionalSpec.from_value(value)
    described = getattr(value, "element_spec", None)
    if described is not None:
        return DatasetSpec(described)
    raise TypeError(f"Could not build a TypeSpec for {value!r} of unsupported type {type(value).__name__}.")


class DatasetSpec(TypeSpec):
    """A Dataset of such elements."""

    def __init__(self, element_spec: Any, dataset_shape: Any = ()):
        super().__init__(dataset_shape, "variant")
        self._element_spec = element_spec

    element_spec = property(lambda self: self._element_spec)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        return repr(getattr(spec_or_value, "element_spec", None)) == repr(self._element_spec)

    def _said(self) -> tuple[Any, ...]:
        return *super()._said(), repr(self._element_spec)

    def __repr__(self) -> str:
        return f"DatasetSpec({self._element_spec!r}, {self._shape!r})"

    def __reduce__(self) -> Any:
        return DatasetSpec, (self._element_spec, self._shape)
