"""Look-up tables as nodes: rows and builders of the ops that make, fill, read and change them."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.graph import Operation
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow_runtime.wire.errors import InvalidArgumentError

_SHARED: dict[str, Any] = {"container": "", "shared_name": "", "use_node_name_sharing": False}
_OF_TENSORS = "MutableHashTableOfTensorsV2"


def _handle(op: Operation) -> list[Dims]:
    return [()]


def value_shape(op: Operation) -> Dims:
    """Of the value of one key, as the table's own node says it; None where the handle comes from elsewhere."""
    made_by = op.inputs[0].op
    if made_by.type == _OF_TENSORS:
        return made_by.attrs["value_shape"].dims
    return () if made_by.type in ("HashTableV2", "MutableHashTableV2") else None


def _found(op: Operation) -> list[Dims]:
    _, keys, default = op.inputs
    one = value_shape(op)
    many = None if one is None or keys._shape is None else keys._shape + one
    if not any(shapes.compatible(default._shape, wanted) for wanted in (one, many)):
        raise InvalidArgumentError(
            f"{op.type}: default_value must have the shape of a value, {shapes.show(one)}, or of one for each key, "
            f"{shapes.show(many)}; got {shapes.show(default._shape)}"
        )
    return [many]


def _exported(op: Operation) -> list[Dims]:
    one = value_shape(op)
    return [(None,), None if one is None else (None, *one)]


op("HashTableV2", "-> table_handle: resource", _handle, stateful=True, **_SHARED)
op("MutableHashTableV2", "-> table_handle: resource", _handle, stateful=True, **_SHARED)
op(_OF_TENSORS, "-> table_handle: resource", _handle, stateful=True, **_SHARED)
op("InitializeTableV2", "table_handle: resource, keys: Tkey, values: Tval ->", stateful=True)
op(
    "InitializeTableFromTextFileV2", "table_handle: resource, filename: string ->", stateful=True,
    vocab_size=-1, delimiter="\t", offset=0,
)  # fmt: skip
_FIND = "table_handle: resource, keys: Tin, default_value: Tout -> values: Tout"
op("LookupTableFindV2", _FIND, _found, stateful=True)
op("LookupTableInsertV2", "table_handle: resource, keys: Tin, values: Tout ->", stateful=True)
op("LookupTableRemoveV2", "table_handle: resource, keys: Tin ->", stateful=True)
op("LookupTableImportV2", "table_handle: resource, keys: Tin, values: Tout ->", stateful=True)
op("LookupTableSizeV2", "table_handle: resource -> size: int64", _handle, stateful=True)
op(
    "LookupTableExportV2", "table_handle: resource -> keys: Tkeys, values: Tvalues", _exported, stateful=True,
)  # fmt: skip
