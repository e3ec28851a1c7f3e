"""`optimized`: a graph after one pass, by node name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

import sparkflow_runtime.kernels.table  # noqa: F401
from sparkflow_runtime.master.passes import Optimizer, Settings
from sparkflow_runtime.wire.edges import parse, verify
from sparkflow_runtime.wire.protos import GraphDef, NodeDef


def _optimized(
    graph: GraphDef,
    *passes: str,
    fetches: Sequence[str] = (),
    feeds: Sequence[str] = (),
    targets: Sequence[str] = (),
    **options: Any,
) -> dict[str, NodeDef]:
    """The nodes after these passes alone. The input must not have changed, and the output must hold together."""
    before = graph.SerializeToString(deterministic=True)
    settings = replace(Settings.none(), **{name: True for name in passes}, **options.pop("settings", {}))
    optimizer = options.pop("optimizer", None) or Optimizer(settings)
    found = optimizer.optimize(graph, feeds, fetches, targets, **options)
    assert graph.SerializeToString(deterministic=True) == before, "a pass never changes its input"
    verify(found, {parse(f)[0] for f in feeds})
    return {n.name: n for n in found.node}


@pytest.fixture
def optimized() -> Callable[..., dict[str, NodeDef]]:
    return _optimized
