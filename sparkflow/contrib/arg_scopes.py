"""arg_scope: defaults of the arguments of functions, for as long as a `with` block lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import signature
from typing import Any

Scopes = Mapping[str, Mapping[str, Any]]

_CURRENT: ContextVar[Scopes] = ContextVar("the defaults now in force", default={})  # noqa: B039 (never changed in place)
_KNOWN: set[str] = set()


def arg_scope_func_key(op: Any) -> str:
    """What stands for a function: its module and name."""
    return getattr(op, "_key_op", f"{op.__module__}.{op.__name__}")


def arg_scoped_arguments(func: Any) -> tuple[str, ...]:
    """The arguments that arg_scope may give defaults to: those that have one. ValueError unless of add_arg_scope."""
    if not has_arg_scope(func):
        raise ValueError(f"{func!r} is not decorated with @add_arg_scope")
    return tuple(n for n, p in signature(func).parameters.items() if p.default is not p.empty)


def current_arg_scope() -> Scopes:
    """The defaults now in force."""
    return _CURRENT.get()


def add_arg_scope(func: Callable[..., Any]) -> Callable[..., Any]:
    """Let arg_scope give defaults to func's keyword arguments."""
    key = f"{func.__module__}.{func.__name__}"

    @wraps(func)
    def with_defaults(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **{**_CURRENT.get().get(key, {}), **kwargs})

    with_defaults._key_op = key  # type: ignore[attr-defined]
    _KNOWN.add(key)
    return with_defaults


def has_arg_scope(func: Any) -> bool:
    return arg_scope_func_key(func) in _KNOWN


@contextmanager
def arg_scope(list_ops_or_scope: Any, **kwargs: Any) -> Iterator[Scopes]:
    """Within the block these functions have these defaults; or all that another arg_scope gave, which was kept by `as`.

    Raises ValueError where a function was not made with add_arg_scope.
    """
    if isinstance(list_ops_or_scope, Mapping):
        merged: Scopes = dict(list_ops_or_scope)
    else:
        merged = _merged(list_ops_or_scope, kwargs)
    token = _CURRENT.set(merged)
    try:
        yield merged
    finally:
        _CURRENT.reset(token)


def _merged(functions: Sequence[Any], defaults: Mapping[str, Any]) -> Scopes:
    scopes = dict(_CURRENT.get())
    for function in functions:
        if not has_arg_scope(function):
            raise ValueError(f"{function!r} is not decorated with @add_arg_scope")
        key = arg_scope_func_key(function)
        scopes[key] = {**scopes.get(key, {}), **defaults}
    return scopes
