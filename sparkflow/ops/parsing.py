"""Examples and lines of text to tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import array
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import Shape


class FixedLenFeature(NamedTuple):
    """As many values as `shape` has, in every example; default_value where one has none."""

    shape: Any
    dtype: Any
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """Any number of values, as a SparseTensor."""

    dtype: Any


def _parsed_rule(op: Operation) -> list[Dims]:
    """Sparse indices, values and shapes, then the dense ones."""
    batch: tuple[int | None, ...] = op.inputs[0]._shape or (None,) if op.type == "ParseExample" else ()
    sparse, rank = op.attrs.get("num_sparse", op.attrs.get("Nsparse", 0)), len(batch) + 1
    dense: list[Dims] = [(*batch, *(s.dims or ())) for s in op.attrs["dense_shapes"]]
    found: list[Dims] = [(None, rank)] * sparse
    found += [(None,)] * sparse
    found += [(rank,)] * sparse
    return found + dense


op(
    "ParseExample",
    "serialized: string, names: string, sparse_keys: Nsparse * string, dense_keys: Ndense * string, "
    "dense_defaults: [Tdense] -> sparse_indices: Nsparse * int64, sparse_values: [sparse_types], "
    "sparse_shapes: Nsparse * int64, dense_values: [Tdense]",
    _parsed_rule,
)
op(
    "ParseSingleExample",
    "serialized: string, dense_defaults: [Tdense] -> sparse_indices: num_sparse * int64, "
    "sparse_values: [sparse_types], sparse_shapes: num_sparse * int64, dense_values: [Tdense]",
    _parsed_rule,
)


def _split(features: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """(the keys of sparse features, of dense ones), sorted as TensorFlow sorts them."""
    if not features:
        raise ValueError("Missing: features was {}")
    known = (FixedLenFeature, VarLenFeature)
    for key, feature in features.items():
        if not isinstance(feature, known):
            raise ValueError(f"Invalid feature {key}:{feature}: expected FixedLenFeature or VarLenFeature")
    keys = sorted(features)
    return ([k for k in keys if isinstance(features[k], VarLenFeature)],
            [k for k in keys if isinstance(features[k], FixedLenFeature)])  # fmt: skip


def _defaults(features: Mapping[str, Any], dense: Sequence[str]) -> tuple[list[Any], list[Shape]]:
    """(a default for each key, empty where it must be there; the shapes)."""
    values, sizes = [], []
    for key in dense:
        feature = features[key]
        dims = shapes.as_dims(feature.shape)
        if not shapes.fully_known(dims):
            raise ValueError(f"FixedLenFeature {key!r} needs a known shape, got {feature.shape}")
        kind = dtypes.as_dtype(feature.dtype)
        value = [] if feature.default_value is None else feature.default_value
        tensor = convert_to_tensor(value, kind, f"default_{key}")
        values.append(tensor if feature.default_value is None or tensor._shape == dims else array.reshape(tensor, dims))
        sizes.append(Shape(dims))
    return values, sizes


def parse_single_example(
    serialized: Any, features: Mapping[str, Any], name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """The features of one serialized tf.train.Example: a tensor for each FixedLenFeature, a SparseTensor for each
    VarLenFeature. InvalidArgumentError when it runs where a feature is missing, or of another type or length."""
    sparse, dense = _split(features)
    defaults, sizes = _defaults(features, dense)
    attrs = {
        "num_sparse": len(sparse), "sparse_keys": sparse, "dense_keys": dense, "dense_shapes": sizes,
        "sparse_types": [dtypes.as_dtype(features[k].dtype) for k in sparse],
        "Tdense": [dtypes.as_dtype(features[k].dtype) for k in dense],
    }  # fmt: skip
    text = convert_to_tensor(serialized, dtypes.string)
    return _named(apply_op("ParseSingleExample", [text, defaults], attrs, name), sparse, dense)


def parse_example(
    serialized: Any, features: Mapping[str, Any], name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """As parse_single_example, of a vector of Examples: every result has a first axis for them."""
    sparse, dense = _split(features)
    defaults, sizes = _defaults(features, dense)
    attrs = {
        "Nsparse": len(sparse), "Ndense": len(dense), "dense_shapes": sizes,
        "sparse_types": [dtypes.as_dtype(features[k].dtype) for k in sparse],
        "Tdense": [dtypes.as_dtype(features[k].dtype) for k in dense],
    }  # fmt: skip
    names = convert_to_tensor([] if example_names is None else example_names, dtypes.string)
    inputs = [convert_to_tensor(serialized, dtypes.string), names, sparse, dense, defaults]
    return _named(apply_op("ParseExample", inputs, attrs, name), sparse, dense)


def _named(found: list[Tensor], sparse: list[str], dense: list[str]) -> dict[str, Any]:
    n = len(sparse)
    out: dict[str, Any] = {k: SparseTensor(found[i], found[n + i], found[2 * n + i]) for i, k in enumerate(sparse)}
    return {**out, **dict(zip(dense, found[3 * n :]))}


# ---------------------------------------------------------------------- lines

op(
    "DecodeCSV",
    "records: string, record_defaults: [OUT_TYPE] -> output: [OUT_TYPE]",
    lambda op: [op.inputs[0]._shape] * len(op.outputs),
    field_delim=",",
    use_quote_delim=True,
    na_value="",
    select_cols=[],
)


def decode_csv(
    records: Any, record_defaults: Sequence[Any], field_delim: str = ",", use_quote_delim: bool = True,
    name: str | None = None, na_value: str = "", select_cols: Sequence[int] | None = None,
) -> list[Tensor]:  # fmt: skip
    """The fields of lines, a tensor of records' shape for each column, of the types of record_defaults.

    A default is [value], used where a field is empty or na_value, or [] of a type where it may not be empty.
    """
    defaults = [convert_to_tensor(d) for d in record_defaults]
    attrs = {"field_delim": field_delim, "use_quote_delim": use_quote_delim, "na_value": na_value}
    return apply_op("DecodeCSV", [records, defaults], {**attrs, "select_cols": list(select_cols or [])}, name)
