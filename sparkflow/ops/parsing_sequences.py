"""Serialized SequenceExamples as tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims, TensorShape
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops.checks import ensure_shape
from sparkflow.ops.parsing import (
    Features,
    FixedLenSequenceFeature,
    VarLenFeature,
    _check_apart,
    _outputs,
    _Spec,
    _stored,
)
from sparkflow.ops.parsing_ragged import RaggedFeature, composed
from sparkflow.ops.ragged import RaggedTensor
from sparkflow_runtime.wire.attrs import Shape


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
    if rows is None:
        lists_of = 3 * len(a["feature_list_sparse_types"]) + 2 * len(a["feature_list_dense_types"]) + 3 * ragged[1]
        return [None] * (3 * len(a["context_sparse_types"]) + len(a["Tcontext_dense"]) + 2 * ragged[0] + lists_of)
    splits: Dims = (None if not rows or rows[0] is None else rows[0] + 1,)
    own: list[Dims] = [(None,)] * ragged[0] + [splits] * ragged[0]
    listed: list[Dims] = [(None,)] * ragged[1] + [splits] * ragged[1] + [(None,)] * ragged[1]
    n = len(rows)
    c, f, d = len(a["context_sparse_types"]), len(a["feature_list_sparse_types"]), len(a["feature_list_dense_types"])
    context: list[Dims] = [(*rows, *(s.dims or ())) for s in a["context_dense_shapes"]]
    lists: list[Dims] = [(*rows, None, *(s.dims or ())) for s in a["feature_list_dense_shapes"]]
    first: list[Dims] = [(None, n + 1)] * c + [(None,)] * c + [(n + 1,)] * c
    second: list[Dims] = [(None, n + 2)] * f + [(None,)] * f + [(n + 2,)] * f
    return [*first, *context, *own, *second, *lists, *[rows] * d, *listed]


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
op(
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


class _Sequences:
    """What a SequenceExample is to give: the context's features, and lists of features by name."""

    def __init__(self, context_features: Features | None, sequence_features: Features | None):
        if not context_features and not sequence_features:
            raise ValueError("Missing features.")
        self.context = _Spec(context_features) if context_features else None
        self.context_ragged = self.context.ragged if self.context else {}
        types, dims, self.defaults = self.context.dense_attrs() if self.context else ([], [], [])
        lists = dict(sorted((sequence_features or {}).items()))
        wrong = [
            k for k, f in lists.items() if not isinstance(f, FixedLenSequenceFeature | VarLenFeature | RaggedFeature)
        ]
        if wrong:
            raise ValueError(
                f"Feature {wrong[0]!r}: a sequence is a FixedLenSequenceFeature, a VarLenFeature or a RaggedFeature"
            )
        self.cut = {k: f for k, f in lists.items() if isinstance(f, RaggedFeature)}
        self.ragged = _Spec(self.cut).ragged if self.cut else {}
        self.dense = {k: f for k, f in lists.items() if isinstance(f, FixedLenSequenceFeature)}
        self.sparse = {k: f for k, f in lists.items() if isinstance(f, VarLenFeature)}
        _check_apart(self.dense, self.sparse, self.ragged)
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

    def ragged_attrs(self) -> dict[str, Any]:
        both = {"context": self.context_ragged, "feature_list": self.ragged}.items()
        values = {f"{of}_ragged_value_types": [v for v, _ in types.values()] for of, types in both}
        return values | {f"{of}_ragged_split_types": [s for _, s in types.values()] for of, types in both}

    def collected(self, found: list[Tensor], single: bool) -> tuple[dict[str, Any], dict[str, Any], list[Tensor]]:
        """(context, sequences, what an op gives beside them)."""
        c, s, d = len(self.context_sparse), len(self.sparse), len(self.context_dense)
        r, n = len(self.context_ragged), len(self.ragged)
        first, rest = found[: 3 * c + d], found[3 * c + d + 2 * r : len(found) - 3 * n]
        ragged = dict(zip(self.context_ragged, zip(found[3 * c + d :], found[3 * c + d + r : 3 * c + d + 2 * r])))
        own = self.context.collected(*_outputs(self.context, first), ragged, single) if self.context else {}
        sequences: dict[str, Any] = {
            k: SparseTensor(rest[i], rest[s + i], rest[2 * s + i]) for i, k in enumerate(self.sparse)
        }
        sequences |= self._cut_lists(found[len(found) - 3 * n :], single)
        return own, sequences | dict(zip(self.dense, rest[3 * s :])), rest[3 * s + len(self.dense) :]

    def _cut_lists(self, found: list[Tensor], single: bool) -> dict[str, Any]:
        """RaggedTensors [messages, steps, ...], of a single message [steps, ...]."""
        n = len(self.ragged)
        values, outer, inner = (dict(zip(self.ragged, found[i * n : (i + 1) * n])) for i in range(3))
        by_step = {k: (values[k], inner[k]) for k in values}
        out = {}
        for key, feature in self.cut.items():
            steps = composed(feature, key, by_step, single=False)
            rows = outer[feature.value_key or key]
            out[key] = steps if single else RaggedTensor.from_row_splits(steps, rows, validate=False)
        return out


def parse_single_sequence_example(
    serialized: Any,
    context_features: Features | None = None,
    sequence_features: Features | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(context, sequences) of one serialized tf.train.SequenceExample. sequence_features: FixedLenSequenceFeature
    ([steps, ...shape]), VarLenFeature (SparseTensor [steps, most]) or RaggedFeature (RaggedTensor [steps, ...])."""
    spec = _Sequences(context_features, sequence_features)
    if spec.context_ragged or spec.ragged:
        serialized = ensure_shape(convert_to_tensor(serialized, "string"), [])
        return _parsed_by_v2(spec, serialized, example_name or None, name or "ParseSingleSequenceExample", True)[:2]
    may_miss = np.array([k for k, f in spec.dense.items() if f.allow_missing], object)
    inputs = [
        serialized, convert_to_tensor(may_miss, "string"), list(spec.context_sparse), spec.context_dense,
        list(spec.sparse), list(spec.dense), spec.defaults, "" if example_name is None else example_name,
    ]  # fmt: skip
    attrs = spec.attrs | {"Ncontext_dense": len(spec.context_dense)}
    found = apply_op("ParseSingleSequenceExample", inputs, attrs, name or "ParseSingleSequenceExample")
    return spec.collected(found, single=True)[:2]


def parse_sequence_example(
    serialized: Any,
    context_features: Features | None = None,
    sequence_features: Features | None = None,
    example_names: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Tensor]]:
    """(context, sequences, lengths) of serialized tf.train.SequenceExample messages [n].

    sequence_features: FixedLenSequenceFeature ([n, most steps, ...shape], filled up with zeros or empty strings;
    lengths has the steps of each message, int64 [n]), VarLenFeature (SparseTensor [n, most steps, most]) or
    RaggedFeature (RaggedTensor [n, steps, ...]; its partitions cut each step). Raises
    InvalidArgumentError in the step as `parse_example` does.
    """
    spec = _Sequences(context_features, sequence_features)
    own, sequences, lengths = _parsed_by_v2(spec, serialized, example_names, name or "ParseSequenceExample", False)
    return own, sequences, dict(zip(spec.dense, lengths))


def _parsed_by_v2(
    spec: _Sequences, serialized: Any, example_names: Any, name: str, single: bool
) -> tuple[dict[str, Any], dict[str, Any], list[Tensor]]:
    names = np.empty(0, object) if example_names is None else example_names
    keys = [list(spec.context_sparse), spec.context_dense, list(spec.context_ragged), list(spec.sparse),
            list(spec.dense), list(spec.ragged)]  # fmt: skip
    may_miss = convert_to_tensor(np.array([f.allow_missing for f in spec.dense.values()], bool))
    texts = [convert_to_tensor(np.array(k, object), "string") for k in keys]
    inputs = [serialized, convert_to_tensor(names, "string"), *texts, may_miss, spec.defaults]
    found = apply_op("ParseSequenceExampleV2", inputs, spec.attrs | spec.ragged_attrs(), name)
    return spec.collected(list(found), single)
