"""Parts that other tasks compile: what is done until they have."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from sparkflow_runtime.master.registrar import Registrar
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import GraphDef, NodeDef


class _Own:
    name, resets = "/job:worker/replica:0/task:0", 0


class _Other:
    """A task that has compiled a part at the third question."""

    def __init__(self, said: list[str], error: Exception | None = None):
        self.said, self.error, self.left = said, error, 2

    def register(self, *of: Any) -> _Other:
        self.said.append("register")
        return self

    def done(self) -> bool:
        self.left -= 1
        return self.left < 0

    def __call__(self) -> int:
        self.said.append("wait")
        if self.error is not None:
            raise self.error
        return 5

    def forget(self, handle: int) -> None:
        self.said.append("forget")


def _registering(said: list[str], error: Exception | None = None) -> Callable[[], Any]:
    def meanwhile(until: Callable[[], bool]) -> None:
        while not until():
            said.append("meanwhile")

    session = Event()
    session.set()
    tasks: Any = {"/job:ps/replica:0/task:0": _Other(said, error)}
    own: Any = _Own()
    registrar = Registrar("s", own, tasks, session, meanwhile)
    graph = GraphDef(node=[NodeDef(name="a", op="NoOp")])
    return lambda: registrar.register("/job:ps/replica:0/task:0", graph, [], [], [], [], False)()


def test_the_time_until_a_task_has_compiled_is_used() -> None:
    said: list[str] = []
    register = _registering(said)
    part = register()
    assert part.handle == 5 and said == ["register", "meanwhile", "meanwhile", "wait"]
    assert register().handle == 5 and len(said) == 4  # the same part


def test_what_goes_wrong_there_is_raised_and_tried_again() -> None:
    said: list[str] = []
    register = _registering(said, InvalidArgumentError("no kernel"))
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match="no kernel"):
            register()
    assert said.count("register") == 2
