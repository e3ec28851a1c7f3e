"""What a step on a parameter server costs 1 to 16 workers: python tests/benchmarks/bench_ps.py [--backend tensorflow]

After figure 6 of "TensorFlow: a system for large-scale machine learning" (2016): each worker reads what the server
holds, does next to nothing with it, and sends as much back, all workers at once and each at its own pace.

- null: a variable of 4 bytes is read and added to
- dense: 100 MB are read and added to
- sparse: 32 random rows of 64 floats of a table of 1, 4 or 16 GB are looked up and added to

Milliseconds a step in the median over the steps of all workers, and steps/s of all workers together. The server and
each worker are processes of this host, so with more workers than processors the time of a step grows with their number.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from importlib import import_module
from statistics import median
from typing import Any

MODULES = {"sparkflow": "sparkflow", "tensorflow": "tensorflow.compat.v1"}
ROW, LOOKED_UP = 64, 32
PS = "/job:ps/task:0"


def module_of(backend: str) -> Any:
    tf = import_module(MODULES[backend])
    if backend == "tensorflow":
        tf.disable_v2_behavior()
        tf.logging.set_verbosity(tf.logging.ERROR)
    return tf


def step_of(tf: Any, case: str) -> tuple[Any, Any]:
    """(what initializes the server's variable, a step)."""
    kind, _, size = case.partition("-")
    if kind == "sparse":
        rows = int(float(size) * 2**30) // (4 * ROW)
        with tf.device(PS):
            table = tf.get_variable(case, [rows, ROW], initializer=tf.zeros_initializer(), use_resource=False)
        ids = tf.random_uniform([LOOKED_UP], maxval=rows, dtype=tf.int64)
        found = tf.nn.embedding_lookup(table, ids)
        with tf.device(PS):
            return table.initializer, tf.scatter_add(table, ids, found + 1.0).op
    words = 1 if kind == "null" else 25_000_000
    with tf.device(PS):
        held = tf.get_variable(case, [words], initializer=tf.zeros_initializer(), use_resource=False)
    here = held + 1.0
    with tf.device(PS):
        return held.initializer, tf.assign_add(held, here, use_locking=False).op


def serve(backend: str, cluster: str) -> None:
    server = module_of(backend).train.Server(json.loads(cluster), job_name="ps", task_index=0)
    print("ready", flush=True)
    sys.stdin.read()  # until the parent is gone
    del server
    os._exit(0)


def work(backend: str, cluster: str, index: int, cases: list[str]) -> None:
    """On each line that comes, `case seconds`: steps for so long; their times go out as one line."""
    tf = module_of(backend)
    server = tf.train.Server(json.loads(cluster), job_name="worker", task_index=index)
    with tf.Graph().as_default(), tf.device(f"/job:worker/task:{index}"):
        made = {case: step_of(tf, case) for case in cases}
        with tf.Session(server.target) as session:
            print("ready", flush=True)
            for line in sys.stdin:
                case, seconds = line.split()
                start, step = made[case]
                if seconds == "initialize":
                    session.run(start)
                    print("[]", flush=True)
                    continue
                session.run(step)
                times: list[float] = []
                end_s = time.perf_counter() + float(seconds)
                while time.perf_counter() < end_s or len(times) < 3:
                    begun_s = time.perf_counter()
                    session.run(step)
                    times.append(time.perf_counter() - begun_s)
                print(json.dumps(times), flush=True)
    os._exit(0)


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def measure(backend: str, workers: int, cases: list[str], seconds: float) -> None:
    ports = [f"127.0.0.1:{p}" for p in free_ports(workers + 1)]
    cluster = json.dumps({"ps": ports[:1], "worker": ports[1:]})
    command = [sys.executable, __file__, "--backend", backend, "--cluster", cluster, "--cases", *cases]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([*command, "--task", str(k - 1)], **pipes) for k in range(workers + 1)]
    try:
        for one in processes:
            assert one.stdout.readline().strip() == "ready", f"a process of {workers} workers did not start"
        for case in cases:
            _tell(processes[1:2], f"{case} initialize")
            times = _tell(processes[1:], f"{case} {seconds}")
            ms = 1e3 * median(t for of_one in times for t in of_one)
            rate = sum(len(of_one) / sum(of_one) for of_one in times)
            print(f"{backend} {workers:2d} workers {case:10} {ms:9.3f} ms a step {rate:9.1f} steps/s", flush=True)
    finally:
        for one in processes:
            one.kill()
        for one in processes:
            one.wait()


def _tell(processes: list[Any], text: str) -> list[list[float]]:
    for one in processes:
        one.stdin.write(text + "\n")
        one.stdin.flush()
    return [json.loads(one.stdout.readline()) for one in processes]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="sparkflow", choices=list(MODULES))
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--cases", nargs="+", default=["null", "dense", "sparse-1", "sparse-4"])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--cluster", help=argparse.SUPPRESS)
    parser.add_argument("--task", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cluster is None:
        for workers in args.workers:
            measure(args.backend, workers, args.cases, args.seconds)
    elif args.task < 0:
        serve(args.backend, args.cluster)
    else:
        work(args.backend, args.cluster, args.task, args.cases)


if __name__ == "__main__":
    main()
