"""tf.logging: the `sparkflow` logger of Python's own logging, by TensorFlow's names."""

from __future__ import annotations

import logging as _logging
import sys as _sys
from typing import Any

DEBUG, INFO, WARN, ERROR, FATAL = _logging.DEBUG, _logging.INFO, _logging.WARNING, _logging.ERROR, _logging.CRITICAL

_logger = _logging.getLogger("sparkflow")

debug, info, error, fatal = _logger.debug, _logger.info, _logger.error, _logger.critical
warning = warn = _logger.warning
log = _logger.log


def get_logger() -> _logging.Logger:
    """Python's logger of that name."""
    return _logger


def get_verbosity() -> int:
    return _logger.getEffectiveLevel()


def set_verbosity(v: int) -> None:
    """Messages of level v and above are shown: on stderr, where the program has not configured logging itself."""
    _logger.setLevel(v)
    if not _logger.hasHandlers():
        handler = _logging.StreamHandler(_sys.stderr)
        handler.setFormatter(_logging.Formatter("%(levelname)s:sparkflow:%(message)s"))
        _logger.addHandler(handler)


def log_every_n(level: int, msg: str, n: int, *args: Any) -> None:
    """The first of every n calls from one line of code."""
    caller = _sys._getframe(1)
    log_if(level, msg, _count(caller.f_code.co_filename, caller.f_lineno) % n == 0, *args)


def log_first_n(level: int, msg: str, n: int, *args: Any) -> None:
    """The first n calls from one line of code."""
    caller = _sys._getframe(1)
    log_if(level, msg, _count(caller.f_code.co_filename, caller.f_lineno) < n, *args)


def log_if(level: int, msg: str, condition: Any, *args: Any) -> None:
    if condition:
        _logger.log(level, msg, *args)


def vlog(level: int, msg: str, *args: Any) -> None:
    _logger.log(DEBUG if level else INFO, msg, *args)


_counts: dict[tuple[str, int], int] = {}


def _count(file: str, line: int) -> int:
    """How often this line came here before."""
    seen = _counts.get((file, line), 0)
    _counts[file, line] = seen + 1
    return seen


def flush() -> None:
    """Write out what handlers keep."""
    for handler in (*_logger.handlers, *_logging.getLogger().handlers):
        handler.flush()


def TaskLevelStatusMessage(msg: str) -> None:
    _logger.error(msg)
