"""Public functions of several nodes that stand for themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.cases.values import i32, noise
from tests.oracle.compare import Tolerance
from tests.oracle.programs.api import F, expression

_X = noise(F, 3, 4)
expression("moments-of-sums", [_X], lambda tf, x: [
    *tf.nn.sufficient_statistics(x, [0])[:3], *tf.nn.sufficient_statistics(x, [0, 1], shift=0.5, keep_dims=True),
    *tf.nn.normalize_moments(*tf.nn.sufficient_statistics(x, [1])),
    *tf.nn.normalize_moments(*tf.nn.sufficient_statistics(x, [1], shift=0.3)), tf.nn.swish(x), tf.nn.silu(x, 2.0),
    tf.clip_by_average_norm(x, 0.01), tf.clip_by_average_norm(x, 10.0),
] if x.shape.ndims else [tf.nn.swish(x), tf.clip_by_average_norm(x, 0.01)],
    tolerance=Tolerance(256, scaled=True))  # fmt: skip
expression("repeats", [_X, i32(2, 0, 3)], lambda tf, x, n: [
    f for x in [tf.ensure_shape(x, [3, None])] for f in [
        tf.repeat(x, 2), tf.repeat(x, n, axis=0), tf.repeat(x, [1, 2, 0, 3], axis=1), tf.repeat(x, 3, axis=-1),
        *tf.shape_n([x, n]), tf.batch_gather(x, [[0, 1], [2, 2], [3, 0]]), tf.guarantee_const(x),
        tf.parse_tensor(tf.serialize_tensor(x), tf.float32), tf.parallel_stack([[1.0, 2.0], [3.0, 4.0]]),
    ]
], True, ops=("ParallelConcat",))  # fmt: skip
expression("sparse-made", [np.where(_X > 0, _X, 0).astype(F)], lambda tf, x: [
    f for x in [tf.ensure_shape(x, [3, 4])] for s in [tf.sparse.from_dense(x), tf.sparse.eye(3, 5)]
    for t in [s, *(tf.sparse.expand_dims(s, axis) for axis in (0, 1, -1))] for f in [t.indices, t.values, t.dense_shape]
])  # fmt: skip
expression("filled-by-sizes", [i32(3)[0]], lambda tf, n: [
    f(size, t) for f in (tf.zeros, tf.ones) for t in (tf.float32, tf.string) for size in (n, tf.stack([n, 2]), [n, 1])
    if t is tf.float32 or f is tf.zeros
])  # fmt: skip
expression("gradients-stop-at-text", [_X], lambda tf, x: [
    y + tf.string_to_number(tf.as_string(y)) * tf.to_float(tf.strings.length(tf.as_string(y))) for y in [x * 2.0]
], True)  # fmt: skip
expression("where-numbers-are-not-0", [_X], lambda tf, x: [
    tf.where([0, 2, 3]), tf.where([[0.0, -1.5], [2.0, 0.0]]), tf.where([True, False]), tf.where(x),
])  # fmt: skip
_ONE_ROW = np.array([[0.1, 0.2, 0.3, 0.4]], F)
expression("entropies-of-one-row-for-all", [_X, _ONE_ROW], lambda tf, x, one: [
    f for x, one in [(tf.ensure_shape(x, [3, 4]), tf.ensure_shape(one, [1, 4]))] for f in [
        tf.nn.softmax_cross_entropy_with_logits(labels=one, logits=x),
        tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.stop_gradient(one), logits=x, axis=1),
    ]
], tolerance=Tolerance(32, scaled=True))  # fmt: skip


def _few_bits(tf: Any, x: Any) -> list[Any]:
    found: list[Any] = []
    for kind in (tf.qint8, tf.quint8, tf.qint16, tf.quint16, tf.qint32):
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
            for low, high in ((-1.0, 2.0), (-3.0, 0.0), (0.0, 4.0), (1.0, 3.0), (0.0, 0.0)):
                q, *ends = tf.quantize(x, low, high, kind, mode=mode)
                found += [tf.cast(q, tf.int32), *ends, tf.dequantize(q, *ends, mode=mode)]
    parts = [tf.quantize(x, -1.0, high, tf.quint8) for high in (1.0, 2.5)]
    values, *ends = tf.quantized_concat(0, *zip(*parts, strict=True))
    turned = tf.raw_ops.QuantizedReshape(tensor=values, shape=[2, -1], input_min=ends[0], input_max=ends[1])
    return [*found, *(tf.cast(q, tf.int32) for q in (values, turned.output)), *ends, *turned[1:]]


expression(
    "few-bits", [noise(F, 40) * 2], _few_bits, ops=("QuantizeV2", "Dequantize", "QuantizedConcat", "QuantizedReshape")
)
