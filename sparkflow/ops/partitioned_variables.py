"""A variable in slices along one axis, each its own Variable (often on its own parameter server), and who cuts it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import register_conversion
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.shapes import TensorShape
from sparkflow.ops import array_join, array_slice, control_flow, operators
from sparkflow.ops.variables import Variable
from sparkflow_runtime.wire.dtypes import DType, as_dtype

Partitioner = Callable[..., Sequence[int]]


class PartitionedVariable:
    """Parts of one tensor, in the order of their offsets; converts to a tensor by concatenation.

    name: without part numbers. shape: of the whole. partitions: how many parts along each axis.
    """

    def __init__(
        self, name: str, shape: Sequence[int], dtype: Any, variable_list: list[Variable], partitions: Sequence[int]
    ):
        if math.prod(partitions) != len(variable_list):
            raise ValueError(
                f"PartitionedVariable {name!r}: partitions {list(partitions)} do not make {len(variable_list)} parts"
            )
        self.name, self._shape, self._dtype = name, tuple(int(d) for d in shape), as_dtype(dtype).base_dtype
        self._variable_list = sorted(variable_list, key=_offset)
        self._partitions = list(partitions)
        self._whole = self._joined()

    dtype: DType = property(lambda self: self._dtype)  # type: ignore[assignment]

    @property
    def shape(self) -> TensorShape:
        return TensorShape(self._shape)

    def get_shape(self) -> TensorShape:
        return TensorShape(self._shape)

    @property
    def graph(self) -> Any:
        return self._variable_list[0].graph

    def _get_variable_list(self) -> list[Variable]:
        return self._variable_list

    def _get_partitions(self) -> list[int]:
        return self._partitions

    def _partition_axes(self) -> list[int]:
        return [axis for axis, parts in enumerate(self._partitions) if parts > 1] or [0]

    def __iter__(self) -> Iterator[Variable]:
        return iter(self._variable_list)

    def __len__(self) -> int:
        return len(self._variable_list)

    def as_tensor(self) -> Tensor:
        """The whole: the same tensor at each call, the parts' values concatenated on the device current at creation."""
        return self._whole

    def _joined(self) -> Tensor:
        parts = [v.value() for v in self._variable_list]
        if len(parts) == 1:
            return parts[0]
        graph = get_default_graph()
        with graph.control_dependencies(None), graph.name_scope(self.name + "/ConcatPartitions/"):
            return array_join.concat(parts, axis=self._partition_axes()[0])

    _as_graph_element = as_tensor

    @property
    def initializer(self) -> Any:
        return control_flow.group(*[v.initializer for v in self._variable_list])

    def assign(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> list[Any]:
        """One assignment a part. value: of the whole, cut as the variable is cut; or a list of the parts' values."""
        return self._parts("assign", value, use_locking, name, read_value)

    def assign_add(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> list[Any]:
        return self._parts("assign_add", value, use_locking, name, read_value)

    def assign_sub(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> list[Any]:
        return self._parts("assign_sub", value, use_locking, name, read_value)

    def _parts(self, method: str, value: Any, *how: Any) -> list[Any]:
        if isinstance(value, (list, PartitionedVariable)):
            pieces = list(value)
            if len(pieces) != len(self):
                raise ValueError(
                    f"PartitionedVariable {self.name!r}: {method} takes a list of a value for each of its {len(self)} "
                    f"parts, got {len(pieces)} values; pass a tensor of shape {self.shape} to have it cut"
                )
        else:
            infos = [part._get_save_slice_info() for part in self._variable_list]  # every part was made with one
            pieces = [array_slice.slice_(value, info.var_offset, info.var_shape) for info in infos if info is not None]
        return [getattr(part, method)(piece, *how) for part, piece in zip(self._variable_list, pieces, strict=True)]

    def __repr__(self) -> str:
        return f"<tf.PartitionedVariable {self.name!r} shape={self.shape} dtype={self.dtype.name} parts={len(self)}>"


def _offset(variable: Variable) -> list[int]:
    info = variable._get_save_slice_info()
    if info is None:
        raise ValueError(f"All parts of a PartitionedVariable must have their slice information set: {variable}")
    return info.var_offset


def _convert(value: PartitionedVariable, dtype: Any, name: str | None, as_ref: bool) -> Tensor:
    if dtype is not None and not as_dtype(dtype).is_compatible_with(value.dtype):
        raise ValueError(f"Conversion of {value} to {as_dtype(dtype).name} was asked for; it is {value.dtype.name}")
    if as_ref:
        raise TypeError(f"{value} is no single variable: no reference to it exists, only to its parts")
    return value.as_tensor()


register_conversion(PartitionedVariable, _convert)
operators.install(PartitionedVariable)


class PartitionInfo:
    """What an initializer of one part may know: the shape of the whole, and where the part begins."""

    def __init__(self, full_shape: Sequence[int], var_offset: Sequence[int]):
        self.full_shape, self.var_offset = list(full_shape), list(var_offset)


def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Partitioner:
    """Cut every variable into num_shards parts along `axis`, into fewer where it is shorter."""

    def partitioner(shape: Any, dtype: Any, **_: Any) -> list[int]:
        dims = _whole(shape, axis)
        return [min(num_shards, d) if a == axis % len(dims) else 1 for a, d in enumerate(dims)]

    return partitioner


def variable_axis_size_partitioner(
    max_shard_bytes: int, axis: int = 0, bytes_per_string_element: int = 16, max_shards: int | None = None
) -> Partitioner:
    """Cut every variable along `axis` into parts of at most max_shard_bytes (a row at least), at most
    max_shards of them."""
    if max_shard_bytes < 1 or (max_shards is not None and max_shards < 1):
        raise ValueError(f"max_shard_bytes and max_shards must be positive, got {max_shard_bytes} and {max_shards}")

    def partitioner(shape: Any, dtype: Any, **_: Any) -> list[int]:
        dims, element = _whole(shape, axis), _element_bytes(dtype, bytes_per_string_element)
        cut = axis % len(dims)
        row_bytes = max(1, shapes.product(dims) // max(1, dims[cut]) * element)
        parts = math.ceil(dims[cut] / max(1, max_shard_bytes // row_bytes))
        parts = max(1, parts if max_shards is None else min(parts, max_shards))
        return [parts if a == cut else 1 for a in range(len(dims))]

    return partitioner


def min_max_variable_partitioner(
    max_partitions: int = 1, axis: int = 0, min_slice_size: int = 256 << 10, bytes_per_string_element: int = 16
) -> Partitioner:
    """Cut every variable along `axis` into as many parts of at least min_slice_size bytes as it has, at most
    max_partitions and at most one a row."""
    if max_partitions < 1 or min_slice_size < 1 or bytes_per_string_element < 1:
        raise ValueError(
            "max_partitions, min_slice_size and bytes_per_string_element must be positive, got "
            f"{max_partitions}, {min_slice_size} and {bytes_per_string_element}"
        )

    def partitioner(shape: Any, dtype: Any, **_: Any) -> list[int]:
        dims, element = _whole(shape, axis), _element_bytes(dtype, bytes_per_string_element)
        cut = axis % len(dims)
        wanted = math.ceil(shapes.product(dims) * element / min_slice_size)
        return [max(1, min(dims[cut], max_partitions, wanted)) if a == cut else 1 for a in range(len(dims))]

    return partitioner


def _element_bytes(dtype: Any, of_string: int) -> int:
    kind = as_dtype(dtype)
    return of_string if kind.name == "string" else kind.size


def _whole(shape: Any, axis: int) -> tuple[int, ...]:
    dims = shapes.as_dims(shape)
    if dims is None or None in dims or not -len(dims) <= axis < len(dims):
        raise ValueError(f"A partitioner needs a known shape that has axis {axis}, got {shapes.show(dims)}")
    return dims  # type: ignore[return-value]


def cuts(shape: Sequence[int], partitions: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """(offset, shape) of each part; the first ones are longer where the size does not divide.

    Raises ValueError where partitions does not fit shape or cuts more than one axis.
    """
    if len(partitions) != len(shape) or any(not p >= 1 for p in partitions):
        raise ValueError(
            f"Partitioner returned {list(partitions)} for shape {list(shape)}: one count of 1 or more an axis is needed"
        )
    axes = [a for a, p in enumerate(partitions) if p > 1]
    if len(axes) > 1:
        raise ValueError(f"Cannot slice more than one dimension: partitions {list(partitions)} of shape {list(shape)}")
    axis = axes[0] if axes else 0
    count = partitions[axis]
    if count > max(1, shape[axis]):
        raise ValueError(f"Cannot cut dimension {axis} of shape {list(shape)} into {count} parts")
    small, longer = divmod(shape[axis], count)
    out, start = [], 0
    for part in range(count):
        size = small + (part < longer)
        out.append(
            (
                [start if a == axis else 0 for a in range(len(shape))],
                [size if a == axis else d for a, d in enumerate(shape)],
            )
        )
        start += size
    return out
