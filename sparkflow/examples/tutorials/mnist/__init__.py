"""tf.examples.tutorials.mnist: handwritten digits and a network for them."""

from sparkflow.examples.tutorials.mnist import input_data, mnist
