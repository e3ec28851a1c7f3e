"""Serialized Examples, SequenceExamples and CSV lines as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims, TensorShape
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops.array import expand_dims
from sparkflow.ops.array_join import concat
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


def _parsed_sequence(op: Operation) -> list[Dims]:
    a = op.attrs
    c, f = len(a["context_sparse_types"]), len(a["feature_list_sparse_types"])
    context: list[Dims] = [s.dims for s in a["context_dense_shapes"]]
    lists: list[Dims] = [(None, *(s.dims or ())) for s in a["feature_list_dense_shapes"]]
    first: list[Dims] = [(None, 1)] * c + [(None,)] * c + [(1,)] * c
    second: list[Dims] = [(None, 2)] * f + [(None,)] * f + [(2,)] * f
    return [*first, *context, *second, *lists]


def _parsed_sequences(op: Operation) -> list[Dims]:
    a, rows = op.attrs, op.inputs[0].shape.dims_
    ragged = len(a["context_ragged_value_types"]), len(a["feature_list_ragged_value_types"])
    if rows is None or any(ragged):
        lists_of = 3 * len(a["feature_list_sparse_types"]) + 2 * len(a["feature_list_dense_types"]) + 3 * ragged[1]
        return [None] * (3 * len(a["context_sparse_types"]) + len(a["Tcontext_dense"]) + 2 * ragged[0] + lists_of)
    n = len(rows)
    c, f, d = len(a["context_sparse_types"]), len(a["feature_list_sparse_types"]), len(a["feature_list_dense_types"])
    context: list[Dims] = [(*rows, *(s.dims or ())) for s in a["context_dense_shapes"]]
    lists: list[Dims] = [(*rows, None, *(s.dims or ())) for s in a["feature_list_dense_shapes"]]
    first: list[Dims] = [(None, n + 1)] * c + [(None,)] * c + [(n + 1,)] * c
    second: list[Dims] = [(None, n + 2)] * f + [(None,)] * f + [(n + 2,)] * f
    return [*first, *context, *second, *lists, *[rows] * d]


op(
    "ParseExample",
    "serialized: string, names: string, sparse_keys: Nsparse * string, dense_keys: Ndense * string, "
    "dense_defaults: [Tdense] -> sparse_indices: Nsparse * int64, sparse_values: [sparse_types], "
    "sparse_shapes: Nsparse * int64, dense_values: [Tdense]",
    _parsed,
)
op(  # what TensorFlow 2 writes; ragged features are refused when it runs
    "ParseExampleV2",
    "serialized: string, names: string, sparse_keys: string, dense_keys: string, ragged_keys: string, "
    "dense_defaults: [Tdense] -> sparse_indices: num_sparse * int64, sparse_values: [sparse_types], "
    "sparse_shapes: num_sparse * int64, dense_values: [Tdense], ragged_values: [ragged_value_types], "
    "ragged_row_splits: [ragged_split_types]",
)
op(
    "ParseSingleExample",
    "serialized: string, dense_defaults: [Tdense] -> sparse_indices: num_sparse * int64, "
    "sparse_values: [sparse_types], sparse_shapes: num_sparse * int64, dense_values: [Tdense]",
    _parsed_single,
)
op(
    "ParseSingleSequenceExample",
    "serialized: string, feature_list_dense_missing_assumed_empty: string, "
    "context_sparse_keys: Ncontext_sparse * string, context_dense_keys: Ncontext_dense * string, "
    "feature_list_sparse_keys: Nfeature_list_sparse * string, feature_list_dense_keys: Nfeature_list_dense * string, "
    "context_dense_defaults: [Tcontext_dense], debug_name: string -> "
    "context_sparse_indices: Ncontext_sparse * int64, context_sparse_values: [context_sparse_types], "
    "context_sparse_shapes: Ncontext_sparse * int64, context_dense_values: [Tcontext_dense], "
    "feature_list_sparse_indices: Nfeature_list_sparse * int64, "
    "feature_list_sparse_values: [feature_list_sparse_types], "
    "feature_list_sparse_shapes: Nfeature_list_sparse * int64, feature_list_dense_values: [feature_list_dense_types]",
    _parsed_sequence,
)
op(  # ragged features are refused when it runs
    "ParseSequenceExampleV2",
    "serialized: string, debug_name: string, context_sparse_keys: string, context_dense_keys: string, "
    "context_ragged_keys: string, feature_list_sparse_keys: string, feature_list_dense_keys: string, "
    "feature_list_ragged_keys: string, feature_list_dense_missing_assumed_empty: bool, "
    "context_dense_defaults: [Tcontext_dense] -> "
    "context_sparse_indices: Ncontext_sparse * int64, context_sparse_values: [context_sparse_types], "
    "context_sparse_shapes: Ncontext_sparse * int64, context_dense_values: [Tcontext_dense], "
    "context_ragged_values: [context_ragged_value_types], context_ragged_row_splits: [context_ragged_split_types], "
    "feature_list_sparse_indices: Nfeature_list_sparse * int64, "
    "feature_list_sparse_values: [feature_list_sparse_types], "
    "feature_list_sparse_shapes: Nfeature_list_sparse * int64, feature_list_dense_values: [feature_list_dense_types], "
    "feature_list_dense_lengths: Nfeature_list_dense * int64, "
    "feature_list_ragged_values: [feature_list_ragged_value_types], "
    "feature_list_ragged_outer_splits: [feature_list_ragged_split_types], "
    "feature_list_ragged_inner_splits: [feature_list_ragged_split_types]",
    _parsed_sequences,
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
        for key, feature in self.features.items():
            self._add(key, feature)

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

    def collected(self, sparse: dict[str, SparseTensor], dense: dict[str, Tensor]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, feature in self.features.items():
            if isinstance(feature, SparseFeature):
                out[key] = _composed(feature, sparse)
            else:
                out[key] = sparse[key] if isinstance(feature, VarLenFeature) else dense[key]
        return out


def _stored(key: str, dtype: Any) -> Any:
    found = as_dtype(dtype)
    if found.name not in ("float32", "int64", "string"):
        raise ValueError(f"Feature {key!r}: an Example holds float32, int64 and string, got {found.name}")
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
    """Serialized tf.train.Example messages [n] as a dict of tensors.

    features: name -> FixedLenFeature ([n, ...shape]), VarLenFeature or SparseFeature (SparseTensor [n, ...]),
    FixedLenSequenceFeature ([n, most, ...shape]). example_names: for messages. Raises InvalidArgumentError in the step
    on a message that is none, a feature of another type or size, and one that is missing without a default.
    """
    spec = _Spec(features)
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
    spec = _Spec(features)
    types, dims, defaults = spec.dense_attrs()
    attrs = {"num_sparse": len(spec.sparse), "sparse_keys": list(spec.sparse), "dense_keys": list(spec.dense),
             "sparse_types": list(spec.sparse.values()), "dense_shapes": dims, "Tdense": types}  # fmt: skip
    inputs = [serialized, defaults]
    return spec.collected(*_outputs(spec, apply_op("ParseSingleExample", inputs, attrs, name or "ParseSingleExample")))


def _outputs(spec: _Spec, found: list[Tensor]) -> tuple[dict[str, SparseTensor], dict[str, Tensor]]:
    s = len(spec.sparse)
    sparse = {k: SparseTensor(found[i], found[s + i], found[2 * s + i]) for i, k in enumerate(spec.sparse)}
    return sparse, dict(zip(spec.dense, found[3 * s :]))


class _Sequences:
    """What a SequenceExample is to give: the context's features, and lists of features by name."""

    def __init__(self, context_features: Features | None, sequence_features: Features | None):
        if not context_features and not sequence_features:
            raise ValueError("Missing features.")
        self.context = _Spec(context_features) if context_features else None
        types, dims, self.defaults = self.context.dense_attrs() if self.context else ([], [], [])
        lists = dict(sorted((sequence_features or {}).items()))
        wrong = [k for k, f in lists.items() if not isinstance(f, FixedLenSequenceFeature | VarLenFeature)]
        if wrong:
            raise ValueError(f"Feature {wrong[0]!r}: a sequence is a FixedLenSequenceFeature or a VarLenFeature")
        self.dense = {k: f for k, f in lists.items() if isinstance(f, FixedLenSequenceFeature)}
        self.sparse = {k: f for k, f in lists.items() if isinstance(f, VarLenFeature)}
        self.context_sparse = dict(self.context.sparse) if self.context else {}
        self.context_dense = list(self.context.dense) if self.context else []
        self.attrs = {
            "Ncontext_sparse": len(self.context_sparse), "Nfeature_list_sparse": len(self.sparse),
            "Nfeature_list_dense": len(self.dense), "context_sparse_types": list(self.context_sparse.values()),
            "Tcontext_dense": types, "context_dense_shapes": dims,
            "feature_list_sparse_types": [_stored(k, f.dtype) for k, f in self.sparse.items()],
            "feature_list_dense_types": [_stored(k, f.dtype) for k, f in self.dense.items()],
            "feature_list_dense_shapes": [Shape(TensorShape(f.shape).dims_) for f in self.dense.values()],
        }  # fmt: skip

    def collected(self, found: list[Tensor]) -> tuple[dict[str, Any], dict[str, Any], list[Tensor]]:
        """(context, sequences, what an op gives beside them)."""
        c, s, d = len(self.context_sparse), len(self.sparse), len(self.context_dense)
        first, rest = found[: 3 * c + d], found[3 * c + d :]
        own = self.context.collected(*_outputs(self.context, first)) if self.context else {}
        sequences: dict[str, Any] = {
            k: SparseTensor(rest[i], rest[s + i], rest[2 * s + i]) for i, k in enumerate(self.sparse)
        }
        return own, sequences | dict(zip(self.dense, rest[3 * s :])), rest[3 * s + len(self.dense) :]


def parse_single_sequence_example(
    serialized: Any,
    context_features: Features | None = None,
    sequence_features: Features | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(context, sequences) of one serialized tf.train.SequenceExample. sequence_features: FixedLenSequenceFeature
    ([steps, ...shape]) or VarLenFeature (SparseTensor [steps, most])."""
    spec = _Sequences(context_features, sequence_features)
    may_miss = np.array([k for k, f in spec.dense.items() if f.allow_missing], object)
    inputs = [
        serialized, convert_to_tensor(may_miss, "string"), list(spec.context_sparse), spec.context_dense,
        list(spec.sparse), list(spec.dense), spec.defaults, "" if example_name is None else example_name,
    ]  # fmt: skip
    attrs = spec.attrs | {"Ncontext_dense": len(spec.context_dense)}
    found = apply_op("ParseSingleSequenceExample", inputs, attrs, name or "ParseSingleSequenceExample")
    return spec.collected(found)[:2]


def parse_sequence_example(
    serialized: Any,
    context_features: Features | None = None,
    sequence_features: Features | None = None,
    example_names: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Tensor]]:
    """(context, sequences, lengths) of serialized tf.train.SequenceExample messages [n].

    sequence_features: FixedLenSequenceFeature ([n, most steps, ...shape], filled up with zeros or empty strings;
    lengths has the steps of each message, int64 [n]) or VarLenFeature (SparseTensor [n, most steps, most]). Raises
    InvalidArgumentError in the step as `parse_example` does.
    """
    spec = _Sequences(context_features, sequence_features)
    names = np.empty(0, object) if example_names is None else example_names
    keys = [list(spec.context_sparse), spec.context_dense, [], list(spec.sparse), list(spec.dense), []]
    may_miss = convert_to_tensor(np.array([f.allow_missing for f in spec.dense.values()], bool))
    texts = [convert_to_tensor(np.array(k, object), "string") for k in keys]
    ragged = ("context_ragged_value_types", "context_ragged_split_types", "feature_list_ragged_value_types",
              "feature_list_ragged_split_types")  # fmt: skip
    inputs = [serialized, convert_to_tensor(names, "string"), *texts, may_miss, spec.defaults]
    attrs = spec.attrs | {key: [] for key in ragged}
    found = apply_op("ParseSequenceExampleV2", inputs, attrs, name or "ParseSequenceExample")
    own, sequences, lengths = spec.collected(found)
    return own, sequences, dict(zip(spec.dense, lengths))


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
