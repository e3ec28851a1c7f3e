"""Attention of queries to values."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.keras.calls import tensor
from sparkflow.keras.engine import Layer
from sparkflow.keras.learning import in_train_phase
from sparkflow.ops import array, math, math_reduce, nn, operators  # noqa: F401 - x * y on tensors
from sparkflow.ops.einsum import einsum
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


class MultiHeadAttention(Layer):
    """Several attentions of [batch, steps, n] at once (Vaswani et al. 2017), each in key_dim numbers, and their sum.

    Called with (query, value, key=value): query, key and value by <name>/query, /key, /value and kernels [n, num_heads,
    key_dim] (value_dim), products over sqrt(key_dim), and <name>/attention_output. attention_mask: bool, [batch, steps
    of query, steps of value] or what spreads to it. return_attention_scores: the weights too, [batch, num_heads, steps
    of query, steps of value].
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: int | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_heads, self.key_dim, self.value_dim = num_heads, key_dim, value_dim or key_dim
        self.dropout, self.use_bias, self._width = dropout, use_bias, output_shape
        self._of_kernel = {
            "initializer": kernel_initializer, "regularizer": kernel_regularizer, "constraint": kernel_constraint,
        }  # fmt: skip
        self._of_bias = {
            "initializer": bias_initializer, "regularizer": bias_regularizer, "constraint": bias_constraint,
        }  # fmt: skip

    def __call__(self, query: Any, value: Any = None, key: Any = None, **kwargs: Any) -> Any:  # type: ignore[override]
        """query may be a list of these."""
        if isinstance(query, (list, tuple)):
            query, value, key = [*query, None, None][:3]
        if value is None:
            raise ValueError(f"{self.name} is called on query and value, and on key where it is another than value")
        value = tensor(value)
        key = value if key is None else tensor(key)
        self._sizes = int(value.shape[-1]), int(key.shape[-1])
        return super().__call__(query, value, key, **kwargs)

    def build(self, input_shape: Any) -> None:
        n, heads, (of_value, of_key) = int(input_shape[-1]), self.num_heads, self._sizes
        self._query = self._part("query", [n, heads, self.key_dim], [heads, self.key_dim])
        self._key = self._part("key", [of_key, heads, self.key_dim], [heads, self.key_dim])
        self._value = self._part("value", [of_value, heads, self.value_dim], [heads, self.value_dim])
        width = self._width or n
        self._out = self._part("attention_output", [heads, self.value_dim, width], [width])
        self.built = True

    def _part(self, name: str, size: list[int], bias: list[int]) -> tuple[Any, Any]:
        with get_default_graph().name_scope(name):
            kernel = self.add_weight("kernel", size, **self._of_kernel)
            return kernel, self.add_weight("bias", bias, **self._of_bias) if self.use_bias else None

    def call(  # type: ignore[override]
        self,
        query: Any,
        value: Any,
        key: Any,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: Any = None,
        use_causal_mask: bool = False,
    ) -> Any:
        q, k = _mapped("abc,cde->abde", query, self._query), _mapped("abc,cde->abde", key, self._key)
        v = _mapped("abc,cde->abde", value, self._value)
        scores = einsum("aecd,abcd->acbe", k, q * (1.0 / self.key_dim**0.5))
        seen = None if attention_mask is None else math.cast(attention_mask, "bool")
        if use_causal_mask:
            before = math.cast(matrix_band_part(array.ones_like(scores[:1, 0], dtype="int32"), -1, 0), "bool")
            seen = before if seen is None else math.logical_and(seen, before)
        if seen is not None:
            scores = scores - 1e9 * math.cast(math.logical_not(array.expand_dims(seen, -3)), scores.dtype)
        weights = nn.softmax(scores)
        dropped = weights
        if self.dropout:
            dropped = in_train_phase(
                lambda: nn.dropout(weights, rate=self.dropout), lambda: array.identity(weights), training
            )
        out = _mapped("abcd,cde->abe", einsum("acbe,aecd->abcd", dropped, v), self._out)
        return [out, weights] if return_attention_scores else out

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return None


def _mapped(how: str, x: Any, part: tuple[Any, Any]) -> Tensor:
    out = einsum(how, x, part[0])
    return out if part[1] is None else out + part[1]
