"""tf.contrib.signal: what became tf.signal."""

from sparkflow.signal import *
