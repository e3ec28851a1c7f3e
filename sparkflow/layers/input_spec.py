"""What a layer says of the inputs it takes, and the check of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.graph import Tensor
from sparkflow_runtime.wire.dtypes import DType, as_dtype


class InputSpec:
    """Of one input: dtype; shape (None where any size does); its rank by ndim, or from min_ndim to max_ndim; axes: the
    sizes of some axes, which may count from the end."""

    def __init__(
        self,
        dtype: Any = None,
        shape: Any = None,
        ndim: int | None = None,
        max_ndim: int | None = None,
        min_ndim: int | None = None,
        axes: Mapping[int, int | None] | None = None,
    ):
        self.dtype: DType | None = None if dtype is None else as_dtype(dtype)
        self.shape = None if shape is None else shapes.TensorShape(shape)
        self.ndim = ndim if self.shape is None else self.shape.ndims
        self.max_ndim, self.min_ndim = max_ndim, min_ndim
        self.axes = {int(axis): size for axis, size in (axes or {}).items()}

    def __repr__(self) -> str:
        told = {name: value for name, value in vars(self).items() if value not in (None, {})}
        return f"InputSpec({', '.join(f'{name}={value}' for name, value in told.items())})"

    def check(self, tensor: Tensor, layer: str) -> None:
        """Raises ValueError where it does not fit."""
        wrong = self._wrong(tensor)
        if wrong:
            raise ValueError(
                f"Input of layer {layer} is incompatible with the layer: expected {wrong}, got {tensor.name} of shape "
                f"{shapes.show(tensor._shape)} and type {tensor.dtype.name}"
            )

    def _wrong(self, tensor: Tensor) -> str:
        dims = tensor._shape
        if self.dtype is not None and tensor.dtype.base_dtype != self.dtype:
            return f"dtype={self.dtype.name}"
        if dims is None:
            ranked = [name for name in ("ndim", "min_ndim", "max_ndim") if getattr(self, name) is not None]
            return f"a known rank ({', '.join(ranked)})" if ranked or self.axes else ""
        rank = len(dims)
        for name, fits in (
            ("ndim", self.ndim in (None, rank)),
            ("min_ndim", rank >= (self.min_ndim or 0)),
            ("max_ndim", self.max_ndim is None or rank <= self.max_ndim),
        ):
            if not fits:
                return f"{name}={getattr(self, name)}"
        for axis, size in self.axes.items():
            if not -rank <= axis < rank or (size is not None and dims[axis] not in (None, size)):
                return f"axis {axis} of size {size}"
        if self.shape is not None and not self.shape.is_compatible_with(dims):
            return f"shape={self.shape}"
        return ""
