"""Ops that order other ops, and checks."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.registry import op
from sparkflow.ops import array, rules
from sparkflow.ops.elementwise import of_ragged_too

op("NoOp", "->")
op("Assert", "condition: bool, data: [T] ->", stateful=True, summarize=3)
op("CheckNumerics", "tensor: T -> output: T", rules.same_float, stateful=True)
op("Print", "input: T, data: [U] -> output: T", rules.same, stateful=True, message="", first_n=-1, summarize=3)


def no_op(name: str | None = None) -> Operation:
    """An op that does nothing but run after its control inputs."""
    return apply_op("NoOp", name=name)


def group(*inputs: Any, name: str | None = None) -> Operation:
    """An op that is done when all inputs (tensors, ops, variables, nested lists of them) are.

    One NoOp stands on each device for the inputs there, so that a step crosses between devices once.
    """
    graph = get_default_graph()
    with graph.name_scope(name or "group_deps") as scope:
        by_device: dict[str, list[Operation]] = {}
        for item in _leaves(inputs):
            if isinstance(item, str):
                raise TypeError(f"group: expected operations and tensors, not names, got {item!r}")
            element = graph.as_graph_element(_element(item))
            operation = element.op if isinstance(element, Tensor) else element
            by_device.setdefault(operation.device, []).append(operation)
        if len(by_device) <= 1:
            ops = [o for here in by_device.values() for o in here]
            return _after(ops, next(iter(by_device), ""), scope)
        parts = [_after(here, device, "NoOp") for device, here in sorted(by_device.items())]
        with graph.control_dependencies(parts):
            return no_op(scope)


def _after(ops: Sequence[Operation], device: str, name: str) -> Operation:
    graph = get_default_graph()
    with graph.device(device or None), graph.control_dependencies(ops):
        return no_op(name)


def _leaves(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, (list, builtins.tuple)):
            yield from _leaves(value)
        elif value is None:
            raise TypeError("group: None is no operation or tensor; leave it out")
        else:
            yield value


def _element(value: Any) -> Any:
    return value.values if isinstance(value, IndexedSlices) else value


def with_dependencies(dependencies: Iterable[Any], output_tensor: Any, name: str | None = None) -> Any:
    """output_tensor's value, not passed on before all dependencies are done."""
    graph = get_default_graph()
    with graph.name_scope(name or "control_dependency") as scope:
        out = output_tensor if isinstance(output_tensor, IndexedSlices) else convert_to_tensor(output_tensor)
        with graph.colocate_with(out.op), graph.control_dependencies(dependencies):
            if isinstance(out, IndexedSlices):
                return IndexedSlices(array.identity(out.values, name=scope), out.indices, out.dense_shape)
            return array.identity(out, name=scope)


def tuple(tensors: Sequence[Any], name: str | None = None, control_inputs: Sequence[Any] | None = None) -> list[Any]:
    """The tensors (slices, None), none passed on before all of them, and the control inputs, are computed."""
    graph = get_default_graph()
    with graph.name_scope(name or "tuple"):
        waited = [_element(t).op for t in tensors if t is not None]
        for control in control_inputs or ():
            element = graph.as_graph_element(control)
            waited.append(element.op if isinstance(element, Tensor) else element)
        if not waited:
            raise ValueError(f"tuple: give at least one tensor or operation, got {tensors!r}")
        gate = group(*waited)
        return [None if t is None else with_dependencies([gate], t) for t in tensors]


def Assert(condition: Any, data: Sequence[Any], summarize: int | None = None, name: str | None = None) -> Operation:
    """An op that fails with InvalidArgumentError, showing `data`, where condition is false.

    Nothing waits for it by itself: use control_dependencies.
    """
    attrs = {"summarize": 3 if summarize is None else summarize}
    return apply_op("Assert", [condition, list(data)], attrs, name)


@of_ragged_too
def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """The tensor itself; InvalidArgumentError with `message` when it runs where a value is nan or infinite."""
    return apply_op("CheckNumerics", [tensor], {"message": message}, name)


def Print(
    input_: Any,
    data: Sequence[Any],
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Tensor:
    """input_ itself, writing `data` to stderr when it runs (at most first_n times)."""
    attrs = {"message": message or "", "first_n": -1 if first_n is None else first_n, "summarize": summarize or 3}
    return apply_op("Print", [input_, list(data)], attrs, name)
