"""A network of two hidden layers for handwritten digits: inference, loss, training and evaluation as ops."""

from __future__ import annotations

from typing import Any

from sparkflow import losses, nn, summary, train
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, math, math_reduce
from sparkflow.ops.random import truncated_normal
from sparkflow.ops.variables import Variable
from sparkflow_runtime.wire.dtypes import int32

NUM_CLASSES = 10
IMAGE_SIZE = 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE


def _dense(x: Tensor, inputs: int, units: int, scope: str) -> Tensor:
    with get_default_graph().name_scope(scope):
        weights = Variable(truncated_normal([inputs, units], stddev=inputs**-0.5), name="weights")
        biases = Variable(array.zeros([units]), name="biases")
        return math.add(math.matmul(x, weights), biases)


def inference(images: Tensor, hidden1_units: int, hidden2_units: int) -> Tensor:
    """Logits [batch, NUM_CLASSES] of images [batch, IMAGE_PIXELS]."""
    hidden1 = nn.relu(_dense(images, IMAGE_PIXELS, hidden1_units, "hidden1"))
    hidden2 = nn.relu(_dense(hidden1, hidden1_units, hidden2_units, "hidden2"))
    return _dense(hidden2, hidden2_units, NUM_CLASSES, "softmax_linear")


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean cross entropy with labels [batch]."""
    return losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)


def training(loss: Tensor, learning_rate: Any) -> Any:
    """An op that makes one step of gradient descent, counts it in `global_step` and summarizes the loss."""
    summary.scalar("loss", loss)
    step = Variable(0, name="global_step", trainable=False)
    return train.GradientDescentOptimizer(learning_rate).minimize(loss, global_step=step)


def evaluation(logits: Tensor, labels: Tensor) -> Tensor:
    """How many of the labels have the largest logit, an int32 scalar."""
    return math_reduce.reduce_sum(math.cast(nn.in_top_k(logits, labels, 1), int32))
