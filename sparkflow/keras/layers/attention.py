"""Attention of queries to values."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.graph import Tensor
from sparkflow.keras.engine import Layer
from sparkflow.keras.learning import in_train_phase
from sparkflow.ops import array, math, math_reduce, nn, operators  # noqa: F401 - x * y on tensors
from sparkflow.ops.linalg_parts import matrix_band_part


class _Attention(Layer):
    """Of [query, value] or [query, value, key], each [batch, steps, n]: values weighted by how well query and key go
    together, [batch, steps of query, n].

    mask: [of query, of value], bool [batch, steps]. causal: a step sees none behind it. dropout: of the weights.
    """

    supports_masking = True

    def __init__(self, causal: bool = False, dropout: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.causal, self.dropout = causal, dropout

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """[batch, steps of query, steps of key]."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it scores a key for a query")

    def call(  # type: ignore[override]
        self, inputs: Any, mask: Any = None, training: Any = None, use_causal_mask: bool = False
    ) -> Tensor:
        """use_causal_mask: causal, for this call."""
        if not isinstance(inputs, (list, tuple)) or len(inputs) not in (2, 3):
            raise ValueError(f"{type(self).__name__} must be called on a list [query, value] or [query, value, key]")
        query, value = inputs[0], inputs[1]
        scores = self.scores(query, inputs[2] if len(inputs) > 2 else value)
        of_query, of_value = (mask[0], mask[1]) if mask else (None, None)
        seen = None if of_value is None else array.expand_dims(of_value, -2)
        if self.causal or use_causal_mask:
            before = math.cast(matrix_band_part(array.ones_like(scores[:1], dtype="int32"), -1, 0), "bool")
            seen = before if seen is None else math.logical_and(seen, before)
        if seen is not None:
            scores = scores - 1e9 * math.cast(math.logical_not(seen), scores.dtype)
        weights = nn.softmax(scores)
        if self.dropout:
            whole = weights
            weights = in_train_phase(
                lambda: nn.dropout(whole, rate=self.dropout), lambda: array.identity(whole), training
            )
        out = math.matmul(weights, value)
        if of_query is not None:
            out = out * math.cast(array.expand_dims(of_query, -1), out.dtype)
        return out

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return mask[0] if mask else None


class Attention(_Attention):
    """By products of query and key (Luong 2015), times <name>/scale where use_scale says so."""

    def __init__(self, use_scale: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        self.use_scale = use_scale

    def build(self, input_shape: Any) -> None:
        self.scale = self.add_weight("scale", (), initializer="ones") if self.use_scale else None
        self.built = True

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        out = math.matmul(query, key, transpose_b=True)
        return out if self.scale is None else out * self.scale


class AdditiveAttention(_Attention):
    """By sums of tanh(query + key) (Bahdanau 2014), times <name>/scale [n] where use_scale says so."""

    def __init__(self, use_scale: bool = True, **kwargs: Any):
        super().__init__(**kwargs)
        self.use_scale = use_scale

    def build(self, input_shape: Any) -> None:
        self.scale = self.add_weight("scale", [int(input_shape[1][-1])]) if self.use_scale else None
        self.built = True

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        together = math.tanh(array.expand_dims(query, -2) + array.expand_dims(key, -3))
        return math_reduce.reduce_sum(together if self.scale is None else together * self.scale, axis=-1)
