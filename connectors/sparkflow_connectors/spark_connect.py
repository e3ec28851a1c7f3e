"""What a training asks of a Spark session that may be one of Spark Connect, a client of a server elsewhere; hosts.

Such a client asks a server that is gone again and again, for ten minutes, whatever it is asked.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.errors import PySparkException

from sparkflow_runtime.transport.addresses import in_url, is_here, towards
from sparkflow_runtime.wire.errors import FailedPreconditionError

_ANSWER_S = 30.0
_Found = TypeVar("_Found")


def is_connect(spark: Any) -> bool:
    return getattr(spark, "_sc", None) is None


def is_stopped(spark: Any) -> bool:
    """Whether somebody has stopped the session: it is then an object without a JVM, or a client without a channel."""
    context = getattr(spark, "_sc", None)
    return bool(getattr(spark, "is_stopped", False)) if context is None else context._jsc is None


def answered(spark: Any, ask: Callable[[], _Found], timeout_s: float | None = None) -> _Found:
    """What ask() returns. Raises FailedPreconditionError where a server of Spark Connect does not answer within 30 s,
    or does not know the session any more."""
    if not is_connect(spark):
        return ask()
    found: list[_Found] = []
    errors: list[Exception] = []
    limit_s = _ANSWER_S if timeout_s is None else timeout_s

    def run() -> None:
        try:
            found.append(ask())
        except Exception as error:  # raised below, in the thread that asks
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s)
    if found:
        return found[0]
    error = errors[0] if errors else None
    if error is not None and not isinstance(error, (PySparkException, ValueError)):  # ValueError: its channel is closed
        raise error
    why = f"has not answered for {limit_s:g} s" if error is None else f"has no such session any more ({error})"
    raise FailedPreconditionError(
        f"The Spark Connect server at {spark.client.host} {why}; its log may say why. When it runs, train again in a "
        "new session, which goes on from the last checkpoint"
    ) from error


def driver_host(spark: Any) -> str | tuple[str, str]:
    """The address at which tasks reach this process: Spark's driver, or over Connect a client that may be elsewhere.
    Where Spark itself listens at another one than it tells its executors: (that address, the one to listen at)."""
    host = answered(spark, lambda: str(spark.conf.get("spark.driver.host", "127.0.0.1")))
    if not is_connect(spark):
        return in_url(host), in_url(str(spark.conf.get("spark.driver.bindAddress", host)))
    if _is_here(host):
        return host
    with contextlib.suppress(OSError):
        return towards(spark.client.host)
    return host


def host_of(executor: str) -> str:
    """Of an executor's host:port, as URLs have it: Spark tells numbers of IPv6 without brackets."""
    return in_url(executor.rpartition(":")[0])


def _is_here(host: str) -> bool:
    """Whether it is an address of this machine."""
    with contextlib.suppress(OSError):
        family, _, _, _, address = socket.getaddrinfo(host.strip("[]"), 0, type=socket.SOCK_STREAM)[0]
        return is_here(family, address)  # type: ignore[arg-type]
    return False
