"""Random values that depend on a seed tensor alone: the same seed gives the same values, in every step and process."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor, type_of_tensors
from sparkflow.framework.constant_value import constant_value, constant_value_as_shape
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import math, rules
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _seeded(op: Operation, at: int) -> None:
    """Raises InvalidArgumentError unless the seed is two numbers."""
    dims = rules.require_rank(op, "seed", op.inputs[at], 1)
    if dims is not None and dims[0] not in (None, 2):
        raise InvalidArgumentError(f"{op.type}: seed must have shape [2], got {list(dims)}")


def _drawn(op: Operation) -> list[Dims]:
    _seeded(op, 1)
    return [constant_value_as_shape(op.inputs[0])]


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
op("StatelessMultinomial", "logits: T, num_samples: int32, seed: Tseed -> output: output_dtype", _classes,
   Tseed=dtypes.int64, output_dtype=dtypes.int64)  # fmt: skip


def stateless_random_uniform(
    shape: Any, seed: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32, name: str | None = None,
    alg: str = "auto_select",
) -> Tensor:  # fmt: skip
    """Values drawn evenly from [minval, maxval), as random_uniform; seed: two integers."""
    want = dtypes.as_dtype(dtype)
    if maxval is None and want.is_integer:
        raise ValueError("Must specify maxval for integer dtype")
    with get_default_graph().name_scope(name or "stateless_random_uniform"):
        sizes = convert_to_tensor(shape, type_of_tensors(shape, dtypes.int32), "shape")
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
