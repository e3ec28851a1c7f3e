"""What the machine code of direct convolution and its callers agree on: words (int64) of a plan, and of a piece."""

from __future__ import annotations

import re
from functools import cache

from sparkflow_runtime.kernels.machine_code import processor

# A plan: how a batch is divided (images of a piece; the axis that is divided, 1 for depth and 2 for height; outputs of
# a piece along it; pieces along it); the input (images, sizes, bytes of a cell); then for depth, height and width the
# cell that the first tap of the first output meets (below 0: outside), strides, and cells from the first tap to the
# last; sizes of the output, its strides in bytes, its channels; the filter as runs of numbers that lie side by side in
# the input, and, from TAPS on, the cell (depth, height, width) at which each begins.
GROUP, AXIS, ALONG, PARTS = range(4)
IMAGES_IN, SIZE, CELL, FIRST, STRIDE, SPAN = 4, 5, 8, 9, 12, 15
OUT, OUT_BYTES, MADE, RUNS, LENGTH, TAPS = 18, 21, 25, 26, 27, 28

# A piece: sizes of its output, strides in bytes of the input and of the output (by image, depth, height, width), the
# output's channels as vectors, and the offsets of the runs.
IMAGES, DEEP, HIGH, WIDE = range(4)
X_N, X_D, X_H, X_W = range(4, 8)
Y_N, Y_D, Y_H, Y_W = range(8, 12)
Y_FIRST, VECTORS, OFFSETS = 12, 13, 14


@cache
def lanes() -> int:
    """Numbers of a vector; 0 where the processor has none that are multiplied and added in one."""
    features = set(re.split(r"[\s,+]+", processor()))
    return 16 if "avx512f" in features else 8 if {"fma", "avx2"} <= features else 0


def tile() -> int:
    """Neighbours of a tile: their sums, for two vectors of channels, fit into the registers beside what is added."""
    return 8 if lanes() == 16 else 6
