"""What the tasks of a cluster ask each other: the methods and the fixed parts of their messages."""

from __future__ import annotations

import struct

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
