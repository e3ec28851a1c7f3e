"""Recurrent nets over time: a cell called once a step, in a loop (dynamic_rnn) or unrolled (static_rnn)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework import nest, shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.framework.scopes import control_dependencies
from sparkflow.ops import array, math
from sparkflow.ops.array_join import concat, stack
from sparkflow.ops.array_select import where
from sparkflow.ops.array_slice import reverse_sequence
from sparkflow.ops.control_flow_while import while_loop
from sparkflow.ops.tensor_array import TensorArray
from sparkflow.ops.variable_scope import variable_scope
from sparkflow_runtime.wire.dtypes import int32


def batch_and_time_swapped(x: Tensor) -> Tensor:
    """[batch, time, ...] <-> [time, batch, ...]. Raises ValueError on fewer than two axes."""
    x = convert_to_tensor(x)
    dims = x._shape
    if dims is not None and len(dims) < 2:
        raise ValueError(f"Expected input tensor {x.name} to have rank at least 2, but saw shape: {x.shape}")
    if dims is None:
        order: Any = concat([[1, 0], math.range(2, array.rank(x))], 0)
    else:
        order = [1, 0, *range(2, len(dims))]
    out = array.transpose(x, order)
    if dims is not None and len(dims) >= 2:
        out.set_shape((dims[1], dims[0], *dims[2:]))
    return out


def _lengths(sequence_length: Any) -> Tensor | None:
    if sequence_length is None:
        return None
    lengths = math.cast(sequence_length, int32)
    if lengths._shape is not None and len(lengths._shape) != 1:
        raise ValueError(f"sequence_length must be a vector of length batch_size, got shape {lengths.shape}")
    return array.identity(lengths, name="sequence_length")


def _state_at_start(cell: Any, initial_state: Any, dtype: Any, batch: Any) -> Any:
    if not callable(cell) or not (hasattr(cell, "state_size") and hasattr(cell, "output_size")):
        raise TypeError(f"The argument 'cell' ({cell!r}) is not an RNNCell: it has no state_size and output_size")
    if initial_state is not None:
        return initial_state
    if dtype is None:
        raise ValueError("If there is no initial_state, you must give a dtype.")
    return cell.zero_state(batch, dtype)


def _step(cell: Any, x: Any, state: Any, time: Any, lengths: Tensor | None) -> tuple[Any, Any]:
    """The cell's step; past the end of a row's sequence its output is zero and its state stays."""
    out, new = cell(x, state)
    nest.assert_same_structure(state, new)
    if lengths is None:
        return out, new
    over = math.greater_equal(time, lengths)
    out = nest.map_structure(lambda o: where(over, array.zeros_like(o), o), out)
    return out, nest.map_structure(lambda old, now: where(over, old, now), state, new)


def dynamic_rnn(
    cell: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[Any, Any]:
    """(the outputs of all steps, the last state): the cell over [batch, time, ...] ([time, batch, ...] if time_major).

    inputs: a tensor or a nested structure of them. sequence_length: [batch] ints; past it outputs are zero and the
    state stays. initial_state: zeros of `dtype` by default. The variables are those of the scope "rnn".
    Raises ValueError where neither initial_state nor dtype is given, or inputs have no time axis.
    """
    with variable_scope(scope or "rnn"):
        flat = [convert_to_tensor(x, name="inputs") for x in nest.flatten(inputs)]
        for x in flat:
            if x._shape is not None and len(x._shape) < 2:
                raise ValueError(f"dynamic_rnn: inputs must be [batch, time, ...], got {x}")
        flat = flat if time_major else [batch_and_time_swapped(x) for x in flat]
        lengths, first = _lengths(sequence_length), flat[0]
        known_steps, known_batch = (None, None) if first._shape is None else first._shape[:2]
        sizes = array.shape(first)
        steps: Any = sizes[0] if known_steps is None else known_steps
        batch: Any = sizes[1] if known_batch is None else known_batch
        state = _state_at_start(cell, initial_state, dtype, batch)
        loop = _Loop(cell, flat, inputs, state, steps, known_batch, lengths, dtype)
        outputs, last = loop.run(parallel_iterations or 32, swap_memory)
        for out in outputs:
            if out._shape is not None:
                out.set_shape((known_steps, known_batch, *out._shape[2:]))
        outputs = outputs if time_major else [batch_and_time_swapped(out) for out in outputs]
        return nest.pack_sequence_as(cell.output_size, outputs), last


class _Loop:
    """The steps of dynamic_rnn."""

    def __init__(
        self,
        cell: Any,
        flat: list[Tensor],
        structure: Any,
        state: Any,
        steps: Any,
        batch: int | None,
        lengths: Tensor | None,
        dtype: Any,
    ):
        self.cell, self.structure, self.steps, self.lengths = cell, structure, steps, lengths
        self.state = nest.map_structure(convert_to_tensor, state)
        self.inputs = [TensorArray(x.dtype, size=steps, tensor_array_name="input").unstack(x) for x in flat]
        kind = dtype or nest.flatten(self.state)[0].dtype.base_dtype
        self.outputs = [
            TensorArray(
                kind, size=steps, element_shape=(batch, *(shapes.as_dims(size) or ())), tensor_array_name="output"
            )
            for size in nest.flatten(cell.output_size)
        ]

    def run(self, parallel_iterations: int, swap_memory: bool) -> tuple[list[Tensor], Any]:
        _, outputs, state = while_loop(
            lambda time, *_: math.less(time, self.steps),
            self._body,
            (convert_to_tensor(0, name="time"), self.outputs, self.state),
            parallel_iterations=parallel_iterations,
            swap_memory=swap_memory,
        )
        return [out.stack() for out in outputs], state

    def _body(self, time: Tensor, outputs: list[TensorArray], state: Any) -> Any:
        x = nest.pack_sequence_as(self.structure, [ta.read(time) for ta in self.inputs])
        out, new = _step(self.cell, x, state, time, self.lengths)
        for old, now in zip(nest.flatten(state), nest.flatten(new), strict=True):
            now.set_shape(old._shape)
        written = [ta.write(time, o) for ta, o in zip(outputs, nest.flatten(out), strict=True)]
        return time + 1, written, new


def static_rnn(
    cell: Any,
    inputs: Sequence[Any],
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """(the list of outputs, the last state): the cell over a list of [batch, size] tensors, one a step, unrolled.

    As dynamic_rnn otherwise. Raises TypeError where inputs is no list, ValueError where it is empty.
    """
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"static_rnn: inputs must be a list of tensors, one a step, got {inputs!r}")
    if not inputs:
        raise ValueError("static_rnn: inputs must not be empty")
    with variable_scope(scope or "rnn") as opened:
        first = convert_to_tensor(nest.flatten(inputs[0])[0])
        known = None if first._shape is None else first._shape[0]
        state = _state_at_start(cell, initial_state, dtype, array.shape(first)[0] if known is None else known)
        lengths, outputs = _lengths(sequence_length), []
        for time, x in enumerate(inputs):
            if time:
                opened.reuse_variables()  # for cells that make variables wherever they are called
            out, state = _step(cell, x, state, time, lengths)
            outputs.append(out)
        return outputs, state


def static_state_saving_rnn(
    cell: Any, inputs: Sequence[Any], state_saver: Any, state_name: Any, sequence_length: Any = None, scope: Any = None
) -> tuple[list[Any], Any]:
    """static_rnn from the state that an earlier step saved, and whose own last state is saved for a later one.

    state_saver: state(name) gives a saved tensor, save_state(name, tensor) the operation that saves one; the last
    output and the state wait for it. state_name: a name, or as many of them as cell.state_size has parts, nested alike.
    Raises ValueError where they are not.
    """
    size = cell.state_size
    nested = nest.is_nested(size)
    if nested != nest.is_nested(state_name):
        raise ValueError(
            "state_name should be the same type as cell.state_size.  "
            f"state_name: {state_name!r}, cell.state_size: {size!r}"
        )
    names = nest.flatten(state_name)
    if len(names) != len(nest.flatten(size)):
        raise ValueError(f"#elems(state_name) != #elems(state_size): {len(names)} vs. {len(nest.flatten(size))}")
    start = nest.pack_sequence_as(size, [state_saver.state(name) for name in names])
    outputs, state = static_rnn(cell, inputs, start, sequence_length=sequence_length, scope=scope)
    saved = [state_saver.save_state(name, part) for name, part in zip(names, nest.flatten(state), strict=True)]
    with control_dependencies(saved):
        outputs[-1] = nest.map_structure(array.identity, outputs[-1])
        return outputs, nest.map_structure(array.identity, state)


def _reversed(x: Tensor, lengths: Tensor | None, time_axis: int) -> Tensor:
    """Each row's steps in the opposite order, those after its length as they are."""
    if lengths is None:
        return array.reverse(x, [time_axis])
    return reverse_sequence(x, lengths, time_axis, 1 - time_axis)


def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """((outputs forward, outputs backward), (state forward, state backward)): two cells, one from each end.

    As dynamic_rnn otherwise; the variables are in <scope>/fw and <scope>/bw, "bidirectional_rnn" by default.
    """
    how = {
        "sequence_length": sequence_length,
        "dtype": dtype,
        "parallel_iterations": parallel_iterations,
        "swap_memory": swap_memory,
        "time_major": time_major,
    }
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as fw:
            ahead, state_fw = dynamic_rnn(cell_fw, inputs, initial_state=initial_state_fw, scope=fw, **how)
        with variable_scope("bw") as bw:
            lengths, axis = _lengths(sequence_length), 0 if time_major else 1
            turned = nest.map_structure(lambda x: _reversed(convert_to_tensor(x), lengths, axis), inputs)
            back, state_bw = dynamic_rnn(cell_bw, turned, initial_state=initial_state_bw, scope=bw, **how)
            back = nest.map_structure(lambda x: _reversed(x, lengths, axis), back)
        return (ahead, back), (state_fw, state_bw)


def static_bidirectional_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Sequence[Any],
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any, Any]:
    """(the list of both outputs side by side, the last state forward, the last state backward), unrolled."""
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as fw:
            ahead, state_fw = static_rnn(cell_fw, inputs, initial_state_fw, dtype, sequence_length, scope=fw)
        with variable_scope("bw") as bw:
            turned = _turned(list(inputs), sequence_length)
            back, state_bw = static_rnn(cell_bw, turned, initial_state_bw, dtype, sequence_length, scope=bw)
        back = _turned(back, sequence_length)
        return [concat([a, b], 1) for a, b in zip(ahead, back)], state_fw, state_bw


def _turned(steps: list[Any], sequence_length: Any) -> list[Any]:
    if sequence_length is None:
        return steps[::-1]
    whole = _reversed(stack(steps), _lengths(sequence_length), 0)
    return [whole[t] for t in range(len(steps))]
