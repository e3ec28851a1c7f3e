"""tf.bitwise."""

from sparkflow.ops.math_special import bitwise_and, bitwise_or, bitwise_xor, invert, left_shift, right_shift
