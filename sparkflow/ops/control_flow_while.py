"""while_loop, and the context of a loop.

Each loop variable goes Enter -> Merge -> Switch -> (Identity -> body -> NextIteration -> Merge | Exit). A value from
outside that the body uses comes in through one Enter that is constant: it is the same in all iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sparkflow.framework import nest, shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.contexts import chain, is_loop_constant_enter, output_context, while_context
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.shapes import Dims, TensorShape
from sparkflow.ops import array, math
from sparkflow.ops.branches_in_order import BranchesInOrder
from sparkflow.ops.control_flow_context import ControlFlowContext, inside
from sparkflow.ops.control_flow_nodes import enter, exit, loop_cond, merge, next_iteration, switch_ref_or_tensor

NO_GRADIENT = "_no_gradient"  # attribute of the Enters of a loop that back_prop=False was said of
_START: Any = object()  # the shape that a variable has at the start


class LoopVariable(NamedTuple):
    """The nodes of one loop variable, by their outputs. stop, go: those of its Switch."""

    enter: Tensor
    merge: Tensor
    stop: Tensor
    go: Tensor
    next: Tensor
    exit: Tensor


class WhileContext(ControlFlowContext):
    """A loop: its frame's name, its variables, and what it takes from outside."""

    def __init__(
        self,
        maximum_iterations: Any = None,
        parallel_iterations: int = 10,
        back_prop: bool = True,
        swap_memory: bool = False,
        name: str = "while_context",
    ):
        super().__init__()
        self.name = self._graph.unique_name(name)
        self._maximum_iterations, self._parallel_iterations = maximum_iterations, parallel_iterations
        self._back_prop, self._swap_memory = back_prop, swap_memory
        self._pivot: Tensor | None = None
        self._pivot_for_pred: Tensor | None = None
        self._pivot_for_body: Tensor | None = None
        self._waits = {op for group in self._graph._control_stack for op in group}  # the Enters run after these
        self.variables: list[LoopVariable] = []
        self._pending: list[Tensor] = []  # Enters of variables not complete yet
        self.recalled: dict[Operation, Tensor] = {}  # of a gradient: each pop, and what another loop pushed there
        self.pushed: list[Tensor] = []  # what others recall from here
        self.follows: set[WhileContext] = set()  # loops beside this one that push what is popped inside it

    maximum_iterations = property(lambda self: self._maximum_iterations)
    parallel_iterations = property(lambda self: self._parallel_iterations)
    back_prop = property(lambda self: self._back_prop)
    swap_memory = property(lambda self: self._swap_memory)
    pivot = property(lambda self: self._pivot)
    loop_exits = property(lambda self: [v.exit for v in self.variables])

    @property
    def loop_enters(self) -> list[Tensor]:
        return [v.enter for v in self.variables] or list(self._pending)

    def GetWhileContext(self) -> WhileContext:
        return self

    def GetControlPivot(self) -> Tensor | None:
        return self._pivot_for_pred if self._pivot_for_body is None else self._pivot_for_body

    # ------------------------------------------------------------------ what ops inside take

    def _captured(self, val: Tensor) -> Tensor:
        return self._enter(self._outside(val), is_constant=True)

    def _enter(self, val: Tensor, is_constant: bool, name: str | None = None) -> Tensor:
        """An Enter of val, which is a value of the context around."""
        with inside(self._outer_context):
            result = enter(val, self.name, is_constant, self._parallel_iterations, name)
        if not self._back_prop:
            result.op.attrs[NO_GRADIENT] = True
        for op in self._waits:
            if self._may_wait(op):
                result.op.add_control_input(op)
        result.op._set_control_flow_context(self)
        self._graph.prevent_fetching(result.op)
        return result

    def _may_wait(self, op: Operation) -> bool:
        """Whether an Enter of this loop may run after op: not where op is in another frame than the Enter's input."""
        source, outer = output_context(op), self._outer_context
        loop = self._outer_loop()
        if source is None:
            return loop is None
        return source in chain(outer) and source.GetWhileContext() is loop

    def _add_controls(self, op: Operation) -> None:
        external = [c for c in self._drop_external_controls(op) if c.outputs and c not in self._waits]
        if not op.control_inputs and all(is_loop_constant_enter(t.op) for t in op.inputs):
            pivot = self.GetControlPivot()  # nothing else ties it to an iteration
            if pivot is not None:
                op.add_control_input(pivot.op)
        for control in external:
            with inside(self):
                op.add_control_input(array.identity(control.outputs[0]).op)

    def Recalls(self, pop: Operation, value: Tensor) -> None:
        """Note that `pop`, inside this loop, takes what another loop pushed: its `value`."""
        self.recalled[pop] = value
        while_context(value.op).pushed.append(value)
        for mine in loops(self):
            others = loops(while_context(value.op))
            mine.follows.update(o for o in others if o._outer_loop() is mine._outer_loop())

    def _outer_loop(self) -> Any:
        return None if self._outer_context is None else self._outer_context.GetWhileContext()

    # ------------------------------------------------------------------ variables

    def AddVariable(
        self, init: Tensor, step: Callable[[Tensor], Tensor], name: str, dims: Dims = _START
    ) -> LoopVariable:
        """Add a variable to a loop that is built: it starts as `init`, and step(value) is the next value.

        dims: its static shape in all iterations, that of `init` by default.
        """
        assert self._pivot is not None, "Build comes first"
        entered = self._enter(self._outside(init), is_constant=False, name=name)
        entered._shape = entered._shape if dims is _START else dims
        with self._graph._unfinished, inside(self):
            merged = merge([entered, entered])[0]
            stop, go = switch_ref_or_tensor(merged, self._pivot)
            following = next_iteration(step(go))
            merged.op._update_input(1, following)
            variable = LoopVariable(entered, merged, stop, go, following, exit(stop, name))
        self.variables.append(variable)
        return variable

    def Build(
        self,
        pred: Callable[[list[Tensor]], Any],
        body: Callable[[list[Tensor]], list[Tensor]],
        inits: Sequence[Tensor],
        invariants: Sequence[Dims],
    ) -> list[Tensor]:
        """Build the loop of these variables; returns their Exits. invariants: the static shape of each, in all
        iterations."""
        outside = [self._outside(x) for x in inits]
        self._pending = enters = [self._entered(x, dims) for x, dims in zip(outside, invariants, strict=True)]
        self.Enter()
        try:
            merges = [merge([x, x])[0] for x in enters]
            self._pivot_for_pred = merges[0]
            self._pivot = loop_cond(pred(merges), name="LoopCond")
            switches = [switch_ref_or_tensor(m, self._pivot) for m in merges]
            values = [array.identity(go) for _, go in switches]
            for value, merged in zip(values, merges):
                value.set_shape(merged._shape)
            self._pivot_for_body = values[0]
            results = body(values)
            nexts = [self._back_edge(m, r) for m, r in zip(merges, results, strict=True)]
            exits = [exit(stop) for stop, _ in switches]
        finally:
            self.Exit()
        for (stop, go), *row in zip(switches, enters, merges, nexts, exits):
            entered, merged, following, out = row
            self.variables.append(LoopVariable(entered, merged, stop, go, following, out))
        return exits

    def _entered(self, value: Tensor, dims: Dims) -> Tensor:
        result = self._enter(value, is_constant=False)
        pivot = self._outer_pivot()
        if pivot is not None and is_loop_constant_enter(value.op):
            result.op.add_control_input(pivot.op)
        if not shapes.compatible(value._shape, dims):
            raise ValueError(
                f"The shape invariant specified for {value.name} is not compatible with the initial shape of the loop "
                f"variable. It enters the loop with shape {shapes.show(value._shape)}, but the specified shape "
                f"invariant is {shapes.show(dims)}."
            )
        result._shape = dims
        return result

    def _outer_pivot(self) -> Tensor | None:
        pivots = (context.GetControlPivot() for context in chain(self._outer_context))
        return next((pivot for pivot in pivots if pivot is not None), None)

    def _back_edge(self, merged: Tensor, result: Tensor) -> Tensor:
        if result.dtype.base_dtype is not merged.dtype.base_dtype:
            raise TypeError(
                f"Loop variable {merged.op.inputs[0].op.inputs[0].name} has dtype {merged.dtype.name} when it enters "
                f"the loop, but the body returned {result.name} of dtype {result.dtype.base_dtype.name}"
            )
        following = next_iteration(result)
        _check_invariant(merged, following)
        merged.op._update_input(1, following)
        return following


def loops(context: Any) -> list[WhileContext]:
    """The loops around ops of a context, itself among them, innermost first."""
    return [c for c in chain(context) if isinstance(c, WhileContext)]


def _check_invariant(merged: Tensor, following: Tensor) -> None:
    want, got = merged._shape, following._shape
    if want is None:
        return
    less = got is None or len(got) != len(want) or any(w is not None and g != w for w, g in zip(want, got))
    if less:
        raise ValueError(
            f"The shape of loop variable {merged.op.inputs[0].op.inputs[0].name!r} is not an invariant: it enters the "
            f"loop with shape {shapes.show(want)}, but has shape {shapes.show(got)} after one iteration. Give a less "
            "specific shape in the `shape_invariants` argument of tf.while_loop, or call set_shape() in the body."
        )


# ---------------------------------------------------------------------- the function


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Run `loop_vars = body(*loop_vars)` while cond(*loop_vars), a bool scalar, is true; the values after the last.

    loop_vars: a list, of tensors, what converts to them, TensorArrays, IndexedSlices, or nested structures of those;
    the body returns the same structure with the same types. shape_invariants: the same structure of shapes that hold in
    all iterations; by default the shapes at the start. parallel_iterations: how many may run at once. back_prop: False
    stops gradients. maximum_iterations: stop after so many. swap_memory: may move what gradients need out of the
    device's memory. return_same_structure: a list of one stays one instead of being returned as its element.
    Raises TypeError where cond or body are no functions, ValueError where there are no variables, the structures
    differ, or a shape changes that is not said to.
    """
    if not callable(cond):
        raise TypeError("cond must be callable.")
    if not callable(body):
        raise TypeError("body must be callable.")
    if not loop_vars:
        raise ValueError("No loop variables provided")
    if parallel_iterations < 1:
        raise TypeError(f"parallel_iterations must be a positive integer, got {parallel_iterations!r}")
    packed = list(loop_vars) if isinstance(loop_vars, (list, tuple)) else [loop_vars]
    in_order = BranchesInOrder(get_default_graph())
    with get_default_graph().name_scope(name or "while"), in_order.waiting():
        invariants = _invariants(packed, shape_invariants)
        limit = None if maximum_iterations is None else _limit(maximum_iterations)
        context = WhileContext(limit, parallel_iterations, back_prop, swap_memory)
        with get_default_graph()._unfinished:
            goes_on, step = in_order.within(cond), in_order.within(body)
            result, exits = _build(context, goes_on, step, packed, invariants, limit)
        in_order.over(exits)
        get_default_graph().add_to_collection(GraphKeys.WHILE_CONTEXT, context)
        out = nest.pack_sequence_as(result, exits, expand_composites=True)
        return out if return_same_structure or len(exits) != 1 else nest.flatten(out)[0]


def _limit(maximum_iterations: Any) -> Tensor:
    limit = convert_to_tensor(maximum_iterations, name="maximum_iterations")
    if limit._shape != ():
        raise ValueError(f"maximum_iterations must be a scalar, saw shape: {shapes.show(limit._shape)}")
    return limit


def _invariants(loop_vars: list[Any], given: Any) -> list[Any]:
    """One entry a flat tensor: its invariant shape, _START where that is not given or None."""
    leaves = nest.flatten(loop_vars)
    if given is None:
        return [_START for leaf in leaves for _ in _parts(leaf)]
    wanted = nest.flatten(list(given) if isinstance(given, (list, tuple)) else [given])
    if len(wanted) != len(leaves):
        raise ValueError(f"while_loop: {len(leaves)} loop variables, but {len(wanted)} shape invariants: {given!r}")
    return [dims for leaf, shape in zip(leaves, wanted) for dims in _part_invariants(leaf, shape)]


def _parts(leaf: Any) -> list[Any]:
    return nest.flatten(leaf, expand_composites=True)


def _part_invariants(leaf: Any, shape: Any) -> list[Any]:
    if not isinstance(shape, TensorShape) and shape is not None:
        raise TypeError(f"while_loop: a shape invariant must be a TensorShape, got {shape!r}")
    if shape is None:
        return [_START for _ in _parts(leaf)]
    dims = shapes.as_dims(shape)
    if nest.composite_of(leaf) is None:
        return [dims]
    if hasattr(leaf, "part_invariants"):
        return leaf.part_invariants(dims)
    return [dims, (None if dims is None else dims[0],), *[_START for _ in _parts(leaf)[2:]]]


def _build(
    context: WhileContext,
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: list[Any],
    invariants: list[Any],
    limit: Tensor | None,
) -> tuple[Any, list[Tensor]]:
    """(what the body returned, the Exits of its leaves)."""
    flat = [_init(leaf) for leaf in nest.flatten(loop_vars, expand_composites=True)]
    dims = [x._shape if known is _START else known for x, known in zip(flat, invariants, strict=True)]
    returned: list[Any] = []
    counted = limit is not None
    if limit is not None:
        flat = [convert_to_tensor(0, limit.dtype.base_dtype, "iteration_counter"), *flat]
        dims = [(), *dims]

    def packed(values: list[Tensor]) -> list[Any]:
        return nest.pack_sequence_as(loop_vars, values[counted:], expand_composites=True)

    def goes_on(values: list[Tensor]) -> Any:
        if limit is None:
            return cond(*packed(values))
        return math.logical_and(math.less(values[0], limit), cond(*packed(values)))

    def step(values: list[Tensor]) -> list[Tensor]:
        inner = packed(values)
        result = body(*inner)
        alone = not isinstance(result, (list, tuple)) or (len(inner) == 1 and type(inner[0]) is type(result))
        result = [result] if alone else result
        nest.assert_same_structure(inner, list(result), expand_composites=True)
        returned.append(result)
        tensors = [convert_to_tensor(leaf) for leaf in nest.flatten(result, expand_composites=True)]
        return [math.add(values[0], 1), *tensors] if counted else tensors

    exits = context.Build(goes_on, step, flat, dims)
    return returned[0], exits[counted:]


def _init(leaf: Any) -> Tensor:
    tensor = convert_to_tensor(leaf)
    return array.identity(tensor) if tensor.dtype.is_ref else tensor
