"""Modules that the program has and a cluster's processes have not: of a model function that was imported."""

from __future__ import annotations

import re

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


def _lacking(module: str, who: str, how: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        f"{who} have no module {module!r}, which this program imports its model function, params or Columns from. Ship "
        f"it by {how}, install it there, or define them in the main program, whose functions travel as they are"
    )
