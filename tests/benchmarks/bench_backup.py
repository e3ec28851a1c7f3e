"""Synchronous training while one of its workers stands still: python tests/benchmarks/bench_backup.py [--stop_s 5]

A parameter server and three workers are child processes; the gradients of two make an update. One worker is stopped
(SIGSTOP) for `stop_s` seconds and goes on. Prints updates a second before, meanwhile and after, and what was lost
meanwhile, as one JSON line. --none trains without a backup worker: then nothing moves while one is stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np

import sparkflow as tf

WORKERS, TABLES, ROWS, WIDTH, BATCH = 3, 8, 10_000, 16, 256


def task(role: dict[str, Any]) -> None:
    server = tf.train.Server(tf.train.ClusterSpec(role["cluster"]), role["job"], role["index"])
    print("serving", flush=True)
    if role["job"] == "worker":
        sys.stdin.readline()
        work(server, role)
    sys.stdin.read()  # until the parent is gone
    os._exit(0)


def work(server: Any, role: dict[str, Any]) -> None:
    """Trains for ever; says the global step after every step of its own."""
    rank = role["index"]
    rng = np.random.default_rng(rank)
    with tf.device(tf.train.replica_device_setter(cluster=role["cluster"], worker_device=f"/job:worker/task:{rank}")):
        step = tf.train.get_or_create_global_step()
        ids = tf.placeholder(tf.int64, [None, TABLES])
        tables = [tf.get_variable(f"table_{i}", [ROWS, WIDTH]) for i in range(TABLES)]
        columns = tf.unstack(ids, axis=1)
        rows = tf.concat([tf.nn.embedding_lookup(t, c) for t, c in zip(tables, columns)], axis=1)
        loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.layers.dense(rows, 128, tf.nn.relu), 1) - 1.0))
        optimizer = tf.train.SyncReplicasOptimizer(tf.train.AdagradOptimizer(0.1), role["needed"], WORKERS)
        train = optimizer.minimize(loss, global_step=step)
    hooks = [optimizer.make_session_run_hook(rank == 0)]
    with tf.train.MonitoredTrainingSession(server.target, rank == 0, hooks=hooks, log_step_count_steps=None) as session:
        print("ready", flush=True)
        while True:
            _, at = session.run([train, step], {ids: rng.integers(0, ROWS, (BATCH, TABLES))})
            print(int(at), flush=True)


class Child:
    """A task, and the last it said."""

    def __init__(self, role: dict[str, Any]):
        command = [sys.executable, __file__, "--role", json.dumps(role)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said, self._news = "", threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self.process.stdout or ():
            with self._news:
                self.said = line.strip()
                self._news.notify_all()

    def wait(self, wanted: str) -> None:
        """Until it has said that, or a number."""
        with self._news:
            if not self._news.wait_for(lambda: self.said == wanted or self.said.isdigit(), 120):
                raise TimeoutError(f"{wanted!r} was not said in 120 s; the last was {self.said!r}")

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()


def rate(chief: Child, duration_s: float) -> float:
    """Updates a second."""
    first, begun_s = int(chief.said), time.perf_counter()
    time.sleep(duration_s)
    return (int(chief.said) - first) / (time.perf_counter() - begun_s)


def measure(needed: int, stop_s: float) -> dict[str, float]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(WORKERS + 1)]
    hosts = [f"127.0.0.1:{s.getsockname()[1]}" for s in held]
    for s in held:
        s.close()
    about = {"cluster": {"ps": hosts[:1], "worker": hosts[1:]}, "needed": needed}
    children = [Child({**about, "job": "ps", "index": 0})]
    children += [Child({**about, "job": "worker", "index": i}) for i in range(WORKERS)]
    try:
        for child in children:
            child.wait("serving")
        chief, late = children[1], children[-1]
        for worker in children[1:]:  # the chief first: who comes before it has initialised looks again after 30 s
            worker.begin()
            worker.wait("ready")
        time.sleep(3.0)
        before = rate(chief, stop_s)
        late.process.send_signal(signal.SIGSTOP)
        meanwhile = rate(chief, stop_s)
        late.process.send_signal(signal.SIGCONT)
        return {"before": before, "meanwhile": meanwhile, "after": rate(chief, stop_s)}
    finally:
        for child in children:
            child.process.kill()
            child.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--role", type=json.loads)
    parser.add_argument("--stop_s", type=float, default=5.0)
    parser.add_argument("--none", action="store_true")
    given = parser.parse_args()
    if given.role:
        task(given.role)
    rates = measure(WORKERS if given.none else WORKERS - 1, given.stop_s)
    lost = 100 * (1 - rates["meanwhile"] / rates["before"])
    print(json.dumps({"updates_per_s": {k: round(v, 1) for k, v in rates.items()}, "lost_percent": round(lost, 1)}))


if __name__ == "__main__":
    main()
