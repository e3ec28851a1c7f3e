"""Modules that the program has and a cluster's processes have not: of a model function that was imported."""

from __future__ import annotations

import os
import re
import sys

from sparkflow_runtime.wire.errors import FailedPreconditionError

# Raised where a task is unpickled, before any line of the program's runs.
_IN_SPARK = re.compile(
    r"cloudpickle\.loads\(.*^ModuleNotFoundError: No module named '([\w.]+)'", re.MULTILINE | re.DOTALL
)


def not_in_spark(error: BaseException) -> FailedPreconditionError | None:
    """Where this error of Spark's tells of such a module; None otherwise."""
    told = _IN_SPARK.search(str(error))
    return None if told is None else _lacking(told[1], "Spark's tasks", "spark-submit --py-files or sc.addPyFile(file)")


def not_in_dask(error: BaseException | None) -> FailedPreconditionError | None:
    """The same of Dask, which tells by what an error was raised from."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name:
            return _lacking(error.name, "Dask's scheduler or workers", "client.upload_file(file)")
        error = error.__cause__
    return None


def unread(error: Exception) -> dict[str, str]:
    """What a child tells of a job that it cannot unpickle."""
    module = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
    return {"module": module, "error": f"{type(error).__name__}: {error}"}


def not_in_child(told: dict[str, str]) -> FailedPreconditionError:
    """The same in its parent, which found the module where the child does not look: in the working directory that a
    notebook had before it changed that, say."""
    if not told["module"]:
        return FailedPreconditionError(
            f"A worker cannot load the model function, params or Columns ({told['error']}). It imports their modules "
            "anew: if a file has changed since this program imported it, import it again"
        )
    found = getattr(sys.modules.get(told["module"].partition(".")[0]), "__file__", None)
    here = f"This process has it from {found}. " if found else ""
    return FailedPreconditionError(
        f"A worker, begun in {os.getcwd()}, has no module {told['module']!r}, which this program imports its model "
        f"function, params or Columns from. {here}Put its folder's full path into sys.path or PYTHONPATH, or define "
        "them in the main program or notebook, whose functions travel as they are"
    )


def _lacking(module: str, who: str, how: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        f"{who} have no module {module!r}, which this program imports its model function, params or Columns from. Ship "
        f"it by {how}, install it there, or define them in the main program, whose functions travel as they are"
    )
