"""What the tasks of a cluster ask each other: the methods and the fixed parts of their messages."""

from __future__ import annotations

import itertools
import secrets
import struct
from collections.abc import Iterator

REGISTER, RUN, DELIVER, ABORT, DEREGISTER, RESET, FORGET, DELIVER_ALL, WAITS, GPUS = range(1, 11)
COLLECTIVE, TRAFFIC = 64, 65
NAMES = dict(enumerate(
    ("register", "run", "deliver", "abort", "deregister", "reset", "forget", "deliver all", "waits",
     "gpus"), REGISTER
)) | {COLLECTIVE: "collective", TRAFFIC: "traffic"}  # fmt: skip
CALLS = frozenset({REGISTER, RUN, RESET, WAITS, GPUS, TRAFFIC})  # these are answered
PUSHES = frozenset(NAMES) - CALLS
RUN_META = struct.Struct("<QQ")  # handle, step id; then a table of the bundles that come with it (wire/bundles)
DELIVER_META = struct.Struct("<QQ")  # step id, bundle; then a NUMBER for the iteration of each loop around it
NUMBER = struct.Struct("<Q")
STEP_META = struct.Struct("<Q")  # of DELIVER_ALL: step id, then a table of bundles
_SERIAL_BITS = 32  # of a handle; those above are drawn


def new_handles() -> Iterator[int]:
    """For the parts of graphs that a task takes: none that it gave out as another process, or before a reset."""
    return itertools.count((secrets.randbits(63 - _SERIAL_BITS) << _SERIAL_BITS) + 1)


def are_of_one_life(handle: int, other: int) -> bool:
    """Whether two handles are of one process, and no reset is between them."""
    return handle >> _SERIAL_BITS == other >> _SERIAL_BITS
