"""tf.flags: absl's flags, which TensorFlow's were."""

from absl.flags import *
from absl.flags import FLAGS
