"""Tables that change as they are used."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops.lookup import NodeTable
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.errors import UnimplementedError


class ChangingTable(NodeTable):
    """What the tables have in common that ops fill and change."""

    _default_value: Tensor

    def _saved_as(self, name: str, checkpoint: bool) -> None:
        self.saved_name = name
        self._saved = self.export() if checkpoint else None
        if checkpoint:
            get_default_graph().add_to_collection(GraphKeys.SAVEABLE_OBJECTS, self)

    def _beside(self, op_type: str, inputs: list[Any], scope: str, attrs: dict[str, Any] | None = None) -> Any:
        graph = get_default_graph()
        with graph.name_scope(scope), graph.colocate_with(self._resource_handle):
            return apply_op(op_type, [self._resource_handle, *inputs], attrs)

    def size(self, name: str | None = None) -> Tensor:
        """How many keys there are (int64)."""
        return self._beside("LookupTableSizeV2", [], name or f"{self.name}_Size")

    def insert(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """An op that gives the keys these values."""
        graph = get_default_graph()
        with graph.name_scope(name or f"{self.name}_lookup_table_insert"):
            keys = convert_to_tensor(keys, self._key_dtype, "keys")
            values = convert_to_tensor(values, self._value_dtype, "values")
            with graph.colocate_with(self._resource_handle):
                return apply_op("LookupTableInsertV2", [self._resource_handle, keys, values])

    def remove(self, keys: Any, name: str | None = None) -> Operation:
        """An op that takes the keys out; those that are not there are left out."""
        keys = convert_to_tensor(keys)
        self._check_keys(keys)
        return self._beside("LookupTableRemoveV2", [keys], name or f"{self.name}_lookup_table_remove")

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """(keys [n], values [n, ...])."""
        attrs = {"Tkeys": self._key_dtype, "Tvalues": self._value_dtype}
        scope = name or f"{self.name}_lookup_table_export_values"
        keys, values = self._beside("LookupTableExportV2", [], scope, attrs)
        return keys, values

    # ------------------------------------------------------------------ what a Saver asks

    def saved_tensors(self) -> dict[str, Tensor]:
        """By the ends of their names in a checkpoint."""
        keys, values = self._saved or self.export()
        return {"-keys": keys, "-values": values}

    def restored(self, tensors: dict[str, Tensor]) -> Operation:
        """An op that makes these its content."""
        content = [tensors["-keys"], tensors["-values"]]
        return self._beside("LookupTableImportV2", content, f"{self.saved_name}_table_restore")


class MutableHashTable(ChangingTable):
    """A table that ops fill and change. checkpoint: a Saver of all variables saves it too, as <name>-keys, -values.

    default_value: of keys that it does not have; its shape is the shape of all values.
    """

    def __init__(
        self, key_dtype: Any, value_dtype: Any, default_value: Any, name: str = "MutableHashTable",
        checkpoint: bool = True,
    ):  # fmt: skip
        super().__init__(key_dtype, value_dtype)
        self._default_value = convert_to_tensor(default_value, self._value_dtype)
        dims = self._default_value._shape
        attrs: dict[str, Any] = {"key_dtype": self._key_dtype, "value_dtype": self._value_dtype}
        attrs["use_node_name_sharing"] = checkpoint
        kind = "MutableHashTableV2" if dims == () else "MutableHashTableOfTensorsV2"
        if dims != ():
            attrs["value_shape"] = Shape(dims)
        self._resource_handle = apply_op(kind, [], attrs, name)
        self._saved_as(name, checkpoint)

    def lookup(  # type: ignore[override]  # TensorFlow's order of arguments
        self, keys: Any, dynamic_default_values: Any = None, name: str | None = None
    ) -> Tensor:
        """The values of the keys, [*keys.shape, *value shape]. dynamic_default_values: in their stead, or one each."""
        default = self._default_value if dynamic_default_values is None else dynamic_default_values
        keys = convert_to_tensor(keys, self._key_dtype, "keys")
        return self._beside("LookupTableFindV2", [keys, default], name or f"{self.name}_lookup_table_find")


class DenseHashTable(ChangingTable):
    """A table that ops fill and change, of buckets: a key may be a vector, as wide as empty_key.

    empty_key, deleted_key: what stands in buckets without a key; they differ, and are refused as keys
    (InvalidArgumentError). initial_num_buckets: a power of 2 from 4 on, doubled when eight tenths are taken; None:
    2^17. checkpoint: a Saver of all variables saves it too, as <name>-keys and -values, the buckets as they
    are.
    """

    def __init__(
        self, key_dtype: Any, value_dtype: Any, default_value: Any, empty_key: Any, deleted_key: Any,
        initial_num_buckets: int | None = None, name: str = "MutableDenseHashTable", checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ):  # fmt: skip
        super().__init__(key_dtype, value_dtype)
        if experimental_is_anonymous:
            raise UnimplementedError(
                "DenseHashTable: experimental_is_anonymous, a table without a name, is not supported"
            )
        self._default_value = convert_to_tensor(default_value, self._value_dtype, "default_value")
        inputs = [
            convert_to_tensor(empty_key, self._key_dtype, "empty_key"),
            convert_to_tensor(deleted_key, self._key_dtype, "deleted_key"),
        ]
        attrs: dict[str, Any] = {"value_dtype": self._value_dtype, "value_shape": Shape(self._default_value._shape)}
        attrs["use_node_name_sharing"] = checkpoint
        if initial_num_buckets is not None:
            attrs["initial_num_buckets"] = initial_num_buckets
        self._resource_handle = apply_op("MutableDenseHashTableV2", inputs, attrs, name)
        self._saved_as(name, checkpoint)

    def lookup(self, keys: Any, name: str | None = None) -> Tensor:
        """The values of the keys, [how many keys, *value shape]; the default value of those that it does not have."""
        keys = convert_to_tensor(keys, self._key_dtype, "keys")
        return self._beside("LookupTableFindV2", [keys, self._default_value], name or f"{self.name}_lookup_table_find")

    def insert_or_assign(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """As insert."""
        return self.insert(keys, values, name)

    def erase(self, keys: Any, name: str | None = None) -> Operation:
        """As remove."""
        return self.remove(keys, name)

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """(keys [buckets, numbers of a key], values [buckets, numbers of a value]): the buckets, empty ones too."""
        return super().export(name)
