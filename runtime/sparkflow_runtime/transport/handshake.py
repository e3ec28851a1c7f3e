"""Both ends prove that they hold the job's secret, without saying it.

    dialler -> listener   HELLO      nonce, keepalive, identity
    listener -> dialler   HELLO      nonce, keepalive, identity
    dialler -> listener   PROOF      HMAC-SHA256(SHA256(secret), "dialler" + both hellos as sent)
    listener -> dialler   PROOF      HMAC-SHA256(SHA256(secret), "listener" + both hellos as sent), or REFUSED

The dialler proves first, so an open port tells a stranger nothing. Each proof covers both nonces, both identities
and the role of its sender: none can be replayed, renamed or sent back where it came from. What it cannot stop is a
stranger in the middle who passes everything on and then writes its own frames: against that the job's network must
be its own, or TLS must carry it (see `tls`): the proofs then cover the listener's certificate too (`binding`).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import struct
import time
from dataclasses import dataclass

from sparkflow_runtime.wire.errors import (
    DataLossError,
    DeadlineExceededError,
    InvalidArgumentError,
    UnauthenticatedError,
    UnavailableError,
)

_HELLO = struct.Struct("<4sBB32sdH")  # magic, version, step, nonce, keepalive_s, identity bytes; then the identity
_PROOF = struct.Struct("<4sBB32s")
_MAGIC, _VERSION = b"SPKH", 1
_STEP_HELLO, _STEP_PROOF, _STEP_REFUSED = range(1, 4)
MAX_IDENTITY_BYTES = 512


@dataclass(frozen=True)
class Peer:
    """What the other end said of itself, proved: it holds the secret and these are its words."""

    identity: str
    keepalive_s: float


def dial(
    sock: socket.socket, secret: bytes, identity: str, keepalive_s: float, deadline: float, binding: bytes = b""
) -> Peer:
    """The dialler's side. Raises UnauthenticatedError where the secrets differ, DeadlineExceededError at `deadline`."""
    wire = _Wire(sock, deadline)
    mine = _hello(identity, keepalive_s)
    wire.send(mine)
    theirs = wire.receive_hello()
    wire.send(_PROOF.pack(_MAGIC, _VERSION, _STEP_PROOF, _mac(secret, b"dialler", mine, theirs, binding)))
    step, mac = wire.receive_proof()
    if step == _STEP_REFUSED:
        raise UnauthenticatedError(
            "the listener refused this end's proof. Both must have the same job secret (of tasks begun by hand, the "
            "environment's SPARKFLOW_SECRET)"
        )
    _check(mac, _mac(secret, b"listener", mine, theirs, binding), "listener")
    return _peer(theirs)


def accept(
    sock: socket.socket, secret: bytes, identity: str, keepalive_s: float, deadline: float, binding: bytes = b""
) -> Peer:
    """The listener's side; the dialler is told before UnauthenticatedError is raised here."""
    wire = _Wire(sock, deadline)
    theirs = wire.receive_hello()
    mine = _hello(identity, keepalive_s)
    wire.send(mine)
    _, mac = wire.receive_proof()
    try:
        _check(mac, _mac(secret, b"dialler", theirs, mine, binding), "dialler")
    except UnauthenticatedError:
        wire.send(_PROOF.pack(_MAGIC, _VERSION, _STEP_REFUSED, bytes(32)))
        raise
    wire.send(_PROOF.pack(_MAGIC, _VERSION, _STEP_PROOF, _mac(secret, b"listener", theirs, mine, binding)))
    return _peer(theirs)


def check_identity(identity: str) -> bytes:
    name = identity.encode()
    if len(name) > MAX_IDENTITY_BYTES:
        raise InvalidArgumentError(f"Identity {identity[:40]!r}...: {len(name)} bytes, at most {MAX_IDENTITY_BYTES}")
    return name


def _hello(identity: str, keepalive_s: float) -> bytes:
    name = check_identity(identity)
    return _HELLO.pack(_MAGIC, _VERSION, _STEP_HELLO, secrets.token_bytes(32), keepalive_s, len(name)) + name


def _mac(secret: bytes, role: bytes, dialler_hello: bytes, listener_hello: bytes, binding: bytes) -> bytes:
    """The hellos carry their lengths, so no two pairs of them read alike; hashed, so do no two secrets.

    (HMAC fills a short key up with zeros: "s" and "s\\0" would be one key.)
    """
    key = hashlib.sha256(secret).digest()
    return hmac.digest(key, b"sparkflow " + role + b"\0" + dialler_hello + listener_hello + binding, "sha256")


def _check(got: bytes, expected: bytes, role: str) -> None:
    if not hmac.compare_digest(got, expected):
        raise UnauthenticatedError(f"the {role}'s proof is wrong: it does not have this job's secret")


def _peer(hello: bytes) -> Peer:
    keepalive_s = _HELLO.unpack_from(hello)[4]
    return Peer(hello[_HELLO.size :].decode(), keepalive_s)


class _Wire:
    """Small messages of known size on a socket, all before one deadline."""

    def __init__(self, sock: socket.socket, deadline: float):
        self._sock, self._deadline = sock, deadline

    def send(self, data: bytes) -> None:
        self._arm()
        try:
            self._sock.sendall(data)
        except TimeoutError:
            raise self._late() from None

    def receive_hello(self) -> bytes:
        fixed = self._receive(_HELLO.size, _MAGIC)
        magic, version, step, _, keepalive_s, name_bytes = _HELLO.unpack(fixed)
        self._check_start(magic, version)
        if step != _STEP_HELLO or not 0.1 <= keepalive_s < 1e6 or name_bytes > MAX_IDENTITY_BYTES:
            raise DataLossError(
                f"handshake: bad hello, step {step}, keepalive {keepalive_s} s, identity {name_bytes} bytes"
            )
        name = self._receive(name_bytes)
        try:
            name.decode()
        except UnicodeDecodeError:
            raise DataLossError(f"handshake: identity {name[:40]!r} is not UTF-8") from None
        return fixed + name

    def receive_proof(self) -> tuple[int, bytes]:
        magic, version, step, mac = _PROOF.unpack(self._receive(_PROOF.size, _MAGIC))
        self._check_start(magic, version)
        if step not in (_STEP_PROOF, _STEP_REFUSED):
            raise DataLossError(f"handshake: step {step}, expected a proof")
        return step, mac

    def _receive(self, nbytes: int, start: bytes = b"") -> bytes:
        """start: with which it begins; a peer that says anything else may not send as much as is waited for."""
        data = b""
        while len(data) < nbytes:
            self._arm()
            try:
                more = self._sock.recv(nbytes - len(data))
            except TimeoutError:
                raise self._late() from None
            if not more:
                hint = "" if data else ". Its log says why; it may have TLS, where this end has none"
                raise UnavailableError(
                    f"handshake: the peer closed the connection after {len(data)} of {nbytes} bytes{hint}"
                )
            data += more
            if data[: len(start)] != start[: len(data)]:
                raise self._stranger(f"{data[: len(start)]!r}")
        return data

    def _arm(self) -> None:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise self._late()
        self._sock.settimeout(left_s)

    @staticmethod
    def _check_start(magic: bytes, version: int) -> None:
        if (magic, version) != (_MAGIC, _VERSION):
            raise _Wire._stranger(f"{magic!r} version {version}")

    @staticmethod
    def _stranger(said: str) -> DataLossError:
        return DataLossError(
            f"handshake: got {said}, expected {_MAGIC!r} version {_VERSION}. The peer is no sparkflow, another version "
            "of it, or has TLS where this end has none"
        )

    @staticmethod
    def _late() -> DeadlineExceededError:
        return DeadlineExceededError("handshake: the peer did not answer in time: it is stopped, or no sparkflow")
