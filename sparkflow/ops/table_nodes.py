"""Look-up tables as nodes: rows and builders of the ops that make, fill, read and change them."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.graph import Operation
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.errors import InvalidArgumentError

_SHARED: dict[str, Any] = {"container": "", "shared_name": "", "use_node_name_sharing": False}
_OF_TENSORS, _DENSE = "MutableHashTableOfTensorsV2", "MutableDenseHashTableV2"


def _handle(op: Operation) -> list[Dims]:
    return [()]


def _dense(op: Operation) -> list[Dims]:
    for key in op.inputs:
        if key._shape is not None and len(key._shape) > 1:
            raise InvalidArgumentError(
                f"{op.type}: a key must be a scalar or a vector, got shape {shapes.show(key._shape)}"
            )
    return [()]


def value_shape(op: Operation) -> Dims:
    """Of the value of one key, as the table's own node says it; None where the handle comes from elsewhere."""
    made_by = op.inputs[0].op
    if made_by.type in (_OF_TENSORS, _DENSE):
        return made_by.attrs["value_shape"].dims
    return () if made_by.type in ("HashTableV2", "MutableHashTableV2") else None


def _batch(op: Operation, keys: Dims) -> Dims:
    """How many keys there are: their shape, without that of one key at its end where keys are vectors."""
    made_by = op.inputs[0].op
    if made_by.type != _DENSE or keys is None:
        return keys
    one = made_by.inputs[0]._shape
    if one is None:
        return None
    if len(keys) < len(one) or not shapes.compatible(keys[len(keys) - len(one) :], one):
        raise InvalidArgumentError(
            f"{op.type}: the shape of keys must end with that of one key, {shapes.show(one)}; got {shapes.show(keys)}"
        )
    return keys[: len(keys) - len(one)]


def _found(op: Operation) -> list[Dims]:
    _, keys, default = op.inputs
    one, batch = value_shape(op), _batch(op, keys._shape)
    many = None if one is None or batch is None else batch + one
    if not any(shapes.compatible(default._shape, wanted) for wanted in (one, many)):
        raise InvalidArgumentError(
            f"{op.type}: default_value must have the shape of a value, {shapes.show(one)}, or of one for each key, "
            f"{shapes.show(many)}; got {shapes.show(default._shape)}"
        )
    return [many]


def _exported(op: Operation) -> list[Dims]:
    if op.inputs[0].op.type == _DENSE:
        return [None, None]
    one = value_shape(op)
    return [(None,), None if one is None else (None, *one)]


op("HashTableV2", "-> table_handle: resource", _handle, stateful=True, **_SHARED)
op("MutableHashTableV2", "-> table_handle: resource", _handle, stateful=True, **_SHARED)
op(_OF_TENSORS, "-> table_handle: resource", _handle, stateful=True, **_SHARED)
op(
    _DENSE, "empty_key: key_dtype, deleted_key: key_dtype -> table_handle: resource", _dense, stateful=True,
    initial_num_buckets=1 << 17, max_load_factor=0.8, value_shape=Shape(()), **_SHARED,
)  # fmt: skip
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
