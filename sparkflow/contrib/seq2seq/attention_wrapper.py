"""AttentionWrapper: a cell that also sees what it attends to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sparkflow.contrib.seq2seq.attention import AttentionMechanism
from sparkflow.framework import nest
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.shapes import TensorShape
from sparkflow.layers import Dense
from sparkflow.ops import array, math
from sparkflow.ops.array_join import concat
from sparkflow.ops.rnn_cell import RNNCell
from sparkflow.ops.tensor_array import TensorArray
from sparkflow_runtime.wire.dtypes import int32


class AttentionWrapperState(NamedTuple):
    """time counts the steps; attention is what the last one attended to, alignments with which weights, and
    alignment_history all of these weights, if they are kept."""

    cell_state: Any
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any
    attention_state: Any

    def clone(self, **parts: Any) -> AttentionWrapperState:
        """A copy with other parts. Raises ValueError where a part has another structure."""
        made = self._replace(**parts)
        nest.assert_same_structure(self.cell_state, made.cell_state)
        return made


class AttentionWrapper(RNNCell):
    """cell([inputs, attention]) -> output; alignments = mechanism(output); attention = the memory's mean by these,
    beside the output and through a layer where attention_layer_size says so.

    attention_mechanism: one, or a list with as many sizes or layers. output_attention: the output is the attention,
    not the cell's. alignment_history: keep the alignments of all steps, in a TensorArray [time, batch, memory time].
    """

    def __init__(
        self, cell: Any, attention_mechanism: Any, attention_layer_size: Any = None, alignment_history: bool = False,
        cell_input_fn: Callable[[Any, Any], Any] | None = None, output_attention: bool = True,
        initial_cell_state: Any = None, name: str | None = None, attention_layer: Any = None,
    ):  # fmt: skip
        super().__init__(name=name)
        self._is_list = isinstance(attention_mechanism, (list, tuple))
        mechanisms = list(attention_mechanism) if self._is_list else [attention_mechanism]
        if not all(isinstance(m, AttentionMechanism) for m in mechanisms):
            raise TypeError(f"attention_mechanism must be an AttentionMechanism or a list of them, got {mechanisms}")
        self._cell, self._attention_mechanisms, self._keep = cell, mechanisms, alignment_history
        self._mix = cell_input_fn or (lambda inputs, attention: concat([inputs, attention], -1))
        self._layers = _layers(len(mechanisms), attention_layer_size, attention_layer)
        self._output_attention, self._first_state = output_attention, initial_cell_state

    @property
    def _attention_size(self) -> int:
        pairs = zip(self._layers, self._attention_mechanisms, strict=True)
        return sum(m.values._shape[-1] if layer is None else layer.units for layer, m in pairs)

    @property
    def output_size(self) -> Any:
        return self._attention_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> AttentionWrapperState:
        return AttentionWrapperState(
            cell_state=self._cell.state_size, attention=self._attention_size, time=TensorShape([]),
            alignments=self._item_or_tuple([m.alignments_size for m in self._attention_mechanisms]),
            attention_state=self._item_or_tuple([m.state_size for m in self._attention_mechanisms]),
            alignment_history=self._item_or_tuple([() for _ in self._attention_mechanisms]),
        )  # fmt: skip

    def _item_or_tuple(self, parts: list[Any]) -> Any:
        return tuple(parts) if self._is_list else parts[0]

    def zero_state(self, batch_size: Any, dtype: Any) -> AttentionWrapperState:
        with get_default_graph().name_scope(type(self).__name__ + "ZeroState"):
            cell_state = self._first_state
            if cell_state is None:
                cell_state = self._cell.zero_state(batch_size, dtype)
            alignments = [m.initial_alignments(batch_size, dtype) for m in self._attention_mechanisms]
            history = [_history(dtype, a) if self._keep else () for a in alignments]
            states = [m.initial_state(batch_size, dtype) for m in self._attention_mechanisms]
            return AttentionWrapperState(
                cell_state=nest.map_structure(array.identity, cell_state), time=array.zeros([], int32),
                attention=array.zeros([batch_size, self._attention_size], dtype),
                alignments=self._item_or_tuple(alignments), alignment_history=self._item_or_tuple(history),
                attention_state=self._item_or_tuple(states),
            )  # fmt: skip

    def call(self, inputs: Any, state: Any) -> tuple[Any, AttentionWrapperState]:
        if not isinstance(state, AttentionWrapperState):
            raise TypeError(f"Expected state to be instance of AttentionWrapperState, got {type(state).__name__}")
        output, cell_state = self._cell(self._mix(inputs, state.attention), state.cell_state)
        before, histories = ((x if self._is_list else (x,)) for x in (state.attention_state, state.alignment_history))
        found = [_attend(m, output, b, layer) for m, b, layer in zip(self._attention_mechanisms, before, self._layers)]
        attention = concat([a for a, _, _ in found], 1) if len(found) > 1 else found[0][0]
        kept = [h.write(state.time, a) if self._keep else () for h, (_, a, _) in zip(histories, found)]
        after = AttentionWrapperState(
            cell_state=cell_state, attention=attention, time=math.add(state.time, 1),
            alignments=self._item_or_tuple([a for _, a, _ in found]), alignment_history=self._item_or_tuple(kept),
            attention_state=self._item_or_tuple([s for _, _, s in found]),
        )  # fmt: skip
        return (attention if self._output_attention else output), after


def _layers(count: int, sizes: Any, layers: Any) -> list[Any]:
    if sizes is not None and layers is not None:
        raise ValueError("Only one of attention_layer_size and attention_layer should be set")
    if sizes is not None:
        listed = list(sizes) if isinstance(sizes, (list, tuple)) else [sizes]
        found: list[Any] = [None if n is None else Dense(n, name="attention_layer", use_bias=False) for n in listed]
    elif layers is not None:
        found = list(layers) if isinstance(layers, (list, tuple)) else [layers]
    else:
        found = [None] * count
    if len(found) != count:
        raise ValueError(f"AttentionWrapper: {count} mechanisms, but {len(found)} attention layers or sizes")
    return found


def _attend(mechanism: Any, output: Tensor, state: Any, layer: Any) -> tuple[Any, Any, Any]:
    alignments, after = mechanism(output, state=state)
    context = array.squeeze(math.matmul(array.expand_dims(alignments, 1), mechanism.values), [1])
    return (context if layer is None else layer(concat([output, context], 1))), alignments, after


def _history(dtype: Any, alignments: Tensor) -> TensorArray:
    return TensorArray(dtype, size=0, dynamic_size=True, element_shape=alignments.shape)
