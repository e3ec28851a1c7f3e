"""Attention that only moves on, from one step of a memory to a later one. Source: Raffel et al. 2017, "Online and
Linear-Time Attention by Enforcing Monotonic Alignments"."""

from __future__ import annotations

from typing import Any

from sparkflow.contrib.seq2seq.attention import BahdanauAttention, LuongAttention, safe_cumprod
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, clip, functional, init_ops, math, math_reduce, random
from sparkflow.ops.array_join import concat
from sparkflow.ops.array_select import one_hot
from sparkflow.ops.variable_scope import get_variable
from sparkflow_runtime.wire.dtypes import int32

_MODES = ("recursive", "parallel", "hard")


def _check_mode(mode: str) -> None:
    if mode not in _MODES:
        raise ValueError(f"mode must be 'recursive', 'parallel', or 'hard', got {mode!r}")


def monotonic_attention(p_choose_i: Any, previous_attention: Any, mode: str) -> Tensor:
    """How likely each step of a memory is the next one looked at, [batch, time].

    p_choose_i: [batch, time], how likely a step is taken once it is reached; only 0 and 1 where mode is "hard".
    previous_attention: [batch, time], what this gave for the last output; at first one at step 0.
    mode: "recursive" is exact and goes step by step, "parallel" is faster and less exact, "hard" needs no expectation.
    Raises ValueError on another mode.
    """
    _check_mode(mode)
    choose = convert_to_tensor(p_choose_i, name="p_choose_i")
    previous = convert_to_tensor(previous_attention, name="previous_attention")
    if mode == "recursive":
        return math.multiply(choose, _reached(math.subtract(1.0, choose), previous))
    if mode == "parallel":
        passed = safe_cumprod(math.subtract(1.0, choose), axis=1, exclusive=True)
        shares = math.divide(previous, clip.clip_by_value(passed, 1e-10, 1.0))
        return math.multiply(math.multiply(choose, passed), math_reduce.cumsum(shares, axis=1))
    choose = math.multiply(choose, math_reduce.cumsum(previous, axis=1))
    return math.multiply(choose, math_reduce.cumprod(math.subtract(1.0, choose), axis=1, exclusive=True))


def _reached(passed: Tensor, previous: Tensor) -> Tensor:
    """How likely each step is reached: reached[t] = passed[t - 1] * reached[t - 1] + previous[t]."""
    batch = array.shape(passed)[0]
    first = array.ones([batch, 1], passed.dtype)
    shifted = array.transpose(concat([first, passed[:, :-1]], 1))
    start = array.zeros([batch], passed.dtype)
    step = lambda reached, row: array.reshape(  # noqa: E731
        math.add(math.multiply(row[0], reached), row[1]), [batch]
    )
    return array.transpose(functional.scan(step, [shifted, array.transpose(previous)], start))


class _Monotonic:
    """Turns scores, with a trained bias, into monotonic alignments. Comes before an attention in a class's bases."""

    _scope: str
    alignments_size: Any
    _noise: float
    _seed: int | None
    _bias: float
    _mode: str

    def _moves_on(self, scope: str, noise: float, seed: int | None, bias: float, mode: str) -> None:
        _check_mode(mode)
        self._scope, self._noise, self._seed, self._bias, self._mode = scope, noise, seed, bias, mode

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Tensor:
        """All on the first step of the memory."""
        return one_hot(array.zeros([batch_size], int32), self.alignments_size, dtype=dtype)

    initial_state = initial_alignments

    def _score(self, query: Any) -> Tensor:
        score: Tensor = super()._score(query)  # type: ignore[misc]
        start = init_ops.constant_initializer(self._bias)
        return math.add(score, get_variable("attention_score_bias", [], query.dtype.base_dtype, initializer=start))

    def _aligned(self, score: Tensor, previous: Any) -> Tensor:
        with get_default_graph().name_scope("monotonic"):
            if self._noise > 0:
                drawn = random.random_normal(array.shape(score), dtype=score.dtype, seed=self._seed)
                score = math.add(score, math.multiply(self._noise, drawn))
            hard = self._mode == "hard"
            choose = math.cast(math.greater(score, 0.0), score.dtype) if hard else math.sigmoid(score)
            return monotonic_attention(choose, previous, self._mode)


class BahdanauMonotonicAttention(_Monotonic, BahdanauAttention):
    """Bahdanau's score plus a bias, as monotonic alignments.

    sigmoid_noise: the deviation of noise that is added to scores in training, so that decisions become hard ones; 0 for
    none. score_bias_init: where the bias begins. mode: that of monotonic_attention; "hard" to predict.
    """

    def __init__(
        self, num_units: int, memory: Any, memory_sequence_length: Any = None, normalize: bool = False,
        score_mask_value: float | None = None, sigmoid_noise: float = 0.0, sigmoid_noise_seed: int | None = None,
        score_bias_init: float = 0.0, mode: str = "parallel", dtype: Any = None,
        name: str = "BahdanauMonotonicAttention",
    ):  # fmt: skip
        super().__init__(num_units, memory, memory_sequence_length, normalize, None, score_mask_value, dtype, name=name)
        self._moves_on("bahdanau_monotonic_attention", sigmoid_noise, sigmoid_noise_seed, score_bias_init, mode)


class LuongMonotonicAttention(_Monotonic, LuongAttention):
    """Luong's score plus a bias, as monotonic alignments. Otherwise as BahdanauMonotonicAttention."""

    def __init__(
        self, num_units: int, memory: Any, memory_sequence_length: Any = None, scale: bool = False,
        score_mask_value: float | None = None, sigmoid_noise: float = 0.0, sigmoid_noise_seed: int | None = None,
        score_bias_init: float = 0.0, mode: str = "parallel", dtype: Any = None, name: str = "LuongMonotonicAttention",
    ):  # fmt: skip
        super().__init__(num_units, memory, memory_sequence_length, scale, None, score_mask_value, dtype, name=name)
        self._moves_on("luong_monotonic_attention", sigmoid_noise, sigmoid_noise_seed, score_bias_init, mode)
