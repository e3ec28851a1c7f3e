"""Look-up tables that are filled once, and the buckets of words that they do not have."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import array_select, control_flow, math, strings
from sparkflow.ops.lookup_initializers import TableInitializerBase
from sparkflow_runtime.wire import dtypes


class LookupInterface:
    """What all tables are: keys of one type, values of another; `table[keys]` is `table.lookup(keys)`."""

    def __init__(self, key_dtype: Any, value_dtype: Any):
        self._key_dtype, self._value_dtype = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)

    @property
    def key_dtype(self) -> dtypes.DType:
        return self._key_dtype

    @property
    def value_dtype(self) -> dtypes.DType:
        return self._value_dtype

    @property
    def name(self) -> str:
        raise NotImplementedError(f"{type(self).__name__} has no name: define the property `name`")

    def size(self, name: str | None = None) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not count its keys: define size()")

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not find keys: define lookup(keys)")

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)

    def _check_keys(self, keys: Any) -> None:
        if keys.dtype.base_dtype != self._key_dtype:
            raise TypeError(f"Dtype of argument `keys` must be {self._key_dtype}, received: {keys.dtype}")


class NodeTable(LookupInterface):
    """A table that one node of the graph is; its name is the node's."""

    _resource_handle: Tensor

    @property
    def resource_handle(self) -> Tensor:
        return self._resource_handle

    @property
    def name(self) -> str:
        return self._resource_handle.op.name.split("/")[-1]


class StaticHashTable(NodeTable):
    """A table that its initializer fills once (tf.tables_initializer()), and that is read from then on.

    default_value: of keys that it does not have. Looking up before it is filled raises FailedPreconditionError.
    """

    def __init__(self, initializer: TableInitializerBase, default_value: Any, name: str | None = None):
        super().__init__(initializer.key_dtype, initializer.value_dtype)
        self._default_value = convert_to_tensor(default_value, self._value_dtype)
        shapes.merge(self._default_value._shape, ())
        attrs: dict[str, Any] = {"key_dtype": self._key_dtype, "value_dtype": self._value_dtype}
        attrs["shared_name"] = initializer._shared_name or f"hash_table_{uuid4()}"
        self._resource_handle = apply_op("HashTableV2", [], attrs, name or "hash_table")
        with get_default_graph().control_dependencies(None):
            self._init_op = initializer.initialize(self)

    @property
    def default_value(self) -> Tensor:
        return self._default_value

    @property
    def initializer(self) -> Operation:
        return self._init_op

    init = initializer

    def size(self, name: str | None = None) -> Tensor:
        """How many keys there are (int64)."""
        with get_default_graph().name_scope(name or f"{self.name}_Size"):
            return apply_op("LookupTableSizeV2", [self._resource_handle])

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The values of a tensor of keys, in its shape; of a SparseTensor, a SparseTensor."""
        keys = keys if isinstance(keys, SparseTensor) else convert_to_tensor(keys)
        self._check_keys(keys)
        with get_default_graph().name_scope(name or f"{self.name}_Lookup"):
            return _by_values(keys, self._found)

    def _found(self, keys: Tensor) -> Tensor:
        return apply_op("LookupTableFindV2", [self._resource_handle, keys, self._default_value])

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """(keys [n], values [n])."""
        with get_default_graph().name_scope(name or f"{self.name}_Export"):
            return exported(self)


HashTable = StaticHashTable


def _by_values(keys: Any, find: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(keys, SparseTensor):
        return SparseTensor(keys.indices, find(keys.values), keys.dense_shape)
    return find(keys)


def exported(table: Any) -> tuple[Tensor, Tensor]:
    attrs = {"Tkeys": table.key_dtype, "Tvalues": table.value_dtype}
    return apply_op("LookupTableExportV2", [table.resource_handle], attrs)


class HasherSpec(NamedTuple):
    """Which hash finds the bucket of a word that a table does not have."""

    hasher: str
    key: Any


FastHashSpec = HasherSpec("fasthash", None)


class StrongHashSpec(HasherSpec):
    """SipHash under a key of two 64-bit numbers."""

    __slots__ = ()

    def __new__(cls, key: Any) -> StrongHashSpec:
        if len(key) != 2 or not all(isinstance(part, int) for part in key):
            raise ValueError(f"StrongHashSpec: key must be a pair of integers, got {key!r}")
        return super().__new__(cls, "stronghash", list(key))


def _hash_of(spec: Any) -> Callable[..., Tensor]:
    if not isinstance(spec, HasherSpec):
        raise TypeError(f"`hasher_spec` must be of type HasherSpec, got {type(spec)}.")
    if spec.hasher not in ("fasthash", "legacy", "stronghash"):
        raise ValueError(f"Found unknown hasher {spec.hasher} in `hasher_spec`")
    if spec.hasher == "stronghash":
        return partial(strings.string_to_hash_bucket_strong, key=spec.key)
    return strings.string_to_hash_bucket_fast if spec.hasher == "fasthash" else strings.string_to_hash_bucket


class IdTableWithHashBuckets(LookupInterface):
    """Ids of words: a table's own, and for words it does not have one of num_oov_buckets ids behind, by their hash.

    table None: all words are hashed.
    """

    def __init__(
        self, table: Any, num_oov_buckets: int, hasher_spec: Any = FastHashSpec, name: str | None = None,
        key_dtype: Any = None,
    ):  # fmt: skip
        wanted = dtypes.string if key_dtype is None and table is None else dtypes.as_dtype(key_dtype or table.key_dtype)
        if table is not None:
            _check_id_types(table, wanted)
        elif num_oov_buckets <= 0:
            raise ValueError("`oov_buckets` must be > 0 if no `table` is supplied.")
        if not wanted.is_integer and wanted != dtypes.string:
            raise TypeError(f"Invalid `key_dtype`, expected integer or string, got {wanted}.")
        super().__init__(wanted, dtypes.int64)
        self._table, self._num_oov_buckets, self._hash = table, num_oov_buckets, _hash_of(hasher_spec)
        self._table_name = (name or ("hash_bucket" if table is None else table.name)).rstrip("/").split("/")[-1]

    @property
    def name(self) -> str:
        return self._table_name

    @property
    def resource_handle(self) -> Tensor | None:
        return None if self._table is None else self._table.resource_handle

    @property
    def initializer(self) -> Operation:
        return control_flow.no_op("init") if self._table is None else self._table.initializer

    init = initializer

    def size(self, name: str | None = None) -> Tensor:
        """How many ids there are, buckets and all."""
        with get_default_graph().name_scope(name or f"{self.name}_Size"):
            own = convert_to_tensor(0, dtypes.int64) if self._table is None else self._table.size()
            return math.add(own, self._num_oov_buckets)

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The ids (int64) of a tensor of words or numbers, in its shape; of a SparseTensor, a SparseTensor."""
        keys = keys if isinstance(keys, SparseTensor) else convert_to_tensor(keys)
        self._check_keys(keys)
        return _by_values(keys, lambda values: self._ids(values, name))

    def _ids(self, values: Tensor, name: str | None) -> Tensor:
        if self._table is not None and self._table.key_dtype == dtypes.int64:
            values = math.cast(values, dtypes.int64)
        if not self._num_oov_buckets:
            return self._table.lookup(values, name)
        with get_default_graph().name_scope(name or f"{self.name}_Lookup"):
            text = values if values.dtype.base_dtype == dtypes.string else strings.as_string(values)
            buckets = self._hash(text, num_buckets=self._num_oov_buckets, name="hash_bucket")
            if self._table is None:
                return buckets
            ids = self._table.lookup(values)
            known = math.not_equal(ids, self._table.default_value)
            return array_select.where_v2(known, ids, math.add(buckets, self._table.size()))


def _check_id_types(table: Any, wanted: dtypes.DType) -> None:
    if table.key_dtype not in (dtypes.int64, dtypes.string):
        raise TypeError(f"Invalid `key_dtype`, expected int64 or string, received {table.key_dtype}.")
    if table.key_dtype.is_integer != wanted.is_integer:
        kind = "integer" if wanted.is_integer else "non-integer"
        raise TypeError(f"Invalid `key dtype`, expected {kind} but got {table.key_dtype}.")
    if table.value_dtype != dtypes.int64:
        raise TypeError(f"Invalid `value_dtype`: expected int64 but got {table.value_dtype}.")


class StaticVocabularyTable(IdTableWithHashBuckets):
    """Ids of words: what the initializer says, and for other words one of num_oov_buckets (> 0) ids behind."""

    def __init__(
        self, initializer: TableInitializerBase | None, num_oov_buckets: int, lookup_key_dtype: Any = None,
        name: str | None = None,
    ):  # fmt: skip
        if num_oov_buckets <= 0:
            raise ValueError("`num_oov_buckets` must be > 0; use StaticHashTable.")
        if initializer is not None:
            _check_id_types(initializer, dtypes.as_dtype(lookup_key_dtype or initializer.key_dtype))
        table = None if initializer is None else StaticHashTable(initializer, -1)
        super().__init__(table, num_oov_buckets, FastHashSpec, name, lookup_key_dtype if table else None)
