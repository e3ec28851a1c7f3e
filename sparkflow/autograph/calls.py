"""Calls in converted functions: what is called is converted too, but for libraries, and some of Python's functions take
tensors."""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import logging
import os
import sys
import sysconfig
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType
from typing import Any

from sparkflow.autograph.items import Enumeration, Zip, items_of
from sparkflow.autograph.source import NoSource, conversion, converted
from sparkflow.autograph.values import symbolic
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.ops import array, array_made, math, math_reduce, printing
from sparkflow.ops.ragged import RaggedTensor
from sparkflow.ops.tensor_array import TensorArray

UNCONVERTED = "_sparkflow_do_not_convert"  # attribute of functions that stay as they are
_LIBRARIES = frozenset(
    {"sparkflow", "sparkflow_runtime", "sparkflow_connectors", "numpy", "scipy", "pandas", "pyarrow", "matplotlib"}
    | {
        "tensorboard",
        "google",
        "absl",
        "six",
        "pytest",
        "_pytest",
        "numba",
        "IPython",
        "pyspark",
        "dask",
        "distributed",
    }
)
_log = logging.getLogger("sparkflow")
_told: set[CodeType] = set()
_STDLIB = os.path.realpath(sysconfig.get_paths()["stdlib"]) + os.sep


def call(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """function(*args, **kwargs), converted where it is the program's own."""
    own = _BUILTINS.get(function) if _hashable(function) else None
    if own is not None:
        return own(*args, **kwargs)
    return to_call(function)(*args, **kwargs)


def _hashable(function: Any) -> bool:
    return inspect.isbuiltin(function) or isinstance(function, type)


def to_call(function: Any) -> Callable[..., Any]:
    """What to call in the place of a function, method, partial or object: the converted one, or itself."""
    if isinstance(function, functools.partial):
        return functools.partial(to_call(function.func), *function.args, **function.keywords)
    if isinstance(function, MethodType):
        inner = to_call(function.__func__)
        return function if inner is function.__func__ else MethodType(inner, function.__self__)
    if isinstance(function, FunctionType):
        return _converted(function)
    if not isinstance(function, type) and callable(function) and not _is_of_library(type(function).__module__, ""):
        method = type(function).__call__
        if isinstance(method, FunctionType) and not hasattr(function, UNCONVERTED):
            return MethodType(_converted(method), function)
    return function


def _converted(function: FunctionType) -> Callable[..., Any]:
    if hasattr(function, UNCONVERTED) or conversion(function) is not None:
        return function
    if _is_of_library(function.__module__ or "", function.__code__.co_filename):
        return function
    try:
        return converted(function, _operators())
    except NoSource as error:
        _tell(function.__code__, error)
        return function


def _tell(code: CodeType, error: NoSource) -> None:
    """Warn of a function that would do something else if its source were there, once."""
    if code in _told:
        return
    _told.add(code)
    flow = dis.hasjrel + dis.hasjabs
    if any(i.opcode in flow or (i.opname == "COMPARE_OP" and i.argval in ("==", "!=")) for i in dis.Bytecode(code)):
        _log.warning(
            "AutoGraph leaves %s as it is, its `if`, loops and == with tensors too: %s. Define it in a file or a "
            "notebook's cell, or decorate it with tf.autograph.experimental.do_not_convert", code.co_name, error,
        )  # fmt: skip


def _is_of_library(module: str, file: str) -> bool:
    root = module.partition(".")[0]
    if root in _LIBRARIES or root in sys.stdlib_module_names:
        return root != "__main__"
    return bool(file) and os.path.realpath(file).startswith(_STDLIB) and "-packages" not in file


def _operators() -> Any:
    return sys.modules["sparkflow.autograph.operators"]


# ---------------------------------------------------------------------- Python's functions, of tensors too


def _in_graph(value: Any) -> bool:
    return symbolic(value) or isinstance(value, (TensorArray, RaggedTensor))


def _range(*args: Any) -> Any:
    return math.range(*args) if any(map(symbolic, args)) else builtins.range(*args)


def _len(value: Any) -> Any:
    if isinstance(value, TensorArray):
        return value.size()
    if isinstance(value, RaggedTensor):
        return value.nrows()
    if not symbolic(value):
        return builtins.len(value)
    tensor = convert_to_tensor(value)
    if tensor._shape == ():
        raise ValueError(f"len requires a non-scalar tensor, got {tensor}")
    known = tensor._shape[0] if tensor._shape else None
    return array.shape(tensor)[0] if known is None else known


def _number(kind: Any, dtype: str) -> Callable[..., Any]:
    def number(value: Any = 0, *rest: Any, **named: Any) -> Any:
        return math.cast(value, dtype) if symbolic(value) else kind(value, *rest, **named)

    return number


def _print(*values: Any, **settings: Any) -> Any:
    if not any(map(symbolic, values)):
        return builtins.print(*values, **settings)
    known = {k: settings[k] for k in ("sep", "end") if k in settings}
    return printing.print_(*values, output_stream=settings.get("file") or sys.stdout, **known)


def _enumerate(values: Any, start: Any = 0) -> Any:
    items = items_of(values)
    return builtins.enumerate(values, start) if items is None else Enumeration(items, start)


def _zip(*several: Any, **settings: Any) -> Any:
    found = [items_of(values) for values in several]
    if not found or any(items is None for items in found):
        return builtins.zip(*several, **settings)
    return Zip(found)  # type: ignore[arg-type]


def _over(python: Any, of_tensor: Callable[..., Any], of_two: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Of one tensor, over its first dimension; of several, one with the other."""

    def over(*args: Any, **settings: Any) -> Any:
        if settings or not any(map(symbolic, args)):
            return python(*args, **settings)
        return of_tensor(args[0]) if len(args) == 1 else functools.reduce(of_two or python, args)

    return over


def _sorted(values: Any, **settings: Any) -> Any:
    if not symbolic(values) or settings.get("key") is not None:
        return builtins.sorted(values, **settings)
    return array_made.sort(values, direction="DESCENDING" if settings.get("reverse") else "ASCENDING")


_BUILTINS: dict[Any, Callable[..., Any]] = {
    map: lambda function, *values: builtins.map(to_call(function), *values),
    filter: lambda function, values: builtins.filter(to_call(function), values),
    range: _range,
    len: _len,
    int: _number(int, "int32"),
    float: _number(float, "float32"),
    bool: _number(bool, "bool"),
    abs: lambda value: math.abs(value) if symbolic(value) else builtins.abs(value),
    print: _print,
    enumerate: _enumerate,
    zip: _zip,
    any: _over(any, math_reduce.reduce_any),
    all: _over(all, math_reduce.reduce_all),
    max: _over(max, lambda x: math_reduce.reduce_max(x, 0), math.maximum),
    min: _over(min, lambda x: math_reduce.reduce_min(x, 0), math.minimum),
    sum: _over(sum, lambda x: math_reduce.reduce_sum(x, 0), math.add),
    sorted: _sorted,
}
