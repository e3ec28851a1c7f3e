"""Moves bytes between processes and proves who is speaking. Decides nothing."""

from sparkflow_runtime.transport import sockets as sockets  # registers tcp:// and unix://
from sparkflow_runtime.transport.base import (
    Channel,
    Handler,
    Listener,
    NoHandler,
    Options,
    dial,
    listen,
    register_scheme,
)
from sparkflow_runtime.transport.peers import traffic
from sparkflow_runtime.transport.tls import Tls

__all__ = [
    "Channel",
    "Handler",
    "Listener",
    "NoHandler",
    "Options",
    "Tls",
    "dial",
    "listen",
    "register_scheme",
    "traffic",
]
