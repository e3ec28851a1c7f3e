"""Learning rates that depend on the global step. Each is a scalar of the first rate's dtype."""

from __future__ import annotations

import math as numbers
from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import math, random
from sparkflow.ops.control_flow_cond import case, cond
from sparkflow_runtime.wire.dtypes import int32, int64


def _schedule(
    label: str,
    name: str | None,
    learning_rate: Any,
    global_step: Any,
    steps: Any,
    factor: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> Tensor:
    """factor(rate, step, steps) under a scope of its own, all three of the rate's dtype."""
    if global_step is None:
        raise ValueError(f"global_step is required for {label}.")
    with get_default_graph().name_scope(name or "".join(word.title() for word in label.split("_"))) as scope:
        rate = _rate(learning_rate)
        step, steps = (math.cast(value, rate.dtype) for value in (global_step, steps))
        return math.multiply(rate, factor(rate, step, steps), name=scope)


def _rate(learning_rate: Any) -> Tensor:
    """Raises TypeError on whole numbers: what becomes of them would be 0 after the first step."""
    rate = convert_to_tensor(learning_rate, name="learning_rate")
    if not rate.dtype.is_floating:
        raise TypeError(f"learning_rate must be a float, got {learning_rate!r} of {rate.dtype.name}")
    return rate


def _done(step: Tensor, steps: Tensor, staircase: bool) -> Tensor:
    """How many times `steps` have passed, whole times where staircase."""
    times = math.real_div(step, steps)
    return math.floor(times) if staircase else times


def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate * decay_rate ** (global_step / decay_steps); staircase rounds the exponent down."""

    def factor(rate: Tensor, step: Tensor, steps: Tensor) -> Tensor:
        return math.pow(math.cast(decay_rate, rate.dtype), _done(step, steps, staircase))

    return _schedule("exponential_decay", name, learning_rate, global_step, decay_steps, factor)


def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate * exp(-decay_rate * global_step / decay_steps); staircase rounds the quotient down."""

    def factor(rate: Tensor, step: Tensor, steps: Tensor) -> Tensor:
        return math.exp(math.negative(math.cast(decay_rate, rate.dtype)) * _done(step, steps, staircase))

    return _schedule("natural_exp_decay", name, learning_rate, global_step, decay_steps, factor)


def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate / (1 + decay_rate * global_step / decay_steps); staircase rounds the quotient down."""

    def factor(rate: Tensor, step: Tensor, steps: Tensor) -> Tensor:
        return 1.0 / (math.cast(decay_rate, rate.dtype) * _done(step, steps, staircase) + 1.0)

    return _schedule("inverse_time_decay", name, learning_rate, global_step, decay_steps, factor)


def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Tensor:
    """From learning_rate to end_learning_rate as (1 - global_step / decay_steps) ** power.

    After decay_steps the rate stays at its end, or, with cycle, rises again, to decay over the next multiple of
    decay_steps.
    """
    if global_step is None:
        raise ValueError("global_step is required for polynomial_decay.")
    with get_default_graph().name_scope(name or "PolynomialDecay") as scope:
        rate = _rate(learning_rate)
        step, steps, end, power = (
            math.cast(v, rate.dtype) for v in (global_step, decay_steps, end_learning_rate, power)
        )
        if cycle:
            steps = steps * math.maximum(math.ceil(step / steps), 1.0)
        else:
            step = math.minimum(step, steps)
        left = math.pow(1.0 - step / steps, power)
        return math.add((rate - end) * left, end, name=scope)


def cosine_decay(
    learning_rate: Any, global_step: Any, decay_steps: Any, alpha: Any = 0.0, name: str | None = None
) -> Tensor:
    """From learning_rate to alpha * learning_rate along half a cosine. Source: Loshchilov and Hutter 2016."""

    def factor(rate: Tensor, step: Tensor, steps: Tensor) -> Tensor:
        wave = 0.5 * (1.0 + math.cos(numbers.pi * (math.minimum(step, steps) / steps)))
        return (1 - alpha) * wave + alpha

    return _schedule("cosine_decay", name, learning_rate, global_step, decay_steps, factor)


def linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    num_periods: Any = 0.5,
    alpha: Any = 0.0,
    beta: Any = 0.001,
    name: str | None = None,
) -> Tensor:
    """learning_rate * ((alpha + what is left of decay_steps) * a cosine of num_periods + beta). Source: Bello et
    al. 2017."""

    def factor(rate: Tensor, step: Tensor, steps: Tensor) -> Tensor:
        step = math.minimum(step, steps)
        wave = 0.5 * (1.0 + math.cos(numbers.pi * (2.0 * num_periods * (step / steps))))
        return (alpha + (steps - step) / steps) * wave + beta

    return _schedule("linear_cosine_decay", name, learning_rate, global_step, decay_steps, factor)


def noisy_linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    initial_variance: Any = 1.0,
    variance_decay: Any = 0.55,
    num_periods: Any = 0.5,
    alpha: Any = 0.0,
    beta: Any = 0.001,
    name: str | None = None,
) -> Tensor:
    """linear_cosine_decay with noise on what is left of the steps, of variance initial_variance / (1 +
    step)^variance_decay."""

    def factor(rate: Tensor, step: Tensor, steps: Tensor) -> Tensor:
        step = math.minimum(step, steps)
        deviation = math.sqrt(initial_variance / math.pow(1.0 + step, variance_decay))
        noise = deviation * random.random_normal([], dtype=step.dtype)
        wave = 0.5 * (1.0 + math.cos(numbers.pi * (2.0 * num_periods * (step / steps))))
        return (alpha + (steps - step) / steps + noise) * wave + beta

    return _schedule("noisy_linear_cosine_decay", name, learning_rate, global_step, decay_steps, factor)


def cosine_decay_restarts(
    learning_rate: Any,
    global_step: Any,
    first_decay_steps: Any,
    t_mul: Any = 2.0,
    m_mul: Any = 1.0,
    alpha: Any = 0.0,
    name: str | None = None,
) -> Tensor:
    """Half a cosine again and again: each t_mul times as long as the one before, its peak m_mul times as high."""
    label = name or "SGDRDecay"

    def factor(rate: Tensor, step: Tensor, steps: Tensor) -> Tensor:
        longer, higher = math.cast(t_mul, rate.dtype), math.cast(m_mul, rate.dtype)
        done = step / steps

        def alike() -> tuple[Tensor, Tensor]:
            restarts = math.floor(done)
            return restarts, done - restarts

        def growing() -> tuple[Tensor, Tensor]:
            restarts = math.floor(math.log(1.0 - done * (1.0 - longer)) / math.log(longer))
            before = (1.0 - math.pow(longer, restarts)) / (1.0 - longer)
            return restarts, (done - before) / math.pow(longer, restarts)

        restarts, part = cond(math.equal(longer, 1.0), alike, growing)
        wave = 0.5 * math.pow(higher, restarts) * (1.0 + math.cos(numbers.pi * part))
        return (1 - alpha) * wave + alpha

    return _schedule("cosine_decay_restarts", label, learning_rate, global_step, first_decay_steps, factor)


def piecewise_constant(x: Any, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None) -> Tensor:
    """values[0] while x <= boundaries[0], values[i] while boundaries[i - 1] < x <= boundaries[i], the last one after.

    x: a scalar, of the boundaries' type (an int64 x may have int32 ones). Raises ValueError unless values has one more
    entry than boundaries, all of one type.
    """
    if len(boundaries) != len(values) - 1:
        raise ValueError(
            f"The length of boundaries should be 1 less than the length of values, got {len(boundaries)} "
            f"and {len(values)}"
        )
    with get_default_graph().name_scope(name or "PiecewiseConstant"):
        x = convert_to_tensor(x)
        bounds = [_bound(b, x) for b in boundaries]
        results = [convert_to_tensor(v) for v in values]
        for value in results:
            if value.dtype.base_dtype is not results[0].dtype.base_dtype:
                types = f"{results[0].dtype.name} vs {value.dtype.name}"
                raise ValueError(f"Values must have elements all with the same dtype ({types}).")
        pairs = [(math.less_equal(x, bounds[0]), _giving(results[0]))] if bounds else []
        if bounds:
            pairs.append((math.greater(x, bounds[-1]), _giving(results[-1])))
        for low, high, value in zip(bounds[:-1], bounds[1:], results[1:-1]):
            pairs.append((math.logical_and(math.greater(x, low), math.less_equal(x, high)), _giving(value)))
        return case(pairs, default=_giving(results[0]), exclusive=True) if pairs else results[0]


piecewise_constant_decay = piecewise_constant


def _bound(value: Any, x: Tensor) -> Tensor:
    bound = convert_to_tensor(value)
    if bound.dtype.base_dtype is int32 and x.dtype.base_dtype is int64:
        return math.cast(bound, int64)
    if bound.dtype.base_dtype is not x.dtype.base_dtype:
        raise ValueError(
            f"Boundaries ({bound.dtype.base_dtype.name}) must have the same dtype as x ({x.dtype.base_dtype.name})."
        )
    return bound


def _giving(value: Tensor) -> Callable[[], Tensor]:
    return lambda: value
