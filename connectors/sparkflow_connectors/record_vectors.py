"""Spark's ML vectors as lists of their values, which is how spark-tensorflow-connector writes them: sparse ones too."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkflow_connectors.arrow_numpy import arrow_of, numpy_of
from sparkflow_connectors.column_types import is_vector

_LIST = pa.list_(pa.float64())


def listed_schema(schema: pa.Schema) -> pa.Schema:
    """With lists of doubles in the place of vectors."""
    return pa.schema([field.with_type(_LIST) if is_vector(field.type) else field for field in schema])


def listed_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same of the columns."""
    arrays = [listed(column) if is_vector(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=listed_schema(batch.schema))


def listed(array: pa.StructArray) -> pa.ListArray:
    """All the values of each vector. type 1: dense, all of them; type 0: sparse, `values` at `indices` of `size`."""
    kinds, sizes, indices, values = array.flatten()  # of a null vector, all of them null
    dense = numpy_of(kinds, 1) == 1
    given = np.asarray(numpy_of(pc.list_value_length(values), 0), np.int64)
    lengths = np.where(dense, given, numpy_of(sizes, 0))
    ends = np.cumsum(lengths)
    out, of_row = np.zeros(ends[-1] if len(ends) else 0), np.repeat(np.arange(len(array)), given)
    place = np.arange(len(of_row)) - (np.cumsum(given) - given)[of_row]
    place[~dense[of_row]] = numpy_of(indices.filter(arrow_of(~dense)).flatten())
    out[(ends - lengths)[of_row] + place] = numpy_of(values.flatten())
    offsets = arrow_of(np.concatenate([[0], ends]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, arrow_of(out), mask=array.is_null() if array.null_count else None)
