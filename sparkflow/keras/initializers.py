"""tf.keras.initializers: those of tf.initializers, with Keras' names and defaults."""

from sparkflow.ops.init_named import *
from sparkflow.ops.init_named import get
