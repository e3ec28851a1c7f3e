"""Crosses of categories, tensors as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.cases.values import i64, strings
from tests.oracle.compare import EXACT, SUM
from tests.oracle.programs.api import expression

_WORDS = strings("a", "b", "", "zz", "one", "two").reshape(3, 2)
_TABLE = np.linspace(-1, 2, 20, dtype=np.float32).reshape(5, 4)
_NUMBERS = i64([1, -2, 3], [4, 5, 600], [0, 7, 8])


def _sparse(tf: Any, words: Any) -> Any:
    """Rows of one, no and three words."""
    return tf.SparseTensor(np.array([[0, 0], [2, 0], [2, 1], [2, 4]], np.int64), words, [3, 5])


def _parts(crossed: Any) -> list[Any]:
    return [crossed.indices, crossed.values, crossed.dense_shape]


def _crosses(tf: Any, words: Any, numbers: Any) -> list[Any]:
    sparse = _sparse(tf, tf.reshape(words, [-1])[:4])
    some = [[words, numbers], [sparse, numbers], [numbers, sparse, words], [sparse, sparse], [numbers]]
    made = [tf.sparse.cross_hashed(x, num_buckets=n) for x in some for n in (0, 11)]
    made += [tf.sparse.cross_hashed(some[1], num_buckets=1000, hash_key=7), tf.sparse.cross([words, sparse])]
    return [part for crossed in made for part in _parts(crossed)]


expression("crosses", [_WORDS, _NUMBERS], _crosses, ops=("SparseCross", "SparseCrossV2"), tolerance=EXACT)

expression(
    "text-of-tensors",
    [_NUMBERS, _WORDS, np.array([1.5, 0.1, 1e-9, np.nan, 3e10, 7], np.float32), np.array([0.1, 1 / 3])],
    lambda tf, *xs: [tf.strings.format("{}~{}", [x, x], summarize=n) for x in xs for n in (1, 3, -1)],
    ops=("StringFormat",),
    tolerance=EXACT,
)


def _crosses_of_others(tf: Any, fractions: Any, truths: Any) -> list[Any]:
    """Of numbers that are no integers, and of booleans: they are cut to integers."""
    return [part for x in (fractions, truths) for part in _parts(tf.sparse.cross_hashed([x, x], num_buckets=50))]


expression(
    "crosses-of-fractions",
    [np.array([[1.7], [-2.6], [0]], np.float32), np.array([[True, False]])],
    _crosses_of_others,
    ops=("SparseCross",),
    tolerance=EXACT,
)


def _bags(tf: Any, ids: Any, weights: Any, table: Any) -> list[Any]:
    """Bags of which some are empty, or have ids and weights that do not count, and the gradient of the table."""
    at = np.array([[0, 0], [0, 1], [2, 0], [3, 1], [3, 0], [5, 0]], np.int64)
    given, weighted = (tf.SparseTensor(at, values, [7, 2]) for values in (ids, weights))
    found = []
    for combiner in ("sum", "mean", "sqrtn"):
        for weight in (None, weighted):
            for default in (None, 2):
                rows = tf.nn.safe_embedding_lookup_sparse(table, given, weight, combiner, default)
                found += [rows, tf.convert_to_tensor(tf.gradients(tf.reduce_sum(rows * rows), table)[0])]
    return found


expression(
    "bags-of-ids",
    [i64([3, -1, 0, 3, 1, -4]), np.array([0.5, 2, 1, -1, 3, 0], np.float32), _TABLE],
    _bags,
    ops=("SparseFillEmptyRows", "SparseSegmentMean", "SparseSegmentSum", "SparseSegmentSqrtN"),
    tolerance=SUM,
    one_way="TensorFlow's gradient is a SparseSegmentSumGradV2",
)
