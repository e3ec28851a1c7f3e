"""What an iteration of a loop over two tasks costs: python tests/benchmarks/bench_loops.py [--backend tensorflow]

A server process of each job on loopback; the body multiplies on the worker and on the parameter server. Medians of
ROUNDS runs; run both backends at the same time of day.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import time
from importlib import import_module
from statistics import median
from typing import Any

import numpy as np

ROUNDS, ITERATIONS = 7, 1000
WORKER, PS = "/job:worker/task:0", "/job:ps/task:0"


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def loop(tf: Any, size: int) -> tuple[Any, Any]:
    """A vector that goes to the parameter server and back in each iteration."""
    with tf.device(WORKER):
        x = tf.placeholder(tf.float32, [size])

        def body(i: Any, y: Any) -> Any:
            with tf.device(PS):
                z = tf.sin(y * x) + x
            return i + 1, z * 0.5

        return x, tf.while_loop(lambda i, _: i < ITERATIONS, body, [0, x])[1]


def counter(tf: Any) -> Any:
    """A variable of the parameter server that each iteration adds to."""
    with tf.device(PS):
        v = tf.Variable(0.0, use_resource=False)

    def body(i: Any, total: Any) -> Any:
        return i + 1, total + tf.assign_add(v, 1.0)

    with tf.device(WORKER):
        zero = tf.constant(0.0)
    return v.initializer, tf.while_loop(lambda i, _: i < ITERATIONS, body, [tf.constant(0), zero])[1]


def measure(call: Any) -> float:
    call()
    rounds = []
    for _ in range(ROUNDS):
        begun_s = time.perf_counter()
        call()
        rounds.append((time.perf_counter() - begun_s) / ITERATIONS)
    return 1e6 * median(rounds)


def serve(tf: Any, job: str, ports: list[int]) -> Any:
    cluster = tf.train.ClusterSpec({j: [f"127.0.0.1:{p}"] for j, p in zip(("worker", "ps"), ports)})
    return tf.train.Server(cluster, job_name=job, task_index=0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="sparkflow", choices=("sparkflow", "tensorflow"))
    parser.add_argument("--ports", type=int, nargs=2)
    args = parser.parse_args()
    tf: Any = import_module("sparkflow" if args.backend == "sparkflow" else "tensorflow.compat.v1")
    if args.backend == "tensorflow":
        for name in ("disable_eager_execution", "disable_control_flow_v2", "disable_resource_variables"):
            getattr(tf, name)()
    if args.ports:
        server = serve(tf, "ps", args.ports)
        print("ready", flush=True)
        server.join()
    ports = free_ports(2)
    command = [sys.executable, __file__, "--backend", args.backend, "--ports", *map(str, ports)]
    ps = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert ps.stdout is not None and ps.stdout.readline().strip() == b"ready"
        server = serve(tf, "worker", ports)
        for size in (16, 65536):
            x, y = loop(tf, size)
            with tf.Session(server.target) as session:
                us = measure(lambda: session.run(y, {x: np.ones(size, np.float32)}))  # noqa: B023
            print(f"{args.backend} {f'vector of {size} there and back':32} {us:8.1f} us an iteration")
        start, total = counter(tf)
        with tf.Session(server.target) as session:
            session.run(start)
            us = measure(lambda: session.run(total))
        print(f"{args.backend} {'variable updated there':32} {us:8.1f} us an iteration")
    finally:
        ps.kill()
        ps.wait()


if __name__ == "__main__":
    main()
