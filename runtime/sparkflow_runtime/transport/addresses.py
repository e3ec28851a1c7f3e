"""URLs of sockets, read and printed: tcp://host:port, unix:///path, unix://@name (Linux's abstract names: no file)."""

from __future__ import annotations

import ipaddress
import socket
import struct
from typing import Any
from urllib.parse import urlsplit

from sparkflow_runtime.wire.errors import InvalidArgumentError, UnavailableError

Address = tuple[str, int] | bytes
_CREDENTIALS = struct.Struct("iii")  # struct ucred
_MAX_PATH_BYTES = 107  # sizeof(sockaddr_un.sun_path), less its end


class Named:
    """What is used as a socket and knows its own addresses."""

    url = peer_url = "?"


def resolve(url: str) -> list[tuple[int, Address]]:
    """(family, address) of everything `url` may mean, IPv4 first.

    Raises InvalidArgumentError where it is no such URL, UnavailableError where its host has no address.
    """
    if url.startswith("unix://"):
        return [(socket.AF_UNIX, _unix_address(url))]
    host, port = host_port(url)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as e:
        raise UnavailableError(f"{url}: host {host!r} has no address: {e}") from None
    pairs = [(int(family), address[:2]) for family, *_, address in found]
    return sorted(pairs, key=lambda pair: pair[0] != socket.AF_INET)  # type: ignore[arg-type]


def is_local(family: int, address: Address) -> bool:
    """Whether only this host can reach it."""
    return family == socket.AF_UNIX or ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback


def is_here(family: int, address: Address) -> bool:
    """Whether a socket of this host may have that address, whatever its port is."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address[0], 0))
    except OSError:
        return False
    return True


def towards(host: str) -> str:
    """This host's own address on the way to that one, as URLs have it; nothing is sent. Raises OSError where there is
    no way."""
    family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)
        return in_url(str(probe.getsockname()[0]))


def in_url(host: str) -> str:
    """A host as URLs have it: numbers of IPv6 in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def url_of(sock: Any) -> str:
    """Of the address `sock` is bound to."""
    if isinstance(sock, Named):
        return sock.url
    return _url(sock.family, sock.getsockname())


def peer_url(sock: Any) -> str:
    """Of the other end; a dialler on a unix socket has no address of its own, so the listener's stands for it."""
    if isinstance(sock, Named):
        return sock.peer_url
    return _url(sock.family, sock.getpeername() or sock.getsockname())


def dialler(sock: Any) -> str:
    """Who dialled: its address, or by a unix socket its process and user, where the system tells."""
    peer_credentials = getattr(socket, "SO_PEERCRED", None)
    if sock.family != socket.AF_UNIX or peer_credentials is None:
        return peer_url(sock)
    pid, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, peer_credentials, _CREDENTIALS.size))
    return f"process {pid} of user {uid}"


def _url(family: int, name: Any) -> str:
    if family == socket.AF_UNIX:
        text = name.decode(errors="backslashreplace") if isinstance(name, bytes) else name
        return f"unix://@{text[1:]}" if text.startswith("\0") else f"unix://{text}"
    host, port = name[:2]
    return f"tcp://{in_url(host)}:{port}"


def host_port(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as e:
        raise InvalidArgumentError(f"Address {url!r}: {e}. Expected tcp://host:port") from None
    if not host or port is None or parts.path or parts.query or parts.username:
        form = f"{parts.scheme}://host:port"
        raise InvalidArgumentError(f"Address {url!r}: expected {form} (port 0 listens at any free one)")
    return host, port


def _unix_address(url: str) -> bytes:
    path = url.removeprefix("unix://").encode()
    if path.startswith(b"@"):
        path = b"\0" + path[1:]
    elif not path.startswith(b"/"):
        raise InvalidArgumentError(f"Address {url!r}: expected unix:///absolute/path or unix://@name")
    if len(path) > _MAX_PATH_BYTES or len(path) < 2 or b"\0" in path[1:]:
        raise InvalidArgumentError(
            f"Address {url!r}: a socket's path has 2 to {_MAX_PATH_BYTES} bytes, this has {len(path)}"
        )
    return path
