"""Rows through queues: python tests/benchmarks/bench_queue.py [--backend tensorflow]

Rows of (float32[13], int64[26], float32) go through a FIFO and a shuffling queue, 512 at a time: by hand, and from the
threads of a QueueRunner. Beside the rate stand processor time and context switches a batch: threads that hand the GIL
to and fro at every batch are slow on a quiet machine, and look fast on a busy one.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from importlib import import_module
from statistics import median
from typing import Any

import numpy as np

ROUNDS, BATCHES, BATCH = 12, 200, 512
SHAPES: list[list[int]] = [[13], [26], []]


def rows() -> list[np.ndarray]:
    key = np.arange(BATCH)
    return [np.repeat(key[:, None], 13, 1).astype(np.float32), key[:, None] + np.arange(26), key.astype(np.float32)]


def make(tf: Any, kind: str) -> Any:
    types = [tf.float32, tf.int64, tf.float32]
    if kind == "fifo":
        return tf.FIFOQueue(20 * BATCH, types, SHAPES)
    return tf.RandomShuffleQueue(20 * BATCH, 4 * BATCH, types, SHAPES, seed=7)


def report(label: str, batch: Callable[[], Any]) -> None:
    for _ in range(BATCHES):
        batch()
    rates, before, cpu_s = [], resource.getrusage(resource.RUSAGE_SELF), time.process_time()
    for _ in range(ROUNDS):
        begun_s = time.perf_counter()
        for _ in range(BATCHES):
            batch()
        rates.append(BATCH * BATCHES / (time.perf_counter() - begun_s) / 1e6)
    after, cpu_s = resource.getrusage(resource.RUSAGE_SELF), time.process_time() - cpu_s
    switches = (after.ru_nvcsw - before.ru_nvcsw) / (ROUNDS * BATCHES)
    print(
        f"{label:28} {median(rates):6.2f} M rows/s ({min(rates):.2f}..{max(rates):.2f})   "
        f"{1e6 * cpu_s / (ROUNDS * BATCHES):6.1f} us of processor time, {switches:.2f} switches a batch",
        flush=True,
    )


def by_hand(tf: Any, kind: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        queue = make(tf, kind)
        feeds = [tf.placeholder(a.dtype, [None, *shape]) for a, shape in zip(rows(), SHAPES)]
        put, get = queue.enqueue_many(feeds), queue.dequeue_many(BATCH)
        fed = dict(zip(feeds, rows()))
        for _ in range(8):
            session.run(put, fed)

        def turn() -> None:
            session.run(put, fed)
            session.run(get)

        report(f"{kind} by hand", turn)


def by_runner(tf: Any, kind: str, threads: int, fetched: bool) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        queue = make(tf, kind)
        put, taken = queue.enqueue_many([tf.constant(a) for a in rows()]), queue.dequeue_many(BATCH)
        consume = taken if fetched else tf.group(*taken)
        coord = tf.train.Coordinator()
        running = tf.train.QueueRunner(queue, [put] * threads).create_threads(session, coord, start=True)
        report(f"{kind}, {threads} threads{', fetched' if fetched else ''}", lambda: session.run(consume))
        coord.request_stop()
        session.run(queue.close(cancel_pending_enqueues=True))
        coord.join(running)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="sparkflow", choices=["sparkflow", "tensorflow"])
    backend = parser.parse_args().backend
    tf = import_module("tensorflow.compat.v1" if backend == "tensorflow" else "sparkflow")
    if backend == "tensorflow":
        tf.disable_v2_behavior()
    for kind in ("fifo", "shuffle"):
        by_hand(tf, kind)
        for threads, fetched in ((1, False), (2, False), (2, True)):
            by_runner(tf, kind, threads, fetched)


if __name__ == "__main__":
    main()
