"""Convolutions of a small net and of VGG19, kernel by kernel: wall and processor time, and the rate of a plain product.

    python tests/benchmarks/bench_conv.py [--rounds 7]

Processor time is that of all threads: on a busy machine it tells more than the wall. GF/s counts the multiplications of
the definition; Winograd's way makes a quarter of them.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

os.environ.setdefault("SPARKFLOW_NUMBA", "wait")

import numpy as np

from sparkflow_runtime.kernels import conv_columns, conv_winograd
from sparkflow_runtime.kernels.windows import Window

LAYERS = [  # images, edge, channels in, channels out
    (32, 32, 3, 64),
    (32, 32, 64, 64),
    (32, 16, 128, 128),
    (1, 224, 64, 64),
    (4, 112, 128, 128),
    (4, 56, 256, 256),
    (4, 28, 512, 512),
    (4, 14, 512, 512),
]


def timed(compute: Callable[[], object], rounds: int) -> tuple[float, float]:
    """The least (wall, processor) milliseconds."""
    wall, processor = [], []
    for _ in range(rounds):
        w, p = time.perf_counter(), time.process_time()
        compute()
        wall.append(time.perf_counter() - w)
        processor.append(time.process_time() - p)
    return min(wall) * 1e3, min(processor) * 1e3


def show(images: int, edge: int, inner: int, outer: int, rounds: int) -> None:
    rng, one = np.random.default_rng(0), (1, 1, 1)
    win = Window((1, edge, edge), (1, 3, 3), one, one, (0, 1, 1), (0, 1, 1), (1, edge, edge))
    x, w, dy = (
        rng.standard_normal(s, np.float32)
        for s in ((images, 1, edge, edge, inner), (1, 3, 3, inner, outer), (images, 1, edge, edge, outer))
    )
    way = conv_winograd if conv_winograd.fits(x, w, win) else conv_columns
    way.prepare()
    columns, weights = rng.standard_normal((images * edge * edge, 9 * inner), np.float32), w.reshape(-1, outer)
    rows: list[tuple[str, Callable[[], object]]] = [
        ("forward", lambda: way.forward(x, w, win)),
        ("by input", lambda: way.by_input(dy, w, win)),
        ("by filter", lambda: way.by_filter(x, dy, win)),
        ("product only", lambda: columns @ weights),
    ]
    for name, compute in rows:
        wall, processor = timed(compute, rounds)
        rate = 18e-6 * images * edge * edge * inner * outer / wall
        print(f"{f'{images} x {edge}^2 x {inner} -> {outer}':24}{name:12}{wall:9.1f}{processor:9.1f}{rate:7.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    print(f"{'layer':24}{'':12}{'wall ms':>9}{'cpu ms':>9}{'GF/s':>7}")
    for layer in LAYERS:
        show(*layer, rounds)


if __name__ == "__main__":
    main()
