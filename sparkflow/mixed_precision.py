"""tf.mixed_precision: loss scaling."""

from types import SimpleNamespace as _SimpleNamespace

from sparkflow.train.loss_scale import (
    DynamicLossScale,
    FixedLossScale,
    LossScale,
    MixedPrecisionLossScaleOptimizer,
    disable_mixed_precision_graph_rewrite,
    enable_mixed_precision_graph_rewrite,
)

experimental = _SimpleNamespace(DynamicLossScale=DynamicLossScale, FixedLossScale=FixedLossScale, LossScale=LossScale)
__all__ = [
    "DynamicLossScale", "FixedLossScale", "LossScale", "MixedPrecisionLossScaleOptimizer",
    "disable_mixed_precision_graph_rewrite", "enable_mixed_precision_graph_rewrite", "experimental",
]  # fmt: skip
