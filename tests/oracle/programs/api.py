"""Public functions, most of which build several nodes: (inputs, expression) each, differentiated where asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracle.cases.values import noise, positive, ramp, strings
from tests.oracle.compare import FUNCTION_SUM, Tolerance
from tests.oracle.program import program

F, D, I = "float32", "float64", "int32"  # noqa: E741
Build = Callable[..., Any]


def expression(name: str, arrays: list[np.ndarray], build: Build, grad: bool = False, **options: Any) -> None:
    """build(tf, *tensors) -> a tensor or several. Known and open shapes; with `grad` gradients by the float inputs."""
    for known in (True, False):

        def make(tf: Any, known: bool = known) -> list[Any]:
            xs = [
                tf.placeholder(tf.as_dtype("string" if a.dtype == object else a.dtype), a.shape if known else None)
                for a in arrays
            ]
            made = build(tf, *xs)
            outs = list(made) if isinstance(made, (list, tuple)) else [made]
            fetches = [tf.convert_to_tensor(out) for out in outs]
            if grad:
                ys = [out for out in fetches if out.dtype.is_floating]
                by = [x for x in xs if x.dtype.is_floating]
                fetches += [
                    tf.convert_to_tensor(g) for g in tf.gradients([y * y * 0.5 + y for y in ys], by) if g is not None
                ]
            return [(fetches, dict(zip(xs, arrays)))]

        make.__name__ = f"{name}-{'known' if known else 'open'}"
        settings = {k: v for k, v in options.items() if k != "ops"}
        program(*options.get("ops", ()), **{"tolerance": Tolerance(64, scaled=True), **settings})(make)


X, Y, V = noise(F, 3, 4), noise(F, 3, 4, seed=5), noise(F, 4, seed=6)
P = positive(F, 3, 4)

# ---------------------------------------------------------------------- operators and math

expression(
    "operators", [X, Y], lambda tf, x, y: [x + y, x - y, x * y, x / y, -x, abs(x), x**2.0, 2.0 - x, 1.0 / y], True
)
expression("comparisons", [X, Y], lambda tf, x, y: [x < y, x <= y, x > 0.5, x >= y, tf.equal(x, y), tf.not_equal(x, x)])
expression(
    "integer-operators",
    [ramp(I, 3, 4), np.array([3, -2, 5, 7], np.int32)],
    lambda tf, x, y: [x // y, x % y, x / y, tf.truediv(x, y), tf.floordiv(x, y), tf.div(x, y), tf.mod(x, y)],
)
expression("float-mod", [X, P], lambda tf, x, y: [x % y, x // y, tf.floormod(x, y), tf.floor_div(x, y)])
expression("logical", [X > 0, Y > 0], lambda tf, a, b: [a & b, a | b, a ^ b, ~a, tf.logical_xor(a, b)])
expression("rounds", [X * 3], lambda tf, x: [tf.round(x), tf.floor(x), tf.ceil(x), tf.rint(x), tf.sign(x)])
expression(
    "casts",
    [X * 9],
    lambda tf, x: [tf.to_int32(x), tf.to_double(x), tf.cast(x, tf.bool), tf.saturate_cast(x * 1e10, tf.int16)],
)
for _kind in ("int8", "uint8", "int32", "uint32"):  # of int64 TensorFlow itself goes beyond the end
    expression(
        f"saturate-{_kind}",
        [np.array([np.inf, -np.inf, 1e4, -1e4, 3, -1, 3e38], np.float32)],
        lambda tf, x, k=_kind: [
            tf.saturate_cast(tf.cast(x, s) if s else x, k)
            for s in (None, "float16", "bfloat16", "float64", "complex64")
        ],
    )
expression(
    "functions",
    [P],
    lambda tf, x: [tf.log1p(x), tf.expm1(x), tf.rsqrt(x), tf.erf(x), tf.reciprocal(x), tf.pow(x, 1.7)],
    True,
)
expression(
    "divides",
    [X, Y],
    lambda tf, x, y: [
        tf.divide(x, y),
        tf.div_no_nan(x, tf.maximum(y, 0.0)),
        tf.realdiv(x, y),
    ],
)
expression(
    "sums", [X, Y], lambda tf, x, y: [tf.add_n([x, y, x]), tf.accumulate_n([x, y]), tf.squared_difference(x, y)], True
)
expression(
    "products",
    [X, Y],
    lambda tf, x, y: [tf.matmul(x, y, transpose_b=True), tf.matmul(x, y, True), tf.matmul(x, y, adjoint_a=True)],
    True,
)
expression(
    "reductions",
    [X],
    lambda tf, x: [
        tf.reduce_sum(x),
        tf.reduce_mean(x, 1),
        tf.reduce_max(x, [0], True),
        tf.reduce_min(x, -1),
        tf.reduce_prod(x, [0, 1]),
        tf.reduce_logsumexp(x, 1),
        tf.reduce_logsumexp(x),
        tf.reduce_sum(x, axis=[]),
        tf.reduce_logsumexp(x, 0, True),
    ],
    True,
)
expression(
    "logsumexp-ends",
    [np.array([[-np.inf, -np.inf], [1e4, 1e4], [np.inf, 1]], np.float32)],
    lambda tf, x: tf.reduce_logsumexp(x, 1),
)
expression("truths", [X > 0], lambda tf, x: [tf.reduce_all(x, 0), tf.reduce_any(x, 1), tf.reduce_any(x)])
expression("extremes", [X], lambda tf, x: [tf.argmax(x, 1), tf.argmin(x, 0), tf.argmax(x, output_type=tf.int32)])
expression(
    "running",
    [X],
    lambda tf, x: [tf.cumsum(x, 1), tf.cumprod(x, 0, exclusive=True), tf.cumsum(x, 0, reverse=True)],
    True,
)
expression(
    "sequences",
    [],
    lambda tf: [
        tf.range(5),
        tf.range(3, 18, 3),
        tf.range(3.0, 1.0, -0.5),
        tf.linspace(0.0, 1.0, 5),
        tf.lin_space(2.0, 3.0, 1),
    ],
)
expression(
    "segments",
    [X, np.array([0, 0, 2], np.int32)],
    lambda tf, x, i: [tf.segment_sum(x, i), tf.unsorted_segment_sum(x, i, 4)],
    True,
)
expression(
    "clips",
    [X],
    lambda tf, x: [
        tf.clip_by_value(x, -0.5, 0.5),
        tf.clip_by_norm(x, 1.0),
        tf.clip_by_norm(x, 1.0, [1]),
        tf.clip_by_norm(x, 100.0),
    ],
    True,
)
expression(
    "global-norm",
    [X, Y],
    lambda tf, x, y: [tf.global_norm([x, None, y]), *tf.clip_by_global_norm([x, y], 1.0)[0]],
    True,
)
expression(
    "complex",
    [noise("complex64", 3)],
    lambda tf, z: [tf.conj(z), tf.abs(z), z * z, tf.exp(z), tf.square(z), tf.sqrt(z), tf.tanh(z)],
)

# ---------------------------------------------------------------------- arrays

expression(
    "indexing",
    [noise(F, 4, 5, 6)],
    lambda tf, x: [
        x[1],
        x[-1, 2],
        x[..., 0],
        x[:, None, 1],
        x[1:3, ::2],
        x[::-1],
        x[..., None],
        x[0, ..., 1:-1],
        x[2][1][0],
        x[:, 1:2, -1],
    ],
    True,
)
expression("tensor-index", [X, np.array(1, np.int32)], lambda tf, x, i: [x[i], x[:, i], x[i:], x[i, i + 1]], True)
expression(
    "mask", [noise(F, 3, 4, 2), X > 0], lambda tf, x, m: [tf.boolean_mask(x, m)] if m.shape.ndims is not None else [x]
)
expression(
    "shapes",
    [X],
    lambda tf, x: [
        tf.shape(x),
        tf.size(x),
        tf.rank(x),
        tf.shape(x, out_type=tf.int64),
        tf.expand_dims(x, -1),
        tf.squeeze(tf.expand_dims(x, 0)),
    ],
)
expression(
    "layouts",
    [X],
    lambda tf, x: [
        tf.transpose(x),
        tf.transpose(x, [1, 0]),
        tf.reverse(x, [0]),
        tf.tile(x, [1, 2]),
        tf.pad(x, [[1, 0], [0, 2]]),
        tf.pad(x, [[1, 1], [1, 1]], "REFLECT"),
        tf.pad(x, [[1, 1], [1, 1]], "SYMMETRIC"),
        tf.pad(x, [[1, 0], [0, 0]], constant_values=7.0),
    ],
    True,
)
expression(
    "joins",
    [X, Y],
    lambda tf, x, y: [tf.concat([x, y], 0), tf.concat([x, y], -1), tf.stack([x, y], 1), tf.concat([x], 0)],
    True,
)
expression(
    "cuts",
    [noise(F, 4, 6)],
    lambda tf, x: [*tf.split(x, 3, 1), *tf.split(x, [1, 3], 0), *tf.split(x, [2, -1], 1)],
    True,
)
expression("unstack", [X], lambda tf, x: [*tf.unstack(x, 3), *tf.unstack(x, 4, axis=1)], True)
expression(
    "filled",
    [X],
    lambda tf, x: [
        tf.zeros_like(x),
        tf.ones_like(x, tf.int32),
        tf.fill([2, 3], 9.0),
        tf.zeros([2]),
        tf.ones([0, 2], tf.int64),
        tf.zeros(tf.shape(x)),
    ],
)
expression(
    "gathers",
    [X, np.array([[2, 0], [1, 1]], np.int32)],
    lambda tf, x, i: [tf.gather(x, i), tf.gather(x, i, axis=1), tf.gather_nd(x, i)],
    True,
)
expression(
    "batched-gather",
    [noise(F, 2, 5, 3), np.array([[2, 0], [1, 1]], np.int32)],
    lambda tf, x, i: [tf.gather(x, i, batch_dims=1), tf.gather(x, i, axis=1)],
    True,
)
expression("scatter", [X, np.array([[2], [0], [2]], np.int32)], lambda tf, x, i: tf.scatter_nd(i, x, [4, 4]), True)
expression("choices", [X > 0, X, Y], lambda tf, c, x, y: [tf.where(c, x, y), tf.where(c)], True)
expression(
    "one-hot",
    [np.array([0, 2, 5, -1], np.int32)],
    lambda tf, i: [
        tf.one_hot(i, 4),
        tf.one_hot(i, 3, 5, 1, axis=0),
        tf.one_hot(i, 4, True, False),
        tf.one_hot(i, 2, dtype=tf.float64),
    ],
)
expression(
    "uniques",
    [np.array([3, 1, 3, 0], np.int64)],
    lambda tf, x: [*tf.unique(x), *tf.unique_with_counts(x), *tf.setdiff1d(x, tf.constant([1], tf.int64))],
)
expression(
    "grids",
    [V, np.array([1.0, 2.0], np.float32)],
    lambda tf, a, b: [*tf.meshgrid(a, b), *tf.meshgrid(a, b, indexing="ij")],
    True,
)
expression(
    "parts",
    [X, np.array([1, 0, 1], np.int32)],
    lambda tf, x, p: [*tf.dynamic_partition(x, p, 2), tf.dynamic_stitch([[0, 2], [1]], [x[:2], x[2:]])],
    True,
)
expression(
    "strings",
    [strings("a", "b")],
    lambda tf, s: [
        s + "x",
        tf.equal(s, "a"),
        tf.concat([s, s], 0),
        s[0],
        tf.gather(s, [1, 0]),
        tf.tile(s, [2]),
        tf.fill([2], "q"),
    ],
)
expression("largest", [X], lambda tf, x: [*tf.nn.top_k(x, 2), tf.nn.in_top_k(x, [0, 1, 2], 2)])

# ---------------------------------------------------------------------- neural networks

expression(
    "activations",
    [X],
    lambda tf, x: [
        tf.nn.relu(x),
        tf.nn.relu6(x),
        tf.nn.elu(x),
        tf.nn.selu(x),
        tf.nn.softplus(x),
        tf.nn.softsign(x),
        tf.nn.leaky_relu(x),
        tf.nn.sigmoid(x),
        tf.nn.tanh(x),
    ],
    True,
)
expression(
    "layers",
    [X, noise(F, 4, 2), noise(F, 2)],
    lambda tf, x, w, b: [tf.nn.xw_plus_b(x, w, b), tf.nn.relu_layer(x, w, b), tf.nn.bias_add(x[:, :2], b)],
    True,
)
expression("softmaxes", [X], lambda tf, x: [tf.nn.softmax(x), tf.nn.log_softmax(x), tf.nn.l2_loss(x)], True)
expression(
    "softmax-axis",
    [noise(F, 2, 3, 4)],
    lambda tf, x: [tf.nn.softmax(x, axis=1), tf.nn.log_softmax(x, axis=0)] if x.shape.ndims else [tf.nn.softmax(x)],
    True,
)
expression(
    "entropies",
    [X, np.abs(Y)],
    lambda tf, x, z: [
        tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=x),
        tf.nn.softmax_cross_entropy_with_logits_v2(labels=z, logits=x),
        tf.nn.softmax_cross_entropy_with_logits(labels=z, logits=x),
    ],
    True,
)
expression(
    "entropies-axis",
    [noise(F, 2, 3, 4), positive(F, 2, 3, 4)],
    lambda tf, x, z: (
        tf.nn.softmax_cross_entropy_with_logits_v2(labels=z, logits=x, axis=1)
        if x.shape.ndims
        else tf.nn.softmax_cross_entropy_with_logits_v2(labels=z, logits=x)
    ),
    True,
)
expression(
    "sparse-entropies",
    [X, np.array([0, 3, 1], np.int64)],
    lambda tf, x, i: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=i, logits=x),
    True,
)
expression(
    "sparse-entropies-deep",
    [noise(F, 2, 3, 4), np.array([[0, 3, 1], [2, 2, 0]], np.int32)],
    lambda tf, x, i: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=i, logits=x) if x.shape.ndims else x,
    True,
)
expression(
    "normal-forms",
    [X],
    lambda tf, x: [
        tf.nn.l2_normalize(x, 1),
        tf.nn.l2_normalize(x, [0, 1]),
        *tf.nn.moments(x, [0]),
        *tf.nn.moments(x, [0, 1], keep_dims=True),
    ],
    True,
)
expression(
    "batch-norm",
    [X, V, P[0], V, V],
    lambda tf, x, m, v, o, s: [
        tf.nn.batch_normalization(x, m, v, o, s, 1e-3),
        tf.nn.batch_normalization(x, m, v, None, None, 1e-3),
    ],
    True,
)
expression("kept-dropout", [X], lambda tf, x: [tf.nn.dropout(x, keep_prob=1.0), tf.nn.dropout(x, rate=0.0)], True)
expression(
    "embedding",
    [noise(F, 5, 2), np.array([[4, 0], [0, 1]], np.int64)],
    lambda tf, w, i: tf.nn.embedding_lookup(w, i),
    True,
)
for _strategy in ("mod", "div"):
    expression(
        f"embedding-parts-{_strategy}",
        [noise(F, 3, 2), noise(F, 2, 2, seed=9), np.array([4, 0, 0, 3], np.int32)],
        lambda tf, a, b, i, s=_strategy: tf.nn.embedding_lookup([a, b], i, partition_strategy=s),
        True,
    )
expression(
    "embedding-norm",
    [noise(F, 5, 2), np.array([4, 0, 0], np.int32)],
    lambda tf, w, i: tf.nn.embedding_lookup(w, i, max_norm=0.7),
    True,
)

# ---------------------------------------------------------------------- gradients


def _gradient_options(tf: Any, x: Any, y: Any) -> list[Any]:
    z = tf.sin(x) * y
    weighted = tf.gradients(z, [x, y], grad_ys=y)
    stopped = tf.gradients(z * x, x, stop_gradients=[z])
    twice = tf.gradients(tf.gradients(z * z, x)[0], [x, y])
    several = tf.gradients([z, x * 2.0], x, gate_gradients=True)
    return [*weighted, *stopped, *twice, *several, tf.stop_gradient(z)]


expression("gradient-options", [X, Y], _gradient_options)
expression(
    "slices-added",
    [noise(F, 5, 2), np.array([4, 0, 0], np.int32)],
    lambda tf, w, i: tf.gradients(
        tf.reduce_sum(tf.gather(w, i) ** 2.0) + tf.reduce_sum(tf.gather(w, i + 0)) + tf.reduce_sum(w), w
    ),
)
expression("unconnected", [X, Y], lambda tf, x, y: tf.gradients(x * 2.0, [x, y], unconnected_gradients="zero"))
expression(
    "decay",
    [np.array(7, np.int64)],
    lambda tf, n: [
        tf.train.exponential_decay(0.1, n, 5, 0.9),
        tf.train.exponential_decay(0.1, n, 5, 0.9, staircase=True),
    ],
)
_ = (D, FUNCTION_SUM)
