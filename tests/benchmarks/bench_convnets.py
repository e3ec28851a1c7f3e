"""Whole convolutional nets, forward and in training, on sparkflow or on TensorFlow, which is asked for by name.

    python tests/benchmarks/bench_convnets.py [--backend tensorflow] [--only resnet50] [--rounds 10]

Forward: ResNet-50, MobileNetV2 and DenseNet-121 of 4 images of 224 x 224 with normalisation by given statistics. In
training: a residual net of 20 layers of batches of 64 images of 32 x 32, 16 and 64 channels wide. Prints the least and
the median wall milliseconds of a step and the least processor time, that of all threads: on a busy machine it tells
more than the wall. Values are compared by the tests, not here.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

tf: Any = import_module("tensorflow.compat.v1" if "tensorflow" in sys.argv else "sparkflow")


def weights(shape: list[int]) -> Any:
    deviation = (2 / np.prod(shape[:-1])) ** 0.5
    name = f"w{len(tf.global_variables())}"
    return tf.get_variable(name, shape, initializer=tf.truncated_normal_initializer(stddev=deviation, seed=1))


def conv(h: Any, channels: int, taps: int = 1, stride: int = 1) -> Any:
    return tf.nn.conv2d(h, weights([taps, taps, int(h.shape[-1]), channels]), [1, stride, stride, 1], "SAME")


def depthwise(h: Any, stride: int) -> Any:
    return tf.nn.depthwise_conv2d(h, weights([3, 3, int(h.shape[-1]), 1]), [1, stride, stride, 1], "SAME")


def norm(h: Any, training: bool) -> Any:
    channels, count = int(h.shape[-1]), len(tf.global_variables())
    scale = tf.get_variable(f"s{count}", [channels], initializer=tf.ones_initializer())
    offset = tf.get_variable(f"o{count}", [channels], initializer=tf.zeros_initializer())
    if training:
        return tf.nn.fused_batch_norm(h, scale, offset, is_training=True)[0]
    mean, variance = tf.fill([channels], 0.1), tf.fill([channels], 0.9)
    return tf.nn.fused_batch_norm(h, scale, offset, mean, variance, is_training=False)[0]


def resnet50(h: Any) -> Any:
    h = tf.nn.relu(norm(conv(h, 64, 7, 2), False))
    h = tf.nn.max_pool(h, [1, 3, 3, 1], [1, 2, 2, 1], "SAME")
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            stride, inner = 2 if stage and block == 0 else 1, 64 << stage
            y = tf.nn.relu(norm(conv(h, inner, 1, stride), False))
            y = norm(conv(tf.nn.relu(norm(conv(y, inner, 3), False)), 4 * inner), False)
            h = tf.nn.relu((norm(conv(h, 4 * inner, 1, stride), False) if block == 0 else h) + y)
    return h


def mobilenet_v2(h: Any) -> Any:
    h = tf.nn.relu6(norm(conv(h, 32, 3, 2), False))
    plan = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for wider, channels, blocks, first in plan:
        for block in range(blocks):
            stride, given = first if block == 0 else 1, int(h.shape[-1])
            y = tf.nn.relu6(norm(conv(h, wider * given), False)) if wider > 1 else h
            y = norm(conv(tf.nn.relu6(norm(depthwise(y, stride), False)), channels), False)
            h = h + y if stride == 1 and given == channels else y
    return tf.nn.relu6(norm(conv(h, 1280), False))


def densenet121(h: Any) -> Any:
    h = tf.nn.relu(norm(conv(h, 64, 7, 2), False))
    h = tf.nn.max_pool(h, [1, 3, 3, 1], [1, 2, 2, 1], "SAME")
    for stage, blocks in enumerate((6, 12, 24, 16)):
        for _ in range(blocks):
            y = tf.nn.relu(norm(conv(tf.nn.relu(norm(h, False)), 128), False))
            h = tf.concat([h, conv(y, 32, 3)], 3)
        if stage < 3:
            h = conv(tf.nn.relu(norm(h, False)), int(h.shape[-1]) // 2)
            h = tf.nn.avg_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    return tf.nn.relu(norm(h, False))


def forward(net: Callable[[Any], Any]) -> Callable[[], object]:
    x = tf.placeholder(tf.float32, [None, 224, 224, 3])
    h = tf.reduce_mean(net(x), [1, 2])
    y = tf.nn.softmax(tf.matmul(h, weights([int(h.shape[-1]), 1000])))
    images = np.random.default_rng(0).standard_normal((4, 224, 224, 3)).astype(np.float32)
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return lambda: session.run(y, {x: images})


def residual_training(width: int) -> Callable[[], object]:
    x, labels = tf.placeholder(tf.float32, [None, 32, 32, 3]), tf.placeholder(tf.int64, [None])
    h = tf.nn.relu(norm(conv(x, width, 3), True))
    for stage in range(3):
        for block in range(3):
            stride, channels = 2 if stage and block == 0 else 1, width << stage
            y = norm(conv(tf.nn.relu(norm(conv(h, channels, 3, stride), True)), channels, 3), True)
            h = tf.nn.relu((norm(conv(h, channels, 1, stride), True) if stride == 2 else h) + y)
    logits = tf.matmul(tf.reduce_mean(h, [1, 2]), weights([4 * width, 10]))
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    train = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss)
    rng = np.random.default_rng(0)
    fed = {x: rng.standard_normal((64, 32, 32, 3)).astype(np.float32), labels: rng.integers(0, 10, 64)}
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return lambda: session.run([train, loss], fed)


NETS: dict[str, Callable[[], Callable[[], object]]] = {
    "resnet50": lambda: forward(resnet50),
    "mobilenet_v2": lambda: forward(mobilenet_v2),
    "densenet121": lambda: forward(densenet121),
    "residual_16": lambda: residual_training(16),
    "residual_64": lambda: residual_training(64),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["sparkflow", "tensorflow"], default="sparkflow")
    parser.add_argument("--only", choices=list(NETS))
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    for name in [args.only] if args.only else NETS:
        with tf.Graph().as_default():
            step = NETS[name]()
            for _ in range(4):
                step()
            taken = np.empty((args.rounds, 2))
            for times in taken:
                wall, processor = time.perf_counter(), time.process_time()
                step()
                times[:] = time.perf_counter() - wall, time.process_time() - processor
        least, median = taken.min(0) * 1e3, np.median(taken[:, 0]) * 1e3
        print(
            f"{args.backend:11}{name:14} wall {least[0]:7.1f} least {median:7.1f} median, cpu {least[1]:7.1f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
