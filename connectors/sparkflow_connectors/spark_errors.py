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
# What a task says whose Python is another than the driver's: of `python3` where nobody has set PYSPARK_PYTHON.
_NO_MODULE = re.compile(r"^ModuleNotFoundError: No module named '((?:sparkflow|pyspark_tfrecord)\w*)", re.MULTILINE)
_AFTER = re.compile(r"\n\n(?:JVM stacktrace:|The above exception|During handling)|\s*SQLSTATE: \w{5}(?=\s|$)")
_UNREAD = re.compile(
    r"\[FAILED_READ_FILE\.?(\w*)\] Encountered error while reading file (\S+)\.\s+(.*?)\s*SQLSTATE", re.DOTALL
)
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (.+)$", re.MULTILINE)
_OF_PYTHON = "org.apache.spark.sql.execution.python."  # rows for a Python function, as ours; others' stay Py4J's
_UNREAD_KINDS = {
    "FILE_NOT_EXIST": errors.NotFoundError, "PARQUET_COLUMN_DATA_TYPE_MISMATCH": errors.InvalidArgumentError
}  # fmt: skip
# What Spark says of a task that ended without an error of its own: with an executor, its Python, or a shuffle's files.
_LOST = (
    re.compile(r"ExecutorLostFailure \((.+?)\)(?: Reason: (.+))?"),
    re.compile(r"(?:Metadata)?FetchFailed(?:Exception)?\b[:(] *(.+)"),
    re.compile(r"(Python worker exited unexpectedly \(crashed\))"),
    re.compile(r"(EOFException occurred while reading the port number from \S+?)'s stdout"),
    re.compile(r"java\.net\.SocketException: (.+)"),
)
_CANCELLED = re.compile(
    r"(?:\[(?:SPARK_JOB_CANCELLED|OPERATION_CANCELED)\]"
    r"|SparkException:(?= Job \d+ cancelled)) *"  # by whoever stops the session
    r"(.+?)\.? *(?:SQLSTATE|$)",
    re.MULTILINE,
)
_FAILED = re.compile(
    r"barrier task \w+\(\d+, (\d+)\) finished unsuccessfully\.\n[^\n]*Traceback \(most recent call last\):\n(.*)",
    re.DOTALL,
)
_GIVEN_UP = re.compile(rf"Task (\d+) in stage \S+ failed (\d+) times\b.*?{_LOST[0].pattern}")
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
    found: OpError
    if kind is not None:
        found = kind(None, None, _AFTER.split(text[told[-1].end() :], maxsplit=1)[0].strip())
    elif missing := _NO_MODULE.search(text):
        found = errors.FailedPreconditionError(
            None, None, f"The Python of Spark's tasks has no module {missing[1]!r}: it is not the driver's. Before "
            f"the session begins, set PYSPARK_PYTHON to one that has sparkflow (on this machine {sys.executable}, on a "
            "cluster that of an archive which is shipped), or let tf.spark.session() begin it",
        )  # fmt: skip
    elif (file := unread(error)) is not None and _OF_PYTHON in _stack(error):
        found = file
    else:
        return None
    return found.with_traceback(error.__traceback__)


def unread(error: BaseException) -> OpError | None:
    """That Spark could not read a file, in a line, where this error of Spark's tells so; None otherwise."""
    text = f"{error}\n{_stack(error)}"
    told = _UNREAD.search(text)
    if told is None:
        return None
    kind, file, why = told.groups()
    causes = _CAUSE.findall(text)
    make = _UNREAD_KINDS.get(kind, errors.DataLossError)
    return make(None, None, f"{file}: Spark cannot read the file: {why or (causes[-1] if causes else 'it is damaged')}")


def _stack(error: BaseException) -> str:
    """The JVM's stack trace, which is no part of the text of what Spark makes of it."""
    return str(getattr(error, "_stackTrace", None) or "")


def cancelled(error: BaseException) -> str | None:
    """How somebody has cancelled the job in Spark, where this error of Spark's tells so; None otherwise."""
    told = _CANCELLED.search(str(error))
    return None if told is None else told[1]


def lost(error: BaseException) -> OpError | None:
    """That Spark lost a task of a barrier stage, which it does not run again; None where a task failed of itself."""
    text = str(error)
    if isinstance(error, OpError) or "barrier" not in text or "Traceback (most recent call last)" in text:
        return None
    for pattern in _LOST:
        told = pattern.search(text)
        if told is not None:
            what = ": ".join(filter(None, told.groups()))
            return errors.UnavailableError(
                None, None, f"Spark lost a task ({what}). Look for why in its executor's log"
            )
    return None


def noted(error: Exception) -> Exception:
    """The same, with a note that says in a line what ended a Python task of a barrier stage, or took the executors of
    one that computes the table, where it tells so: the first line of Py4J's errors only names a call of its own."""
    if told := _FAILED.search(str(error)):
        task, traceback = told.groups()
        lines = [line for line in _AFTER.split(traceback, maxsplit=1)[0].splitlines() if line[:1].strip()]
        error.add_note(f"Spark's task {task} failed: {lines[-1] if lines else 'its traceback is empty'}")
    elif told := _GIVEN_UP.search(str(error)):
        task, times, what = told[1], told[2], ": ".join(filter(None, told.groups()[2:]))
        error.add_note(
            f"Spark's task {task} failed {times} times, as often as spark.task.maxFailures says ({what}). Look for why "
            "in its executor's log"
        )
    return error
