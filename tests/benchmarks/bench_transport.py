"""Round trips and bandwidth of a channel between two processes: python tests/benchmarks/bench_transport.py

"fetch" answers a small request with tensors, as a variable read does; "echo" sends them both ways; "send" is
acknowledged by an empty reply. "memory" is a unix socket whose large payloads go by shared memory, "unix" one where
they do not. Medians of ROUNDS rounds; compare with the table in DESIGN.md, section 5.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from statistics import median
from typing import Any

import numpy as np

from sparkflow_runtime.transport import Channel, NoHandler, Options, dial, listen

ECHO, SINK, FETCH_SMALL, FETCH_LARGE = range(4)
ROUNDS, ROUND_S = 7, 0.15
SMALL = [np.full(256, i, np.float32) for i in range(100)]
LARGE = [np.zeros(64 << 20, np.uint8)]


class Server(NoHandler):
    """Answers small ones on the reader thread, and large ones on a thread of its own, as the contract asks."""

    def __init__(self) -> None:
        self._large: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def on_message(self, channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
        if method == FETCH_LARGE:
            self._large.put(reply)
        else:
            reply(b"", {ECHO: tensors, SINK: (), FETCH_SMALL: SMALL}[method])

    def _run(self) -> None:
        while reply := self._large.get():
            reply(b"", LARGE)


def options(name: str) -> Options:
    return Options() if name == "memory" else Options(shared_bytes=0)


def serve(name: str, url: str) -> None:
    listener = listen(url, Server(), options=options(name))
    print(listener.url, flush=True)
    sys.stdin.read()  # until the parent is gone


def typical_s(step: Callable[[], object]) -> float:
    step()
    return median(_round_s(step) for _ in range(ROUNDS))


def _round_s(step: Callable[[], object]) -> float:
    times: list[float] = []
    end = time.perf_counter() + ROUND_S
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return median(times)


def measure(name: str, url: str) -> None:
    command = [sys.executable, __file__, "--serve", name, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        channel = dial(server.stdout.readline().strip(), options=options(name))
        report(name, channel)
        channel.close()


def report(name: str, channel: Channel) -> None:
    def row(what: str, method: int, tensors: list[np.ndarray], nbytes: int = 0) -> None:
        seconds = typical_s(lambda: channel.call(method, b"", tensors, 30))
        print(f"{name:6} {what:28} {f'{nbytes / seconds / 1e9:8.2f} GB/s' if nbytes else f'{seconds * 1e6:8.1f} us'}")

    row("64 B echo", ECHO, [np.zeros(64, np.uint8)])
    row("100 x 1 KiB fetch", FETCH_SMALL, [])
    row("100 x 1 KiB echo", ECHO, SMALL)
    row("256 KiB send", SINK, [np.zeros(256 << 10, np.uint8)], 256 << 10)
    row("1 MiB send", SINK, [np.zeros(1 << 20, np.uint8)], 1 << 20)
    row("64 MiB send", SINK, LARGE, 64 << 20)
    row("64 MiB fetch", FETCH_LARGE, [], 64 << 20)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:])
    else:
        measure("tcp", "tcp://127.0.0.1:0")
        for kind in ("unix", "memory"):
            measure(kind, f"unix://@sparkflow-bench-{time.time_ns()}")
