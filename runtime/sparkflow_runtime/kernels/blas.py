"""How many threads BLAS has, asked for and set by any thread of Python.

threadpoolctl finds the libraries. Its own way to set OpenBLAS's threads heeds the first thread of Python that uses it
and, while that lives, no other one, without a word (3.8); steps run in many.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

_PREFIXES, _SUFFIXES = ("", "scipy_"), ("", "64_", "_64", "64")  # of OpenBLAS's names, as its builds have them


class Library(NamedTuple):
    get_num_threads: Callable[[], int]
    set_num_threads: Callable[[int], Any]


def libraries() -> list[Library]:
    """Those that this process has loaded by now."""
    from threadpoolctl import ThreadpoolController

    return [_library(lib) for lib in ThreadpoolController().lib_controllers if lib.user_api == "blas"]


def _library(found: Any) -> Library:
    if found.internal_api == "openblas" and found.threading_layer != "openmp":
        code = ctypes.PyDLL(found.filepath)  # what takes 0.1 us is not worth another thread's turn
        for prefix, suffix in product(_PREFIXES, _SUFFIXES):
            names = (f"{prefix}openblas_{verb}_num_threads{suffix}" for verb in ("get", "set"))
            ask, tell = (getattr(code, name, None) for name in names)
            if ask is not None and tell is not None:
                tell.argtypes, tell.restype = [ctypes.c_int], None
                return Library(ask, tell)
    return Library(found.get_num_threads, found.set_num_threads)
