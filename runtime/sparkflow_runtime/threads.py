"""How many threads BLAS may use in this process, and who has said so; how often Python's threads change places.

A product of matrices runs in BLAS's own threads, as many as there are processors unless somebody says otherwise.
Several processes that train on one machine then spin against each other (measured: two workers and a parameter server
on two processors made 20k instead of 39k examples/s). So who comes first decides, in this order:

1. a variable of the environment (OPENBLAS_NUM_THREADS, OMP_NUM_THREADS, ...): never touched;
2. ConfigProto.intra_op_parallelism_threads of the first session that sets it, for the whole process, as in TensorFlow;
3. a Server whose cluster has several tasks on this host: an equal share of the processors for each of them. Parameter
   servers (jobs called "ps") hold variables and multiply little, so they take no share from the others.

Independent calls of a long step run in threads of their own where that was seen to be quicker (worker/adapt.py), at
most inter_op_parallelism_threads of them: of the first session that sets it, for the whole process; 1 is none. What
waits for a queue or another task holds no thread.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock

from sparkflow_runtime.kernels import blas
from sparkflow_runtime.kernels.parallel import allowed, copy_into, filling, leave_to_others
from sparkflow_runtime.transport import shared
from sparkflow_runtime.wire.protos import ConfigProto

_log = logging.getLogger(__name__)

VARIABLES = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS")
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1", "[::1]"))
HOLDS_VARIABLES = "ps"
_SWITCH_S = 2e-4


@dataclass(frozen=True)
class Limit:
    """How many threads, and who asked for it, in words."""

    threads: int
    reason: str
    asked: bool  # by a session's config, and not worked out by a server


shared.copy_by(copy_into)  # a payload of tens of megabytes goes by the kernels' threads, twice as fast as by one

_lock = Lock()
_limits: list[Limit] = []  # the one in force, if any
_inter_op: list[int] = []  # what a session asked for, if one did


def pinned_by() -> str | None:
    """The variable of the environment that sets BLAS's threads, or None."""
    return next((name for name in VARIABLES if os.environ.get(name)), None)


def in_force() -> Limit | None:
    """What this process has limited BLAS to, None where the environment or BLAS itself decides."""
    return _limits[0] if _limits else None


def switch_often() -> None:
    """Let no thread hold the GIL for longer than this while others want it: what a Server was sent waits that long for
    the thread that is to read it, 5 ms where nothing is set. A shorter time that somebody has set stays."""
    sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_S))


def processors() -> int:
    """Those that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def limit(threads: int, reason: str, asked: bool = False) -> Limit | None:
    """Let BLAS use `threads` threads in this process from now on; returns the limit in force afterwards.

    Nothing changes where a variable of the environment sets the number, nor where a session asked for one before.
    """
    variable = pinned_by()
    with _lock:
        held = in_force()
        if variable is not None:
            if asked and os.environ[variable] != str(threads):
                _log.warning("%s asks for %d threads; %s is set and decides", reason, threads, variable)
            return held
        if held is not None and held.asked:
            if asked and held.threads != threads:
                _log.warning("%s asks for %d threads; %s had asked for %d", reason, threads, held.reason, held.threads)
            return held
        if held is None or held.threads != threads or asked:
            leave_to_others(0 if asked else allowed())
            _set(threads)
            _limits[:] = [Limit(threads, reason, asked)]
            _log.info("BLAS uses %d threads in this process: %s", threads, reason)
        return in_force()


def obey(config: ConfigProto | None, whose: str) -> None:
    """Have as many threads as the ConfigProto of a session or server says, where it does."""
    if config is None:
        return
    if config.intra_op_parallelism_threads > 0:
        limit(config.intra_op_parallelism_threads, f"{whose}.intra_op_parallelism_threads", asked=True)
    if config.inter_op_parallelism_threads > 0:
        limit_inter_op(config.inter_op_parallelism_threads)


def limit_inter_op(threads: int) -> None:
    """Let a step use that many threads for calls that do not need each other, unless another session came before."""
    with _lock:
        if not _inter_op:
            _inter_op.append(threads)
        elif _inter_op[0] != threads:
            text = "inter_op_parallelism_threads: %d asked for; an earlier session's %d stays"
            _log.warning(text, threads, _inter_op[0])


def inter_op(fills: bool = False) -> int:
    """How many threads a step may use for calls that do not need each other: by default as many as kernels may. fills:
    calls that fill new memory, as variables are made; while they are, other tasks of the host mostly wait."""
    return _inter_op[0] if _inter_op else filling() if fills else allowed()


def _set(threads: int) -> None:
    for library in blas.libraries():
        library.set_num_threads(threads)


def share(own: str, tasks: Iterable[tuple[str, str]], here: int = 1) -> int | None:
    """The threads of each process of a cluster on this host; None where one process has the host for itself.

    own: this task's address, host:port. tasks: (job, address) of all tasks. here: how many of them this process serves.
    """
    local = [job for job, address in tasks if _host(address) == _host(own)]
    computing = [job for job in local if job != HOLDS_VARIABLES] or local
    processes = len(computing) - (here - 1)
    return max(1, processors() // processes) if processes > 1 else None


def _host(address: str) -> str:
    host = address.rpartition(":")[0]
    return "localhost" if host in _LOOPBACK else host
