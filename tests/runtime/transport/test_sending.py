"""Frames of many threads on one socket that does not take them at once."""

from __future__ import annotations

import gc
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.transport import sending
from sparkflow_runtime.transport.sending import Sender, _Frame
from sparkflow_runtime.wire.errors import DeadlineExceededError


class Narrow:
    """A socket that takes a few bytes and is then full until it is read from; `meanwhile` runs while it is."""

    def __init__(self, meanwhile: Callable[[], None]):
        self.taken, self._meanwhile, self.full = b"", meanwhile, False

    def setsockopt(self, *args: Any) -> None:
        pass

    def sendmsg(self, buffers: list[Any], ancillary: Any, flags: int) -> int:
        if self.full:
            meanwhile, self._meanwhile = self._meanwhile, lambda: None
            meanwhile()
            raise BlockingIOError
        found = b"".join(buffers)
        if not self.taken:
            self.full, found = True, found[:3]
        self.taken += found
        return len(found)


def told(narrow: Narrow | Steady, size: int) -> bytes:
    narrow.full = False
    deadline = time.monotonic() + 10
    while len(narrow.taken) < size and time.monotonic() < deadline:
        time.sleep(0.001)
    return narrow.taken


@pytest.mark.parametrize("way", ["post", "send"])
def test_a_frame_begun_ends_before_what_others_post_meanwhile(way: str) -> None:
    narrow = Narrow(lambda: sender.post([b"other"], 5))
    sender = Sender(narrow, "peer", 1 << 20)  # type: ignore[arg-type]
    if way == "post":
        sender.post([b"first ", b"frame;"], 12)
    else:
        with pytest.raises(DeadlineExceededError):
            sender.send([b"first ", b"frame;"], 12, time.monotonic() + 0.01)
    assert told(narrow, 17) == b"first frame;other"
    sender.stop()


def test_other_threads_run_while_a_large_frame_is_kept() -> None:
    """What a reader answers and its peer does not read at once is copied, and that may take seconds."""
    big, others = np.arange(4 << 20), [np.arange(7.0), b"", b"tail"]
    ticks, over = [0], threading.Event()

    def tick() -> None:
        while not over.is_set():
            ticks[0] += 1
            time.sleep(0)  # lets others run

    ticking, interval_s = threading.Thread(target=tick), sys.getswitchinterval()
    frame = _Frame([big, *others], big.nbytes + 60, None)
    sys.setswitchinterval(1e3)  # from here on nobody runs but while another waits, or does without the interpreter
    try:
        ticking.start()
        before = ticks[0]
        frame.keep()
        after = ticks[0]
    finally:
        sys.setswitchinterval(interval_s)
        over.set()
        ticking.join()
    assert after > before
    assert b"".join(frame.buffers) == big.tobytes() + others[0].tobytes() + b"tail"  # type: ignore[union-attr]


class Steady:
    """A socket whose peer reads 1500 bytes whenever it is full."""

    def __init__(self) -> None:
        self.taken, self.full, self.by = b"", False, dict[int, int]()

    def setsockopt(self, *args: Any) -> None:
        pass

    def sendmsg(self, buffers: list[Any], ancillary: Any, flags: int) -> int:
        self.full = not self.full
        if not self.full:
            raise BlockingIOError
        found = b"".join(buffers)[:1500]
        self.taken += found
        self.by[threading.get_ident()] = self.by.get(threading.get_ident(), 0) + len(found)
        return len(found)


def test_a_peer_that_reads_gets_more_while_a_large_frame_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would take this end for dead: no heartbeat goes within a frame."""
    monkeypatch.setattr(sending, "_PART_BYTES", 1000)
    monkeypatch.setattr(sending, "_JOIN_BYTES", 100)
    steady, data = Steady(), [np.arange(1234), b"0123456789" * 500, b"", np.arange(777)]
    sender = Sender(steady, "peer", 1 << 20)  # type: ignore[arg-type]
    sender.post(data, whole := sum(map(sending._size, data)))
    assert steady.by[threading.get_ident()] > whole - 2500, "the last part alone waits for the writer"
    assert told(steady, whole) == b"".join(data)  # type: ignore[arg-type]
    sender.stop()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    a, b = socket.socketpair()
    with a, b:
        a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        yield a, b


class Interrupted(BaseException):
    """As KeyboardInterrupt, which would end the tests."""


def test_the_rest_of_an_interrupted_post_is_sent_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The arrays are the caller's again."""

    def interrupt() -> None:
        raise Interrupted

    monkeypatch.setattr(sending, "_JOIN_BYTES", 0)  # the kernel gets the caller's arrays
    narrow, frame = Narrow(interrupt), np.arange(100, dtype=np.uint8)
    sender, before = Sender(narrow, "peer", 1 << 20), frame.tobytes()  # type: ignore[arg-type]
    with pytest.raises(Interrupted):
        sender.post([frame], 100)
    frame[:] = 7
    assert told(narrow, 100) == before
    sender.stop()


def test_an_interrupted_send_leaves_whole_frames(pair: tuple[socket.socket, socket.socket]) -> None:
    """A signal's exception comes at any point of a send: what has left of the frame is ended by its rest, before
    anything else is sent. No signal is set for every third frame: however slow the machine, some are sent whole."""
    frames, words, interrupted = 300, 20_000, 0
    sender, seen = Sender(pair[0], "peer", 1 << 30), []

    def read() -> None:
        while not seen or seen[-1] >= 0:
            found, got = np.empty(words, np.int32), 0
            while got < found.nbytes:
                got += pair[1].recv_into(memoryview(found).cast("B")[got:], min(9_000, found.nbytes - got))
            seen.append(int(found[0]) if (found == found[0]).all() else -2)

    def interrupt(*_: Any) -> None:
        raise Interrupted

    def post() -> None:
        for k in range(frames):
            sender.post([np.full(words, frames + k, np.int32)], 4 * words)
            time.sleep(0.001)

    reader, posted = threading.Thread(target=read), threading.Thread(target=post)
    gc.disable()  # others have callbacks of it, in which the exception would be lost
    before = signal.signal(signal.SIGALRM, interrupt)
    reader.start()
    posted.start()
    try:
        for k in range(frames):
            frame = np.full(words, k, np.int32)
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + 7 * k % 400) if k % 3 else 0)
                sender.send([frame[:100], frame[100:]], frame.nbytes)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                interrupted += 1
            frame[:] = -3  # the caller's again
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    posted.join()
    sender.send([np.full(words, -1, np.int32)], 4 * words)
    reader.join()
    sender.stop()
    sent = [number for number in seen[:-1] if number < frames]
    assert seen[-1] == -1 and sent == sorted(set(sent)) and len(sent) >= frames - interrupted, seen
    assert [number for number in seen if number >= frames] == [*range(frames, 2 * frames)]
    assert 0 < interrupted <= frames - len(range(0, frames, 3))


def test_frames_of_many_threads_stay_whole(pair: tuple[socket.socket, socket.socket]) -> None:
    """Some wait, some post, the peer reads slowly; every frame is its own number, over and over."""
    frames, threads, words = 40, 4, 50_000
    sender = Sender(pair[0], "peer", 1 << 30)

    def work(index: int) -> None:
        for k in range(frames):
            frame = np.full(words, index * frames + k, np.int32)
            (sender.post if index % 2 else sender.send)([frame[:100], frame[100:]], frame.nbytes)

    running = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for one in running:
        one.start()
    seen = []
    for _ in range(frames * threads):
        found, got = np.empty(words, np.int32), 0
        while got < found.nbytes:
            got += pair[1].recv_into(memoryview(found).cast("B")[got:], min(9_000, found.nbytes - got))
        assert (found == found[0]).all()
        seen.append(int(found[0]))
    for one in running:
        one.join()
    assert sorted(seen) == list(range(frames * threads))
    sender.stop()


def test_a_post_beside_the_writer_that_has_just_paid_everything() -> None:
    """It saw that something was owed, so it did not ask for the lock; a moment later nothing is."""

    class PaidMeanwhile(deque[Any]):
        looks = 0

        def __bool__(self) -> bool:
            self.looks += 1
            return self.looks == 2 or len(self) > 0  # the first look is for the limit

    narrow = Narrow(lambda: None)
    sender = Sender(narrow, "peer", 1 << 20)  # type: ignore[arg-type]
    sender._owed = PaidMeanwhile()
    narrow.taken = b"before;"
    sender.post([b"frame"], 5)
    assert told(narrow, 12) == b"before;frame"
    sender.stop()


@pytest.mark.parametrize("begun", [False, True])
def test_ctrl_c_as_the_writer_begins(begun: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is owed leaves with the next heartbeat, other senders have their writers, and none outlives its sender."""
    start, interrupts = threading.Thread.start, [KeyboardInterrupt()]

    def interrupted(thread: threading.Thread) -> None:
        if begun or not interrupts:
            start(thread)
        if interrupts:
            raise interrupts.pop()

    narrows = [Narrow(lambda: None), Narrow(lambda: None)]
    first, second = (Sender(narrow, "of test_ctrl_c", 1 << 20) for narrow in narrows)  # type: ignore[arg-type]
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            first.post([b"first frame"], 11)
        first.offer(b"beat")
        second.post([b"other frame"], 11)
    assert told(narrows[0], 11) == b"first frame" and told(narrows[1], 11) == b"other frame"
    writers = [thread for thread in threading.enumerate() if thread.name.endswith("of test_ctrl_c")]
    for sender in (first, second):
        sender.stop()
    for thread in writers:
        thread.join(10)
    assert not any(thread.is_alive() for thread in writers)
