"""Passes before and after place: each makes a graph that computes the same, cheaper.

`optimize` runs the table PASSES on one signature. The passes that feed each other (a folded shape lets arithmetic drop
a reshape, which makes two nodes equal) are repeated; layout and fusion come last and once. `optimize_placed` runs
PLACED_PASSES, which join nodes of one device.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sparkflow_runtime.master.cost_model import CostModel
from sparkflow_runtime.master.passes.arithmetic import arithmetic
from sparkflow_runtime.master.passes.bag_rows import bag_rows
from sparkflow_runtime.master.passes.column_lookups import column_lookups
from sparkflow_runtime.master.passes.common import common_subexpressions
from sparkflow_runtime.master.passes.control_hops import shorten_control
from sparkflow_runtime.master.passes.dead_branches import dead_branches
from sparkflow_runtime.master.passes.delay import delay
from sparkflow_runtime.master.passes.dependencies import dependencies
from sparkflow_runtime.master.passes.distinct_rows import distinct_rows
from sparkflow_runtime.master.passes.fold import Folder
from sparkflow_runtime.master.passes.fuse import fuse
from sparkflow_runtime.master.passes.fuse_concat_grad import fuse_concat_grad
from sparkflow_runtime.master.passes.fuse_embeddings import fuse_embeddings
from sparkflow_runtime.master.passes.joint_bags import joint_bags
from sparkflow_runtime.master.passes.joint_takes import joint_takes
from sparkflow_runtime.master.passes.layout import layout
from sparkflow_runtime.master.passes.nested_columns import nested_columns
from sparkflow_runtime.master.passes.own_parts import own_parts
from sparkflow_runtime.master.passes.readiness import ask_together
from sparkflow_runtime.master.passes.recompute import recompute
from sparkflow_runtime.master.passes.report import PassReport, Report
from sparkflow_runtime.master.passes.schedule import schedule
from sparkflow_runtime.master.passes.settings import Settings
from sparkflow_runtime.master.passes.slice_gradients import slice_gradients
from sparkflow_runtime.master.passes.spread_products import spread_products
from sparkflow_runtime.master.passes.swap import swap
from sparkflow_runtime.master.passes.unread_stacks import unread_stacks
from sparkflow_runtime.master.passes.view import View
from sparkflow_runtime.master.passes.whole_variables import whole_variables
from sparkflow_runtime.master.passes.wide_rows import wide_rows
from sparkflow_runtime.wire.edges import parse, verify
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

_VERIFY = "SPARKFLOW_VERIFY_PASSES"  # "1": check the graph after every pass


class Pass(NamedTuple):
    name: str  # the switch in Settings
    run: Callable[[View, Settings, Folder], None]
    repeated: bool


PASSES = (
    Pass("dependencies", lambda view, settings, folder: dependencies(view), False),
    Pass("constant_folding", lambda view, settings, folder: folder.fold(view), True),
    Pass("arithmetic", lambda view, settings, folder: arithmetic(view, settings.aggressive), True),
    Pass("dependencies", lambda view, settings, folder: unread_stacks(view), True),
    Pass("common_subexpressions", lambda view, settings, folder: common_subexpressions(view), True),
    Pass("column_lookups", lambda view, settings, folder: column_lookups(view), False),
    Pass("nested_columns", lambda view, settings, folder: nested_columns(view), False),
    Pass("recomputation", lambda view, settings, folder: recompute(view, settings), False),
    Pass("layout", lambda view, settings, folder: layout(view), False),
    Pass("slice_gradients", lambda view, settings, folder: slice_gradients(view), False),
    Pass("fusion", lambda view, settings, folder: fuse(view), False),
)


@dataclass(frozen=True)
class Placed:
    """What a pass over a placed graph may know. feeds, fetches: 'name:port'; targets: 'name'."""

    settings: Settings
    feeds: Collection[str]
    fetches: Collection[str]
    targets: Collection[str]
    costs: CostModel | None = None

    @property
    def kept(self) -> set[str]:
        """The nodes that are fetched or run by name."""
        return {*self.targets, *(parse(f)[0] for f in self.fetches)}


class PlacedPass(NamedTuple):
    name: str
    run: Callable[[GraphDef, Placed], GraphDef]


PLACED_PASSES = (
    PlacedPass("control_hops", lambda graph, of: shorten_control(graph, of.kept)),
    PlacedPass("whole_variables", lambda graph, of: whole_variables(graph, of.feeds, of.kept)),
    PlacedPass("distinct_rows", lambda graph, of: distinct_rows(graph, of.feeds, of.kept)),
    PlacedPass("wide_rows", lambda graph, of: wide_rows(graph, of.feeds, of.kept)),
    PlacedPass("bag_rows", lambda graph, of: bag_rows(graph, of.feeds, of.kept)),
    PlacedPass("embeddings", lambda graph, of: fuse_embeddings(graph, of.feeds, of.kept)),
    PlacedPass("spread_products", lambda graph, of: spread_products(graph, of.feeds, of.kept)),
    PlacedPass("joint_bags", lambda graph, of: joint_bags(graph, of.feeds, of.kept)),
    PlacedPass("joint_takes", lambda graph, of: joint_takes(graph, of.feeds, of.kept)),
    PlacedPass("concat_gradients", lambda graph, of: fuse_concat_grad(graph, of.feeds, of.kept)),
    PlacedPass("own_parts", lambda graph, of: own_parts(graph, of.kept)),
    PlacedPass("scheduling", lambda graph, of: schedule(graph, of.feeds, of.fetches, of.costs)),
    PlacedPass("delays", lambda graph, of: delay(graph, of.feeds)),
    PlacedPass("swaps", lambda graph, of: swap(graph, of.feeds, of.fetches, of.settings, of.costs)),
)


@dataclass
class Optimizer:
    """The passes with a session's settings and its memory of folded values. `optimize` is a function of its
    arguments: the memory only saves time. Between two passes several may be at it."""

    settings: Settings = field(default_factory=Settings)
    folder: Folder = field(default_factory=Folder)
    give_way: Callable[[], None] = lambda: None  # called between two passes

    def __post_init__(self) -> None:
        self.folder.max_bytes = self.settings.max_folded_bytes

    def optimize(
        self,
        graph: GraphDef,
        feeds: Iterable[str] = (),
        fetches: Iterable[str] = (),
        targets: Iterable[str] = (),
        one_device: bool = True,
        sources: Mapping[str, NodeDef] | None = None,
        report: Report | None = None,
    ) -> GraphDef:
        """A graph that gives the same values for `fetches` ('name:port') and has the same effects.

        What is fetched, fed or a target keeps its name. sources: nodes outside the pruned graph, such as fed
        placeholders, for what they say of shapes. report: told what every pass did.
        """
        on = [p for p in PASSES if getattr(self.settings, p.name)]
        if not on:
            return graph
        feeds, fetches, targets = tuple(feeds), tuple(fetches), tuple(targets)
        if self.settings.dependencies:
            graph = dead_branches(graph, feeds, fetches, targets)
        if self.settings.fusion:
            graph = ask_together(graph, {*targets, *(parse(e)[0] for e in (*feeds, *fetches))}, one_device)
        view = View.of(graph, feeds, fetches, targets, one_device, sources)
        check = os.environ.get(_VERIFY) == "1"
        for one in self._schedule(on, view):
            self._run(one, view, report, check)
        view.changes += 1  # an op that became another may have left its inputs to nobody
        view.prune()
        return view.graph()

    def _schedule(self, on: list[Pass], view: View) -> Iterator[Pass]:
        """The passes in order; those that feed each other again, while a round changes anything."""
        repeated = [i for i, p in enumerate(on) if p.repeated]
        first, last = (repeated[0], repeated[-1] + 1) if repeated else (len(on), len(on))
        yield from on[:first]
        for _ in range(self.settings.rounds):
            before = view.changes
            yield from on[first:last]
            view.prune()
            if view.changes == before:
                break
        yield from on[last:]

    def _run(self, one: Pass, view: View, report: Report | None, check: bool) -> None:
        self.give_way()
        before, started = _types(view) if report is not None else {}, time.thread_time()
        one.run(view, self.settings, self.folder)
        if check:
            verify(view.graph(), {parse(f)[0] for f in view.feeds} - view.ops.keys())
        if report is not None:
            took_s = time.thread_time() - started
            folded = self.folder.bytes if one.name == "constant_folding" else 0
            report.passes.append(PassReport.of(one.name, before, _types(view), took_s, folded))

    def optimize_placed(
        self,
        graph: GraphDef,
        feeds: Collection[str] = (),
        fetches: Collection[str] = (),
        targets: Collection[str] = (),
        costs: CostModel | None = None,
        report: Report | None = None,
    ) -> GraphDef:
        """The same of a placed graph. costs: what traced steps have shown of it."""
        about = Placed(self.settings, feeds, fetches, targets, costs)
        for one in PLACED_PASSES:
            if getattr(self.settings, one.name):
                self.give_way()
                before, started = graph, time.thread_time()
                graph = one.run(graph, about)
                if os.environ.get(_VERIFY) == "1":
                    verify(graph, {parse(f)[0] for f in feeds} - {n.name for n in graph.node})
                if report is not None:
                    took_s = time.thread_time() - started
                    old, new = ({n.name: n.op for n in g.node} for g in (before, graph))
                    report.passes.append(PassReport.of(one.name, old, new, took_s))
        return graph


def _types(view: View) -> dict[str, str]:
    return {name: op.op for name, op in view.ops.items()}
