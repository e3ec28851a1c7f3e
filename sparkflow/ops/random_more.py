"""Random classes, and values of gamma and Poisson distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value, constant_value_as_shape
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, broadcasting, math, rules
from sparkflow.ops.random import seeds
from sparkflow_runtime.wire import dtypes

_SEEDS: dict[str, Any] = {"stateful": True, "seed": 0, "seed2": 0}


def _classes(op: Operation) -> list[Dims]:
    rows, _ = rules.require_matrix(op, "logits", op.inputs[0])
    rules.require_rank(op, "num_samples", op.inputs[1], 0)
    count = constant_value(op.inputs[1])
    return [(rows, None if count is None else int(count))]


def _each(op: Operation) -> list[Dims]:
    """shape, and then that of the parameter."""
    outer, inner = constant_value_as_shape(op.inputs[0]), op.inputs[1]._shape
    return [None if outer is None or inner is None else outer + inner]


_CLASSES = "logits: T, num_samples: int32 -> output: output_dtype"
op("Multinomial", _CLASSES, _classes, output_dtype=dtypes.int64, **_SEEDS)
op("RandomGamma", "shape: S, alpha: T -> output: T", _each, **_SEEDS)
op("RandomPoissonV2", "shape: S, rate: R -> output: dtype", _each, R=dtypes.float64, dtype=dtypes.int64, **_SEEDS)


def multinomial(
    logits: Any, num_samples: Any, seed: int | None = None, name: str | None = None, output_dtype: Any = None
) -> Tensor:
    """[rows, num_samples]: classes drawn for each row of logits [rows, classes], unnormalized log-probabilities."""
    want = dtypes.as_dtype(output_dtype or dtypes.int64)
    if want not in (dtypes.int32, dtypes.int64):
        raise ValueError(f"multinomial: dtype must be int32 or int64, got {want}")
    with get_default_graph().name_scope(name or "multinomial"):
        return apply_op("Multinomial", [logits, num_samples], {"output_dtype": want, **seeds(seed)})


def categorical(
    logits: Any, num_samples: Any, dtype: Any = None, seed: int | None = None, name: str | None = None
) -> Tensor:
    """As multinomial."""
    return multinomial(logits, num_samples, seed, name or "categorical", dtype)


def random_gamma(
    shape: Any, alpha: Any, beta: Any = None, dtype: Any = dtypes.float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """[*shape, *alpha's with beta's shape]: gamma values of shape alpha and rate beta (1); alpha gets gradients."""
    want = dtypes.as_dtype(dtype)
    with get_default_graph().name_scope(name or "random_gamma"):
        sizes = convert_to_tensor(shape, dtypes.int32, "shape")
        alpha = convert_to_tensor(alpha, want, "alpha")
        beta = convert_to_tensor(1 if beta is None else beta, want, "beta")
        both = broadcasting.broadcast_dynamic_shape(array.shape(alpha), array.shape(beta))
        drawn = apply_op("RandomGamma", [sizes, array.broadcast_to(alpha, both)], seeds(seed))
        tiny = convert_to_tensor(float(np.finfo(want.np).tiny), want)
        return math.maximum(tiny, math.divide(drawn, beta))


def random_poisson(
    lam: Any, shape: Any, dtype: Any = dtypes.float32, seed: int | None = None, name: str | None = None
) -> Tensor:
    """[*shape, *lam's shape]: counts of events of which there are lam on average."""
    with get_default_graph().name_scope(name or "random_poisson"):
        sizes = convert_to_tensor(shape, dtypes.int32, "shape")
        return apply_op("RandomPoissonV2", [sizes, lam], {"dtype": dtypes.as_dtype(dtype), **seeds(seed)})
