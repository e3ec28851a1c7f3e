"""tensorflow.python.util.deprecation: functions and arguments that warn, once for each place in the code, when used.

Source: tensorflow/python/util/deprecation.py.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sparkflow import logging

Function = Callable[..., Any]
_SILENT: list[bool] = []
_SEEN: set[Any] = set()


@contextmanager
def silence() -> Iterator[None]:
    """Without warnings."""
    _SILENT.append(True)
    try:
        yield
    finally:
        _SILENT.pop()


def _warn(key: Any, message: str, once: bool) -> None:
    if _SILENT or (once and key in _SEEN):
        return
    _SEEN.add(key)
    frame = sys._getframe(2)
    logging.warning("From %s:%d: %s", frame.f_code.co_filename, frame.f_lineno, message)


def _when(date: str | None) -> str:
    return "in a future version" if date is None else f"after {date}"


def deprecated(date: str | None, instructions: str, warn_once: bool = True) -> Callable[[Function], Function]:
    """Of a function or class that will be removed after date (YYYY-MM-DD); instructions: what to use instead."""
    if not instructions:
        raise ValueError("deprecated: instructions must say what to use instead")

    def decorate(function: Function) -> Function:
        name = function.__qualname__
        message = f"{name} is deprecated and goes {_when(date)}; instead: {instructions}"
        if isinstance(function, type):
            made: Any = getattr(function, "__init__")  # noqa: B009

            @functools.wraps(made)
            def init(self: Any, *args: Any, **kwargs: Any) -> None:
                _warn(function, message, warn_once)
                made(self, *args, **kwargs)

            function.__init__ = init  # type: ignore[misc]
            return function

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            _warn(function, message, warn_once)
            return function(*args, **kwargs)

        return call

    return decorate


def deprecated_args(
    date: str | None, instructions: str, *names: Any, warn_once: bool = True, **_: Any
) -> Callable[[Function], Function]:
    """Of arguments. names: of each, or (name, the value that does not warn)."""
    if not names:
        raise ValueError("deprecated_args: no argument is named")
    harmless = {each: () if isinstance(each, str) else each[1:] for each in names}
    kept = {key if isinstance(key, str) else key[0]: values for key, values in harmless.items()}
    return _on_arguments(date, instructions, lambda name, value: name in kept and value not in kept[name], warn_once)


def deprecated_arg_values(
    date: str | None, instructions: str, warn_once: bool = True, **values: Any
) -> Callable[[Function], Function]:
    """Of arguments with these values."""
    if not values:
        raise ValueError("deprecated_arg_values: no argument is named")
    told = lambda name, value: name in values and value == values[name]  # noqa: E731
    return _on_arguments(date, instructions, told, warn_once)


def _on_arguments(
    date: str | None, instructions: str, told: Callable[[str, Any], bool], once: bool
) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError:
                return function(*args, **kwargs)  # which says itself what is wrong
            for name, value in given.items():
                if told(name, value):
                    what = f"calling {function.__qualname__} with {name} is deprecated and goes"
                    _warn((function, name), f"{what} {_when(date)}; instead: {instructions}", once)
            return function(*args, **kwargs)

        return call

    return decorate


def deprecated_alias(deprecated_name: str, name: str, func_or_class: Function, warn_once: bool = True) -> Function:
    """func_or_class by its old name."""
    message = f"{deprecated_name} is now called {name}, and the old name is deprecated"

    def call(*args: Any, **kwargs: Any) -> Any:
        _warn(deprecated_name, message, warn_once)
        return func_or_class(*args, **kwargs)

    if isinstance(func_or_class, type):
        made: Any = getattr(func_or_class, "__init__")  # noqa: B009

        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            _warn(deprecated_name, message, warn_once)
            made(self, *args, **kwargs)

        return type(func_or_class.__name__, (func_or_class,), {"__init__": init, "__doc__": func_or_class.__doc__})
    return functools.wraps(func_or_class)(call)


def deprecated_endpoints(*names: str) -> Callable[[Function], Function]:
    """Names under which something was exported before; here it has none of them."""
    return lambda function: function


def deprecated_argument_lookup(new_name: str, new_value: Any, old_name: str, old_value: Any) -> Any:
    """The value of an argument with two names. Raises ValueError where both are given."""
    if old_value is None:
        return new_value
    if new_value is not None:
        raise ValueError(f"{old_name!r} is the old name of {new_name!r}: give only one of them")
    return old_value


def rewrite_argument_docstring(old_doc: str, old_argument: str, new_argument: str) -> str:
    """A docstring with an argument's new name."""
    return old_doc.replace(f"`{old_argument}`", f"`{new_argument}`").replace(f"{old_argument}:", f"{new_argument}:")
