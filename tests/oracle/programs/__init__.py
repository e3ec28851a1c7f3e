"""The programs that both libraries run: each module here fills PROGRAMS as it is imported."""

from importlib import import_module
from pkgutil import iter_modules

from tests.oracle.program import PROGRAMS

for _found in iter_modules(__path__):
    import_module(f"{__name__}.{_found.name}")

__all__ = ["PROGRAMS"]
