"""What libraries ask of functions: tensorflow.python.util's function_utils, tf_inspect, tf_decorator, tf_export and
all_util."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Function = Callable[..., Any]


class ArgSpec(NamedTuple):
    args: list[str]
    varargs: str | None
    keywords: str | None
    defaults: Any


def getargspec(obj: Any) -> ArgSpec:
    """The parameters of a function, of what a decorator is around, or of what a functools.partial leaves."""
    if isinstance(obj, functools.partial):
        return ArgSpec(*inspect.getfullargspec(obj)[:4])
    return ArgSpec(*inspect.getfullargspec(inspect.unwrap(obj))[:4])


def getfullargspec(obj: Any) -> inspect.FullArgSpec:
    return inspect.getfullargspec(obj if isinstance(obj, functools.partial) else inspect.unwrap(obj))


def fn_args(fn: Function) -> tuple[str, ...]:
    """The names of a function's parameters, without self and those that a functools.partial has given."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if isinstance(fn, functools.partial):
        rest = fn_args(fn.func)[len(fn.args) :]
        return tuple(name for name in rest if name not in (fn.keywords or {}))
    target = fn if inspect.isroutine(fn) or isinstance(fn, type) else fn.__call__  # type: ignore[operator]
    return tuple(name for name, p in inspect.signature(target).parameters.items() if p.kind in kinds)


def has_kwargs(fn: Function) -> bool:
    """Whether it takes any argument by name. Raises TypeError where fn is no function."""
    if not callable(fn):
        raise TypeError(f"Argument `fn` should be a callable. Received: fn={fn} (of type {type(fn)})")
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in inspect.signature(fn).parameters.values())


def get_func_name(func: Function) -> str:
    """Its name. Raises ValueError where it is no function."""
    if not callable(func):
        raise ValueError(f"Argument `func` must be a callable. Received func={func} (of type {type(func)})")
    return getattr(inspect.unwrap(func), "__name__", str(type(func)))


def get_func_code(func: Function) -> Any:
    """Its code object, None of what has none."""
    return getattr(inspect.unwrap(func), "__code__", None)


def make_decorator(target: Function, decorator_func: Function, *args: Any, **kwargs: Any) -> Function:
    """decorator_func, with the name and the description of target."""
    return functools.wraps(target)(decorator_func)


def unwrap(maybe_decorated: Any) -> tuple[list[Any], Any]:
    """(the decorators around a function, the function)."""
    found: list[Any] = []
    while hasattr(maybe_decorated, "__wrapped__"):
        found.append(maybe_decorated)
        maybe_decorated = maybe_decorated.__wrapped__
    return found, maybe_decorated


def tf_export(*names: str, **settings: Any) -> Callable[[Any], Any]:
    """TensorFlow lists by it what it exports; a library's own things stay where they are."""
    return lambda exported: exported


keras_export = estimator_export = tf_export


def make_all(module_name: str, doc_string_modules: Any = None) -> list[str]:
    """The names of a module that do not begin with an underscore."""
    return sorted(name for name in vars(sys.modules[module_name]) if not name.startswith("_"))


def remove_undocumented(
    module_name: str, allowed_exception_list: Sequence[str] | None = None, doc_string_modules: Any = None
) -> None:
    """TensorFlow hides by it what its documentation does not name; here a library's modules keep all they have."""


def reveal_undocumented(symbol_name: str, target_module: Any = None) -> None:
    """Nothing was hidden."""
