"""rnn: the loop under Keras' recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.framework import nest
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.ops import array, array_join, math, operators  # noqa: F401 - x + y on tensors
from sparkflow.ops.array_select import where
from sparkflow.ops.control_flow_while import while_loop
from sparkflow.ops.rnn import batch_and_time_swapped
from sparkflow.ops.tensor_array import TensorArray
from sparkflow_runtime.wire.dtypes import bool_

Step = Callable[[Any, list[Tensor]], tuple[Tensor, Sequence[Tensor]]]


def rnn(
    step_function: Step,
    inputs: Any,
    initial_states: Sequence[Any],
    go_backwards: bool = False,
    mask: Tensor | None = None,
    constants: Sequence[Any] | None = None,
    unroll: bool = False,
    input_length: Any = None,
    time_major: bool = False,
    zero_output_for_mask: bool = False,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """step_function(x, states + constants) -> (output, new states) along the steps of inputs [batch, steps, ...].

    mask: bool [batch, steps]; where it is False the states stay and the output is the one before (zeros at first, and
    everywhere with zero_output_for_mask). go_backwards: from the last step. unroll: without a loop; the number of steps
    must be known. Returns the last output, all outputs [batch, steps, ...] in the order they were made, and the last
    states. Raises ValueError where unroll cannot be.
    """
    swap = (lambda x: x) if time_major else batch_and_time_swapped
    inputs = nest.map_structure(lambda x: swap(convert_to_tensor(x)), inputs)
    if mask is not None:
        mask = math.cast(mask, bool_)
        mask = mask[:, :, 0] if mask._shape is not None and len(mask._shape) == 3 else mask
        mask = swap(mask)
    if go_backwards:
        inputs = nest.map_structure(lambda x: array.reverse(x, [0]), inputs)
        mask = None if mask is None else array.reverse(mask, [0])
    constants = list(constants or ())
    step = lambda x, states: step_function(x, [*states, *constants])  # noqa: E731
    masked = _Masked(step, zero_output_for_mask) if mask is not None else None
    states = [convert_to_tensor(s) for s in initial_states]
    flat = nest.flatten(inputs)
    steps = None if flat[0]._shape is None else flat[0]._shape[0]
    if unroll:
        if not steps:
            raise ValueError(f"Unrolling needs a known number of steps above 0, got inputs of shape {flat[0].shape}")
        outputs, states = _unrolled(step, masked, inputs, mask, states, steps)
        stacked, last = array_join.stack(outputs), outputs[-1]
    else:
        stacked, states = _looped(step, masked, inputs, mask, states)
        last = stacked[-1]
        if stacked._shape is not None:
            stacked.set_shape((steps, *stacked._shape[1:]))
    return last, stacked if time_major else batch_and_time_swapped(stacked), states


class _Masked:
    """A step that stands still where the mask is False."""

    def __init__(self, step: Step, zero: bool):
        self.step, self.zero = step, zero

    def __call__(self, x: Any, mask: Tensor, states: list[Tensor], before: Tensor) -> tuple[Tensor, list[Tensor]]:
        out, new = self.step(x, states)
        kept = where(mask, out, array.zeros_like(out) if self.zero else before)
        return kept, [where(mask, n, s) for n, s in zip(new, states)]


def _unrolled(
    step: Step, masked: _Masked | None, inputs: Any, mask: Tensor | None, states: list[Tensor], steps: int
) -> tuple[list[Tensor], list[Tensor]]:
    outputs: list[Tensor] = []
    for t in range(steps):
        x = nest.map_structure(lambda v, t=t: v[t], inputs)
        if masked is None:
            out, new = step(x, states)
            states = list(new)
        else:
            assert mask is not None
            before = outputs[-1] if outputs else array.zeros_like(step(x, states)[0])
            out, states = masked(x, mask[t], states, before)
        outputs.append(out)
    return outputs, states


def _looped(
    step: Step, masked: _Masked | None, inputs: Any, mask: Tensor | None, states: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    flat = nest.flatten(inputs)
    steps = array.shape(flat[0])[0]
    arrays = [TensorArray(x.dtype, size=steps, tensor_array_name="input").unstack(x) for x in flat]
    first, _ = step(nest.map_structure(lambda x: x[0], inputs), states)  # for its type and shape; nobody reads it
    written = TensorArray(first.dtype, size=steps, element_shape=first.shape, tensor_array_name="output")
    begin = [convert_to_tensor(0, name="time"), written, states]
    if masked is not None:
        begin.append(array.zeros_like(first))
    masks = None if mask is None else TensorArray(bool_, size=steps, tensor_array_name="mask").unstack(mask)

    def body(time: Tensor, outputs: TensorArray, states: list[Tensor], *before: Tensor) -> list[Any]:
        x = nest.pack_sequence_as(inputs, [ta.read(time) for ta in arrays])
        if masked is None:
            out, new = step(x, states)
        else:
            assert masks is not None
            out, new = masked(x, masks.read(time), states, before[0])
        for old, now in zip(states, new):
            now.set_shape(old._shape)
        return [time + 1, outputs.write(time, out), list(new), *([out] if before else [])]

    _, outputs, last, *_ = while_loop(lambda time, *_: math.less(time, steps), body, begin)
    return outputs.stack(), list(last)
