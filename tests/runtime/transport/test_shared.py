"""Large payloads in shared memory: who owns a segment when, what comes back, and what is left behind by the dead."""

from __future__ import annotations

import fcntl
import gc
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.transport import Channel, NoHandler, Options, handshake, shared
from sparkflow_runtime.wire import frames
from sparkflow_runtime.wire.errors import DeadlineExceededError, UnavailableError
from tests.interrupts import interrupted

from .conftest import WAIT_S, Net, Recorder, eventually

pytestmark = pytest.mark.skipif(not shared.AVAILABLE, reason="this system has no sealed anonymous files")
LARGE = np.arange(1 << 18, dtype=np.float32)  # 1 MiB


class Echo(NoHandler):
    """As Recorder, and keeps nothing."""

    def on_message(self, channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
        if reply is not None:
            reply(meta, tensors)


def segments_here() -> set[str]:
    """Of the segments mapped in this process, lent or borrowed: the inodes."""
    gc.collect()
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[4] for line in lines if "memfd:sparkflow" in line}


def test_large_payloads_go_by_memory_and_small_ones_do_not(unix: Net) -> None:
    there = unix.pair()
    for nbytes in (shared.MIN_BYTES, shared.MIN_BYTES + 1, 5 << 20):
        tensor = np.random.default_rng(1).integers(0, 255, nbytes, dtype=np.uint8)
        (got,) = there.call(1, b"", [tensor], WAIT_S)[1]
        assert (got == tensor).all()
    counters = there.counters
    assert counters["bytes_lent"] == counters["bytes_borrowed"] == 2 * shared.MIN_BYTES + 1 + (5 << 20)
    assert counters["bytes_sent"] < 10_000
    there.call(1, b"", [LARGE[:100]], WAIT_S)
    assert there.counters["bytes_lent"] == counters["bytes_lent"]


def test_tcp_and_an_end_that_wants_none_send_as_before(tcp: Net, unix: Net) -> None:
    for there in (
        tcp.pair(),
        unix.dial(unix.listen(options=Options(shared_bytes=0)).url, options=Options(shared_bytes=0)),
    ):
        (got,) = there.call(1, b"", [LARGE], WAIT_S)[1]
        assert (got == LARGE).all()
        assert there.counters["bytes_lent"] == there.counters["bytes_borrowed"] == 0


def test_many_tensors_of_all_kinds_in_one_payload(unix: Net) -> None:
    words = np.array([b"a" * 100_000, b"", "\u00fc".encode() * 70_000], object)
    tensors = [np.float32(3), np.arange(70_001, dtype=np.int8), words, np.zeros((0, 3)), LARGE.reshape(512, 512).T]
    got = unix.pair().call(1, b"m" * 200_000, tensors, WAIT_S)
    assert got[0] == b"m" * 200_000
    for a, b in zip(got[1], tensors, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and (a == b).all()


def test_a_segment_is_not_written_while_a_view_of_it_lives(unix: Net) -> None:
    there = unix.pair()
    kept = []
    for i in range(6):
        (got,) = there.call(1, b"", [LARGE + i], WAIT_S)[1]
        kept.append(got[5:9].reshape(2, 2).T)
    assert [k[0, 0] for k in kept] == [5 + i for i in range(6)]


def test_segments_are_used_again(unix: Net) -> None:
    there, before = unix.pair(Echo(), NoHandler()), segments_here()
    for _ in range(50):
        there.call(1, b"", [LARGE], WAIT_S)
    assert len(segments_here() - before) <= 4  # one or two each way


def test_without_room_the_socket_carries_it(unix: Net) -> None:
    limit = Options(shared_bytes=3 << 20)
    there = unix.dial(unix.listen().url, options=limit)
    kept = [there.call(1, b"", [LARGE + i], WAIT_S)[1][0] for i in range(6)]
    huge = np.ones(4 << 20, np.uint8)
    assert (there.call(1, b"", [huge], WAIT_S)[1][0] == huge).all()
    assert all((k == LARGE + i).all() for i, k in enumerate(kept))


def test_idle_segments_of_other_sizes_make_room(unix: Net) -> None:
    there = unix.dial(unix.listen(Echo()).url, options=Options(shared_bytes=8 << 20))
    for mib in (1, 6, 2, 7, 1, 5):
        before = there.counters["bytes_lent"]
        there.call(1, b"", [np.zeros(mib << 20, np.uint8)], WAIT_S)
        gc.collect()
        eventually(lambda: all(s.free for s in there._lender._segments.values()))  # type: ignore[attr-defined]
        assert there.counters["bytes_lent"] - before == mib << 20


def test_idle_segments_are_given_back(unix: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "IDLE_S", 0.2)
    quick = Options(keepalive_s=0.4)
    before = segments_here()
    there = unix.dial(unix.listen(Echo(), options=quick).url, options=quick)
    (got,) = there.call(1, b"", [LARGE], WAIT_S)[1]
    assert segments_here() - before
    del got
    eventually(lambda: segments_here() <= before)
    assert (there.call(1, b"", [LARGE], WAIT_S)[1][0] == LARGE).all()


def test_a_process_keeps_so_much_and_no_more(unix: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "_owned", {})  # channels of tests before give segments back meanwhile
    monkeypatch.setattr(shared, "PROCESS_BYTES", 3 << 20)
    there = unix.pair(Echo())
    kept = [there.call(1, b"", [LARGE + i], WAIT_S)[1][0] for i in range(6)]
    assert all((k == LARGE + i).all() for i, k in enumerate(kept))
    assert 0 < there.counters["bytes_borrowed"] <= 3 << 20


def test_many_threads_share_the_segments(unix: Net) -> None:
    there = unix.pair()

    def work(worker: int) -> bool:
        for step in range(20):
            tensor = np.full((step % 4 + 1) << 17, worker * 1000 + step, np.float32)
            (got,) = there.call(1, b"", [tensor], WAIT_S)[1]
            if not (got == tensor).all():
                return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(8)))


class Interrupted(BaseException):
    """As KeyboardInterrupt, which would end the tests."""


@pytest.mark.parametrize("where", ["write", "send"])
def test_an_interrupted_send_gives_its_segment_back(unix: Net, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """What it dropped to make room is forgotten there all the same: else one segment would be too many."""
    there, own = unix.pair(Echo()), threading.current_thread()
    monkeypatch.setattr(shared, "MAX_SEGMENTS", 4)
    owner: Any = shared.Segment if where == "write" else there._sender
    as_before = getattr(owner, where)

    def interrupted(*inputs: Any) -> None:
        if threading.current_thread() is own:
            raise Interrupted
        as_before(*inputs)

    for k in range(20):
        size = (1 << 18) * (1 + 5 * (k % 7))  # of other sizes: idle segments make room
        with monkeypatch.context() as patch, suppress(Interrupted):
            patch.setattr(owner, where, interrupted)
            there.call(1, b"", [np.zeros(size, np.float32)], WAIT_S)
        tensor = np.full(size, k, np.float32)
        assert (there.call(1, b"", [tensor], WAIT_S)[1][0] == tensor).all()
    assert there.counters["bytes_lent"] > there.counters["bytes_sent"] and there.error is None


def test_a_segment_is_not_lent_again_before_it_is_known_to_be_sent(unix: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    """The receiver may be done with it before its sender's thread goes on, while another thread has a payload."""
    there = unix.pair(Echo())
    sent = shared.Segment.sent

    def late(segment: shared.Segment) -> None:
        if not started:
            eventually(lambda: segment._memory[segment.size] == shared._FREE)
            monkeypatch.undo()
            other = threading.Thread(target=there.push, args=(2, b"", [LARGE]))
            other.start()
            started.append(other)
            other.join(0.3)  # it waits for this frame to be sent
        sent(segment)

    started: list[threading.Thread] = []
    monkeypatch.setattr(shared.Segment, "sent", late)
    there.push(1, b"", [LARGE])
    eventually(lambda: bool(started))  # by whichever thread sends
    started[0].join(WAIT_S)
    assert (there.call(3, b"", [LARGE], WAIT_S)[1][0] == LARGE).all()


def test_a_receiver_forgets_before_it_hears_of_more(unix: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though another thread, that was about to tell it, stands still."""
    monkeypatch.setattr(shared, "MAX_SEGMENTS", 2)
    there: Any = unix.pair(Echo())
    there.call(1, b"", [LARGE], WAIT_S)
    post, stands, go = there._sender.post, threading.Event(), threading.Event()

    def slow(*inputs: Any) -> None:
        if threading.current_thread() is not threading.main_thread() and not go.is_set():
            stands.set()
            go.wait(WAIT_S)
        post(*inputs)

    there.call(1, b"", [np.zeros(5 << 18, np.float32)], WAIT_S)
    lender = there._lender
    monkeypatch.setattr(there._sender, "post", slow)
    eventually(lambda: all(s.free for s in lender._segments.values()))
    lender.trim(time.monotonic() + 2 * shared.IDLE_S)
    other = threading.Thread(target=there._forget_dropped, args=(lender,))
    other.start()
    assert stands.wait(WAIT_S)
    for k in (25, 150):
        there.call(1, b"", [np.zeros(k << 18, np.float32)], WAIT_S)
    go.set()
    other.join(WAIT_S)
    assert there.call(1, b"", [LARGE], WAIT_S)[1][0][-1] == LARGE[-1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_is_let_go_when_an_interrupt_comes_is_given_back_later(unix: Net) -> None:
    there: Any = unix.pair(Echo())
    held = there.call(1, b"", [LARGE], WAIT_S)[1]
    interrupted(held.clear, 1)  # 0: held.clear itself
    assert [lease for lease in shared._leases.values() if lease() is None]
    there.call(1, b"", [np.zeros(5 << 18, np.float32)], WAIT_S)
    assert not [lease for lease in shared._leases.values() if lease() is None]


def test_an_interrupt_is_raised_though_the_reply_has_come(unix: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    there = unix.pair(Echo())
    send = there._sender.send

    def interrupted(*inputs: Any) -> None:
        send(*inputs)
        eventually(lambda: not there._pending)
        raise Interrupted

    monkeypatch.setattr(there._sender, "send", interrupted)
    with pytest.raises(Interrupted):
        there.call(1, b"", [LARGE[:10]], WAIT_S)
    monkeypatch.undo()
    assert (there.call(1, b"", [LARGE[:10]], WAIT_S)[1][0] == LARGE[:10]).all()


def test_what_arrived_outlives_the_channel(unix: Net) -> None:
    there = unix.pair()
    (got,) = there.call(1, b"", [LARGE], WAIT_S)[1]
    there.close()
    gc.collect()
    assert (got == LARGE).all()


def test_a_peer_killed_leaves_nothing(unix: Net) -> None:
    before, descriptors = segments_here(), len(os.listdir("/proc/self/fd"))
    process, there, handler = unix.child()
    (got,) = there.call(1, b"", [np.ones(8 << 20, np.uint8)], WAIT_S)[1]
    assert len(segments_here() - before) == 2  # one lent, one borrowed
    process.kill()
    handler.close_error()
    assert got.sum() == 8 << 20  # the memory of a dead process, until its last reader lets go
    del got, there, handler
    eventually(lambda: segments_here() <= before)
    process.wait()
    eventually(lambda: len(os.listdir("/proc/self/fd")) <= descriptors + 4)  # the child's pipes, the monitor's
    assert not [name for name in os.listdir("/dev/shm") if "sparkflow" in name]


def test_a_call_that_was_not_sent_gives_its_segment_back(unix: Net) -> None:
    go = []
    server = Recorder(lambda c, m, meta, tensors, reply: _until(go) if m == 6 else reply and reply(meta))
    there: Any = unix.dial(unix.listen(server).url)
    there.push(6)
    there._sender._lock.acquire()
    with pytest.raises(DeadlineExceededError):
        there.call(7, b"", [LARGE], 0.05)
    there._sender._lock.release()
    assert not there._lender._segments
    go.append(True)
    assert there.call(8, b"on", [LARGE], WAIT_S)[0] == b"on"


def _until(go: list[bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not go and time.monotonic() < deadline:
        time.sleep(0.001)


# ---- a peer that holds the secret and sends what it should not


def _unsealed(size: int, seals: int = 0) -> int:
    fd = os.memfd_create("rogue", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def _frame(place: frames.Place, nbytes: int = 1 << 20) -> bytes:
    head, _ = frames.split(frames.encode(frames.PUSH, 1, 0, b"", [np.zeros(nbytes, np.uint8)]))
    return b"".join(frames.with_payload_at(head, place))


SHRINK = fcntl.F_SEAL_SHRINK if shared.AVAILABLE else 0


@pytest.mark.parametrize(
    "place, size, seals, said",
    [
        pytest.param(frames.Place(0, True), (1 << 20) + 4096, 0, "sealed False", id="not-sealed"),
        pytest.param(frames.Place(0, True), 1 << 20, SHRINK, "not that large", id="too-small"),
        pytest.param(frames.Place(0, True), 4096, SHRINK, "segment 0 of 0 bytes", id="empty"),
        pytest.param(frames.Place(0, True), 1 << 40, SHRINK, "at most", id="huge"),
        pytest.param(frames.Place(0, True), None, 0, "no descriptor", id="no-descriptor"),
        pytest.param(frames.Place(7, False), None, 0, "segment 7", id="unknown"),
    ],
)
def test_bad_segments_end_their_connection_only(
    unix: Net, place: frames.Place, size: int | None, seals: int, said: str
) -> None:
    server = Recorder()
    listener = unix.listen(server)
    there = unix.dial(listener.url)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(b"\0" + listener.url.removeprefix("unix://@").encode())
        handshake.dial(sock, b"", "rogue", 10.0, time.monotonic() + WAIT_S)
        fds = [] if size is None else [_unsealed(size, seals)]
        socket.send_fds(sock, [_frame(place)], fds)
        for fd in fds:
            os.close(fd)
        error = server.close_error()
    assert isinstance(error, UnavailableError) and said in str(error) and "rogue" in str(error)
    assert there.call(1, b"ok", (), WAIT_S)[0] == b"ok"


def test_descriptors_that_no_frame_names_are_closed(unix: Net) -> None:
    server = Recorder()
    listener = unix.listen(server)
    before = len(os.listdir("/proc/self/fd"))
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(b"\0" + listener.url.removeprefix("unix://@").encode())
        handshake.dial(sock, b"", "rogue", 10.0, time.monotonic() + WAIT_S)
        fd = _unsealed(4096)
        for _ in range(shared.MAX_SEGMENTS + 1):
            socket.send_fds(sock, frames.encode(frames.HEARTBEAT, 0, 0), [fd])
        assert "descriptors came" in str(server.close_error())
        os.close(fd)
    eventually(lambda: len(os.listdir("/proc/self/fd")) <= before)


def test_by_tcp_no_payload_can_be_elsewhere(tcp: Net) -> None:
    server = Recorder()
    host, port = tcp.listen(server).url.removeprefix("tcp://").split(":")
    with socket.create_connection((host, int(port))) as sock:
        handshake.dial(sock, b"", "rogue", 10.0, time.monotonic() + WAIT_S)
        sock.sendall(_frame(frames.Place(0, True)))
        assert "this connection carries none" in str(server.close_error())


def test_a_payload_is_written_by_who_copies_for_this_process(unix: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def copy(to: np.ndarray, of: np.ndarray) -> None:
        written.append(of.nbytes)
        np.copyto(to, of)

    monkeypatch.setattr(shared.Segment, "_copy", None)  # what was there is put back at the end
    shared.copy_by(copy)
    (got,) = unix.pair().call(1, b"", [LARGE], WAIT_S)[1]
    assert (got == LARGE).all()
    assert written.count(LARGE.nbytes) == 2, "the call's and the reply's"
