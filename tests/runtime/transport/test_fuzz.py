"""Frames from a hostile peer: decoded or refused, never misread; a server that gets them serves on.

`make soak` runs a million of them; a failure names the number that makes its frames again.
"""

from __future__ import annotations

import logging
import os
import random
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparkflow as tf
from sparkflow.session.server import Server
from sparkflow_runtime.transport import handshake
from sparkflow_runtime.wire import frames
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError, UnauthenticatedError

from . import fuzzing
from .conftest import WAIT_S

LONG = int(os.environ.get("SPARKFLOW_FUZZ_FRAMES", "1000000"))
_MORE_BYTES = 400 << 20  # what the process may grow by, which is not what the frames claim to hold


def decode(raw: bytes) -> None:
    """As a receiver does, without a socket. Nothing but a refusal may be raised, and no tensor lies elsewhere."""
    try:
        header = frames.parse_header(raw, 1 << 20)
    except (DataLossError, InvalidArgumentError):
        return
    meta_at, table_at = frames.HEADER_BYTES, frames.HEADER_BYTES + header.meta_bytes
    payload_at = table_at + header.table_bytes
    if header.elsewhere or len(raw) < payload_at + header.payload_bytes:
        return  # the receiver would go on waiting, or ask shared memory
    payload = np.frombuffer(raw, np.uint8, header.payload_bytes, payload_at)
    try:
        tensors = frames.decode(header, raw[meta_at:table_at], raw[table_at:payload_at], payload)
    except (DataLossError, InvalidArgumentError):
        return
    assert len(tensors) == header.tensors
    for tensor in tensors:
        assert tensor.dtype == object or not tensor.nbytes or np.shares_memory(tensor, payload)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 1 << 32))
def test_decoding(tail: bytes, seed: int) -> None:
    rng = random.Random(seed)
    decode(fuzzing.any_frame(rng))
    decode(fuzzing.good_frame(rng)[: frames.HEADER_BYTES] + tail)


def test_decoding_many() -> None:
    for seed in range(3000):
        decode(fuzzing.any_frame(random.Random(seed)))


@pytest.mark.soak
def test_decoding_a_million() -> None:
    for seed in range(LONG):
        decode(fuzzing.any_frame(random.Random(seed)))


class Target:
    """A parameter server and a worker with a session on both, and strangers that know the secret or do not."""

    def __init__(self) -> None:
        self.ps, self.worker = Server.bound("ps", 0, "127.0.0.1", b"s"), Server.bound("worker", 0, "127.0.0.1", b"s")
        cluster = {"ps": [self.ps.address], "worker": [self.worker.address]}
        for server in (self.ps, self.worker):
            server.join_cluster(cluster)

    def works(self) -> bool:
        with tf.Graph().as_default() as graph:
            with tf.device("/job:ps/task:0"):
                v = tf.Variable(np.arange(5.0))
            with tf.device("/job:worker/task:0"):
                out = v * 2.0
            with tf.Session(self.worker.target, graph) as session:
                session.run(tf.global_variables_initializer())
                return bool((session.run(out) == np.arange(5.0) * 2).all())

    def stranger(self, near: bool, secret: bytes = b"s") -> socket.socket:
        host, port = self.ps.address.split(":")
        sock = socket.socket(socket.AF_UNIX if near else socket.AF_INET)
        sock.settimeout(WAIT_S)
        try:
            sock.connect(f"\0sparkflow-{self.ps.address}".encode() if near else (host, int(port)))
            handshake.dial(sock, secret, "/job:rogue/replica:0/task:0", 10.0, time.monotonic() + WAIT_S)
        except BaseException:
            sock.close()
            raise
        return sock

    def feed(self, count: int, seed: int) -> None:
        """`count` frames, each bad one over a connection of its own."""
        sent = connections = 0
        while sent < count:
            rng = random.Random(seed + connections)
            connections += 1
            with self.stranger(rng.random() < 0.5) as sock, suppress(OSError):
                for frame in fuzzing.batch(rng):
                    sent += 1
                    sock.sendall(frame)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(1 << 16):
                    pass
            if rng.random() < 0.02:
                with pytest.raises(UnauthenticatedError):
                    self.stranger(rng.random() < 0.5, rng.randbytes(8)).close()
            if connections % 10_000 == 0:
                assert self.works(), f"after the frames of seed {seed + connections}"

    def close(self) -> None:
        self.worker.stop()
        self.ps.stop()


@pytest.fixture
def target() -> Iterator[Target]:
    made = Target()
    yield made
    made.close()


def fuzz(target: Target, count: int, seed: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert target.works()
    target.feed(count, seed)
    assert target.works()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert grown < _MORE_BYTES, f"the process grew by {grown >> 20} MiB"


def test_a_server_serves_on(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    fuzz(target, 1000, seed=1)
    refusals = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR and "refused" in r.getMessage()]
    assert refusals and all("/job:rogue" in text and "://" in text for text in refusals)


@pytest.mark.soak
def test_a_server_serves_on_for_a_million_frames(target: Target) -> None:
    logging.getLogger("sparkflow_runtime").setLevel(logging.CRITICAL)
    try:
        fuzz(target, LONG, seed=int(time.time()))
    finally:
        logging.getLogger("sparkflow_runtime").setLevel(logging.NOTSET)


def test_an_unknown_method_is_refused_by_name(target: Target) -> None:
    with target.stranger(False) as sock:
        sock.sendall(b"".join(frames.encode(frames.REQUEST, 999, 5)))
        header = frames.parse_header(answer := sock.recv(1 << 16))
    assert header.kind == frames.ERROR and b"no method 999" in answer


def test_bad_words_of_known_methods_are_answered(target: Target) -> None:
    """Every method of a server, with meta and tensors that it does not take: an error each, on one connection."""
    with target.stranger(False) as sock:
        for method in (*range(1, 9), 32):
            sock.sendall(b"".join(frames.encode(frames.PUSH, method, 0, b"?", [np.zeros(2)])))
        sock.sendall(b"".join(frames.encode(frames.REQUEST, 999, 7)))
        assert b"no method 999" in sock.recv(1 << 16)
    assert target.works()
