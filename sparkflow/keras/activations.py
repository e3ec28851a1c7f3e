"""tf.keras.activations: functions of tensors, by name too."""

from sparkflow.ops.activations import *
from sparkflow.ops.activations import get
