"""What `with` takes of a graph: objects, for programs enter thousands of scopes, and generators cost twice as much."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparkflow.framework.graph import Graph


class OfThread(threading.local):
    """The scope of names that a thread is in: threads that build one graph keep their own, as in TensorFlow."""

    name_stack = ""


class NameScope:
    """`with` one of these, ops made inside have names that begin with `name/`; it gives that prefix."""

    __slots__ = ("_graph", "_name", "_old")

    def __init__(self, graph: Graph, name: str | None):
        self._graph, self._name, self._old = graph, name, ""

    def __enter__(self) -> str:
        graph, name = self._graph, self._name
        scope = "" if not name else name if name[-1] == "/" else graph.unique_name(name) + "/"
        self._old, graph._thread.name_stack = graph._thread.name_stack, scope
        return scope

    def __exit__(self, *error: object) -> None:
        self._graph._thread.name_stack = self._old


class Pushed:
    """`with` one of these, `item` is the last of that stack of the graph."""

    __slots__ = ("_graph", "_item", "_name", "_stack")

    def __init__(self, graph: Graph, name: str, item: Any):
        self._graph, self._name, self._item = graph, name, item

    def __enter__(self) -> None:
        self._stack: list[Any] = getattr(self._graph, self._name)
        self._stack.append(self._item)

    def __exit__(self, *error: object) -> None:
        self._stack.pop()
