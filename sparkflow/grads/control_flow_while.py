"""The gradient of a loop: a loop that goes through the same iterations backwards.

The forward loop gets a counter, and pushes each value that the gradient needs onto a stack of its own. The gradient
loop counts down from there; its variables are the gradients of the forward loop's variables, its body is the reverse
walk through the forward body, and it pops what it needs. What the forward loop only took from outside has a gradient
that is summed over the iterations.
"""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import constant, convert_to_tensor
from sparkflow.framework.contexts import chain, is_loop_constant_enter, output_context, while_context
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.shapes import compatible, merge
from sparkflow.grads.control_flow import no_rows
from sparkflow.grads.level import Body, Node, node_of, result_of
from sparkflow.grads.walk import Walk
from sparkflow.ops import array, array_join, math
from sparkflow.ops.control_flow_context import CondContext, Condition, condition_of, inside
from sparkflow.ops.control_flow_nodes import control_trigger, switch
from sparkflow.ops.control_flow_while import LoopVariable, WhileContext, loops
from sparkflow.ops.stack import stack_pop_v2, stack_push_v2, stack_v2
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError


def through_loop(walk: Walk, loop: WhileContext) -> None:
    """From the gradients of the loop's Exits to those of its initial values and of what it takes from outside."""
    body = walk.level.bodies[loop]
    dys = {v: dy for v in body.variables if (dy := walk.total(v.exit)) is not None}
    if dys or _begins(walk, loop):
        with loop.pivot.graph.name_scope(f"{walk.manner.scope}{loop.name}_grad/"):
            GradientLoop(walk, body, dys).build()


def _begins(walk: Walk, loop: WhileContext) -> list[Node]:
    """The nodes of the loop's body at which gradients were kept for it, or for loops inside it."""
    nodes: list[Node] = [node_of(value) for value, *_ in walk.kept.get(loop, ())]
    return nodes + [inner for other in walk.kept for inner in loops(other) if inner._outer_loop() is loop]


class GradientContext(WhileContext):
    """The gradient loop as a context: a value of the forward loop stands here for what was pushed."""

    def __init__(self, forward: WhileContext, state: GradientLoop):
        super().__init__(
            parallel_iterations=forward.parallel_iterations,
            back_prop=forward.back_prop,
            swap_memory=forward.swap_memory,
        )
        self.forward, self._state = forward, state

    def _captured(self, val: Tensor) -> Tensor:
        if while_context(val.op) is not self.forward:
            return super()._captured(val)
        if is_loop_constant_enter(val.op):
            return self.AddValue(val.op.inputs[0])
        if val.op.type == "Const":
            with inside(self):
                return constant(val.op.attrs["value"], val.dtype, name=val.op.name.rpartition("/")[2])
        return self._state.recalled(val)


def _refuse_inside_another(walk: Walk, forward: WhileContext) -> None:
    """What the forward loop pushes once cannot be popped in each iteration of another loop."""
    around = set(chain(forward.outer_context))
    for context in chain(forward.pivot.graph._get_control_flow_context()) if walk.loop is None else ():
        if isinstance(context, WhileContext) and context not in around:
            raise InvalidArgumentError(
                f"Cannot take the gradient through the loop {forward.name!r} inside {context.name!r}, in which "
                "it does not run: call tf.gradients outside, or in a Python loop, once for each iteration"
            )


class GradientLoop:
    """One forward loop in one reverse walk."""

    def __init__(self, walk: Walk, body: Body, dys: dict[LoopVariable, Any]):
        self.walk, self.body, self.forward = walk, body, body.loop
        _refuse_inside_another(walk, body.loop)
        self.outer: GradientLoop | None = walk.loop
        self.kept: list[tuple[Tensor, Tensor, Tensor]] = walk.kept.get(body.loop, [])
        self.variables = body.reached(dys, _begins(walk, body.loop))
        self.dys = dys
        counter = self._counter()
        self.counted = counter.next.op.inputs[0].op  # the addition: it runs once in each iteration
        self.total = counter.exit
        self.taken: dict[Tensor, Tensor | IndexedSlices] = {}  # gradients of what comes from outside
        self.pushed = counter.next.op  # waits for all pushes of its iteration
        self.trigger: Operation | None = None  # gathers pushes in branches, which may not run
        self.context = GradientContext(self.forward, self)
        self.sync: Operation | None = None  # gathers the pops of an iteration

    def _counter(self) -> LoopVariable:
        """Counts the forward loop's iterations. Pushes of an outer iteration come before those of the next one."""
        with inside(self.forward.outer_context):
            zero = constant(0, name="f_count")
        if self.outer is not None:
            zero.op.add_control_input(self.outer.counted)
        return self.forward.AddVariable(zero, lambda n: math.add(n, 1), "f_count")

    def build(self) -> None:
        """Add the gradient loop, and give the walk around the gradients that come out of it."""
        inits = [self.total, *(self._init(v) for v in self.variables)]
        dims = [(), *(v.merge._shape for v in self.variables)]
        exits = self.context.Build(lambda values: math.greater_equal(values[0], 1), self._step, inits, dims)
        assert self.sync is not None, "Build has called _step"
        count = self.context.variables[0]
        count.next.op.add_control_input(self.sync)
        for loop, finish in self.walk.finished.items():
            if self.forward in loop.follows:  # its gradient pushes what is popped here
                count.enter.op.add_control_input(finish)
        self.walk.finished[self.forward] = exits[0].op
        if self.outer is not None and self.outer.sync is not None:
            self.outer.sync.add_control_input(exits[0].op)
        for variable, out in zip(self.variables, exits[1:]):
            self.walk.add(variable.enter.op.inputs[0], out)
        for taken, dx in self.taken.items():
            self.walk.add(taken, self._summed(taken, dx))

    def _init(self, variable: LoopVariable) -> Tensor:
        dy = self.dys.get(variable)
        return array.zeros_like(variable.exit) if dy is None else convert_to_tensor(dy)

    def _step(self, values: list[Tensor]) -> list[Tensor]:
        """One iteration backwards: from the gradients of the next values to those of the values."""
        self.sync = control_trigger("b_sync")
        self.inner = Walk(self.body.level, self.walk.manner, self, self.walk.kept)
        for value, stack, gradient in self.kept:
            self.inner.add(value, self._pop(stack, value, gradient))
        for variable, dy in zip(self.variables, values[1:]):
            self.inner.add(result_of(variable), dy)
        self.inner.run()
        totals = {entered.op.inputs[0]: self.inner.total(entered) for entered in self.body.captures}
        self.taken = {taken: dx for taken, dx in totals.items() if dx is not None}
        return [math.subtract(values[0], 1), *(self._gradient(v) for v in self.variables)]

    def _gradient(self, variable: LoopVariable) -> Tensor:
        for part in self.inner.parts.pop(variable.merge, ()):
            self.inner.add(variable.go, part)
        dy = self.inner.total(variable.go)
        result = array.zeros_like(variable.go) if dy is None else convert_to_tensor(dy)
        if compatible(result._shape, variable.merge._shape):
            result._shape = merge(result._shape, variable.merge._shape)
        return result

    # ------------------------------------------------------------------ sums over the iterations

    def _summed(self, taken: Tensor, dx: Tensor | IndexedSlices) -> Tensor | IndexedSlices:
        """The sum of dx, a gradient in each iteration, of something that the forward loop takes from outside."""
        context = self.context
        if isinstance(dx, IndexedSlices):
            return self._all_rows(taken, dx)
        zero = array.zeros_like(taken)
        add = (lambda *parts: math.add_n(parts)) if dx.dtype is dtypes.variant else math.add
        return context.AddVariable(zero, lambda total: add(total, dx), "b_acc").exit

    def _all_rows(self, taken: Tensor, dx: IndexedSlices) -> IndexedSlices:
        none = no_rows(dx, taken)

        def rows(init: Tensor, more: Tensor) -> Tensor:
            dims = None if init._shape is None else (None, *init._shape[1:])
            return self.context.AddVariable(init, lambda rows: array_join.concat([rows, more], 0), "b_acc", dims).exit

        shape = None if dx.dense_shape is None else math.cast(array.shape(taken), dx.dense_shape.dtype)
        return IndexedSlices(rows(none.values, dx.values), rows(none.indices, dx.indices), shape)

    # ------------------------------------------------------------------ what the forward loop leaves behind

    def recalled(self, value: Tensor) -> Tensor:
        """value, of the forward loop, in the iteration that the gradient loop is at."""
        stack = self._stack(value)
        self._push(stack, value)
        return self._pop(stack, value, value)

    def _stack(self, value: Tensor) -> Tensor:
        """A stack for such values: one for the step, or, where gradients() is called in a loop, one an iteration."""
        context = self.walk.manner.context
        context = context if context in chain(self.forward.outer_context) else None
        with inside(context), value.graph.colocate_with(value.op):  # its pushes and pops go where the handle is
            return stack_v2(value.dtype)

    def keep(self, pop: Operation, value: Tensor, dy: Tensor) -> None:
        """Push dy, the gradient of what `pop` gave the forward loop, for the gradient of the loop that made `value`.

        That one meets the iterations in the opposite order, as a stack gives them.
        """
        condition = condition_of(pop.outputs[0])
        if condition is not None and condition_of(dy) is None:
            dy = array.identity(dy)  # made here, it is known to be of this branch
        stack = self._stack(dy)
        with inside(self.context):
            push = stack_push_v2(_sided(stack, condition), dy, self.forward.swap_memory)
        assert self.sync is not None, "gradients are kept in the body alone"
        self.sync.add_control_input(push.op)
        self.walk.kept.setdefault(while_context(value.op), []).append((value, stack, dy))

    def _push(self, stack: Tensor, value: Tensor) -> None:
        context, condition = output_context(value.op), condition_of(value)
        with inside(context):
            captured = type(context) is CondContext and condition == (context.pred, context.branch)
            handle = stack if captured else _sided(stack, condition)
            push = stack_push_v2(handle, value, self.forward.swap_memory)
        push.op.add_control_input(self.counted)  # in iterations that happen, not after the last
        if condition is None:
            self.pushed.add_control_input(push.op)
            return
        if self.trigger is None:
            with inside(self.forward):
                self.trigger = control_trigger("f_sync")
            self.pushed.add_control_input(self.trigger)
        self.trigger.add_control_input(push.op)

    def _pop(self, stack: Tensor, value: Tensor, pushed: Tensor) -> Tensor:
        """What stands for `pushed`, in the iteration in which the forward loop made `value`, or nothing."""
        with inside(self.context):
            popped = stack_pop_v2(_sided(stack, condition_of(value)), value.dtype)
        popped._shape = value._shape
        self.context.Recalls(popped.op, pushed)
        assert self.sync is not None, "values are recalled in the body alone"
        self.sync.add_control_input(popped.op)
        return popped


def _sided(stack: Tensor, condition: Condition | None) -> Tensor:
    """The handle, alive where that condition holds."""
    return stack if condition is None else switch(stack, condition[0])[condition[1]]
