"""Gradients of TensorArrays: what was written to an element is read from its gradient, and the other way round.

All gradients of one call of gradients() meet in one list for each TensorArray (its `source` is the call's name scope),
whose elements sum what is written to them. The gradient of a flow is a flow: it says that the list of gradients has all
that later operations had to write.
"""

from __future__ import annotations

from typing import Any

from sparkflow.framework.contexts import while_context
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import current_source, gradient, not_differentiable
from sparkflow.ops import array
from sparkflow.ops.tensor_array import TensorArray

not_differentiable("TensorArrayV3", "TensorArrayGradV3", "TensorArrayGradWithShape")
not_differentiable("TensorArraySizeV3", "TensorArrayCloseV3")


def _gradients(op: Operation, dtype: Any, flow: Tensor) -> TensorArray:
    whole = TensorArray(dtype, handle=op.inputs[0], flow=flow, colocate_with_first_write_call=False)
    return whole.grad(current_source(), flow)


def _written(op: Operation, dflow: Tensor) -> Tensor:
    """dflow, not before op has written: only then does the list know the shape of a gradient nobody wrote.

    The gradient of a loop runs after the whole loop, so nothing is needed there.
    """
    if while_context(op) is not None:
        return dflow
    with op.graph.control_dependencies([op]):
        return array.identity(dflow, name="write_barrier")


@gradient("TensorArrayReadV3")
def _read(op: Operation, dy: Tensor) -> tuple[Any, ...]:
    _, index, flow = op.inputs
    return None, None, lambda: _gradients(op, op.attr("dtype"), flow).write(index, dy).flow


@gradient("TensorArrayWriteV3")
def _write(op: Operation, dflow: Tensor) -> tuple[Any, ...]:
    dflow = _written(op, dflow)
    return None, None, lambda: _gradients(op, op.attr("T"), dflow).read(op.inputs[1]), dflow


@gradient("TensorArrayGatherV3")
def _gather(op: Operation, dy: Tensor) -> tuple[Any, ...]:
    _, indices, flow = op.inputs
    return None, None, lambda: _gradients(op, op.attr("dtype"), flow).scatter(indices, dy).flow


@gradient("TensorArrayScatterV3")
def _scatter(op: Operation, dflow: Tensor) -> tuple[Any, ...]:
    dflow = _written(op, dflow)
    return None, None, lambda: _gradients(op, op.attr("T"), dflow).gather(op.inputs[1]), dflow


@gradient("TensorArrayConcatV3", partial=True)
def _concat(op: Operation, dy: Tensor, _: None) -> tuple[Any, ...]:
    lengths, flow = op.outputs[1], op.inputs[1]
    return None, lambda: _gradients(op, op.attr("dtype"), flow).split(dy, lengths).flow


@gradient("TensorArraySplitV3")
def _split(op: Operation, dflow: Tensor) -> tuple[Any, ...]:
    dflow = _written(op, dflow)
    return None, lambda: _gradients(op, op.attr("T"), dflow).concat(), None, dflow
