"""What a session asks before it trains: which variables are missing. A node a variable, so nothing is asked twice."""

from __future__ import annotations

from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array_join, variables
from sparkflow.ops.variable_reports import report_uninitialized_variables

_MADE = "readiness"


def global_variables_missing() -> Tensor:
    """The names of the global variables not yet assigned, made once a graph for the same variables."""
    graph, found = get_default_graph(), variables.global_variables()
    made: dict[tuple[str, ...], Tensor] = graph.extra.setdefault(_MADE, {})
    key = tuple(v.op.name for v in found)
    if key not in made:
        with graph.control_dependencies(None):  # what asks first may stand under others
            made[key] = report_uninitialized_variables(found, "report_uninitialized_global_variables")
    return made[key]


def variables_missing() -> Tensor:
    """The same of global and local variables."""
    local = variables.local_variables()
    missing = global_variables_missing()
    if not local:
        return missing
    return array_join.concat([missing, report_uninitialized_variables(local)], 0)
