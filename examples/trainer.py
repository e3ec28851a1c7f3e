"""Distributed training by hand, as TensorFlow 1's guide has it: one process a task, each told who it is.

    python examples/trainer.py --ps_hosts=localhost:2222 --worker_hosts=localhost:2223,localhost:2224 \\
        --job_name=ps --task_index=0

and the same with --job_name=worker and --task_index=0 and 1, in any order. The workers train a logistic regression
together, asynchronously, until the global step is --steps; the first one initializes, saves and restores. A parameter
server serves until it is ended. Hosts beside this one need a secret, the same for all tasks: set SPARKFLOW_SECRET.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import sparkflow as tf

WIDTH = 20


def examples_of(rng: np.random.Generator, count: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """(features [count, WIDTH], labels [count, 1]): the label is the sign of the features' mean."""
    x = rng.normal(size=(count, WIDTH)).astype(np.float32)
    return x, (x.mean(1, keepdims=True) > 0).astype(np.float32)


def model(features: Any, labels: Any) -> Any:
    weights = tf.get_variable("weights", [WIDTH, 1], initializer=tf.zeros_initializer())
    bias = tf.get_variable("bias", [1], initializer=tf.zeros_initializer())
    logits = tf.matmul(features, weights) + bias
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def train(cluster: tf.train.ClusterSpec, server: tf.train.Server, flags: argparse.Namespace) -> None:
    worker = f"/job:worker/task:{flags.task_index}"
    with tf.device(tf.train.replica_device_setter(worker_device=worker, cluster=cluster)):
        features, labels = tf.placeholder(tf.float32, [None, WIDTH]), tf.placeholder(tf.float32, [None, 1])
        loss = model(features, labels)
        global_step = tf.contrib.framework.get_or_create_global_step()
        train_op = tf.train.AdagradOptimizer(0.5).minimize(loss, global_step=global_step)
    hooks = [tf.train.StopAtStepHook(last_step=flags.steps)]
    rng, found = np.random.default_rng(flags.task_index), float("nan")
    with tf.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=flags.task_index == 0,
        checkpoint_dir=flags.train_dir,
        hooks=hooks,
    ) as session:
        while not session.should_stop():
            x, y = examples_of(rng)
            _, found = session.run([train_op, loss], feed_dict={features: x, labels: y})
    print(f"worker {flags.task_index}: loss {found:.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ps_hosts", required=True, help="host:port of each parameter server, with commas between")
    parser.add_argument("--worker_hosts", required=True, help="host:port of each worker")
    parser.add_argument("--job_name", choices=["ps", "worker"], required=True)
    parser.add_argument("--task_index", type=int, default=0)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--train_dir", default=None, help="where to save and restore")
    flags = parser.parse_args()
    cluster = tf.train.ClusterSpec({"ps": flags.ps_hosts.split(","), "worker": flags.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=flags.job_name, task_index=flags.task_index)
    if flags.job_name == "ps":
        server.join()
    else:
        train(cluster, server, flags)


if __name__ == "__main__":
    main()
