"""Arrays of a graph as columns of a table: types that Spark, pandas and Parquet have too.

| dtype | Arrow type |
|---|---|
| bool, int8..int64, float32, float64 | the same, sharing the array's memory (a bool is packed to bits) |
| uint8, uint16, uint32 | int16, int32, int64: Spark has no unsigned numbers |
| float16, bfloat16 | float32 |
| string | string (UTF-8) |
| [rows, ...] of these | lists, one for each further dimension |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import sparkflow as tf
from sparkflow_connectors.arrow_numpy import arrow_of
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError

_TYPES = {
    **{n: getattr(pa, n)() for n in ("int8", "int16", "int32", "int64", "float32", "float64")},
    "bool": pa.bool_(), "uint8": pa.int16(), "uint16": pa.int32(), "uint32": pa.int64(), "float16": pa.float32(),
    "bfloat16": pa.float32(), "string": pa.string(),
}  # fmt: skip


def by_name(predictions: Any) -> dict[str, Any]:
    """What an EstimatorSpec of PREDICT gives. Raises InvalidArgumentError on nothing, and on what makes no column."""
    if predictions is None:
        raise InvalidArgumentError("The model function gives no predictions where mode is 'infer' (PREDICT)")
    found = predictions if isinstance(predictions, dict) else {"prediction": predictions}
    for name, tensor in found.items():
        if not isinstance(name, str):
            raise InvalidArgumentError(f"Prediction {name!r}: its name must be a string, as a column's is")
        if isinstance(tensor, tf.RaggedTensor):
            raise InvalidArgumentError(
                f"Prediction {name!r} is a RaggedTensor: give it padded (`to_tensor()`), beside its `row_lengths()`"
            )
    return found


def arrow_type(name: str, dtype: DType, shape: Sequence[int | None], what: str = "Prediction") -> pa.DataType:
    """shape: of a row. what: has that name. Raises InvalidArgumentError on a dtype that no column has."""
    found = _TYPES.get(dtype.base_dtype.name)
    if found is None:
        raise InvalidArgumentError(f"{what} {name!r} is {dtype.name}, which no column holds: cast it in the graph")
    for _ in shape:
        found = pa.list_(pa.field("element", found))
    return found


def column(name: str, values: np.ndarray, kind: pa.DataType, what: str = "Prediction") -> pa.Array:
    """[rows, ...] as a column of this type. Raises InvalidArgumentError on bytes that are no UTF-8; what: has them."""
    leaf = kind
    while pa.types.is_list(leaf):
        leaf = leaf.value_type
    flat = np.ascontiguousarray(values).reshape(-1)
    try:
        if flat.dtype == object:
            found = pa.array(flat, leaf)
        else:
            found = arrow_of(flat.astype(leaf.to_pandas_dtype(), copy=False))
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(
            f"{what} {name!r} has bytes that are no UTF-8 ({error}): encode them in the graph, such as by "
            "tf.io.encode_base64"
        ) from None
    return _listed(found, values.shape, kind)


def _listed(flat: pa.Array, shape: tuple[int, ...], kind: pa.DataType) -> pa.Array:
    """The values as shape[0] lists of lists ..., innermost first."""
    kinds = []
    while pa.types.is_list(kind):
        kinds.append(kind)
        kind = kind.value_type
    for depth in range(len(kinds), 0, -1):
        lists = int(np.prod(shape[:depth], dtype=np.int64))
        offsets = np.arange(lists + 1, dtype=np.int32) * np.int32(shape[depth])
        flat = pa.ListArray.from_arrays(arrow_of(offsets), flat, type=kinds[depth - 1])
    return flat
