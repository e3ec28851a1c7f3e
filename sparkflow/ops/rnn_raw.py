"""raw_rnn: a recurrence whose inputs, end and outputs a function decides, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework import nest, shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.ops import array, math, math_reduce
from sparkflow.ops.array_select import where
from sparkflow.ops.control_flow_while import while_loop
from sparkflow.ops.tensor_array import TensorArray
from sparkflow.ops.variable_scope import variable_scope


def raw_rnn(
    cell: Any, loop_fn: Callable[..., Any], parallel_iterations: int | None = None, swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """(TensorArrays of what was emitted, the last state, the last loop state) of
    loop_fn(time, cell_output, cell_state, loop_state) -> (finished, next_input, next_state, emit_output, loop_state).

    The first call has time 0 and None for the rest: its next_state is the initial one, and its emit_output says what
    is emitted, without the batch (None: the cell's output). A row that is finished keeps its state and emits zeros.
    Raises TypeError where loop_fn is no function.
    """
    if not callable(loop_fn):
        raise TypeError("loop_fn must be a callable")
    with variable_scope(scope or "rnn"):
        time = convert_to_tensor(0, name="time")
        finished, inputs, state, emitted, loop_state = loop_fn(time, None, None, None)
        loop = _Raw(cell, loop_fn, inputs, emitted, state, loop_state is not None)
        begin = (
            time, finished, nest.map_structure(convert_to_tensor, inputs), loop.arrays,
            nest.map_structure(convert_to_tensor, state), 0 if loop_state is None else loop_state,
        )  # fmt: skip
        done = while_loop(
            lambda time, finished, *_: math.logical_not(math_reduce.reduce_all(finished)), loop.body, begin,
            parallel_iterations=parallel_iterations or 32, swap_memory=swap_memory,
        )  # fmt: skip
        return done[3], done[4], None if loop_state is None else done[5]


class _Raw:
    def __init__(self, cell: Any, loop_fn: Any, inputs: Any, emitted: Any, state: Any, has_loop_state: bool):
        self.cell, self.loop_fn, self.has_loop_state = cell, loop_fn, has_loop_state
        first = convert_to_tensor(nest.flatten(inputs)[0])
        known = None if first._shape is None else first._shape[0]
        batch: Any = array.shape(first)[0] if known is None else known
        self.structure = cell.output_size if emitted is None else emitted
        kind = nest.flatten(state)[0].dtype.base_dtype
        leaves = nest.flatten(self.structure)
        sizes = [_emitted(convert_to_tensor(e)) if emitted is not None else (_dims(e), kind) for e in leaves]
        self.zeros = [array.zeros([batch, *dims], dtype) for dims, dtype in sizes]
        self.arrays = nest.pack_sequence_as(self.structure, [_array(known, *size) for size in sizes])

    def body(self, time: Any, finished: Any, inputs: Any, arrays: Any, state: Any, loop_state: Any) -> Any:
        output, after = self.cell(inputs, state)
        nest.assert_same_structure(state, after)
        given = loop_state if self.has_loop_state else None
        over, following, new, emitted, next_loop_state = self.loop_fn(math.add(time, 1), output, after, given)
        nest.assert_same_structure(state, new)
        nest.assert_same_structure(inputs, following)
        kept = nest.map_structure(lambda old, now: _kept(finished, old, now), state, new)
        parts = zip(nest.flatten(arrays), nest.flatten(emitted), self.zeros, strict=True)
        written = [a.write(time, where(finished, zero, convert_to_tensor(e))) for a, e, zero in parts]
        return (
            math.add(time, 1), math.logical_or(over, finished), following,
            nest.pack_sequence_as(self.structure, written), kept,
            next_loop_state if self.has_loop_state else loop_state,
        )  # fmt: skip


def _dims(size: Any) -> tuple[Any, ...]:
    return shapes.as_dims(size) or ()


def _emitted(x: Tensor) -> tuple[Any, Any]:
    """(sizes, dtype) of what is emitted for each row."""
    sizes, dims = array.shape(x), x._shape or ()
    return tuple(sizes[i] if d is None else d for i, d in enumerate(dims)), x.dtype.base_dtype


def _array(batch: int | None, dims: tuple[Any, ...], dtype: Any) -> TensorArray:
    known = (batch, *(None if isinstance(d, Tensor) else d for d in dims))
    return TensorArray(dtype, size=0, dynamic_size=True, element_shape=known)


def _kept(finished: Tensor, old: Any, new: Any) -> Any:
    """The old state of rows that are finished; what is no row a sequence goes on."""
    new = convert_to_tensor(new) if not isinstance(new, TensorArray) else new
    if isinstance(new, TensorArray) or new._shape == ():
        return new
    return where(finished, old, new)
