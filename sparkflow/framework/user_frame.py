"""Where in the user's program an op was made, and how that is told."""

from __future__ import annotations

import linecache
import re
import sys
from typing import Any

_OWN = {__name__.partition(".")[0], "contextlib"}  # of which a function's decorator calls it for this package
_own_files: dict[str, bool] = {}  # whether a source file is of this package
_SOURCE_CHARS = 160
_BELOW = "\n\t   "  # what comes before a source line
_TOLD = re.compile(  # by another process, which may have no such file, and knows no cells
    rf"(?P<by>defined at )(?P<made>[^\n]+):(?P<made_line>\d+)(?:{_BELOW}[^\n]*)?"
    r'|(?P<margin>^ *)File "(?P<ran>[^"\n]+)", line (?P<ran_line>\d+)(?P<name>, in [^\n]+)'
    r'(?P<code>\n ++(?!File ")[^\n]*)?',
    re.MULTILINE,
)


def user_frame() -> tuple[str, int] | None:
    """(file, line) of the nearest caller outside this package, for error messages."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        own = _own_files.get(file)
        if own is None:
            own = frame.f_globals.get("__name__", "").partition(".")[0] in _OWN
            if file[:1] != "<":  # generated code has one name everywhere
                _own_files[file] = own
        if not own:
            break
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def place(file: str, line: int) -> str:
    """`file:line`, or a notebook's cell and line, and under it what is written there, where that can be read."""
    cell, source = cell_of(file), source_of(file, line)
    return (f"{cell}, line {line}" if cell else f"{file}:{line}") + (_BELOW + source if source else "")


def source_of(file: str, line: int) -> str:
    """That line of the file or cell; "" where it cannot be read."""
    return linecache.getline(file, line).strip()[:_SOURCE_CHARS]


def cell_of(file: str) -> str | None:
    """The name by which IPython's tracebacks call a cell ("Cell In[3]"), whose file nobody can open."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    name = getattr(getattr(shell, "compile", None), "format_code_name", lambda _: None)(file)
    return " ".join(name) if name else None


def retold(text: str) -> str:
    """What another process says of this program's files, with cells and source lines that only this one can read."""
    return _TOLD.sub(_retold, text)


def _retold(told: re.Match[str]) -> str:
    if told["by"]:
        file, line = told["made"], int(told["made_line"])
        return told["by"] + place(file, line) if cell_of(file) or source_of(file, line) else told[0]
    file, line = told["ran"], int(told["ran_line"])
    cell, source = cell_of(file), source_of(file, line)
    if not (cell or source):
        return told[0]
    below = f"\n{told['margin']}  {source}" if source else told["code"] or ""
    where = f"{cell}, line {line}" if cell else f'File "{file}", line {line}'
    return told["margin"] + where + told["name"] + below
