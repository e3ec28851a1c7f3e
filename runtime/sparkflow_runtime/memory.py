"""How much memory a device has, and how this process's allocator treats big arrays.

glibc maps each block above 128 KiB anew and gives it back to the kernel when it is freed, so a training step whose
activations and gradients are a few MB spends its time on page faults: 241 instead of 394 steps/s of an MLP
(784-512-256-10, batch 128). The thresholds set here let freed blocks stay in the process, up to a bound, for the next
step. Whoever sets glibc's own variables keeps what they set.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

from sparkflow_runtime.wire.errors import InvalidArgumentError

_VARIABLES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_")
_TUNABLES = ("glibc.malloc.mmap_threshold", "glibc.malloc.trim_threshold", "glibc.malloc.top_pad")
_SWITCH = "SPARKFLOW_KEEP_MEMORY"  # "0": leave the allocator alone
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_LARGEST_BLOCK_BYTES = 32 << 20  # glibc's own bound of the first; larger blocks are mapped each time
_MOST_KEPT_BYTES = 512 << 20
_SHARE_KEPT = 16  # of the machine's memory, at most one part in so many


def pinned_by() -> str | None:
    """The variable by which somebody has set the allocator, or None."""
    if os.environ.get(_SWITCH) == "0":
        return _SWITCH
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    if any(name in tunables for name in _TUNABLES):
        return "GLIBC_TUNABLES"
    return next((name for name in _VARIABLES if os.environ.get(name)), None)


@cache
def keep_freed_memory() -> int:
    """Let the process keep freed blocks for itself, once. Returns how many bytes at most, 0 where it does not: another
    C library, or a user's own setting."""
    if pinned_by() is not None:
        return 0
    kept = min(_MOST_KEPT_BYTES, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _SHARE_KEPT)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # musl, macOS
        return 0
    mallopt.argtypes, mallopt.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
    done = mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK_BYTES) and mallopt(_M_TRIM_THRESHOLD, kept)
    return kept if done else 0


LIMIT = "SPARKFLOW_MEMORY_LIMIT_BYTES"
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def limit_bytes() -> int:
    """What this process may take: as the user says, or what its container has, or the machine.

    Raises InvalidArgumentError on a variable that is no number of bytes.
    """
    asked = os.environ.get(LIMIT, "")
    if asked:
        if not asked.isdigit() or not int(asked):
            raise InvalidArgumentError(f"{LIMIT} must be a number of bytes, got {asked!r}")
        return int(asked)
    return int(min([os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), *map(_cgroup_limit, _CGROUP_LIMITS)]))


def _cgroup_limit(path: str) -> float:
    """Infinite where the file is not there, or says `max`."""
    try:
        text = Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return float("inf")
    return int(text) if text.isdigit() else float("inf")
