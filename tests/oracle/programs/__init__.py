"""The programs that both libraries run. Each module fills PROGRAMS as it is imported."""

from tests.oracle.program import PROGRAMS
from tests.oracle.programs import (
    api,
    blocks,
    control,
    flow,
    parsing,
    random,
    sparse,
    state,
    tables,
    tutorials,
)

__all__ = [
    "PROGRAMS",
    "api",
    "blocks",
    "control",
    "flow",
    "parsing",
    "random",
    "sparse",
    "state",
    "tables",
    "tutorials",
]
