"""tf.random.Generator: random numbers whose state is a variable, which every draw takes on. Bits are TensorFlow's."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

from sparkflow.framework.apply import apply_op, convert_to_tensor, type_of_tensors
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.ops import array, array_join, math, math_reduce, random_stateless
from sparkflow.ops.math_special import bitcast
from sparkflow.ops.variables import Variable
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import UnimplementedError

_SIZE = 3  # of a state: a counter of two numbers, and a key
op("RefRngReadAndSkip", "resource: &T, alg: int32, delta: uint64 -> value: T", lambda _: [(_SIZE,)], stateful=True)


class Algorithm(Enum):
    """How a generator makes its numbers: by Philox, whichever of the two is said."""

    PHILOX = 1
    THREEFRY = 2
    AUTO_SELECT = 3


def _number(alg: Any) -> int:
    """1. Raises UnimplementedError on ThreeFry, ValueError on what is no algorithm."""
    names = {"philox": 1, "threefry": 2, "auto_select": 3}
    found = names.get(alg) if isinstance(alg, str) else getattr(alg, "value", alg)
    if found == Algorithm.THREEFRY.value:
        raise UnimplementedError("tf.random: ThreeFry is not here; use alg='philox'")
    if found not in (1, 3):
        raise ValueError(f"tf.random: the algorithms are {sorted(names)}, got {alg!r}")
    return Algorithm.PHILOX.value


def create_rng_state(seed: Any, alg: Any = "philox") -> Any:
    """[3]: the state of a generator that begins with this seed, a number or up to three of them."""
    _number(alg)
    if isinstance(seed, int):
        parts = [(seed >> (64 * i)) & (2**64 - 1) for i in range(_SIZE)]
        return np.array(parts, np.uint64).view(np.int64)
    given = array.reshape(math.cast(convert_to_tensor(seed), dtypes.int64), [-1])[:_SIZE]
    count = given.shape[0].value
    if count is None:
        raise ValueError(f"tf.random.create_rng_state: the seed {seed!r} must have a known number of elements")
    return array_join.concat([array.zeros([_SIZE - count], dtypes.int64), given], 0) if count < _SIZE else given


class Generator:
    """copy_from: another one, whose state it begins with. state, alg: its first state [3] and "philox".

    from_seed, from_key_counter and from_non_deterministic_state make one too. Its variable, `state`, is initialized,
    saved and restored as others are. Raises ValueError where neither copy_from nor state and alg are given.
    """

    def __init__(self, copy_from: Generator | None = None, state: Any = None, alg: Any = None):
        if copy_from is not None:
            if state is not None or alg is not None:
                raise ValueError("Generator: give copy_from, or state and alg")
            first: Any = copy_from.state.initialized_value()
        else:
            if state is None or alg is None:
                raise ValueError("Generator: give copy_from, or state and alg")
            _number(alg)
            first = state.read_value() if isinstance(state, Variable) else state
        with get_default_graph().name_scope("random_generator"):
            self._state = Variable(
                math.cast(convert_to_tensor(first), dtypes.int64), name="StateVar", trainable=False, use_resource=True
            )

    @classmethod
    def from_state(cls, state: Any, alg: Any) -> Generator:
        return cls(state=state, alg=alg)

    @classmethod
    def from_seed(cls, seed: Any, alg: Any = None) -> Generator:
        alg = "philox" if alg is None else alg
        return cls(state=create_rng_state(seed, alg), alg=alg)

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        """One that begins anywhere; where, is chosen when it is made."""
        state = np.frombuffer(secrets.token_bytes(8 * _SIZE), np.int64)
        return cls(state=state.copy(), alg="philox" if alg is None else alg)

    @classmethod
    def from_key_counter(cls, key: Any, counter: Any, alg: Any) -> Generator:
        return cls(state=_of_key_counter(key, counter), alg=alg)

    state = property(lambda self: self._state)
    state_size = property(lambda self: _SIZE)
    algorithm = property(lambda self: Algorithm.PHILOX.value)

    @property
    def key(self) -> Tensor:
        return self._state.read_value()[2]

    # ------------------------------------------------------------------ setting it

    def reset(self, state: Any) -> Tensor:
        """Begin anew with this state; what is returned does it."""
        return self._state.assign(math.cast(convert_to_tensor(state), dtypes.int64))

    def reset_from_seed(self, seed: Any) -> Tensor:
        return self.reset(create_rng_state(seed))

    def reset_from_key_counter(self, key: Any, counter: Any) -> Tensor:
        return self.reset(_of_key_counter(key, counter))

    def skip(self, delta: Any) -> Tensor:
        """The state as it was before so many values were left out."""
        delta = math.cast(convert_to_tensor(delta), dtypes.uint64)
        return apply_op("RefRngReadAndSkip", [self._state._ref(), Algorithm.PHILOX.value, delta])

    # ------------------------------------------------------------------ drawing

    def _drawn(self, op_type: str, shape: Any, dtype: Any, limits: Sequence[Tensor] = ()) -> Tensor:
        sizes = convert_to_tensor(shape, type_of_tensors(shape, dtypes.int32), "shape")
        before = self.skip(math_reduce.reduce_prod(sizes))
        key, counter = bitcast(before[2:], dtypes.uint64), bitcast(before[:2], dtypes.uint64)
        attrs = {} if limits else {"dtype": dtypes.as_dtype(dtype)}
        return apply_op(op_type, [sizes, key, counter, Algorithm.PHILOX.value, *limits], attrs)

    def _scaled(self, op_type: str, shape: Any, mean: Any, stddev: Any, dtype: Any) -> Tensor:
        drawn = self._drawn(op_type, shape, dtype)
        return math.add(math.multiply(drawn, convert_to_tensor(stddev, dtype)), convert_to_tensor(mean, dtype))

    def normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, name: str | None = None
    ) -> Tensor:
        with get_default_graph().name_scope(name or "stateful_normal"):
            return self._scaled("StatelessRandomNormalV2", shape, mean, stddev, dtype)

    def truncated_normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, name: str | None = None
    ) -> Tensor:
        """Normal values within two standard deviations."""
        with get_default_graph().name_scope(name or "truncated_normal"):
            return self._scaled("StatelessTruncatedNormalV2", shape, mean, stddev, dtype)

    def uniform(
        self, shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32, name: str | None = None
    ) -> Tensor:
        """Values of [minval, maxval); integers of all values where both are None."""
        want = dtypes.as_dtype(dtype)
        if want.is_integer and (minval is None) != (maxval is None):
            raise ValueError(f"Generator.uniform of {want.name}: give minval and maxval, or None for both")
        with get_default_graph().name_scope(name or "stateful_uniform"):
            if want.is_integer and minval is None:
                return self._drawn("StatelessRandomUniformFullIntV2", shape, want)
            low = convert_to_tensor(minval, want)
            high = convert_to_tensor(1 if maxval is None else maxval, want)
            if want.is_integer:
                return self._drawn("StatelessRandomUniformIntV2", shape, want, (low, high))
            drawn = self._drawn("StatelessRandomUniformV2", shape, want)
            return math.add(math.multiply(drawn, math.subtract(high, low)), low)

    def uniform_full_int(self, shape: Any, dtype: Any = dtypes.uint64, name: str | None = None) -> Tensor:
        """Integers of all values that the type has."""
        with get_default_graph().name_scope(name or "stateful_uniform_full_int"):
            return self._drawn("StatelessRandomUniformFullIntV2", shape, dtype)

    def binomial(
        self, shape: Any, counts: Any, probs: Any, dtype: Any = dtypes.int32, name: str | None = None
    ) -> Tensor:
        """How many of `counts` trials succeed, each with probability `probs`. Not TensorFlow's bits."""
        with get_default_graph().name_scope(name or "binomial"):
            before = self.skip(math_reduce.reduce_prod(convert_to_tensor(shape)))
            seed = array_join.stack([before[2], before[0]])
            return random_stateless.stateless_random_binomial(shape, seed, counts, probs, dtype)

    def make_seeds(self, count: int = 1) -> Tensor:
        """[2, count]: seeds for stateless draws."""
        keys = self.uniform_full_int([count], dtypes.int64)
        return array_join.stack([keys, array.zeros_like(keys)])

    def split(self, count: int = 1) -> list[Generator]:
        """So many generators that do not overlap, nor with this one. Initialize this one's state before theirs."""
        seeds = self.uniform_full_int([count], dtypes.int64)
        return [Generator(state=array_join.stack([0, 0, seeds[i]]), alg="philox") for i in range(count)]


def _of_key_counter(key: Any, counter: Any) -> Tensor:
    """[3]: the counter, of two numbers, before the key."""
    counts = array.reshape(math.cast(convert_to_tensor(counter), dtypes.int64), [-1])
    keys = array.reshape(math.cast(convert_to_tensor(key), dtypes.int64), [1])
    return array_join.concat([counts[:2], keys], 0)


_GLOBAL = "tf.random's global generator"


def get_global_generator() -> Generator:
    """The default graph's own, which begins anywhere where none was set."""
    extra = get_default_graph().extra
    if _GLOBAL not in extra:
        extra[_GLOBAL] = Generator.from_non_deterministic_state()
    return extra[_GLOBAL]


def set_global_generator(generator: Generator) -> None:
    get_default_graph().extra[_GLOBAL] = generator
