"""tf.autograph: Python's control flow over tensors, as nodes of the graph. tf.function converts what it traces so."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any

from sparkflow.autograph import operators as _operators
from sparkflow.autograph.calls import UNCONVERTED, to_call
from sparkflow.autograph.source import NoSource, conversion, converted, source_after

_verbosity = [0]


class Feature(Enum):
    """What a conversion may change; all of it is, whichever are named."""

    ALL = "ALL"
    AUTO_CONTROL_DEPS = "AUTO_CONTROL_DEPS"
    ASSERT_STATEMENTS = "ASSERT_STATEMENTS"
    BUILTIN_FUNCTIONS = "BUILTIN_FUNCTIONS"
    EQUALITY_OPERATORS = "EQUALITY_OPERATORS"
    LISTS = "LISTS"
    NAME_SCOPES = "NAME_SCOPES"

    @classmethod
    def all(cls) -> tuple[Feature, ...]:
        return tuple(cls)

    @classmethod
    def all_but(cls, exclude: Any) -> tuple[Feature, ...]:
        left_out = exclude if isinstance(exclude, (list, tuple, set)) else (exclude,)
        return tuple(f for f in cls if f not in left_out)


def do_not_convert(func: Callable[..., Any] | None = None) -> Any:
    """The function, which a conversion of what calls it leaves as it is; a decorator with or without arguments."""
    if not callable(func):
        return do_not_convert
    target = func.__func__ if isinstance(func, MethodType) else func
    with suppress(AttributeError):  # of built-in functions, which are left as they are anyway
        setattr(target, UNCONVERTED, True)
    return func


def to_graph(entity: Any, recursive: bool = True, experimental_optional_features: Any = None) -> Callable[..., Any]:
    """The function with control flow that a graph can have. recursive: so are those that it calls.

    Raises ValueError where its source cannot be read.
    """
    function, owner = _plain(entity)
    try:
        made = converted(function, _operators, bool(recursive))
    except NoSource as error:
        raise ValueError(f"tf.autograph.to_graph: {error}. Define it in a file or a notebook's cell") from None
    return made if owner is None else MethodType(made, owner)


def to_code(
    entity: Any, recursive: bool = True, indentation: Any = None, experimental_optional_features: Any = None
) -> str:
    """The source of what to_graph makes. Raises ValueError where the function's own cannot be read."""
    try:
        return source_after(_plain(entity)[0], bool(recursive))
    except NoSource as error:
        raise ValueError(f"tf.autograph.to_code: {error}. Define it in a file or a notebook's cell") from None


def _plain(entity: Any) -> tuple[FunctionType, Any]:
    """(the function, the object that it is a method of)."""
    entity = getattr(entity, "python_function", entity)
    owner = entity.__self__ if isinstance(entity, MethodType) else None
    function = entity.__func__ if owner is not None else entity
    why = conversion(function)
    if why is not None:
        raise ValueError(f"tf.autograph: {entity!r} cannot be converted: {why}")
    return function, owner


def convert(func: Callable[..., Any]) -> Callable[..., Any]:
    """The function converted, itself where its source cannot be read."""
    return to_call(func)


def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """0: conversions are silent, which they are anyway."""
    _verbosity[0] = level


def trace(*args: Any) -> None:
    """Write the values to standard output when the function is traced."""
    print(*args, file=sys.stdout)


def set_loop_options(
    parallel_iterations: Any = None,
    swap_memory: Any = None,
    maximum_iterations: Any = None,
    shape_invariants: Any = None,
) -> None:
    """Settings of tf.while_loop for the loop in whose body this stands. Its conversion takes it out of there."""


experimental = SimpleNamespace(do_not_convert=do_not_convert, Feature=Feature, set_loop_options=set_loop_options)
