"""What feature columns become in a model: one matrix, or the sum of weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkflow.feature_column.base import CategoricalColumn, DenseColumn, Features, require_columns
from sparkflow.framework.graph import Tensor
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.shapes import product
from sparkflow.ops import array, array_join, init_ops, math, nn
from sparkflow.ops.embedding_sparse import safe_embedding_lookup_sparse
from sparkflow.ops.variable_scope import get_variable, get_variable_scope, variable_scope
from sparkflow_runtime.wire import dtypes

Columns = dict[Any, Any] | None  # filled with what belongs to each column


def input_layer(
    features: Mapping[str, Any], feature_columns: Any, weight_collections: Any = None, trainable: bool = True,
    cols_to_vars: Columns = None, cols_to_output_tensors: Columns = None,
) -> Tensor:  # fmt: skip
    """[batch, n]: the dense columns of features beside one another, in the order of their names.

    features: name -> Tensor [batch], [batch, ...] or SparseTensor. cols_to_vars and cols_to_output_tensors: filled with
    each column's variables and its part of the matrix. Raises ValueError on a column that is not dense: put it into an
    embedding_column or indicator_column.
    """
    columns = dense_columns(feature_columns, "input_layer")
    given, parts = Features(features), []
    with variable_scope(None, "input_layer"):
        for column in columns:
            with variable_scope(None, column.scope_name):
                parts.append(row(column, given, weight_collections, trainable))
                _remember(cols_to_vars, column, _own_variables)
                _remember(cols_to_output_tensors, column, lambda: parts[-1])
        return array_join.concat(parts, axis=1)


def dense_columns(feature_columns: Any, what: str) -> list[DenseColumn]:
    """In the order of their names. Raises ValueError on a column of categories, and on one of sequences."""
    found: list[DenseColumn] = []
    for column in require_columns(feature_columns):
        if not isinstance(column, DenseColumn):
            raise ValueError(
                f"Items of feature_columns must be a dense column: wrap {column.name!r}, a categorical one, with an "
                "embedding_column or indicator_column"
            )
        if column.is_sequence:
            raise ValueError(f"{what}: {column.name!r} is a column of sequences; use sequence_input_layer")
        found.append(column)
    return found


def linear_model(
    features: Mapping[str, Any], feature_columns: Any, units: int = 1, sparse_combiner: str = "sum",
    weight_collections: Any = None, trainable: bool = True, cols_to_vars: Columns = None,
) -> Tensor:  # fmt: skip
    """[batch, units]: for each column a weight of every number or category, their sum, and a bias; zeros at first.

    sparse_combiner: how several categories of one column combine, "sum", "mean" or "sqrtn". cols_to_vars: filled with
    each column's variables, those of the bias under "bias".
    """
    given, sums = Features(features), []
    with variable_scope(None, "linear_model"):
        for column in require_columns(feature_columns):
            with variable_scope(None, column.scope_name):
                sums.append(_weighted(column, given, units, sparse_combiner, weight_collections, trainable))
                _remember(cols_to_vars, column, _own_variables)
        total = math.add_n(sums, name="weighted_sum_no_bias")
        bias = _weights("bias_weights", [units], weight_collections, trainable)
        _remember(cols_to_vars, "bias", lambda: [bias])
        return nn.bias_add(total, bias, name="weighted_sum")


def _own_variables() -> list[Any]:
    return get_variable_scope().global_variables()


def _remember(where: Columns, key: Any, what: Any) -> None:
    if where is not None:
        where[key] = what()


def row(column: Any, given: Features, collections: Any, trainable: bool) -> Tensor:
    """[batch, n] of a dense column."""
    found, size = column.dense_tensor(given, collections, trainable), product(column.variable_shape)
    inner = None if found._shape is None else found._shape[1:]
    if inner is None or None in inner:  # an example is one, whatever its size: that is checked when it runs
        return array.reshape(found, [array.shape(found)[0], size])
    if product(inner) != size:
        raise ValueError(f"{column.name!r} has {product(inner)} numbers an example, its column has shape {size}")
    return array.reshape(found, [-1, size])


def _weights(name: str, shape: list[int], collections: Any, trainable: bool) -> Any:
    everywhere = [GraphKeys.GLOBAL_VARIABLES, *(collections or ())]
    return get_variable(
        name, shape, dtypes.float32, init_ops.zeros_initializer(), trainable=trainable, collections=everywhere
    )


def _weighted(column: Any, given: Features, units: int, combiner: str, collections: Any, trainable: bool) -> Tensor:
    if not isinstance(column, CategoricalColumn):
        numbers = row(column, given, collections, trainable)
        return math.matmul(
            numbers, _weights("weights", [product(column.variable_shape), units], collections, trainable)
        )
    ids, weights = column.sparse_tensors(given)
    table = _weights("weights", [column.num_buckets, units], collections, trainable)
    return safe_embedding_lookup_sparse(table, ids, weights, combiner, name="weighted_sum")


def make_parse_example_spec(feature_columns: Any) -> dict[str, Any]:
    """What tf.parse_example must be told to read the features of all these columns.

    Raises ValueError where two columns want one feature differently.
    """
    spec: dict[str, Any] = {}
    columns = list(feature_columns.values()) if isinstance(feature_columns, Mapping) else list(feature_columns)
    for column in columns:
        if not hasattr(column, "parse_example_spec"):
            raise ValueError(f"All feature_columns must be feature columns. Given (type {type(column)}): {column}")
        for key, feature in column.parse_example_spec.items():
            if spec.setdefault(key, feature) != feature:
                raise ValueError(
                    f"feature_columns contain different parse specs for key {key!r}: {spec[key]} and {feature}"
                )
    return spec
