"""The primitive nodes of conditionals and loops: Switch, Merge, Enter, Exit, NextIteration, LoopCond.

A value is alive or dead. Switch makes one of its outputs alive; an op with a dead input makes dead outputs without
running; Merge passes on the one of its inputs that is alive. Enter brings a value into a loop's frame, where each
iteration has values of its own, NextIteration into the iteration after, Exit out of the frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.nest import composite_of
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims, show
from sparkflow.ops import rules
from sparkflow_runtime.wire.errors import InvalidArgumentError


def weakest(a: Dims, b: Dims) -> Dims:
    """What holds of values of either shape."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b))


def _switch_rule(op: Operation) -> list[Dims]:
    _check_predicate(op.inputs[1])
    return [op.inputs[0]._shape] * 2


def _loop_cond_rule(op: Operation) -> list[Dims]:
    _check_predicate(op.inputs[0])
    return [()]


def _check_predicate(pred: Tensor) -> None:
    if pred._shape is not None and pred._shape != ():
        raise InvalidArgumentError(
            f"The predicate of a branch or loop must be a scalar, and {pred.name} has shape {show(pred._shape)}"
        )


def _merge_rule(op: Operation) -> list[Dims]:
    dims = op.inputs[0]._shape
    for tensor in op.inputs[1:]:
        dims = weakest(dims, tensor._shape)
    return [dims, ()]


_FRAME: dict[str, Any] = {"is_constant": False, "parallel_iterations": 10}
op("Switch", "data: T, pred: bool -> output_false: T, output_true: T", _switch_rule)
op("RefSwitch", "data: &T, pred: bool -> output_false: &T, output_true: &T", _switch_rule)
op("Merge", "inputs: N * T -> output: T, value_index: int32", _merge_rule)
op("RefMerge", "inputs: &N * T -> output: &T, value_index: int32", _merge_rule)
op("Enter", "data: T -> output: T", rules.same, **_FRAME)
op("RefEnter", "data: &T -> output: &T", rules.same, **_FRAME)
op("Exit", "data: T -> output: T", rules.same)
op("RefExit", "data: &T -> output: &T", rules.same)
op("NextIteration", "data: T -> output: T", rules.same)
op("RefNextIteration", "data: &T -> output: &T", rules.same)
op("LoopCond", "input: bool -> output: bool", _loop_cond_rule)
op("RefIdentity", "input: &T -> output: &T", rules.same)
op("ControlTrigger", "->")


def _ref(op_type: str, data: Tensor) -> str:
    return f"Ref{op_type}" if data.dtype.is_ref else op_type


def switch(data: Any, pred: Any, name: str | None = None) -> tuple[Any, Any]:
    """(data where pred is false, data where pred is true): one of the two is dead. data: a tensor or IndexedSlices."""
    composite = composite_of(data)
    if composite is None:
        tensor = convert_to_tensor(data, name="data")
        return apply_op("Switch", [tensor, pred], name=name)
    pairs = [(None, None) if part is None else switch(part, pred, name) for part in composite.parts(data)]
    return composite.build(data, [p[0] for p in pairs]), composite.build(data, [p[1] for p in pairs])


def switch_ref_or_tensor(data: Any, pred: Tensor, name: str = "Switch") -> tuple[Any, Any]:
    """switch beside the data; a reference to a variable stays one."""
    if composite_of(data) is not None:
        return switch(data, pred, name)
    tensor = convert_to_tensor(data, as_ref=True)
    with tensor.graph.colocate_with(tensor, ignore_existing=True):
        no, yes = apply_op(_ref("Switch", tensor), [tensor, pred], name=name)
    return no, yes


def merge(inputs: Sequence[Any], name: str | None = None) -> tuple[Any, Tensor]:
    """(the input that is alive, its number). inputs: tensors, or all IndexedSlices. Raises ValueError on None."""
    if any(i is None for i in inputs):
        raise ValueError(f"At least one of the merge inputs is None: {list(inputs)}")
    composite = composite_of(inputs[0])
    if composite is None:
        tensors = [convert_to_tensor(i, as_ref=True) for i in inputs]
        refs = all(t.dtype.is_ref for t in tensors)
        return apply_op("RefMerge" if refs else "Merge", [tensors], name=name)
    columns = list(zip(*(composite.parts(_of_kind(i, inputs[0])) for i in inputs)))
    merged = [None if any(part is None for part in column) else merge(column, name) for column in columns]
    found = [m for m in merged if m is not None]
    return composite.build(inputs[0], [None if m is None else m[0] for m in merged]), found[0][1]


def _of_kind(value: Any, like: Any) -> Any:
    if not isinstance(value, type(like)):
        raise TypeError(f"merge: all inputs must be {type(like).__name__}, got {value!r}")
    return value


def enter(
    data: Tensor, frame_name: str, is_constant: bool = False, parallel_iterations: int = 10, name: str | None = None
) -> Tensor:
    """data in the frame of a loop: in its first iteration, in all where is_constant."""
    attrs = {"frame_name": frame_name, "is_constant": is_constant, "parallel_iterations": parallel_iterations}
    return apply_op(_ref("Enter", data), [data], attrs, name or "Enter")


def exit(data: Tensor, name: str | None = None) -> Tensor:
    """data out of the frame, from the iteration in which it is alive."""
    return apply_op(_ref("Exit", data), [data], name=name or "Exit")


def next_iteration(data: Any, name: str | None = None) -> Tensor:
    """data in the iteration after this one."""
    data = convert_to_tensor(data, as_ref=True)
    return apply_op(_ref("NextIteration", data), [data], name=name or "NextIteration")


def loop_cond(pred: Any, name: str | None = None) -> Tensor:
    """pred, marked as what decides whether the loop goes on."""
    return apply_op("LoopCond", [pred], name=name or "LoopCond")


def control_trigger(name: str | None = None) -> Operation:
    """An op that runs after its control inputs even where these are dead."""
    return apply_op("ControlTrigger", name=name)
