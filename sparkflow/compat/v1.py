"""sparkflow itself, whose names are tf.compat.v1's."""

import sys

import sparkflow

sys.modules[__name__] = sparkflow
