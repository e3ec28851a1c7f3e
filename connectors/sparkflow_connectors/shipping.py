"""Functions on their way to other processes: what goes wrong in them there names the files that they are written in."""

from __future__ import annotations

import io
from collections import ChainMap
from types import CodeType
from typing import Any, ClassVar

import cloudpickle

_ANY_FILE = "<dynamic-code>"  # what cloudpickle, since 3.1.2, calls the file of every function that it takes apart


def _code(code: CodeType) -> tuple[Any, ...]:
    made, parts, *more = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return (made, tuple(code.co_filename if part == _ANY_FILE else part for part in parts), *more)


class _Pickler(cloudpickle.Pickler):
    dispatch_table: ClassVar = ChainMap({CodeType: _code}, cloudpickle.Pickler.dispatch_table)


def dumps(thing: Any) -> bytes:
    """As cloudpickle.dumps, with the names of files."""
    file = io.BytesIO()
    _Pickler(file).dump(thing)
    return file.getvalue()


class Shipped:
    """Stands for what it holds in a pickle of any kind, out of which that comes with the names of its files."""

    def __init__(self, thing: Any):
        self._thing = thing

    def __reduce__(self) -> tuple[Any, ...]:
        return cloudpickle.loads, (dumps(self._thing),)
