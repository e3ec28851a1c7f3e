"""Random values. Seeds follow TensorFlow's rule: a graph seed, an op seed, or fresh ones where neither is set."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor, type_of_tensors
from sparkflow.framework.constant_value import constant_value_as_shape
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.random_seed import get_seed
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import math, rules
from sparkflow_runtime.wire import dtypes


def _drawn(op: Operation) -> list[Dims]:
    rules.require_rank(op, "shape", op.inputs[0], 1)
    return [constant_value_as_shape(op.inputs[0])]


for _op_type in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
    op(_op_type, "shape: T -> output: dtype", _drawn, stateful=True, seed=0, seed2=0)
op("RandomUniformInt", "shape: T, minval: Tout, maxval: Tout -> output: Tout", _drawn, stateful=True, seed=0, seed2=0)
op("RandomShuffle", "value: T -> output: T", rules.same, stateful=True, seed=0, seed2=0)


def seeds(seed: int | None) -> dict[str, Any]:
    seed1, seed2 = get_seed(seed)
    return {"seed": seed1, "seed2": seed2}


def random_uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Values drawn evenly from [minval, maxval): from [0, 1) for floats; integers need maxval."""
    want = dtypes.as_dtype(dtype)
    if maxval is None and want.is_integer:
        raise ValueError("random_uniform: give maxval for an integer type")
    with get_default_graph().name_scope(name or "random_uniform") as scope:
        sizes = convert_to_tensor(shape, type_of_tensors(shape, dtypes.int32), "shape")
        if want.is_integer:
            return apply_op("RandomUniformInt", [sizes, *_bounds(minval, maxval, want)], seeds(seed), scope)
        attrs = {"dtype": want, **seeds(seed)}
        unit = maxval is None or _is_number(maxval, 1)
        if unit and _is_number(minval, 0):
            return apply_op("RandomUniform", [sizes], attrs)
        low, high = _bounds(minval, 1 if maxval is None else maxval, want)
        drawn = apply_op("RandomUniform", [sizes], attrs)
        return math.add(math.multiply(drawn, math.subtract(high, low, "sub"), "mul"), low, name=scope)


def _is_number(value: Any, number: int) -> bool:
    return isinstance(value, (int, float)) and value == number


def _bounds(low: Any, high: Any, dtype: dtypes.DType) -> tuple[Tensor, Tensor]:
    return convert_to_tensor(low, dtype, "min"), convert_to_tensor(high, dtype, "max")


def _normal(op_type: str, shape: Any, mean: Any, stddev: Any, dtype: Any, seed: int | None, name: str) -> Tensor:
    want = dtypes.as_dtype(dtype)
    with get_default_graph().name_scope(name) as scope:
        sizes = convert_to_tensor(shape, type_of_tensors(shape, dtypes.int32), "shape")
        mean, stddev = convert_to_tensor(mean, want, "mean"), convert_to_tensor(stddev, want, "stddev")
        drawn = apply_op(op_type, [sizes], {"dtype": want, **seeds(seed)})
        return math.add(math.multiply(drawn, stddev, "mul"), mean, name=scope)


def random_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Values drawn from a normal distribution."""
    return _normal("RandomStandardNormal", shape, mean, stddev, dtype, seed, name or "random_normal")


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """As random_normal, with values farther than two standard deviations from the mean drawn again."""
    return _normal("TruncatedNormal", shape, mean, stddev, dtype, seed, name or "truncated_normal")


def random_shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """The rows of a tensor in a random order."""
    return apply_op("RandomShuffle", [value], seeds(seed), name)
