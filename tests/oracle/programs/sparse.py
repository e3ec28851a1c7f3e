"""Public functions of sparse tensors and strings."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.cases.values import noise, strings
from tests.oracle.programs.api import expression

AT = np.array([[0, 1], [1, 0], [1, 3], [3, 2]], np.int64)
VALUES = noise("float32", 4)
TABLE = noise("float32", 6, 3)


def _sp(tf: Any, values: Any) -> Any:
    return tf.SparseTensor(AT, values, [4, 5])


def _parts(sp: Any) -> list[Any]:
    return [sp.indices, sp.values, sp.dense_shape]


expression(
    "sparse-split",
    [VALUES],
    lambda tf, v: [p for s in tf.sparse_split(sp_input=_sp(tf, v), num_split=2, axis=1) for p in _parts(s)],
    ops=("SparseSplit",),
)
expression("sparse-transpose", [VALUES], lambda tf, v: _parts(tf.sparse_transpose(_sp(tf, v))))
expression("sparse-retain", [VALUES], lambda tf, v: _parts(tf.sparse_retain(_sp(tf, v), [True, False, True, False])))
expression("sparse-reset", [VALUES], lambda tf, v: _parts(tf.sparse_reset_shape(_sp(tf, v))))
expression(
    "sparse-dense",
    [VALUES],
    lambda tf, v: [
        tf.sparse_tensor_to_dense(_sp(tf, v)),
        tf.sparse_reduce_sum(_sp(tf, v)),
        tf.sparse_reduce_sum(_sp(tf, v), 1),
    ],
    True,
)
expression("sparse-concat", [VALUES], lambda tf, v: _parts(tf.sparse_concat(1, [_sp(tf, v), _sp(tf, v)])))
for _combiner in ("sum", "mean", "sqrtn"):
    expression(
        f"embedding-sparse-{_combiner}",
        [TABLE, np.abs(VALUES)],
        lambda tf, t, w, c=_combiner: [
            tf.nn.embedding_lookup_sparse(t, tf.SparseTensor(AT, [5, 0, 5, 2], [4, 5]), None, combiner=c),
            tf.nn.embedding_lookup_sparse(
                t, tf.SparseTensor(AT, [5, 0, 5, 2], [4, 5]), tf.SparseTensor(AT, w, [4, 5]), combiner=c
            ),
        ],
        False,
    )
expression(
    "safe-embedding",
    [TABLE],
    lambda tf, t: [
        tf.nn.safe_embedding_lookup_sparse([t], tf.SparseTensor(AT, np.array([5, -1, 5, 2], np.int64), [5, 5]))
    ],
)
expression("string-split", [strings("a b", "", "c  d e")], lambda tf, s: _parts(tf.string_split(s)))


def _serialized() -> np.ndarray:
    from sparkflow_runtime.wire import example_proto as p

    out = np.empty(2, object)
    for i, words in enumerate(([b"x", b"yz"], [])):
        feature = {
            "a": p.Feature(float_list=p.FloatList(value=[i, 2.5])),
            "s": p.Feature(bytes_list=p.BytesList(value=words)),
        }
        out[i] = p.Example(features=p.Features(feature=feature)).SerializeToString()
    return out


def _parsed(tf: Any, text: Any) -> list[Any]:
    features = {
        "a": tf.FixedLenFeature([2], tf.float32),
        "m": tf.FixedLenFeature([], tf.int64, default_value=-1),
        "s": tf.VarLenFeature(tf.string),
    }
    found = tf.parse_example(text, features)
    return [found["a"], found["m"], *_parts(found["s"])]


expression(
    "parse-example", [_serialized()], _parsed, ops=("ParseExample",), one_way="TensorFlow makes a ParseExampleV2"
)


NUMBERS = np.array([1, 1, 4, 0])


def _ragged(tf: Any, values: Any) -> Any:
    return tf.RaggedTensor.from_row_splits(values, tf.constant([0, 2, 2, 4], tf.int64))


for _axis in (0, -1):
    for _label, _options in {
        "all": {},
        "low": {"minlength": 7},
        "high": {"maxlength": 2},
        "is": {"binary_output": True},
    }.items():
        expression(
            f"sparse-bincount-{_label}{_axis}",
            [NUMBERS],
            lambda tf, v, a=_axis, o=_options: [
                part
                for x in (v, tf.reshape(v, [2, 2]), _sp(tf, v), _ragged(tf, v))
                for part in _parts(tf.sparse.bincount(x, axis=a, **o))
            ],
            ops=("DenseCountSparseOutput", "SparseCountSparseOutput", "RaggedCountSparseOutput"),
        )
    expression(
        f"sparse-bincount-weights{_axis}",
        [NUMBERS, VALUES],
        lambda tf, v, w, a=_axis: [
            part
            for of in (lambda x: tf.reshape(x, [2, 2]), lambda x: _sp(tf, x), lambda x: _ragged(tf, x))
            for part in _parts(tf.sparse.bincount(of(v), weights=of(w), axis=a))
        ],
    )
