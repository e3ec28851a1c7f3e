"""Convolutions of small nets and of VGG19, kernel by kernel and way by way: wall and processor time, rate of a product.

    python tests/benchmarks/bench_conv.py [--rounds 7]

Processor time is that of all threads: on a busy machine it tells more than the wall. GF/s counts the multiplications of
the definition; Winograd's way makes a quarter of them.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("SPARKFLOW_NUMBA", "wait")

import numpy as np

from sparkflow_runtime.kernels import conv_columns, conv_direct, conv_winograd
from sparkflow_runtime.kernels.windows import Window
from sparkflow_runtime.wire.windows import slide

LAYERS = [  # images, edge, taps, stride, channels in, channels out
    (50, 28, 5, 1, 1, 16),
    (50, 14, 5, 1, 32, 64),
    (8, 112, 7, 2, 3, 64),
    (16, 28, 3, 2, 64, 128),
    (32, 32, 3, 1, 3, 64),
    (32, 32, 3, 1, 64, 64),
    (32, 16, 3, 1, 128, 128),
    (1, 224, 3, 1, 64, 64),
    (4, 112, 3, 1, 128, 128),
    (4, 56, 3, 1, 256, 256),
    (4, 28, 3, 1, 512, 512),
    (4, 14, 3, 1, 512, 512),
]
WAYS: dict[str, Any] = {"Winograd's": conv_winograd, "directly": conv_direct, "by columns": conv_columns}


def timed(compute: Callable[[], object], rounds: int) -> tuple[float, float]:
    """The least (wall, processor) milliseconds."""
    wall, processor = [], []
    for _ in range(rounds):
        w, p = time.perf_counter(), time.process_time()
        compute()
        wall.append(time.perf_counter() - w)
        processor.append(time.process_time() - p)
    return min(wall) * 1e3, min(processor) * 1e3


def show(images: int, edge: int, taps: int, stride: int, inner: int, outer: int, rounds: int) -> None:
    slides = [slide(1, 1, 1, 1, "SAME"), *[slide(edge, taps, stride, 1, "SAME")] * 2]
    out, before, after = zip(*slides)
    win = Window((1, edge, edge), (1, taps, taps), (1, stride, stride), (1, 1, 1), before, after, out)
    rng = np.random.default_rng(0)
    x, w, dy = (
        rng.standard_normal(s, np.float32)
        for s in ((images, 1, edge, edge, inner), (1, taps, taps, inner, outer), (images, *out, outer))
    )
    columns, weights = rng.standard_normal((images * out[1] ** 2, taps**2 * inner), np.float32), w.reshape(-1, outer)
    rows: list[tuple[str, Callable[[], object]]] = [("product only", lambda: columns @ weights)]
    for name, way in WAYS.items():
        if way is conv_columns or way.fits(x, w, win):
            rows += [
                (f"{name}, forward", partial(way.forward, x, w, win)),
                (f"{name}, by input", partial(way.by_input, dy, w, win)),
                (f"{name}, by filter", partial(way.by_filter, x, dy, win)),
            ]
    for name, compute in rows:
        wall, processor = timed(compute, rounds)
        rate = 2e-6 * columns.size * outer / wall
        layer = f"{images} x {edge}^2 x {inner} -> {outer}, {taps}^2 / {stride}"
        print(f"{layer:34}{name:24}{wall:9.1f}{processor:9.1f}{rate:7.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    for way in WAYS.values():
        way.prepare()
    print(f"{'layer':34}{'':24}{'wall ms':>9}{'cpu ms':>9}{'GF/s':>7}")
    for layer in LAYERS:
        show(*layer, rounds)


if __name__ == "__main__":
    main()
