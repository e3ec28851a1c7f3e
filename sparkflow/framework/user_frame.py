"""Where in the user's program an op was made."""

from __future__ import annotations

import sys
from typing import Any

_OWN = {__name__.partition(".")[0], "contextlib"}  # of which a function's decorator calls it for this package
_own_files: dict[str, bool] = {}  # whether a source file is of this package


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
