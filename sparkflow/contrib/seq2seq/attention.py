"""Attention: how much each step of a memory matters to a query. Sources: Bahdanau et al. 2014; Luong et al. 2015."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import ml_dtypes

from sparkflow.framework import nest
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.layers import Dense
from sparkflow.ops import array, array_made, array_select, init_ops, math, math_reduce, nn
from sparkflow.ops.array_select import where
from sparkflow.ops.variable_scope import get_variable, variable_scope


class AttentionMechanism:
    """mechanism(query, state) -> (alignments [batch, time], next state); values and keys are [batch, time, size]."""

    values: Any
    keys: Any
    batch_size: Any
    alignments_size: Any
    state_size: Any


class _Scored(AttentionMechanism):
    """probability_fn of a score, steps of the memory past a sequence's length left out."""

    def __init__(
        self, memory: Any, memory_sequence_length: Any, memory_layer: Any, query_layer: Any,
        probability_fn: Callable[[Any], Any] | None, score_mask_value: float | None, scope: str,
        custom_key_value_fn: Callable[[Any, Any], Any] | None,
    ):  # fmt: skip
        self._scope, self._probabilities = scope, probability_fn or nn.softmax
        self._mask_value = float("-inf") if score_mask_value is None else score_mask_value
        self._lengths = None if memory_sequence_length is None else convert_to_tensor(memory_sequence_length)
        self.query_layer, self.memory_layer = query_layer, memory_layer
        self.values = _masked(nest.map_structure(convert_to_tensor, memory), self._lengths)
        self.keys = self.values if memory_layer is None else memory_layer(self.values)
        if custom_key_value_fn is not None:
            self.keys, self.values = custom_key_value_fn(self.keys, self.values)
        dims = self.keys._shape
        sizes = array.shape(self.keys)
        self.batch_size = sizes[0] if dims is None or dims[0] is None else dims[0]
        self.alignments_size = sizes[1] if dims is None or dims[1] is None else dims[1]
        self.state_size = self.alignments_size

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Tensor:
        return array.zeros([batch_size, self.alignments_size], dtype)

    initial_state = initial_alignments

    def __call__(self, query: Any, state: Any = None, previous_alignments: Any = None) -> tuple[Tensor, Tensor]:
        with variable_scope(None, self._scope):
            asked = query if self.query_layer is None else self.query_layer(query)
            alignments = self._probability_fn(self._score(asked), previous_alignments if state is None else state)
            return alignments, alignments

    # What subclasses call these within TensorFlow's.
    _keys, _values, _query_layer, _memory_layer, _name, _num_units = (
        property(attrgetter(name)) for name in ("keys", "values", "query_layer", "memory_layer", "_scope", "_units")
    )

    def _probability_fn(self, score: Tensor, previous: Any) -> Tensor:
        if self._lengths is not None:
            inside = array_made.sequence_mask(self._lengths, maxlen=array.shape(score)[1])
            score = where(inside, score, array.fill(array.shape(score), self._mask_value))
        return self._aligned(score, previous)

    def _aligned(self, score: Tensor, previous: Any) -> Tensor:
        """previous: the last step's alignments, which only some kinds of attention ask for."""
        aligned: Tensor = self._probabilities(score)
        return aligned

    def _score(self, query: Any) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not say how it scores a memory for a query")


def _masked(memory: Tensor, lengths: Tensor | None) -> Tensor:
    """Zeros past the length of each sequence."""
    if lengths is None:
        return memory
    mask = array_made.sequence_mask(lengths, maxlen=array.shape(memory)[1], dtype=memory.dtype.base_dtype)
    for _ in range(len(memory._shape or ()) - 2):
        mask = array.expand_dims(mask, -1)
    return math.multiply(memory, mask)


class LuongAttention(_Scored):
    """score = keys . query, times a trained number if scale. num_units must be the query's size.

    custom_key_value_fn(keys, values) gives the keys and values to use in their place.
    """

    def __init__(
        self, num_units: int, memory: Any, memory_sequence_length: Any = None, scale: bool = False,
        probability_fn: Callable[[Any], Any] | None = None, score_mask_value: float | None = None, dtype: Any = None,
        custom_key_value_fn: Any = None, name: str = "LuongAttention",
    ):  # fmt: skip
        layer = Dense(num_units, name="memory_layer", use_bias=False, dtype=dtype)
        super().__init__(
            memory, memory_sequence_length, layer, None, probability_fn, score_mask_value, "luong_attention",
            custom_key_value_fn,
        )  # fmt: skip
        self._units, self._scale = num_units, scale

    def _score(self, query: Any) -> Tensor:
        depth = query._shape[-1] if query._shape else None
        if depth != self.keys._shape[-1]:
            raise ValueError(
                f"Incompatible inner dimensions between query and keys: the query {query.name} has {depth}, the keys "
                f"have {self.keys._shape[-1]}. Set num_units to the query's size"
            )
        products = math.matmul(array.expand_dims(query, 1), self.keys, transpose_b=True)
        score = array.squeeze(products, [1])
        if self._scale:
            one = init_ops.ones_initializer()
            score = math.multiply(get_variable("attention_g", [], query.dtype, initializer=one), score)
        return score


class BahdanauAttention(_Scored):
    """score = v . tanh(keys + query), v over its norm and with a bias if normalize (Salimans and Kingma 2016).

    custom_key_value_fn(keys, values) gives the keys and values to use in their place.
    """

    def __init__(
        self, num_units: int, memory: Any, memory_sequence_length: Any = None, normalize: bool = False,
        probability_fn: Callable[[Any], Any] | None = None, score_mask_value: float | None = None, dtype: Any = None,
        custom_key_value_fn: Any = None, name: str = "BahdanauAttention",
    ):  # fmt: skip
        super().__init__(
            memory, memory_sequence_length, Dense(num_units, name="memory_layer", use_bias=False, dtype=dtype),
            Dense(num_units, name="query_layer", use_bias=False, dtype=dtype), probability_fn, score_mask_value,
            "bahdanau_attention", custom_key_value_fn,
        )  # fmt: skip
        self._units, self._normalize = num_units, normalize

    def _score(self, query: Any) -> Tensor:
        n, kind = self._units, query.dtype.base_dtype
        mixed = math.add(self.keys, array.expand_dims(query, 1))
        v = get_variable("attention_v", [n], kind)
        if not self._normalize:
            return math_reduce.reduce_sum(math.multiply(v, math.tanh(mixed)), [2])
        g = get_variable("attention_g", [], kind, initializer=init_ops.constant_initializer((1.0 / n) ** 0.5))
        b = get_variable("attention_b", [n], kind, initializer=init_ops.zeros_initializer())
        norm = math.rsqrt(math_reduce.reduce_sum(math.square(v)))
        unit = math.multiply(math.multiply(g, v), norm)
        return math_reduce.reduce_sum(math.multiply(unit, math.tanh(math.add(mixed, b))), [2])


def hardmax(logits: Any, name: str | None = None) -> Tensor:
    """One at the largest of each row, zeros elsewhere."""
    logits = convert_to_tensor(logits)
    dims = logits._shape
    depth = dims[-1] if dims and dims[-1] is not None else array.shape(logits)[-1]
    return array_select.one_hot(math_reduce.argmax(logits, -1), depth, dtype=logits.dtype, name=name)


def safe_cumprod(x: Any, *args: Any, **kwargs: Any) -> Tensor:
    """cumprod by logarithms, whose gradient is finite where x is 0."""
    x = convert_to_tensor(x)
    tiny = ml_dtypes.finfo(x.dtype.np).tiny
    small = math.maximum(math.minimum(x, 1.0), tiny)
    return math.exp(math_reduce.cumsum(math.log(small), *args, **kwargs))
