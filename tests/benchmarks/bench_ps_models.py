"""Kinds of models on parameter servers, beside TensorFlow where its interpreter is given:

    python tests/benchmarks/bench_ps_models.py [--tensorflow .venv-oracle/bin/python] [--cases slots adam ...]

Every server and each of two asynchronous workers is a process of this host; with `--servers 0` the workers are a ring
(sparkflow.distribute), which makes its steps together. A line for each case: steps/s of both workers together, and the
processor time of a step in the servers and in its worker, in milliseconds.

slots: 26 tables of 20,000 rows of 16, Adagrad (adam, lazyadam, adadelta, ftrl, descent: the same with those).
partitioned: each in two parts. expanded: rows that get an axis each before they are put together. penalties: on each
table's rows.
wide, narrow, mixed: rows of 64, of 1, of 1 to 64. tasks: three towers and a line above the same rows. clipped:
gradients clipped by their norm. shared: 26 columns of 4 tables. whole: one table. multihot: 10 columns of 1 to 5 ids
each. din: attention over 20 items. deepfm: two tables a column, Adam. columns: feature columns, also a linear model of
them. strings: hashed columns of text. word2vec: NCE. sparse: logistic regression on 20 of 100,000 features, FTRL. mlp:
784-512-256-10. crosses: three cross layers beside two others, Adam. dots: products of all pairs of rows. towers: of
users and of items, against the others of a batch. experts: four, two tasks that mix them, Adam. weighted: multihot
with weights. fields: ten columns, each with a table for every other (factorization machine). pairs: products of all
pairs of rows beside them. recurrent: gated units over 20 items by `scan`, sampled softmax. attention: two blocks of
causal attention over 20 items, Adam. penalty: deepfm of one table of 100,000 rows, with a penalty on all of it.
padded: rows of a table whose first row is replaced by zeros, scaled, weighed by a softmax; Adam. float16, bfloat16:
slots with tables of these, whose rows are cast to float32.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from bench_ps import free_ports, module_of

ROWS, COLUMNS, BATCH, WARM, WORKERS = 20_000, 26, 256, 12, 2
Model = tuple[Any, Any, list[dict[Any, Any]]]  # the loss, the optimizer, batches to feed


def lazy_adam(tf: Any) -> Any:
    """TensorFlow's of old, which current ones do not have."""

    class LazyAdam(tf.train.AdamOptimizer):
        def _apply_sparse(self, grad: Any, var: Any) -> Any:
            (power1, power2), ids = self._get_beta_accumulators(), grad.indices
            beta1, beta2 = self._beta1_t, self._beta2_t
            m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
            m_t = tf.scatter_update(m, ids, beta1 * tf.gather(m, ids) + (1 - beta1) * grad.values)
            v_t = tf.scatter_update(v, ids, beta2 * tf.gather(v, ids) + (1 - beta2) * tf.square(grad.values))
            rate = self._lr_t * tf.sqrt(1 - power2) / (1 - power1)
            moved = rate * tf.gather(m_t, ids) / (tf.sqrt(tf.gather(v_t, ids)) + self._epsilon_t)
            return tf.group(tf.scatter_sub(var, ids, moved), m_t, v_t)

    return LazyAdam


class Maker:
    """Models in one library; `ids` are drawn as those of real columns repeat, a few of them most of the time."""

    def __init__(self, tf: Any, servers: int, seed: int):
        self.tf, self.servers, self.rng = tf, servers, np.random.RandomState(seed)

    def ids(self, *shape: int, rows: int = ROWS) -> np.ndarray:
        return (np.minimum(self.rng.zipf(1.3, shape), rows) - 1).astype(np.int64)

    def table(self, name: str, rows: int = ROWS, width: int = 16, parts: int = 0) -> Any:
        tf = self.tf
        start = tf.random_uniform_initializer(-0.05, 0.05, seed=1)
        partitioner = tf.fixed_size_partitioner(parts) if parts else None
        return tf.get_variable(name, [rows, width], initializer=start, partitioner=partitioner)

    def dense(self, x: Any, units: int, name: str) -> Any:
        tf = self.tf
        with tf.variable_scope(name):
            start = tf.random_uniform_initializer(-0.1, 0.1, seed=2)
            w = tf.get_variable("w", [int(x.shape[-1]), units], initializer=start)
            b = tf.get_variable("b", [units], initializer=tf.zeros_initializer())
        return (tf.matmul(x, w) if x.shape.ndims == 2 else tf.tensordot(x, w, 1)) + b

    def logit(self, x: Any, units: Sequence[int] = (128, 64)) -> Any:
        for k, n in enumerate(units):
            x = self.tf.nn.relu(self.dense(x, n, f"hidden{k}"))
        return self.dense(x, 1, "logit")[:, 0]

    def labelled(self, logit: Any, optimizer: Any, batch: Callable[[], dict[Any, Any]]) -> Model:
        tf = self.tf
        labels = tf.placeholder(tf.float32, [None])
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logit))
        feeds = [{**batch(), labels: self.rng.randint(0, 2, BATCH).astype(np.float32)} for _ in range(8)]
        return loss, optimizer, feeds

    # ------------------------------------------------------------------ models

    def slots(
        self,
        optimizer: Any = None,
        widths: Sequence[int] = (16,),
        parts: int = 0,
        tables: int = COLUMNS,
        towers: int = 0,
    ) -> Model:
        """widths: of the tables' rows, in turn. towers: so many more above the rows, and a line."""
        tf = self.tf
        ids = tf.placeholder(tf.int64, [None, COLUMNS])
        held = [self.table(f"table{k}", ROWS, widths[k % len(widths)], parts) for k in range(tables)]
        looked_up = [tf.nn.embedding_lookup(held[k % tables], c) for k, c in enumerate(tf.unstack(ids, axis=1))]
        rows = tf.concat(looked_up, 1)
        logit = self.logit(rows)
        for k in range(towers):
            with tf.variable_scope(f"tower{k}"):
                logit += self.logit(rows)
        logit += self.dense(rows, 1, "line")[:, 0] if towers else 0.0
        return self.labelled(
            logit, optimizer or tf.train.AdagradOptimizer(0.05), lambda: {ids: self.ids(BATCH, COLUMNS)}
        )

    def adam(self) -> Model:
        return self.slots(self.tf.train.AdamOptimizer(1e-3))

    def lazyadam(self) -> Model:
        return self.slots(lazy_adam(self.tf)(1e-3))

    def adadelta(self) -> Model:
        return self.slots(self.tf.train.AdadeltaOptimizer(0.05))

    def descent(self) -> Model:
        return self.slots(self.tf.train.GradientDescentOptimizer(0.1))

    def expanded(self) -> Model:
        tf, ids = self.tf, self.tf.placeholder(self.tf.int64, [None, COLUMNS])
        rows = tf.concat([tf.expand_dims(r, 1) for r in self.rows(ids)], 1)
        logit = self.logit(tf.reshape(rows, [-1, COLUMNS * 16]))
        return self.labelled(logit, tf.train.AdagradOptimizer(0.05), lambda: {ids: self.ids(BATCH, COLUMNS)})

    def penalties(self) -> Model:
        tf, ids = self.tf, self.tf.placeholder(self.tf.int64, [None, COLUMNS])
        rows, optimizer = self.rows(ids), self.tf.train.AdagradOptimizer(0.05)
        found = self.labelled(self.logit(tf.concat(rows, 1)), optimizer, lambda: {ids: self.ids(BATCH, COLUMNS)})
        return found[0] + 1e-5 * tf.add_n([tf.nn.l2_loss(r) for r in rows]), *found[1:]

    def ftrl(self) -> Model:
        return self.slots(self.tf.train.FtrlOptimizer(0.05, l1_regularization_strength=1e-4))

    def partitioned(self) -> Model:
        return self.slots(parts=2)

    def wide(self) -> Model:
        return self.slots(widths=[64])

    def narrow(self) -> Model:
        return self.slots(widths=[1])

    def mixed(self) -> Model:
        return self.slots(widths=[1, 4, 8, 16, 33, 64])

    def tasks(self) -> Model:
        return self.slots(towers=2)

    def clipped(self) -> Model:
        return self.slots()

    def shared(self) -> Model:
        return self.slots(tables=4)

    def whole(self) -> Model:
        tf = self.tf
        ids = tf.placeholder(tf.int64, [None, COLUMNS])
        rows = tf.nn.embedding_lookup(self.table("table", 10 * ROWS), ids)
        logit = self.logit(tf.reshape(rows, [-1, COLUMNS * 16]))
        return self.labelled(
            logit, tf.train.AdagradOptimizer(0.05), lambda: {ids: self.ids(BATCH, COLUMNS, rows=10 * ROWS)}
        )

    def multihot(self) -> Model:
        tf = self.tf
        columns = [tf.sparse_placeholder(tf.int64) for _ in range(10)]
        found = [
            tf.nn.embedding_lookup_sparse(self.table(f"table{k}"), c, None, combiner="sqrtn")
            for k, c in enumerate(columns)
        ]
        return self.labelled(
            self.logit(tf.concat(found, 1)),
            tf.train.AdagradOptimizer(0.05),
            lambda: {c: self.several(1, 6, ROWS) for c in columns},
        )

    def several(self, least: int, end: int, rows: int) -> Any:
        """From `least` to end - 1 ids of each example."""
        counts = self.rng.randint(least, end, BATCH)
        places = np.stack([np.repeat(np.arange(BATCH), counts), np.concatenate([np.arange(n) for n in counts])], 1)
        return self.tf.SparseTensorValue(places.astype(np.int64), self.ids(len(places), rows=rows), [BATCH, end])

    def weighted(self) -> Model:
        tf = self.tf
        columns = [(tf.sparse_placeholder(tf.int64), tf.sparse_placeholder(tf.float32)) for _ in range(10)]
        found = [
            tf.nn.safe_embedding_lookup_sparse(self.table(f"table{k}"), ids, weights, combiner="mean")
            for k, (ids, weights) in enumerate(columns)
        ]

        def batch() -> dict[Any, Any]:
            fed: dict[Any, Any] = {}
            for ids, weights in columns:
                fed[ids] = some = self.several(0, 6, ROWS)
                drawn = self.rng.rand(len(some.values)).astype(np.float32) + 0.1
                fed[weights] = tf.SparseTensorValue(some.indices, drawn, some.dense_shape)
            return fed

        logit = self.logit(tf.concat([tf.reshape(rows, [-1, 16]) for rows in found], 1))
        return self.labelled(logit, tf.train.AdagradOptimizer(0.05), batch)

    def din(self) -> Model:
        tf = self.tf
        seen, item = tf.placeholder(tf.int64, [None, 20]), tf.placeholder(tf.int64, [None])
        length = tf.placeholder(tf.int32, [None])
        items, kinds = self.table("items", 50_000), self.table("kinds", 1_000)
        history = tf.nn.embedding_lookup(items, seen) + tf.nn.embedding_lookup(kinds, seen % 1_000)
        query = tf.nn.embedding_lookup(items, item)
        wide = tf.tile(query[:, None, :], [1, 20, 1])
        pairs = tf.concat([history, wide, history * wide, history - wide], 2)
        scores = self.dense(tf.nn.relu(self.dense(pairs, 32, "pair")), 1, "score")[:, :, 0]
        scores = tf.where(tf.sequence_mask(length, 20), scores, tf.fill(tf.shape(scores), -1e9))
        user = tf.reduce_sum(history * tf.nn.softmax(scores)[:, :, None], 1)
        return self.labelled(
            self.logit(tf.concat([user, query, user * query], 1)),
            tf.train.AdamOptimizer(1e-3),
            lambda: {
                seen: self.ids(BATCH, 20, rows=50_000),
                item: self.ids(BATCH, rows=50_000),
                length: self.rng.randint(1, 21, BATCH).astype(np.int32),
            },
        )

    def deepfm(self) -> Model:
        tf = self.tf
        ids = tf.placeholder(tf.int64, [None, COLUMNS])
        columns = list(enumerate(tf.unstack(ids, axis=1)))
        rows = tf.stack([tf.nn.embedding_lookup(self.table(f"table{k}", width=8), c) for k, c in columns], 1)
        weights = tf.concat([tf.nn.embedding_lookup(self.table(f"weight{k}", width=1), c) for k, c in columns], 1)
        pairs = tf.square(tf.reduce_sum(rows, 1)) - tf.reduce_sum(tf.square(rows), 1)
        linear = 0.5 * tf.reduce_sum(pairs, 1) + tf.reduce_sum(weights, 1)
        logit = linear + self.logit(tf.reshape(rows, [-1, COLUMNS * 8]))
        return self.labelled(logit, tf.train.AdamOptimizer(1e-3), lambda: {ids: self.ids(BATCH, COLUMNS)})

    def penalty(self) -> Model:
        tf, rows = self.tf, 5 * ROWS
        ids, values = tf.placeholder(tf.int64, [None, COLUMNS]), tf.placeholder(tf.float32, [None, COLUMNS])
        start = tf.random_uniform_initializer(-0.05, 0.05, seed=1)
        weights, table = tf.get_variable("weights", [rows], initializer=start), self.table("table", rows)
        vectors = tf.nn.embedding_lookup(table, ids) * values[:, :, None]
        pairs = tf.square(tf.reduce_sum(vectors, 1)) - tf.reduce_sum(tf.square(vectors), 1)
        line = tf.reduce_sum(tf.nn.embedding_lookup(weights, ids) * values, 1)
        logit = line + 0.5 * tf.reduce_sum(pairs, 1) + self.logit(tf.reshape(vectors, [-1, COLUMNS * 16]))

        def batch() -> dict[Any, Any]:
            return {ids: self.ids(BATCH, COLUMNS, rows=rows), values: self.rng.rand(BATCH, COLUMNS).astype(np.float32)}

        loss, optimizer, feeds = self.labelled(logit, tf.train.AdamOptimizer(5e-4), batch)
        return loss + 1e-4 * (tf.nn.l2_loss(weights) + tf.nn.l2_loss(table)), optimizer, feeds

    def padded(self) -> Model:
        tf, items, size = self.tf, 50_000, 32
        seen, item = tf.placeholder(tf.int64, [None, 20]), tf.placeholder(tf.int64, [None])
        table = tf.concat([tf.zeros([1, size]), self.table("items", items, size)[1:, :]], 0) * size**0.5
        history, query = tf.nn.embedding_lookup(table, seen), tf.nn.embedding_lookup(table, item)
        user = tf.reduce_sum(history * tf.nn.softmax(tf.reduce_sum(history * query[:, None, :], 2))[:, :, None], 1)
        return self.labelled(
            self.logit(tf.concat([user, query], 1)),
            tf.train.AdamOptimizer(1e-3),
            lambda: {seen: self.ids(BATCH, 20, rows=items), item: self.ids(BATCH, rows=items)},
        )

    def float16(self) -> Model:
        return self.halves(self.tf.float16)

    def bfloat16(self) -> Model:
        return self.halves(self.tf.bfloat16)

    def halves(self, dtype: Any) -> Model:
        tf, ids = self.tf, self.tf.placeholder(self.tf.int64, [None, COLUMNS])
        drawn = np.random.RandomState(1).uniform(-0.05, 0.05, (ROWS, 16)).astype(np.float32)
        tables = [
            tf.get_variable(f"table{k}", drawn.shape, dtype, tf.constant_initializer(drawn)) for k in range(COLUMNS)
        ]
        rows = tf.concat([tf.nn.embedding_lookup(t, c) for t, c in zip(tables, tf.unstack(ids, axis=1))], 1)
        optimizer = tf.train.AdagradOptimizer(0.05)
        return self.labelled(self.logit(tf.cast(rows, tf.float32)), optimizer, lambda: {ids: self.ids(BATCH, COLUMNS)})

    def rows(self, ids: Any, name: str = "table") -> list[Any]:
        looked_up = self.tf.nn.embedding_lookup
        return [looked_up(self.table(f"{name}{k}"), c) for k, c in enumerate(self.tf.unstack(ids, axis=1))]

    def crosses(self) -> Model:
        tf = self.tf
        ids = tf.placeholder(tf.int64, [None, COLUMNS])
        first = crossed = deep = tf.concat(self.rows(ids), 1)
        for k in range(3):
            crossed += first * self.dense(crossed, 1, f"cross{k}")
        for k, units in enumerate((128, 64)):
            deep = tf.nn.relu(self.dense(deep, units, f"deep{k}"))
        logit = self.dense(tf.concat([crossed, deep], 1), 1, "last")[:, 0]
        return self.labelled(logit, tf.train.AdamOptimizer(1e-3), lambda: {ids: self.ids(BATCH, COLUMNS)})

    def dots(self) -> Model:
        tf = self.tf
        ids, numbers = tf.placeholder(tf.int64, [None, COLUMNS]), tf.placeholder(tf.float32, [None, 13])
        bottom = tf.nn.relu(self.dense(tf.nn.relu(self.dense(numbers, 64, "first")), 16, "second"))
        vectors = tf.stack([bottom, *self.rows(ids)], 1)
        pairs = tf.reshape(tf.matmul(vectors, vectors, transpose_b=True), [-1, (COLUMNS + 1) ** 2])
        below = np.flatnonzero(np.tril(np.ones((COLUMNS + 1, COLUMNS + 1), bool), -1))
        logit = self.logit(tf.concat([bottom, tf.gather(pairs, below, axis=1)], 1))

        def batch() -> dict[Any, Any]:
            return {ids: self.ids(BATCH, COLUMNS), numbers: self.rng.randn(BATCH, 13).astype(np.float32)}

        return self.labelled(logit, tf.train.AdagradOptimizer(0.05), batch)

    def towers(self) -> Model:
        tf = self.tf
        ids, ends = [tf.placeholder(tf.int64, [None, 8]) for _ in range(2)], []
        for name, own in zip(("user", "item"), ids):
            with tf.variable_scope(name):
                hidden = tf.nn.relu(self.dense(tf.concat(self.rows(own), 1), 128, "hidden"))
                ends.append(tf.nn.l2_normalize(self.dense(hidden, 64, "end"), 1))
        scores = 20.0 * tf.matmul(*ends, transpose_b=True)
        labels = tf.range(tf.shape(scores)[0])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)
        draw = lambda: {own: self.ids(BATCH, 8) for own in ids}  # noqa: E731
        return tf.reduce_mean(losses), tf.train.AdagradOptimizer(0.05), [draw() for _ in range(8)]

    def experts(self) -> Model:
        tf = self.tf
        ids = tf.placeholder(tf.int64, [None, COLUMNS])
        rows, logit = tf.concat(self.rows(ids), 1), 0.0
        mixed = tf.stack([tf.nn.relu(self.dense(rows, 64, f"expert{k}")) for k in range(4)], 1)
        for k in range(2):
            gate = tf.nn.softmax(self.dense(rows, 4, f"gate{k}"))
            hidden = self.dense(tf.reduce_sum(mixed * gate[:, :, None], 1), 32, f"task{k}")
            logit += self.dense(tf.nn.relu(hidden), 1, f"logit{k}")[:, 0]
        return self.labelled(logit, tf.train.AdamOptimizer(1e-3), lambda: {ids: self.ids(BATCH, COLUMNS)})

    def fields(self) -> Model:
        tf, count = self.tf, 10
        ids = tf.placeholder(tf.int64, [None, count])
        columns = list(enumerate(tf.unstack(ids, axis=1)))
        looked_up = tf.nn.embedding_lookup
        rows = [[looked_up(self.table(f"of{i}for{j}", width=4), c) for j in range(count)] for i, c in columns]
        pairs = [tf.reduce_sum(rows[i][j] * rows[j][i], 1) for i in range(count) for j in range(i + 1, count)]
        line = [looked_up(self.table(f"line{i}", width=1), c)[:, 0] for i, c in columns]
        return self.labelled(
            tf.add_n(pairs + line), tf.train.AdagradOptimizer(0.05), lambda: {ids: self.ids(BATCH, count)}
        )

    def pairs(self) -> Model:
        tf = self.tf
        ids = tf.placeholder(tf.int64, [None, COLUMNS])
        rows = tf.stack(self.rows(ids), 1)
        first, second = np.triu_indices(COLUMNS, 1)
        products = tf.reduce_sum(tf.gather(rows, first, axis=1) * tf.gather(rows, second, axis=1), 2)
        logit = self.logit(tf.concat([tf.reshape(rows, [-1, COLUMNS * 16]), products], 1))
        return self.labelled(logit, tf.train.AdamOptimizer(1e-3), lambda: {ids: self.ids(BATCH, COLUMNS)})

    def recurrent(self) -> Model:
        tf, size, items = self.tf, 32, 20_000
        seen, next_item = tf.placeholder(tf.int64, [None, 20]), tf.placeholder(tf.int64, [None, 1])
        start = tf.random_uniform_initializer(-0.1, 0.1, seed=2)
        gates = tf.get_variable("gates", [2 * size, 2 * size], initializer=start)
        candidate = tf.get_variable("candidate", [2 * size, size], initializer=start)

        def cell(h: Any, x: Any) -> Any:
            reset, update = tf.split(tf.sigmoid(tf.matmul(tf.concat([x, h], 1), gates)), 2, axis=1)
            return update * h + (1 - update) * tf.tanh(tf.matmul(tf.concat([x, reset * h], 1), candidate))

        rows = tf.nn.embedding_lookup(self.table("items", items, size), seen)
        nothing = tf.zeros([tf.shape(seen)[0], size])
        last = tf.scan(cell, tf.transpose(rows, [1, 0, 2]), nothing)[-1]
        biases = tf.get_variable("biases", [items], initializer=tf.zeros_initializer())
        outputs = self.table("outputs", items, size)
        loss = tf.reduce_mean(tf.nn.sampled_softmax_loss(outputs, biases, next_item, last, 100, items))
        draw = lambda: {seen: self.ids(128, 20, rows=items), next_item: self.ids(128, 1, rows=items)}  # noqa: E731
        return loss, tf.train.AdagradOptimizer(0.05), [draw() for _ in range(8)]

    def attention(self) -> Model:
        tf, steps, size, items = self.tf, 20, 32, 20_000
        seen, wanted, other = (tf.placeholder(tf.int64, [None, steps]) for _ in range(3))
        table, causal = self.table("items", items, size), np.tril(np.ones((1, steps, steps), bool))
        x = tf.nn.embedding_lookup(table, seen) * size**0.5 + self.table("places", steps, size)

        def normal(x: Any) -> Any:
            mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
            return (x - mean) * tf.rsqrt(variance + 1e-8)

        for k in range(2):
            queries, keys, values = (self.dense(given, size, f"{n}{k}") for n, given in zip("qkv", (normal(x), x, x)))
            scores = tf.matmul(queries, keys, transpose_b=True) / size**0.5
            hidden = tf.fill(tf.shape(scores), -1e9)
            scores = tf.where(tf.tile(tf.constant(causal), [tf.shape(scores)[0], 1, 1]), scores, hidden)
            x += tf.matmul(tf.nn.softmax(scores), values)
            x += self.dense(tf.nn.relu(self.dense(normal(x), size, f"wide{k}")), size, f"back{k}")
        signs, losses = (1.0, -1.0), 0.0
        for sign, ids in zip(signs, (wanted, other)):
            scores = tf.reduce_sum(normal(x) * tf.nn.embedding_lookup(table, ids), -1)
            losses += tf.reduce_mean(tf.nn.softplus(-sign * scores))
        draw = lambda: {p: self.ids(64, steps, rows=items) for p in (seen, wanted, other)}  # noqa: E731
        return losses, tf.train.AdamOptimizer(1e-3), [draw() for _ in range(8)]

    def columns(self) -> Model:
        tf, kinds = self.tf, self.tf.feature_column
        fed = {f"c{k:02}": tf.placeholder(tf.int64, [None, 1]) for k in range(COLUMNS)}
        numbers = tf.placeholder(tf.float32, [None, 13])
        features = {**fed, "numbers": numbers}
        ids = [kinds.categorical_column_with_identity(name, ROWS) for name in fed]
        deep = [kinds.numeric_column("numbers", [13]), *(kinds.embedding_column(c, 16) for c in ids)]
        logit = self.logit(kinds.input_layer(features, deep)) + kinds.linear_model(features, ids)[:, 0]
        return self.labelled(
            logit,
            tf.train.AdagradOptimizer(0.05),
            lambda: {
                **{one: self.ids(BATCH, 1) for one in fed.values()},
                numbers: self.rng.randn(BATCH, 13).astype(np.float32),
            },
        )

    def strings(self) -> Model:
        tf, kinds = self.tf, self.tf.feature_column
        fed = {f"c{k:02}": tf.placeholder(tf.string, [None]) for k in range(COLUMNS)}
        hashed = [kinds.categorical_column_with_hash_bucket(name, ROWS) for name in fed]
        logit = self.logit(kinds.input_layer(dict(fed), [kinds.embedding_column(c, 16) for c in hashed]))
        return self.labelled(
            logit,
            tf.train.AdagradOptimizer(0.05),
            lambda: {one: np.array([b"v%d" % n for n in self.ids(BATCH)], object) for one in fed.values()},
        )

    def word2vec(self) -> Model:
        tf = self.tf
        word, near = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int64, [None, 1])
        inputs, outputs = self.table("inputs", 50_000, 128), self.table("outputs", 50_000, 128)
        biases = tf.get_variable("biases", [50_000], initializer=tf.zeros_initializer())
        found = tf.nn.embedding_lookup(inputs, word)
        loss = tf.reduce_mean(tf.nn.nce_loss(outputs, biases, near, found, 64, 50_000))
        draw = lambda: {word: self.ids(BATCH, rows=50_000), near: self.ids(BATCH, 1, rows=50_000)}  # noqa: E731
        return loss, tf.train.GradientDescentOptimizer(0.5), [draw() for _ in range(8)]

    def sparse(self) -> Model:
        tf = self.tf
        features = tf.sparse_placeholder(tf.float32)
        weights = tf.get_variable("weights", [100_000, 1], initializer=tf.zeros_initializer())
        logit = tf.sparse_tensor_dense_matmul(features, weights)[:, 0]

        def batch() -> dict[Any, Any]:
            columns = np.sort(self.rng.randint(0, 100_000, (BATCH, 20)), 1).reshape(-1)
            places = np.stack([np.repeat(np.arange(BATCH), 20), columns], 1).astype(np.int64)
            return {features: tf.SparseTensorValue(places, np.ones(len(places), np.float32), [BATCH, 100_000])}

        return self.labelled(logit, tf.train.FtrlOptimizer(0.1), batch)

    def mlp(self) -> Model:
        tf = self.tf
        x, y = tf.placeholder(tf.float32, [None, 784]), tf.placeholder(tf.int64, [None])
        hidden = tf.nn.relu(self.dense(tf.nn.relu(self.dense(x, 512, "first")), 256, "second"))
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=self.dense(hidden, 10, "logits"))
        draw = lambda: {x: self.rng.rand(128, 784).astype(np.float32), y: self.rng.randint(0, 10, 128)}  # noqa: E731
        return tf.reduce_mean(losses), tf.train.GradientDescentOptimizer(0.1), [draw() for _ in range(8)]


CASES = [name for name, made in vars(Maker).items() if getattr(made, "__annotations__", {}).get("return") == "Model"]
CASES = [name for name in CASES if name not in ("labelled", "halves")]


# ---------------------------------------------------------------------- processes


def child(backend: str, job: str, task: int, cluster: dict[str, list[str]], case: str, seconds: float) -> None:
    tf = module_of(backend)
    spec = tf.train.ClusterSpec(cluster)
    server = tf.train.Server(spec, job_name=job, task_index=task)
    if job == "ps":
        server.join()
    servers, device, rings = len(cluster.get("ps", ())), f"/job:worker/task:{task}", []
    with tf.device(tf.train.replica_device_setter(cluster=spec, worker_device=device) if servers else device):
        step = tf.train.get_or_create_global_step()
        loss, optimizer, feeds = getattr(Maker(tf, servers, task), case)()
        if not servers:
            optimizer = tf.distribute.DistributedOptimizer(optimizer, WORKERS)
            rings = [tf.distribute.BroadcastGlobalVariablesHook(task == 0, WORKERS)]
        if case == "clipped":
            pairs = [(g, v) for g, v in optimizer.compute_gradients(loss) if g is not None]
            clipped, _ = tf.clip_by_global_norm([g for g, _ in pairs], 1.0)
            train = optimizer.apply_gradients(list(zip(clipped, [v for _, v in pairs])), global_step=step)
        else:
            train = optimizer.minimize(loss, global_step=step)
    nothing: dict[str, Any] = dict.fromkeys(("save_checkpoint_secs", "save_summaries_steps", "save_summaries_secs"))
    with tf.train.MonitoredTrainingSession(
        server.target, task == 0 or not servers, hooks=rings, log_step_count_steps=None, **nothing
    ) as session:
        for k in range(WARM):
            begun_s = time.perf_counter()
            session.run([train, loss], feeds[k % len(feeds)])
        print(json.dumps(time.perf_counter() - begun_s), flush=True)
        planned = int(sys.stdin.readline())  # in a ring, all make as many
        steps, begun_s, cpu_s = 0, time.perf_counter(), _own_cpu_s()
        while steps < planned if planned else time.perf_counter() < begun_s + seconds:
            session.run([train, loss], feeds[steps % len(feeds)])
            steps += 1
        took_s = time.perf_counter() - begun_s
        print(json.dumps([steps, took_s, _own_cpu_s() - cpu_s]), flush=True)
        sys.stdin.readline()
        os._exit(0)


def _own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(python: str, backend: str, case: str, servers: int, seconds: float) -> dict[str, float]:
    """steps/s of two workers, and CPU ms of a step in all servers and in its worker."""
    hosts = [f"127.0.0.1:{port}" for port in free_ports(servers + WORKERS)]
    cluster = {"ps": hosts[:servers], "worker": hosts[servers:]} if servers else {"worker": hosts}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = []
    try:
        for job, tasks in cluster.items():
            for task in range(len(tasks)):
                child_of = json.dumps([backend, job, task, cluster, case, seconds])
                started.append(subprocess.Popen([python, __file__, "--child", child_of], **pipes))
        own, workers = started[:servers], started[servers:]
        warm = [one.stdout.readline() for one in workers]
        assert all(warm), f"{backend}, {case}: a worker did not get to its {WARM} steps"
        planned = 0 if servers else 1 + int(seconds / max(map(json.loads, warm)))
        before = [_cpu_s(one.pid) for one in own]
        for one in workers:
            one.stdin.write(f"{planned}\n")
            one.stdin.flush()
        found = [json.loads(one.stdout.readline()) for one in workers]
        in_servers = sum(_cpu_s(one.pid) for one in own) - sum(before)
        steps = sum(n for n, _, _ in found)
        return {
            "steps_s": round(sum(n / s for n, s, _ in found), 1),
            "server_ms": round(1e3 * in_servers / steps, 2),
            "worker_ms": round(1e3 * sum(s for _, _, s in found) / steps, 2),
        }
    finally:
        for one in started:
            one.kill()
        for one in started:
            one.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensorflow", help="an interpreter that has it")
    parser.add_argument("--cases", nargs="+", default=CASES, choices=CASES)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(*json.loads(args.child))
    for case in args.cases:
        own = measure(sys.executable, "sparkflow", case, args.servers, args.seconds)
        line: dict[str, Any] = {"case": case, "servers": args.servers, **own}
        if args.tensorflow:
            theirs = measure(args.tensorflow, "tensorflow", case, args.servers, args.seconds)
            line |= {f"tensorflow_{k}": v for k, v in theirs.items()}
            line["times"] = round(own["steps_s"] / theirs["steps_s"], 2)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
