"""Hot loops that numba compiles, beside numpy versions that give the same bits.

    @compiled(["void(float32[:,::1], int64[::1], float32[:,::1])"])
    def add_rows(out, ids, rows): ...            # the loop: a nopython function, in place, no Python objects

    @add_rows.otherwise
    def _(out, ids, rows): np.add.at(out, ids, rows)

Compiling never stalls a step: `prepare()` (call it where a plan is compiled, in the kernel's factory) queues the work
for one background thread, which also imports numba, and calls run the numpy version until the machine code is there. A
run may so change from one version to the other at any moment, therefore **both must give the same bits**: the loop adds
in the same order as the numpy version, without fastmath, and leaves exp, log and their like to numpy. The tests of the
kernels hold both versions of every loop against each other.

Machine code is cached on disk by numba (beside the source, or in the user's cache where an install is read-only; the
variable NUMBA_CACHE_DIR moves it). Loops release the GIL and use one thread.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Event, Lock, Thread
from types import FunctionType
from typing import Any

_log = logging.getLogger(__name__)

SWITCH = "SPARKFLOW_NUMBA"  # "0": numpy versions only; "wait": compile before the first call
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": False,
    "error_model": "numpy",
}  # a division by 0 is inf, as numpy's
_LOOPS: list[Compiled] = []
_queue: SimpleQueue[Compiled] = SimpleQueue()
_start_lock = Lock()
_threads: list[Thread] = []  # one at the most


class Compiled:
    """A loop with its numpy version; calling it runs whichever is ready. Only listed signatures are ever compiled:
    other argument types are the caller's mistake once the machine code is in use."""

    def __init__(
        self,
        loop: Callable[..., Any],
        signatures: Sequence[str],
        before: Callable[[], None] | None = None,
        uses: Sequence[Callable[..., Any]] = (),
    ):
        self._before, self._uses = before, uses
        self.loop, self.signatures, self.name = loop, list(signatures), loop.__qualname__
        self.numpy: Callable[..., Any] = loop
        self._call: Callable[..., Any] = self._first
        self._asked, self._ready = False, Event()

    def otherwise(self, numpy_version: Callable[..., Any]) -> Compiled:
        """Set the version that runs until the loop is compiled."""
        self.numpy = numpy_version
        return self

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)

    def _first(self, *args: Any) -> Any:
        self.prepare()
        return self.numpy(*args) if self._call == self._first else self._call(*args)

    def prepare(self) -> None:
        """Have it compiled in the background, once. Costs nothing when called again."""
        if self._asked:
            return
        self._asked = True
        mode = os.environ.get(SWITCH, "1")
        if mode == "0":
            self._call = self.numpy
        elif mode == "wait":
            self.compile()
        else:
            _queue.put(self)
            _start_thread()

    def compile(self) -> Callable[..., Any]:
        """Compile in this thread and use the result from now on; the machine code's dispatcher."""
        import numba

        if self._before is not None:
            self._before()
        known: dict[str, Any] = {}  # numba wants what a loop calls compiled too; everybody else wants it as it is
        for one in self._uses:
            known[one.__name__] = numba.njit(**_OPTIONS)(_with(one, known))
        loop = _with(self.loop, known) if known else self.loop
        try:
            function = numba.njit(self.signatures, cache=True, **_OPTIONS)(loop)
        except RuntimeError as error:  # no place for a cache: compile for this process alone
            _log.info("%s: %s", self.name, error)
            function = numba.njit(self.signatures, **_OPTIONS)(loop)
        self._asked, self._call = True, function
        self._ready.set()
        return function

    def wait(self, timeout_s: float) -> bool:
        """Whether the machine code is in use, after waiting for it."""
        self.prepare()
        return self._ready.wait(timeout_s)


def _with(function: Callable[..., Any], names: dict[str, Any]) -> FunctionType:
    """The function, with other values of some names of its module."""
    return FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__)


def compiled(
    signatures: Sequence[str],
    before: Callable[[], None] | None = None,
    uses: Sequence[Callable[..., Any]] = (),
) -> Callable[[Callable[..., Any]], Compiled]:
    """Register a loop, to be compiled for these numba signatures. before: called ahead of that, to teach numba what the
    loop calls. uses: functions of its own module that it calls, each after those that it calls itself."""

    def register(loop: Callable[..., Any]) -> Compiled:
        found = Compiled(loop, signatures, before, uses)
        _LOOPS.append(found)
        return found

    return register


def registered() -> list[Compiled]:
    return list(_LOOPS)


def _start_thread() -> None:
    with _start_lock:
        if not _threads:
            _threads.append(Thread(target=_compile_all, name="sparkflow-compile", daemon=True))
            _threads[0].start()


def _compile_all() -> None:
    while True:
        loop = _queue.get()
        try:
            loop.compile()
        except Exception:
            # The numpy version goes on: results are the same, only slower. Said once, with the trace that mends it.
            _log.exception("%s could not be compiled; its numpy version stays in use", loop.name)
