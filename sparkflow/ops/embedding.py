"""Look-ups of rows in tables, whole or cut into shards."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, array_join, array_slice, clip, math
from sparkflow_runtime.wire import dtypes


def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: float | None = None,
) -> Tensor:
    """The rows of a table at `ids` (int32 or int64, any shape): shape ids + params.shape[1:].

    params: one table, a list of shards of equal row shape, or a partitioned variable. Row i is in shard i % n ("mod"),
    or the shards hold consecutive rows, the first of them one more where they do not come out even ("div").
    max_norm: rows of a larger L2 norm are scaled down to it. Each gather stands beside its table.
    """
    if hasattr(ids, "with_flat_values"):  # a RaggedTensor: rows for each of its values
        settings = (partition_strategy, name, validate_indices, max_norm)
        return ids.with_flat_values(embedding_lookup(params, ids.flat_values, *settings))
    tables = _tables(params)
    graph = get_default_graph()
    with graph.name_scope(name or "embedding_lookup") as scope:
        ids = convert_to_tensor(ids, name="ids")
        if len(tables) == 1:
            with graph.colocate_with(_handle(tables[0])):
                rows = _clipped(array_slice.gather(tables[0], ids, name=scope), ids, max_norm)
                return array.identity(rows)
        if partition_strategy not in ("mod", "div"):
            raise ValueError(f"embedding_lookup: partition_strategy must be 'mod' or 'div', got {partition_strategy!r}")
        return _from_shards(tables, ids, partition_strategy, max_norm, scope)


def _tables(params: Any) -> list[Any]:
    if hasattr(params, "_get_variable_list"):
        params = params._get_variable_list()
    tables = list(params) if isinstance(params, (list, tuple)) else [params]
    # A partitioned table as one of a list is that whole table, as in TensorFlow.
    tables = [convert_to_tensor(t) if hasattr(t, "_get_variable_list") else t for t in tables]
    if not tables or any(t is None for t in tables):
        raise ValueError(f"embedding_lookup: params must be a table or a non-empty list of shards, got {params!r}")
    return tables


def _handle(table: Any) -> Any:
    """What to stand beside: a variable's own op, or the tensor's."""
    return convert_to_tensor(table, as_ref=True).op


def _static(table: Any) -> shapes.Dims:
    return shapes.as_dims(table.get_shape())


def _from_shards(tables: list[Any], ids: Tensor, strategy: str, max_norm: float | None, scope: str) -> Tensor:
    """Sort the ids by shard, look each part up beside its shard, and put the rows back in the order of the ids."""
    n, graph = len(tables), get_default_graph()
    flat = array.reshape(ids, [-1])
    positions = math.range(0, array.size(flat), 1)
    shard, local = _mod(flat, n) if strategy == "mod" else _div(flat, tables)
    shard = math.cast(shard, dtypes.int32)
    parts = array_join.dynamic_partition(local, shard, n)
    places = array_join.dynamic_partition(positions, shard, n)
    found = []
    for table, part in zip(tables, parts):
        with graph.colocate_with(_handle(table)):
            found.append(_clipped(array_slice.gather(table, part), part, max_norm))
    stitched = array_join.dynamic_stitch(places, found)
    row = _static(tables[0])
    for table in tables[1:]:
        dims = _static(table)
        if dims is not None and row is not None:
            row = (row[0], *(shapes.merge(row[1:], dims[1:]) or ()))
    known = row is not None and None not in row[1:]
    row_sizes: Any = row[1:] if row is not None and known else array.shape(convert_to_tensor(tables[0]))[1:]
    if known and 0 not in row_sizes and ids._shape is not None and len(ids._shape) == 1:
        whole: Any = [-1, *row_sizes]
    else:
        whole = apply_op("ConcatV2", [[array.shape(ids), row_sizes], 0])
    out = array.reshape(stitched, whole, name=scope)
    out.set_shape(None if ids._shape is None or row is None else ids._shape + row[1:])
    return out


def _mod(flat: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return math.floormod(flat, n), math.floordiv(flat, n)


def _div(flat: Tensor, tables: list[Any]) -> tuple[Tensor, Tensor]:
    """The first `extra` shards hold one row more than the others."""
    n = len(tables)
    sizes = [(_static(t) or (None,))[0] for t in tables]
    if all(s is not None for s in sizes):
        total: Any = sum(sizes)
        each, extra = total // n, total % n
        each, extra = (convert_to_tensor(v, flat.dtype.base_dtype) for v in (each, extra))
    else:
        rows = [array.shape(convert_to_tensor(t))[0] for t in tables]
        total = math.cast(math.add_n(rows), flat.dtype)
        each, extra = math.floordiv(total, n), math.floormod(total, n)
    wide = math.add(each, 1)
    shard = math.maximum(math.floordiv(flat, wide), math.floordiv(math.subtract(flat, extra), each))
    in_wide = math.less(shard, extra)
    local_wide, local_each = math.floormod(flat, wide), math.floormod(math.subtract(flat, extra), each)
    return shard, apply_op("Select", [in_wide, local_wide, local_each])


def _clipped(rows: Tensor, ids: Tensor, max_norm: float | None) -> Tensor:
    """Rows of norm at most max_norm; the norm is over all axes but those of ids."""
    if max_norm is None:
        return rows
    if ids._shape is None or rows._shape is None:
        return clip.clip_by_norm(rows, max_norm, axes=math.range(array.rank(ids), array.rank(rows)))
    return clip.clip_by_norm(rows, max_norm, axes=list(range(len(ids._shape), len(rows._shape))))
