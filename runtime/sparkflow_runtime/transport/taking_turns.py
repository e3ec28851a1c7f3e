"""Who reads a channel: its reader thread, or a caller that waits for its own answer.

A caller that reads what it waits for saves itself a hand-over between two threads, which takes as long as the rest of a
small call. The reader thread makes room for callers once one has asked for it: it then sleeps until the channel can be
read (epoll) instead of in a read, and a caller keeps that sleep undisturbed for as long as it reads itself. What is not
its answer it leaves to the reader thread, which goes back to plain reads where callers stay away: these take one call
into the kernel less.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable, Container
from functools import partial

from sparkflow_runtime.transport.receiving import Message, Receiver
from sparkflow_runtime.wire.errors import OpError

AVAILABLE = hasattr(select, "epoll") and hasattr(os, "eventfd")
_MOST_IN_VAIN = 16  # messages that the reader thread makes room before, and no caller comes


class TakingTurns:
    """Of one channel. The thread that holds `_right` reads, and handles what it has read."""

    def __init__(self, sock: socket.socket):
        self._sock, self._right = sock, threading.Lock()
        self._right.acquire()  # the reader thread's, before it has begun, too
        self._asked = False  # for the reader thread to make room
        self._turns = self._turns_seen = self._in_vain = 0
        self._epoll: select.epoll | None = None  # these from when room was first made
        self._wake_fd = -1
        self._keep_asleep: Callable[[], None]  # calls into C, all three, after which an exception may come, not before
        self._let_wake: Callable[[], None]
        self._wake: Callable[[], None]

    # ---- the reader thread

    def make_room(self, receiver: Receiver) -> None:
        """When it has handled a message: callers may read until there is one that it should."""
        if not self._asked or not receiver.is_empty:
            return
        self._in_vain = self._in_vain + 1 if self._turns == self._turns_seen else 0
        self._turns_seen = self._turns
        if self._in_vain > _MOST_IN_VAIN:
            self._asked, self._in_vain = False, 0
            return
        epoll = self._epoll or self._begin_to_sleep()
        while True:
            self._right.release()
            try:
                woken = any(fd == self._wake_fd for fd, _ in epoll.poll(-1, 2))
            finally:
                self._right.acquire()
            if woken:
                os.eventfd_read(self._wake_fd)
            if not receiver.is_empty or receiver.is_readable(0.0):  # else a caller has read it
                return

    def _begin_to_sleep(self) -> select.epoll:
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        epoll, fd = select.epoll(), self._sock.fileno()
        epoll.register(fd, select.EPOLLIN)
        epoll.register(self._wake_fd, select.EPOLLIN)
        self._keep_asleep = partial(epoll.modify, fd, 0)
        self._let_wake = partial(epoll.modify, fd, select.EPOLLIN)
        self._wake = partial(os.eventfd_write, self._wake_fd, 1)
        self._epoll = epoll
        return epoll

    def end(self) -> None:
        """By the reader thread, before the socket is closed; it holds the right, and keeps it."""
        if self._epoll is not None:
            self._epoll.close()
            os.close(self._wake_fd)

    # ---- callers

    def answer(
        self, receiver: Receiver, call_id: int, pending: Container[int], deadline: float | None
    ) -> Message | None:
        """The answer to a call, read by its caller; None where the reader thread has it, or is to read it.

        pending: the calls that wait for an answer. A call is among them before it is sent."""
        found = None
        held: list[bool] = []
        is_left = True  # for the reader thread
        try:  # an exception from a signal's handler comes after any call: the right is given back all the same
            held.extend(map(self._right.acquire, (False,)))
            if not held[0]:
                self._asked = True
            elif call_id in pending:  # else the reader thread has had it before it made room
                self._turns += 1
                self._keep_asleep()
                found = receiver.answer(call_id, deadline)
            is_left = not receiver.is_empty
        except OpError:
            pass  # a bad frame: the reader thread meets it, too, and ends the channel
        finally:
            if held and held[0]:
                try:
                    self._let_wake()
                finally:
                    try:
                        if is_left:
                            self._wake()
                    finally:
                        self._right.release()
        return found
