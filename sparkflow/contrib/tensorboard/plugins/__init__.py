"""tf.contrib.tensorboard.plugins."""

from sparkflow.contrib.tensorboard.plugins import projector
