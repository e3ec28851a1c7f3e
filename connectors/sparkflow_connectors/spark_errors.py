"""Errors of tasks at the driver: as they were raised, not as Spark's text about them.

What fails in a task (a null that is refused, a damaged record file) reaches the driver as a PythonException, or as an
AnalysisException where a data source is planned, whose text is the task's whole traceback. Where such a text ends in
one of our errors, the driver gets that error, with the short message; its traceback shows the task's lines still.

Spark has no door for that: the function that makes its exceptions is replaced, once, and calls the one that was there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from sparkflow_runtime.wire import errors
from sparkflow_runtime.wire.errors import OpError

_OURS = re.compile(r"^sparkflow\w*(?:\.\w+)*\.(\w+Error): ", re.MULTILINE)
_AFTER = re.compile(r"\n\n(?:JVM stacktrace:|The above exception|During handling)|\s*SQLSTATE: \w{5}(?=\s|$)")
_MAKERS = ("pyspark.errors.exceptions.captured", "pyspark.sql.connect.client.core")  # classic, Connect


def name_errors() -> None:
    """Have Spark's exceptions named, of the clients that are loaded so far; again costs nothing."""
    for name in _MAKERS:
        module = sys.modules.get(name)
        make = getattr(module, "convert_exception", None)
        if module is not None and make is not None and not hasattr(make, "names_errors"):
            module.convert_exception = _naming(make)  # type: ignore[attr-defined]


def _naming(make: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(make)
    def convert(*args: Any, **kwargs: Any) -> Any:
        found = make(*args, **kwargs)
        return named(found) or found

    convert.names_errors = True  # type: ignore[attr-defined]
    return convert


def named(error: BaseException) -> OpError | None:
    """Our error that this one of Spark's tells of; None where it tells of none."""
    cause = getattr(error, "_cause", None)
    if isinstance(cause, OpError):  # what wraps a task's error
        return cause
    text = str(error)
    told = list(_OURS.finditer(text))
    kind = getattr(errors, told[-1][1], None) if told else None
    if kind is None:
        return None
    found: OpError = kind(None, None, _AFTER.split(text[told[-1].end() :], maxsplit=1)[0].strip())
    return found.with_traceback(error.__traceback__)
