"""Files as nodes: read one, write one, find those that match a pattern."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op

op("ReadFile", "filename: string -> contents: string", lambda op: [()], stateful=True)
op("WriteFile", "filename: string, contents: string ->", stateful=True)
op("MatchingFiles", "pattern: string -> filenames: string", lambda op: [(None,)], stateful=True)


def read_file(filename: Any, name: str | None = None) -> Tensor:
    """The bytes of a file, a string scalar. Raises NotFoundError when the step runs and there is none."""
    return apply_op("ReadFile", [filename], name=name)


def write_file(filename: Any, contents: Any, name: str | None = None) -> Operation:
    """Writes the file whole, making its directory; a reader never sees half of it."""
    return apply_op("WriteFile", [filename, contents], name=name)


def matching_files(pattern: Any, name: str | None = None) -> Tensor:
    """The names of the files that match a pattern (*, ?, [...]), or any of a vector of patterns, sorted."""
    return apply_op("MatchingFiles", [pattern], name=name)
