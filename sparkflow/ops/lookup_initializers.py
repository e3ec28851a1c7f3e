"""What fills look-up tables: tensors of keys and values, text files."""

from __future__ import annotations

from typing import Any

import sparkflow.ops.table_nodes  # noqa: F401  (the rows of the ops)
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import control_flow
from sparkflow_runtime.wire import dtypes


class TextFileIndex:
    """What stands for a column: the whole line, or its number."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class TableInitializerBase:
    """Knows the types of a table's content, and makes the op that fills it."""

    def __init__(self, key_dtype: Any, value_dtype: Any):
        self._key_dtype, self._value_dtype = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)

    key_dtype = property(lambda self: self._key_dtype)
    value_dtype = property(lambda self: self._value_dtype)
    _shared_name = ""

    def initialize(self, table: Any) -> Operation:
        raise NotImplementedError(f"{type(self).__name__} does not fill tables: define initialize(table)")

    def _added(self, op: Operation) -> Operation:
        get_default_graph().add_to_collection(GraphKeys.TABLE_INITIALIZERS, op)
        return op


class KeyValueTensorInitializer(TableInitializerBase):
    """Keys and values as two tensors of one shape."""

    def __init__(self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: str | None = None):
        self._keys = convert_to_tensor(keys, key_dtype, "keys")
        self._values = convert_to_tensor(values, value_dtype, "values")
        self._name = "key_value_init" if name is None else name
        super().__init__(self._keys.dtype.base_dtype, self._values.dtype.base_dtype)

    def initialize(self, table: Any) -> Operation:
        with get_default_graph().name_scope(self._name):
            return self._added(apply_op("LookupTableImportV2", [table.resource_handle, self._keys, self._values]))


class TextFileInitializer(TableInitializerBase):
    """Keys and values are columns of a text file, its lines or their numbers (TextFileIndex).

    vocab_size: how many lines are read; fewer are an error. value_index_offset: added to line numbers.
    """

    def __init__(
        self, filename: Any, key_dtype: Any, key_index: int, value_dtype: Any, value_index: int,
        vocab_size: int | None = None, delimiter: str = "\t", name: str | None = None, value_index_offset: int = 0,
    ):  # fmt: skip
        if not isinstance(filename, Tensor) and not filename:
            raise ValueError("TextFileInitializer: a filename is needed")
        super().__init__(key_dtype, value_dtype)
        for what, dtype, index in (("key", self._key_dtype, key_index), ("value", self._value_dtype, value_index)):
            _check_column(what, dtype, index)
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"`vocab_size` should be > 0, received: {vocab_size}")
        self._filename, self._name = filename, name or "text_file_init"
        attrs = {"key_index": key_index, "value_index": value_index, "delimiter": delimiter}
        self._attrs = {**attrs, "vocab_size": vocab_size or -1, "offset": value_index_offset}
        parts = [filename, *([vocab_size] if vocab_size else []), key_index, value_index]
        self._shared_name = "_".join(map(str, ["hash_table", *parts, *filter(None, [value_index_offset])]))

    def initialize(self, table: Any) -> Operation:
        graph = get_default_graph()
        with graph.name_scope(self._name):
            filename = convert_to_tensor(self._filename, dtypes.string, "asset_filepath")
            op = apply_op("InitializeTableFromTextFileV2", [table.resource_handle, filename], self._attrs)
        if filename.op.type == "Const":
            graph.add_to_collection(GraphKeys.ASSET_FILEPATHS, filename)
        return self._added(op)


def _check_column(what: str, dtype: dtypes.DType, index: int) -> None:
    if index < TextFileIndex.WHOLE_LINE:
        raise ValueError(f"`{what}_index` should be >= -2, received: {index}")
    if index == TextFileIndex.LINE_NUMBER and dtype != dtypes.int64:
        raise ValueError(f"`{what}_dtype` must be int64 if `{what}_index` is a line's number, received: {dtype}")
    if index == TextFileIndex.WHOLE_LINE and not dtype.is_integer and dtype != dtypes.string:
        raise ValueError(f"`{what}_dtype` must be an integer or string for the whole line, received: {dtype}")


class TextFileStringTableInitializer(TextFileInitializer):
    """From the number of a line to its text."""

    def __init__(
        self, filename: Any, key_column_index: int = TextFileIndex.LINE_NUMBER,
        value_column_index: int = TextFileIndex.WHOLE_LINE, vocab_size: int | None = None, delimiter: str = "\t",
        name: str = "text_file_string_table_init",
    ):  # fmt: skip
        columns = (dtypes.int64, key_column_index, dtypes.string, value_column_index)
        super().__init__(filename, *columns, vocab_size, delimiter, name)


class TextFileIdTableInitializer(TextFileInitializer):
    """From the text of a line to its number."""

    def __init__(
        self, filename: Any, key_column_index: int = TextFileIndex.WHOLE_LINE,
        value_column_index: int = TextFileIndex.LINE_NUMBER, vocab_size: int | None = None, delimiter: str = "\t",
        name: str = "text_file_id_table_init", key_dtype: Any = dtypes.string,
    ):  # fmt: skip
        columns = (key_dtype, key_column_index, dtypes.int64, value_column_index)
        super().__init__(filename, *columns, vocab_size, delimiter, name)


def tables_initializer(name: str = "init_all_tables") -> Operation:
    """An op that fills all tables of the graph that are filled once."""
    found = get_default_graph().get_collection(GraphKeys.TABLE_INITIALIZERS)
    return control_flow.group(*found, name=name) if found else control_flow.no_op(name)
