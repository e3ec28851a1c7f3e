"""Random values that depend on a seed tensor alone: the same seed gives the same values, in every step and process."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor, type_of_tensors
from sparkflow.framework.constant_value import constant_value, constant_value_as_shape
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array_join, math, rules
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnimplementedError


def _seeded(op: Operation, at: int) -> None:
    """Raises InvalidArgumentError unless the seed is two numbers."""
    dims = rules.require_rank(op, "seed", op.inputs[at], 1)
    if dims is not None and dims[0] not in (None, 2):
        raise InvalidArgumentError(f"{op.type}: seed must have shape [2], got {list(dims)}")


def _drawn(op: Operation) -> list[Dims]:
    _seeded(op, 1)
    return [constant_value_as_shape(op.inputs[0])]


def _drawn_by_key(op: Operation) -> list[Dims]:
    """Raises UnimplementedError on another algorithm than Philox."""
    rules.require_rank(op, "key", op.inputs[1], 1)
    rules.require_rank(op, "counter", op.inputs[2], 1)
    number = constant_value(op.inputs[3])
    if number is not None and int(number) not in (1, 3):  # 3: as the device has it
        raise UnimplementedError(f"{op.name.rpartition('/')[2]!r} draws by algorithm {int(number)}; Philox (1) is here")
    return [constant_value_as_shape(op.inputs[0])]


def _key_and_counter(op: Operation) -> list[Dims]:
    _seeded(op, 0)
    return [(1,), (2,)]


def _classes(op: Operation) -> list[Dims]:
    _seeded(op, 2)
    rows, _ = rules.require_matrix(op, "logits", op.inputs[0])
    rules.require_rank(op, "num_samples", op.inputs[1], 0)
    count = constant_value(op.inputs[1])
    return [(rows, None if count is None else int(count))]


_TYPES: dict[str, Any] = {"T": dtypes.int32, "Tseed": dtypes.int64}
for _kind in ("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"):
    op(_kind, "shape: T, seed: Tseed -> output: dtype", _drawn, dtype=dtypes.float32, **_TYPES)
op("StatelessRandomUniformInt", "shape: T, seed: Tseed, minval: dtype, maxval: dtype -> output: dtype", _drawn,
   T=dtypes.int32, Tseed=dtypes.int64)  # fmt: skip
op("StatelessRandomUniformFullInt", "shape: T, seed: Tseed -> output: dtype", _drawn, dtype=dtypes.uint64, **_TYPES)
_KEYED: dict[str, Any] = {"Tshape": dtypes.int32}
_OF_KEY = "shape: Tshape, key: uint64, counter: uint64, alg: int32"
for _kind in ("StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2"):
    op(_kind, f"{_OF_KEY} -> output: dtype", _drawn_by_key, dtype=dtypes.float32, **_KEYED)
op("StatelessRandomUniformFullIntV2", f"{_OF_KEY} -> output: dtype", _drawn_by_key, dtype=dtypes.uint64, **_KEYED)
op("StatelessRandomUniformIntV2", f"{_OF_KEY}, minval: dtype, maxval: dtype -> output: dtype", _drawn_by_key, **_KEYED)
op("StatelessRandomGetKeyCounter", "seed: Tseed -> key: uint64, counter: uint64", _key_and_counter, Tseed=dtypes.int64)
op("StatelessRandomGetAlg", "-> alg: int32", lambda op: [()], stateful=True)
op("StatelessShuffle", "value: T, key: uint64, counter: uint64, alg: int32 -> output: T", rules.same)
_INTS: dict[str, Any] = {"Tseed": dtypes.int64}
op("StatelessRandomGammaV2", "shape: T, seed: Tseed, alpha: dtype -> output: dtype", _drawn, **_INTS)
op("StatelessRandomPoisson", "shape: T, seed: Tseed, lam: Rtype -> output: dtype", _drawn, **_INTS)
op("StatelessRandomBinomial", "shape: S, seed: Tseed, counts: T, probs: T -> output: dtype", _drawn,
   dtype=dtypes.int64, T=dtypes.float64, **_INTS)  # fmt: skip
op("StatelessParameterizedTruncatedNormal",
   "shape: S, seed: Tseed, means: dtype, stddevs: dtype, minvals: dtype, maxvals: dtype -> output: dtype", _drawn,
   **_INTS)  # fmt: skip
op("StatelessMultinomial", "logits: T, num_samples: int32, seed: Tseed -> output: output_dtype", _classes,
   Tseed=dtypes.int64, output_dtype=dtypes.int64)  # fmt: skip


def stateless_random_uniform(
    shape: Any, seed: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32, name: str | None = None,
    alg: str = "auto_select",
) -> Tensor:  # fmt: skip
    """Values drawn evenly from [minval, maxval), as random_uniform; seed: two integers."""
    want = dtypes.as_dtype(dtype)
    if want.is_integer and (minval is None) != (maxval is None):
        raise ValueError(
            f"For integer dtype {want.name}, minval and maxval must be both None (all values) or both given: "
            f"minval={minval}, maxval={maxval}"
        )
    with get_default_graph().name_scope(name or "stateless_random_uniform"):
        sizes = convert_to_tensor(shape, type_of_tensors(shape, dtypes.int32), "shape")
        if minval is None and want.is_integer:
            return apply_op("StatelessRandomUniformFullInt", [sizes, seed], {"dtype": want})
        low = convert_to_tensor(minval, want, "min")
        high = convert_to_tensor(1 if maxval is None else maxval, want, "max")
        if want.is_integer:
            return apply_op("StatelessRandomUniformInt", [sizes, seed, low, high])
        drawn = apply_op("StatelessRandomUniform", [sizes, seed], {"dtype": want})
        return math.add(math.multiply(drawn, math.subtract(high, low)), low)


def _normal(op_type: str, label: str, shape: Any, seed: Any, mean: Any, stddev: Any, dtype: Any) -> Tensor:
    want = dtypes.as_dtype(dtype)
    with get_default_graph().name_scope(label):
        sizes = convert_to_tensor(shape, type_of_tensors(shape, dtypes.int32), "shape")
        drawn = apply_op(op_type, [sizes, seed], {"dtype": want})
        return math.add(
            math.multiply(drawn, convert_to_tensor(stddev, want, "stddev")), convert_to_tensor(mean, want, "mean")
        )


def stateless_random_normal(
    shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, name: str | None = None,
    alg: str = "auto_select",
) -> Tensor:  # fmt: skip
    """Values drawn from a normal distribution; seed: two integers."""
    return _normal("StatelessRandomNormal", name or "stateless_random_normal", shape, seed, mean, stddev, dtype)


def stateless_truncated_normal(
    shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, name: str | None = None,
    alg: str = "auto_select",
) -> Tensor:  # fmt: skip
    """As stateless_random_normal, with values farther than two standard deviations from the mean drawn again."""
    return _normal("StatelessTruncatedNormal", name or "stateless_truncated_normal", shape, seed, mean, stddev, dtype)


def stateless_multinomial(
    logits: Any, num_samples: Any, seed: Any, output_dtype: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """[rows, num_samples]: classes drawn for each row of logits [rows, classes]; seed: two integers."""
    attrs = {"output_dtype": dtypes.as_dtype(output_dtype)}
    return apply_op("StatelessMultinomial", [logits, num_samples, seed], attrs, name or "stateless_multinomial")


def stateless_categorical(
    logits: Any, num_samples: Any, seed: Any, dtype: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """As stateless_multinomial."""
    return stateless_multinomial(logits, num_samples, seed, dtype, name or "stateless_categorical")


def stateless_split(seed: Any, num: Any = 2, alg: str = "auto_select") -> Tensor:
    """[num, 2]: seeds that follow from one, of its type."""
    seed = convert_to_tensor(seed)
    return stateless_random_uniform([num, 2], seed, None, None, seed.dtype.base_dtype)


def fold_in(seed: Any, data: Any, alg: str = "auto_select") -> Tensor:
    """A seed that follows from one and a number."""
    number = convert_to_tensor(data)
    first = stateless_random_uniform([], seed, None, None, number.dtype.base_dtype)
    return array_join.stack([first, number])


def stateless_shuffle(value: Any, seed: Any, alg: str = "auto_select", name: str | None = None) -> Tensor:
    """value's rows in another order, which depends on the seed, two integers, alone."""
    if alg not in ("auto_select", "philox"):
        raise UnimplementedError(f"stateless_shuffle draws by Philox alone, got alg={alg!r}")
    with get_default_graph().name_scope(name or "stateless_shuffle"):
        key, counter = apply_op("StatelessRandomGetKeyCounter", [seed])
        return apply_op("StatelessShuffle", [value, key, counter, 1 if alg == "philox" else 3])


def _sized(shape: Any) -> Tensor:
    return convert_to_tensor(shape, type_of_tensors(shape, dtypes.int32), "shape")


def stateless_random_gamma(
    shape: Any, seed: Any, alpha: Any, beta: Any = None, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Values of a gamma distribution, of shape alpha and rate beta, which broadcast to `shape`; alpha has gradients."""
    want = dtypes.as_dtype(dtype)
    with get_default_graph().name_scope(name or "stateless_random_gamma"):
        sizes, alpha = _sized(shape), convert_to_tensor(alpha, want, "alpha")
        drawn = apply_op("StatelessRandomGammaV2", [sizes, seed, alpha])
        return drawn if beta is None else math.divide(drawn, convert_to_tensor(beta, want, "beta"))


def stateless_random_poisson(
    shape: Any, seed: Any, lam: Any, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Values of a Poisson distribution of rate lam, which broadcasts to `shape`."""
    with get_default_graph().name_scope(name or "stateless_random_poisson"):
        inputs = [_sized(shape), seed, convert_to_tensor(lam, name="lam")]
        return apply_op("StatelessRandomPoisson", inputs, {"dtype": dtypes.as_dtype(dtype)})


def stateless_random_binomial(
    shape: Any, seed: Any, counts: Any, probs: Any, output_dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """How many of `counts` trials succeed, each with probability `probs`; both broadcast to `shape`."""
    with get_default_graph().name_scope(name or "stateless_random_binomial"):
        probs = convert_to_tensor(probs, preferred_dtype=dtypes.float32, name="probs")
        counts = math.cast(convert_to_tensor(counts, name="counts"), probs.dtype.base_dtype)
        inputs = [_sized(shape), seed, counts, probs]
        return apply_op("StatelessRandomBinomial", inputs, {"dtype": dtypes.as_dtype(output_dtype)})


def stateless_parameterized_truncated_normal(
    shape: Any, seed: Any, means: Any = 0.0, stddevs: Any = 1.0, minvals: Any = -2.0, maxvals: Any = 2.0,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Values of normal distributions between limits; what they are told broadcasts to `shape`."""
    with get_default_graph().name_scope(name or "parameterized_truncated_normal"):
        given = [convert_to_tensor(x) for x in (means, stddevs, minvals, maxvals)]
        return apply_op("StatelessParameterizedTruncatedNormal", [_sized(shape), seed, *given])
