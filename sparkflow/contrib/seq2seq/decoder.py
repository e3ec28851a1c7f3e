"""Decoders, and the loop that runs them until every sequence is over."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from sparkflow.framework import nest, shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.shapes import TensorShape
from sparkflow.ops import array, math, math_reduce
from sparkflow.ops.array_select import where
from sparkflow.ops.control_flow_while import while_loop
from sparkflow.ops.rnn import batch_and_time_swapped
from sparkflow.ops.tensor_array import TensorArray
from sparkflow.ops.variable_scope import variable_scope
from sparkflow_runtime.wire.dtypes import int32


class Decoder:
    """initialize() -> (finished, inputs, state); step(time, inputs, state) -> (outputs, state, inputs, finished)."""

    tracks_own_finished = False

    batch_size: Any
    output_size: Any
    output_dtype: Any

    def initialize(self, name: str | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say how it begins")

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what a step is")

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        """What becomes of all outputs at the end. Left undefined they stay as they are."""
        raise NotImplementedError(f"{type(self).__name__} has nothing to do at the end")


class BasicDecoderOutput(NamedTuple):
    rnn_output: Any
    sample_id: Any


class BasicDecoder(Decoder):
    """A cell fed by a helper, with a layer (output_layer, say Dense) behind it if one is given."""

    def __init__(self, cell: Any, helper: Any, initial_state: Any, output_layer: Any = None):
        self._cell, self._helper, self._state, self._layer = cell, helper, initial_state, output_layer

    @property
    def batch_size(self) -> Any:
        return self._helper.batch_size

    @property
    def output_size(self) -> Any:
        return BasicDecoderOutput(output_size(self._cell, self._layer), self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> Any:
        kind = nest.flatten(self._state)[0].dtype.base_dtype
        types = nest.map_structure(lambda _: kind, output_size(self._cell, self._layer))
        return BasicDecoderOutput(types, self._helper.sample_ids_dtype)

    def initialize(self, name: str | None = None) -> Any:
        return (*self._helper.initialize(), self._state)

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        with get_default_graph().name_scope(name or "BasicDecoderStep"):
            outputs, after = self._cell(inputs, state)
            outputs = outputs if self._layer is None else self._layer(outputs)
            ids = self._helper.sample(time=time, outputs=outputs, state=after)
            finished, following, after = self._helper.next_inputs(
                time=time, outputs=outputs, state=after, sample_ids=ids
            )
            return BasicDecoderOutput(outputs, ids), after, following, finished


def output_size(cell: Any, layer: Any) -> Any:
    """The size of what a cell with a layer behind it gives."""
    return cell.output_size if layer is None else TensorShape([layer.units])


def dynamic_decode(
    decoder: Decoder, output_time_major: bool = False, impute_finished: bool = False, maximum_iterations: Any = None,
    parallel_iterations: int = 32, swap_memory: bool = False, scope: Any = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """(outputs [batch, time, ...], the last state, lengths [batch]) of a decoder's steps, until all sequences are over.

    impute_finished: after its end a sequence's outputs are zero and its state stays. maximum_iterations: at most.
    Raises TypeError where decoder is no Decoder.
    """
    if not isinstance(decoder, Decoder):
        raise TypeError(f"Expected decoder to be type Decoder, but saw: {type(decoder).__name__}")
    with variable_scope(scope, "decoder"):
        loop = _Decoding(decoder, impute_finished)
        limit = None if maximum_iterations is None else convert_to_tensor(maximum_iterations, int32)
        outputs, state, lengths = loop.run(limit, parallel_iterations, swap_memory)
        with suppress(NotImplementedError):
            outputs, state = decoder.finalize(outputs, state, lengths)
        if not output_time_major:
            outputs = nest.map_structure(batch_and_time_swapped, outputs)
        return outputs, state, lengths


class _Decoding:
    def __init__(self, decoder: Decoder, impute: bool):
        self.decoder, self.impute = decoder, impute
        self.known = constant_value(decoder.batch_size) if isinstance(decoder.batch_size, Tensor) else None
        self.zeros = nest.map_structure(self._zero, decoder.output_size, decoder.output_dtype) if impute else None

    def _zero(self, size: Any, dtype: Any) -> Tensor:
        return array.zeros([self.decoder.batch_size, *(shapes.as_dims(size) or ())], dtype)

    def _array(self, size: Any, dtype: Any) -> TensorArray:
        batch = None if self.known is None else int(self.known)
        return TensorArray(dtype, size=0, dynamic_size=True, element_shape=(batch, *(shapes.as_dims(size) or ())))

    def run(self, limit: Tensor | None, parallel_iterations: int, swap_memory: bool) -> tuple[Any, Any, Any]:
        finished, inputs, state = self.decoder.initialize()
        if limit is not None:
            finished = math.logical_or(finished, math.less_equal(limit, 0))
        arrays = nest.map_structure(self._array, self.decoder.output_size, self.decoder.output_dtype)
        begin = (
            convert_to_tensor(0, name="time"), arrays, state, inputs, finished, array.zeros_like(finished, dtype=int32)
        )  # fmt: skip
        done = while_loop(
            lambda time, outputs, state, inputs, finished, lengths: math.logical_not(math_reduce.reduce_all(finished)),
            self._body, begin, parallel_iterations=parallel_iterations, swap_memory=swap_memory,
            maximum_iterations=limit,
        )  # fmt: skip
        return nest.map_structure(lambda a: a.stack(), done[1]), done[2], done[5]

    def _body(self, time: Any, arrays: Any, state: Any, inputs: Any, finished: Any, lengths: Any) -> Any:
        outputs, after, following, over = self.decoder.step(time, inputs, state)
        if not self.decoder.tracks_own_finished:
            over = math.logical_or(over, finished)
        counted = array.fill(array.shape(lengths), math.add(time, 1))
        lengths = where(finished, lengths, counted)
        nest.assert_same_structure(state, after)
        nest.assert_same_structure(inputs, following)
        if self.impute:
            outputs = nest.map_structure(lambda o, z: where(finished, z, o), outputs, self.zeros)
            after = nest.map_structure(lambda new, old: _kept(finished, new, old), after, state)
        written = nest.map_structure(lambda a, o: a.write(time, o), arrays, outputs)
        return math.add(time, 1), written, after, following, over, lengths


def _kept(finished: Any, new: Any, old: Any) -> Any:
    """The old state of a sequence that is over; what is no row a sequence goes on."""
    if isinstance(new, TensorArray) or new._shape == ():
        return new
    new.set_shape(old._shape)
    return where(finished, old, new)
