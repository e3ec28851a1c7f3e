"""Look-up tables as ops. Their handles are the tables themselves; what a table does is in resources/tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.strings import number, texts
from sparkflow_runtime.records.files import open_stream
from sparkflow_runtime.records.hashes import hash64
from sparkflow_runtime.resources.dense_tables import Buckets, DenseTable
from sparkflow_runtime.resources.tables import LINE_NUMBER, Columns, Table, TableSpec, parts_of
from sparkflow_runtime.wire.dtypes import DType, string
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.tensor_proto import as_bytes

_CPU = ("CPU",)


def _spec(node: Node) -> TableSpec:
    shape = node.attr("value_shape")
    dims = () if shape is None else shape.dims
    if dims is None or None in dims:
        raise InvalidArgumentError(f"{node.op} {node.name!r}: value_shape must be fully known, got {dims}")
    return TableSpec(node.attrs["key_dtype"], node.attrs["value_dtype"], node.op == "HashTableV2", tuple(dims))


def _alike(name: str, held: Any, wanted: Any) -> None:
    if held != wanted:
        raise InvalidArgumentError(
            f"Table {name!r} is held on this task as {held}, and this graph declares {wanted}. "
            "Give it another shared_name, or declare it alike"
        )


@bound("HashTableV2", "MutableHashTableV2", "MutableHashTableOfTensorsV2", handle=True, devices=_CPU)
def _table(node: Node) -> Callable[[], Table]:
    spec, name = _spec(node), node.resource_name
    held = node.resources.get_or_create(node.container, name, Table, lambda: Table(name, spec))
    _alike(name, held.spec, spec)
    return lambda: held


@bound("MutableDenseHashTableV2", handle=True, devices=_CPU)
def _dense_table(node: Node) -> Callable[..., DenseTable]:
    plain, name = _spec(node), node.resource_name
    buckets, load = node.attr("initial_num_buckets", 1 << 17), node.attr("max_load_factor", 0.8)

    def run(empty: Any, deleted: Any) -> DenseTable:
        empty, deleted = _array(empty), _array(deleted)
        if empty.ndim > 1 or empty.shape != deleted.shape:
            raise InvalidArgumentError(
                f"{node.op} {node.name!r}: empty and deleted keys must be scalars, or vectors of one size; got shapes "
                f"{list(empty.shape)} and {list(deleted.shape)}"
            )
        spec = plain._replace(key_shape=empty.shape)
        how = Buckets(_key(empty), _key(deleted), buckets, load)
        held = node.resources.get_or_create(
            node.container, name, DenseTable, lambda: DenseTable(name, spec, how, hash64)
        )
        _alike(name, (held.spec, held.how), (spec, how))
        return held

    return run


def _key(array: np.ndarray) -> Any:
    return tuple(array.tolist()) if array.ndim else array.item()


def _array(x: Any) -> np.ndarray:
    return texts(x) if isinstance(x, (bytes, str)) else host(x)


@bound("LookupTableFindV2", devices=_CPU)
def _find(node: Node) -> Callable[..., Any]:
    return lambda table, keys, default: table.find(_array(keys), _array(default))


@bound("LookupTableInsertV2", multi=True, devices=_CPU)
def _insert(node: Node) -> Callable[..., Any]:
    return lambda table, keys, values: table.insert(_array(keys), _array(values)) or ()


@bound("LookupTableRemoveV2", multi=True, devices=_CPU)
def _remove(node: Node) -> Callable[..., Any]:
    return lambda table, keys: table.remove(_array(keys)) or ()


@bound("InitializeTableV2", "LookupTableImportV2", multi=True, devices=_CPU)
def _fill(node: Node) -> Callable[..., Any]:
    return lambda table, keys, values: table.fill(_array(keys), _array(values)) or ()


@bound("LookupTableSizeV2", devices=_CPU)
def _size(node: Node) -> Callable[[Table], Any]:
    return lambda table: np.int64(len(table))


@bound("LookupTableExportV2", multi=True, devices=_CPU)
def _export(node: Node) -> Callable[[Table], Any]:
    return lambda table: table.export()


@bound("InitializeTableFromTextFileV2", multi=True, devices=_CPU)
def _fill_from_file(node: Node) -> Callable[..., Any]:
    key, value, delimiter = node.attrs["key_index"], node.attrs["value_index"], as_bytes(node.attr("delimiter", b"\t"))
    if len(delimiter) != 1:
        raise InvalidArgumentError(f"{node.op} {node.name!r}: delimiter must be one character, got {delimiter!r}")
    columns = Columns(key, value, delimiter, node.attr("vocab_size", -1), node.attr("offset", 0))

    def run(table: Table, filename: Any) -> tuple[()]:
        path = texts(filename).item().decode()
        with open_stream(path, "rb") as file:
            keys, values = parts_of(path, iter(file), columns)
        table.fill(_typed(keys, table.spec.key_dtype, key, path), _typed(values, table.spec.value_dtype, value, path))
        return ()

    return run


def _typed(parts: list[Any], dtype: DType, which: int, path: str) -> np.ndarray:
    """The array of these parts of lines. Raises InvalidArgumentError where one is no such number."""
    out = np.empty(len(parts), dtype.np)
    if dtype is string and which == LINE_NUMBER:
        raise InvalidArgumentError(f"The number of a line of {path} is int64, and the table has strings")
    for i, part in enumerate(parts):
        try:
            out[i] = part if dtype is string or which == LINE_NUMBER else number(part, dtype)
        except InvalidArgumentError:
            raise InvalidArgumentError(f"Field {part!r} in line {i} of {path} is not a valid {dtype.name}") from None
    return out
