"""Hot loops that numba compiles, beside numpy versions that give the same bits.

    @compiled(["void(float32[:,::1], int64[::1], float32[:,::1])"])
    def add_rows(out, ids, rows): ...            # the loop: a nopython function, in place, no Python objects

    @add_rows.otherwise
    def _(out, ids, rows): np.add.at(out, ids, rows)

Compiling never stalls a step: `prepare()` (call it where a plan is compiled, in the kernel's factory) queues the work
for one background thread, and calls run the numpy version until the machine code is there. A run may so change from
one version to the other at any moment, therefore **both must give the same bits**: the loop adds in the same order as
the numpy version, without fastmath, and leaves exp, log and their like to numpy. The tests of the kernels hold both
versions of every loop against each other.

The thread (background.py) loads what earlier processes left on disk (machine_code.py), which takes milliseconds. What
is not there yet a child process compiles, because numba holds the GIL while it is imported and while it works. A loop
that makes arrays needs numba itself in this process, so make none on a path that matters: have the caller pass room.
Loops release the GIL and use one thread.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from threading import Event, Lock
from types import FunctionType
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import machine_code
from sparkflow_runtime.kernels.background import in_background, make_ready
from sparkflow_runtime.kernels.loop_parts import Inlined, Instructions, Stack
from sparkflow_runtime.kernels.machine_code import Source

_log = logging.getLogger(__name__)

SWITCH = "SPARKFLOW_NUMBA"  # "0": numpy versions only; "wait": compile before the first call


def _fits(value: Any, dtype: np.dtype[Any], rank: int) -> bool:
    """Whether value is an array that machine code may be given as one of that kind."""
    fits = isinstance(value, np.ndarray) and value.dtype == dtype and value.ndim == rank
    return fits and value.flags.c_contiguous and value.flags.aligned


class Compiled:
    """A loop with its numpy version; calling it runs whichever is ready. Only listed signatures are ever compiled:
    other argument types are the caller's mistake once the machine code is in use."""

    def __init__(
        self,
        loop: Callable[..., Any],
        signatures: Sequence[str],
        before: Callable[[], None] | None = None,
        nogil: bool = True,
        parts: Sequence[Callable[..., Any]] = (),
    ):
        self.loop, self.name, self._before, self.nogil = loop, loop.__qualname__, before, nogil
        self._parts = parts
        self.sources = [Source(loop.__module__, loop.__qualname__, s) for s in signatures]
        self.numpy: Callable[..., Any] = loop
        self._call: Callable[..., Any] = self._first
        self._asked, self._ready = False, Event()
        self._entries: list[Callable[..., int]] = []
        self._addresses: list[tuple[list[tuple[np.dtype[Any], int]], int]] = []  # (type, rank) of the arrays

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
            make_ready(self)
        else:
            in_background(self)

    @property
    def where(self) -> str:
        return f"{self.loop.__module__}:{self.name}"

    @property
    def kept(self) -> bool:
        return self._alone and machine_code.is_ours(self.loop.__module__) and "<locals>" not in self.name

    @property
    def _alone(self) -> bool:
        """Whether it can be machine code that needs nothing else."""
        return all(source.fits for source in self.sources)

    def load(self) -> bool:
        codes = [machine_code.read(source) for source in self.sources] if self.kept else [None]
        if not all(codes):  # not built yet, or of no use without numba
            return False
        self._use([code for code in codes if code])
        return True

    def compile(self) -> Callable[..., Any]:
        """Compile in this thread and use the result from now on."""
        codes = self.build_ahead() if self._alone else [b""]
        return self._use(codes) if all(codes) else self._set(self._numba())

    def build_ahead(self) -> list[bytes]:
        """The object files, kept for other processes too; numba's own cache has what cannot be one."""
        from sparkflow_runtime.kernels.machine_build import build, build_and_keep

        make = build_and_keep if self.kept else build
        if self._before is not None:
            self._before()
        loop = self._with_parts(self._parts) if self._parts else self.loop
        codes = [make(loop, source) for source in self.sources]
        if not all(codes):
            self._numba()
        return codes

    def _use(self, codes: Sequence[bytes]) -> Callable[..., Any]:
        kinds = [source.arguments for source in self.sources]
        self._entries = [machine_code.load(code, len(of), self.nogil) for code, of in zip(codes, kinds)]
        self._addresses = [
            ([(np.dtype(kind.dtype), kind.rank) for kind in of if kind.rank >= 0], machine_code.address(entry))
            for of, entry in zip(kinds, self._entries)
        ]
        return self._set(machine_code.caller(self.name, self.sources, self._entries))

    def address(self, dtype: Any) -> int:
        """Of the machine code whose first argument has that type; 0 while it is not there. It takes the ids of arrays
        (machine_code.py)."""
        return next((address for kinds, address in self._addresses if kinds[0][0] == dtype), 0)

    def entry(self, arrays: Sequence[Any]) -> int:
        """The address of the machine code that takes these arrays and then numbers; 0 where there is none."""
        for kinds, address in self._addresses:
            if all(_fits(array, *kind) for array, kind in zip(arrays, kinds)):
                return address
        return 0

    def _numba(self) -> Callable[..., Any]:
        import numba

        from sparkflow_runtime.kernels.machine_build import OPTIONS

        if self._before is not None:
            self._before()
        loop = self._with_parts(self._parts)
        signatures = [source.signature for source in self.sources]
        try:
            return numba.njit(signatures, nogil=self.nogil, cache=True, **OPTIONS)(loop)
        except RuntimeError as error:  # no place for a cache: compile for this process alone
            _log.info("%s: %s", self.name, error)
            return numba.njit(signatures, nogil=self.nogil, **OPTIONS)(loop)

    def _with_parts(self, parts: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
        """numba wants what a loop calls compiled too; everybody else wants it as it is."""
        import numba

        from sparkflow_runtime.kernels.machine_build import OPTIONS, on_stack

        known: dict[str, Any] = {}
        for one in parts:
            if isinstance(one, Stack):
                known[one.__name__] = on_stack(one)
            elif isinstance(one, Instructions):
                known[one.__name__] = one.make()
            elif isinstance(one, Inlined):
                known[one.__name__] = numba.njit(inline="always", **OPTIONS)(_with(one.function, known))
            else:
                known[one.__name__] = numba.njit(nogil=self.nogil, **OPTIONS)(_with(one, known))
        return _with(self.loop, known) if known else self.loop

    def _set(self, call: Callable[..., Any]) -> Callable[..., Any]:
        self._asked, self._call = True, call
        self._ready.set()
        return call

    def wait(self, timeout_s: float) -> bool:
        """Whether the machine code is in use, after waiting for it; at once where it is not to be used."""
        self.prepare()
        return self._call != self.numpy and self._ready.wait(max(timeout_s, 0.0))


class Native:
    """Functions of addresses and numbers, made of a module that is written for numba. They have no numpy version:
    who wants them looks whether `functions` are there, and does without them where they are not."""

    kept = True

    def __init__(self, name: str, where: str, module: str, **arguments: int):
        """arguments: how many each of the functions takes; their order is that of `functions`."""
        self.name, self.where, self._module = name, where, module
        kinds = {function: ", ".join(["int64"] * count) for function, count in arguments.items()}
        self.sources = [Source(module, function, f"int64({inside})") for function, inside in kinds.items()]
        self.functions: list[Callable[..., int]] = []
        self._asked, self._asking = False, Lock()
        _NATIVES.setdefault(where, self)  # which stands for all that are made of the same

    def prepare(self) -> None:
        """Have them made ready in the background; nothing waits for it."""
        mode = os.environ.get(SWITCH, "1")
        with self._asking:
            if self._asked or mode == "0":
                return
            self._asked = True
        if mode == "wait":
            make_ready(self)
        else:
            in_background(self)

    def load(self) -> bool:
        codes = [machine_code.read(source) for source in self.sources]
        if all(codes):
            self._use([code for code in codes if code])
        return all(codes)

    def compile(self) -> None:
        self._use(self.build_ahead())

    def build_ahead(self) -> list[bytes]:
        from importlib import import_module

        from sparkflow_runtime.kernels.machine_build import build_and_keep

        module = import_module(self._module)
        return [build_and_keep(getattr(module, source.name), source) for source in self.sources]

    def _use(self, codes: Sequence[bytes]) -> None:
        found = [machine_code.load(code, len(source.arguments)) for code, source in zip(codes, self.sources)]
        self.functions = found if self._works(found) else []

    def _works(self, functions: list[Callable[..., int]]) -> bool:
        """Whether they do what they should here; says so where not."""
        return True


_LOOPS: list[Compiled] = []
_NATIVES: dict[str, Native] = {}


def _with(function: Callable[..., Any], names: dict[str, Any]) -> FunctionType:
    """The function, with other values of some names of its module."""
    return FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__)


def compiled(
    signatures: Sequence[str],
    before: Callable[[], None] | None = None,
    nogil: bool = True,
    parts: Sequence[Callable[..., Any]] = (),
) -> Callable[[Callable[..., Any]], Compiled]:
    """Register a loop, to be compiled for these numba signatures.

    before: called ahead of that, to teach numba what the loop calls. parts: functions that it calls, each after those
    that it calls itself, its own module's or imported by name from a module of kernels or records; they become part of
    the machine code.
    nogil: False for one that is over before another thread could use the GIL.
    """

    def register(loop: Callable[..., Any]) -> Compiled:
        found = Compiled(loop, signatures, before, nogil, parts)
        _LOOPS.append(found)
        return found

    return register


def registered() -> list[Compiled]:
    return list(_LOOPS)


def natives() -> list[Native]:
    return list(_NATIVES.values())
