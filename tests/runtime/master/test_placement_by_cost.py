"""The cost model, the simulator, and what placement does with them."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow_runtime.kernels.table  # noqa: F401
from sparkflow_runtime.master.cost_model import MESSAGE_S, CostModel
from sparkflow_runtime.master.place import place
from sparkflow_runtime.master.simulate import simulate
from sparkflow_runtime.wire.protos import StepStats

A, B = "/job:a/replica:0/task:0/device:CPU:0", "/job:b/replica:0/task:0/device:CPU:0"
MS = 1_000_000


def _stats(**spans: tuple[int, int]) -> StepStats:
    """node=(milliseconds, output bytes)"""
    stats = StepStats()
    device = stats.dev_stats.add(device=A)
    for name, (milliseconds, size) in spans.items():
        span = device.node_stats.add(node_name=name, all_end_rel_nanos=milliseconds * MS)
        span.output.add(slot=0).tensor_description.allocation_description.requested_bytes = size
    return stats


@pytest.fixture
def costs() -> CostModel:
    model = CostModel()
    model.record(_stats(x=(0, 8), left=(10, 8), right=(10, 8), both=(1, 8), v=(0, 800_000_000), read=(5, 8)))
    return model


def test_costs_are_medians_and_guesses(node: Any, costs: CostModel) -> None:
    costs.record(_stats(left=(1000, 8)))
    costs.record(_stats(left=(12, 8)))
    assert costs.seconds(node("left", "Neg")) == pytest.approx(0.012), "a slow first step is forgotten"
    assert not costs.measured("new")
    assert 0 < costs.seconds(node("new", "Neg")) < 1e-3
    assert costs.seconds(node("constant", "Const")) == 0


def test_the_simulator_adds_up(node: Any, graph_def: Any, costs: CostModel) -> None:
    graph = graph_def(
        node("x", "Neg", device=A), node("left", "Neg", "x", device=A), node("right", "Neg", "x", device=A),
        node("both", "AddV2", "left", "right", device=A),
    )  # fmt: skip
    assert simulate(graph, costs).makespan_s == pytest.approx(0.021), "one after the other on one device"
    graph.node[2].device = B
    assert simulate(graph, costs).makespan_s == pytest.approx(0.011 + 2 * MESSAGE_S, rel=1e-3), "two at once, two sends"


def test_free_nodes_spread_where_it_pays(node: Any, graph_def: Any, costs: CostModel) -> None:
    graph = graph_def(
        node("x", "Neg"), node("left", "Neg", "x"), node("right", "Neg", "x"), node("both", "AddV2", "left", "right")
    )
    assert {n.device for n in place(graph, [A, B], A).node} == {A}, "without costs all stay with the session"
    devices = {n.name: n.device for n in place(graph, [A, B], A, costs=costs).node}
    assert devices["x"] == devices["left"] == A and devices["right"] == B


def test_scopes_state_and_big_transfers_hold_nodes(node: Any, graph_def: Any, costs: CostModel) -> None:
    graph = graph_def(
        node("v", "VariableV2", device="/job:b"), node("read", "Neg", "v"),
        node("mine", "Neg", "read", device="/job:a"),
        node("w", "VariableV2"), node("update", "AssignAdd", "w", "mine"),
    )  # fmt: skip
    devices = {n.name: n.device for n in place(graph, [A, B], A, costs=costs).node}
    assert devices["v"] == B and devices["mine"] == A, "asked for"
    assert devices["read"] == B, "0.8 GB do not travel for a node that can come to them"
    assert devices["w"] == devices["update"] == A, "state stays where it was first placed"
