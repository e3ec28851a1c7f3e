"""TLS under the handshake: who is refused, what travels encrypted, and that channels behave as without it."""

from __future__ import annotations

import logging
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.transport import Options, Tls, handshake, tls_socket
from sparkflow_runtime.wire.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    OpError,
    UnauthenticatedError,
    UnavailableError,
)

from .conftest import WAIT_S, Net, Recorder

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made by the openssl program")
LARGE = np.random.default_rng(0).integers(0, 255, 5 << 20, dtype=np.uint8)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two authorities, and what each signed: a.pem with a.key, b.pem with b.key."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for name in ("a", "b"):
        openssl(*new, "-x509", "-subj", f"/CN=authority {name}", "-keyout", f"ca-{name}.key", "-out", f"ca-{name}.pem")
        openssl(*new, "-subj", f"/CN=task {name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"ca-{name}.pem", "-CAkey", f"ca-{name}.key",
                "-CAcreateserial", "-out", f"{name}.pem")  # fmt: skip
    return folder


def tls(files: Path, name: str, **more: Any) -> Options:
    ca = str(files / more.pop("ca")) if "ca" in more else ""
    return Options(tls=Tls(str(files / f"{name}.pem"), str(files / f"{name}.key"), ca, **more))


@pytest.fixture
def net(files: Path) -> Iterator[Net]:
    with ExitStack() as stack:
        yield Net(stack, "tcp://127.0.0.1:0")


def joined(net: Net, listener: Options, dialler: Options, secret: bytes = b"s", server: Any = None) -> Any:
    there = net.listen(server, secret=secret, identity="/job:ps", options=listener)
    return net.dial(there.url, secret=secret, identity="/job:worker", options=dialler)


@pytest.mark.parametrize("nbytes", [0, 1, 100, 1 << 14, (1 << 18) + 1, 5 << 20])
def test_calls_both_ways(net: Net, files: Path, nbytes: int) -> None:
    server = Recorder()
    there = joined(net, tls(files, "a"), tls(files, "a"), server=server)
    meta, (got,) = there.call(7, b"hello", [LARGE[:nbytes]], WAIT_S)
    assert meta == b"hello" and (got == LARGE[:nbytes]).all() and there.peer == "/job:ps"
    assert server.message()[0].call(8, b"back", [LARGE[:nbytes]], WAIT_S)[0] == b"back"


def test_large_messages_cross_and_many_threads_call(net: Net, files: Path) -> None:
    server = Recorder()
    there = joined(net, tls(files, "a"), tls(files, "a"), server=server)
    there.push(0)
    back = server.message()[0]

    def work(i: int) -> bool:
        end, size = (there, back)[i % 2], len(LARGE) if i < 4 else 1000 * i
        return bool((end.call(1, b"", [LARGE[:size]], WAIT_S)[1][0] == LARGE[:size]).all())

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(40)))


def test_a_peer_that_does_not_read(net: Net, files: Path) -> None:
    """What was encrypted is sent in the end: the stream keeps its place."""
    go, server = threading.Event(), Recorder()
    server.answer = lambda channel, method, meta, tensors, reply: go.wait(WAIT_S) if method == 6 else reply(meta)
    there = joined(net, tls(files, "a"), tls(files, "a"), server=server)
    there.push(6)
    with pytest.raises(DeadlineExceededError, match="bytes not sent"):
        there.call(7, b"", [np.concatenate([LARGE] * 4)], 0.4)
    go.set()
    for i in range(5):
        assert there.call(8, b"%d" % i, [LARGE[: i * 1000]], WAIT_S)[0] == b"%d" % i


def test_an_authority(net: Net, files: Path) -> None:
    both = tls(files, "a", ca="ca-a.pem", mutual=True)
    assert joined(net, both, both).call(1, b"x", (), WAIT_S)[0] == b"x"
    assert joined(net, tls(files, "b"), tls(files, "a", ca="ca-b.pem")).call(1, b"x", (), WAIT_S)[0] == b"x"


def refused(net: Net, listener: Options, dialler: Options, kind: Any, said: str, **more: Any) -> None:
    with pytest.raises(kind, match=said):
        joined(net, listener, dialler, **more).call(1, b"", (), WAIT_S)


def test_another_authoritys_certificate_is_refused(net: Net, files: Path, caplog: pytest.LogCaptureFixture) -> None:
    refused(net, tls(files, "b"), tls(files, "a", ca="ca-a.pem"), UnauthenticatedError, "TLS was not agreed.*verif")
    mutual = tls(files, "a", ca="ca-a.pem", mutual=True)
    refused(net, mutual, tls(files, "b"), (UnauthenticatedError, UnavailableError), "127.0.0.1")
    said = " ".join(r.getMessage() for r in caplog.records if r.levelno == logging.WARNING)
    assert "TLS was not agreed" in said and "tcp://127.0.0.1" in said


def test_one_side_without(net: Net, files: Path, caplog: pytest.LogCaptureFixture) -> None:
    quick = Options(handshake_s=0.5, tls=None)
    refused(net, quick, tls(files, "a"), UnavailableError, "Both ends need TLS")
    assert "has TLS where this end has none" in caplog.text
    options = tls(files, "a")
    refused(net, options, Options(tls=None), OpError, "handshake")


def test_a_wrong_secret(net: Net, files: Path) -> None:
    listener = net.listen(secret=b"right", options=tls(files, "a"))
    with pytest.raises(UnauthenticatedError, match="refused this end's proof"):
        net.dial(listener.url, secret=b"wrong", options=tls(files, "a"))


def test_a_stranger_in_the_middle_with_a_certificate_of_its_own(net: Net, files: Path) -> None:
    """It passes the handshake on, word by word, between two connections with TLS; nobody checks an authority."""
    listener = net.listen(secret=b"s", options=tls(files, "a"))
    host, port = listener.url.removeprefix("tcp://").split(":")
    with socket.create_server(("127.0.0.1", 0)) as middle:

        def pass_on() -> None:
            deadline = time.monotonic() + WAIT_S
            near = tls_socket.secure(middle.accept()[0], tls(files, "b").tls, True, deadline)  # type: ignore[arg-type]
            far = tls_socket.secure(
                socket.create_connection((host, int(port))),
                tls(files, "b").tls,
                False,
                deadline,  # type: ignore[arg-type]
            )

            def pump(a: Any, b: Any) -> None:
                with suppress(OSError):
                    while data := a.recv(1 << 16):
                        b.sendall(data)
                a.close()
                with suppress(OSError):
                    b.shutdown(socket.SHUT_RDWR)

            for pair in ((near, far), (far, near)):
                threading.Thread(target=pump, args=pair, daemon=True).start()

        threading.Thread(target=pass_on, daemon=True).start()
        with pytest.raises(UnauthenticatedError):
            net.dial(f"tcp://127.0.0.1:{middle.getsockname()[1]}", secret=b"s", options=tls(files, "a"))


def test_nothing_is_readable_on_the_way(net: Net, files: Path) -> None:
    seen = bytearray()
    listener = net.listen(secret=b"s", identity="/job:ps", options=tls(files, "a"))
    host, port = listener.url.removeprefix("tcp://").split(":")
    with socket.create_server(("127.0.0.1", 0)) as middle:

        def listen_in() -> None:
            near, far = middle.accept()[0], socket.create_connection((host, int(port)))

            def pump(a: socket.socket, b: socket.socket) -> None:
                with a, suppress(OSError):
                    while data := a.recv(1 << 16):
                        seen.extend(data)
                        b.sendall(data)
                with suppress(OSError):
                    b.shutdown(socket.SHUT_RDWR)

            for pair in ((near, far), (far, near)):
                threading.Thread(target=pump, args=pair, daemon=True).start()

        threading.Thread(target=listen_in, daemon=True).start()
        options = tls(files, "a")
        there = net.dial(f"tcp://127.0.0.1:{middle.getsockname()[1]}", secret=b"s", identity="/job:me", options=options)
        there.call(1, b"very secret words", [np.full(1000, 7)], WAIT_S)
        there.close()
    assert len(seen) > 8000 and b"secret words" not in seen and b"SPK" not in seen and b"/job" not in seen


def test_unix_sockets_have_none(unix: Net, files: Path) -> None:
    there = unix.dial(unix.listen(options=tls(files, "a")).url, options=Options(tls=None))
    assert there.call(1, b"x", (), WAIT_S)[0] == b"x"


def test_files_that_cannot_be_used(files: Path) -> None:
    for bad in (("none.pem", "a.key"), ("a.pem", "b.key"), ("a.key", "a.key")):
        with pytest.raises(InvalidArgumentError, match="TLS: cannot use"):
            Tls(*(str(files / name) for name in bad))
    with pytest.raises(InvalidArgumentError, match="mutual"):
        Tls(str(files / "a.pem"), str(files / "a.key"), mutual=True)


def test_the_environment(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Options().tls is None
    monkeypatch.setenv("SPARKFLOW_TLS_CERTIFICATE", str(files / "a.pem"))
    monkeypatch.setenv("SPARKFLOW_TLS_KEY", str(files / "a.key"))
    monkeypatch.setenv("SPARKFLOW_TLS_CA", str(files / "ca-a.pem"))
    monkeypatch.setenv("SPARKFLOW_TLS_MUTUAL", "1")
    found = Options().tls
    assert found is not None and found.mutual and found.ca.endswith("ca-a.pem")
    monkeypatch.setenv("SPARKFLOW_TLS_MUTUAL", "yes")
    with pytest.raises(InvalidArgumentError, match="MUTUAL is 'yes': it can be 1 or 0"):
        Options()


def test_an_environment_without_the_certificate_is_not_one_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKFLOW_TLS_CA", "ca.pem")
    monkeypatch.setenv("SPARKFLOW_TLS_MUTUAL", "1")
    with pytest.raises(InvalidArgumentError, match="TLS_CA and SPARKFLOW_TLS_MUTUAL set without SPARKFLOW_TLS_CERT"):
        Options()


def test_the_proofs_cover_the_binding() -> None:
    here, there = socket.socketpair()
    deadline = time.monotonic() + WAIT_S
    with here, there, ThreadPoolExecutor(1) as threads:
        dialled = threads.submit(handshake.dial, here, b"s", "", 10.0, deadline, b"one")
        with pytest.raises(UnauthenticatedError):
            handshake.accept(there, b"s", "", 10.0, deadline, b"another")
        assert isinstance(dialled.exception(), UnauthenticatedError)
