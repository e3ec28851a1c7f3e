"""What a model function is given: a tensor for each dense column, a SparseTensor or Ragged for the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import sparkflow as tf
from sparkflow_connectors.column_types import INDICES, LENGTH, Source
from sparkflow_connectors.columns import DENSE, SPARSE
from sparkflow_connectors.schema import Columns


class Ragged(NamedTuple):
    """Rows of any length: row i is values[row_splits[i]:row_splits[i + 1]] (int64[rows + 1])."""

    values: Any
    row_splits: Any


def placeholders(columns: Columns, suffix: str = "") -> dict[str, Any]:
    """One for each tensor of the columns, [rows, *shape of a row]."""
    return {
        name: tf.placeholder(tensor.dtype, [None, *tensor.shape], name=op_name(name) + suffix)
        for name, tensor in columns.tensors.items()
    }


def op_name(column: str) -> str:
    """A column's name with what an op name may not hold replaced."""
    text = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in column)
    return text if text[:1].isalnum() else "column_" + text


def assembled(columns: Columns, tensors: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """(features by column, labels or None) for a model function, of the tensors of the columns."""
    found = {name: _one(source, tensors) for name, source in columns.read.items()}
    labels = found.pop(columns.label) if columns.label is not None and columns.label in found else None
    return found, labels


def _one(source: Source, tensors: Mapping[str, Any]) -> Any:
    padded = tensors[source.name]
    if source.column.kind == DENSE:
        return padded
    with tf.name_scope(op_name(source.name)):
        lengths = tensors[source.name + LENGTH]
        rows, width = tf.unstack(tf.shape(padded, out_type=tf.int64))
        mask = tf.sequence_mask(lengths, width)
        values = tf.boolean_mask(padded, mask)
        if source.column.kind != SPARSE:
            splits = tf.concat([[0], tf.cumsum(tf.cast(lengths, tf.int64))], 0)
            return Ragged(values, splits)
        places = tf.where(mask)
        if source.is_vector:
            columns = tf.boolean_mask(tf.cast(tensors[source.name + INDICES], tf.int64), mask)
            places, width = tf.stack([places[:, 0], columns], 1), tf.constant(source.shape[0], tf.int64)
        return tf.SparseTensor(places, values, tf.stack([rows, width]))
