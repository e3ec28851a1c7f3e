"""Functions on their way to other processes: what goes wrong in them there names the files that they are written in,
and their source goes with them, by which AutoGraph converts what they give to datasets.

Spark keeps its tasks' processes: one that has imported a program's module trains by it for as long as the session
lasts, also after a notebook has edited the file and imported it again. So there the modules are imported anew where a
file has changed, as any other process would.
"""

from __future__ import annotations

import importlib
import io
import linecache
import os
import sys
import sysconfig
from collections import ChainMap
from types import CodeType, ModuleType
from typing import Any

import cloudpickle

_ANY_FILE = "<dynamic-code>"  # what cloudpickle, since 3.1.2, calls the file of every function that it takes apart
_KEPT_PROCESS = "pyspark.worker"  # a module that Spark's tasks have, and no driver
_OWN = ("sparkflow", "sparkflow_runtime", "sparkflow_connectors", "pyspark", "__main__")
_INSTALLED = ("site-packages", "dist-packages")

_LONGEST_SOURCE = 1 << 20  # characters of a file that travels

Stamp = tuple[int, int]
_stamps: dict[str, Stamp] = {}  # of the program's modules that this process has imported


def _code(code: CodeType) -> tuple[Any, ...]:
    made, parts, *more = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return (made, tuple(code.co_filename if part == _ANY_FILE else part for part in parts), *more)


class _Pickler(cloudpickle.Pickler):
    """files: those of the functions that it takes apart."""

    def __init__(self, file: io.BytesIO):
        self.files: set[str] = set()
        self.dispatch_table = ChainMap({CodeType: self._code}, cloudpickle.Pickler.dispatch_table)
        super().__init__(file)  # which looks for the table

    def _code(self, code: CodeType) -> tuple[Any, ...]:
        self.files.add(code.co_filename)
        return _code(code)


def dumps(thing: Any) -> bytes:
    """As cloudpickle.dumps, with the names of files."""
    return _dumped(thing)[0]


def _dumped(thing: Any) -> tuple[bytes, dict[str, str]]:
    """(the pickle, the text of the files that its functions are written in: scripts and a notebook's cells)."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(thing)
    texts = {name: "".join(linecache.getlines(name)) for name in sorted(pickler.files)}
    return file.getvalue(), {name: text for name, text in texts.items() if 0 < len(text) <= _LONGEST_SOURCE}


class Shipped:
    """Stands for what it holds in a pickle of any kind, out of which that comes with the names of its files."""

    def __init__(self, thing: Any):
        self._thing = thing

    def __reduce__(self) -> tuple[Any, ...]:
        return _loaded, _dumped(self._thing)


def _loaded(data: bytes, sources: dict[str, str]) -> Any:
    for name, text in sources.items():  # also where there is such a file: it may be another's
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    kept = _KEPT_PROCESS in sys.modules
    if kept:
        _forget_changed()
    thing = cloudpickle.loads(data)
    if kept:
        _remember()
    return thing


def _forget_changed() -> None:
    """All modules of the program where one's file has changed: others may hold what it had."""
    if any(_stamp(sys.modules.get(name)) not in (None, stamp) for name, stamp in _stamps.items()):
        for name in _stamps:
            sys.modules.pop(name, None)
        _stamps.clear()
        importlib.invalidate_caches()


def _remember() -> None:
    for name, module in list(sys.modules.items()):
        if name not in _stamps and name.partition(".")[0] not in _OWN and (stamp := _stamp(module)):
            _stamps[name] = stamp


def _stamp(module: ModuleType | None) -> Stamp | None:
    """Of the source file; None where it is installed, or has none that can change."""
    if not isinstance(module, ModuleType):
        return None
    file = object.__getattribute__(module, "__dict__").get("__file__")  # and no lazy module is loaded for that
    if not isinstance(file, str) or not file.endswith(".py") or any(part in file for part in _INSTALLED):
        return None
    if file.startswith(sysconfig.get_path("stdlib")):
        return None
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
