"""Ragged tensors, which sparkflow makes of ordinary ops, are as lists what TensorFlow's are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as theirs

import sparkflow as ours

NUMBERS = [[1.0, 2.0, 3.0], [], [4.0, 5.0]]
NESTED = [[[1, 2], []], [], [[3], [4, 5, 6]]]


def _a(tf: Any) -> Any:
    return tf.ragged.constant(NUMBERS)


def _b(tf: Any) -> Any:
    return tf.ragged.constant(NESTED)


def _gradient(tf: Any, function: Callable[[Any], Any]) -> Any:
    a = _a(tf)
    return tf.gradients(function(a), a.flat_values)[0]


CASES: dict[str, Callable[[Any], Any]] = {
    "strings": lambda tf: tf.ragged.constant([["x", "yy"], [], ["z"]]),
    "empty": lambda tf: tf.ragged.constant([[], []], dtype=tf.int32),
    "ragged-rank": lambda tf: tf.ragged.constant([[[1, 2], [3, 4]], [[5, 6]]], ragged_rank=1),
    "inner-shape": lambda tf: tf.ragged.constant([[[1, 2], [3, 4]], [], [[5, 6]]], inner_shape=(2,)),
    "padding": lambda tf: tf.RaggedTensor.from_tensor([[1, 2, 0], [0, 0, 0], [3, 0, 4]], padding=0),
    "lengths": lambda tf: tf.RaggedTensor.from_tensor([[1, 2, 0], [0, 5, 0]], lengths=[1, 2]),
    "deep-tensor": lambda tf: tf.RaggedTensor.from_tensor(np.ones((2, 3, 2)), ragged_rank=2),
    "rowids": lambda tf: tf.RaggedTensor.from_value_rowids([1, 2, 3], [0, 0, 2], nrows=4),
    "starts": lambda tf: tf.RaggedTensor.from_row_starts([1, 2, 3], [0, 0, 2]),
    "limits": lambda tf: tf.RaggedTensor.from_row_limits([1, 2, 3], [1, 1, 3]),
    "row-lengths": lambda tf: tf.RaggedTensor.from_nested_row_lengths([1, 2, 3], [[2, 0], [1, 2]]),
    "from-sparse": lambda tf: tf.RaggedTensor.from_sparse(_a(tf).to_sparse()),
    "plus": lambda tf: _a(tf) + 1,
    "product": lambda tf: _a(tf) * _a(tf),
    "negative": lambda tf: -_b(tf),
    "larger": lambda tf: _a(tf) > 2,
    "map": lambda tf: tf.ragged.map_flat_values(tf.sqrt, _a(tf)),
    "tensor": lambda tf: _a(tf).to_tensor(),
    "tensor-nested": lambda tf: _b(tf).to_tensor(-1),
    "tensor-strings": lambda tf: tf.ragged.constant([["x"], []]).to_tensor("?"),
    "sparse": lambda tf: _b(tf).to_sparse(),
    "sum": lambda tf: tf.reduce_sum(_a(tf)),
    "sum-columns": lambda tf: tf.reduce_sum(_a(tf), 0),
    "sum-rows": lambda tf: tf.reduce_sum(_a(tf), 1),
    "mean": lambda tf: tf.reduce_mean(_a(tf), axis=1),
    "max": lambda tf: tf.reduce_max(_a(tf), axis=-1),
    "sum-inside": lambda tf: tf.reduce_sum(_b(tf), axis=2),
    "any": lambda tf: tf.reduce_any(_a(tf) > 4, 1),
    "all": lambda tf: tf.reduce_all(_a(tf) > 1, 1),
    "lengths-of-rows": lambda tf: _a(tf).row_lengths(),
    "lengths-inside": lambda tf: _b(tf).row_lengths(axis=2),
    "value-rowids": lambda tf: _b(tf).value_rowids(),
    "bounds": lambda tf: _b(tf).bounding_shape(),
    "row": lambda tf: _a(tf)[0],
    "last-row": lambda tf: _b(tf)[-1],
    "rows": lambda tf: _a(tf)[1:],
    "rows-back": lambda tf: _b(tf)[::-1],
    "within-rows": lambda tf: _a(tf)[:, :2],
    "ends-of-rows": lambda tf: _a(tf)[:, -1:],
    "row-of-row": lambda tf: _b(tf)[2, 1],
    "gather": lambda tf: tf.gather(_a(tf), [2, 0, 2]),
    "gather-nested": lambda tf: tf.gather(_b(tf), [2, 1]),
    "gather-by-ragged": lambda tf: tf.gather(tf.constant([10.0, 20.0]), tf.ragged.constant([[0, 1], [1]])),
    "embedding": lambda tf: tf.nn.embedding_lookup(tf.constant([[1.0], [3.0]]), tf.ragged.constant([[0, 1], []])),
    "concat-rows": lambda tf: tf.concat([_a(tf), _a(tf)[:1]], 0),
    "concat-within": lambda tf: tf.concat([_a(tf), _a(tf) * 10], 1),
    "concat-inside": lambda tf: tf.concat([_b(tf), _b(tf)], 2),
    "stack": lambda tf: tf.ragged.stack([tf.constant([1, 2]), tf.constant([3])]),
    "stack-ragged": lambda tf: tf.ragged.stack([tf.ragged.constant([[1], [2, 3]]), tf.ragged.constant([[4, 5]])]),
    "mask-rows": lambda tf: tf.ragged.boolean_mask(_a(tf), [True, False, True]),
    "mask-values": lambda tf: tf.ragged.boolean_mask(_a(tf), _a(tf) > 1.5),
    "range": lambda tf: tf.ragged.range([3, 0, 2], [6, 0, 9], [1, 1, 3]),
    "range-to": lambda tf: tf.ragged.range([2, 0, 3]),
    "split": lambda tf: tf.strings.split(tf.constant(["a b c", "", "d e"]), result_type="RaggedTensor"),
    "string-split": lambda tf: tf.string_split(tf.constant(["a,b", "", "c"]), ",", result_type="RaggedTensor"),
    "segment-ids": lambda tf: tf.ragged.row_splits_to_segment_ids([0, 2, 2, 5]),
    "row-splits": lambda tf: tf.ragged.segment_ids_to_row_splits([0, 0, 2, 2, 2]),
    "inner-slice": lambda tf: _b(tf)[:, :, 1:],
    "inner-slice-of-row": lambda tf: _b(tf)[2, 1, 1:],
    "uniform": lambda tf: tf.RaggedTensor.from_uniform_row_length([1, 2, 3, 4], 2),
    "uniform-empty": lambda tf: tf.RaggedTensor.from_uniform_row_length([], 0, nrows=3),
    "uniform-ragged": lambda tf: tf.RaggedTensor.from_uniform_row_length(_a(tf), 3),
    "uniform-length": lambda tf: tf.RaggedTensor.from_uniform_row_length([1, 2, 3, 4], 2).uniform_row_length,
    "nested-rowids": lambda tf: tf.RaggedTensor.from_nested_value_rowids([1, 2, 3], [[0, 0, 1], [0, 0, 2]], [3, 3]),
    "rowids-of-nested": lambda tf: _b(tf).nested_value_rowids()[1],
    "splits-dtype": lambda tf: _b(tf).with_row_splits_dtype(tf.int32).values.row_splits,
    "split-rows": lambda tf: tf.concat(tf.split(_a(tf), 3)[::-1], 0),
    "split-sizes": lambda tf: tf.split(_b(tf), [1, 2])[1],
    "split-inside": lambda tf: tf.split(
        tf.ragged.constant([[[1, 2], [3, 4]], []], ragged_rank=1, inner_shape=(2,)), 2, 2
    )[1],
    "stop-gradient": lambda tf: tf.stop_gradient(_a(tf)),
    "bitcast": lambda tf: tf.bitcast(_a(tf), tf.int32),
    "map-ragged": lambda tf: tf.map_fn(lambda row: row * 2, _a(tf)),
    "map-nested": lambda tf: tf.map_fn(lambda row: row + 1, _b(tf)),
    "map-to-rows": lambda tf: tf.map_fn(
        tf.range, tf.constant([1, 0, 3]), fn_output_signature=tf.RaggedTensorSpec([None], tf.int32)
    ),
    "map-to-nested": lambda tf: tf.map_fn(
        tf.ragged.range,
        tf.ragged.constant([[1, 2], [], [3]]),
        fn_output_signature=tf.RaggedTensorSpec([None, None], tf.int32),
    ),
    "map-none": lambda tf: tf.map_fn(
        tf.range, tf.constant([], tf.int32), fn_output_signature=tf.RaggedTensorSpec([None], tf.int32)
    ),
    "merge-rows": lambda tf: _b(tf).merge_dims(0, 1),
    "merge-within": lambda tf: _b(tf).merge_dims(1, 2),
    "merge-all": lambda tf: _b(tf).merge_dims(0, -1),
    "merge-dense": lambda tf: tf.ragged.constant([[[1, 2], [3, 4]], [[5, 6]]], ragged_rank=1).merge_dims(-2, -1),
    "tensor-shape": lambda tf: _a(tf).to_tensor(shape=[None, 5]),
    "tensor-cut": lambda tf: _b(tf).to_tensor(-1, shape=[3, 1, 3]),
    "tensor-longer": lambda tf: tf.ragged.constant([["x"], []]).to_tensor("?", shape=[2, 2]),
    "expand-0": lambda tf: tf.expand_dims(_a(tf), 0),
    "expand-1": lambda tf: tf.expand_dims(_a(tf), 1),
    "expand-last": lambda tf: tf.expand_dims(_b(tf), -1),
    "squeeze": lambda tf: tf.squeeze(tf.ragged.constant([[[1, 2]], [[3]]]), 1),
    "stack-rows": lambda tf: tf.stack([_a(tf), _a(tf) + 1]),
    "stack-within": lambda tf: tf.stack([_a(tf), _a(tf) + 1], axis=1),
    "stack-last": lambda tf: tf.stack([_a(tf), _a(tf) + 1], axis=2),
    "tile": lambda tf: tf.tile(_a(tf), [2, 3]),
    "reverse": lambda tf: tf.reverse(_b(tf), [0, 1, 2]),
    "size": lambda tf: tf.size(_b(tf)),
    "rank": lambda tf: tf.rank(_b(tf)),
    "where": lambda tf: tf.where(_b(tf) > 2),
    "one-hot": lambda tf: tf.one_hot(tf.ragged.constant([[1], [], [0, 2]]), 3),
    "zeros": lambda tf: tf.zeros_like(_b(tf)),
    "ones": lambda tf: tf.ones_like(_a(tf), tf.int32),
    "identity": lambda tf: tf.identity(_a(tf)),
    "square": lambda tf: tf.square(_a(tf)),
    "relu": lambda tf: tf.nn.relu(_a(tf) - 2.0),
    "dropout": lambda tf: tf.nn.dropout(_a(tf), rate=0.0),
    "clip": lambda tf: tf.clip_by_value(_a(tf), 2.0, 4.0),
    "add-dense": lambda tf: tf.add(_a(tf), [[1.0], [2.0], [3.0]]),
    "dense-minus": lambda tf: tf.subtract(10.0, _a(tf)),
    "maximum": lambda tf: tf.maximum(_a(tf), _a(tf) * 0.0 + 2.5),
    "equal": lambda tf: tf.equal(_b(tf), 3),
    "and": lambda tf: tf.logical_and(_a(tf) > 1, _a(tf) < 5),
    "add-n": lambda tf: tf.add_n([_a(tf), _a(tf)]),
    "keepdims": lambda tf: tf.reduce_sum(_a(tf), 1, keepdims=True),
    "lower": lambda tf: tf.strings.lower(tf.ragged.constant([["A", "bC"], []])),
    "hashed": lambda tf: tf.strings.to_hash_bucket_fast(tf.ragged.constant([["A", "bC"], []]), 100),
    "substr": lambda tf: tf.strings.substr(tf.ragged.constant([["Abc", "bC"], []]), 0, 2),
    "replaced": lambda tf: tf.strings.regex_replace(tf.ragged.constant([["Abc", "bC"], []]), "b", "xx"),
    "stripped": lambda tf: tf.strings.strip(tf.ragged.constant([[" A ", "b"], []])),
    "as-string": lambda tf: tf.strings.as_string(_b(tf)),
    "string-lengths": lambda tf: tf.strings.length(tf.ragged.constant([["Abc", "b"], []])),
    "joined": lambda tf: tf.strings.join([tf.ragged.constant([["A", "b"], []]), "!"], "-"),
    "joined-words": lambda tf: tf.strings.reduce_join(
        tf.ragged.constant([["A", "b"], [], ["c"]]), axis=-1, separator=" "
    ),
    "joined-nested": lambda tf: tf.strings.reduce_join(tf.ragged.constant([[["A", "b"], ["c"]], []]), axis=2),
    "map-rows": lambda tf: tf.map_fn(tf.reduce_sum, _a(tf), dtype=tf.float32),
    "map-rows-beside": lambda tf: tf.map_fn(
        lambda x: tf.cast(tf.size(x[0]), tf.float32) * x[1], (_b(tf), tf.constant([1.0, 2.0, 3.0])), dtype=tf.float32
    ),
    "gradient-of-stack": lambda tf: _gradient(tf, lambda a: tf.reduce_sum(tf.square(tf.stack([a, 2.0 * a], 1)))),
    "gradient": lambda tf: _gradient(tf, lambda a: tf.reduce_sum(tf.square((a * a).to_tensor()))),
    "gradient-of-max": lambda tf: _gradient(tf, lambda a: tf.reduce_max(tf.concat([a, a * 2], 1), 1)),
}


def _listed(value: Any) -> Any:
    if hasattr(value, "to_list"):
        return value.to_list()
    if hasattr(value, "indices"):
        return [part.tolist() for part in (value.indices, value.values, value.dense_shape)]
    return value.tolist()


def _run(tf: Any, build: Callable[[Any], Any]) -> tuple[Any, Any]:
    with tf.Graph().as_default(), tf.Session() as session:
        built = build(tf)
        is_shaped = hasattr(built, "row_splits") and built.shape.ndims is not None
        return _listed(session.run(built)), built.shape.as_list() if is_shaped else None


@pytest.mark.parametrize("name", CASES)
def test_as_lists(name: str) -> None:
    (want, their_shape), (got, our_shape) = _run(theirs, CASES[name]), _run(ours, CASES[name])
    np.testing.assert_equal(got, want)
    for mine, other in zip(our_shape or (), their_shape or ()):  # one may know more
        assert mine == other or None in (mine, other)


def _fills(tf: Any) -> Any:
    return tf.data.Dataset.range(4).map(lambda x: tf.fill([x], x))


DATASETS: dict[str, Callable[[Any], Any]] = {
    "dense": lambda tf: _fills(tf).apply(tf.data.experimental.dense_to_ragged_batch(3)),
    "inner-sizes": lambda tf: tf.data.Dataset.range(3).map(lambda x: tf.zeros([2, x, 1])).ragged_batch(2, True),
    "one-axis-more": lambda tf: _fills(tf).ragged_batch(2).batch(2),
    "rows": lambda tf: tf.data.Dataset.from_tensor_slices(_b(tf)),
    "rows-of-rows": lambda tf: tf.data.Dataset.from_tensor_slices(_a(tf)),
}


def _elements(tf: Any, build: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = build(tf)
        following, found = tf.data.make_one_shot_iterator(dataset).get_next(), []
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                found.append(_listed(session.run(following)))
        return found, dataset.element_spec.shape.as_list()


@pytest.mark.parametrize("name", DATASETS)
def test_datasets_have_the_same_elements(name: str) -> None:
    (got, our_shape), (want, their_shape) = _elements(ours, DATASETS[name]), _elements(theirs, DATASETS[name])
    assert got == want and len(our_shape) == len(their_shape)
    assert all(mine in (None, other) for mine, other in zip(our_shape, their_shape))
