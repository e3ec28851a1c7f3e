"""What is drawn at random depends on nothing, but for gamma values, which move with their shape parameter."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.broadcast import summed_to
from sparkflow.grads.registry import gradient, not_differentiable
from sparkflow.ops import array, math, math_reduce
from sparkflow.ops.array_join import concat
from sparkflow.ops.array_select import where_v2
from sparkflow.ops.math_special import erfc

not_differentiable("RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal", "RandomShuffle")
not_differentiable("Multinomial", "RandomPoissonV2", "RandomGammaGrad", "StatelessMultinomial")
not_differentiable(*(f"Stateless{kind}" for kind in ("RandomUniform", "RandomUniformInt", "RandomNormal")))
not_differentiable("StatelessTruncatedNormal", "StatelessRandomUniformFullInt", "StatelessRandomGetKeyCounter")
not_differentiable(*(f"Stateless{kind}V2" for kind in ("RandomUniform", "RandomUniformInt", "RandomUniformFullInt")))
not_differentiable("StatelessRandomNormalV2", "StatelessTruncatedNormalV2", "StatelessRandomGetAlg")
not_differentiable("StatelessRandomPoisson", "StatelessRandomBinomial", "StatelessShuffle", "RefRngReadAndSkip")


@gradient("RandomGamma")
def _gamma(op: Operation, dy: Tensor) -> tuple[Any, Any]:
    """Figurnov et al. 2018: a sample moves so that its probability stays."""

    def by_alpha() -> Tensor:
        shape, alpha = op.inputs
        outer = array.size(shape)
        lifted = array.reshape(alpha, concat([array.ones_like(shape), array.shape(alpha, out_type=shape.dtype)], 0))
        slope = apply_op("RandomGammaGrad", [lifted, op.outputs[0]])
        return math_reduce.reduce_sum(math.multiply(dy, slope), math.range(outer))

    return None, by_alpha


@gradient("StatelessRandomGammaV2")
def _stateless_gamma(op: Operation, dy: Tensor) -> tuple[Any, Any, Any]:
    """As RandomGamma's; alpha broadcasts to the samples' shape."""

    def by_alpha() -> Tensor:
        shape, _, alpha = op.inputs
        lifted = array.broadcast_to(alpha, shape)
        return summed_to(math.multiply(dy, apply_op("RandomGammaGrad", [lifted, op.outputs[0]])), alpha)

    return None, None, by_alpha


@gradient("StatelessParameterizedTruncatedNormal")
def _between_limits(op: Operation, dy: Tensor) -> tuple[Any, ...]:
    """Each sample stays at the same part u of the probability between its limits a and b, in standard deviations:
    phi(z) dz = (1 - u) phi(a) da + u phi(b) db."""
    _, _, mean, deviation, low, high = op.inputs
    z, a, b = ((x - mean) / deviation for x in (op.outputs[0], low, high))
    side = where_v2(math.greater(a, 0.0), -1.0, 1.0)  # the tail in which probabilities have the most digits
    side = math.cast(side, dy.dtype)
    below = [erfc(-side * x / 2**0.5) for x in (z, a, b)]
    u = (below[0] - below[1]) / (below[2] - below[1])
    by_low, by_high = (1 - u) * math.exp((z * z - a * a) / 2), u * math.exp((z * z - b * b) / 2)
    found = 1 - by_low - by_high, z - a * by_low - b * by_high, by_low, by_high
    return None, None, *(summed_to(dy * slope, x) for slope, x in zip(found, (mean, deviation, low, high)))
