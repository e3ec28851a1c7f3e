"""The reverse walk: from the gradients of a level's results to those of what they were computed from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

from sparkflow.framework import shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.contexts import output_context
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.grads import registry
from sparkflow.grads.level import Level, trainable
from sparkflow.ops import array, array_join, control_flow, math
from sparkflow.ops.control_flow_context import (
    BranchMark,
    Condition,
    condition_of,
    context_condition,
    inside,
    is_capture,
)
from sparkflow.ops.control_flow_while import WhileContext
from sparkflow_runtime.wire.errors import InvalidArgumentError

Gradient = Tensor | IndexedSlices | None


class Manner(NamedTuple):
    """How gradients() was called. scope: the name scope of all that it adds, with a '/' at its end. context: the branch
    or loop that it was called in."""

    scope: str
    context: Any
    colocate: bool
    gate: bool

    def beside(self, op: Operation) -> AbstractContextManager[Any]:
        return op.graph.colocate_with(op) if self.colocate else nullcontext()


class Walk:
    """One reverse walk over a level. `parts` collects, for each tensor, what its consumers say its gradient is."""

    def __init__(
        self, level: Level, manner: Manner, loop: Any = None, kept: dict[WhileContext, list[Any]] | None = None
    ):
        """loop: the gradient loop (grads.control_flow_while) in whose body this walk builds. kept: of each loop, the
        gradients of values inside it that its own gradient loop pops (a loop recalled these values)."""
        self.level, self.manner, self.loop = level, manner, loop
        self.parts: dict[Tensor, list[Any]] = {}
        self.kept: dict[WhileContext, list[Any]] = {} if kept is None else kept
        self._marks: dict[Condition, BranchMark] = {}
        self._around = get_default_graph()._get_control_flow_context()
        self.finished: dict[WhileContext, Operation] = {}

    def add(self, tensor: Tensor, gradient: Tensor | IndexedSlices) -> None:
        self.parts.setdefault(tensor, []).append(gradient)

    def run(self) -> None:
        from sparkflow.grads.control_flow_while import through_loop

        for node in reversed(self.level.order):
            if not self.level.live[node]:
                continue
            with self._side(self._condition(node)):
                if isinstance(node, WhileContext):
                    through_loop(self, node)
                elif self.level.loop is not None and node in self.level.loop.recalled:
                    self._through_pop(node)
                else:
                    self._through(node)

    @contextmanager
    def _side(self, found: Condition | None) -> Iterator[None]:
        """Mark what is made for a node in a branch: it is alive, and in loops recalled, only where that ran."""
        if found is None:
            yield
            return
        if found not in self._marks:
            pred = found[0] if self.loop is None else self.loop.context.AddValue(found[0])
            with inside(self._around):
                self._marks[found] = BranchMark(pred, found[1])
        mark = self._marks[found]
        mark.Enter()
        try:
            yield
        finally:
            mark.Exit()

    def _condition(self, node: Any) -> Condition | None:
        """The branch that a node is part of; what takes a value into a branch is outside of it."""
        if isinstance(node, WhileContext):
            return context_condition(node.outer_context)
        if self.level.loop is not None and node in self.level.loop.recalled:
            return condition_of(node.outputs[0])
        context = output_context(node)
        return context_condition(context.outer_context if is_capture(node) else context)

    def total(self, tensor: Tensor) -> Gradient:
        """The gradient of a tensor, summed once: all its consumers have spoken."""
        parts = self.parts.get(tensor)
        if not parts:
            return None
        if len(parts) > 1:
            with self._side(condition_of(tensor)), self.manner.beside(tensor.op):
                self.parts[tensor] = parts = [aggregate(parts)]
        return parts[0]

    def _through(self, op: Operation) -> None:
        """From the gradients of op's outputs to those of its inputs."""
        dys = [self.total(t) for t in op.outputs]
        if all(dy is None for dy in dys):
            return
        function = registry.find(op)
        if function is None:
            return
        with op.graph.name_scope(f"{self.manner.scope}{op.name}_grad/"), self.manner.beside(op):
            dxs = self._called(function, op, dys)
        for tensor, dx in zip(op.inputs, dxs):
            if dx is not None:
                _check_shape(op, tensor, dx)
                self.add(tensor, dx)

    def _through_pop(self, op: Operation) -> None:
        """Keep the gradient of a recalled value until the loop that made the value is differentiated."""
        dy = self.total(op.outputs[0])
        if dy is not None:
            assert self.level.loop is not None and self.loop is not None, "pops are in gradient loops"
            self.loop.keep(op, self.level.loop.recalled[op], convert_to_tensor(dy))

    def _called(self, function: registry.GradientFunction, op: Operation, dys: list[Gradient]) -> list[Any]:
        traits = registry.traits(op)
        dys = [_prepared(dy, t, traits) for dy, t in zip(dys, op.outputs)]
        dxs = as_list(function(op, *dys)) or [None]
        if len(dxs) != len(op.inputs):
            raise ValueError(f"The gradient of {op.type} has {len(dxs)} values for the {len(op.inputs)} inputs of {op}")
        needed = [trainable(t) and self.level.leads(t) for t in op.inputs]
        dxs = [dx() if callable(dx) else dx for dx in (d if n else None for d, n in zip(dxs, needed))]
        if self.manner.gate and sum(dx is not None for dx in dxs) > 1:
            return control_flow.tuple(dxs)
        return dxs


def as_list(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def _prepared(dy: Gradient, output: Tensor, traits: registry.Traits) -> Gradient:
    """What a gradient function is given: zeros for an unused output, a dense tensor, unless it takes what there is."""
    if dy is None:
        return array.zeros_like(output) if trainable(output) and not traits.partial else None
    return dy if traits.sparse or isinstance(dy, Tensor) else convert_to_tensor(dy)


def _check_shape(op: Operation, tensor: Tensor, dx: Tensor | IndexedSlices) -> None:
    if not isinstance(dx, Tensor):
        return
    try:
        dx.set_shape(tensor._shape)
    except InvalidArgumentError:
        raise InvalidArgumentError(
            op.node_def,
            op,
            f"The gradient of {op.type} has shape {shapes.show(dx._shape)} for input {tensor.name!r} of shape "
            f"{shapes.show(tensor._shape)} [op {op.name!r}]",
        ) from None


def aggregate(parts: Sequence[Tensor | IndexedSlices]) -> Tensor | IndexedSlices:
    """The sum: AddN of tensors (on each device first), the rows of slices one after another, dense where both occur."""
    if all(isinstance(part, IndexedSlices) for part in parts):
        return _all_rows(parts)  # type: ignore[arg-type]
    tensors = [convert_to_tensor(part) for part in parts]
    by_device: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        by_device.setdefault(tensor.device, []).append(tensor)
    if len(by_device) == 1:
        return math.add_n(tensors)
    sums = []
    for _, here in sorted(by_device.items()):
        with here[0].graph.colocate_with(here[0].op):
            sums.append(math.add_n(here))
    return math.add_n(sums)


def _all_rows(parts: Sequence[IndexedSlices]) -> IndexedSlices:
    values = array_join.concat([p.values for p in parts], 0)
    wide = any(p.indices.dtype.size == 8 for p in parts)
    indices = [math.to_int64(p.indices) if wide and p.indices.dtype.size != 8 else p.indices for p in parts]
    return IndexedSlices(values, array_join.concat(indices, 0), parts[0].dense_shape)
