"""Nodes that call functions of a GraphDef's library: import puts the functions' own nodes in their place.

If, While and Case become what cond and while_loop make, so that they run, and have gradients, as any other; a
PartitionedCall becomes the nodes of its function. tf.function and TensorFlow's control flow v2 write such graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.framework.apply import constant, convert_to_tensor
from sparkflow.framework.functions import BY_NAME, Call, Function, expands
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.shapes import Dims, merge
from sparkflow.ops import array, math
from sparkflow.ops.control_flow import no_op
from sparkflow.ops.control_flow_cond import cond
from sparkflow.ops.control_flow_while import WhileContext
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import decode


@expands("PartitionedCall", "StatefulPartitionedCall")
def _call(call: Call) -> list[Tensor]:
    return _results(*call.function("f")(call.inputs))


@expands(BY_NAME)
def _call_by_name(call: Call) -> list[Tensor]:
    return _results(*call.own_function()(call.inputs))


@expands("If", "StatelessIf")
def _if(call: Call) -> list[Tensor]:
    pred, *args = call.inputs
    return _branch(_truth(pred), call.function("then_branch"), call.function("else_branch"), args)


@expands("Case", "StatelessCase")
def _case(call: Call) -> list[Tensor]:
    """The branch of that number; the last one for a number that none has."""
    index, *args = call.inputs
    branches = call.functions("branches")

    def nested(number: int) -> list[Tensor]:
        if number == len(branches) - 1:
            return _results(*branches[number](args))
        return _chosen(
            math.equal(index, constant(number, index.dtype)),
            lambda: _results(*branches[number](args)),
            lambda: nested(number + 1),
        )

    return nested(0)


@expands("While", "StatelessWhile")
def _while(call: Call) -> list[Tensor]:
    """Variables that are resources stay what they are: they come in from outside, as references."""
    goes_on, body = call.function("cond"), call.function("body")
    shapes = [shape.dims for shape in decode(call.node.attr["output_shapes"])] if call.has("output_shapes") else []
    varied = [i for i, value in enumerate(call.inputs) if not value.dtype.is_ref]
    known = _invariants(call.inputs, shapes)
    dims = [known[i] for i in varied]

    def whole(values: Sequence[Tensor]) -> list[Tensor]:
        own = dict(zip(varied, values, strict=True))
        return [own.get(i, value) for i, value in enumerate(call.inputs)]

    context = WhileContext(parallel_iterations=call.node.attr["parallel_iterations"].i or 10, name=call.name)

    def step(values: list[Tensor]) -> list[Tensor]:
        every = _results(*body(whole(values)))
        results = [every[i] for i in varied]
        for result, known in zip(results, dims, strict=True):
            result._shape = merge(result._shape, known)
        return results

    exits = context.Build(lambda values: goes_on(whole(values))[0][0], step, [call.inputs[i] for i in varied], dims)
    get_default_graph().add_to_collection(GraphKeys.WHILE_CONTEXT, context)
    return whole(exits)


def _invariants(inputs: Sequence[Tensor], shapes: Sequence[Dims]) -> list[Dims]:
    """What the node says of its results; where it says nothing, nothing is known of later iterations."""
    return list(shapes) or [None] * len(inputs)


def _branch(pred: Tensor, yes: Function, no: Function, args: Sequence[Tensor]) -> list[Tensor]:
    return _chosen(pred, lambda: _results(*yes(args)), lambda: _results(*no(args)))


def _chosen(pred: Tensor, yes: Callable[[], list[Tensor]], no: Callable[[], list[Tensor]]) -> list[Tensor]:
    """The results of either; of branches without results, one that stands for having run."""
    return list(cond(pred, lambda: yes() or [no_op()], lambda: no() or [no_op()], strict=True))


def _truth(pred: Tensor) -> Tensor:
    """A predicate of any type is true where it is not zero, or not empty."""
    if pred.dtype.base_dtype is dtypes.bool_:
        return pred
    nothing: Any = b"" if pred.dtype.base_dtype is dtypes.string else 0
    return math.not_equal(pred, constant(nothing, pred.dtype.base_dtype))


def _results(outputs: Sequence[Tensor], effects: Sequence[Operation]) -> list[Tensor]:
    """The outputs of a function, after all that it does besides."""
    if not effects:
        return list(outputs)
    with get_default_graph().control_dependencies(effects):
        done = [value if value.dtype.is_ref else array.identity(value) for value in outputs]
        return done or [convert_to_tensor(True)]
