"""What the examples of TensorFlow import: tf.examples."""

from sparkflow.examples import tutorials
