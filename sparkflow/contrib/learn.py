"""tf.contrib.learn: what an estimator is told."""

from sparkflow.estimator import Estimator, ModeKeys, RunConfig
