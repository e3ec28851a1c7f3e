"""The flights model in one process, on sparkflow and on TensorFlow: the same functions, the same batches.

    python tests/benchmarks/bench_flights.py                        # sparkflow
    python tests/benchmarks/bench_flights.py --backend tensorflow   # with an interpreter that has tensorflow-cpu 2.21

Prints one JSON line: examples/s (median over windows of the epoch), first-step seconds, test AUC after the epoch.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import MagicMock

import numpy as np

BATCH = 1024
WINDOWS = 5


def load_backend(name: str) -> Any:
    if name == "tensorflow":
        import tensorflow.compat.v1 as tf

        tf.disable_eager_execution()
        tf.disable_resource_variables()
        # the example's own functions, unmodified; what trains on a cluster is not called
        sys.modules |= {"sparkflow": tf, "sparkflow.distribute": MagicMock()}
        return tf
    import sparkflow as tf

    return tf


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--backend", choices=["sparkflow", "tensorflow"], default="sparkflow")
    args = p.parse_args()
    tf = load_backend(args.backend)
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    import flights
    import flights_data as data

    train, test = ({n: np.asarray(t.column(n)) for n in (*data.FEATURES, data.LABEL)} for t in data.load())
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(1)
        feeds = {n: tf.placeholder(tf.as_dtype(v.dtype), [None], name=n) for n, v in train.items()}
        logits = flights.logits_of({n: t for n, t in feeds.items() if n != data.LABEL})
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=feeds[data.LABEL], logits=logits)
        step = flights.WideAndDeepOptimizer().minimize(tf.reduce_sum(losses))
        probability = tf.sigmoid(logits)
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            order = np.random.default_rng(0).permutation(len(train[data.LABEL]))
            batches = [order[i : i + BATCH] for i in range(0, len(order) - BATCH, BATCH)]
            marks = [time.perf_counter()]
            for rows in batches:
                session.run(step, {feeds[n]: v[rows] for n, v in train.items()})
                marks.append(time.perf_counter())
            scores = session.run(probability, {feeds[n]: v for n, v in test.items() if n != data.LABEL})
    edges = np.linspace(1, len(batches), WINDOWS + 1).astype(int)
    rates = [(b - a) * BATCH / (marks[b] - marks[a]) for a, b in pairwise(edges)]
    figures = {"examples_per_s": round(median(rates)), "first_step_s": round(marks[1] - marks[0], 3)}
    print(json.dumps({"backend": args.backend, **figures, "auc": round(data.auc(test[data.LABEL], scores), 4)}))


if __name__ == "__main__":
    main()
