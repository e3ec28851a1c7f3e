"""tf.contrib.training: sets of hyperparameters, train ops, evaluations of checkpoints."""

from __future__ import annotations

from sparkflow.contrib.bucketing import bucket, bucket_by_sequence_length
from sparkflow.contrib.evaluation import (
    StopAfterNEvalsHook,
    SummaryAtEndHook,
    checkpoints_iterator,
    evaluate_once,
    evaluate_repeatedly,
    get_or_create_eval_step,
)
from sparkflow.contrib.hparam import HParams, parse_values
from sparkflow.contrib.train_ops import (
    add_gradients_summaries,
    clip_gradient_norms,
    clip_gradient_norms_fn,
    create_train_op,
    multiply_gradients,
)
from sparkflow.contrib.train_ops import run_training as train
from sparkflow.train.checkpoint_watch import wait_for_new_checkpoint
from sparkflow.train.device_setter import GreedyLoadBalancingStrategy, byte_size_load_fn
