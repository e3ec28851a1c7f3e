"""Branches and loops within a function of tf.function: what lasts of what they do is in the order of its statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sparkflow.framework import nest
from sparkflow.framework.graph import Graph, Operation, Tensor
from sparkflow.framework.program_order import ProgramOrder, merged, ordered
from sparkflow.ops import array, control_flow


class BranchesInOrder:
    """A cond or a loop that is being built. Without a function around it does nothing."""

    def __init__(self, graph: Graph):
        self._graph, self._order = graph, graph._order
        self._inner: list[ProgramOrder] = []

    def waiting(self) -> AbstractContextManager[None]:
        """Ops made inside wait for what the function did before."""
        waits = [] if self._order is None else self._order.waits()
        return self._graph.control_dependencies(waits) if waits else nullcontext()

    def within(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A branch, condition or body whose results wait for what must run in it."""
        if self._order is None:
            return function
        inner = ProgramOrder()
        self._inner.append(inner)

        def traced(*args: Any) -> Any:
            with ordered(self._graph, inner):
                return after(self._graph, function(*args), list(inner.must_run))

        return traced

    def over(self, results: Sequence[Tensor]) -> None:
        """It is built, and done when these are known."""
        if self._order is not None:
            self._order.took(merged(self._inner), [t.op for t in results])


def after(graph: Graph, result: Any, ops: list[Operation]) -> Any:
    """The same values, known once these ops have run."""
    if not ops or result is None:
        return result

    def waiting(leaf: Any) -> Any:
        return control_flow.no_op() if isinstance(leaf, Operation) else array.identity(leaf)

    with graph.control_dependencies(ops):
        return nest.map_structure(waiting, result, expand_composites=True)
