"""Who may speak: both ends prove the secret, and nothing else passes."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest

from sparkflow_runtime.transport import Options, dial, handshake, listen
from sparkflow_runtime.wire.errors import (
    DataLossError,
    DeadlineExceededError,
    InvalidArgumentError,
    OpError,
    UnauthenticatedError,
    UnavailableError,
)

from .conftest import WAIT_S, Net, eventually

SECRET = b"the job's secret"
HELLO, PROOF = handshake._HELLO.size, handshake._PROOF.size


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    a, b = socket.socketpair()
    with a, b:
        yield a, b


def in_time() -> float:
    return time.monotonic() + WAIT_S


# ---- through the front door


def test_identities_are_told(net: Net) -> None:
    there = net.dial(net.listen(secret=SECRET, identity="/job:ps").url, secret=SECRET, identity="/job:worker/é")
    assert there.peer == "/job:ps"


@pytest.mark.parametrize("secret", [b"another", b"", None, SECRET + b"\0"])
def test_a_wrong_secret(net: Net, secret: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    listener = net.listen(secret=SECRET)
    with pytest.raises(UnauthenticatedError, match="same job secret"):
        dial(listener.url, secret=secret, timeout_s=WAIT_S)
    assert net.dial(listener.url, secret=SECRET).call(1, b"still serving", (), WAIT_S)
    eventually(lambda: "Refused the connection from" in caplog.text and "proof is wrong" in caplog.text)
    who = f"process {os.getpid()} of user {os.getuid()}" if listener.url.startswith("unix:") else "tcp://127.0.0.1:"
    assert f"Refused the connection from {who}" in caplog.text


@pytest.mark.parametrize("secret", [None, b""])
def test_no_secret_needs_this_host(secret: bytes | None) -> None:
    for use in (listen, dial):
        with pytest.raises(InvalidArgumentError, match="without a job secret"):
            use("tcp://0.0.0.0:0", secret=secret)


def test_any_interface_with_a_secret(tcp: Net) -> None:
    listener = tcp.listen(url="tcp://0.0.0.0:0", secret=SECRET)
    url = listener.url.replace("0.0.0.0", "127.0.0.1")
    assert tcp.dial(url, secret=SECRET).call(1, b"", (), WAIT_S) == (b"", [])


def test_an_identity_too_long(net: Net) -> None:
    for use in (listen, dial):
        with pytest.raises(InvalidArgumentError, match="at most 512"):
            use(net.listen().url if use is dial else "unix://@sparkflow-long", identity="x" * 513)


def test_silent_strangers_hold_up_nobody(tcp: Net, caplog: pytest.LogCaptureFixture) -> None:
    listener = tcp.listen(options=Options(handshake_s=0.5))
    host, port = listener.url.removeprefix("tcp://").split(":")
    strangers = [socket.create_connection((host, int(port))) for _ in range(50)]
    start = time.monotonic()
    assert tcp.dial(listener.url).call(1, b"", (), WAIT_S) == (b"", [])
    assert time.monotonic() - start < 5
    for stranger in strangers:
        stranger.settimeout(WAIT_S)
        assert stranger.recv(1) == b""  # the listener gave it up
        stranger.close()
    assert caplog.text.count("did not answer in time") == 50


def test_too_many_strangers_keep_no_peer_out(
    tcp: Net, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The oldest of them go, long before their time is over."""
    monkeypatch.setattr("sparkflow_runtime.transport.sockets._MAX_STRANGERS", 3)
    listener = tcp.listen(options=Options(handshake_s=1000.0))
    host, port = listener.url.removeprefix("tcp://").split(":")
    strangers = [socket.create_connection((host, int(port))) for _ in range(8)]
    assert tcp.dial(listener.url).call(1, b"", (), WAIT_S) == (b"", [])
    for stranger in strangers[:5]:
        stranger.settimeout(WAIT_S)
        assert stranger.recv(1) == b""
    assert "more than 3 connections have yet to prove the secret" in caplog.text
    for stranger in strangers:
        stranger.close()


def test_a_listener_that_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(DeadlineExceededError, match=url):
            dial(url, timeout_s=0.2)
        with pytest.raises(DeadlineExceededError, match="did not answer in time"):
            dial(url, timeout_s=WAIT_S, options=Options(handshake_s=0.1))


def test_a_peer_that_dribbles(ends: tuple[socket.socket, socket.socket], threads: ThreadPoolExecutor) -> None:
    """The deadline is for the whole, not for each byte."""
    accepting = threads.submit(handshake.accept, ends[0], SECRET, "", 10.0, time.monotonic() + 0.3)
    start, said = time.monotonic(), iter(b"SPKH" + bytes(1000))
    while wait([accepting], timeout=0.05).not_done:
        ends[1].send(bytes([next(said)]))
    with pytest.raises(DeadlineExceededError):
        accepting.result()
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("end", ["dial", "accept"])
def test_who_says_something_else_is_known_by_its_first_bytes(
    ends: tuple[socket.socket, socket.socket], threads: ThreadPoolExecutor, end: str
) -> None:
    """A server of TensorFlow begins with fewer bytes than a hello has, and waits for more."""
    greeting = threads.submit(getattr(handshake, end), ends[0], SECRET, "me", 10.0, in_time())
    ends[1].sendall(b"\0\0\x18\4\0")
    with pytest.raises(DataLossError, match="The peer is no sparkflow"):
        greeting.result(WAIT_S)


# ---- forged messages


def relay(
    threads: ThreadPoolExecutor, forge: Callable[[int, bytes], bytes], listener_secret: bytes = SECRET
) -> tuple[Future[handshake.Peer], Future[handshake.Peer]]:
    """A stranger between a dialler and a listener, who passes message 0 to 3 on as `forge` makes it."""
    (a, stranger_a), (b, stranger_b) = socket.socketpair(), socket.socketpair()
    dialling = threads.submit(handshake.dial, a, SECRET, "me", 10.0, in_time())
    accepting = threads.submit(handshake.accept, b, listener_secret, "you", 10.0, in_time())
    steps = [(stranger_a, stranger_b, HELLO + 2), (stranger_b, stranger_a, HELLO + 3)]
    steps += [(stranger_a, stranger_b, PROOF), (stranger_b, stranger_a, PROOF)]
    with a, b, stranger_a, stranger_b:
        for number, (source, target, nbytes) in enumerate(steps):
            target.sendall(forge(number, source.recv(nbytes, socket.MSG_WAITALL)))
        for end in (dialling, accepting):
            end.exception(WAIT_S)
    return dialling, accepting


def refused(end: Future[handshake.Peer]) -> bool:
    return isinstance(end.exception(), UnauthenticatedError)


def test_the_relay_itself_changes_nothing(threads: ThreadPoolExecutor) -> None:
    dialling, accepting = relay(threads, lambda number, message: message)
    assert dialling.result() == handshake.Peer("you", 10.0)
    assert accepting.result() == handshake.Peer("me", 10.0)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("at", [-1, 10, HELLO - 4], ids=["identity", "nonce", "keepalive"])
def test_a_changed_hello(threads: ThreadPoolExecutor, number: int, at: int) -> None:
    """Identities, nonces and keepalives are all under both proofs."""

    def forge(step: int, message: bytes) -> bytes:
        changed = bytearray(message)
        if step == number:
            changed[at] ^= 1
        return bytes(changed)

    dialling, accepting = relay(threads, forge)
    assert refused(dialling) and refused(accepting)


def test_a_changed_proof(threads: ThreadPoolExecutor) -> None:
    flip = lambda message: message[:-1] + bytes([message[-1] ^ 1])  # noqa: E731
    dialling, accepting = relay(threads, lambda step, message: flip(message) if step == 3 else message)
    assert refused(dialling) and not refused(accepting)


def test_a_listener_without_the_secret(threads: ThreadPoolExecutor) -> None:
    dialling, accepting = relay(threads, lambda step, message: message, listener_secret=b"guess")
    assert refused(dialling) and refused(accepting)


def test_a_proof_sent_back_to_its_maker(ends: tuple[socket.socket, socket.socket], threads: ThreadPoolExecutor) -> None:
    """A stranger who answers a dialler with the dialler's own hello and its own proof."""
    dialling = threads.submit(handshake.dial, ends[0], SECRET, "me", 10.0, in_time())
    mirror = ends[1]
    for nbytes in (HELLO + 2, PROOF):
        mirror.sendall(mirror.recv(nbytes, socket.MSG_WAITALL))
    with pytest.raises(UnauthenticatedError, match="the listener's proof is wrong"):
        dialling.result(WAIT_S)


def test_a_proof_from_another_connection(threads: ThreadPoolExecutor) -> None:
    """Yesterday's messages, replayed word for word, meet a new nonce."""
    heard: dict[int, bytes] = {}
    relay(threads, lambda step, message: heard.setdefault(step, message))
    _, accepting = relay(threads, lambda step, message: heard[step] if step in (0, 2) else message)
    assert refused(accepting)


def test_a_proof_of_the_other_role(threads: ThreadPoolExecutor) -> None:
    """Hellos swapped into the other order still make another proof for each role."""
    mine, theirs = handshake._hello("a", 10.0), handshake._hello("b", 10.0)
    proofs = {
        handshake._mac(SECRET, role, *hellos, b"")
        for role in (b"dialler", b"listener")
        for hellos in ((mine, theirs), (theirs, mine))
    }
    assert len(proofs) == 4


@pytest.mark.parametrize(
    "hello, error, said",
    [
        (b"GET / HTTP/1.1\r\n" * 4, DataLossError, "no sparkflow"),
        (handshake._HELLO.pack(b"SPKH", 9, 1, bytes(32), 10.0, 0), DataLossError, "version 9"),
        (handshake._HELLO.pack(b"SPKH", 1, 2, bytes(32), 10.0, 0), DataLossError, "step 2"),
        (handshake._HELLO.pack(b"SPKH", 1, 1, bytes(32), float("nan"), 0), DataLossError, "keepalive nan"),
        (handshake._HELLO.pack(b"SPKH", 1, 1, bytes(32), 10.0, 65_535), DataLossError, "65535 bytes"),
        (handshake._HELLO.pack(b"SPKH", 1, 1, bytes(32), 10.0, 1) + b"\xff", DataLossError, "UTF-8"),
        (b"SP", UnavailableError, "after 2 of"),
    ],
)
def test_bad_hellos(ends: tuple[socket.socket, socket.socket], hello: bytes, error: type[OpError], said: str) -> None:
    ends[1].sendall(hello)
    ends[1].shutdown(socket.SHUT_WR)
    with pytest.raises(error, match=said):
        handshake.accept(ends[0], SECRET, "", 10.0, in_time())
