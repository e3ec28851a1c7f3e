"""tf.contrib.losses: tf.losses under its older home."""

from sparkflow.losses import *
