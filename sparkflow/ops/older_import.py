"""Ops of TensorFlow 1 and before for which import makes several: a normalization in parts, and the largest values,
where their number is an attribute."""

from __future__ import annotations

from sparkflow.framework.functions import Call, expands
from sparkflow.framework.graph import Tensor
from sparkflow.ops import nn, nn_norm


@expands("BatchNormWithGlobalNormalization", outputs=("result",))
def _normalized(call: Call) -> list[Tensor]:
    x, mean, variance, beta, gamma = call.inputs
    attr = call.node.attr
    scale = gamma if attr["scale_after_normalization"].b else None
    return [nn_norm.batch_normalization(x, mean, variance, beta, scale, attr["variance_epsilon"].f)]


@expands("TopK", outputs=("values", "indices"))
def _largest(call: Call) -> list[Tensor]:
    [values], attr = call.inputs, call.node.attr
    return list(nn.top_k(values, attr["k"].i, attr["sorted"].b if "sorted" in attr else True))
