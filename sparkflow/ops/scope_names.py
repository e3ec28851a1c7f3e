"""Names of variable scopes: which are taken, and which are free again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from sparkflow.framework.graph import get_default_graph


def unique_scope(counts: dict[str, int], name: str) -> str:
    """`name`, or the first of name_1, name_2, ... that no scope open or closed beside this one has.

    counts: how often each scope was opened.
    """
    if not counts.get(name):
        return name
    n = 1
    while counts.get(f"{name}_{n}"):
        n += 1
    return f"{name}_{n}"


def forget_inner(counts: dict[str, int], name: str, known: int) -> None:
    """Names inside a closed scope are free again, for default_name.

    known: how many names there were when it was opened, of which none was inside it: the others came after them.
    """
    for key in list(islice(reversed(counts), max(0, len(counts) - known))):
        if key.startswith(name + "/"):
            del counts[key]


@contextmanager
def beside_name_scope(label: str, wanted: bool) -> Iterator[str]:
    """The name scope of a variable scope, or where it is not wanted that around; gives its prefix."""
    graph = get_default_graph()
    if not wanted:
        current = graph.get_name_scope()
        yield current + "/" if current else ""
    elif label:
        with graph.name_scope(label) as prefix:
            yield prefix
    else:
        yield ""
