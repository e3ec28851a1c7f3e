"""Inputs of saved models that are SparseTensors: a column of lists is put together as one in front of the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import sparkflow as tf
from sparkflow_connectors.assembly import assembled, placeholders
from sparkflow_connectors.column_types import Source
from sparkflow_connectors.columns import SPARSE, Column
from sparkflow_connectors.schema import Columns
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError

_SCOPE = "sparkflow_columns"


@dataclass
class SparseInputs:
    """fed: the tensors that rows are fed to, by name. replaced: what takes the place of the saved graph's tensors."""

    sources: dict[str, Source] = field(default_factory=dict)  # by input
    fed: dict[str, Any] = field(default_factory=dict)
    replaced: dict[str, Any] = field(default_factory=dict)


def sparse_inputs(infos: Mapping[str, Any], columns: Mapping[str, str | Column]) -> SparseInputs:
    """Nodes of the default graph that make SparseTensors for those inputs of a signature that are some.

    Raises InvalidArgumentError on a Column that is not sparse, or whose values are of another dtype.
    """
    sparse = {name: info for name, info in sorted(infos.items()) if info.WhichOneof("encoding") == "coo_sparse"}
    if not sparse:
        return SparseInputs()
    sources = {name: _source(name, info, columns.get(name, name)) for name, info in sparse.items()}
    read = Columns({source.name: source for source in sources.values()})
    with tf.name_scope(_SCOPE):
        fed = placeholders(read)
        made, _ = assembled(read, fed)
    found = SparseInputs(sources, fed)
    for name, info in sparse.items():
        tensor, names = made[sources[name].name], info.coo_sparse
        found.replaced[names.values_tensor_name] = tensor.values
        found.replaced[names.indices_tensor_name] = tensor.indices
        found.replaced[names.dense_shape_tensor_name] = tensor.dense_shape
    return found


def input_type(name: str, dtype: DType) -> pa.DataType:
    """Of a column of such numbers. Raises InvalidArgumentError on a dtype that no column has."""
    try:
        return pa.string() if dtype is dtypes.string else pa.from_numpy_dtype(dtype.np)
    except pa.ArrowNotImplementedError:
        raise InvalidArgumentError(
            f"Input {name!r} is {dtype.name}, which no column is. Give `inputs` a tensor behind it, after a cast"
        ) from None


def _source(name: str, info: Any, given: str | Column) -> Source:
    column = Column(given, kind=SPARSE) if isinstance(given, str) else given
    dims = info.tensor_shape.dim
    if not info.tensor_shape.unknown_rank and len(dims) != 2:
        raise InvalidArgumentError(
            f"Input {name!r} is a SparseTensor of {len(dims)} dimensions, and a column makes one of 2 (rows, values). "
            "Export the model with an input that a column can be"
        )
    if column.kind != SPARSE or column.shape is not None:
        raise InvalidArgumentError(
            f"Input {name!r} is a SparseTensor, which a column of lists can be: say columns={{{name!r}: "
            f'Column({column.name!r}, kind="sparse")}}, without a shape'
        )
    dtype = dtypes.as_dtype(info.dtype)
    source = Source(column.loaded(), pa.list_(pa.string() if column.is_by_id else input_type(name, dtype)))
    if source.dtype is not dtype:
        raise InvalidArgumentError(
            f"Input {name!r} is {dtype.name}, and Column {column.name!r} gives {source.dtype.name}. Say how the column "
            "is read, or export the model with such an input"
        )
    return source
