"""The servers of this process, and the addresses at which they are found.

All tasks are told the same cluster, and what that says of a task is how others reach it. Its own host need not have
that address: a service or a router stands before it, or the name is not known there yet; or the host gives its own name
a loopback address, as Debian does, at which no other host finds it. Such a task listens at the interface that leads
to the others.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from sparkflow_runtime.dialling import secret_of_environment
from sparkflow_runtime.transport import Options
from sparkflow_runtime.transport.addresses import Address, in_url, is_here, is_local, resolve, towards
from sparkflow_runtime.wire.cluster import address_of
from sparkflow_runtime.wire.errors import UnavailableError

if TYPE_CHECKING:
    from sparkflow_runtime.server import Server

SERVERS: dict[str, Server] = {}  # by the address that each is bound to

_log = logging.getLogger("sparkflow")


def server_at(target: str) -> Server | None:
    """The server of this process at that target, which may say its address as the cluster does. None where it has none.

    Raises InvalidArgumentError where it is no target."""
    address = address_of(target)
    found = SERVERS.get(address) or next((s for s in list(SERVERS.values()) if s.told == address), None)
    return None if found is None or found.is_stopping else found


def credentials(address: str) -> tuple[bytes | None, Options]:
    """(secret, options) for a client of the Server at an address: those of a server of this process in one cluster with
    it, else the job's secret as the environment has it."""
    for server in list(SERVERS.values()):
        if address in server.addresses():
            return server.secret, server.options
    return secret_of_environment(), Options()


class Place(NamedTuple):
    """Where to listen. address: host:port. aliases: hosts (numbers) by which this host looks for it, too."""

    address: str
    aliases: tuple[str, ...] = ()


def place_of(address: str, others: Iterable[str]) -> Place:
    """Where the task listens that its cluster has at `address`, with the other tasks at `others`.

    Where nothing leads to any of them it is that address, right or wrong."""
    host, _, port = address.rpartition(":")
    try:
        found = resolve(f"tcp://{address}")
    except UnavailableError:
        found = []
    here = [one for one in found if is_here(*one)]
    if here and _is_number(host) and not _is_any(here[0][1]):
        return Place(address)
    if here and (host == "localhost" or not (is_local(*here[0]) or _is_any(here[0][1]))):
        return Place(f"{_host(here[0])}:{port}")
    way = _way(others)
    if way is None:
        return Place(address)
    aliases = tuple(host for host in map(_host, found) if host != way)
    if here and _is_any(here[0][1]):
        return Place(address, (way, "127.0.0.1"))
    if here:
        said = f"{host} is {_host(here[0])} here, at which no other host would find it"
    else:
        said = f"{host} is none of this host's addresses" if found else f"{host} has no address here"
    _log.warning("%s; the server listens at %s, by which this host reaches the others", said, f"{way}:{port}")
    return Place(f"{way}:{port}", aliases)


def _way(others: Iterable[str]) -> str | None:
    """This host's address on the way to the first of those that another host may have."""
    for other in others:
        try:
            family, address = resolve(f"tcp://{other}")[0]
            if not is_local(family, address) and not _is_any(address):
                return towards(str(address[0]))
        except (OSError, UnavailableError):  # not known yet, or no way to it
            continue
    return None


def _host(found: tuple[int, Address]) -> str:
    return in_url(str(found[1][0]))


def _is_any(address: Address) -> bool:
    return ipaddress.ip_address(str(address[0]).partition("%")[0]).is_unspecified


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return True
