"""The table of ops has TensorFlow's inputs and outputs: in their order, by their names, of the same types."""

from __future__ import annotations

from typing import Any

import pytest
from tensorflow.python.framework import op_def_registry

import sparkflow
from sparkflow.framework.registry import lookup, registered
from tests.oracle.known import OWN

# TensorFlow may read a file when it folds constants, and calls none stateful that has a reference.
STATEFUL_HERE = {"CountUpTo", "MatchingFiles", "ReadFile"}


def _told(args: Any) -> list[tuple[Any, ...]]:
    return [(a.name, a.type, a.type_attr, a.number_attr, a.type_list_attr, a.is_ref) for a in args]


@pytest.mark.parametrize("name", [name for name in registered() if name not in OWN])
def test_inputs_and_outputs(name: str) -> None:
    with sparkflow.Graph().as_default() as graph:
        mine = sparkflow.Operation(graph, name, "x", [], _some_types(name), lookup(name)).op_def
    theirs = op_def_registry.get(name)
    assert _told(mine.input_arg) == _told(theirs.input_arg)
    assert _told(mine.output_arg) == _told(theirs.output_arg)
    assert mine.is_stateful == theirs.is_stateful or name in STATEFUL_HERE
    known = {a.name: a.type for a in theirs.attr}
    assert {a.name: a.type for a in mine.attr}.items() <= known.items()


def _some_types(name: str) -> dict[str, Any]:
    spec = lookup(name)
    found: dict[str, Any] = dict(spec.defaults)
    for arg in (*spec.inputs, *spec.outputs):
        if arg.number_attr:
            found.setdefault(arg.number_attr, 1)
        if arg.type_attr:
            found.setdefault(arg.type_attr, [sparkflow.float32] if arg.is_type_list else sparkflow.float32)
    return found
