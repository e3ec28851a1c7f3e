"""tf.contrib.layers' feature columns: those of tf.feature_column by their first names and arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sparkflow import feature_column as fc
from sparkflow.feature_column.categorical import HashedColumn
from sparkflow.ops.parsing import parse_example
from sparkflow.ops.variable_scope import variable_scope
from sparkflow_runtime.wire import dtypes


def real_valued_column(
    column_name: str, dimension: int = 1, default_value: Any = None, dtype: Any = dtypes.float32,
    normalizer: Callable[[Any], Any] | None = None,
) -> Any:  # fmt: skip
    """`dimension` numbers an example."""
    return fc.numeric_column(column_name, (dimension,), default_value, dtype, normalizer)


def sparse_column_with_hash_bucket(
    column_name: str, hash_bucket_size: int, combiner: str = "sum", dtype: Any = dtypes.string
) -> Any:
    """Categories by their hash. combiner: said by the model (linear_model, embedding_column) since."""
    return fc.categorical_column_with_hash_bucket(column_name, hash_bucket_size, dtype)


def sparse_column_with_integerized_feature(
    column_name: str, bucket_size: int, combiner: str = "sum", dtype: Any = dtypes.int64
) -> Any:
    """Integers that are ids."""
    return fc.categorical_column_with_identity(column_name, bucket_size)


def sparse_column_with_keys(
    column_name: str, keys: Sequence[Any], default_value: int = -1, combiner: str = "sum", dtype: Any = dtypes.string
) -> Any:
    """Words (or integers) whose id is their place in `keys`."""
    return fc.categorical_column_with_vocabulary_list(column_name, keys, dtype, default_value)


def sparse_column_with_vocabulary_file(
    column_name: str, vocabulary_file: str, num_oov_buckets: int = 0, vocab_size: int | None = None,
    default_value: int = -1, combiner: str = "sum", dtype: Any = dtypes.string,
) -> Any:  # fmt: skip
    """Words whose id is their line in a file."""
    return fc.categorical_column_with_vocabulary_file(
        column_name, vocabulary_file, vocab_size, num_oov_buckets, default_value, dtype
    )


def weighted_sparse_column(sparse_id_column: Any, weight_column_name: str, dtype: Any = dtypes.float32) -> Any:
    return fc.weighted_categorical_column(sparse_id_column, weight_column_name, dtype)


def bucketized_column(source_column: Any, boundaries: Sequence[float]) -> Any:
    return fc.bucketized_column(source_column, list(boundaries))


def crossed_column(
    columns: Iterable[Any], hash_bucket_size: int, combiner: str = "sum", hash_key: int | None = None, **_: Any
) -> Any:
    """Of columns; one that hashes stands for its feature."""
    keys = [c.key if isinstance(c, HashedColumn) else c for c in columns]
    return fc.crossed_column(keys, hash_bucket_size, hash_key)


def embedding_column(
    sparse_id_column: Any, dimension: int, combiner: str = "mean", initializer: Any = None,
    ckpt_to_load_from: str | None = None, tensor_name_in_ckpt: str | None = None, max_norm: float | None = None,
    trainable: bool = True,
) -> Any:  # fmt: skip
    return fc.embedding_column(
        sparse_id_column, dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt, max_norm, trainable
    )


def one_hot_column(sparse_id_column: Any) -> Any:
    return fc.indicator_column(sparse_id_column)


def create_feature_spec_for_parsing(feature_columns: Iterable[Any]) -> dict[str, Any]:
    """What tf.parse_example must be told to read these columns' features."""
    return fc.make_parse_example_spec(list(feature_columns))


def input_from_feature_columns(
    columns_to_tensors: Mapping[str, Any], feature_columns: Any, weight_collections: Any = None,
    trainable: bool = True, scope: str | None = None, cols_to_outs: dict[Any, Any] | None = None,
) -> Any:  # fmt: skip
    """[batch, n]: the columns beside one another."""
    return fc.input_layer(columns_to_tensors, feature_columns, weight_collections, trainable, None, cols_to_outs)


def shared_embedding_columns(
    sparse_id_columns: Iterable[Any], dimension: int, combiner: str = "mean", initializer: Any = None,
    shared_embedding_name: str | None = None, ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None, max_norm: float | None = None, trainable: bool = True,
) -> list[Any]:  # fmt: skip
    """As embedding_column of each, all from one table."""
    return list(
        fc.shared_embedding_columns(
            list(sparse_id_columns), dimension, combiner, initializer, shared_embedding_name, ckpt_to_load_from,
            tensor_name_in_ckpt, max_norm, trainable,
        )
    )  # fmt: skip


def weighted_sum_from_feature_columns(
    columns_to_tensors: Mapping[str, Any], feature_columns: Any, num_outputs: int, weight_collections: Any = None,
    trainable: bool = True, scope: str | None = None,
) -> tuple[Any, dict[Any, list[Any]], Any]:  # fmt: skip
    """A linear model of the columns: ([batch, num_outputs], column -> its variables, the bias)."""
    held: dict[Any, Any] = {}
    with variable_scope(scope, "weighted_sum_from_feature_columns"):
        found = fc.linear_model(
            columns_to_tensors, feature_columns, num_outputs, "sum", weight_collections, trainable, held
        )
    return found, held, held.pop("bias")[0]


def parse_feature_columns_from_examples(
    serialized: Any, feature_columns: Iterable[Any], name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """The features of these columns, read from tf.train.Example messages."""
    return parse_example(serialized, create_feature_spec_for_parsing(feature_columns), name, example_names)
