"""tf.examples.tutorials."""

from sparkflow.examples.tutorials import mnist
