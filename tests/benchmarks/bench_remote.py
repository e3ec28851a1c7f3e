"""Steps whose variables are in another process: python tests/benchmarks/bench_remote.py [--backend tensorflow]

A parameter server is a child process. Its variables are read and added to by a session whose master is that server (a
remote session), and by one whose master is a Server of this process. The least and the median of ROUNDS medians, in
microseconds; run both backends at the same time of day.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from statistics import median
from typing import Any

import numpy as np

ROUNDS, CALLS = 9, 60
MODULES = {"sparkflow": "sparkflow", "tensorflow": "tensorflow.compat.v1"}


def serve(backend: str, cluster: str) -> None:
    tf = _module(backend)
    server = tf.train.Server(tf.train.ClusterSpec(json.loads(cluster)), "ps", 0)
    print(server.target, flush=True)
    sys.stdin.read()  # until the parent is gone
    os._exit(0)


def _module(backend: str) -> Any:
    tf = import_module(MODULES[backend])
    if backend == "tensorflow":
        tf.disable_v2_behavior()
    return tf


def least_and_median_us(call: Callable[[], Any]) -> tuple[float, float]:
    call()
    rounds = []
    for _ in range(ROUNDS):
        times = []
        for _ in range(CALLS):
            begun_s = time.perf_counter()
            call()
            times.append(time.perf_counter() - begun_s)
        rounds.append(1e6 * median(times))
    return min(rounds), median(rounds)


def measured(tf: Any, target: str) -> Iterator[tuple[str, tuple[float, float]]]:
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        small = tf.Variable(np.zeros(16, np.float32))
        read, add = tf.identity(small), tf.assign_add(small, np.ones(16, np.float32)).op
        many = [tf.identity(tf.Variable(np.full(256, i, np.float32))) for i in range(100)]
        with tf.Session(target) as session:
            session.run(tf.global_variables_initializer())
            for name, fetch in (("read 64 B", read), ("add 64 B", add), ("read 100 x 1 KiB", many)):
                yield f"{name}, callable", least_and_median_us(session.make_callable(fetch))
                yield f"{name}, run", least_and_median_us(lambda fetch=fetch: session.run(fetch))  # type: ignore[misc]


def _addresses(count: int) -> list[str]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [f"127.0.0.1:{one.getsockname()[1]}" for one in held]
    for one in held:
        one.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=sorted(MODULES), default="sparkflow")
    parser.add_argument("--serve", metavar="CLUSTER", help="internal: be the parameter server")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.backend, arguments.serve)
    tf = _module(arguments.backend)
    ps, worker = _addresses(2)
    cluster = {"ps": [ps], "worker": [worker]}
    command = [sys.executable, __file__, "--backend", arguments.backend, "--serve", json.dumps(cluster)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    child.stdout.readline()
    own = tf.train.Server(tf.train.ClusterSpec(cluster), "worker", 0)
    try:
        for master, target in (("the parameter server", f"grpc://{ps}"), ("a Server of this process", own.target)):
            print(f"master: {master}")
            for name, (least, usual) in measured(tf, target):
                print(f"    {name:28} {least:8.0f} {usual:8.0f} us", flush=True)
    finally:
        child.kill()
    os._exit(0)  # TensorFlow's servers do not stop


if __name__ == "__main__":
    main()
