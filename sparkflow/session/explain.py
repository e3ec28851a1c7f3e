"""What the runtime's passes do to a graph before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.graph import Graph, get_default_graph
from sparkflow.session.fetches import FetchPlan
from sparkflow_runtime.master.passes.report import Report
from sparkflow_runtime.session import RuntimeSession
from sparkflow_runtime.wire.protos import ConfigProto, GraphDef
from sparkflow_runtime.wire.sizes import UNKNOWN_SIZE


def explain(
    fetches: Any,
    feeds: Sequence[Any] = (),
    graph: Graph | None = None,
    config: ConfigProto | None = None,
    batch: int = UNKNOWN_SIZE,
) -> Report:
    """What would be done for `Session(graph=graph, config=config).run(fetches, {each of feeds: ...})`; nothing runs.

    The report has a `text()` for people, `as_dict()` for programs, and says of every pass how many nodes there were
    before and after, which ones went, which were fused, and how many bytes were folded. Its `memory` is the planned
    peak of every device, with the tensors that make it up; batch: what a size that the graph leaves open counts as.
    """
    graph = graph or get_default_graph()
    plan = FetchPlan(graph, fetches)
    fed = [graph.as_graph_element(f, allow_operation=False).name for f in feeds]
    return explain_graph_def(graph.as_graph_def(add_shapes=True), plan.tensors, fed, plan.targets, config, batch)


def explain_graph_def(
    graph: GraphDef,
    fetches: Sequence[str],
    feeds: Sequence[str] = (),
    targets: Sequence[str] = (),
    config: ConfigProto | None = None,
    batch: int = UNKNOWN_SIZE,
) -> Report:
    """The same of a GraphDef: fetches and feeds are 'name:port', targets 'name'. Raises NotFoundError on a name it
    does not have."""
    session = RuntimeSession(config=config)
    try:
        session.extend(graph)
        return session.explain(list(feeds), list(fetches), list(targets), batch)
    finally:
        session.close()
