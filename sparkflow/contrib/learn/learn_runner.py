"""tf.contrib.learn.learn_runner: runs an Experiment."""

from sparkflow.contrib.learn.experiment import run
