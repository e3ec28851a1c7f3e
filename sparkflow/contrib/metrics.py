"""tf.contrib.metrics: tf.metrics under its older home."""

from sparkflow.metrics import *
