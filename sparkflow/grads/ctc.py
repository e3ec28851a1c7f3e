"""The gradient of CTC's loss, which its kernel finds with the loss."""

from __future__ import annotations

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import gradient, not_differentiable
from sparkflow.ops import array, math


@gradient("CTCLoss", partial=True)
def _loss(op: Operation, dloss: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, None, None, None]:
    """The second output is d loss / d inputs; its own gradient is refused."""
    if dloss is None:
        return None, None, None, None
    said = "Currently there is no way to take the second derivative of ctc_loss"
    held = apply_op("PreventGradient", [op.outputs[1]], {"message": said})
    return math.multiply(array.reshape(dloss, [1, -1, 1]), held), None, None, None


not_differentiable("CTCGreedyDecoder", "CTCBeamSearchDecoder", "EditDistance")
