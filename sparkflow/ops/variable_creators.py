"""variable_creator_scope: functions of the user's that make every variable of a scope, or change how it is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.program_order import unordered

Creator = Callable[..., Any]

_KEY = "variable creators"


@contextmanager
def variable_creator_scope(variable_creator: Creator) -> Iterator[None]:
    """Inside, in this graph, a variable is what variable_creator(next_creator, **kwargs) returns.

    kwargs: all that Variable takes, by name. next_creator: makes the variable, through the creators of the scopes
    around this one; called with kwargs, or with others.
    """
    creators = get_default_graph().extra.setdefault(_KEY, [])
    creators.append(variable_creator)
    try:
        yield
    finally:
        creators.remove(variable_creator)


class Created(type):
    """Of classes whose instances the creators of the current scopes make."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        graph = get_default_graph()
        if graph._order is None:
            return cls._made(*args, **kwargs)
        with unordered(graph):  # its initializer is no statement of the function that makes it
            return cls._made(*args, **kwargs)

    def _made(cls, *args: Any, **kwargs: Any) -> Any:
        creators = get_default_graph().extra.get(_KEY)
        if not creators:
            return super().__call__(*args, **kwargs)
        signature = _signature(cls)
        given = signature.bind(None, *args, **kwargs)
        given.apply_defaults()
        _, *arguments = given.arguments.items()
        make: Creator = super().__call__
        for creator in creators:  # the innermost scope's is asked first
            make = partial(creator, make)
        return make(**dict(arguments))


@lru_cache(16)
def _signature(kind: type) -> inspect.Signature:
    return inspect.signature(kind.__init__)  # type: ignore[misc]
