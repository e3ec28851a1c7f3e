"""Which variables Keras made, and their first values in a session that has none for them yet."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from sparkflow.ops.variable_reports import report_uninitialized_variables
from sparkflow.ops.variables import variables_initializer

_MADE = "variables that Keras made"  # of Graph.extra: what a graph holds goes with it
by_hand = False  # whether the program initializes all itself
_seen: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # session -> how many of its graph's were looked at


def tracked(variable: Any) -> Any:
    variable.op.graph.extra.setdefault(_MADE, []).append(variable)
    return variable


def initialize(session: Any) -> None:
    """What has a value keeps it. Of a graph that is finalized nothing is initialized: its owner does that."""
    graph = session.graph
    known, found = _seen.get(session, 0), graph.extra.get(_MADE, [])
    if by_hand or known >= len(found) or graph.finalized:
        return
    new = found[known:]
    with graph.as_default(), graph.name_scope("keras_beginnings"), graph.control_dependencies(None):
        names = {name.decode() for name in session.run(report_uninitialized_variables(new))}
        without = [v for v in new if v.op.name in names]
        if without:
            session.run(variables_initializer(without))
    _seen[session] = len(found)
