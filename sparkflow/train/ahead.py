"""What a session is sure to run soon is compiled while its program waits for servers to initialize the model.

The first run of a big model's initializers has its master wait for the parameter servers, which fill their memory, for
as long as it takes to compile what comes next: checks whether all is there, and the update of a synchronous optimizer.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from sparkflow.framework.graph import Graph
from sparkflow_runtime.wire.errors import OpError

_KEY, _NICE = "compiled ahead", 10
_log = logging.getLogger("sparkflow")


def foresee(graph: Graph, *fetches: Any) -> None:
    """Sessions that are made ready for training will run each of these soon. For what feeds nothing."""
    graph.extra.setdefault(_KEY, []).extend(fetches)


def compile_ahead(session: Any, first: Iterable[Any] = ()) -> None:
    """Have a thread compile `first` and what was foreseen for the session's graph. In a process of its own a master
    waits for nobody, and nothing is done."""
    wanted = [fetch for fetch in (*first, *session.graph.extra.get(_KEY, ())) if fetch is not None]
    if session.sess_str and wanted:
        threading.Thread(target=_compile, args=(session, wanted), name="sparkflow-ahead", daemon=True).start()


def _give_way() -> None:
    """Servers on this host, for which the program waits, have the processors first."""
    if sys.platform == "linux":  # elsewhere a thread has no priority of its own
        thread = threading.get_native_id()
        with suppress(OSError):  # a sandbox may know no such call; then all are alike
            os.setpriority(os.PRIO_PROCESS, thread, max(_NICE, os.getpriority(os.PRIO_PROCESS, thread)))


def _compile(session: Any, wanted: Iterable[Any]) -> None:
    _give_way()
    try:
        session._compile_ahead(wanted)
    except (OpError, RuntimeError, TypeError, ValueError) as error:  # whoever runs it hears of it; or it was closed
        _log.debug("Not compiled ahead: %s", error)
