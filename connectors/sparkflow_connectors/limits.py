"""Errors that say that a process may have no more: memory, threads, open files. Python and Arrow tell of these in many
classes, some of which pass for a bug or for a damaged file."""

from __future__ import annotations

import errno
import re
import resource

from sparkflow_runtime.wire.errors import ResourceExhaustedError, to_dict

# Also in texts: Arrow hands what the system refused on as an error of no kind, and a node's error quotes it.
_TOLD = re.compile(r"MemoryError\b|can't start new thread|Resource temporarily unavailable|Cannot allocate memory")
_FILES = (errno.EMFILE, errno.ENFILE)


def exhausted(error: BaseException) -> ResourceExhaustedError | None:
    """The error as one of a limit, which it names; None where it tells of none, or names it already."""
    text = str(to_dict(error)["message"]).removesuffix(": ")
    if _memory() in text:
        return None
    if isinstance(error, OSError) and error.errno in _FILES:
        found = f"{text}. {_files()}"
    elif isinstance(error, MemoryError) or _TOLD.search(text):
        found = f"{text}. {_memory()}"
    else:
        return None
    limit = ResourceExhaustedError(getattr(error, "node_def", None), None, found)
    limit.device = getattr(error, "device", None)
    return limit


def _memory() -> str:
    space, threads = (resource.getrlimit(what)[0] for what in (resource.RLIMIT_AS, resource.RLIMIT_NPROC))
    if space != resource.RLIM_INFINITY:
        return (
            f"This process may have {space >> 20} MiB of address space, its threads' stacks and libraries among them "
            "(ulimit -v; Spark's tasks have it of spark.executor.pyspark.memory): allow it more, or set no limit"
        )
    most = "" if threads == resource.RLIM_INFINITY else f" (its user may have {threads} threads: ulimit -u)"
    return f"This machine or container has no more memory, or threads{most}: give it more, or run less on it at once"


def _files() -> str:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return f"This process may have {most} files open (ulimit -n): allow it more"
