"""Python functions of a client, called for a master that is elsewhere: of tf.py_func, and iterators of tf.data.

Nodes travel and functions do not. The master has such a node on its own task, and asks the client when it runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.registry import Node
from sparkflow_runtime.kernels.script import py_function
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.runners import Runners
from sparkflow_runtime.transport.base import Channel, NoHandler, Reply
from sparkflow_runtime.wire import dtypes, py_functions, sessions
from sparkflow_runtime.wire.errors import OpError

_RESOURCES: dict[str, ResourceManager] = {}  # target -> what functions keep: a session's own, and all sessions'


class ClientFunctions(NoHandler):
    """What the client's end of a session's channel is asked. isolated: see sessions.new_session."""

    def __init__(self, target: str, isolated: bool):
        super().__init__(sessions.NAMES)
        self._session = sessions.new_session(isolated)
        self._resources = _RESOURCES.setdefault(target, ResourceManager())
        self._runners = Runners(f"sparkflow-functions {target}")

    def on_message(
        self, channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Reply | None
    ) -> None:
        if method != sessions.CALL or reply is None:
            super().on_message(channel, method, meta, tensors, reply)
            return
        asked = sessions.FunctionCall.decode(meta)
        self._runners.submit(lambda: self._answer(asked, tensors, reply))

    def _answer(self, asked: sessions.FunctionCall, inputs: list[Any], reply: Reply) -> None:
        try:
            found = self._call(asked, inputs)
        except Exception as error:
            if isinstance(error, OpError):
                error.node_def = None  # the master says which node and device
            reply(error=error)
            return
        reply(b"", found)

    def _call(self, asked: sessions.FunctionCall, inputs: list[Any]) -> list[Any]:
        attrs: dict[str, Any] = {"token": asked.token, "Tout": [dtypes.as_dtype(name) for name in asked.wanted]}
        if asked.state is not None:
            attrs[py_functions.STATE] = asked.state
        node = Node(asked.node, "PyFunc", attrs, "", np, self._resources, session=self._session)
        found: list[Any] = py_function(node)(*inputs)
        return found

    def on_close(self, channel: Channel, error: OpError) -> None:
        """The session is over, and what its functions kept."""
        self._resources.clear([self._resources.own_container(self._session)])
        self._runners.let_go()
