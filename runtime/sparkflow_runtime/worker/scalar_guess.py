"""Which nodes of a plan are likely to compute single numbers, so that they get the form that is fast for those.

A guess: what is fed is taken to be a number, and what follows from numbers by arithmetic, branches and loops as well. A
wrong one costs time and changes no result (kernels/scalars.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.scalars import Form, scalar_form
from sparkflow_runtime.wire import control_flow as cf
from sparkflow_runtime.wire.edges import data_inputs, is_control, node_name, parse
from sparkflow_runtime.wire.protos import NodeDef

_HANDS_ON = {"Identity", "Switch", "Enter", "Exit", "NextIteration", cf.LOOP_COND}


class ScalarGuess:
    """`forms` of the nodes seen so far. constants: Const node -> value, filled by the caller as it goes."""

    def __init__(self, fed: Collection[str], constants: Mapping[str, Any]):
        self._fed, self._constants = fed, constants
        self._likely: set[str] = set()
        self.forms: dict[str, Form] = {}

    def see(self, node: NodeDef, attrs: Mapping[str, Any]) -> None:
        """Producers come before consumers, but for the edge by which a loop goes on."""
        edges = data_inputs(node)
        if node.op == "Const":  # in a branch or a loop: its control input keeps it from being a constant of the plan
            numbers = np.shape(attrs["value"]) == ()
        elif node.op == "Merge":
            numbers = any(self._is_number(e) for e in edges)
        elif node.op in _HANDS_ON:
            numbers = self._is_number(edges[0])
        else:
            form = scalar_form(node.op, attrs)
            numbers = form is not None and all(self._is_number(e) for e in edges)
            if numbers and form is not None:
                self.forms[node.name] = form
        if numbers:
            self._likely.add(node.name)

    def _is_number(self, e: str) -> bool:
        name = node_name(e)
        if name in self._likely or (not is_control(e) and "{}:{}".format(*parse(e)) in self._fed):
            return True
        return name in self._constants and np.shape(self._constants[name]) == ()
