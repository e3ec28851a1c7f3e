"""Helpers: what a decoder is fed next, and what it is taken to have said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework import nest
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.framework.shapes import TensorShape
from sparkflow.ops import array, embedding, math, math_reduce, random
from sparkflow.ops.array_select import where
from sparkflow.ops.control_flow_cond import cond
from sparkflow.ops.rnn import batch_and_time_swapped
from sparkflow.ops.tensor_array import TensorArray
from sparkflow_runtime.wire.dtypes import bool_, int32

Fed = tuple[Tensor, Any]  # (which sequences are over, the next inputs)


class Helper:
    """initialize() -> (finished, inputs); sample(time, outputs, state) -> ids; next_inputs(time, outputs, state,
    sample_ids) -> (finished, inputs, state)."""

    sample_ids_shape = TensorShape([])
    sample_ids_dtype = int32

    @property
    def batch_size(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no batch_size")

    def initialize(self, name: str | None = None) -> Fed:
        raise NotImplementedError(f"{type(self).__name__} does not say how it begins")

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what outputs mean")

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what is fed next")


class CustomHelper(Helper):
    """A helper made of functions."""

    def __init__(
        self, initialize_fn: Callable[[], Fed], sample_fn: Callable[..., Any], next_inputs_fn: Callable[..., Any],
        sample_ids_shape: Any = None, sample_ids_dtype: Any = None,
    ):  # fmt: skip
        self._functions = initialize_fn, sample_fn, next_inputs_fn
        self.sample_ids_shape = TensorShape(sample_ids_shape or [])
        self.sample_ids_dtype = sample_ids_dtype or int32
        self._size: Any = None

    @property
    def batch_size(self) -> Any:
        if self._size is None:
            raise ValueError("batch_size accessed before initialize was called")
        return self._size

    def initialize(self, name: str | None = None) -> Fed:
        finished, inputs = self._functions[0]()
        self._size = array.size(finished)
        return finished, inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        return self._functions[1](time=time, outputs=outputs, state=state)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        return self._functions[2](time=time, outputs=outputs, state=state, sample_ids=sample_ids)


class TrainingHelper(Helper):
    """Feeds the given inputs ([batch, time, ...], or time first), up to each sequence's length; reads the largest
    output as what was said."""

    def __init__(self, inputs: Any, sequence_length: Any, time_major: bool = False, name: str | None = None):
        inputs = nest.map_structure(convert_to_tensor, inputs)
        self._inputs = inputs
        steps = inputs if time_major else nest.map_structure(batch_and_time_swapped, inputs)
        self._arrays = nest.map_structure(
            lambda x: TensorArray(x.dtype, size=array.shape(x)[0], element_shape=x.shape[1:]).unstack(x), steps
        )
        self._lengths = convert_to_tensor(sequence_length, name="sequence_length")
        if self._lengths.shape.ndims != 1:
            raise ValueError(f"Expected sequence_length to be a vector, got shape {self._lengths.shape}")
        self._nothing = nest.map_structure(lambda x: array.zeros_like(x[0]), steps)

    inputs = property(lambda self: self._inputs)
    sequence_length = property(lambda self: self._lengths)

    @property
    def batch_size(self) -> Any:
        return array.size(self._lengths)

    def _read(self, finished: Tensor, time: Any) -> Any:
        over = math_reduce.reduce_all(finished)
        return cond(over, lambda: self._nothing, lambda: nest.map_structure(lambda a: a.read(time), self._arrays))

    def initialize(self, name: str | None = None) -> Fed:
        finished = math.equal(convert_to_tensor(0, self._lengths.dtype), self._lengths)
        return finished, self._read(finished, 0)

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        return math.cast(math_reduce.argmax(outputs, axis=-1), int32)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        following = math.add(time, 1)
        finished = math.greater_equal(math.cast(following, self._lengths.dtype), self._lengths)
        return finished, self._read(finished, following), state


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """As TrainingHelper; with sampling_probability, the embedding of what is drawn from the outputs is fed instead.
    Source: Bengio et al. 2015. sample() gives -1 where the given input is fed."""

    def __init__(
        self, inputs: Any, sequence_length: Any, embedding: Any, sampling_probability: Any, time_major: bool = False,
        seed: int | None = None, scheduling_seed: int | None = None, name: str | None = None,
    ):  # fmt: skip
        super().__init__(inputs, sequence_length, time_major)
        self._embed, self._probability = _lookup(embedding), convert_to_tensor(sampling_probability)
        self._seeds = seed, scheduling_seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        drawn = _drawn(outputs, self._seeds[0])
        chosen = math.less(random.random_uniform([self.batch_size], seed=self._seeds[1]), self._probability)
        return where(chosen, drawn, array.fill([self.batch_size], -1))

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        finished, given, state = super().next_inputs(time, outputs, state, sample_ids)
        embedded = self._embed(math.maximum(sample_ids, 0))
        return finished, where(math.greater(sample_ids, -1), embedded, given), state


class ScheduledOutputTrainingHelper(TrainingHelper):
    """As TrainingHelper; with sampling_probability, the output itself (through next_inputs_fn) is fed instead."""

    def __init__(
        self, inputs: Any, sequence_length: Any, sampling_probability: Any, time_major: bool = False,
        seed: int | None = None, next_inputs_fn: Callable[[Any], Any] | None = None, auxiliary_inputs: Any = None,
        name: str | None = None,
    ):  # fmt: skip
        if auxiliary_inputs is not None:
            raise ValueError("ScheduledOutputTrainingHelper: auxiliary_inputs is not supported; leave it out")
        super().__init__(inputs, sequence_length, time_major)
        self._probability, self._seed, self._next = convert_to_tensor(sampling_probability), seed, next_inputs_fn

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        chosen = math.less(random.random_uniform([self.batch_size], seed=self._seed), self._probability)
        return math.cast(chosen, int32)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        finished, given, state = super().next_inputs(time, outputs, state, sample_ids)
        own = outputs if self._next is None else self._next(outputs)
        return finished, where(math.cast(sample_ids, bool_), own, given), state


class GreedyEmbeddingHelper(Helper):
    """Feeds the embedding of the largest output, until end_token. embedding: [classes, size], or a function of ids."""

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any):
        self._embed = _lookup(embedding)
        self._start, self._end = edge_tokens(start_tokens, end_token)
        self._first = self._embed(self._start)

    @property
    def batch_size(self) -> Any:
        return array.size(self._start)

    def initialize(self, name: str | None = None) -> Fed:
        return array.fill([self.batch_size], False), self._first

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        return math.cast(math_reduce.argmax(outputs, axis=-1), int32)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        finished = math.equal(sample_ids, self._end)
        over = math_reduce.reduce_all(finished)
        return finished, cond(over, lambda: self._first, lambda: self._embed(sample_ids)), state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """As GreedyEmbeddingHelper, of ids drawn by the outputs as logits, over softmax_temperature."""

    def __init__(
        self, embedding: Any, start_tokens: Any, end_token: Any, softmax_temperature: Any = None,
        seed: int | None = None,
    ):  # fmt: skip
        super().__init__(embedding, start_tokens, end_token)
        self._temperature, self._seed = softmax_temperature, seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        logits = outputs if self._temperature is None else math.divide(outputs, self._temperature)
        return _drawn(logits, self._seed)


class InferenceHelper(Helper):
    """Feeds what sample_fn makes of the outputs (through next_inputs_fn), until end_fn says it is over."""

    def __init__(
        self, sample_fn: Callable[[Any], Any], sample_shape: Any, sample_dtype: Any, start_inputs: Any,
        end_fn: Callable[[Any], Any], next_inputs_fn: Callable[[Any], Any] | None = None,
    ):  # fmt: skip
        self._sample, self._ends, self._next = sample_fn, end_fn, next_inputs_fn
        self.sample_ids_shape, self.sample_ids_dtype = TensorShape(sample_shape), sample_dtype
        self._start = convert_to_tensor(start_inputs, name="start_inputs")

    @property
    def batch_size(self) -> Any:
        return array.shape(self._start)[0]

    def initialize(self, name: str | None = None) -> Fed:
        return array.fill([self.batch_size], False), self._start

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        return self._sample(outputs)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        following = sample_ids if self._next is None else self._next(sample_ids)
        return self._ends(sample_ids), following, state


def edge_tokens(start_tokens: Any, end_token: Any) -> tuple[Tensor, Tensor]:
    """(the word that each sequence begins with, int32 [batch]; the one that ends any, int32 [])."""
    start = convert_to_tensor(start_tokens, int32, name="start_tokens")
    end = convert_to_tensor(end_token, int32, name="end_token")
    if start.shape.ndims != 1:
        raise ValueError(f"start_tokens must be a vector, got shape {start.shape}")
    if end.shape.ndims != 0:
        raise ValueError(f"end_token must be a scalar, got shape {end.shape}")
    return start, end


def _lookup(table: Any) -> Callable[[Any], Any]:
    return table if callable(table) else lambda ids: embedding.embedding_lookup(table, ids)


def _drawn(logits: Any, seed: int | None) -> Tensor:
    """One class a row: the largest of logits plus Gumbel noise, which is a draw from their softmax."""
    noise = random.random_uniform(array.shape(logits), 1e-20, 1.0, seed=seed)
    gumbel = math.negative(math.log(math.negative(math.log(noise))))
    return math.cast(math_reduce.argmax(math.add(logits, gumbel), axis=-1), int32)
