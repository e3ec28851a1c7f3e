"""A run of a plan in order, without the machinery of a Step, as far as nothing has to wait."""

from __future__ import annotations

from typing import Any, NamedTuple

from sparkflow_runtime.worker.locate import failing_node, locate
from sparkflow_runtime.worker.units import Plan, Unit, completes, enter, leave


class Halted(NamedTuple):
    """A run of a plan that came to a wait: what it has computed, and the units that are done."""

    values: list[Any]
    done: set[int]


def free(values: list[Any], unit: Unit) -> None:
    for slot in unit.frees:
        values[slot] = None


def run_straight(plan: Plan, feeds: list[Any], lent: bool = False) -> list[Any] | Halted:
    """Its values, or how far it came. lent: as Plan.collect has it."""
    values: list[Any] = [None] * plan.num_slots
    for slot, value in zip(plan.feeds, feeds, strict=True):
        values[slot] = value  # type: ignore[index]
    order: list[int] = plan.order  # type: ignore[assignment]
    unit: Any = None
    entered: list[Any] = []
    try:
        enter(plan.surroundings, entered)
        for position, index in enumerate(order):
            unit = plan.units[index]
            if unit.segment is not None:
                unit.segment.run(values)
            elif not completes(unit, values):
                return Halted(values, set(order[:position]))
            if unit.frees:
                free(values, unit)
    except Exception as error:
        found = locate(error, plan.nodes.get(failing_node(error, unit)))
        raise found from (error if found is not error else error.__cause__)
    finally:
        found = None  # type: ignore[assignment]  # else it would hold itself, through its traceback
        try:
            leave(entered)
        finally:
            leave(entered)  # where Ctrl-C came meanwhile
    return plan.collect(values, lent)
