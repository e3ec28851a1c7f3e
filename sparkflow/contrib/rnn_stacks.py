"""Bidirectional layers one on top of the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.ops.array_join import concat
from sparkflow.ops.rnn import bidirectional_dynamic_rnn, static_bidirectional_rnn
from sparkflow.ops.variable_scope import variable_scope


def _checked(cells_fw: Any, cells_bw: Any, first_fw: Any, first_bw: Any) -> None:
    if not isinstance(cells_fw, list) or not isinstance(cells_bw, list) or not cells_fw:
        raise ValueError("Must specify at least one fw and one bw cell, in lists")
    if len(cells_fw) != len(cells_bw):
        raise ValueError(f"Forward and backward cells must be as many: {len(cells_fw)} and {len(cells_bw)}")
    for states in (first_fw, first_bw):
        if states is not None and len(states) != len(cells_fw):
            raise ValueError("initial states must be a list with one state a layer")


def stack_bidirectional_dynamic_rnn(
    cells_fw: list[Any], cells_bw: list[Any], inputs: Any, initial_states_fw: Sequence[Any] | None = None,
    initial_states_bw: Sequence[Any] | None = None, dtype: Any = None, sequence_length: Any = None,
    parallel_iterations: int | None = None, time_major: bool = False, scope: Any = None, swap_memory: bool = False,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """(outputs [batch, time, both sizes], last states forward, last states backward), one state a layer."""
    _checked(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states_fw, states_bw, x = [], [], inputs
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (fw, bw) in enumerate(zip(cells_fw, cells_bw)):
            with variable_scope(f"cell_{i}"):
                outputs, (last_fw, last_bw) = bidirectional_dynamic_rnn(
                    fw, bw, x, sequence_length, initial_states_fw[i] if initial_states_fw else None,
                    initial_states_bw[i] if initial_states_bw else None, dtype, parallel_iterations, swap_memory,
                    time_major,
                )  # fmt: skip
                x = concat(list(outputs), 2)
            states_fw.append(last_fw)
            states_bw.append(last_bw)
    return x, tuple(states_fw), tuple(states_bw)


def stack_bidirectional_rnn(
    cells_fw: list[Any], cells_bw: list[Any], inputs: Any, initial_states_fw: Sequence[Any] | None = None,
    initial_states_bw: Sequence[Any] | None = None, dtype: Any = None, sequence_length: Any = None, scope: Any = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """As stack_bidirectional_dynamic_rnn, over a list of inputs, unrolled."""
    _checked(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states_fw, states_bw, x = [], [], inputs
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (fw, bw) in enumerate(zip(cells_fw, cells_bw)):
            with variable_scope(f"cell_{i}") as opened:
                x, last_fw, last_bw = static_bidirectional_rnn(
                    fw, bw, x, initial_states_fw[i] if initial_states_fw else None,
                    initial_states_bw[i] if initial_states_bw else None, dtype, sequence_length, opened,
                )  # fmt: skip
            states_fw.append(last_fw)
            states_bw.append(last_bw)
    return x, tuple(states_fw), tuple(states_bw)
