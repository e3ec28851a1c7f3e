"""Serialized Examples and CSV lines as tensors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims, TensorShape
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops.array import expand_dims
from sparkflow.ops.array_join import concat
from sparkflow.ops.checks import ensure_shape
from sparkflow.ops.parsing_ragged import Found, RaggedFeature, composed
from sparkflow.ops.sparse import sparse_reorder
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.dtypes import as_dtype


class FixedLenFeature(NamedTuple):
    """As many values as shape holds in every Example; default_value (of that shape, or one value) where a feature is
    missing, without one a missing feature is an InvalidArgumentError."""

    shape: Any
    dtype: Any
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """Any number of values: a SparseTensor."""

    dtype: Any


class FixedLenSequenceFeature(NamedTuple):
    """Any number of elements of `shape`, filled up to the longest of the batch with default_value."""

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


class SparseFeature(NamedTuple):
    """A SparseTensor whose indices are features themselves: index_key names one feature a dimension of `size`."""

    index_key: Any
    value_key: str
    dtype: Any
    size: Any
    already_sorted: bool = False


Features = Mapping[str, Any]


# ---------------------------------------------------------------------- the table


def _parsed(op: Operation) -> list[Dims]:
    n = op.inputs[0].shape.dims_
    rows = n[0] if n else None
    sparse = len(op.attrs["sparse_types"])
    dense: list[Dims] = [
        (rows, *(None if d == -1 else d for d in shape.dims or ())) for shape in op.attrs["dense_shapes"]
    ]
    return [(None, 2)] * sparse + [(None,)] * sparse + [(2,)] * sparse + dense


def _parsed_single(op: Operation) -> list[Dims]:
    sparse = op.attrs["num_sparse"]
    dense: list[Dims] = [tuple(None if d == -1 else d for d in s.dims or ()) for s in op.attrs["dense_shapes"]]
    return [(None, 1)] * sparse + [(None,)] * sparse + [(1,)] * sparse + dense


def _parsed_any(op: Operation) -> list[Dims]:
    """Of a batch, or of a single one."""
    rows, a = op.inputs[0].shape.dims_, op.attrs
    ragged = len(a["ragged_value_types"])
    if rows is None:
        return [None] * (3 * len(a["sparse_types"]) + len(a["Tdense"])) + [(None,)] * (2 * ragged)
    splits = (rows[0] + 1 if rows[0] is not None else None,) if rows else (None,)
    return [*(_parsed if rows else _parsed_single)(op), *[(None,)] * ragged, *[splits] * ragged]


op(
    "ParseExample",
    "serialized: string, names: string, sparse_keys: Nsparse * string, dense_keys: Ndense * string, "
    "dense_defaults: [Tdense] -> sparse_indices: Nsparse * int64, sparse_values: [sparse_types], "
    "sparse_shapes: Nsparse * int64, dense_values: [Tdense]",
    _parsed,
)
op(  # what TensorFlow 2 writes
    "ParseExampleV2",
    "serialized: string, names: string, sparse_keys: string, dense_keys: string, ragged_keys: string, "
    "dense_defaults: [Tdense] -> sparse_indices: num_sparse * int64, sparse_values: [sparse_types], "
    "sparse_shapes: num_sparse * int64, dense_values: [Tdense], ragged_values: [ragged_value_types], "
    "ragged_row_splits: [ragged_split_types]",
    _parsed_any,
)
op(
    "ParseSingleExample",
    "serialized: string, dense_defaults: [Tdense] -> sparse_indices: num_sparse * int64, "
    "sparse_values: [sparse_types], sparse_shapes: num_sparse * int64, dense_values: [Tdense]",
    _parsed_single,
)
op(
    "DecodeCSV", "records: string, record_defaults: [OUT_TYPE] -> output: [OUT_TYPE]",
    lambda op: [op.inputs[0].shape.dims_] * len(op.attrs["OUT_TYPE"]), field_delim=",", use_quote_delim=True,
    na_value="", select_cols=[],
)  # fmt: skip


# ---------------------------------------------------------------------- Examples


class _Spec:
    """Features sorted as TensorFlow sorts them: by name, sparse ones and dense ones apart."""

    def __init__(self, features: Features):
        if not features:
            raise ValueError("Missing features.")
        self.features = dict(sorted(features.items()))
        self.sparse: dict[str, Any] = {}
        self.dense: dict[str, FixedLenFeature | FixedLenSequenceFeature] = {}
        self.ragged: dict[str, tuple[Any, Any]] = {}  # of values, of row_splits
        for key, feature in self.features.items():
            self._add(key, feature)
        _check_apart(self.dense, self.sparse, self.ragged)

    def _add(self, key: str, feature: Any) -> None:
        if isinstance(feature, VarLenFeature):
            self._add_sparse(key, feature.dtype)
        elif isinstance(feature, SparseFeature):
            for index_key in _index_keys(feature):
                self._add_sparse(index_key, "int64")
            self._add_sparse(feature.value_key, feature.dtype)
        elif isinstance(feature, FixedLenFeature | FixedLenSequenceFeature):
            if isinstance(feature, FixedLenSequenceFeature) and not feature.allow_missing:
                raise ValueError(
                    f"Unsupported: FixedLenSequenceFeature requires allow_missing to be True (feature {key!r})"
                )
            self.dense[key] = feature
        elif isinstance(feature, RaggedFeature):
            for its_key, dtype in feature.keys(key):
                types = _stored(its_key, dtype, ValueError), feature.row_splits_dtype
                if self.ragged.setdefault(its_key, types) != types:
                    told = [" with row_splits of ".join(t.name for t in one) for one in (types, self.ragged[its_key])]
                    raise ValueError(f"Conflicting type {told[0]} vs {told[1]} for feature {its_key!r}")
        else:
            raise ValueError(f"Feature {key!r}: unsupported {type(feature).__name__}")

    def _add_sparse(self, key: str, dtype: Any) -> None:
        dtype = _stored(key, dtype)
        if self.sparse.setdefault(key, dtype) != dtype:
            raise ValueError(f"Conflicting type {dtype.name} and {self.sparse[key].name} for feature {key!r}")

    def dense_attrs(self) -> tuple[list[Any], list[Shape], list[Tensor]]:
        """Types, shapes and defaults."""
        types = [_stored(k, f.dtype) for k, f in self.dense.items()]
        dims = []
        for key, feature in self.dense.items():
            own = TensorShape(feature.shape).dims_
            if own is None or None in own:
                raise ValueError(
                    f"First dimension of shape for feature {key!r} unknown. Consider using FixedLenSequenceFeature."
                )
            dims.append((None, *own) if isinstance(feature, FixedLenSequenceFeature) else own)
        defaults = [_default(f, t, d) for f, t, d in zip(self.dense.values(), types, dims)]
        return types, [Shape(d) for d in dims], defaults

    def collected(
        self,
        sparse: dict[str, SparseTensor],
        dense: dict[str, Tensor],
        ragged: Found | None = None,
        single: bool = False,
    ) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, feature in self.features.items():
            if isinstance(feature, RaggedFeature):
                out[key] = composed(feature, key, ragged or {}, single)
            elif isinstance(feature, SparseFeature):
                out[key] = _composed(feature, sparse)
            else:
                out[key] = sparse[key] if isinstance(feature, VarLenFeature) else dense[key]
        return out


def _check_apart(*keys: Collection[str]) -> None:
    """Raises ValueError on a key that is among two of the dense, the sparse and the ragged ones."""
    for (one, mine), (other, its) in combinations(zip(("Dense", "Sparse", "Ragged"), keys, strict=True), 2):
        if both := sorted({*mine} & {*its}):
            raise ValueError(f"{one} and {other.lower()} keys must not intersect, and both have {both}")


def _stored(key: str, dtype: Any, error: type[Exception] = TypeError) -> Any:
    found = as_dtype(dtype)
    if found.name not in ("float32", "int64", "string"):
        raise error(f"Feature {key!r}: an Example holds float32, int64 and string, got {found.name}")
    return found


def _index_keys(feature: SparseFeature) -> list[str]:
    return [feature.index_key] if isinstance(feature.index_key, str) else list(feature.index_key)


def _default(feature: Any, dtype: Any, dims: tuple[int | None, ...]) -> Tensor:
    varies = bool(dims) and dims[0] is None
    value = feature.default_value
    if value is None:
        empty = b"" if dtype.name == "string" else 0
        return convert_to_tensor(empty if varies else np.empty(0, dtype.np), dtype)
    if not varies and np.ndim(value) == 0 and dims:
        value = np.full([int(d or 0) for d in dims], value, dtype.np)
    return convert_to_tensor(value, dtype)


def _composed(feature: SparseFeature, sparse: dict[str, SparseTensor]) -> SparseTensor:
    values = sparse[feature.value_key]
    sizes = list(feature.size) if isinstance(feature.size, Sequence) else [feature.size]
    columns = [expand_dims(values.indices[:, 0], 1)] if values.indices.shape.dims_ == (None, 2) else []
    columns += [expand_dims(sparse[k].values, 1) for k in _index_keys(feature)]
    rows = values.dense_shape[: len(columns) - len(sizes)]
    dense_shape = concat([rows, convert_to_tensor(np.array(sizes, np.int64))], 0)
    found = SparseTensor(concat(columns, 1), values.values, dense_shape)
    return found if feature.already_sorted else sparse_reorder(found)


def parse_example(
    serialized: Any, features: Features, name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """Serialized tf.train.Example messages [n] as a dict of tensors; a scalar as parse_single_example has it.

    features: name -> FixedLenFeature ([n, ...shape]), VarLenFeature or SparseFeature (SparseTensor [n, ...]),
    FixedLenSequenceFeature ([n, most, ...shape]), RaggedFeature (RaggedTensor [n, ...]). example_names: for messages.
    Raises InvalidArgumentError in the step on a message that is none, a feature of another type or size, and one that
    is missing without a default.
    """
    serialized = convert_to_tensor(serialized, "string")
    if serialized.shape.ndims == 0:
        return parse_single_example(serialized, features, name, example_names)
    if serialized.shape.ndims not in (None, 1):
        raise ValueError(f"serialized must be a vector of messages, or a scalar, got shape {serialized.shape}")
    spec = _Spec(features)
    if spec.ragged:
        return _with_ragged(spec, serialized, name or "ParseExample", example_names, single=False)
    types, dims, defaults = spec.dense_attrs()
    names = np.empty(0, object) if example_names is None else example_names
    attrs = {"sparse_types": list(spec.sparse.values()), "dense_shapes": dims, "Tdense": types,
             "Nsparse": len(spec.sparse), "Ndense": len(types)}  # fmt: skip
    inputs = [serialized, convert_to_tensor(names, "string"), list(spec.sparse), list(spec.dense), defaults]
    return spec.collected(*_outputs(spec, apply_op("ParseExample", inputs, attrs, name or "ParseExample")))


def parse_single_example(
    serialized: Any, features: Features, name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """The same of one message, a string scalar: without the first dimension."""
    serialized = convert_to_tensor(serialized, "string")
    if serialized.shape.ndims not in (None, 0):
        raise ValueError(f"Input serialized must be a scalar, got shape {serialized.shape}")
    serialized = serialized if serialized.shape.ndims == 0 else ensure_shape(serialized, [])
    spec = _Spec(features)
    if spec.ragged:
        return _with_ragged(spec, serialized, name or "ParseSingleExample", example_names, single=True)
    types, dims, defaults = spec.dense_attrs()
    attrs = {"num_sparse": len(spec.sparse), "sparse_keys": list(spec.sparse), "dense_keys": list(spec.dense),
             "sparse_types": list(spec.sparse.values()), "dense_shapes": dims, "Tdense": types}  # fmt: skip
    inputs = [serialized, defaults]
    return spec.collected(*_outputs(spec, apply_op("ParseSingleExample", inputs, attrs, name or "ParseSingleExample")))


def _with_ragged(spec: _Spec, serialized: Tensor, name: str, example_names: Any, single: bool) -> dict[str, Any]:
    types, dims, defaults = spec.dense_attrs()
    serialized = serialized if single else ensure_shape(serialized, [None])
    keys = [list(spec.sparse), list(spec.dense), list(spec.ragged)]
    names = np.empty(0, object) if example_names is None else example_names
    attrs = {"num_sparse": len(spec.sparse), "sparse_types": list(spec.sparse.values()), "Tdense": types,
             "dense_shapes": dims, "ragged_value_types": [v for v, _ in spec.ragged.values()],
             "ragged_split_types": [s for _, s in spec.ragged.values()]}  # fmt: skip
    texts = [convert_to_tensor(k, "string") for k in (names, *(np.array(k, object) for k in keys))]
    found = apply_op("ParseExampleV2", [serialized, *texts, defaults], attrs, name)
    r = len(spec.ragged)
    ragged = dict(zip(spec.ragged, zip(found[-2 * r : -r], found[-r:], strict=True), strict=True))
    return spec.collected(*_outputs(spec, found[: -2 * r]), ragged, single)


def _outputs(spec: _Spec, found: list[Tensor]) -> tuple[dict[str, SparseTensor], dict[str, Tensor]]:
    s = len(spec.sparse)
    sparse = {k: SparseTensor(found[i], found[s + i], found[2 * s + i]) for i, k in enumerate(spec.sparse)}
    return sparse, dict(zip(spec.dense, found[3 * s :]))


def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
) -> list[Tensor]:
    """Lines to one tensor a column, of the shape of `records`. record_defaults: a value or an empty tensor (required) a
    column, whose dtype is the column's: float32, float64, int32, int64 or string."""
    if select_cols is not None and (list(select_cols) != sorted(set(select_cols)) or min(select_cols, default=0) < 0):
        raise ValueError("select_cols is not strictly increasing, or has a negative number.")
    if select_cols is not None and len(select_cols) != len(record_defaults):
        raise ValueError("Length of select_cols and record_defaults do not match.")
    attrs = {"field_delim": field_delim, "use_quote_delim": use_quote_delim, "na_value": na_value,
             "select_cols": list(select_cols or [])}  # fmt: skip
    return list(apply_op("DecodeCSV", [records, list(record_defaults)], attrs, name))
