"""Initial values that depend on other variables."""

from __future__ import annotations

from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.graph_keys import GraphKeys

_VARIABLE_OPS = ("VariableV2", "Variable")
_OPAQUE = (
    "IsVariableInitialized",
    "Switch",
    "Merge",
    "RefSwitch",
    "RefMerge",
    "Enter",
    "Exit",
    "NextIteration",
    "LoopCond",
)


def of_initial_values(tensor: Tensor) -> Tensor:
    """`tensor` computed from the initialized_value of each variable that it is computed from.

    An initial value may depend on another variable (w2 = Variable(w1 * 2)); running all initializers at once must not
    read w1 before it is assigned. Nodes between the two are copied; control flow, which guards itself, and what
    changes a variable are left alone.
    """
    order = _ancestors_first(tensor.op)
    if all(op.type not in _VARIABLE_OPS for op in order):
        return tensor
    keys = (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES)
    held = [v for key in keys for v in tensor.graph.get_collection(key)]
    variables = {v.op: v for v in held if hasattr(v, "initialized_value")}
    made: dict[Operation, list[Tensor]] = {}
    for op in order:
        inputs = [made[t.op][t.value_index] for t in op.inputs if t.op in made]
        if op in variables:
            made[op] = [variables[op].initialized_value()]
        elif op.type in _OPAQUE or op.spec.ref_inputs() or all(a is b for a, b in zip(inputs, op.inputs)):
            made[op] = op.outputs
        else:
            made[op] = op.graph.create_op(op.type, inputs, dict(op.attrs), op.name.rpartition("/")[2]).outputs
    return made[tensor.op][tensor.value_index]


def _ancestors_first(root: Operation) -> list[Operation]:
    """What root is computed from, without looking behind control flow."""
    order: list[Operation] = []
    seen, stack = {root}, [root]
    while stack:
        op = stack[-1]
        inputs = [] if op.type in _OPAQUE else op.inputs
        waiting = next((t.op for t in inputs if t.op not in seen), None)
        if waiting is None:
            order.append(stack.pop())
        else:
            seen.add(waiting)
            stack.append(waiting)
    return order
