"""What TensorFlow 1 kept in tf.contrib and programs still ask for there."""

from sparkflow.contrib import framework, training
