"""Channels over sockets: calls, pushes, errors, deadlines, many threads, endings."""

from __future__ import annotations

import contextlib
import logging
import random
import re
import socket
import struct
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.transport import (
    Channel,
    Options,
    base,
    calls,
    dial,
    handshake,
    listen,
    register_scheme,
    traffic,
)
from sparkflow_runtime.wire import frames
from sparkflow_runtime.wire.errors import (
    AbortedError,
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    OpError,
    OutOfRangeError,
    UnavailableError,
    UnimplementedError,
)

from .conftest import WAIT_S, Net, Recorder, eventually

LARGE = np.arange(3 << 20)  # 24 MiB: more than any socket buffer
BY_SOCKET = Options(shared_bytes=0)


# ---- calls and pushes


def test_call_and_push_both_ways(net: Net) -> None:
    server, client = Recorder(), Recorder()
    there = net.dial(net.listen(server, identity="/job:ps").url, client, identity="/job:worker")
    assert there.peer == "/job:ps"
    meta, (got,) = there.call(7, b"hello", [np.arange(5)], WAIT_S)
    assert meta == b"hello" and got.tolist() == [0, 1, 2, 3, 4]
    back, method, _, _ = server.message()
    assert back.peer == "/job:worker" and method == 7
    back.push(8, b"news", [np.float32(2)])
    assert client.message()[1:3] == (8, b"news")
    assert back.call(9, b"you too", (), WAIT_S)[0] == b"you too"


@pytest.mark.parametrize("count, nbytes", [(0, 0), (1, 0), (1, 5), (1, 40_000), (3000, 100), (3000, 0), (5, 1 << 20)])
def test_sizes(net: Net, count: int, nbytes: int) -> None:
    tensors = [np.full(nbytes, i % 256, np.uint8) for i in range(count)]
    meta, got = net.pair().call(1, bytes(nbytes), tensors, WAIT_S)
    assert meta == bytes(nbytes)
    assert all((a == b).all() for a, b in zip(got, tensors, strict=True))


def test_large_messages_crossing_do_not_lock_up(net: Net) -> None:
    """Each reader thread answers inline while the other end's reader does the same."""
    server = Recorder()
    there = net.pair(server)
    there.push(0)
    back = server.message()[0]
    with ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(end.call, 1, b"", [LARGE], WAIT_S) for end in (there, back) * 2]
        assert all((c.result()[1][0] == LARGE).all() for c in calls)


def test_what_was_sent_may_be_changed_at_once(net: Net) -> None:
    def answer(channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
        own = tensors[0].copy()
        reply(b"", [own])  # on the reader thread: what the socket does not take now is sent later
        own[:] = -1

    _, (got,) = net.pair(Recorder(answer)).call(1, b"", [LARGE], WAIT_S)
    assert (got == LARGE).all()


def test_many_threads_call_at_once(net: Net) -> None:
    there = net.pair()

    def work(worker: int) -> bool:
        for step in range(60):
            meta, (got,) = there.call(1, b"%d" % worker, [np.full(100 * (step % 7), worker)], WAIT_S)
            if meta != b"%d" % worker or (got != worker).any():
                return False
        return True

    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(work, range(16)))


def test_one_threads_messages_keep_their_order(net: Net) -> None:
    server = Recorder()
    there = net.pair(server)
    for i in range(200):
        there.push(i, b"", [LARGE[: i % 5 << 16]])
    assert [server.message()[1] for _ in range(200)] == list(range(200))


def test_reader_threads_keep_their_order(net: Net) -> None:
    """A handler's pushes wait for the writer thread; what it sends next waits behind them."""

    def answer(channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
        for i in range(20):
            channel.push(i, b"", [LARGE] if i % 10 == 0 else ())
        reply()

    client = Recorder()
    net.pair(Recorder(answer), client).call(1, b"", (), WAIT_S)
    assert [client.message()[1] for _ in range(20)] == list(range(20))


def test_replies_come_from_other_threads_in_any_order(net: Net) -> None:
    waiting: SimpleQueue[Any] = SimpleQueue()
    there = net.pair(Recorder(lambda channel, method, meta, tensors, reply: waiting.put((method, reply))))
    done: SimpleQueue[bytes] = SimpleQueue()
    for method in range(3):
        there.call_async(method, b"", (), lambda error, meta, tensors: done.put(meta))
    for method, reply in reversed([waiting.get(timeout=WAIT_S) for _ in range(3)]):
        threading.Thread(target=reply, args=(b"%d" % method,)).start()
        assert done.get(timeout=WAIT_S) == b"%d" % method


def test_call_async_from_a_handler(net: Net) -> None:
    """A reader thread may call back on its own channel, as long as it does not wait."""

    def answer(channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
        channel.call_async(5, meta, (), lambda error, meta, tensors: reply(meta + b"!"))

    assert net.pair(Recorder(answer)).call(1, b"hi", (), WAIT_S)[0] == b"hi!"


def test_waiting_on_the_reader_thread_is_refused(net: Net) -> None:
    def answer(channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
        channel.call(5, b"", (), WAIT_S)

    with pytest.raises(FailedPreconditionError, match="call_async"):
        net.pair(Recorder(answer)).call(1, b"", (), WAIT_S)


def test_counters(net: Net) -> None:
    there = net.pair()
    there.call(1, b"", [np.zeros(100, np.uint8)], WAIT_S)
    counters = there.counters
    assert counters["bytes_sent"] >= 136 and counters["bytes_received"] >= 136
    assert counters["frames_sent"] >= 1 and counters["frames_received"] >= 1


def test_traffic_by_peer(net: Net) -> None:
    """Of channels that stand, and of those that ended."""
    name = f"/job:counted/task:{random.getrandbits(40)}"
    listener = net.listen(identity=name)
    for ended in range(2):
        there = net.dial(listener.url)
        there.call(1, b"", [np.zeros(1000, np.uint8)], WAIT_S)
        counts = traffic()[name]
        assert counts["channels"] == 1 and counts["bytes_sent"] >= 1000 * (ended + 1)
        there.close()
        eventually(lambda: traffic()[name]["channels"] == 0)
    assert traffic()[name]["bytes_received"] >= 2000


# ---- errors


def fail(error: BaseException) -> Recorder:
    def answer(*args: Any) -> None:
        raise error

    return Recorder(answer)


def test_a_handlers_error_reaches_the_caller(net: Net, caplog: pytest.LogCaptureFixture) -> None:
    there = net.pair(fail(OutOfRangeError("queue 'q' is closed")))
    with pytest.raises(OutOfRangeError, match="queue 'q' is closed"):
        there.call(1, b"", (), WAIT_S)
    there.push(2)
    with pytest.raises(OutOfRangeError):  # the connection stands
        there.call(3, b"", (), WAIT_S)
    assert "Push of method 2" in caplog.text


def test_other_exceptions_are_internal_errors(net: Net) -> None:
    with pytest.raises(InternalError, match="ZeroDivisionError: x"):
        net.pair(fail(ZeroDivisionError("x"))).call(1, b"", (), WAIT_S)


def test_an_error_given_to_reply(net: Net) -> None:
    there = net.pair(Recorder(lambda channel, method, meta, tensors, reply: reply(error=AbortedError("step 3"))))
    with pytest.raises(AbortedError, match="step 3"):
        there.call(1, b"", (), WAIT_S)


def test_a_reply_that_cannot_be_sent(net: Net) -> None:
    there = net.pair(Recorder(lambda channel, method, meta, tensors, reply: reply(b"", [np.zeros(1, "M8[s]")])))
    with pytest.raises(InvalidArgumentError, match="datetime64"):
        there.call(1, b"", (), WAIT_S)


def test_replying_twice(net: Net) -> None:
    errors: SimpleQueue[Exception] = SimpleQueue()

    def answer(channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
        reply(b"first")
        try:
            reply(b"second")
        except InternalError as e:
            errors.put(e)

    assert net.pair(Recorder(answer)).call(1, b"", (), WAIT_S)[0] == b"first"
    assert "replied twice" in str(errors.get(timeout=WAIT_S))


def test_a_failing_callback_leaves_the_channel_standing(net: Net, caplog: pytest.LogCaptureFixture) -> None:
    there = net.pair()
    there.call_async(4, b"", (), lambda error, meta, tensors: tensors.remove(np.zeros(1)))
    assert there.call(1, b"ok", (), WAIT_S)[0] == b"ok"
    assert "callback for method 4" in caplog.text


def test_an_end_without_a_handler_refuses_calls(tcp: Net) -> None:
    server = Recorder()
    tcp.dial(tcp.listen(server).url, base.NoHandler()).push(0)
    with pytest.raises(UnimplementedError, match="takes no messages"):
        server.message()[0].call(5, b"", (), WAIT_S)


# ---- deadlines


def test_a_reply_that_does_not_come(net: Net) -> None:
    late: SimpleQueue[Any] = SimpleQueue()

    def answer(channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
        late.put(reply) if method == 6 else reply(meta)

    there = net.dial(net.listen(Recorder(answer), identity="/job:ps/task:3").url)
    with pytest.raises(DeadlineExceededError, match=r"Method 6 to /job:ps/task:3 at .*: no reply in 0\.\d+ s"):
        there.call(6, b"", (), 0.05)
    late.get()(b"too late")
    assert there.call(7, b"on time", (), WAIT_S)[0] == b"on time"


def test_a_peer_that_does_not_read(net: Net) -> None:
    """The deadline holds while sending too, and the message begun is completed: the stream keeps its place."""
    go, server = threading.Event(), Recorder()
    server.answer = lambda channel, method, meta, tensors, reply: go.wait(WAIT_S) if method == 6 else reply(meta)
    there = net.dial(net.listen(server).url, options=BY_SOCKET)
    there.push(6)
    with pytest.raises(DeadlineExceededError, match=r"bytes not sent"):
        there.call(7, b"", [LARGE], 0.3)
    with pytest.raises(DeadlineExceededError):
        there.call(7, b"", (), 0.05)
    go.set()
    assert there.call(8, b"still here", (), WAIT_S)[0] == b"still here"


def test_a_push_that_does_not_wait_for_a_peer_that_does_not_read(net: Net) -> None:
    """It is copied, since its array may change, and comes in its turn."""
    go, server = threading.Event(), Recorder()
    server.answer = lambda channel, method, meta, tensors, reply: go.wait(WAIT_S) if method == 6 else None
    there = net.dial(net.listen(server).url, options=BY_SOCKET)
    there.push(6)
    data = np.zeros(8 << 10)
    with ThreadPoolExecutor(1) as threads:
        for i in range(200):  # 13 MiB
            data[:] = i
            threads.submit(there.push, 7, b"", [data], False).result(WAIT_S)
    assert not go.is_set()
    go.set()
    server.message()
    assert [server.message()[3][0][-1] for _ in range(200)] == list(range(200))


def test_a_peer_that_calls_and_never_reads(net: Net) -> None:
    """What is kept for it is bounded; then its channel ends, and other channels stand."""
    big = [LARGE[: 1 << 20]]
    server = Recorder(lambda channel, method, meta, tensors, reply: reply and reply(b"", big if method == 2 else ()))
    listener = net.listen(server, options=Options(max_owed_bytes=40 << 20, shared_bytes=0))
    go = threading.Event()
    there, lazy = net.dial(listener.url), net.dial(listener.url, Recorder(lambda *args: go.wait(WAIT_S)))
    lazy.push(1)
    server.message()[0].push(0)  # keeps the reader of `lazy` busy
    with contextlib.suppress(UnavailableError):
        for _ in range(40):
            lazy.call_async(2, b"", (), lambda error, meta, tensors: None)
    assert "does not read" in str(server.close_error())
    assert there.call(1, b"on", (), WAIT_S) == (b"", [])
    go.set()


# ---- endings


def test_closing_fails_what_is_pending_at_both_ends(net: Net) -> None:
    server, client = Recorder(lambda *args: None), Recorder(lambda *args: None)
    there = net.dial(net.listen(server).url, client, identity="/job:worker")
    errors: SimpleQueue[OpError | None] = SimpleQueue()
    for _ in range(3):
        there.call_async(4, b"", (), lambda error, meta, tensors: errors.put(error))
    back = server.message()[0]
    there_too: SimpleQueue[OpError | None] = SimpleQueue()
    back.call_async(5, b"", (), lambda error, meta, tensors: there_too.put(error))
    client.message()
    there.close("training is over")
    said = [str(errors.get(timeout=WAIT_S)) for _ in range(3)]
    assert all("Method 4" in text and "training is over" in text for text in said)
    assert "Method 5 to /job:worker" in str(there_too.get(timeout=WAIT_S))
    assert isinstance(client.close_error(), UnavailableError)
    assert "closed by the peer: training is over" in str(server.close_error())
    assert back.error is not None and "/job:worker" in str(back.error)
    for end in (there, back):
        with pytest.raises(UnavailableError, match="training is over"):
            end.push(1)
        with pytest.raises(UnavailableError, match="training is over"):
            end.call(1, b"", (), WAIT_S)
    there.close("again: nothing happens")
    assert client.closed.empty()


def test_a_call_that_waits_when_the_listener_closes(net: Net) -> None:
    started = threading.Event()
    listener = net.listen(Recorder(lambda *args: started.set()), identity="/job:ps")
    there = net.dial(listener.url)
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(there.call, 2, b"", (), WAIT_S)
        assert started.wait(WAIT_S)
        listener.close()
        with pytest.raises(UnavailableError, match=r"Method 2 to /job:ps at .*the listener was closed"):
            call.result(WAIT_S)
    with pytest.raises(UnavailableError):
        dial(listener.url, timeout_s=WAIT_S)


def test_closing_while_a_large_message_is_sent(net: Net) -> None:
    go, server = threading.Event(), Recorder()
    server.answer = lambda *args: go.wait(WAIT_S)
    there = net.dial(net.listen(server).url, options=BY_SOCKET)
    there.push(1)
    server.message()
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(there.call, 2, b"", [LARGE], WAIT_S)
        eventually(lambda: there.counters["bytes_sent"] > 1000)
        there.close("enough")
        with pytest.raises(UnavailableError, match="enough"):
            call.result(WAIT_S)
    go.set()


def test_threads_end_with_their_channels(tcp: Net) -> None:
    server, client = Recorder(), Recorder()
    there = tcp.pair(server, client)
    there.call(1, b"", [LARGE], WAIT_S)
    there.close()
    client.close_error(), server.close_error()
    names = ("sparkflow-read", "sparkflow-write")
    eventually(lambda: not [t for t in threading.enumerate() if t.name.startswith(names)])


# ---- bad frames


def proved_socket(url: str) -> socket.socket:
    """A peer that holds the secret and then writes what it likes."""
    host, port = url.removeprefix("tcp://").split(":")
    sock = socket.create_connection((host, int(port)))
    handshake.dial(sock, b"", "rogue", 10.0, time.monotonic() + WAIT_S)
    sock.settimeout(WAIT_S)
    return sock


def wait_for_end(sock: socket.socket) -> bytes:
    got = b""
    try:
        while more := sock.recv(1 << 16):
            got += more
    except ConnectionResetError:
        pass
    return got


GOOD = b"".join(frames.encode(frames.REQUEST, 1, 1, b"meta", [np.arange(4)]))


@pytest.mark.parametrize(
    "raw, said",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n" * 2, "magic b'GET '", id="http"),
        pytest.param(struct.pack("<4sBBHQIIIQ", b"SPKF", 1, 1, 0, 0, 0, 1, 24, 1 << 40), "1099511627776", id="huge"),
        pytest.param(GOOD[:41] + b"\xff" * 3 + GOOD[44:], "Tensor 0 of 1", id="table"),
        pytest.param(b"".join(frames.encode(frames.GOODBYE, 0, 0, b"bored")), "bored", id="goodbye"),
    ],
)
def test_a_bad_frame_ends_its_connection_only(
    tcp: Net, raw: bytes, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Recorder()
    listener = tcp.listen(server)
    there = tcp.dial(listener.url)
    with proved_socket(listener.url) as sock:
        address = "tcp://{}:{}".format(*sock.getsockname())
        sock.sendall(raw)
        wait_for_end(sock)
    error = str(server.close_error())
    assert said in error and "rogue" in error and address in error
    assert there.call(1, b"ok", (), WAIT_S)[0] == b"ok"
    refusals = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert refusals == [] if said == "bored" else address in refusals[0]


def test_the_sender_of_a_bad_frame_is_told_why(tcp: Net) -> None:
    with proved_socket(tcp.listen().url) as sock:
        sock.sendall(b"x" * frames.HEADER_BYTES)
        header = frames.parse_header(got := wait_for_end(sock))
    assert header.kind == frames.GOODBYE and b"bad frame" in got


def test_a_frame_above_the_receivers_bound(tcp: Net) -> None:
    there = tcp.dial(tcp.listen(options=Options(max_payload_bytes=1000)).url)
    with pytest.raises(UnavailableError, match="at most 1000"):
        there.call(1, b"", [np.zeros(1001, np.uint8)], WAIT_S)


def test_a_frame_cut_short(tcp: Net) -> None:
    server = Recorder()
    with proved_socket(tcp.listen(server).url) as sock:
        sock.sendall(GOOD[:-1])
    assert "closed the connection or died" in str(server.close_error())


def test_garbage_on_many_connections(tcp: Net) -> None:
    """Damaged frames, 40 connections of up to 50: each is answered or ends its connection; the listener stands."""
    rng = random.Random(3)
    listener = tcp.listen()
    for _ in range(40):
        with proved_socket(listener.url) as sock:
            for _ in range(50):
                raw = bytearray(GOOD)
                raw[rng.randrange(len(raw))] = rng.randrange(256)
                try:
                    sock.sendall(raw)
                except OSError:
                    break
            sock.close()
    assert tcp.dial(listener.url).call(1, b"ok", (), WAIT_S)[0] == b"ok"


def test_an_error_frame_that_makes_no_sense() -> None:
    for meta in (b"", b"\xff", b"[]", b"{}", b'{"code": [], "message": 1}', b'{"code": 3}'):
        assert isinstance(calls.read_error(meta, 5), DataLossError)


# ---- addresses


@pytest.mark.parametrize(
    "url, said",
    [
        ("tcp://nohost", "tcp://host:port"),
        ("tcp://127.0.0.1:99999", "out of range"),
        ("tcp://:5", "tcp://host:port"),
        ("tcp://127.0.0.1:5/path", "tcp://host:port"),
        ("unix://relative", "absolute"),
        ("unix:///" + "x" * 200, "107 bytes"),
        ("unix://@", "2 to 107"),
        ("rdma://1.2.3.4:5", "known are tcp://, ucx://, unix://"),
        ("127.0.0.1:5", "known are tcp://, ucx://, unix://"),
    ],
)
def test_bad_addresses(url: str, said: str) -> None:
    for use in (dial, listen):
        with pytest.raises(InvalidArgumentError, match=said):
            use(url)


def test_schemes_can_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nowhere:
        def dial(self, url: str, *args: Any) -> Channel:
            raise UnavailableError(f"{url}: nobody there")

    monkeypatch.setattr(base, "_SCHEMES", dict(base._SCHEMES))
    register_scheme("nowhere", Nowhere())  # type: ignore[arg-type]
    with pytest.raises(UnavailableError, match="nobody there"):
        dial("nowhere://x")


def test_nobody_listens(tmp_path: Path) -> None:
    for url in ("tcp://127.0.0.1:1", f"unix://{tmp_path}/none", "unix://@sparkflow-none"):
        with pytest.raises(UnavailableError, match=re.escape(url) + ".*Check that the process"):
            dial(url, timeout_s=WAIT_S)


def test_an_address_in_use(tcp: Net, tmp_path: Path) -> None:
    for url in ("tcp://127.0.0.1:0", f"unix://{tmp_path}/s"):
        taken = tcp.listen(url=url).url
        with pytest.raises(UnavailableError, match="Cannot listen"):
            listen(taken)


def test_a_socket_file_left_by_a_dead_process(tcp: Net, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    listener = tcp.listen(url=f"unix://{path}")
    assert path.stat().st_mode & 0o777 == 0o600
    listener.close()
    assert not path.exists()


def test_ipv6(tcp: Net) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        listener = tcp.listen(url="tcp://[::1]:0")
    except UnavailableError as e:
        pytest.skip(str(e))
    assert listener.url.startswith("tcp://[::1]:")
    assert tcp.dial(listener.url).call(1, b"ok", (), WAIT_S)[0] == b"ok"


@pytest.mark.parametrize("url", ["abstract", "tcp"])
def test_an_address_is_free_once_its_listener_is_closed(url: str) -> None:
    """It was taken until the thread that accepts had seen that."""
    at = f"unix://@{uuid.uuid4()}" if url == "abstract" else "tcp://127.0.0.1:0"
    for _ in range(60):
        listener = listen(at, None, b"secret")
        at = listener.url
        peer = dial(at, None, b"secret")  # so that it has accepted one and waits for the next
        listener.close()
        peer.close()
