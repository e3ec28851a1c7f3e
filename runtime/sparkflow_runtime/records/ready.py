"""Compiling the loops of this room before a large piece of work, instead of beside it."""

from __future__ import annotations

import os

from sparkflow_runtime.kernels.compiled import SWITCH
from sparkflow_runtime.records import encode_loops, example_loops, fingerprints, framing, spans

LOOPS = (
    framing._walk,
    framing._spread,
    spans._gather,
    example_loops.index,
    example_loops.floats,
    example_loops.ints,
    example_loops.byte_spans,
    encode_loops.features,
    encode_loops.rows,
    fingerprints._all,
    fingerprints._of_numbers,
)


def prepare() -> None:
    """Have them compiled in the background."""
    for loop in LOOPS:
        loop.prepare()


def wait(timeout_s: float = 60.0) -> None:
    """Have them compiled (or loaded: seconds the first time on a machine, milliseconds later) and wait for it. After
    `timeout_s` the slow versions do the work."""
    if os.environ.get(SWITCH) == "0":
        return
    prepare()
    for loop in LOOPS:
        if not loop.wait(timeout_s):
            return
