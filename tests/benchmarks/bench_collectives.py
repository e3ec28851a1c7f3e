"""All-reduce between processes of this host: python tests/benchmarks/bench_collectives.py [--processes N]

Every process runs a Server and a session of its own; each step is timed from a barrier (a small all-reduce) on. GB/s is
the size of the tensor by the time, medians over the steps, the slowest process. "plain sum" is the same sum with numpy
by one process and no transport: what the memory alone allows. --carried-as bfloat16 halves what travels.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from statistics import median
from typing import Any

import numpy as np

SIZES = {"64 B": 16, "4 KiB": 1 << 10, "64 KiB": 1 << 14, "1 MiB": 1 << 18, "16 MiB": 1 << 22, "64 MiB": 1 << 24}


def worker(rank: int, count: int, rounds: int, carried: str) -> None:
    import sparkflow as tf
    from sparkflow import experimental
    from sparkflow.ops import collective
    from sparkflow.session.server import Server

    server = Server.bound("worker", rank, "127.0.0.1", b"bench")
    print(server.address, flush=True)
    server.join_cluster({"worker": json.loads(sys.stdin.readline())})
    graph, figures = tf.Graph(), {}
    with graph.as_default(), tf.device(f"/job:worker/task:{rank}"):
        line_up = collective.all_reduce(tf.zeros([1]), count, 1, 1).op
        reduced = {}
        for i, (name, words) in enumerate(SIZES.items()):
            x = tf.Variable(tf.fill([words], float(rank + 1)))
            with experimental.carried_as(carried):
                out = collective.all_reduce(x, count, 1, i + 2)
            reduced[name] = out[:1], out.op
        init = tf.global_variables_initializer()
    with tf.Session(server.target, graph) as session:
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
    server.stop()


def measure(count: int, rounds: int, carried: str) -> dict[str, list[float]]:
    command = [sys.executable, __file__, "--rounds", str(rounds), "--processes", str(count)]
    command += ["--carried-as", carried, "--rank"]
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
    args = p.parse_args()
    if args.rank is not None:
        worker(args.rank, args.processes, args.rounds, args.carried_as)
        return
    for name, (seconds, best, cpu) in measure(args.processes, args.rounds, args.carried_as).items():
        nbytes = SIZES[name] * 4
        print(
            f"{args.processes} processes {name:>7} {seconds * 1e6:10.0f} us {nbytes / seconds / 1e9:7.2f} GB/s"
            f"   best {nbytes / best / 1e9:6.2f} GB/s   {cpu * 1e3:7.2f} CPU ms a process"
            f"   plain sum {nbytes / plain(SIZES[name]) / 1e9:6.2f} GB/s"
        )


if __name__ == "__main__":
    main()
