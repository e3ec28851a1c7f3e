"""tf.tpu: what programs that can also train on TPUs name. There are none here: one shard stands for all.

Source: tensorflow/python/tpu/tpu_optimizer.py.
"""

from __future__ import annotations

from typing import Any

from sparkflow import logging
from sparkflow.framework.graph import Tensor
from sparkflow.losses import Reduction
from sparkflow.train.optimizer import GradsAndVars, Optimizer
from sparkflow.train.wrapped_optimizer import WrappedOptimizer


class CrossShardOptimizer(WrappedOptimizer):
    """Another optimizer, whose gradients are summed over the shards of a TPU; of the one shard here, itself.

    Raises ValueError where reduction is neither SUM nor MEAN, TypeError where opt is no Optimizer.
    """

    def __init__(
        self, opt: Optimizer, reduction: str = Reduction.MEAN, name: str = "CrossShardOptimizer",
        group_assignment: Any = None,
    ):  # fmt: skip
        accepted = (Reduction.SUM, Reduction.MEAN)
        if reduction not in accepted:
            raise ValueError(f"Argument `reduction` should be one of {accepted}. Received: {reduction}")
        if not isinstance(opt, Optimizer):
            raise TypeError(f"CrossShardOptimizer only works with tf.train.Optimizer. Received: {opt}")
        super().__init__(opt, name)

    def compute_gradients(self, *args: Any, **kwargs: Any) -> GradsAndVars:
        logging.warning("CrossShardOptimizer: there are no TPUs here; the gradients are those of one shard.")
        return super().compute_gradients(*args, **kwargs)


def cross_replica_sum(x: Tensor, group_assignment: Any = None, name: str | None = None) -> Tensor:
    """The sum over the shards: of one, what it has."""
    return x


class TpuContext:
    """What a step's shards are told; without TPUs there are none."""

    number_of_shards: int | None = None


def get_tpu_context() -> TpuContext:
    return TpuContext()
