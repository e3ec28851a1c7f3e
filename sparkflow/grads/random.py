"""What is drawn at random depends on nothing, but for gamma values, which move with their shape parameter."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import gradient, not_differentiable
from sparkflow.ops import array, math, math_reduce
from sparkflow.ops.array_join import concat

not_differentiable("RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal", "RandomShuffle")
not_differentiable("Multinomial", "RandomPoissonV2", "RandomGammaGrad", "StatelessMultinomial")
not_differentiable(*(f"Stateless{kind}" for kind in ("RandomUniform", "RandomUniformInt", "RandomNormal")))
not_differentiable("StatelessTruncatedNormal")


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
