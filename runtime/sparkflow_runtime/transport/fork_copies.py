"""What a fork does with memory that another process has lent to its parent: it gets a copy, at the same address.

So its views are good for as long as it lives, and what it writes is its own. Until it has the copy, its parent gives
nothing back: the owner would write the next payload there.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import mmap
import os
import select
from collections import deque
from collections.abc import Callable, Iterable
from threading import get_ident

import numpy as np

_MAP_FIXED = 0x10  # Linux's: no other system has such memory
_PATIENCE_S = 30.0  # a fork that stands still before it has its copies holds its parent up for so long
_NO_PIPE = -1, -1
_log = logging.getLogger(__name__)


class ForkCopies:
    """memories(): those that this process has views of; forget(): they are nobody's to give back."""

    def __init__(self, memories: Callable[[], Iterable[mmap.mmap]], forget: Callable[[], None]):
        self._memories, self._forget = memories, forget
        self._forking: dict[int, tuple[int, int]] = {}  # thread -> the pipe by which its fork says that it has copied
        self._late: deque[Callable[[], None]] = deque()

    def register(self) -> None:
        os.register_at_fork(before=self._begin, after_in_parent=self._wait, after_in_child=self._copy)

    def when_copied(self, give_back: Callable[[], None]) -> None:
        """Have memory given back, when no fork is about to copy it. In any thread, at any point: no lock."""
        if not self._forking:
            give_back()
            return
        self._late.append(give_back)
        if not self._forking:  # since the first look
            self._give_back_late()

    def _give_back_late(self) -> None:
        with contextlib.suppress(IndexError):  # another thread may be at it, too
            while self._late:
                self._late.popleft()()

    def _begin(self) -> None:
        pipe = _NO_PIPE
        if any(True for _ in self._memories()):
            with contextlib.suppress(OSError):  # no descriptor to be had: it copies all the same
                pipe = os.pipe()
        self._forking[get_ident()] = pipe

    def _wait(self) -> None:
        here, there = self._forking[get_ident()]
        if here >= 0:
            os.close(there)
            poll = select.poll()
            poll.register(here, select.POLLIN)
            poll.poll(_PATIENCE_S * 1e3)  # it has written, or is gone
            os.close(here)
        del self._forking[get_ident()]
        if not self._forking:
            self._give_back_late()

    def _copy(self) -> None:
        here, there = self._forking[get_ident()]
        memories = {id(memory): memory for memory in self._memories()}
        self._forget()
        self._forking.clear()
        self._late.clear()
        for memory in memories.values():
            try:
                _own(memory)
            except (MemoryError, OSError) as error:
                _log.error("%d bytes that another process sent change with those of the parent: %s", len(memory), error)
        if here >= 0:
            os.close(here)
            os.write(there, b"1")
            os.close(there)


def _own(memory: mmap.mmap) -> None:
    """Have private memory with the same bytes in the place of what is shared."""
    size, kept = len(memory), memory[:]
    address = np.frombuffer(memory, np.uint8).__array_interface__["data"][0]
    put = ctypes.CDLL(None, use_errno=True).mmap
    put.restype = ctypes.c_void_p
    put.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
    if put(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0) != address:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    memory[:] = kept
