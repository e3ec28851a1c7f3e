"""Arrow's other forms of the same values, as the plain ones that the rest of the connectors knows.

| form | plain |
|---|---|
| dictionary (pandas' categories) | its values |
| string_view, binary_view (Polars) | string, binary |
| list_view, large_list_view | list, large_list |
| run-end encoded | its values |
| extension type (tensors of a fixed shape, UUIDs, pandas' own) | what it stores |
| lists and structs of dictionaries and views | of the plain ones |
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkflow_connectors.arrow_numpy import arrow_of, numpy_of

_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def plain_type(dtype: pa.DataType) -> pa.DataType:
    """Itself, where it is plain already."""
    types = pa.types
    if isinstance(dtype, pa.FixedShapeTensorType) and _is_permuted(dtype):
        return dtype
    if isinstance(dtype, pa.BaseExtensionType):
        return pa.bool_() if dtype == pa.bool8() else plain_type(dtype.storage_type)
    if types.is_dictionary(dtype):
        return plain_type(dtype.value_type)
    if types.is_run_end_encoded(dtype):  # of plain values; others Arrow cannot decode
        return dtype.value_type if plain_type(dtype.value_type) == dtype.value_type else dtype
    if _is_list_view(dtype):
        field = dtype.value_field.with_type(_inside(dtype.value_type))
        return pa.list_(field) if types.is_list_view(dtype) else pa.large_list(field)
    return _VIEWS.get(dtype) or _plain_nested(dtype)


def _is_list_view(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(dtype) or pa.types.is_large_list_view(dtype))


def _plain_nested(dtype: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_struct(dtype):
        return pa.struct([f.with_type(_inside(f.type)) for f in dtype])
    if not (types.is_list(dtype) or types.is_large_list(dtype) or types.is_fixed_size_list(dtype)):
        return dtype
    field = dtype.value_field.with_type(_inside(dtype.value_type))
    if types.is_fixed_size_list(dtype):
        return pa.list_(field, dtype.list_size)
    return pa.list_(field) if types.is_list(dtype) else pa.large_list(field)


def _inside(dtype: pa.DataType) -> pa.DataType:
    """Of values in lists and structs: of what Arrow cannot cast there, the type itself, which is then refused."""
    if isinstance(dtype, pa.BaseExtensionType) or pa.types.is_run_end_encoded(dtype) or _is_list_view(dtype):
        return dtype
    if pa.types.is_dictionary(dtype):
        return dtype.value_type if plain_type(dtype.value_type) == dtype.value_type else dtype
    return plain_type(dtype)


def _is_permuted(dtype: pa.FixedShapeTensorType) -> bool:
    return dtype.permutation is not None and dtype.permutation != sorted(dtype.permutation)


def plain_array(array: pa.Array) -> pa.Array:
    """The same values in the plain type; the array itself where it has that already."""
    dtype = array.type
    wanted = plain_type(dtype)
    if dtype == wanted:
        return array
    if isinstance(dtype, pa.BaseExtensionType) and wanted != pa.bool_():
        return plain_array(array.storage)
    if pa.types.is_run_end_encoded(dtype):
        return pc.run_end_decode(array)
    if pa.types.is_dictionary(dtype):
        values = plain_array(array.dictionary)  # Arrow takes nothing out of views
        return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
    if _is_list_view(dtype):  # of a part of an array Arrow's own cast gives wrong lists (seen in 26.0.1)
        return _listed(array, wanted)
    return array.cast(wanted)


def plain_column(column: pa.ChunkedArray) -> pa.Array:
    """The same values in the plain type, as one array: a single chunk is not copied for that."""
    chunks = [*map(plain_array, column.chunks)]  # dictionaries of float16 Arrow joins wrongly (seen in 26.0.1)
    return chunks[0] if len(chunks) == 1 else pa.chunked_array(chunks, plain_type(column.type)).combine_chunks()


def _listed(views: pa.Array, wanted: pa.DataType) -> pa.Array:
    lengths = numpy_of(pc.list_value_length(views), 0)
    values = views.flatten()
    values = values if values.type == wanted.value_type else values.cast(wanted.value_type)
    kind, offset = (pa.ListArray, np.int32) if pa.types.is_list(wanted) else (pa.LargeListArray, np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(offset)
    return kind.from_arrays(arrow_of(offsets), values, type=wanted, mask=views.is_null() if views.null_count else None)


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Column by column."""
    if all(plain_type(t) == t for t in batch.schema.types):
        return batch
    return pa.RecordBatch.from_arrays([*map(plain_array, batch.columns)], schema=plain_schema(batch.schema))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(plain_type(field.type)) for field in schema])


def from_start(array: pa.Array) -> pa.Array:
    """The same in memory that begins with it, where it holds lists of fixed sizes in each other: of any other, Arrow's
    take, filter and drop_null pick out other values (seen in 26.0.1)."""
    return pa.concat_arrays([array, array.slice(0, 0)]) if array.offset and _has_grid(array.type) else array


def _has_grid(dtype: pa.DataType) -> bool:
    if isinstance(dtype, pa.BaseExtensionType):
        return _has_grid(dtype.storage_type)
    if pa.types.is_struct(dtype):
        return any(_has_grid(field.type) for field in dtype)
    return pa.types.is_fixed_size_list(dtype) and bool(pa.types.is_fixed_size_list(dtype.value_type))
