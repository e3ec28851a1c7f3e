"""All-reduce between processes of this host, beside TensorFlow where its interpreter is given:

    python tests/benchmarks/bench_collectives.py [--processes N] [--tensorflow .venv-oracle/bin/python]

Every process runs a Server and a session of its own; each step is timed from a barrier (a small all-reduce) on. GB/s is
the size of the tensor by the time, medians over the steps, the slowest process. "plain sum" is the same sum with numpy
by one process and no transport: what the memory alone allows. --carried-as bfloat16 halves what travels.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
from bench_ps import free_ports

SIZES = {"64 B": 16, "4 KiB": 1 << 10, "64 KiB": 1 << 14, "1 MiB": 1 << 18, "16 MiB": 1 << 22, "64 MiB": 1 << 24}


def worker(rank: int, count: int, rounds: int, carried: str) -> None:
    import sparkflow as tf
    from sparkflow import experimental
    from sparkflow.ops import collective
    from sparkflow.session.server import Server

    server = Server.bound("worker", rank, "127.0.0.1", b"bench")
    print(server.address, flush=True)
    server.join_cluster({"worker": json.loads(sys.stdin.readline())})

    def all_reduce(x: Any, instance: int) -> Any:
        with experimental.carried_as(carried):
            return collective.all_reduce(x, count, 1, instance)

    time_all(tf, server.target, None, rank, count, rounds, all_reduce)
    server.stop()


def tensorflow_worker(rank: int, count: int, rounds: int) -> None:
    import tensorflow.compat.v1 as tf
    from tensorflow.python.ops import collective_ops

    tf.disable_eager_execution()
    config = tf.ConfigProto()
    config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
    print(f"127.0.0.1:{free_ports(1)[0]}", flush=True)
    cluster = tf.train.ClusterSpec({"worker": json.loads(sys.stdin.readline())})
    server = tf.train.Server(cluster, "worker", rank, config=config)

    def all_reduce(x: Any, instance: int) -> Any:
        return collective_ops.all_reduce(x, count, 1, instance, "Add", "Id")

    time_all(tf, server.target, config, rank, count, rounds, all_reduce)
    os._exit(0)  # its servers do not stop


def time_all(tf: Any, target: str, config: Any, rank: int, count: int, rounds: int, all_reduce: Any) -> None:
    """Of each size, to stdout: median and least seconds, processor time of this process, a step."""
    graph, figures = tf.Graph(), {}
    with graph.as_default(), tf.device(f"/job:worker/task:{rank}/device:CPU:0"):
        line_up = all_reduce(tf.zeros([1]), 1).op
        reduced = {}
        for i, (name, words) in enumerate(SIZES.items()):
            out = all_reduce(tf.Variable(tf.fill([words], float(rank + 1))), i + 2)
            reduced[name] = out[:1], out.op
        init = tf.global_variables_initializer()
    with tf.Session(target, graph, config) as session:
        session.run(init)
        for name, (head, op) in reduced.items():
            assert session.run(head)[0] == count * (count + 1) / 2
            times, cpu = [], []
            for _ in range(rounds):
                session.run(line_up)
                start, cpu_start = time.perf_counter(), time.process_time()
                session.run(op)
                times.append(time.perf_counter() - start)
                cpu.append(time.process_time() - cpu_start)
            figures[name] = median(times), min(times), median(cpu)
        session.run(line_up)
        print(json.dumps(figures), flush=True)
        sys.stdin.readline()


def measure(python: str, count: int, options: Sequence[str]) -> dict[str, list[float]]:
    command = [python, __file__, "--processes", str(count), *options, "--rank"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    children = [subprocess.Popen([*command, str(rank)], **pipes) for rank in range(count)]
    try:
        addresses = [c.stdout.readline().strip() for c in children]
        for c in children:
            c.stdin.write(json.dumps(addresses) + "\n")
            c.stdin.flush()
        figures = [json.loads(c.stdout.readline()) for c in children]
    finally:
        for c in children:
            c.stdin.close()
            c.wait(30)
    return {name: [max(f[name][i] for f in figures) for i in range(3)] for name in SIZES}


def plain(words: int) -> float:
    a, b, out = np.ones(words, np.float32), np.ones(words, np.float32), np.ones(words, np.float32)
    times = []
    for _ in range(9):
        start = time.perf_counter()
        np.add(a, b, out=out)
        times.append(time.perf_counter() - start)
    return median(times)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--processes", type=int, default=2)
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--rank", type=int)
    p.add_argument("--carried-as", default="float32")
    p.add_argument("--tensorflow", help="a Python that has it")
    args = p.parse_args()
    if args.rank is not None and args.tensorflow:
        tensorflow_worker(args.rank, args.processes, args.rounds)
    elif args.rank is not None:
        worker(args.rank, args.processes, args.rounds, args.carried_as)
    else:
        options = ["--rounds", str(args.rounds), "--carried-as", args.carried_as]
        show("sparkflow", args.processes, measure(sys.executable, args.processes, options))
        if args.tensorflow:
            own = [*options, "--tensorflow", "this one"]
            show("tensorflow", args.processes, measure(args.tensorflow, args.processes, own))


def show(library: str, count: int, measured: dict[str, list[float]]) -> None:
    for name, (seconds, best, cpu) in measured.items():
        nbytes = SIZES[name] * 4
        print(
            f"{library:10} {count} processes {name:>7} {seconds * 1e6:10.0f} us {nbytes / seconds / 1e9:7.2f} GB/s"
            f"   best {best * 1e6:10.0f} us {nbytes / best / 1e9:6.2f} GB/s   {cpu * 1e3:7.2f} CPU ms a process"
            f"   plain sum {nbytes / plain(SIZES[name]) / 1e9:6.2f} GB/s"
        )


if __name__ == "__main__":
    main()
