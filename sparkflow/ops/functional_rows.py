"""What map_fn makes of what its function gives for each row: a tensor, or a RaggedTensor where these differ in size."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.ops import array, math
from sparkflow.ops.ragged import RaggedTensor, _count, flat_values_of
from sparkflow.ops.tensor_array import TensorArray


class Stacked:
    """Tensors of one shape, side by side."""

    def __init__(self, dtype: Any, infer_shape: bool):
        self._dtype, self._infer_shape = dtype, infer_shape

    def begun(self, size: Any) -> list[TensorArray]:
        return [TensorArray(self._dtype, size=size, dynamic_size=False, infer_shape=self._infer_shape)]

    def written(self, arrays: list[TensorArray], index: Any, found: Any) -> list[TensorArray]:
        return [arrays[0].write(index, found)]

    def made(self, arrays: list[TensorArray], known: int | None) -> Any:
        """known: how many rows there are, as far as the graph tells."""
        return stacked(arrays, known)[0]


class Ragged:
    """RaggedTensors of that ragged_rank, or for 0 tensors, whose first sizes differ: as rows of one RaggedTensor.

    Of each row a list keeps the values, and one for every ragged axis its lengths; lists are joined in the end.
    """

    def __init__(
        self, dtype: Any, ragged_rank: int, row_splits_dtype: Any, inner: tuple[int | None, ...] | None = None
    ):
        """inner: the sizes of the values behind their first axis, where they are known: for maps of no row."""
        self._dtype, self._rank, self._kind, self._inner = dtype, ragged_rank, row_splits_dtype, inner

    def begun(self, size: Any) -> list[TensorArray]:
        shapes = [None if self._inner is None else [None, *self._inner], [1], *[[None]] * self._rank]
        kinds = [self._dtype, *[self._kind] * (self._rank + 1)]
        return [
            TensorArray(kind, size=size, dynamic_size=False, infer_shape=False, element_shape=shape)
            for kind, shape in zip(kinds, shapes)
        ]

    def written(self, arrays: list[TensorArray], index: Any, found: Any) -> list[TensorArray]:
        given = found if isinstance(found, RaggedTensor) else convert_to_tensor(found, self._dtype)
        rank = given.ragged_rank if isinstance(given, RaggedTensor) else 0
        if rank != self._rank:
            raise ValueError(
                f"map_fn: fn gives {given}, of ragged_rank {rank}, and the RaggedTensorSpec of rows says {self._rank}"
            )
        lengths = given.nested_row_lengths() if isinstance(given, RaggedTensor) else ()
        count = array.reshape(_count(given, self._kind), [1])
        parts = [flat_values_of(given), count, *(math.cast(n, self._kind) for n in lengths)]
        return [a.write(index, part) for a, part in zip(arrays, parts, strict=True)]

    def made(self, arrays: list[TensorArray], known: int | None) -> Any:
        flat, *lengths = (a.concat() for a in arrays)
        return RaggedTensor.from_nested_row_lengths(flat, lengths)


def stacked(arrays: list[TensorArray], known: int | None) -> list[Tensor]:
    values = [a.stack() for a in arrays]
    for value in values:
        dims = value._shape
        if dims is not None:
            value.set_shape((known, *dims[1:]))
    return values


def of_rows(elem: Any) -> Any:
    """What fn is taken to give where no signature says it: what the rows of elem are."""
    if not isinstance(elem, RaggedTensor):
        return elem.dtype.base_dtype
    dims = elem.flat_values._shape
    return Ragged(elem.dtype.base_dtype, elem.ragged_rank - 1, elem.row_splits.dtype, dims and dims[1:])


def of_signature(given: Any, infer_shape: bool) -> Stacked | Ragged:
    """given: a type, a TensorSpec, a RaggedTensorSpec, or what `of_rows` gives."""
    if isinstance(given, Ragged):
        return given
    if hasattr(given, "ragged_rank"):
        dims, rank = given.shape.ndims, given.ragged_rank
        inner = None if dims is None else tuple(given.shape.as_list()[rank + 1 :])
        return Ragged(given.dtype, rank, given.row_splits_dtype, inner)
    is_spec = hasattr(given, "shape") and hasattr(given, "is_compatible_with")  # numpy's types have a shape, too
    return Stacked(given.dtype if is_spec else given, infer_shape)
